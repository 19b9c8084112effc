"""Call sites: good calls of public callables, found in the examples of their documentation.

Every public name has an example that runs. Here each call in an example goes through `Script.call`,
so a run can note which callables of the library are called with which arguments, and a later run
can exchange the arguments of one call.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import io
import math
import operator
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.contract.bad_input.examples import EXAMPLES
from tests.formalities.public_names import public_methods, public_names

import gradtape as gt
from gradtape import progress, pytree
from gradtape.compiler.cpython import switch
from gradtape.ir import REGISTRY
from gradtape.tf.base.dispatch import graphs as dispatch
from gradtape.tf.ops import random_numbers
from gradtape.tf.v1 import graphs
from gradtape.trace.recording import Recording, state

# The name under which examples are compiled: a traceback that ends there ends in the user's code.
FILE = "<example>"


class Stop(BaseException):
    """The chosen call was made: the rest of the example is not run."""


@dataclass(frozen=True)
class Site:
    """A call in an example: of what, with how many arguments by position, which by keyword."""

    name: str
    example: str
    number: int
    positions: int
    keywords: tuple[str, ...]
    # Names, annotations and kinds of the parameters, as `inspect.signature` gives them.
    parameters: tuple[tuple[str, str, str], ...]


class _Through(ast.NodeTransformer):
    """Puts every call through `__call__(number, function, …)`.

    Functions of the example stay as they are: gt.function looks at all that they refer to.
    """

    def __init__(self) -> None:
        self.count = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        number, self.count = self.count, self.count + 1
        through = ast.Call(
            ast.Name("__call__", ast.Load()), [ast.Constant(number), node.func, *node.args],
            node.keywords,
        )  # fmt: skip
        return ast.copy_location(through, node)


def sources() -> dict[str, str]:
    """The program of each example: of public names, methods and namespaces.

    Names of `gt.libraries` are the checks themselves: the code of libraries calls them, as it makes
    a `VariableOwner` of numbers that the library gave.
    """
    found = {}
    for name, thing in {**public_names(), **public_methods()}.items():
        if name.startswith("gradtape.libraries.") or name.endswith(".VariableOwner"):
            continue
        document = inspect.cleandoc(getattr(thing, "__doc__", None) or "")
        if ">>>" in document:
            found[name] = "".join(e.source for e in doctest.DocTestParser().get_examples(document))
    return found | EXAMPLES


def compiled(source: str) -> types.CodeType:
    tree = ast.fix_missing_locations(_Through().visit(ast.parse(source)))
    return compile(tree, FILE, "exec")


def run(code: types.CodeType, call: Callable[..., Any]) -> None:
    """Run an example with all its calls going through `call`; what it prints is dropped."""
    names = {"gt": gt, "np": np, "tf": gt.tf, "sys": sys, "math": math, "operator": operator}
    before = _Settings()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Stop):
            exec(code, {**names, "__call__": call, "__name__": "example"})
    finally:
        before.restore()


class _Settings:
    """The settings of the process, which an example may change."""

    def __init__(self) -> None:
        self.ops = set(REGISTRY)
        self.containers = dict(pytree._registered)
        self.dtype, self.threads = gt.asarray(1.0).dtype, gt.get_num_threads()
        self.recorder, self.graphs_in_use = switch.MODE, dispatch.in_use
        self.progress = progress._Default.choice
        self.generator = dict(random_numbers._global)

    def restore(self) -> None:
        """Undo what has changed, and drop what is pending."""
        state.recording = Recording()
        state.tapes = []
        for name in REGISTRY.keys() - self.ops:
            del REGISTRY[name]
        pytree._registered.clear()
        pytree._registered.update(self.containers)
        gt.set_default_dtype(self.dtype)
        gt.set_num_threads(self.threads)
        if self.recorder != switch.MODE:
            gt.set_recorder(self.recorder)
        progress._Default.choice = self.progress
        random_numbers._global.clear()
        random_numbers._global.update(self.generator)
        graphs.stop_building()
        graphs.local.probes.clear()
        dispatch.in_use = self.graphs_in_use


def called_name(function: Any) -> str | None:
    """The dotted name of a public callable of the library, or None for other ones."""
    owner = getattr(function, "__self__", None)
    if isinstance(function, types.BuiltinFunctionType) and function.__module__ == "_operator":
        return f"operator.{function.__name__}"
    if owner is not None and not isinstance(owner, types.ModuleType):
        cls = owner if isinstance(owner, type) else type(owner)
        name = getattr(function, "__name__", "")
        # Methods that a class inherits from SciPy or unittest are not ours.
        module = getattr(getattr(function, "__func__", None), "__module__", None) or "gradtape"
        ours = cls.__module__.startswith("gradtape") and module.startswith("gradtape")
        ours = ours and not name.startswith("_")
        return f"{cls.__module__}.{cls.__qualname__}.{name}" if ours else None
    module = getattr(function, "__module__", None) or type(function).__module__
    name = getattr(function, "__qualname__", None)
    if name is None or not isinstance(function, (type, types.FunctionType)):
        # An instance that can be called, such as a layer or a gt.function.
        cls = type(function)
        ours = cls.__module__.startswith("gradtape")
        return f"{cls.__module__}.{cls.__qualname__}.__call__" if ours else None
    if not module.startswith("gradtape") or name.rpartition(".")[2].startswith("_"):
        return None
    if name == "TestCase":
        return None  # unittest's
    return f"{module}.{name}"


def _parameters(function: Any) -> tuple[tuple[str, str, str], ...]:
    plain = (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)
    called = function if isinstance(function, plain) else type(function).__call__
    try:
        found = list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):
        return ()
    # An instance has the signature of its class, and is called with that of `__call__`.
    found = found if called is function else found[1:]
    return tuple((each.name, _annotation(each), each.kind.name) for each in found)


def _annotation(parameter: inspect.Parameter) -> str:
    """The text of an annotation; one whose default is None allows None."""
    text = "" if parameter.annotation is parameter.empty else str(parameter.annotation)
    return f"{text} | None" if parameter.default is None and "None" not in text else text


def _sites_in(example: str, source: str) -> list[Site]:
    found: dict[int, Site] = {}

    def note(number: int, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        name = called_name(function)
        if name is not None and number not in found:
            known = len(args), tuple(kwargs), _parameters(function)
            found[number] = Site(name, example, number, *known)
        return function(*args, **kwargs)

    # Some examples end in an error that they are to show.
    with contextlib.suppress(Exception):
        run(compiled(source), note)
    return list(found.values())


def sites(examples: dict[str, str], each: int = 2) -> Iterator[Site]:
    """Up to `each` call sites of every public callable that the examples call, and its own."""
    seen: dict[str, int] = {}
    for example, source in examples.items():
        for site in _sites_in(example, source):
            # An example's own subject always counts: the others are called on the way.
            own = example.endswith(f".{site.name.rpartition('.')[2]}")
            if seen.get(site.name, 0) < each + own:
                seen[site.name] = seen.get(site.name, 0) + 1
                yield site
