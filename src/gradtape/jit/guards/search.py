"""GuardSearch: what was found so far, which names code reads, and the guards that were made."""

from __future__ import annotations

import builtins
import collections
import operator
import os
import sys
import weakref
from collections.abc import Callable, Collection, Sequence, Set
from types import CodeType
from typing import Any

import numpy as np

from gradtape.caches import remembered
from gradtape.concurrency import is_interrupt
from gradtape.config import MOST_GUARDED_OBJECTS
from gradtape.jit.guards.guards import PLAIN, Absent, GuardRow, Guards
from gradtape.jit.guards.names import module_of, why_never
from gradtape.tensor.tensor import Tensor

SINGLE = (type(None), bool, type(...), type(NotImplemented), *PLAIN)
MISSING = object()
# Packages of the library whose code reads attributes of the user's objects: layers, optimisers.
_FOLLOWED_PACKAGES = ("gradtape.nn", "gradtape.optimizers", "gradtape.tf.keras")
# Folders of installed packages: also those of the system that a virtual environment uses.
_INSTALLED = frozenset(("site-packages", "dist-packages"))


class Outside:
    """The guards of a function, and what else the search has met."""

    def __init__(self) -> None:
        self.guards = Guards()
        # Why calls are never replayed: the reason, what is named, and where.
        self.never: tuple[str, str, str] | None = None
        # Whether the user's code asks for the type of something: numbers are plain then.
        self.asks_for_types = False
        # Tensors that the function can reach, and the ids of lists and dicts that are outside.
        self.tensors: list[weakref.ref[Tensor]] = []
        self.containers: set[int] = set()


@remembered(4096)
def is_installed(top: str) -> bool:
    """Whether a package is one of Python or an installed one, whose insides are trusted."""
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return top != "__main__"
    found = sys.modules.get(top)
    # Not by getattr, which may run code of the module.
    path = None if found is None else vars(found).get("__file__")
    if not isinstance(path, str):
        return False
    return not _INSTALLED.isdisjoint(os.path.realpath(path).split(os.sep))


class _ReadNames(set[str]):
    """The attributes that code reads, as far as it was followed; or any."""

    is_all = False

    def __contains__(self, name: object) -> bool:
        return self.is_all or set.__contains__(self, name)


class GuardSearch:
    """One search from a function and its static arguments."""

    def __init__(self, function: Any, callbacks: Collection[CodeType]) -> None:
        self.callbacks = callbacks
        self.found = Outside()
        self.guards = self.found.guards
        module = getattr(function, "__module__", None)
        # The package of the function itself is the user's, wherever it lies.
        self.own_package = module.partition(".")[0] if isinstance(module, str) else ""
        self.names = _ReadNames(("__class__",))
        self._fresh: set[str] = set()
        # Names whose values are compared and not looked at; and whether these are read now.
        self.compared_only: set[str] = set()
        self._only_compares = False
        self.all = self.all_own = False
        self._pending: collections.deque[tuple[Any, str]] = collections.deque()
        # What was met, by id, kept so that no id is used twice; and how it is looked at again when
        # new names come up.
        self._met: dict[int, Any] = {}
        self._again: list[Callable[[set[str]], None]] = []
        self.classes: set[type] = set()
        self.registrations = False

    def is_users(self, module: Any) -> bool:
        """Whether code of a module is looked through."""
        if not isinstance(module, str):
            return True
        top = module.partition(".")[0]
        if top == "gradtape":
            return module.startswith(_FOLLOWED_PACKAGES)
        return top == self.own_package or not is_installed(top)

    def is_foreign(self, module: Any) -> bool:
        """Whether a module is neither the user's nor the library's."""
        own = isinstance(module, str) and module.partition(".")[0] == "gradtape"
        return not own and not self.is_users(module)

    def users_classes(self, kind: type) -> list[type]:
        """A class and its bases, as far as their code is looked through."""
        return [
            each for each in kind.__mro__ if each is not object and self.is_users(module_of(each))
        ]

    def enter(self, value: Any, label: str) -> None:
        """Look at a value later."""
        if self._only_compares or value is vars(builtins):
            return
        if type(value) not in SINGLE and not isinstance(value, (np.dtype, np.ufunc)):
            self._pending.append((value, label))

    def run(self, visit: Callable[[GuardSearch, Any, str], None]) -> None:
        """Look at everything that was found."""
        while True:
            while self._pending and len(self._met) < MOST_GUARDED_OBJECTS:
                value, label = self._pending.popleft()
                if id(value) not in self._met:
                    self._met[id(value)] = value
                    try:
                        visit(self, value, label)
                    except Exception as error:
                        # An object may refuse to be looked at: the others have their guards.
                        if is_interrupt(error):
                            raise
            if not self._fresh:
                break
            fresh, self._fresh = self._fresh, set()
            for look in list(self._again):
                look(fresh)
        self._only_compares = True
        others = self.compared_only - set(self.names)
        for look in list(self._again) if others else ():
            look(others)
        # The functions that look again hold what they look at, and this search.
        self._again, self._met = [], {}

    def add(
        self,
        read: Callable[[Any], Any],
        holder: Any,
        labels: list[str] | str,
        announced: bool = False,
        names: Sequence[str] = (),
    ) -> list[Any]:
        """Compare what is read of a holder from now on; returns what is there."""
        try:
            values = [*read(holder)]
        except Exception:
            return []  # a guard that cannot be made is none
        row = GuardRow(read, holder, values, labels, self.guards.holders, names)
        if announced:
            self.guards.announced.append(row)
        else:
            self.guards.rows.append(row)
        return values

    def add_absent(
        self, read: Callable[[Any], Any], holder: Any, names: Set[str], label: str
    ) -> None:
        """Notice when one of these names comes to a dictionary that does not have it."""
        self.guards.rows.append(Absent(read, holder, names, label, self.guards.holders))

    def add_attributes(
        self, holder: Any, names: Sequence[str], labels: list[str], announced: bool = False
    ) -> list[tuple[str, Any]]:
        """Compare attributes of an object; returns them with their labels."""
        read = operator.attrgetter(*names, *names[: len(names) == 1])
        return [*zip(labels, self.add(read, holder, labels, announced, names), strict=False)]

    def enter_attributes(
        self, holder: Any, names: Sequence[str], label: str, announced: bool = False
    ) -> None:
        """Compare attributes of an object, and look at them."""
        labels = [f"{label}.{name}" for name in names]
        for name, part in self.add_attributes(holder, names, labels, announced) if names else ():
            if type(part) not in SINGLE and not name.endswith(".__class__"):
                self.never(part, name)
                self.enter(part, name)

    def add_items(self, held: Any, names: list[str], label: str) -> None:
        """Compare entries of a dictionary, and look at them."""
        if names:
            read = operator.itemgetter(*names, *names[: len(names) == 1])
            labels = [f"{label}{name}" for name in names]
            seen = self.add(read, held, labels, names=names)
            for name, value in zip(labels, seen, strict=False):
                self.enter(value, name)

    def never(self, value: Any, label: str, code: CodeType | None = None) -> None:
        """Note why calls are never replayed, if they are not with this value."""
        if self.found.never is None and not self._only_compares:
            reason = why_never(value, self.names)
            if reason is not None:
                self.refuse(reason, label, code)

    def refuse(self, reason: str, label: str, code: CodeType | None) -> None:
        """Calls are never replayed, for this reason."""
        if self.found.never is None:
            where = self.guards.line(label)
            if not where and code is not None:
                where = f"{code.co_filename}:{code.co_firstlineno}"
            self.found.never = (reason, label, where)

    def look_again(self, look: Callable[[set[str]], None]) -> None:
        """Look at an object for the names known so far, and for later ones when they come up."""
        done: set[str] = set()

        def once(names: set[str]) -> None:
            new = names - done
            done.update(new)
            look(new)

        self._again.append(once)
        once(set(self.names))

    def read_dict(self, held: Any, names: set[str], label: str) -> None:
        found = [*held] if self.all else sorted(names.intersection(held))
        self.add_items(held, [name for name in found if isinstance(name, str)], label)

    def note_all_names(self, is_own: bool) -> None:
        """Code was found that may read any attribute; the library's own only of its objects."""
        is_new = not (self.all_own if is_own else self.all)
        self.all_own = True
        self.all |= not is_own
        self.names.is_all = self.all
        for look in list(self._again) if is_new else ():
            look(set())

    def note_names(self, names: Set[str]) -> None:
        """Look for these names on everything that was found and will be found."""
        new = set(names) - set(self.names)
        self.names |= new
        self._fresh |= new


def class_entry(kind: type, name: str) -> Any:
    for each in kind.__mro__:
        if name in each.__dict__:
            return each.__dict__[name]
    return MISSING
