"""Progress: one mechanism, silent where nobody looks, that is told every round of long work."""

import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import gradtape as gt
from gradtape import progress
from gradtape.progress import Progress, style_of


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    monkeypatch.setattr(progress._Default, "choice", None)
    monkeypatch.delenv("GRADTAPE_PROGRESS", raising=False)


def stream_of(monkeypatch, stream):
    """Let progress take a stream for standard error, which pytest itself replaces."""
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    return stream


@pytest.fixture
def terminal(monkeypatch):
    return stream_of(monkeypatch, Terminal())


@pytest.fixture
def file(monkeypatch):
    return stream_of(monkeypatch, io.StringIO())


@pytest.fixture
def told():
    """The rounds that long work has reported."""
    seen = []
    gt.set_progress(lambda *each: seen.append(each))
    return seen


def times(*moments):
    return iter(moments).__next__


class TestPlainLine:
    def test_nothing_is_shown_of_what_is_quick(self, terminal):
        clock = times(0.0, 0.5, 1.0)
        with Progress("jacobian", 10, "plain", clock=clock) as bar:
            bar.update(5)
            bar.update(10)
        assert not terminal.getvalue()

    def test_what_takes_long_is_shown_and_removed(self, terminal):
        clock = times(0.0, 3.0, 6.0)
        with Progress("jacobian", 10, "plain", clock=clock) as bar:
            bar.update(5)
            assert terminal.getvalue() == "\rjacobian: 5 of 10"
            bar.update(10, "loss 1")
            assert terminal.getvalue().endswith("\rjacobian: 10 of 10 loss 1")
        assert terminal.getvalue().endswith("\r")

    def test_a_total_that_is_not_known(self, terminal):
        with Progress("map", None, "plain", clock=times(0.0, 3.0)) as bar:
            bar.update(5)
            assert terminal.getvalue() == "\rmap: 5"

    @pytest.mark.parametrize("choice", ["auto", "off", False])
    def test_nothing_is_shown_in_a_file(self, choice, file):
        with Progress("jacobian", 10, choice, clock=times(0.0, 3.0, 6.0)) as bar:
            bar.update(5)
        assert not file.getvalue()

    def test_a_file_gets_one_line(self, file):
        with Progress("jacobian", 10, "plain", clock=times(0.0, 3.0, 6.0)) as bar:
            bar.update(5)
            bar.update(10)
        assert file.getvalue() == "jacobian: 10 of 10\n"

    def test_a_notebook_gets_it_on_standard_output(self, monkeypatch):
        output = io.StringIO()
        monkeypatch.setattr(progress, "in_notebook", lambda: True)
        monkeypatch.setattr(progress, "sys", SimpleNamespace(stdout=output, stderr=None))
        with Progress("jacobian", 10, "plain", clock=times(0.0, 3.0, 6.0)) as bar:
            bar.update(10)
        assert output.getvalue() == "jacobian: 10 of 10\n"


class TestRichBar:
    def test_bars_share_one_display(self, monkeypatch):
        pytest.importorskip("rich", reason="rich is not installed")
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress("epoch 1/1", 2, "rich", patience=0.0) as outer:
            outer.update(1)
            with Progress("jacobian", 4, "rich", patience=0.0) as inner:
                inner.update(2)
                assert progress.BARS._count == 2
            outer.finish(2, "epoch 1/1  loss [0.5]")
        assert progress.BARS._count == 0
        assert progress.BARS._display is None
        assert "epoch 1/1  loss [0.5]" in stream.getvalue()


class TestChoice:
    def test_style_on_a_terminal(self, monkeypatch, terminal):
        monkeypatch.setattr(progress, "_has_rich", lambda: True)
        assert style_of("auto") == "rich"
        monkeypatch.setattr(progress, "_has_rich", lambda: False)
        assert style_of("auto") == "plain"

    def test_style_in_a_file(self, file):
        assert style_of("auto") == "off"
        assert style_of(True) == "plain"

    def test_the_switch_decides_for_auto_only(self, terminal):
        gt.set_progress("off")
        assert style_of("auto") == "off"
        assert style_of(True) == "off"
        assert style_of("plain") == "plain"
        gt.set_progress(False)
        assert style_of("auto") == "off"

    @pytest.mark.parametrize("choice", ["loud", 3, None])
    def test_other_choices_are_refused(self, choice):
        with pytest.raises(ValueError, match=r"is no form of progress. Use one of auto, rich"):
            gt.set_progress(choice)

    def test_rich_is_refused_where_it_is_missing(self, monkeypatch):
        monkeypatch.setattr(progress, "_has_rich", lambda: False)
        with pytest.raises(ImportError, match=r"pip install gradtape\[progress\]"):
            gt.set_progress("rich")

    def test_the_environment_is_read_when_it_is_needed(self, monkeypatch, terminal):
        monkeypatch.setenv("GRADTAPE_PROGRESS", "plain")
        assert style_of("auto") == "plain"
        monkeypatch.setattr(progress._Default, "choice", None)
        monkeypatch.setenv("GRADTAPE_PROGRESS", "loud")
        with pytest.raises(ValueError, match="GRADTAPE_PROGRESS='loud'"):
            style_of("auto")

    def test_nothing_of_rich_is_imported_for_nothing(self):
        code = (
            "import sys, numpy as np, gradtape as gt\n"
            "gt.jacobian(lambda x: x * x, chunk_size=1)(np.ones(3))\n"
            "print('rich' in sys.modules)"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (result.stdout, result.stderr) == ("False\n", "")


def wave(x):
    return gt.sin(x[1:]) * x[:-1]


class TestRounds:
    @pytest.mark.parametrize(("size", "rounds"), [(3, [3, 6, 7]), (7, [7]), (2, [2, 4, 6, 7])])
    def test_chunks_of_a_dense_jacobian(self, told, size, rounds):
        gt.jacobian(lambda x: x * x, chunk_size=size)(np.ones(7))
        assert told == [("jacobian", done, 7) for done in rounds]

    def test_chunks_of_a_dense_hessian(self, told):
        gt.hessian(lambda x: gt.sum(gt.sin(x) * x), chunk_size=2)(np.ones(5))
        assert told == [("hessian", done, 5) for done in (2, 4, 5)]

    def test_detection_tells_every_op(self, told):
        gt.sparsity_pattern(wave, np.ones(6))
        detected = [each for each in told if each[0] == "sparsity pattern"]
        count = detected[-1][2]
        assert count >= 3
        assert detected == [("sparsity pattern", done, count) for done in range(1, count + 1)]

    def test_sparse_preparation_happens_once(self, told):
        # Rows of two entries at random places: neither a grid nor a permutation.
        places = np.random.default_rng(0).integers(0, 60, (90, 2))
        f = gt.prepare_jacobian(lambda x: gt.sum(x[places], axis=1) ** 2, np.ones(60), sparse=True)
        titles = {title for title, _, _ in told}
        assert titles == {"sparsity pattern", "colouring"}
        passes = [each for each in told if each[0] == "colouring"]
        assert passes[0][1] == 1
        assert all(done <= total for _, done, total in passes)
        told.clear()
        f(np.ones(60))
        f(np.zeros(60))
        assert not told

    def test_hessians_are_coloured(self, told):
        places = np.random.default_rng(0).integers(0, 60, (90, 2))
        gt.hessian(lambda x: gt.sum(gt.prod(x[places], axis=1)), sparse=True)(np.ones(60))
        assert ("colouring", 1, 3) in told

    @pytest.mark.parametrize(("of", "title"), [(gt.jacobian, "jacobian"), (gt.hessian, "hessian")])
    def test_chunks_of_colours(self, told, of, title):
        f = wave if of is gt.jacobian else (lambda x: gt.sum(wave(x)))
        of(f, sparse=True, chunk_size=1)(np.ones(8))
        products = [each for each in told if each[0] == title]
        total = products[-1][2]
        assert total >= 2
        assert products == [(title, done, total) for done in range(1, total + 1)]

    def test_results_of_map(self, told):
        with ThreadPoolExecutor(1) as threads:
            list(gt.distributed.map(abs, [1, 2, 3], executor=threads, progress=True))
            list(gt.distributed.map(abs, [1, 2, 3], executor=threads))
        assert told == [("map", done, 3) for done in (1, 2, 3)]

    def test_an_error_of_the_function_is_seen(self):
        def fail(*_):
            raise KeyError("mine")

        gt.set_progress(fail)
        with pytest.raises(KeyError, match="mine"):
            gt.jacobian(lambda x: x * x, chunk_size=1)(np.ones(3))
