"""A page of the reference for each public name of gradtape: `reference/names/gt.sin.md`.

What the library knows is generated: signature and types, shapes and derivatives of ops, examples of
docstrings. `parameters.toml` has the meanings of parameters and results, `names_elsewhere.toml` the
names in other libraries.
"""

from __future__ import annotations

import inspect
import math
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import gradtape as gt
from gradtape.ir.op import REGISTRY, Op, Undefined
from website import reference

HERE = Path(__file__).resolve().parent
FOLDER = "reference/names"
TABLE = re.compile(r"^\| argument \| meaning \|\n\|---\|---\|\n(?P<rows>(?:\|.*\|\n?)+)", re.M)
# In the search pages of names come before the guide, and that before TensorFlow's names and the
# decisions. A name that is part of others, as `Adam` and `sum`, comes before these.
FRONT_MATTER = '---\ntitle: "{}"\nsearch:\n  boost: {}\n---\n\n'
BOOST, BOOST_OF_PARTS = 10, 40
BOOST_OF_OTHERS = {"reference/tf": 0.001, "decisions/": 0.001}
# Classes whose constructor is not public.
MADE_BY = {"gt.Tensor": "[`gt.asarray`](gt.asarray.md) and by every function of gradtape"}
POINTS = (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0)


@lru_cache(maxsize=1)
def texts() -> dict[str, Any]:
    """`parameters.toml`."""
    return tomllib.loads((HERE / "parameters.toml").read_text("utf-8"))


@lru_cache(maxsize=1)
def elsewhere() -> dict[str, dict[str, str]]:
    """`names_elsewhere.toml`."""
    return tomllib.loads((HERE / "names_elsewhere.toml").read_text("utf-8"))


def pages() -> Iterator[tuple[str, str]]:
    """Path and Markdown of every page."""
    lasts = [own.rpartition(".")[2] for own in reference.own_names()]
    for own, name in reference.own_names().items():
        last = own.rpartition(".")[2]
        longer = [each for each in lasts if last in each.split("_") or each.startswith(last)]
        boost = BOOST_OF_PARTS if set(longer) != {last} else BOOST
        front = FRONT_MATTER.format(own, boost)
        yield f"{FOLDER}/{reference.files()[own]}", front + page(own, name)


def page(own: str, name: str) -> str:
    """The page of one name."""
    thing = reference.found(name)
    heading = f"# `{own}` {{ #{reference.anchor(own)} }}"
    if not reference.is_documented(thing):
        return f"{breadcrumb(name)}\n\n{heading}\n\n{reference.constant(thing)}\n"
    text, _ = split_table(inspect.cleandoc(getattr(thing, "__doc__", None) or ""))
    op = REGISTRY.get(own.rpartition(".")[2]) if inspect.isfunction(thing) else None
    examples, prose = reference.examples_and_prose(text)
    parts = [
        breadcrumb(name),
        heading,
        reference.signature(own, thing, typed=True),
        same_as(own, thing),
        prose,
        section("Parameters", parameters_table(own, thing)),
        section("Returns", returns(own, thing)),
        section("Examples", "\n\n".join(filter(None, [examples, on_an_array(own, thing, op)]))),
        section("Raises", raises(thing, op)),
        section("Shapes", shapes(op)),
        section("Derivative", derivative(own, thing, op)),
        section("In other libraries", in_other_libraries(own)),
        section("See also", see_also(own)),
    ]
    if own in MADE_BY:
        parts[2:3], parts[5] = [f"Instances are made by {MADE_BY[own]}."], ""
    if inspect.isclass(thing):
        members = [reference.method(own, thing, member) for member in reference.methods(thing)]
        parts.append(section("Methods and attributes", "\n\n".join(members)))
    return "\n\n".join(part for part in parts if part) + "\n"


def breadcrumb(name: str) -> str:
    """Links to the reference and to the page of the subject."""
    page = next(page for page, listed in reference.listed().items() if name in listed)
    title = (reference.PAGES / page).read_text("utf-8").split("\n", 1)[0].removeprefix("# ")
    return f"[Reference](../index.md) › [{title}](../{page})"


def on_an_array(own: str, thing: Any, op: Op | None) -> str:
    """An example that was run: an element-wise function of one operand, on an array."""
    rows = list(_values(thing)) if op is not None and op.elementwise else []
    if len(rows) < 2:
        return ""
    chosen = [float(point) for point, _, _ in rows[: len(rows) // 2 * 2]]
    half = len(chosen) // 2
    shown = [chosen[:half], chosen[half:]]
    result = thing(gt.asarray(shown))
    return f"```pycon\n>>> {own}(gt.asarray({shown}))\n{result!r}\n```"


def section(title: str, content: str) -> str:
    return f"## {title}\n\n{content}" if content else ""


def same_as(own: str, thing: object) -> str:
    """A sentence if the thing has a shorter name."""
    first = reference.short(reference.first_names().get(id(thing), ""))
    return f"The same as {link(first)}." if first in reference.own_names() and first != own else ""


def link(own: str) -> str:
    return f"[`{own}`]({reference.files()[own]})" if own in reference.files() else f"`{own}`"


def split_table(text: str) -> tuple[str, dict[str, str]]:
    """A docstring without its table of arguments, and the table."""
    match = TABLE.search(text)
    if match is None:
        return text, {}
    meanings = {}
    for row in match["rows"].strip().split("\n"):
        found, _, meaning = row.strip("|").partition("|")
        for name in found.split(","):
            meanings[name.strip().strip("`*")] = _sentence(meaning.strip())
    return TABLE.sub("", text), meanings


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def meanings(own: str, thing: object) -> dict[str, str]:
    """Each parameter of a function or class with what it means; "" where nothing is written."""
    try:
        signature = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return {}
    _, told = split_table(inspect.cleandoc(getattr(thing, "__doc__", None) or ""))
    first = reference.short(reference.first_names().get(id(thing), ""))
    tables = [told, *(texts().get(key, {}) for key in (own, first)), texts()["common"]]
    return {
        name: next((table[name] for table in tables if name in table), "")
        for name, parameter in signature.parameters.items()
        if parameter.annotation != "Never"
    }


def parameters_table(own: str, thing: Any) -> str:
    found = meanings(own, thing)
    if not found:
        return ""
    kinds = inspect.signature(thing).parameters
    rows = ["| name | type | default | meaning |", "|---|---|---|---|"]
    for name, meaning in found.items():
        one = kinds[name]
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        default = "" if one.default is one.empty else f"`{reference.Shown(one.default)!r}`"
        kind = reference.type_text(one.annotation)
        rows.append(f"| `{star}{name}` | {_code(kind)} | {default} | {meaning} |")
    return "\n".join(rows)


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def returns(own: str, thing: object) -> str:
    if inspect.isclass(thing):
        return ""
    try:
        annotation = inspect.signature(thing).return_annotation  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    kind = _code(reference.type_text(annotation))
    meaning = texts()["returns"].get(own, "")
    op = REGISTRY.get(own.rpartition(".")[2])
    if not meaning and op is not None and op.elementwise:
        several = len(inspect.signature(thing).parameters) > 1  # type: ignore[arg-type]
        meaning = (
            "Of the shape to which the operands broadcast." if several else "Of the same shape."
        )
    return f"{kind}: {meaning}" if kind and meaning else kind or meaning


def raises(thing: object, op: Op | None) -> str:
    """Errors that follow from the parameters and from the op."""
    try:
        given = set(inspect.signature(thing).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        given = set()
    found = []
    if op is not None and op.elementwise and len(given & {"x", "y", "x1", "x2"}) > 1:
        found.append(("ShapeError", "the shapes do not broadcast."))
    if op is not None:
        found.append(("DtypeError", "an operand holds no numbers, or a dtype is not accepted."))
    if given & {"axis", "axes", "axis1"}:
        found.append(("AxisError", "an axis is out of range, or occurs twice."))
    if op is not None and "indices" in given:
        found.append(("IndexRangeError", "an index is out of range."))
    if op is not None and op.may_fail and op.solves:
        found.append(("MatrixError", "a matrix is singular, or not positive definite."))
    lines = [f"- [`gt.errors.{name}`](gt.errors.{name}.md): {why}" for name, why in found]
    return "\n".join(lines)


def shapes(op: Op | None) -> str:
    """Shapes and dtypes of some of the op's samples."""
    rows: list[str] = []
    for sample in op.samples() if op is not None else ():
        specs = [gt.extend.spec(array.shape, array.dtype) for array in map(_array, sample.inputs)]
        result = op.spec(*specs, **sample.params)
        made = result if isinstance(result, tuple) else (result,)
        params = ", ".join(f"{key}={value!r}" for key, value in sample.params.items())
        if len(params) < 40 and " at 0x" not in params:
            left = ", ".join(f"`{_short(spec)}`" for spec in specs)
            right = ", ".join(f"`{_short(spec)}`" for spec in made)
            row = f"| {left} | {f'`{params}`' if params else ''} | {right} |"
            if row not in rows and all(spec.size for spec in specs):
                rows.append(row)
    head = ["| operands | parameters | result |", "|---|---|---|"]
    return "\n".join([*head, *rows[:4]]) if rows else ""


def _array(value: Any) -> Any:
    import numpy as np

    return np.asarray(value)


def _short(spec: Any) -> str:
    return f"{spec.dtype}[{', '.join(map(str, spec.shape))}]"


def derivative(own: str, thing: Any, op: Op | None) -> str:
    """Whether and where an op has a derivative, with values that show its kinks."""
    if op is None:
        return ""
    missing = next((rule for rule in (op.jvp, op.vjp) if isinstance(rule, Undefined)), None)
    if missing is not None:
        return f"None: {missing.why}."
    text = "Of any order, in forward and reverse mode."
    if op.linear is not None:
        text += " The function is linear, so its derivative is a constant."
    rows = list(_values(thing)) if op.elementwise else []
    if not rows:
        return text
    columns = [" | ".join(column) for column in zip(*rows, strict=True)]
    name = own.rpartition(".")[2]
    labels = ("x", f"{name}(x)", "derivative")
    lines = [f"| {label} | {column} |" for label, column in zip(labels, columns, strict=True)]
    return f"{text}\n\n{lines[0]}\n|{'---|' * (len(rows) + 1)}\n{lines[1]}\n{lines[2]}"


def _values(function: Callable[[Any], Any]) -> Iterator[tuple[str, str, str]]:
    """Value and derivative of a function of one number at some points of its domain."""
    if len(inspect.signature(function).parameters) != 1:
        return
    for point in POINTS:
        try:
            value = function(point)
        except gt.errors.DtypeError:  # a function of integers only
            return
        if value.dtype.kind != "f" or not math.isfinite(float(value)):
            continue
        slope = float(gt.grad(function)(point))
        yield f"{point:g}", f"{float(value):.4g}", f"{slope:.4g}"


def in_other_libraries(own: str) -> str:
    found = elsewhere().get(own, {})
    return " · ".join(f"{library}: `{name}`" for library, name in found.items())


def see_also(own: str) -> str:
    last = own.rpartition(".")[2]
    related = [name for group in texts()["see"]["groups"] if own in group for name in group]
    related += [name for name in reference.own_names() if name.rpartition(".")[2] == last]
    unique = [
        name for name in dict.fromkeys(related) if name != own and name in reference.own_names()
    ]
    return " · ".join(link(name) for name in unique)
