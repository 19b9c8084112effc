"""A notebook: cells are executed by a kernel of its own, and their output is checked."""

import importlib.util
import re
import textwrap

import pytest

pytestmark = pytest.mark.slow

# Name to source. They run from top to bottom, as cell 1, cell 2, ...
CELLS = {
    "import": """
        import numpy as np
        import gradtape as gt
        """,
    "fit": """
        w = gt.Variable(0.0, name="slope")
        optimizer = gt.optimizers.SGD(0.1)

        def step(x, y):
            return optimizer.minimize(lambda: gt.mean((w * x - y) ** 2), [w])

        x = np.linspace(-1.0, 1.0, 64)
        history = gt.fit(step, (x, 3.0 * x), epochs=3, shuffle=0)
        """,
    "history": "history",
    "plot": "history.plot()",
    "plot before the end": """
        figure = history.plot()
        len(figure.axes)
        """,
    "plot in a file": """
        import os, tempfile
        path = os.path.join(tempfile.mkdtemp(), "loss.png")
        figure = history.plot(path)
        os.path.getsize(path) > 0
        """,
    "spy plot": "gt.spy(np.eye(9), plot=True)",
    "spy": "gt.spy(np.eye(9))",
    "plan": "gt.plan_of(gt.sum(gt.sin(gt.asarray(x)) * 2.0))",
    "config": "gt.show_config()",
    "kernels": "gt.kernels_of(gt.sin(gt.asarray(x)))",
    "caches": "gt.caches()",
    "counters": "gt.counters()",
    "explain": """
        @gt.function
        def doubled(x):
            return x * 2.0

        doubled(gt.asarray(1.0))
        doubled.explain()
        """,
    "function": "doubled",
    "tensor": "gt.asarray([1.0, 2.0])",
    "variable": "w",
    "tape": """
        with gt.GradientTape(persistent=True) as tape:
            z = gt.sum(w * gt.asarray(x))
        tape
        """,
    "jacobian": "tape.jacobian(z, w)",
    "report": "tape.report()",
    "pattern": "gt.sparsity_pattern(lambda x: gt.sin(x[1:]) - x[:-1], np.zeros(4))",
    "optimizer": "optimizer",
    "generator": "gt.random.Generator(1)",
    "model": "gt.nn.Sequential([gt.nn.Dense(2)])",
    "program": "gt.program_of(z)",
    "profile": """
        with gt.profile() as profile, gt.GradientTape(persistent=True) as tape:
            z = gt.sum(gt.sin(w * gt.asarray(x)))
            z.numpy()
            report = tape.report(z)
        print(profile)
        """,
    "report of a profile": "report",
    "profile as a page": "profile",
    "a function in Python": """
        import warnings
        warnings.simplefilter("error")

        @gt.function
        def branching(x):
            if float(x) > 0.0:
                return x * 2.0
            return x

        try:
            for _ in range(4):
                branching(gt.asarray(1.0))
        except UserWarning as warning:
            print(warning)
        print(branching.explain())
        """,
    "a warning": """
        warnings.simplefilter("always")
        with warnings.catch_warnings(record=True) as found:
            gt.libraries.warn("text")
        (found[0].filename, found[0].lineno)
        """,
}
NUMBERS = {name: number for number, name in enumerate(CELLS, start=1)}


@pytest.fixture(scope="module")
def outputs():
    """The outputs of each cell."""
    for name in ("ipykernel", "matplotlib", "nbclient"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: `make test-full` installs it")
    import nbclient
    import nbformat

    cells = [nbformat.v4.new_code_cell(textwrap.dedent(text).strip()) for text in CELLS.values()]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    return dict(zip(CELLS, (cell.outputs for cell in book.cells), strict=True))


def data_of(outputs) -> list[dict]:
    return [each["data"] for each in outputs if "data" in each]


def printed(outputs) -> str:
    return "".join(each["text"] for each in outputs if each["output_type"] == "stream")


def test_nothing_goes_to_standard_error(outputs):
    streams = {
        name: each["text"]
        for name, found in outputs.items()
        for each in found
        if each["output_type"] == "stream" and each["name"] == "stderr"
    }
    assert not streams


def test_epochs_are_printed(outputs):
    lines = printed(outputs["fit"]).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]


@pytest.mark.parametrize("name", ["plot", "plot before the end", "spy plot"])
def test_a_plot_is_shown_once(outputs, name):
    assert sum("image/png" in data for data in data_of(outputs[name])) == 1


def test_a_plot_that_went_into_a_file_is_not_shown(outputs):
    (data,) = data_of(outputs["plot in a file"])
    assert "image/png" not in data
    assert data["text/plain"] == "True"


WITH_HTML = [
    "history", "spy", "plan", "config", "kernels", "caches", "counters", "explain", "function",
    "tensor", "variable", "tape", "jacobian", "report", "pattern", "optimizer", "generator",
    "model", "program", "profile as a page",
]  # fmt: skip


@pytest.mark.parametrize("name", WITH_HTML)
def test_objects_have_html(outputs, name):
    (data,) = data_of(outputs[name])
    assert re.match(r"<(div|pre|iframe)\b", data["text/html"])
    # A text for consoles: no quoted string, and no address in memory.
    assert data["text/plain"][0] not in "'\""
    assert not re.search(r" at 0x[0-9a-f]+>", data["text/plain"])


def test_lines_are_those_of_cells(outputs):
    cell = f"cell {NUMBERS['profile']}"
    text = printed(outputs["profile"])
    assert f" in {cell}:1" in text.splitlines()[0]
    assert f"{cell}:2  z = gt.sum" in text
    (data,) = data_of(outputs["report of a profile"])
    assert f">{cell}:2</td>" in data["text/html"]
    number = NUMBERS["a function in Python"]
    assert f"cell {number}:6" in printed(outputs["a function in Python"])
    (data,) = data_of(outputs["a warning"])
    assert data["text/plain"] == f"('cell {NUMBERS['a warning']}', 3)"
    for found in outputs.values():
        assert "ipykernel" not in printed(found)
