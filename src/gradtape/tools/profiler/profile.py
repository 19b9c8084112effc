"""profile: measure a stretch of a program, line by line and plan by plan."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from gradtape.ir.origin import note_lines
from gradtape.runtime.profiler_sink import PROBE
from gradtape.tools.page.page import page
from gradtape.tools.profiler import formats
from gradtape.tools.profiler.contents import contents
from gradtape.tools.profiler.measured import Measured


class Profile:
    """What a stretch of a program did: time, memory, and what would save some of it.

    >>> x = gt.asarray(np.ones(1000))
    >>> with gt.profile() as p:
    ...     for _ in range(3):
    ...         y = gt.sum(gt.sin(x)).numpy()
    >>> p.data["counters"]["plans_run"]
    3
    """

    def __init__(self, title: str = "") -> None:
        self.title = title
        self._measured: Measured | None = None
        self._data: dict[str, Any] | None = None

    # Starting and stopping.

    def start(self) -> Profile:
        """Begin to measure; `with gt.profile()` does so.

        >>> p = gt.profile().start()
        >>> p.stop().data["counters"]["plans_run"]
        0
        """
        if PROBE.sink is not None:
            raise RuntimeError(
                "profile: another profile is running. Stop it first: profiles do not nest."
            )
        self._data, self._measured = None, Measured(self.title)
        return self

    def stop(self) -> Profile:
        """Stop measuring; leaving the `with` block does so.

        >>> p = gt.profile().start().stop()
        >>> p.data["wall_seconds"] > 0
        True
        """
        measured = self._measured
        if measured is None or not measured.is_running:
            return self
        measured.stop()
        try:
            self._data = contents(measured)
        finally:
            note_lines(False)
            self._measured = None
        return self

    def __enter__(self) -> Profile:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # Results.

    @property
    def data(self) -> dict[str, Any]:
        """Everything that was measured, as a nest of plain data; see docs/profiling.md.

        >>> with gt.profile() as p:
        ...     y = gt.sin(gt.asarray([1.0])).numpy()
        >>> sorted(p.data)[:3]
        ['advice', 'caches', 'counters']
        """
        if self._data is None:
            raise RuntimeError("profile: nothing is measured yet. Leave the `with` block first.")
        return self._data

    @property
    def advice(self) -> list[dict[str, Any]]:
        """What would save time, the largest gain first: kind, sentence, line and seconds.

        >>> with gt.profile() as p:
        ...     y = gt.sin(gt.asarray([1.0])).numpy()
        >>> p.advice
        []
        """
        found: list[dict[str, Any]] = self.data["advice"]
        return found

    def to_json(self, path: str | Path | None = None) -> str:
        """Everything as JSON, written to a file if there is a path.

        >>> with gt.profile() as p:
        ...     y = gt.sin(gt.asarray([1.0])).numpy()
        >>> p.to_json()[:1]
        '{'
        """
        return formats.written(formats.json_text(self.data), path)

    def to_chrome_trace(self, path: str | Path | None = None) -> str:
        """The timeline as JSON that Perfetto, speedscope and chrome://tracing open.

        >>> with gt.profile() as p:
        ...     y = gt.sin(gt.asarray([1.0])).numpy()
        >>> "traceEvents" in p.to_chrome_trace()
        True
        """
        return formats.written(formats.chrome_trace(self.data), path)

    def to_pandas(self, table: str = "groups") -> Any:
        """One table as a pandas DataFrame: groups, lines, plans, advice, memory or functions.

        >>> with gt.profile() as p:
        ...     y = gt.sin(gt.asarray([1.0])).numpy()
        >>> p.to_pandas("plans")  # doctest: +SKIP
        """
        return formats.data_frame(self.data, table)

    def save(self, path: str | Path) -> Path:
        """Write the report as one HTML file, which needs no network; returns its path.

        >>> import pathlib, tempfile
        >>> with gt.profile() as p:
        ...     y = gt.sin(gt.asarray([1.0])).numpy()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     p.save(pathlib.Path(folder) / "report.html").name
        'report.html'
        """
        target = Path(path)
        target.write_text(page(self.data), encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        """The report inside a notebook, in a frame of its own."""
        return formats.framed(page(self.data))

    def __str__(self) -> str:
        return formats.text(self.data) if self._data is not None else "a profile without data"

    def __repr__(self) -> str:
        if self._data is None:
            return "<gt.profile, not measured yet>"
        return f"<gt.profile of {self._data['wall_seconds']:.3g} s, {len(self.advice)} findings>"


def profile(title: str = "") -> Profile:
    """Measure a stretch of a program: `with gt.profile() as p:`, then `print(p)` or `p.save(...)`.

    >>> w = gt.Variable(np.ones(100))
    >>> with gt.profile() as p:
    ...     for _ in range(5):
    ...         with gt.GradientTape() as tape:
    ...             loss = gt.sum(gt.tanh(w) ** 2)
    ...         w = w.assign_sub(0.1 * tape.gradient(loss, w))
    ...         value = float(loss)
    >>> p.data["counters"]["derivatives_built"]
    1

    It lists the time of each fused loop and library call, with the line that recorded it,
    beside what the machine could do; where Python, recording and compiling took time; what tapes
    keep; and advice with the measured gain. While nothing is profiled this costs nothing.
    """
    return Profile(title)
