"""Loggers `gradtape.<room>`: what they are told, at which level, and that no lock is held then."""

import logging
import os
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.objects import object_cache
from gradtape.distributed.report import Report
from gradtape.ir import logs as log
from gradtape.ir.logs import Log
from gradtape.runtime import compiled_plan, plan_cache, tiers


@pytest.fixture
def lines(caplog):
    """A function that gives what was logged so far: room, level, message."""
    caplog.set_level(logging.DEBUG, logger="gradtape")

    def found(room=None):
        log.drain()
        return [
            (record.name.removeprefix("gradtape."), record.levelname, record.getMessage())
            for record in caplog.records
            if room is None or record.name == f"gradtape.{room}"
        ]

    return found


def messages(found, level):
    return [message for _, name, message in found if name == level]


class TestRecords:
    def test_a_record_knows_its_time_and_thread(self, caplog, lines):
        made = Log("test")
        before = threading.current_thread().name
        made.info("%d rounds of %s", 3, "this")
        assert lines("test") == [("test", "INFO", "3 rounds of this")]
        (record,) = caplog.records
        assert record.threadName == before
        assert record.filename == "test_log.py"

    def test_order_is_kept(self, lines):
        made = Log("test")
        for number in range(100):
            made.debug("%d", number)
        assert [message for _, _, message in lines("test")] == [str(n) for n in range(100)]

    def test_what_is_not_enabled_is_not_kept(self, caplog, lines):
        caplog.set_level(logging.WARNING, logger="gradtape")
        made = Log("test")
        made.debug("1")
        made.info("2")
        made.warning("3")
        assert lines("test") == [("test", "WARNING", "3")]

    def test_a_handler_may_compute(self, lines):
        """A handler that formats a tensor while a plan is compiled waits for nothing of ours."""
        x = gt.asarray(np.linspace(0.0, 1.0, 7))
        formatted = []

        class Formats(logging.Handler):
            def emit(self, record):
                formatted.append(str(gt.tanh(x * float(len(formatted)))))

        handler = Formats()
        logger = logging.getLogger("gradtape")
        logger.addHandler(handler)
        try:
            for _ in range(3):
                gt.sum(gt.sinh(x) * 7.5).numpy()
            gt.wait_for_compiler()
            logger.info("%s", x)
        finally:
            logger.removeHandler(handler)
        lines()
        assert formatted

    def test_an_error_of_a_filter_ends_nothing(self, lines, monkeypatch):
        monkeypatch.setattr(logging, "raiseExceptions", False)

        def fail(record):
            raise ValueError("mine")

        logger = logging.getLogger("gradtape.test")
        made = Log("test")
        logger.addFilter(fail)
        try:
            made.info("lost")
            log.drain()
        finally:
            logger.removeFilter(fail)
        made.info("kept")
        assert lines("test") == [("test", "INFO", "kept")]

    def test_records_are_handled_before_the_process_ends(self):
        code = (
            "import logging, gradtape as gt\n"
            "logging.basicConfig(level=logging.DEBUG, format='%(name)s %(message)s')\n"
            "print(float(gt.sum(gt.asarray([1.0, 2.0]))))"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert "gradtape.runtime new plan of 1 ops: new structure" in result.stderr

    @pytest.mark.slow
    def test_nothing_is_printed_unasked(self):
        code = (
            "import numpy as np, gradtape as gt\n"
            "f = gt.function(lambda x: gt.sin(x))\n"
            "for _ in range(3): f(np.ones(3)).numpy()\n"
            "gt.wait_for_compiler()"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.skipif(tiers.MODE == "off", reason="GRADTAPE_JIT=off: nothing is compiled")
class TestCompiler:
    @pytest.mark.slow
    def test_plans_and_kernels(self, tmp_path):
        code = """
import logging, numpy as np, gradtape as gt
logging.basicConfig(level=logging.DEBUG, format="%(name)s %(message)s")
x = gt.asarray(np.linspace(0.0, 1.0, 11))
for _ in range(3):
    gt.cosh(gt.exp(x) * 0.123).numpy()
gt.wait_for_compiler()
"""
        environment = {**os.environ, "GRADTAPE_KERNEL_CACHE": str(tmp_path)}

        def told():
            result = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, env=environment
            )
            assert result.returncode == 0, result.stderr
            return result.stderr

        first, second = told(), told()
        assert first.count("gradtape.runtime new plan of 3 ops: new structure") == 1
        assert first.count("gradtape.runtime compiled a plan of 3 ops in ") == 1
        # A kernel, and the code that runs plans.
        assert first.count("gradtape.compiler kernel cache: miss of ") == 2
        assert first.count("gradtape.compiler 2 modules, of which 0 were on disk: ") == 1
        assert second.count("gradtape.compiler kernel cache: hit of ") == 2
        assert second.count("gradtape.compiler 2 modules, of which 2 were on disk: ") == 1
        assert "kernel cache: miss of " not in second

    def test_a_failure_falls_back(self, lines, monkeypatch):
        def fail(*_):
            raise RuntimeError("no such instruction")

        monkeypatch.setattr(tiers, "MODE", "auto")
        monkeypatch.setattr(tiers.COUNTS, "compile_failures", 1)
        monkeypatch.setattr(compiled_plan, "compiled_plan", fail)
        plan = tiers.TieredPlan(gt.program_of(gt.cosh(gt.asarray([1.0])) * 3.0))
        monkeypatch.setattr(plan._outline, "spent", 1e9)
        plan.run([np.ones(1), 3.0])
        assert messages(lines("runtime"), "INFO") == [
            "compiling failed, the program runs in NumPy: RuntimeError('no such instruction')"
        ]


class TestCaches:
    def test_damaged_entries_are_ignored(self, lines, monkeypatch, tmp_path):
        monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", str(tmp_path))
        object_cache.save("whole", ["f"], b"code")
        (tmp_path / "broken").write_bytes(b"not an entry")
        assert object_cache.load("whole") == (["f"], b"code")
        assert object_cache.load("broken") is None
        assert object_cache.load("missing") is None
        size = (tmp_path / "whole").stat().st_size
        assert lines("compiler") == [
            ("compiler", "DEBUG", f"kernel cache: hit of whole, {size} bytes"),
            ("compiler", "INFO",
             "kernel cache: entry broken is damaged or foreign, ignored and removed"),
            ("compiler", "DEBUG", "kernel cache: miss of missing"),
        ]  # fmt: skip
        assert not (tmp_path / "broken").exists()

    @pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs permissions of POSIX")
    def test_a_folder_of_others_is_a_warning(self, lines, monkeypatch, tmp_path):
        folder = tmp_path / "shared"
        folder.mkdir()
        folder.chmod(stat.S_IRWXU | stat.S_IWGRP)
        monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", str(folder))
        for _ in range(3):
            assert object_cache.load("any") is None
        assert messages(lines("compiler"), "WARNING") == [
            f"kernel cache: others may write to {folder}, so its code is not run; kernels are "
            "compiled anew"
        ]

    def test_plans_that_are_forgotten(self, lines, monkeypatch):
        # Plans of other tests may be freed at any moment: only those of this one are counted.
        gt.clear_plans()
        x = gt.asarray(np.linspace(0.0, 1.0, 5))
        gt.exp(gt.cos(x)).numpy()
        monkeypatch.setattr(plan_cache, "MOST_CACHED_PLANS", plan_cache.plans_held())
        gt.exp(gt.sin(gt.exp(gt.cos(x)))).numpy()
        told = messages(lines("runtime"), "DEBUG")
        assert any(text.startswith("dropped the least recently used plan") for text in told)


class TestFunctions:
    def test_captures_and_functions_in_python(self, lines):
        f = gt.function(lambda x: gt.sin(x))
        f(gt.asarray([1.0]))
        assert any("ran as a capture, in " in text for text in messages(lines("jit"), "DEBUG"))

        @gt.function
        def steps(values):
            return sum(values)

        with pytest.warns(UserWarning, match="steps runs in Python"):
            steps(iter([1.0, 2.0]))
        assert messages(lines("jit"), "INFO") == [
            "steps runs in Python for arguments of this kind: it is given an iterator, which every "
            "call moves on"
        ]


class TestSparsity:
    def test_detection_that_gives_up(self, lines):
        gt.sparsity_pattern(lambda x: gt.take(x, gt.argsort(x)), np.ones(3))
        (told,) = messages(lines("autodiff"), "INFO")
        assert told.startswith("detection gave up at ")
        assert told.endswith("computed from the source or not known, any may be read")

    def test_nothing_is_told_of_what_is_found(self, lines):
        gt.sparsity_pattern(lambda x: x[1:] * x[:-1], np.ones(5))
        assert not lines("autodiff")


class TestTraining:
    def test_epochs_and_checkpoints(self, lines, tmp_path):
        w = gt.Variable(1.0)

        def step(x):
            w.assign_sub(0.25)
            return w * 1.0

        data = np.ones(2)
        with gt.Checkpointer(tmp_path, keep=1) as checkpoints:
            gt.fit(step, data, batch_size=2, epochs=2, progress=False, state=w,
                   checkpoints=checkpoints)  # fmt: skip
        assert lines("training") == [
            ("training", "INFO", "epoch 1/2: loss 0.75"),
            ("training", "INFO", "epoch 2/2: loss 0.5"),
            ("training", "INFO", "fit ended after 2 epochs: all epochs"),
        ]
        written = [
            text for text in messages(lines("training.storage"), "INFO") if "written" in text
        ]
        removed = [
            text for text in messages(lines("training.storage"), "INFO") if "removed" in text
        ]
        assert [text.split(":")[0] for text in written] == [
            "checkpoint of step 1 written", "checkpoint of step 2 written",
            "checkpoint of step 2 written",
        ]  # fmt: skip
        assert len(removed) == 1
        gt.fit(step, data, batch_size=2, epochs=2, progress=False, state=w, checkpoints=tmp_path)
        assert "fit goes on from the checkpoint of step 2" in messages(lines("training"), "INFO")


def test_workers(lines):
    report = Report("data_parallel")
    report.note_retries(1, "step 4")
    report.note_retries(0, "tasks")
    report.note_replaced(4)
    report.note_lost(2)
    assert lines("distributed") == [
        ("distributed", "INFO", "data_parallel: step 4 repeated after a worker died, 1 times"),
        ("distributed", "INFO", "data_parallel: a worker died in step 4 and was replaced"),
        ("distributed", "WARNING",
         "data_parallel: a worker is lost, 2 are left; add one to the cluster"),
    ]  # fmt: skip
    assert (report.retries, report.replaced, report.lost) == (1, 1, 1)


def test_a_function_is_captured_whatever_makes_the_records(lines, monkeypatch):
    """A program may have records of its own, as Ray does, that look at the clock."""
    monkeypatch.setattr(tiers, "MODE", "always")
    monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", "off")
    before, times = logging.getLogRecordFactory(), []

    def record(*args, **kwargs):
        times.append(time.time_ns())
        return before(*args, **kwargs)

    def root(a):
        x = a
        while gt.abs(x * x - a) > 1e-12 * a:
            x = 0.53125 * (x + a / x) - 0.03125 * (x + a / x)
        return x

    found = gt.function(root)
    logging.setLogRecordFactory(record)
    try:
        values = [float(found(gt.asarray(2.0 + step))) for step in (0, 0.001, 0.002)]
    finally:
        logging.setLogRecordFactory(before)
    np.testing.assert_allclose(values, np.sqrt([2.0, 2.001, 2.002]))
    assert times
    assert any("compiled a plan" in message for message in messages(lines(), "DEBUG"))
    assert not any("runs in Python" in message for message in messages(lines(), "INFO"))
