"""Snapshots to trees: new ones, or into the variables, modules and generators of one that exists.

Nothing that exists is changed while a snapshot is read. Every change is prepared and checked first;
then all are made, and taken back if an interrupt comes between them.
"""

from __future__ import annotations

import base64
import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from gradtape import RowSparse, Tensor, Variable, pytree
from gradtape.errors import DamagedFileError, MismatchError, StorageError
from gradtape.libraries import spec, tensor_on_array
from gradtape.training.storage import registry
from gradtape.training.storage.encode import DEEPEST, DTYPES, FACTORIES, PACKED_TYPES, TF_TENSOR

# Exceptions that Python raises below for broken or hostile structures.
BROKEN = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    OverflowError,
    AssertionError,
    RecursionError,
    ArithmeticError,
)
# Where no object guides the reading: the file alone says what is made.
FREE: Any = object()
DTYPE_NAMES = {dtype.name: dtype for dtype in DTYPES}

ArrayReader = Callable[[str, bool], np.ndarray]


@dataclasses.dataclass(frozen=True)
class LateOwner:
    """A variable that the tree holds elsewhere: known when all of the tree is read."""

    entry: int
    entries: dict[int, Any]

    @property
    def variable(self) -> Variable:
        """The variable."""
        found = self.entries.get(self.entry)
        if not isinstance(found, Variable):
            raise ValueError(f"entry {self.entry} is not a variable of the tree")
        return found


def new_tree(tree: Any, objects: list[Any], arrays: ArrayReader) -> Any:
    """A tree of new objects."""
    return _Decoder(objects, arrays).read(tree, FREE)


def tree_into(tree: Any, objects: list[Any], arrays: ArrayReader, into: Any) -> Any:
    """The tree around the objects of `into`, which take the saved values: all or none do."""
    decoder = _Decoder(objects, arrays)
    found = decoder.read(tree, into)
    decoder.commit()
    return found


class _At(NamedTuple):
    """The place of a node: the object that takes its value, or FREE, and the path to it."""

    guide: Any
    path: str
    depth: int

    @property
    def is_free(self) -> bool:
        """Whether no object takes the value."""
        return self.guide is FREE or self.guide is None

    def part(self, label: str, guide: Any = FREE) -> _At:
        """The place of a part."""
        return _At(guide, self.path + label, self.depth)

    def differ(self, words: str, more: str = "") -> NoReturn:
        """Raise the error for a file that holds something else than the tree."""
        raise MismatchError(
            f"load: {self.path} is {words} in the file and a {type(self.guide).__name__}{more} "
            "here. Load into a tree of the same structure."
        )

    def same_names(self, names: list[Any], words: str) -> None:
        """Raise if the file has other names than the object."""
        missing = [str(name) for name in self.guide if name not in names]
        unexpected = [str(name) for name in names if name not in self.guide]
        if missing or unexpected:
            parts = [
                *([f"missing in the file: {', '.join(missing)}"] if missing else []),
                *([f"only in the file: {', '.join(unexpected)}"] if unexpected else []),
            ]
            raise MismatchError(
                f"load: {self.path} has other {words} here than in the file ({'; '.join(parts)}). "
                "Load into a tree of the same structure."
            )


class _Decoder:
    """Puts one tree together."""

    def __init__(self, objects: list[Any], arrays: ArrayReader) -> None:
        self.objects = objects
        self.arrays = arrays
        self.entries: dict[int, Any] = {}
        # The guide of each entry, and the guides that have one, by id.
        self.guides: dict[int, Any] = {}
        self.taken: set[int] = set()
        self.reading: set[int] = set()
        self.changes: list[registry.Change] = []
        self.assigned: list[tuple[Variable, Tensor]] = []
        self.last: list[Callable[[], None]] = []
        self.path = "tree"

    def read(self, tree: Any, guide: Any) -> Any:
        """The value of a node, with what happens last."""
        try:
            found = self.node(tree, _At(guide, "tree", 0))
            for each in self.last:
                each()
        except StorageError:
            raise
        except BROKEN as error:
            raise DamagedFileError(
                f"load: the structure of the file is not what gradtape writes, near {self.path}: "
                f"{error}. The file is damaged or was written by something else."
            ) from error
        return found

    def commit(self) -> None:
        """Make all changes, or none."""
        variables = [variable for variable, _ in self.assigned]
        new = [Tensor(None, None, tensor.computed) for _, tensor in self.assigned]
        before = [variable._handle for variable in variables]
        made = 0
        try:
            for change in self.changes:
                made += 1
                change.apply()
            for variable, tensor in zip(variables, new, strict=True):
                variable.assign(tensor)
        except BaseException:
            Variable.hold_again(variables, before)
            for change in self.changes[:made]:
                change.undo()
            raise

    # Nodes.

    def node(self, node: Any, at: _At) -> Any:
        """The value of a node of the JSON text."""
        self.path = at.path
        found = node
        if node is not None and not isinstance(node, (bool, int, float, str)):
            tag, *rest = node
            if tag == "@":
                return self.entry(_index(rest[0]), at)
            if tag in ("code", "made"):
                return self._function(tag, rest, at)
            if tag == "owner":
                return None if rest[0] is None else LateOwner(_index(rest[0]), self.entries)
            found = SCALARS[tag](*map(_text, rest))
        if not at.is_free and (_is_cell(at.guide) or holds_cells(at.guide)):
            at.differ(f"a {type(found).__name__}")
        return found

    def entry(self, number: int, at: _At) -> Any:
        """The object of an entry of the table, made once."""
        guide = at.guide
        if number >= len(self.objects):
            raise ValueError(f"there is no entry {number}")
        if number in self.entries:
            if _is_cell(guide) and self.guides.get(number) is not guide:
                raise MismatchError(
                    f"load: {at.path} is one object with another part of the tree in the file, and "
                    "an object of its own here. Share it here too."
                )
            return self.entries[number]
        if number in self.reading:
            raise DamagedFileError(
                f"load: entry {number} of the file contains itself, at {at.path}. gradtape writes "
                "no such file."
            )
        if at.depth > DEEPEST:
            raise DamagedFileError(
                f"load: the file nests more than {DEEPEST} levels at {at.path}. gradtape writes no "
                "such file."
            )
        if _is_cell(guide):
            if id(guide) in self.taken:
                raise MismatchError(
                    f"load: {at.path} is shared with another part of the tree here, and not in the "
                    "file. Load into a tree that shares the same objects."
                )
            self.taken.add(id(guide))
        self.guides[number] = guide
        self.reading.add(number)
        tag, *rest = self.objects[number]
        at = at._replace(depth=at.depth + 1)
        if tag == "state":
            found = self._state(number, rest, at)
        else:
            if tag != "variable" and _is_cell(guide):
                at.differ(f"a {tag}")
            found = self.MAKERS[tag](self, tag, *rest, at)
        self.entries[number] = found
        self.reading.discard(number)
        return found

    def parts(self, nodes: Any, labels: Iterable[str], guides: Iterable[Any], at: _At) -> list[Any]:
        """The values of the parts of an object."""
        places = zip(nodes, labels, guides, strict=True)
        return [self.node(node, at.part(label, guide)) for node, label, guide in places]

    def _variable(self, _: str, key: Any, name: Any, trainable: Any, word: Any, at: _At) -> Any:
        array, guide = self.arrays(_text(key), False), at.guide
        if at.is_free:
            cls: Any = Variable if word == "" else self._class(_text(word), at)
            if not issubclass(cls, Variable) or type(trainable) is not bool:
                raise ValueError("a variable is not a variable")
            if cls is Variable:
                return Variable(_tensor(array, ""), trainable, _text(name))
            return cls.restored(array, trainable, _text(name))
        if not isinstance(guide, Variable):
            at.differ("a Variable")
        here = guide._handle.spec
        if here.shape != array.shape or here.dtype != array.dtype:
            raise MismatchError(
                f"load: {at.path} has shape {array.shape} and dtype {array.dtype} in the file, and "
                f"shape {here.shape} and dtype {here.dtype} here. Load into a tree with the same "
                "variables."
            )
        self.assigned.append((guide, _tensor(array, "")))
        return guide

    def _state(self, number: int, rest: list[Any], at: _At) -> Any:
        (name, inner), guide = rest, at.guide
        cls = self._class(_text(name), at) if at.is_free else type(guide)
        kind = registry.kind_of(cls)
        if not at.is_free:
            if kind is None or kind.name.rpartition(".")[2] != _text(name).rpartition(".")[2]:
                at.differ(f"a {name}")
        elif kind is None:
            raise ValueError(f"{name} is not a class with a state")
        if kind.fill is None or (at.is_free and kind.make is not None):
            assert kind.make is not None
            return kind.make(self._inner(inner, at._replace(guide=FREE)))
        x: Any = object.__new__(cls) if at.is_free else guide
        self.entries[number] = x
        guided = FREE if at.is_free else (kind.guide or kind.take_apart)(x)
        state = self._inner(inner, at._replace(guide=guided))

        def prepare() -> None:
            self.path = at.path
            assert kind.fill is not None
            change = kind.fill(x, state)
            if at.is_free:
                change.apply()
            else:
                self.changes.append(change)

        if kind.fills_last:
            self.last.append(prepare)
        else:
            prepare()
        return x

    def _inner(self, node: Any, at: _At) -> Any:
        """The state of an object: the attributes of a module, or any node."""
        if not (isinstance(node, list) and node and node[0] == "attributes"):
            return self.node(node, at)
        names = [_text(name) for name, _ in node[1]]
        guides = self._named(names, at, "attributes", "an attribute is named twice")
        labels = [f".{name}" for name in names]
        read = self.parts([part for _, part in node[1]], labels, guides, at)
        found = dict(zip(names, read, strict=True))
        return found if at.guide is FREE else {name: found[name] for name in at.guide}

    def _named(self, names: list[Any], at: _At, words: str, twice: str) -> list[Any]:
        """The guides of named parts."""
        if len(set(names)) != len(names):
            raise ValueError(twice)
        if at.is_free or not isinstance(at.guide, Mapping):
            return [FREE] * len(names)
        at.same_names(names, words)
        return [at.guide[name] for name in names]

    # Containers.

    def _list(self, tag: str, parts: Any, at: _At) -> Any:
        guide, guides = at.guide, [FREE] * len(parts)
        if isinstance(guide, (list, tuple)) and len(guide) == len(parts):
            guides = list(guide)
        elif holds_cells(guide):
            size = f" of {len(guide)}" if isinstance(guide, (list, tuple)) else ""
            at.differ(f"a {tag} of {len(parts)}", size)
        read = self.parts(parts, map("[{}]".format, range(len(parts))), guides, at)
        return _or_guide(read if tag == "list" else tuple(read), guide)

    def _dict(self, tag: str, parts: Any, *rest: Any) -> Any:
        at: _At = rest[-1]
        keys = [self._key(key, at.part("")) for key, _ in parts]
        if not isinstance(at.guide, dict) and holds_cells(at.guide):
            at.differ("a dict")
        guides = self._named(keys, at, "keys", "a key occurs twice in a dict")
        labels = [f"[{key!r}]" for key in keys]
        read = self.parts([part for _, part in parts], labels, guides, at)
        found = dict(zip(keys, read, strict=True))
        if tag == "defaultdict":
            return defaultdict(None if rest[0] is None else FACTORIES[_text(rest[0])], found)
        return _or_guide(OrderedDict(found) if tag == "OrderedDict" else found, at.guide)

    def _key(self, node: Any, at: _At) -> Any:
        if isinstance(node, list) and node and node[0] == "key":
            return tuple(self.node(node[1], at))
        return self.node(node, at)

    def _set(self, tag: str, parts: Any, at: _At) -> Any:
        return {"set": set, "frozenset": frozenset}[tag](self.node(p, at.part("")) for p in parts)

    def _fields(self, _: str, name: Any, names: Any, parts: Any, at: _At) -> Any:
        guided = at.guide is not FREE and registry.has_fields(type(at.guide))
        cls = self._class_of(_text(name), guided, at)
        if not registry.has_fields(cls) or registry.field_names(cls) != names:
            raise MismatchError(
                f"load: {at.path} is a {name} with the fields {', '.join(map(str, names))} in the "
                f"file, and {cls.__name__} has others. Load it with the class that it was saved of."
            )
        guides = [getattr(at.guide, field) if guided else FREE for field in names]
        read = self.parts(parts, map(".{}".format, names), guides, at)
        # Constructors are not called: they may convert, check or compute.
        if issubclass(cls, tuple):
            return tuple.__new__(cls, read)
        made = object.__new__(cls)
        for field, value in zip(names, read, strict=True):
            object.__setattr__(made, field, value)
        return made

    def _pytree(self, _: str, name: Any, context: Any, parts: Any, at: _At) -> Any:
        cls = self._class_of(_text(name), not at.is_free, at)
        found = pytree.registered(cls)
        if found is None:
            self._unknown(name, at)
        guides = [FREE] * len(parts) if at.is_free else list(found[0](at.guide)[0])
        if len(guides) != len(parts):
            at.differ(f"a {name} of {len(parts)} parts", f" of {len(guides)}")
        read = self.parts(parts, map("[{}]".format, range(len(parts))), guides, at)
        return found[1](self.node(context, at.part(".context")), read)

    def _tensor(self, _: str, key: Any, word: Any, at: _At) -> Any:
        return _tensor(self.arrays(_text(key), False), _text(word))

    def _rows(self, _: str, *rest: Any) -> Any:
        indices, values = (_tensor(self.arrays(_text(key), False), "") for key in rest[:2])
        shape = tuple(_index(n) for n in rest[2])
        if indices.dtype.kind not in "iu" or indices.ndim != 1 or not shape:
            raise ValueError("the rows of a row-sparse tensor have no indices")
        if values.shape != (indices.shape[0], *shape[1:]):
            raise ValueError("the rows of a row-sparse tensor do not fit its shape")
        if np.any(indices.numpy() < 0) or np.any(indices.numpy() >= shape[0]):
            raise ValueError("a row-sparse tensor names rows that it does not have")
        return RowSparse(indices, values, spec(shape, DTYPE_NAMES[_text(rest[3])]))

    def _array(self, _: str, key: Any, word: Any, at: _At) -> Any:
        array, dtype = self.arrays(_text(key), True), np.dtype(_text(word))
        if dtype.newbyteorder("=") != array.dtype:
            raise ValueError(f"an array of dtype {array.dtype} is said to be {dtype}")
        return array.astype(dtype, copy=False)

    def _packed(self, _: str, kind: Any, member: Any, key: Any, at: _At) -> Any:
        array = self.arrays(_text(key), False)
        known = {kind.__name__: dtype for kind, dtype in PACKED_TYPES.items()}
        if array.dtype != known[_text(member)] or array.ndim != 1:
            raise ValueError("a packed list is not a row of numbers")
        return {"list": list, "tuple": tuple}[_text(kind)](array.tolist())

    # Makers of entries, by tag: called with the tag, the contents of the entry, and its place.
    MAKERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "variable": _variable,
        "tensor": _tensor,
        "rows": _rows,
        "array": _array,
        "packed": _packed,
        **dict.fromkeys(("list", "tuple"), _list),
        **dict.fromkeys(("dict", "OrderedDict", "defaultdict"), _dict),
        **dict.fromkeys(("set", "frozenset"), _set),
        "fields": _fields,
        "pytree": _pytree,
    }

    # Names.

    def _class_of(self, name: str, guided: bool, at: _At) -> type:
        """The class of the object here, if it has the name in the file; else the class named."""
        if not guided:
            return self._class(name, at)
        if type(at.guide).__name__ != name.rpartition(".")[2]:
            at.differ(f"a {name}")
        return type(at.guide)

    def _class(self, name: str, at: _At) -> type:
        found = registry.class_named(name)
        return self._unknown(name, at) if found is None else found

    def _unknown(self, name: str, at: _At) -> NoReturn:
        raise MismatchError(
            f"load: {at.path} is a {name}, which is not registered, and load imports nothing that "
            "a file names. Call gt.storage.register with the class first, or load into a tree that "
            "has one: gt.load(path, into=tree)."
        )

    def _function(self, tag: str, rest: list[Any], at: _At) -> Any:
        name = _text(rest[0])
        if _is_cell(at.guide) or holds_cells(at.guide):
            at.differ(f"the function {name}")
        if at.guide is not FREE and callable(at.guide):
            # Code is not saved: what is there stays.
            return at.guide
        found = registry.function_named(name, makes=tag == "made")
        if found is None:
            raise MismatchError(
                f"load: {at.path} is the function {name}, and code is not saved. Call "
                "gt.storage.register with the function first, or load into a tree that has it: "
                "gt.load(path, into=tree)."
            )
        if tag == "code":
            return found
        inside = _At(FREE, at.path, at.depth + 1)
        return found(**{_text(key): self.node(part, inside) for key, part in rest[1]})


def _is_cell(x: Any) -> bool:
    """Whether an object keeps its identity and takes loaded values in place."""
    kind = registry.kind_of(type(x))
    return isinstance(x, Variable) or (kind is not None and kind.fill is not None)


def _or_guide(found: Any, guide: Any) -> Any:
    """The container that is there, if the one that was read holds the very same objects."""
    return guide if _is_same(found, guide) else found


def _is_same(found: Any, guide: Any) -> bool:
    """Whether a container that was read holds the very objects of the one that is there."""
    if type(found) is not type(guide) or len(found) != len(guide):
        return False
    if isinstance(found, dict):
        return list(found) == list(guide) and _is_same([*found.values()], [*guide.values()])
    return all(one is other for one, other in zip(found, guide, strict=True))


def holds_cells(tree: Any) -> bool:
    """Whether a tree holds such objects."""
    return any(_is_cell(leaf) for leaf in pytree.flatten(tree)[0])


def _tensor(array: np.ndarray, word: str) -> Tensor:
    cls: Any = registry.class_named(word) if word else Tensor
    if cls is None or word not in ("", TF_TENSOR):
        raise ValueError(f"{word!r} is not a class of tensors")
    if array.dtype == np.float16:
        raise ValueError("a tensor of dtype float16")
    array = array.view()
    array.flags.writeable = False
    return tensor_on_array(array, cls)


def _text(node: Any) -> str:
    if not isinstance(node, str):
        raise TypeError(f"expected a text, got {type(node).__name__}")
    return node


def _index(node: Any) -> int:
    if type(node) is not int or node < 0:
        raise TypeError(f"expected a number of at least 0, got {node!r}")
    return node


def _numpy_scalar(name: str, content: str) -> Any:
    (found,) = np.frombuffer(_bytes(content), DTYPE_NAMES[name])
    return found


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


# Plain values that JSON does not have, by their tag.
SCALARS: dict[str, Callable[..., Any]] = {
    "int": lambda text: int(text, 16),
    "float": float.fromhex,
    "complex": lambda *parts: complex(*map(float.fromhex, parts)),
    "bytes": _bytes,
    "dtype": DTYPE_NAMES.__getitem__,
    "scalar": _numpy_scalar,
}
