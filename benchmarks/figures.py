"""Pictures of the committed results: `make figures` draws them into docs/pictures.

In `benchmarks/published/` are `bench.json` of `make bench`, `curves.json` of `make bench-curves`
and `questions.json` of `python -m benchmarks.questions`. Everything that README and the site say
about speed is drawn or computed from these.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "published"
PICTURES = ROOT / "docs" / "pictures"

OURS = ("function", "gradtape")
# What a library is called, and its forms in the table: the best of them counts.
LIBRARIES = {
    "JAX (jit)": ("jax jit",),
    "PyTorch": ("torch", "torch 1 thr"),
    "TensorFlow, compiled": ("tf.function", "tf XLA"),
    "TensorFlow, tape": ("tf eager",),
    "autograd": ("autograd",),
}
GROUPS = {
    "basics": "first examples",
    "ops": "single ops",
    "models": "models and training steps",
    "gradbench": "GradBench",
    "complaints": "complaints of users",
    "tapes": "tapes",
    "compiling": "compiling",
    "science": "programs of scientists",
    "outside": "programs from outside",
}
# The curves that README shows, of all in the results.
SHOWN_CURVES = ("chain", "logistic", "perceptron")
TICKS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 100, 300, 1000)
INK, AHEAD, BEHIND = "#7d8590", "#3d7dd8", "#d1495b"
COLOURS = {
    "function": AHEAD,
    "undecorated": "#7fb0ee",
    "jax": "#e07b39",
    "torch": "#c2497a",
    "autograd": "#2f9e63",
}
NAMES = {"function": "gradtape, gt.function", "undecorated": "gradtape, undecorated",
         "jax": "JAX (jit)", "torch": "PyTorch", "autograd": "autograd"}  # fmt: skip


@lru_cache(maxsize=1)
def bench() -> dict[str, Any]:
    """The results of `make bench`."""
    return json.loads((RESULTS / "bench.json").read_text("utf-8"))


@lru_cache(maxsize=1)
def curves() -> dict[str, Any]:
    """The results of `make bench-curves`."""
    return json.loads((RESULTS / "curves.json").read_text("utf-8"))


@lru_cache(maxsize=1)
def questions() -> dict[str, Any]:
    """The results of `python -m benchmarks.questions`."""
    return json.loads((RESULTS / "questions.json").read_text("utf-8"))


def best(row: Mapping[str, Any], forms: Iterable[str]) -> float | None:
    """The shortest time of some forms in a row."""
    cells = (row["forms"].get(form) or {} for form in forms)
    return min((cell["best"] for cell in cells if cell.get("best")), default=None)


def peers_of(row: Mapping[str, Any]) -> float | None:
    """The shortest time of all peers in a row; NumPy has its derivative by hand, and is none."""
    return best(row, [form for form in row["forms"] if form not in (*OURS, "numpy")])


def ratios(form: str = "function") -> dict[str, dict[str, float]]:
    """For each group and row the best peer's time by ours: above 1 gradtape is ahead."""
    found: dict[str, dict[str, float]] = {}
    for row in bench()["workloads"]:
        peer, ours = peers_of(row), best(row, (form,))
        if peer and ours and row["group"]:
            found.setdefault(row["group"], {})[row["name"]] = peer / ours
    return found


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def by_library() -> dict[str, tuple[float, int]]:
    """For each library its time by that of `gt.function`, as geometric mean, and the rows."""
    found = {}
    for name, forms in LIBRARIES.items():
        both = [(best(row, forms), best(row, ("function",))) for row in bench()["workloads"]]
        times = [theirs / ours for theirs, ours in both if theirs and ours]
        if times:
            found[name] = (mean(times), len(times))
    return found


def origin(results: Mapping[str, Any]) -> str:
    """When and where results were measured."""
    return f"{results['date']}, {results['machine']}"


def _axes(pyplot: Any, rows: int, columns: int, size: tuple[float, float], **options: Any) -> Any:
    pyplot.rcParams.update(
        {
            "text.color": INK,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "svg.fonttype": "none",
            "svg.hashsalt": "gradtape",
            "font.family": "sans-serif",
            "font.size": 10,
            "legend.frameon": False,
        }
    )
    return pyplot.subplots(rows, columns, figsize=size, squeeze=False, **options)


def draw_libraries(axis: Any) -> None:
    """Bars: how long the others take, gradtape being 1."""
    found = by_library()
    names = sorted(found, key=lambda name: found[name][0])
    axis.barh(["gradtape", *names], [1.0, *[found[name][0] for name in names]],
              color=[AHEAD, *[INK] * len(names)])  # fmt: skip
    axis.invert_yaxis()
    for place, name in enumerate(names, start=1):
        factor, rows = found[name]
        axis.text(factor, place, f"  {factor:.1f}×, {rows} programs", va="center")
    most = max(factor for factor, _ in found.values())
    axis.set_xscale("log")
    axis.set_xlim(0.4, 60 * most)
    ticks = [tick for tick in TICKS if 1 <= tick <= 2 * most]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("time of a call, gradtape = 1 (logarithmic)")


def draw_rows(axis: Any) -> None:
    """Points: every row, ahead and behind, by group."""
    groups = ratios()
    for place, found in enumerate(groups.values()):
        for ratio in found.values():
            colour = AHEAD if ratio >= 1.0 else BEHIND
            axis.plot(ratio, place, "o", color=colour, alpha=0.6, markersize=6, markeredgewidth=0)
        axis.plot(mean(found.values()), place, "|", color=INK, markersize=22, markeredgewidth=2)
    axis.axvline(1.0, color=INK, linewidth=0.8, linestyle=":")
    axis.set_xscale("log")
    least = min(ratio for found in groups.values() for ratio in found.values())
    most = max(ratio for found in groups.values() for ratio in found.values())
    ticks = [tick for tick in TICKS if least / 1.5 <= tick <= 1.5 * most]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_yticks(range(len(groups)), [GROUPS.get(name, name) for name in groups])
    axis.invert_yaxis()
    axis.set_xlabel("best peer / gradtape; right of 1 gradtape is ahead")


def draw_curve(axis: Any, name: str, legend: bool) -> None:
    """Total time until call k of one program."""
    program = curves()["programs"][name]
    for form, colour in COLOURS.items():
        points = program["forms"].get(form)
        if points:
            counts, seconds = zip(*sorted((int(k), s) for k, s in points.items()), strict=True)
            axis.loglog(counts, [1e3 * each for each in seconds], color=colour, label=NAMES[form])
    axis.set_title(program["title"], fontsize=10)
    axis.set_xlabel("calls in a fresh process")
    axis.minorticks_off()
    axis.grid(alpha=0.25)
    if legend:
        axis.legend(fontsize=8.5)


def draw_bars(axis: Any, seconds: Mapping[str, float], scale: float, unit: str) -> None:
    """One bar for each form; NumPy in grey."""
    colours = [INK if name.startswith("NumPy") else AHEAD for name in seconds]
    axis.barh(list(seconds), [scale * value for value in seconds.values()], color=colours)
    axis.set_xlabel(f"{unit}, less is better")
    axis.invert_yaxis()


def draw_sizes(axis: Any, by_size: Mapping[str, Mapping[str, float]], what: str) -> None:
    """One line for each form, over sizes."""
    sizes = [int(size) for size in by_size]
    palette = ["#e07b39", AHEAD, "#2f9e63"]
    forms = next(iter(by_size.values()))
    for form, colour in zip(forms, palette, strict=False):
        colour = INK if form.startswith("NumPy") else colour
        values = [1e6 * each[form] for each in by_size.values()]
        axis.loglog(sizes, values, "o-", color=colour, label=form)
    axis.set_xlabel(what)
    axis.set_ylabel("microseconds")
    axis.legend()


def draw_questions(pyplot: Any) -> dict[str, Any]:
    """The charts of the pages in docs/questions."""
    found = questions()
    two, axes = _axes(pyplot, 1, 1, (6.4, 1.9))
    draw_bars(axes[0][0], found["jacobian_of_two_results"], 1e3, "milliseconds")
    step, axes = _axes(pyplot, 1, 1, (6.4, 2.2))
    draw_bars(axes[0][0], found["training_step"], 1e6, "microseconds a step")
    sizes, axes = _axes(pyplot, 1, 1, (6.4, 3.4))
    draw_sizes(axes[0][0], found["jacobian_by_size"], "unknowns")
    elements, axes = _axes(pyplot, 1, 1, (6.4, 3.4))
    draw_sizes(axes[0][0], found["element_wise"], "elements")
    return {
        "question_jacobian": two,
        "question_sizes": sizes,
        "question_elements": elements,
        "question_steps": step,
    }


def draw(pyplot: Any) -> dict[str, Any]:
    """All pictures by name."""
    libraries, axes = _axes(pyplot, 1, 1, (5.6, 3.2))
    draw_libraries(axes[0][0])
    points, axes = _axes(pyplot, 1, 1, (5.6, 3.2))
    draw_rows(axes[0][0])
    shown = [name for name in SHOWN_CURVES if name in curves()["programs"]]
    second, axes = _axes(pyplot, 1, len(shown), (11.0, 3.2))
    for place, name in enumerate(shown):
        draw_curve(axes[0][place], name, legend=place == 0)
    axes[0][0].set_ylabel("total time, ms")
    everything = list(curves()["programs"])
    rows = -(-len(everything) // 2)
    third, axes = _axes(pyplot, rows, 2, (7.6, 2.8 * rows))
    for place, axis in enumerate(axes.flat):
        if place < len(everything):
            draw_curve(axis, everything[place], legend=place == 0)
        else:
            axis.axis("off")
    return {"libraries": libraries, "programs": points, "warm_up": second, "curves": third}


def table(group: str) -> str:
    """The rows of one group as Markdown: times of the best forms, and the ratio."""
    if group not in {row["group"] for row in bench()["workloads"]}:
        return "The committed results do not have these rows yet."
    lines = [
        "| program | what it does | gt.function | undecorated | best peer | peer / ours |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in bench()["workloads"]:
        if row["group"] != group:
            continue
        ours, plain, peer = best(row, ("function",)), best(row, ("gradtape",)), peers_of(row)
        ratio = f"{peer / ours:.2f}" if peer and ours else "–"
        if peer and ours and peer < ours:
            ratio = f"**{ratio}**"
        cells = (f"`{row['name']}`", row["title"], _time(ours), _time(plain), _time(peer), ratio)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def claims() -> dict[str, str]:
    """The figures that pages quote, by the name that stands in the page."""
    every: Sequence[float] = [ratio for found in ratios().values() for ratio in found.values()]
    return {
        "rows": str(len(every)),
        "mean": f"{mean(every):.1f}",
        "behind": str(sum(ratio < 1.0 for ratio in every)),
        "origin": origin(bench()),
        "readme_function": f"{1e6 * questions()['readme_step']['function']:.0f}",
        "readme_undecorated": f"{1e6 * questions()['readme_step']['undecorated']:.0f}",
        "readme_numpy": f"{1e6 * questions()['readme_step']['NumPy, by hand']:.0f}",
    }


def with_claims(text: str) -> str:
    """A document with the figures between its marks `<!-- figure: name -->` and `<!-- end -->`."""
    values = claims()
    mark = r"(<!-- figure: (\w+) -->).*?(<!-- end -->)"
    return re.sub(mark, lambda match: match[1] + values[match[2]] + match[3], text)


def main() -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    for name, figure in {**draw(pyplot), **draw_questions(pyplot)}.items():
        figure.tight_layout()
        path = PICTURES / f"{name}.svg"
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True)
        # Neither the version of what drew it nor the addresses of its vocabulary.
        drawn = re.sub(r"\s*<metadata>.*?</metadata>", "", text.getvalue(), flags=re.S)
        path.write_text(drawn, "utf-8")
        print(f"drawn: {path.relative_to(ROOT)}")
    readme = ROOT / "README.md"
    readme.write_text(with_claims(readme.read_text("utf-8")), "utf-8")
    print(", ".join(f"{name}: {value}" for name, value in claims().items()))


if __name__ == "__main__":
    main()
