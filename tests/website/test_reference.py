"""The reference has every public name, and the page of environment variables all of those."""

import re
import types
from pathlib import Path

import pytest
from tests.formalities.public_names import public_modules

import gradtape as gt
from website import environment, reference

ROOT = Path(__file__).resolve().parents[2]
LISTED = reference.listed()


def test_every_public_name_is_in_the_reference():
    everywhere = {name for names in LISTED.values() for name in names}
    missing = [
        f"{module}.{name}"
        for module, found in reference.namespaces().items()
        for name in getattr(found, "__all__", ())
        if not isinstance(getattr(found, name), types.ModuleType)
        and f"{module}.{name}" not in everywhere
    ]
    assert not missing, "give docs/reference/ a page with: <!-- names of MODULE -->"


def test_namespaces_are_those_of_the_public_surface():
    # Modules of a package that are not reached through exports hold no names of their own.
    reached = {id(module) for module in reference.namespaces().values()}
    things = {id(reference.found(name)) for names in LISTED.values() for name in names}
    top = [module for module in public_modules() if module.__name__.count(".") == 1]
    for module in top:
        if id(module) not in reached and module.__name__ != "gradtape.version":
            own = [
                name for name in getattr(module, "__all__", ()) if getattr(gt, name, None) is None
            ]
            hidden = [name for name in own if id(getattr(module, name)) not in things]
            assert not hidden, (
                f"{module.__name__} exports {hidden}, which no page of the reference has"
            )


@pytest.mark.parametrize("page", LISTED)
def test_entries_have_heading_signature_and_sentence(page):
    text = reference.fill((reference.PAGES / page).read_text("utf-8"), page)
    assert not reference.DIRECTIVE.search(text)
    assert " at 0x" not in text
    for name in LISTED[page]:
        own = reference.short(name)
        link = f"](names/{reference.files()[own]})" if own in reference.own_names() else None
        entry = link or f"{{ #{reference.anchor(own)} }}"
        assert text.count(entry) == 1, f"{own} has no entry, or two"


def test_entry_of_a_function_and_of_a_class():
    sine = reference.entry("gradtape.sin")
    assert sine.startswith("### `gt.sin` { #gt.sin }\n\n```python\ngt.sin(x, /)\n```\n\nSine")
    assert "```pycon\n>>> float(gt.sin(0.0))\n0.0\n```" in sine
    tape = reference.entry("gradtape.GradientTape")
    assert "{ #gt.GradientTape.batch_jacobian }" in tape
    assert "self" not in re.findall(r"\.gradient\((.*?)\)", tape)[0]


def test_new_names_land_on_the_page_of_other_names():
    assert "gradtape.pi" in LISTED["other.md"]


def test_environment_variables_are_documented():
    text = (ROOT / "docs" / "environment.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `([A-Z_]+)`", text, re.MULTILINE))
    assert documented == environment.variables_read()


def test_environment_variables_are_found():
    read = environment.variables_read()
    assert {"GRADTAPE_JIT", "GRADTAPE_NUM_THREADS", "OMP_NUM_THREADS", "XDG_CACHE_HOME"} <= read
    assert "SC_PHYS_PAGES" not in read
