"""Outside reads: everything that a captured run read in Python besides its inputs, as guards."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from gradtape.functions.outside.code_reads import line_of, reads_of
from gradtape.functions.outside.run_observer import Observation
from gradtape.functions.outside.trusted_code import is_own_scope
from gradtape.functions.outside.visit_functions import named_code
from gradtape.functions.outside.walk import Walk


class OutsideReads:
    """The Python state that a function reads besides its inputs, with its present values.

    >>> from gradtape.functions.outside.outside_reads import OutsideReads
    >>> factor = [2.0]
    >>> reads = OutsideReads(lambda x: factor[0] * x, [], None)
    >>> reads.differs()
    False
    >>> factor[0] = 3.0
    >>> reads.differs()
    True

    `differs()` is called in every replay. `arguments` are those that are not inputs, with their
    names. `observation` tells what an earlier run executed.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Iterable[tuple[str, Any]],
        observation: Observation | None,
    ) -> None:
        roots = list(arguments)
        # Functions that call one another by global names are found without a walk.
        walk = Walk(observation, named_code(function) if observation is None else None)
        walk.run(function, roots)
        while observation is None and walk.grew:
            # Code that was found reads more names: once more with those.
            walk = Walk(None, walk.executed)
            walk.run(function, roots)
        self._comparisons = walk.comparisons
        self._executed = tuple(walk.executed)
        self.places = frozenset(label for label, _ in walk.comparisons.places)
        # Why a run cannot be replayed, as far as the walk can tell.
        self.unknown: list[str] = walk.unknown
        # Tensors that the function can reach by another name than as an argument.
        self.tensors: tuple[weakref.ref[Any], ...] = tuple(walk.tensors)
        # The ids of lists and dicts that are outside.
        self.containers = {
            key for key, (_, each) in walk.met.items() if isinstance(each, (list, dict))
        }
        # Whether code of the user asks for the type of something.
        self.asks_for_types = any(
            "type" in reads_of(code).globals and not is_own_scope(scope)
            for code, scope in walk.executed.items()
        )

    @functools.cached_property
    def differs(self) -> Callable[[], bool] | None:
        """What tells whether anything has changed since; None if nothing can."""
        return self._comparisons.compiled()

    @property
    def large_arrays(self) -> list[tuple[str, int]]:
        """Arrays whose content takes long to compare, with their sizes in bytes."""
        return self._comparisons.large_arrays

    def difference(self, later: OutsideReads | None = None) -> tuple[str, str, str] | None:
        """The first thing that has changed, what it was, and what it is.

        `later` reads tell what is there now: if they are the same, nothing has to be compared.
        """
        if later is not None and later._comparisons.are_those_of(self._comparisons):
            return None
        return self._comparisons.difference()

    def line(self, label: str) -> str:
        """Where code reads a place, as far as its name tells; "" if that is not known."""
        name = label.partition("[")[0].rpartition(".")[2]
        for code in self._executed:
            number = line_of(code, name)
            if number is not None:
                return f"{code.co_filename}:{number}"
        return ""
