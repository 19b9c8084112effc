"""Module, whose attributes hold variables and modules; Layer, which makes them at first use."""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeVar

import gradtape as gt
from gradtape import Tensor, Variable, storage
from gradtape.libraries import (
    Displayed,
    TellsChanges,
    as_dtype,
    check_exports,
    explain_attributes,
    named_scope,
    notes_scopes,
    read_state,
)
from gradtape.nn import initializers
from gradtape.nn.initializers import InitializerLike
from gradtape.typing import DType, DTypeLike, PathLike, TensorLike

__all__ = ["Layer", "Module"]

Result = TypeVar("Result", covariant=True)


class _Computes(Protocol[Result]):
    """What has `call`: the type of its result is that of calling the module."""

    @property
    def call(self) -> Callable[..., Result]: ...


class Module(TellsChanges, Displayed):
    """An object whose attributes hold variables and other modules, also in lists and dicts.

    >>> class Line(gt.nn.Module):
    ...     def __init__(self):
    ...         self.slope, self.offset = gt.Variable(2.0), gt.Variable(1.0)
    ...
    ...     def call(self, x):
    ...         return self.slope * x + self.offset
    >>> line = Line()
    >>> float(line(3.0))
    7.0
    >>> [name for name, _ in line.named_parameters()]
    ['slope', 'offset']

    Calling a module calls its `call`. Attributes are searched at each request, so variables can
    be made at any time. A variable or module that several attributes reach counts once, under its
    first name. A deep
    copy has variables of its own.
    """

    _training = True

    @property
    def training(self) -> bool:
        """Whether layers such as dropout behave as in training; see `train` and `eval`.

        >>> gt.nn.Dropout(0.5).training
        True
        """
        return read_state(self, "_training", f"training of {type(self).__name__}")

    @training.setter
    def training(self, mode: bool) -> None:
        self._training = bool(mode)

    # `self` as a protocol: type checkers find the result of `call` of any subclass.
    def __call__(self: _Computes[Result], *args: Any, **kwargs: Any) -> Result:
        """The result of `call`."""
        module: Any = self
        if notes_scopes():
            return _call_in_scope(module, *args, **kwargs)
        return self.call(*args, **kwargs)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The computation. Every module that is called defines its own."""
        raise NotImplementedError(
            f"{type(self).__name__}: a module that is called needs `call(self, ...)`. Define it."
        )

    # Variables.

    def named_variables(self) -> list[tuple[str, Variable]]:
        """All variables with their dotted names, in the order of the attributes."""
        return [(name, found) for name, found in _walk(self) if isinstance(found, Variable)]

    def named_parameters(self) -> list[tuple[str, Variable]]:
        """The trainable variables with their dotted names."""
        return [(name, found) for name, found in self.named_variables() if found.trainable]

    def parameters(self) -> list[Variable]:
        """The trainable variables, which an optimiser updates.

        >>> len(gt.nn.Dense(2, in_features=3).parameters())
        2
        """
        return [found for _, found in self.named_parameters()]

    @property
    def variables(self) -> list[Variable]:
        """All variables."""
        return [found for _, found in self.named_variables()]

    @property
    def trainable_variables(self) -> list[Variable]:
        """The same as `parameters()`, under the name that Keras has for it."""
        return self.parameters()

    @property
    def non_trainable_variables(self) -> list[Variable]:
        """The variables that an optimiser leaves alone."""
        return [found for found in self.variables if not found.trainable]

    # Modules.

    def named_modules(self) -> list[tuple[str, Module]]:
        """This module, named "", and all modules in it with their dotted names."""
        return [(name, found) for name, found in _walk(self) if isinstance(found, Module)]

    def modules(self) -> list[Module]:
        """This module and all modules in it.

        >>> len(gt.nn.Sequential([gt.nn.Dense(2), gt.nn.Dense(1)]).modules())
        3
        """
        return [found for _, found in self.named_modules()]

    def train(self, mode: bool = True) -> Module:
        """Make this module and all modules in it behave as in training, and return it.

        >>> gt.nn.Dropout(0.5).eval().training
        False
        """
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Make this module and all modules in it behave as in inference, and return it."""
        return self.train(False)

    # State.

    def state_dict(self) -> dict[str, Any]:
        """The values of all variables by name, as NumPy arrays of their own.

        >>> gt.nn.Dense(1, in_features=2, kernel_initializer="ones").state_dict()["kernel"].tolist()
        [[1.0], [1.0]]
        """
        return storage.state_of(self.named_variables())

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Assign the values of a `state_dict`. Shapes must agree, and if `strict` names too.

        >>> layer = gt.nn.Dense(1, in_features=2)
        >>> layer.load_state_dict({"kernel": [[1.0], [2.0]], "bias": [3.0]})
        >>> layer(np.array([[1.0, 1.0]])).tolist()
        [[6.0]]
        """
        named = self.named_variables()
        storage.load_state(type(self).__name__, named, state, strict, self._remedy())

    def _remedy(self) -> str:
        """The advice in an error about names or shapes that do not match."""
        unbuilt = [
            name or type(module).__name__
            for name, module in self.named_modules()
            if getattr(module, "built", True) is False
        ]
        if unbuilt:
            return f"Not built yet: {', '.join(unbuilt)}. Call the module once, then load."
        return "Load into a module of the same structure, or pass strict=False."

    def save_weights(self, path: PathLike) -> None:
        """Write the values of all variables to a file, by name; the ending names the format.

        >>> import os, tempfile
        >>> layer = gt.nn.Dense(1, in_features=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     layer.save_weights(os.path.join(folder, "layer.npz"))
        ...     with np.load(os.path.join(folder, "layer.npz")) as arrays:
        ...         print(arrays["kernel"].shape)
        (2, 1)
        """
        storage.save_weights(self.named_variables(), path)

    def load_weights(self, path: PathLike, strict: bool = True) -> storage.WeightsReport:
        """Assign the values of a file by name, and report what did not match.

        With `strict`, anything that does not match is a `gt.errors.MismatchError`, and nothing is
        assigned; otherwise what matches is. Any safetensors or npz file with arrays will do.

        >>> import os, tempfile
        >>> model = gt.nn.Sequential([gt.nn.Dense(2, in_features=3)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.npz")
        ...     model.save_weights(path)
        ...     model.add(gt.nn.Dense(1, in_features=2))
        ...     print(model.load_weights(path, strict=False))
        2 loaded; missing: layers.1.kernel, layers.1.bias
        """
        named = self.named_variables()
        return storage.load_weights(type(self).__name__, named, path, strict, self._remedy())

    # The tree as text.

    def describe(self) -> str:
        """The arguments that `repr` shows."""
        return ""

    def _fields(self) -> list[tuple[str, Any]]:
        return [
            (name, found)
            if isinstance(found, Module)
            else (name, f"{found.dtype}[{', '.join(map(str, found.shape))}]")
            for name, found in _children(self)
        ]

    def __repr__(self) -> str:
        """The tree of modules and variables."""
        lines = []
        for name, found in _children(self):
            if isinstance(found, Module):
                lines.append(f"{name}: {found!r}".replace("\n", "\n  "))
            elif type(self).describe is Module.describe:
                shape = ", ".join(map(str, found.shape))
                lines.append(f"{name}: {found.dtype}[{shape}]")
        head = self.describe()
        if not lines:
            return f"{type(self).__name__}({head})"
        inside = "".join(f"\n  {line}" for line in lines)
        return f"{type(self).__name__}({head}{inside}\n)"


def _stored(cls: type, name: str) -> storage.Codec:
    """Modules are saved as their attributes; functions among them stay where they are."""
    return storage.Codec(
        cls,
        name,
        lambda module: {"_training": module._training, **vars(module)},
        fill=storage.take_attributes,
        holds_code=True,
    )


storage.register_family(Module, _stored)


def _walk(root: Module) -> Iterator[tuple[str, Any]]:
    """Modules and variables below a module, itself first, depth first, each once."""
    seen: set[int] = {id(root)}
    yield "", root
    stack = [iter(_children(root))]
    prefixes = [""]
    while stack:
        try:
            name, found = next(stack[-1])
        except StopIteration:
            stack.pop()
            prefixes.pop()
            continue
        if id(found) in seen:
            continue
        seen.add(id(found))
        path = prefixes[-1] + name
        yield path, found
        if isinstance(found, Module):
            stack.append(iter(_children(found)))
            prefixes.append(f"{path}.")


class _Called(threading.local):
    """The outermost module that a thread calls, and the one before, with its scopes by id."""

    outermost: Module | None = None
    before: weakref.ref[Module] | None = None
    scopes: Mapping[int, str] = MappingProxyType({})


_called = _Called()


def _call_in_scope(module: Module, *args: Any, **kwargs: Any) -> Any:
    """The result of `call`, whose ops are named by the path below the outermost module."""
    outer = _called.outermost
    if outer is None:
        _called.outermost = module
        if _called.before is None or _called.before() is not module:
            _note_scopes(module)
    elif id(module) not in _called.scopes:
        _note_scopes(outer)
    try:
        with named_scope(_called.scopes.get(id(module), type(module).__name__)):
            return module.call(*args, **kwargs)
    finally:
        _called.outermost = outer


def _note_scopes(root: Module) -> None:
    """Note the scopes of the modules below a module."""
    _called.before = weakref.ref(root)
    _called.scopes = {
        id(part): f"{path} {type(part).__name__}".lstrip()
        for path, part in _walk(root)
        if isinstance(part, Module)
    }


def _children(module: Module) -> list[tuple[str, Any]]:
    """The variables and modules in a module's attributes, also inside lists, tuples and dicts."""
    found: list[tuple[str, Any]] = []
    for name, value in vars(module).items():
        _collect(name, value, found, ())
    return found


def _collect(name: str, value: Any, found: list[tuple[str, Any]], inside: tuple[int, ...]) -> None:
    if isinstance(value, (Variable, Module)):
        found.append((name, value))
        return
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, (list, tuple)):
        parts = list(enumerate(value))
    else:
        return
    if id(value) not in inside:  # a list may hold itself
        for key, part in parts:
            _collect(f"{name}.{key}", part, found, (*inside, id(value)))


_counts: dict[str, int] = defaultdict(int)


class Layer(Module):
    """A module that makes its variables at its first input; derive your own from it.

    >>> class Scale(gt.nn.Layer):
    ...     def build(self, input_shape):
    ...         self.factor = self.add_variable("factor", input_shape[-1:], "ones")
    ...
    ...     def call(self, x):
    ...         return x * self.factor
    >>> scale = Scale()
    >>> scale(np.array([[1.0, 2.0]])).tolist()
    [[1.0, 2.0]]
    >>> scale.variables[0].shape
    (2,)

    Without a `dtype` it takes that of its first input, and the default for integers. Later inputs
    are cast to it.
    """

    def __init__(self, name: str | None = None, dtype: DTypeLike | None = None) -> None:
        self.name = _unique(type(self).__name__.lower()) if name is None else name
        self.dtype = None if dtype is None else as_dtype(dtype)
        self.built = False

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make the variables for inputs of this shape. It is called once."""

    def add_variable(
        self,
        name: str,
        shape: tuple[int, ...],
        initializer: InitializerLike,
        trainable: bool = True,
    ) -> Variable:
        """A variable with a starting value, named after the layer."""
        start = initializers.get(initializer)(tuple(shape), self.dtype)
        # Computed now: a pending tensor would become part of the current recording.
        return Variable(gt.asarray(start).numpy(), trainable, f"{self.name}.{name}", self.dtype)

    def __call__(self: _Computes[Result], x: TensorLike, *args: Any, **kwargs: Any) -> Result:
        """The result of `call` for the input as a tensor of the layer's dtype."""
        layer: Any = self
        tensor: Tensor = gt.asarray(x)
        layer.ensure_built(tensor.shape, tensor.dtype)
        if notes_scopes():
            return _call_in_scope(layer, layer.cast_input(tensor), *args, **kwargs)
        return self.call(layer.cast_input(tensor), *args, **kwargs)

    def ensure_built(self, input_shape: tuple[int, ...], dtype: DType | None = None) -> None:
        """Make the variables, if they are not made yet."""
        if self.built:
            return
        if self.dtype is None:
            self.dtype = dtype if dtype is not None and dtype.kind in "fc" else gt.default_dtype()
        self.build(tuple(input_shape))
        self.built = True

    def cast_input(self, x: Tensor) -> Tensor:
        """The input in the dtype of the layer; complex inputs keep theirs."""
        if self.dtype is None or x.dtype == self.dtype or x.dtype.kind == "c":
            return x
        return gt.cast(x, self.dtype)

    # Names of the attributes that `repr` shows, if not the name of the layer.
    shown: ClassVar[tuple[str, ...]] = ()

    def describe(self) -> str:
        """The arguments that `repr` shows; a function by its name."""
        values = {name: getattr(self, name) for name in self.shown}
        shown = {name: getattr(value, "__name__", value) for name, value in values.items()}
        return ", ".join(f"{n}={v!s}" for n, v in shown.items()) or f"name={self.name!r}"


def _unique(name: str) -> str:
    number = _counts[name]
    _counts[name] += 1
    return f"{name}_{number}" if number else name


explain_attributes(Module)
check_exports(globals(), __all__)
