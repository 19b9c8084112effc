"""Trees to snapshots: plain data as JSON, and arrays beside it.

Every container and every object has one entry in a flat table; wherever it occurs, the entry is
referred to by number. So objects that are shared in the tree stay shared, the JSON text is never
deeper than a few levels, and a snapshot is cheap: values of tensors and variables never change, so
a snapshot refers to their memory and copies nothing but NumPy arrays of the user.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape import RowSparse, Tensor, Variable, pytree
from gradtape.config import PACKED_LIST_LENGTH
from gradtape.errors import UnsavableError
from gradtape.libraries import is_followed
from gradtape.training.storage import registry

# Tensors of `gradtape.tf` come back as such.
TF_TENSOR = "gradtape.tf.Tensor"
# Nests deeper than this are neither saved nor loaded.
DEEPEST = 128
PACKED_TYPES = {float: np.dtype(np.float64), int: np.dtype(np.int64), bool: np.dtype(np.bool_)}
FACTORIES: dict[str, Callable[[], Any]] = {"list": list, "dict": dict, "int": int, "float": float}
# Kinds of NumPy dtypes that are numbers; longer ones than these differ between machines.
DTYPES = frozenset(
    np.dtype(name)
    for name in (
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    )
)


@dataclasses.dataclass(frozen=True)
class VariableOwner:
    """Stands in a state for a variable that is saved only if the tree holds it elsewhere.

    Owners of one `group` are all in the tree, or none is.

    >>> gt.storage.VariableOwner(gt.Variable(1.0).number, group=0).group
    0
    """

    number: int
    group: int


@dataclasses.dataclass(frozen=True)
class MadeFunction:
    """The function of a library that made a function, with its arguments.

    The function that was made has it as its attribute `made_by`.

    >>> gt.nn.initializers.constant(0.5).made_by
    MadeFunction(maker='gradtape.nn.initializers.constant', arguments={'value': 0.5})
    """

    maker: str
    arguments: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The contents of a file: the tree as plain data, the table of objects, and arrays by name."""

    tree: Any
    objects: list[Any]
    arrays: dict[str, np.ndarray]


def snapshot(tree: Any) -> Snapshot:
    """The state of a tree now. Later changes of its variables and arrays change nothing in it."""
    encoder = Encoder()
    try:
        found = encoder.node(tree, "tree", 0)
    except RecursionError:
        raise _too_deep("tree") from None
    encoder.settle_owners()
    return Snapshot(found, encoder.objects, encoder.arrays)


def _too_deep(path: str) -> UnsavableError:
    return UnsavableError(
        f"save: {path} is nested more than {DEEPEST} levels deep. Save a tree with fewer levels."
    )


def _refused(path: str, value: object, remedy: str) -> UnsavableError:
    return UnsavableError(f"save: {path} is a {type(value).__name__}, {remedy}")


class Encoder:
    """Takes one tree apart."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}
        # The entry of each object by its id; the objects are held, so that no id is used again.
        self.entries: dict[int, int] = {}
        self.held: list[Any] = []
        self.variables: dict[int, int] = {}
        self.owners: list[tuple[list[Any], VariableOwner, str]] = []
        # The containers around the current node, which must not occur in themselves.
        self.inside: set[int] = set()
        self.in_code = 0

    def node(self, x: Any, path: str, depth: int) -> Any:
        """A value as JSON: a scalar as it is, anything else as a list with a tag."""
        if x is None or x is True or x is False:
            return x
        kind = type(x)
        if kind is str:
            return x
        if kind is int:
            return x if -(2**53) <= x <= 2**53 else ["int", hex(x)]
        if kind is float:
            # Only finite numbers are JSON.
            return x if x - x == 0.0 else ["float", x.hex()]
        if kind is complex:
            return ["complex", x.real.hex(), x.imag.hex()]
        if kind is bytes:
            return ["bytes", base64.b64encode(x).decode()]
        if is_followed(x):
            raise _refused(path, x, "a number of a captured function. Save outside of it.")
        if isinstance(x, np.generic):
            if x.dtype not in DTYPES:
                raise _refused(path, x, "which is no plain number. Convert it to one.")
            return ["scalar", x.dtype.name, base64.b64encode(x.tobytes()).decode()]
        if isinstance(x, np.dtype):
            if x not in DTYPES:
                raise _refused(path, x, f"namely {x}, which is not a dtype of numbers.")
            return ["dtype", x.name]
        if kind is VariableOwner:
            node = ["owner", None]
            self.owners.append((node, x, path))
            return node
        known = self.entries.get(id(x))
        if known is not None:
            if id(x) in self.inside:
                raise UnsavableError(
                    f"save: {path} is a {kind.__name__} that contains itself. "
                    "Save a tree without cycles."
                )
            return ["@", known]
        if depth > DEEPEST:
            raise _too_deep(path)
        code = self._code(x, path, depth)
        return self._object(x, path, depth) if code is None else code

    def _object(self, x: Any, path: str, depth: int) -> list[Any]:
        number = len(self.objects)
        self.objects.append(None)
        self.entries[id(x)] = number
        self.held.append(x)
        kind = registry.kind_of(type(x))
        # An object that is made before it is filled may be part of its own state.
        encloses = kind is None or kind.fill is None
        if encloses:
            self.inside.add(id(x))
        self.objects[number] = self._entry(x, kind, number, path, depth + 1)
        if encloses:
            self.inside.discard(id(x))
        return ["@", number]

    def _entry(
        self, x: Any, kind: registry.Codec | None, number: int, path: str, depth: int
    ) -> Any:
        if isinstance(x, Variable):
            self.variables[x.number] = number
            word = registry.name_of(type(x)) if type(x) is not Variable else ""
            return ["variable", self._array(x.numpy(), path), x.name, x.trainable, word]
        if isinstance(x, Tensor) and hasattr(x, "rows"):
            if not isinstance(x, RowSparse):
                raise _refused(path, x, "which cannot be saved. Save its indices and values.")
            indices, values = x.indices.numpy(), x.values.numpy()
            keys = [self._array(indices, f"{path}.indices"), self._array(values, f"{path}.values")]
            return ["rows", *keys, list(x.spec.shape), x.spec.dtype.name]
        if isinstance(x, Tensor):
            word = TF_TENSOR if _is_other(type(x)) else ""
            return ["tensor", self._array(x.numpy(), path), word]
        if isinstance(x, np.ndarray):
            return self._numpy(x, path)
        if kind is not None:
            return self._state(x, kind, path, depth)
        found = pytree.registered(type(x))
        if found is not None:
            children, context = found[0](x)
            parts = [self.node(c, f"{path}[{n}]", depth) for n, c in enumerate(children)]
            inner = self.node(context, f"{path}.context", depth)
            return ["pytree", registry.name_of(type(x)), inner, parts]
        return self._container(x, path, depth)

    def _state(self, x: Any, kind: registry.Codec, path: str, depth: int) -> Any:
        try:
            found = kind.take_apart(x)
        except (TypeError, ValueError) as error:
            raise UnsavableError(f"save: {path} cannot be taken apart: {error}.") from error
        self.in_code += kind.holds_code
        try:
            if kind.holds_code and type(found) is dict:
                # The attributes of a module: users find this as `model.layers[0].kernel`.
                parts = [[k, self.node(v, f"{path}.{k}", depth)] for k, v in found.items()]
                return ["state", kind.name, ["attributes", parts]]
            return ["state", kind.name, self.node(found, path, depth)]
        finally:
            self.in_code -= kind.holds_code

    def _container(self, x: Any, path: str, depth: int) -> Any:
        kind = type(x)
        if kind in (list, tuple):
            packed = self._packed(x, path)
            if packed is not None:
                return packed
            return [kind.__name__, [self.node(c, f"{path}[{n}]", depth) for n, c in enumerate(x)]]
        if kind in (dict, OrderedDict, defaultdict):
            return self._dict(x, path, depth)
        if kind in (set, frozenset):
            if not all(type(c) in (str, int, float, bool, type(None)) for c in x):
                raise _refused(path, x, "whose members are not plain scalars. Save a list of them.")
            members = sorted(x, key=lambda c: (type(c).__name__, repr(c)))
            return [kind.__name__, [self.node(c, path, depth) for c in members]]
        if registry.has_fields(kind):
            names = registry.field_names(kind)
            if len(getattr(x, "__dict__", ())) > len(names):
                more = sorted(set(vars(x)) - set(names))
                raise _refused(path, x, f"with attributes besides its fields: {', '.join(more)}.")
            parts = [self.node(getattr(x, name), f"{path}.{name}", depth) for name in names]
            return ["fields", registry.name_of(kind), names, parts]
        raise _refused(
            path,
            x,
            "which cannot be saved. Save its state as numbers, arrays or containers, or use "
            f"gt.storage.register({kind.__name__}, to_state, from_state).",
        )

    def _dict(self, x: Any, path: str, depth: int) -> Any:
        parts = []
        for key, value in x.items():
            if not _is_key(key):
                raise UnsavableError(
                    f"save: {path} has the key {key!r}, a {type(key).__name__}. "
                    "Use texts, numbers or tuples of them as keys."
                )
            shown = self.node(list(key), path, depth) if type(key) is tuple else key
            written = ["key", shown] if type(key) is tuple else self.node(key, path, depth)
            parts.append([written, self.node(value, f"{path}[{key!r}]", depth)])
        if type(x) is defaultdict:
            factory = x.default_factory
            words = [word for word, known in FACTORIES.items() if known is factory]
            if factory is not None and not words:
                raise _refused(path, x, "with a factory that is not list, dict, int or float.")
            return ["defaultdict", parts, words[0] if words else None]
        return [type(x).__name__, parts]

    def _packed(self, x: Any, path: str) -> Any:
        """A long list or tuple of numbers of one class, as one array."""
        if (
            len(x) < PACKED_LIST_LENGTH
            or type(x[0]) not in PACKED_TYPES
            or len(set(map(type, x))) > 1
        ):
            return None
        try:
            array = np.array(x, PACKED_TYPES[type(x[0])])
        except OverflowError:
            return None
        return ["packed", type(x).__name__, type(x[0]).__name__, self._array(array, path)]

    def _numpy(self, x: np.ndarray, path: str) -> Any:
        if type(x) is not np.ndarray and not isinstance(x, np.memmap):
            raise _refused(path, x, "a subclass of np.ndarray. Save np.asarray of it.")
        native = x.dtype.newbyteorder("=")
        if native not in DTYPES:
            raise UnsavableError(
                f"save: {path} is an array of dtype {x.dtype}, which holds no plain numbers. "
                "Save numbers and booleans of at most 64 bits a part."
            )
        # The user may write to it while a file is written.
        copy = np.array(x, dtype=native, order="C", subok=False)
        return ["array", self._array(copy, path), x.dtype.str]

    def _array(self, array: np.ndarray, path: str) -> str:
        """Keep an array under a name that is unique and safe in any file."""
        base = re.sub(r"[^A-Za-z0-9_]+", ".", path.removeprefix("tree")).strip(".")[:200] or "value"
        name, count = base, 1
        while name in self.arrays:
            count += 1
            name = f"{base}.{count}"
        self.arrays[name] = np.asarray(array, order="C")
        return name

    def _code(self, x: Any, path: str, depth: int) -> Any:
        """A function, by name; None for anything else."""
        if registry.kind_of(type(x)) is not None or isinstance(x, (Tensor, Variable, np.ndarray)):
            return None
        made = getattr(x, "made_by", None)
        if isinstance(made, MadeFunction):
            parts = [
                [key, self.node(value, path, depth + 1)] for key, value in made.arguments.items()
            ]
            return ["made", made.maker, parts]
        is_code = isinstance(x, (type, functools.partial)) or (
            callable(x) and not registry.has_fields(type(x)) and not pytree.registered(type(x))
        )
        if not is_code:
            return None
        name = registry.function_name(x)
        if name is None and not self.in_code:
            raise UnsavableError(
                f"save: {path} is the function {registry.full_name(x)}, and code is not saved. "
                "Leave it out, or name it with gt.storage.register(function)."
            )
        return ["code", registry.full_name(x) if name is None else name]

    def settle_owners(self) -> None:
        """Point from the states of optimisers to the variables that the tree holds."""
        found: dict[int, set[bool]] = {}
        for node, owner, path in self.owners:
            node[1] = self.variables.get(owner.number)
            both = found.setdefault(owner.group, set())
            both.add(node[1] is None)
            if len(both) > 1:
                raise UnsavableError(
                    f"save: {path} belongs to an optimizer that updates variables in this tree "
                    "and others. Save it with all of its variables, or alone."
                )


def _is_key(key: object) -> bool:
    if type(key) is tuple:
        return all(_is_key(part) and type(part) is not tuple for part in key)
    return type(key) in (str, int, float, bool, type(None))


def _is_other(kind: type) -> bool:
    """Whether a class of tensors belongs to gradtape.tf; all others are loaded as Tensor."""
    return kind.__module__.split(".")[:2] == ["gradtape", "tf"]
