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
from importlib import import_module
from pathlib import Path

import gradtape as gt

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
# Signatures of more characters are written on several lines.
WIDE = 88
MODULES = re.compile(r"\b(?:gradtape|collections|typing|numpy|np|concurrent|futures)\.(?:\w+\.)*")
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
        own: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        for own in (
            import_module(node.module or "").__all__
            if alias.name == "*"
            else [alias.asname or alias.name]
        )
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
        ours = [name for name in names if short(name).startswith("gt.")]
        others = [name for name in names if name not in ours]
        parts = [overview(ours), contents(others), *(entry(name) for name in others)]
        return "\n\n".join(part for part in parts if part)

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
def own_names() -> dict[str, str]:
    """Short names of gradtape itself, each of which has a page, with their dotted names."""
    return {
        short(name): name
        for names in listed().values()
        for name in names
        if short(name).startswith("gt.")
    }


@lru_cache(maxsize=1)
def addresses() -> dict[str, str]:
    """Where each short name is explained, from the folder of the reference."""
    found = {short(n): f"{page}#{anchor(short(n))}" for page, ns in listed().items() for n in ns}
    return {**found, **{own: f"names/{file}" for own, file in files().items()}}


@lru_cache(maxsize=1)
def files() -> dict[str, str]:
    """The file of each page. Two names that differ in case only are one file on some systems."""
    lowered = [own.lower() for own in own_names()]
    return {
        own: f"{own}-class.md"
        if lowered.count(own.lower()) > 1 and own.rpartition(".")[2][0].isupper()
        else f"{own}.md"
        for own in own_names()
    }


def overview(names: list[str]) -> str:
    """A table of names with what each does, for the pages of subjects."""
    if not names:
        return ""
    rows = ["| name | what it does |", "|---|---|"]
    for name in names:
        own, thing = short(name), found(name)
        text = summary(thing) if is_documented(thing) else constant(thing)
        rows.append(f"| [`{own}`](names/{files()[own]}) | {text.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def is_documented(thing: object) -> bool:
    """Whether a thing has a docstring of ours, as functions and classes have."""
    is_alias = getattr(thing, "__module__", "") in ("builtins", "typing")
    return callable(thing) and not is_of_numpy(thing) and not is_alias


def entry(name: str) -> str:
    """Heading, signature and docstring of one public name, and of its methods if it is a class."""
    thing = found(name)
    own = short(name)
    heading = f"### `{own}` {{ #{anchor(own)} }}"
    first = first_names().get(id(thing), name)
    if first != name and callable(thing):
        return f"{heading}\n\nThe same as [`{short(first)}`]({addresses()[short(first)]})."
    if not is_documented(thing):
        return f"{heading}\n\n{constant(thing)}"
    parts = [heading, signature(own, thing), _document(thing)]
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
    return f"{heading}\n\n{signature(f'.{name}', inner, bound)}\n\n{_document(inner)}"


def signature(name: str, thing: object, bound: bool = False, typed: bool = False) -> str:
    """The call as Python writes it, on several lines if it is long."""
    try:
        found = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    parameters = list(found.parameters.values())
    if bound and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    parts = list(_parts(parameters, typed))
    back = type_text(found.return_annotation) if typed and not inspect.isclass(thing) else ""
    end = f" -> {back}" if back else ""
    text = f"{name}({', '.join(parts)}){end}"
    if len(text) > WIDE:
        lines = [f"    {part}," for part in parts]
        text = "\n".join([f"{name}(", *lines, f"){end}"])
    return f"```python\n{text}\n```"


def _parts(parameters: list[inspect.Parameter], typed: bool) -> Iterator[str]:
    """The parameters, with `/` and `*` where Python writes them."""
    # Arguments that are refused with a hint are not parameters.
    parameters = [one for one in parameters if one.annotation != "Never"]
    starred = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    for index, one in enumerate(parameters):
        if one.kind is one.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = type_text(one.annotation) if typed else ""
        text = f"{star}{one.name}: {kind}" if kind else f"{star}{one.name}"
        if one.default is not one.empty:
            text += f" = {Shown(one.default)!r}" if kind else f"={Shown(one.default)!r}"
        yield text
        following = parameters[index + 1].kind if index + 1 < len(parameters) else None
        if one.kind is one.POSITIONAL_ONLY and following is not one.POSITIONAL_ONLY:
            yield "/"


def type_text(annotation: object) -> str:
    """An annotation as it was written, without modules."""
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return MODULES.sub("", re.sub(r"ForwardRef\('(\w+)'\)", r"\1", text))


class Shown:
    """A default value, shown without addresses of memory."""

    def __init__(self, value: object) -> None:
        text = repr(value)
        self.text = getattr(value, "__name__", "…") if " at 0x" in text or "<" in text else text

    def __repr__(self) -> str:
        return self.text


def _document(thing: object) -> str:
    """The docstring as Markdown: examples become blocks of code."""
    text = inspect.cleandoc(getattr(thing, "__doc__", None) or "")
    return "\n".join(part for _, part in _pieces(text)).strip()


def examples_and_prose(text: str) -> tuple[str, str]:
    """The examples of a docstring and the rest of it, each as Markdown."""
    pieces = list(_pieces(text))
    examples = [part for example, part in pieces if example]
    prose = "\n".join(part for example, part in pieces if not example)
    return "\n\n".join(examples), re.sub(r"\n{3,}", "\n\n", prose).strip()


def _pieces(text: str) -> Iterator[tuple[bool, str]]:
    """Examples as blocks of code, and lines between them; whether it is an example comes first."""
    example: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line.startswith(">>>") or (example and line.strip()):
            example.append(line)
            continue
        if example:
            yield True, "```pycon\n" + "\n".join(example) + "\n```"
            example = []
        yield False, line


def summary(thing: object) -> str:
    """The first paragraph of a docstring, on one line."""
    text = inspect.cleandoc(getattr(thing, "__doc__", None) or "")
    return " ".join(text.split("\n\n")[0].split("\n"))


def is_of_numpy(thing: object) -> bool:
    return (getattr(thing, "__module__", None) or "").split(".")[0] == "numpy"


def constant(thing: object) -> str:
    if is_of_numpy(thing):
        return f"NumPy's `{getattr(thing, '__name__', thing)}`."
    return (
        f"`{thing!r}`"
        if " at 0x" not in repr(thing)
        else f"An object of class `{type(thing).__name__}`."
    )
