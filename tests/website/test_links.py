"""Links, names and pictures as the site needs them."""

from website.links import linked_names, rebased, with_pictures


def test_links_are_translated_for_the_site():
    text = (
        "[a](../examples/gallery/hmc.py) [b](../CHANGELOG.md#x) [c](jacobians.md#sparse) [d](x.txt)"
    )
    assert rebased(text, "docs/scipy.md", "scipy.md") == (
        "[a](gallery/hmc.md) [b](changelog.md#x) [c](jacobians.md#sparse) [d](x.txt)"
    )
    assert rebased("[a](../tape.md)", "docs/questions/q.md", "questions/q.md") == "[a](../tape.md)"
    assert rebased("[a](docs/tape.md)", "CONTRIBUTING.md", "contributing.md") == "[a](tape.md)"
    assert rebased("[all](examples/gallery/)", "README.md", "index.md") == "[all](gallery/index.md)"


def test_names_lead_to_the_reference():
    text = (
        "# `gt.sin`\n\n`gt.sin(x)` and `gt.nothing`, [`gt.cos`](x.md)\n\n```python\n`gt.sin`\n```\n"
    )
    found = linked_names(text, "questions/q.md")
    link = "[`gt.sin(x)`](../reference/names/gt.sin.md)"
    assert found == text.replace("`gt.sin(x)`", link)


def test_pictures_stand_in_the_page(tmp_path):
    (tmp_path / "a.svg").write_text('<svg viewBox="0 0 1 1"></svg>\n', "utf-8")
    found = with_pictures("![A dot](a.svg)", tmp_path)
    assert 'aria-label="A dot"' in found
    assert '<svg role="img" viewBox="0 0 1 1">' in found
