"""Snapshots to trees: new ones, or into the variables, modules and generators of one that exists.

Nothing that exists is changed while a snapshot is read. Every change is prepared and checked first;
then all are made, and taken back if an interrupt comes between them.
"""

from __future__ import annotations

import base64
import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import numpy as np

from gradtape import pytree
from gradtape.errors import DamagedFileError, MismatchError, StorageError
from gradtape.ir.spec import spec
from gradtape.tensor.row_sparse import RowSparse
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
from gradtape.trace.value import Value
from gradtape.training.storage import registry
from gradtape.training.storage.encode import DEEPEST, DTYPES, FACTORIES, PACKED_TYPES, TF_TENSOR

# What broken or hostile structures make Python raise in the lines below.
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

Arrays = Callable[[str, bool], np.ndarray]


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


def new_tree(tree: Any, objects: list[Any], arrays: Arrays) -> Any:
    """A tree of new objects."""
    return _Decoder(objects, arrays).read(tree, FREE)


def tree_into(tree: Any, objects: list[Any], arrays: Arrays, into: Any) -> Any:
    """The tree around the objects of `into`, which take the saved values: all or none do."""
    decoder = _Decoder(objects, arrays)
    found = decoder.read(tree, into)
    decoder.commit()
    return found


class _Decoder:
    """Puts one tree together."""

    def __init__(self, objects: list[Any], arrays: Arrays) -> None:
        self.objects = objects
        self.arrays = arrays
        self.entries: dict[int, Any] = {}
        # What guided each entry, and the entry that each guide took.
        self.guides: dict[int, Any] = {}
        self.taken: dict[int, int] = {}
        self.reading: set[int] = set()
        self.changes: list[registry.Change] = []
        self.assigned: list[tuple[Variable, Tensor]] = []
        self.last: list[Callable[[], None]] = []
        self.path = "tree"

    def read(self, tree: Any, guide: Any) -> Any:
        """The value of a node, with what happens last."""
        try:
            found = self.node(tree, guide, "tree", 0)
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

    def node(self, node: Any, guide: Any, path: str, depth: int) -> Any:
        """The value of a node of the JSON text."""
        self.path = path
        if node is None or isinstance(node, (bool, int, float, str)):
            self._expect_plain(guide, path, node)
            return node
        tag = node[0]
        if tag == "@":
            return self.entry(_index(node[1]), guide, path, depth)
        if tag == "code" or tag == "made":
            return self._function(node, guide, path, depth)
        if tag == "owner":
            return None if node[1] is None else LateOwner(_index(node[1]), self.entries)
        found = _scalar(node)
        self._expect_plain(guide, path, found)
        return found

    def entry(self, number: int, guide: Any, path: str, depth: int) -> Any:
        """The object of an entry of the table, made once."""
        if number >= len(self.objects):
            raise ValueError(f"there is no entry {number}")
        if number in self.entries:
            if _is_cell(guide) and self.guides.get(number) is not guide:
                raise MismatchError(
                    f"load: {path} is one object with another part of the tree in the file, and "
                    "an object of its own here. Share it here too."
                )
            return self.entries[number]
        if number in self.reading:
            raise DamagedFileError(
                f"load: entry {number} of the file contains itself, at {path}. gradtape writes no "
                "such file."
            )
        if depth > DEEPEST:
            raise DamagedFileError(
                f"load: the file nests more than {DEEPEST} levels at {path}. gradtape writes no "
                "such file."
            )
        if guide is not FREE and _is_cell(guide):
            if id(guide) in self.taken:
                raise MismatchError(
                    f"load: {path} is shared with another part of the tree here, and not in the "
                    "file. Load into a tree that shares the same objects."
                )
            self.taken[id(guide)] = number
        self.guides[number] = guide
        self.reading.add(number)
        found = self._made(self.objects[number], number, guide, path, depth + 1)
        self.entries[number] = found
        self.reading.discard(number)
        return found

    def _made(self, entry: Any, number: int, guide: Any, path: str, depth: int) -> Any:
        tag, *rest = entry
        if tag == "variable":
            return self._variable(rest, guide, path)
        if tag == "state":
            return self._state(rest, number, guide, path, depth)
        if _is_cell(guide):
            self._differ(guide, path, f"a {tag}")
        if tag == "tensor":
            return _tensor(self.arrays(_text(rest[0]), False), _text(rest[1]))
        if tag == "rows":
            indices, values = (_tensor(self.arrays(_text(key), False), "") for key in rest[:2])
            shape = tuple(_index(n) for n in rest[2])
            if indices.dtype.kind not in "iu" or indices.ndim != 1 or not shape:
                raise ValueError("the rows of a row-sparse tensor have no indices")
            if values.shape != (indices.shape[0], *shape[1:]):
                raise ValueError("the rows of a row-sparse tensor do not fit its shape")
            if np.any(indices.numpy() < 0) or np.any(indices.numpy() >= shape[0]):
                raise ValueError("a row-sparse tensor names rows that it does not have")
            return RowSparse(indices, values, spec(shape, DTYPE_NAMES[_text(rest[3])]))
        if tag == "array":
            array, dtype = self.arrays(_text(rest[0]), True), np.dtype(_text(rest[1]))
            if dtype.newbyteorder("=") != array.dtype:
                raise ValueError(f"an array of dtype {array.dtype} is said to be {dtype}")
            return array.astype(dtype, copy=False)
        if tag == "packed":
            kind, member, key = map(_text, rest)
            array = self.arrays(key, False)
            known = {kind.__name__: dtype for kind, dtype in PACKED_TYPES.items()}
            if array.dtype != known[member] or array.ndim != 1:
                raise ValueError("a packed list is not a row of numbers")
            return {"list": list, "tuple": tuple}[kind](array.tolist())
        if tag in ("list", "tuple"):
            return self._list(tag, rest[0], guide, path, depth)
        if tag in ("dict", "OrderedDict", "defaultdict"):
            return self._dict(tag, rest, guide, path, depth)
        if tag in ("set", "frozenset"):
            members = [self.node(part, FREE, path, depth) for part in rest[0]]
            return {"set": set, "frozenset": frozenset}[tag](members)
        if tag == "fields":
            return self._fields(rest, guide, path, depth)
        if tag == "pytree":
            return self._pytree(rest, guide, path, depth)
        raise ValueError(f"{tag!r} is not a kind of entry")

    def _variable(self, rest: list[Any], guide: Any, path: str) -> Variable:
        key, name, trainable, word = rest
        array = self.arrays(_text(key), False)
        if guide is None or guide is FREE:
            cls: Any = Variable if word == "" else self._class(_text(word), path)
            if not issubclass(cls, Variable) or type(trainable) is not bool:
                raise ValueError("a variable is not a variable")
            if cls is Variable:
                return Variable(_tensor(array, ""), trainable, _text(name))
            return cls.restored(array, trainable, _text(name))
        if not isinstance(guide, Variable):
            self._differ(guide, path, "a Variable")
        here = guide._handle.spec
        if here.shape != array.shape or here.dtype != array.dtype:
            raise MismatchError(
                f"load: {path} has shape {array.shape} and dtype {array.dtype} in the file, and "
                f"shape {here.shape} and dtype {here.dtype} here. Load into a tree with the same "
                "variables."
            )
        self.assigned.append((guide, _tensor(array, "")))
        return guide

    def _state(self, rest: list[Any], number: int, guide: Any, path: str, depth: int) -> Any:
        name, inner = _text(rest[0]), rest[1]
        if guide is None or guide is FREE:
            cls = self._class(name, path)
            kind = registry.kind_of(cls)
            if kind is None:
                raise ValueError(f"{name} is not a class with a state")
            if kind.fill is None or kind.make is not None:
                assert kind.make is not None
                return kind.make(self._inner(inner, FREE, path, depth))
            made: Any = object.__new__(cls)
            self.entries[number] = made
            self._fill(kind, made, self._inner(inner, FREE, path, depth), path, at_once=True)
            return made
        kind = registry.kind_of(type(guide))
        if kind is None or kind.name.rpartition(".")[2] != name.rpartition(".")[2]:
            self._differ(guide, path, f"a {name}")
        if kind.fill is None:
            assert kind.make is not None
            return kind.make(self._inner(inner, FREE, path, depth))
        self.entries[number] = guide
        guided = (kind.take_apart if kind.guide is None else kind.guide)(guide)
        self._fill(kind, guide, self._inner(inner, guided, path, depth), path, at_once=False)
        return guide

    def _fill(self, kind: registry.Kind, x: Any, state: Any, path: str, at_once: bool) -> None:
        def prepare() -> None:
            self.path = path
            assert kind.fill is not None
            change = kind.fill(x, state)
            if at_once:
                change.apply()
            else:
                self.changes.append(change)

        if kind.fills_last:
            self.last.append(prepare)
        else:
            prepare()

    def _inner(self, node: Any, guide: Any, path: str, depth: int) -> Any:
        """The state of an object: the attributes of a module, or any node."""
        if not (isinstance(node, list) and node and node[0] == "attributes"):
            return self.node(node, guide, path, depth)
        names = [_text(name) for name, _ in node[1]]
        if len(set(names)) != len(names):
            raise ValueError("an attribute is named twice")
        if guide is not FREE:
            self._same_names(names, guide, path, "attributes")
        guides = dict.fromkeys(names, FREE) if guide is FREE else guide
        read = {name: self.node(n, guides[name], f"{path}.{name}", depth) for name, n in node[1]}
        return read if guide is FREE else {name: read[name] for name in guide}

    # Containers.

    def _list(self, tag: str, parts: Any, guide: Any, path: str, depth: int) -> Any:
        guides: Iterable[Any] = [FREE] * len(parts)
        if guide is not FREE and guide is not None:
            if isinstance(guide, (list, tuple)) and len(guide) == len(parts):
                guides = guide
            elif holds_cells(guide):
                size = f" of {len(guide)}" if isinstance(guide, (list, tuple)) else ""
                self._differ(guide, path, f"a {tag} of {len(parts)}", size)
        read = [
            self.node(part, own, f"{path}[{n}]", depth)
            for n, (part, own) in enumerate(zip(parts, guides, strict=True))
        ]
        found = read if tag == "list" else tuple(read)
        return guide if _is_same(found, guide) else found

    def _dict(self, tag: str, rest: list[Any], guide: Any, path: str, depth: int) -> Any:
        keys = [self._key(key, path, depth) for key, _ in rest[0]]
        if len(set(keys)) != len(keys):
            raise ValueError("a key occurs twice in a dict")
        guides: Any = dict.fromkeys(keys, FREE)
        if isinstance(guide, dict):
            self._same_names(keys, guide, path, "keys")
            guides = guide
        elif guide is not FREE and guide is not None and holds_cells(guide):
            self._differ(guide, path, "a dict")
        read = {
            key: self.node(part, guides[key], f"{path}[{key!r}]", depth)
            for key, (_, part) in zip(keys, rest[0], strict=True)
        }
        if tag == "defaultdict":
            factory = None if rest[1] is None else FACTORIES[_text(rest[1])]
            return defaultdict(factory, read)
        found = OrderedDict(read) if tag == "OrderedDict" else read
        return guide if _is_same(found, guide) else found

    def _key(self, node: Any, path: str, depth: int) -> Any:
        if isinstance(node, list) and node and node[0] == "key":
            return tuple(self.node(node[1], FREE, path, depth))
        return self.node(node, FREE, path, depth)

    def _fields(self, rest: list[Any], guide: Any, path: str, depth: int) -> Any:
        name, names, parts = _text(rest[0]), rest[1], rest[2]
        guided = guide is not FREE and registry.has_fields(type(guide))
        if guided and type(guide).__name__ != name.rpartition(".")[2]:
            self._differ(guide, path, f"a {name}")
        cls = type(guide) if guided else self._class(name, path)
        if not registry.has_fields(cls) or registry.field_names(cls) != names:
            raise MismatchError(
                f"load: {path} is a {name} with the fields {', '.join(map(str, names))} in the "
                f"file, and {cls.__name__} has others. Load it with the class that it was saved of."
            )
        guides = [getattr(guide, field) if guided else FREE for field in names]
        read = [
            self.node(part, own, f"{path}.{field}", depth)
            for part, own, field in zip(parts, guides, names, strict=True)
        ]
        # Constructors are not called: they may convert, check or compute.
        if issubclass(cls, tuple):
            return tuple.__new__(cls, read)
        made = object.__new__(cls)
        for field, value in zip(names, read, strict=True):
            object.__setattr__(made, field, value)
        return made

    def _pytree(self, rest: list[Any], guide: Any, path: str, depth: int) -> Any:
        name, context, parts = _text(rest[0]), rest[1], rest[2]
        guided = guide is not FREE and guide is not None
        if guided and type(guide).__name__ != name.rpartition(".")[2]:
            self._differ(guide, path, f"a {name}")
        cls = type(guide) if guided else self._class(name, path)
        found = pytree.registered(cls)
        if found is None:
            self._unknown(name, path)
        guides: list[Any] = list(found[0](guide)[0]) if guided else [FREE] * len(parts)
        if len(guides) != len(parts):
            self._differ(guide, path, f"a {name} of {len(parts)} parts", f" of {len(guides)}")
        read = [
            self.node(part, own, f"{path}[{n}]", depth)
            for n, (part, own) in enumerate(zip(parts, guides, strict=True))
        ]
        return found[1](self.node(context, FREE, f"{path}.context", depth), read)

    # Names.

    def _class(self, name: str, path: str) -> type:
        found = registry.class_named(name)
        return self._unknown(name, path) if found is None else found

    def _unknown(self, name: str, path: str) -> NoReturn:
        raise MismatchError(
            f"load: {path} is a {name}, which is not registered, and load imports nothing that a "
            "file names. Call gt.storage.register with the class first, or load into a tree that "
            "has one: gt.load(path, into=tree)."
        )

    def _function(self, node: Any, guide: Any, path: str, depth: int) -> Any:
        name = _text(node[1])
        if _is_cell(guide) or (guide is not FREE and holds_cells(guide)):
            self._differ(guide, path, f"the function {name}")
        if guide is not FREE and callable(guide):
            # Code is not saved: what is there stays.
            return guide
        is_name = node[0] == "code"
        found = registry.function_named(name) if is_name else registry.maker_named(name)
        if found is None:
            raise MismatchError(
                f"load: {path} is the function {name}, and code is not saved. Call "
                "gt.storage.register with the function first, or load into a tree that has it: "
                "gt.load(path, into=tree)."
            )
        if is_name:
            return found
        arguments = {_text(key): self.node(part, FREE, path, depth + 1) for key, part in node[2]}
        return found(**arguments)

    # Differences between the file and what is there.

    def _expect_plain(self, guide: Any, path: str, found: Any) -> None:
        if _is_cell(guide) or (guide is not FREE and holds_cells(guide)):
            self._differ(guide, path, f"a {type(found).__name__}")

    def _differ(self, guide: Any, path: str, words: str, more: str = "") -> NoReturn:
        raise MismatchError(
            f"load: {path} is {words} in the file and a {type(guide).__name__}{more} here. "
            "Load into a tree of the same structure."
        )

    def _same_names(self, names: list[Any], guide: Any, path: str, words: str) -> None:
        missing = [str(name) for name in guide if name not in names]
        unexpected = [str(name) for name in names if name not in guide]
        if missing or unexpected:
            parts = [
                *([f"missing in the file: {', '.join(missing)}"] if missing else []),
                *([f"only in the file: {', '.join(unexpected)}"] if unexpected else []),
            ]
            raise MismatchError(
                f"load: {path} has other {words} here than in the file ({'; '.join(parts)}). "
                "Load into a tree of the same structure."
            )


def _is_cell(x: Any) -> bool:
    """Whether an object keeps its identity and takes loaded values in place."""
    if x is FREE or x is None:
        return False
    if isinstance(x, Variable):
        return True
    kind = registry.kind_of(type(x))
    return kind is not None and kind.fill is not None


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
    found: Tensor = cls(None, None, Value(array, spec(array.shape, array.dtype)))
    return found


def _text(node: Any) -> str:
    if not isinstance(node, str):
        raise TypeError(f"expected a text, got {type(node).__name__}")
    return node


def _index(node: Any) -> int:
    if type(node) is not int or node < 0:
        raise TypeError(f"expected a number of at least 0, got {node!r}")
    return node


def _scalar(node: list[Any]) -> Any:
    tag, *rest = node
    if tag == "int":
        return int(_text(rest[0]), 16)
    if tag == "float":
        return float.fromhex(_text(rest[0]))
    if tag == "complex":
        return complex(float.fromhex(_text(rest[0])), float.fromhex(_text(rest[1])))
    if tag == "bytes":
        return base64.b64decode(_text(rest[0]), validate=True)
    if tag == "dtype":
        return DTYPE_NAMES[_text(rest[0])]
    if tag == "scalar":
        content = base64.b64decode(_text(rest[1]), validate=True)
        (found,) = np.frombuffer(content, DTYPE_NAMES[_text(rest[0])])
        return found
    raise ValueError(f"{tag!r} is not a kind of value")
