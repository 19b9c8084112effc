"""Every public name has a page: signature, parameters with meanings, returns, an example."""

import inspect
import tomllib

import pytest

from website import name_pages, reference

NAMES = reference.own_names()
DOCUMENTED = {
    own: thing
    for own, name in NAMES.items()
    if reference.is_documented(thing := reference.found(name))
}


@pytest.fixture(scope="module")
def pages():
    return {path.rpartition("/")[2]: text for path, text in name_pages.pages()}


def test_each_name_has_a_page_of_its_own(pages):
    files = reference.files()
    assert set(files) == set(NAMES)
    assert len({file.lower() for file in files.values()}) == len(NAMES) == len(pages)


def test_every_parameter_has_a_meaning():
    missing = [
        f"{own}({name})"
        for own, thing in DOCUMENTED.items()
        if own not in name_pages.MADE_BY
        for name, meaning in name_pages.meanings(own, thing).items()
        if not meaning
    ]
    assert not missing, "write them into website/parameters.toml, or into the docstring's table"


def test_every_page_has_signature_returns_and_example(pages):
    faults = []
    for own, thing in DOCUMENTED.items():
        text = pages[reference.files()[own]]
        try:
            signature = inspect.signature(thing)
        except (TypeError, ValueError):
            signature = None
        parts = {"## Examples\n\n```pycon": True}
        if own not in name_pages.MADE_BY and signature is not None:
            parts[f"```python\n{own}("] = True
            parts["## Parameters"] = bool(signature.parameters)
            parts["## Returns"] = inspect.isfunction(thing)
        faults += [
            f"{own}: {part!r}" for part, wanted in parts.items() if wanted and part not in text
        ]
        assert " at 0x" not in text
    assert not faults


def test_meanings_and_names_elsewhere_belong_to_public_names():
    known = set(NAMES) | {"common", "returns", "see"}
    assert set(name_pages.texts()) <= known
    assert set(name_pages.texts()["returns"]) <= set(NAMES)
    assert set(name_pages.elsewhere()) <= set(NAMES)
    for group in name_pages.texts()["see"]["groups"]:
        assert set(group) <= set(NAMES)


def test_meanings_are_of_parameters_that_exist():
    idle = [
        f"{own}({name})"
        for own, table in name_pages.texts().items()
        if own in DOCUMENTED
        for name in table
        if name not in inspect.signature(DOCUMENTED[own]).parameters
    ]
    assert not idle


def test_derivative_shows_values_at_a_kink(pages):
    text = pages["gt.relu.md"]
    assert "| x | -2 | -1 | 0 | 0.5 | 1 | 2 |" in text
    assert "| derivative | 0 | 0 | 0 | 1 | 1 | 1 |" in text
    assert "None: argmax gives integers" in pages["gt.argmax.md"]


def test_names_elsewhere_is_sorted_toml():
    text = (name_pages.HERE / "names_elsewhere.toml").read_text("utf-8")
    assert list(tomllib.loads(text)) == sorted(name_pages.elsewhere())


def test_classes_show_their_fields_before_they_are_used():
    """Those of `gradtape.records` have no signature until then."""
    late = [own for own, thing in DOCUMENTED.items() if hasattr(thing, "is_first")]
    late += [own for own, thing in DOCUMENTED.items() if hasattr(thing.__init__, "is_first")]
    assert not late
