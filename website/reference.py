"""The API reference: every public name with its signature and docstring, as Markdown.

The docstrings are read from the running library and not from its source, because those of
element-wise functions are generated. A page of docs/reference/ says which names it holds:

    <!-- names of gradtape from gradtape.ops.arrays gradtape.tensor -->
    <!-- names of gradtape.linalg -->

A name of `gradtape` itself goes to the page that names the folder it is imported from. Names that
no page claims, also those of other modules, go to docs/reference/other.md, at the place of
`<!-- other names of gradtape -->`.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import gradtape as gt

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
DIRECTIVE = re.compile(
    r"^<!-- (?P<other>other )?names of (?P<module>[\w.]+)(?: from (?P<folders>[\w. ]+?))? -->$",
    re.M,
)


@lru_cache(maxsize=1)
def namespaces() -> dict[str, types.ModuleType]:
    """gradtape and the modules that can be reached through what it exports, by dotted name."""
    found: dict[str, types.ModuleType] = {}

    def visit(name: str, module: types.ModuleType) -> None:
        found[name] = module
        # tf.losses is tf.keras.losses: a module that has two names is listed under Keras.
        for own in sorted(getattr(module, "__all__", ()), key=lambda own: own != "keras"):
            inner = getattr(module, own)
            if isinstance(inner, types.ModuleType) and inner not in found.values():
                visit(f"{name}.{own}", inner)

    visit("gradtape", gt)
    return found


def short(name: str) -> str:
    """The name as users write it: `gt.sin`, `tf.math.sin`."""
    if name == "gradtape.tf" or name.startswith("gradtape.tf."):
        return name.removeprefix("gradtape.")
    return "gt" + name.removeprefix("gradtape")


@lru_cache(maxsize=1)
def homes() -> dict[str, str]:
    """The module from which gradtape imports each of its names, also those it imports later."""
    tree = ast.parse(Path(inspect.getfile(gt)).read_text("utf-8"))
    return {
        alias.asname or alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def listed() -> dict[str, list[str]]:
    """The dotted names on each page of the reference."""
    taken: set[str] = set()
    pages = {path.name: path.read_text("utf-8") for path in sorted(PAGES.glob("*.md"))}
    found = {name: _claimed(text, taken) for name, text in pages.items()}
    everything = [f"{name}.{own}" for name, module in namespaces().items() for own in _own(module)]
    rest = [name for name in everything if name not in taken]
    for name, text in pages.items():
        if any(match["other"] for match in DIRECTIVE.finditer(text)):
            found[name] += rest
    return {name: names for name, names in found.items() if names}


def _claimed(text: str, taken: set[str]) -> list[str]:
    found = []
    for match in DIRECTIVE.finditer(text):
        if not match["other"]:
            found += _selected(match)
    taken.update(found)
    return found


def _selected(match: re.Match[str]) -> list[str]:
    module, folders = match["module"], (match["folders"] or "").split()
    names = _own(namespaces()[module])
    if folders:
        names = [
            name
            for name in names
            if any((homes().get(name, "") + ".").startswith(folder + ".") for folder in folders)
        ]
    return [f"{module}.{name}" for name in names]


def _own(module: types.ModuleType) -> list[str]:
    """What a module exports, without the modules that have entries of their own."""
    return sorted(
        (
            name
            for name in getattr(module, "__all__", ())
            if not isinstance(getattr(module, name), types.ModuleType)
        ),
        key=lambda name: (not name[:1].isupper(), name.lower()),
    )


def fill(text: str, page: str) -> str:
    """A page of the reference with its directives replaced by entries."""

    def entries(match: re.Match[str]) -> str:
        if match["other"]:
            claimed = set(_claimed(text, set()))
            names = [name for name in listed().get(page, []) if name not in claimed]
        else:
            names = _selected(match)
        return contents(names) + "\n\n" + "\n\n".join(entry(name) for name in names)

    return DIRECTIVE.sub(entries, text)


def contents(names: list[str]) -> str:
    """A line of links to the entries of a page."""
    links = " · ".join(
        f"[`{short(name).rpartition('.')[2]}`](#{anchor(short(name))})" for name in names
    )
    return f'<div class="names" markdown>\n\n{links}\n\n</div>' if names else ""


def anchor(own: str) -> str:
    """The anchor of an entry. Markdown does not take ids with two underscores."""
    return own.replace("__", "")


def found(name: str) -> object:
    module, _, own = name.rpartition(".")
    return getattr(namespaces()[module], own)


@lru_cache(maxsize=1)
def first_names() -> dict[int, str]:
    """The first dotted name of each thing that has several."""
    seen: dict[int, str] = {}
    for names in listed().values():
        for name in names:
            seen.setdefault(id(found(name)), name)
    return seen


@lru_cache(maxsize=1)
def page_of_names() -> dict[str, str]:
    """Short names to the page that has them."""
    return {short(name): page for page, names in listed().items() for name in names}


def entry(name: str) -> str:
    """Heading, signature and docstring of one public name, and of its methods if it is a class."""
    thing = found(name)
    own = short(name)
    heading = f"### `{own}` {{ #{anchor(own)} }}"
    first = first_names().get(id(thing), name)
    if first != name and callable(thing):
        page = page_of_names()[short(first)]
        return f"{heading}\n\nThe same as [`{short(first)}`]({page}#{anchor(short(first))})."
    if not callable(thing) or _of_numpy(thing):
        return f"{heading}\n\n{_constant(thing)}"
    parts = [heading, _signature(own, thing), _document(thing)]
    if inspect.isclass(thing):
        parts += [method(own, thing, member) for member in methods(thing)]
    return "\n\n".join(part for part in parts if part)


def methods(cls: type) -> Iterator[str]:
    """Public methods and properties that the class, or a base of ours, defines."""
    for name in sorted(dir(cls)):
        owner = next((base for base in cls.__mro__ if name in vars(base)), object)
        if name.startswith("_") or not owner.__module__.startswith("gradtape"):
            continue
        # Inherited ones are in the entry of the base; layers of Keras have dozens.
        if owner is not cls and len(cls.__mro__) > 2 and _listed(owner):
            continue
        member = inspect.getattr_static(cls, name)
        documented = callable(member) or isinstance(member, property | classmethod | staticmethod)
        if documented and getattr(member, "__doc__", None):
            yield name


def _listed(cls: type) -> bool:
    return id(cls) in first_names()


def method(owner: str, cls: type, name: str) -> str:
    member = inspect.getattr_static(cls, name)
    own = f"{owner}.{name}"
    heading = f"#### `{own.rpartition('.')[0].rpartition('.')[2]}.{name}` {{ #{anchor(own)} }}"
    if isinstance(member, property):
        return f"{heading}\n\n{_document(member)}"
    inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    bound = not isinstance(member, staticmethod)
    return f"{heading}\n\n{_signature(f'.{name}', inner, bound)}\n\n{_document(inner)}"


def _signature(name: str, thing: object, bound: bool = False) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = list(signature.parameters.values())
    if bound and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    # Types are in the docstring where they matter; names and defaults are what people look up.
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    plain = [
        parameter.replace(default=_Shown(parameter.default))
        if parameter.default is not inspect.Parameter.empty
        else parameter
        for parameter in plain
    ]
    text = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return f"```python\n{name}{text}\n```"


class _Shown:
    """A default value, shown without addresses of memory."""

    def __init__(self, value: object) -> None:
        text = repr(value)
        self.text = getattr(value, "__name__", "…") if " at 0x" in text or "<" in text else text

    def __repr__(self) -> str:
        return self.text


def _document(thing: object) -> str:
    """The docstring as Markdown: examples become blocks of code."""
    text = inspect.cleandoc(getattr(thing, "__doc__", None) or "")
    parts, example = [], []
    for line in [*text.split("\n"), ""]:
        if line.startswith(">>>") or (example and line.strip()):
            example.append(line)
            continue
        if example:
            parts.append("```pycon\n" + "\n".join(example) + "\n```")
            example = []
        parts.append(line)
    return "\n".join(parts).strip()


def _of_numpy(thing: object) -> bool:
    return (getattr(thing, "__module__", None) or "").split(".")[0] == "numpy"


def _constant(thing: object) -> str:
    if _of_numpy(thing):
        return f"NumPy's `{getattr(thing, '__name__', thing)}`."
    return (
        f"`{thing!r}`"
        if " at 0x" not in repr(thing)
        else f"An object of class `{type(thing).__name__}`."
    )
