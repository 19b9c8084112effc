"""Checkpointer: written beside the training, whole or not there, restored with all bits."""

import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape.training.storage import checkpointer as module, files


def training():
    w = gt.Variable(np.linspace(0.0, 1.0, 7))
    optimizer = gt.optimizers.Adam(0.1)

    @gt.function
    def step():
        noise = gt.random.normal((7,))
        return optimizer.minimize(lambda: gt.sum((w - noise) ** 2), [w])

    return {"w": w, "optimizer": optimizer}, step


def bits(state):
    arrays = [state["w"].numpy(), *state["optimizer"].state_dict().values()]
    return [array.tobytes() for array in arrays]


def test_resumed_run_has_the_bits_of_the_one_that_went_on(tmp_path):
    gt.random.seed(1)
    state, step = training()
    with gt.Checkpointer(tmp_path, every=5) as checkpoints:
        for number in range(1, 21):
            step()
            checkpoints.save(number, state)
        wanted = bits(state)
    for begin in (10, 15, 20):
        gt.random.seed(2)
        gt.clear_plans()
        state, step = training()
        with gt.Checkpointer(tmp_path) as checkpoints:
            found = checkpoints.restore(into=state, step=begin)
            assert found.step == begin
            for _ in range(begin, 20):
                step()
        assert bits(state) == wanted


def test_retention_and_steps(tmp_path):
    with gt.Checkpointer(tmp_path / "a" / "b", keep=2, every=3) as checkpoints:
        assert checkpoints.latest() is None
        assert checkpoints.restore() is None
        written = [checkpoints.save(step, [step]) for step in range(10)]
        assert written == [step % 3 == 0 for step in range(10)]
        assert checkpoints.save(10, [10], force=True)
        checkpoints.wait()
        assert checkpoints.steps() == [9, 10]
        assert checkpoints.latest() == 10
        assert checkpoints.restore() == (10, [10])
        assert checkpoints.restore(step=9).tree == [9]
        with pytest.raises(gt.errors.CheckpointError, match=r"no checkpoint of step 3.*\[9, 10\]"):
            checkpoints.restore(step=3)


def test_keep_none_keeps_all(tmp_path):
    with gt.Checkpointer(tmp_path, keep=None) as checkpoints:
        for step in range(6):
            checkpoints.save(step, step)
    assert gt.Checkpointer(tmp_path).steps() == list(range(6))


def test_snapshot_is_of_the_step_while_training_goes_on(tmp_path, monkeypatch):
    may_write = threading.Event()
    write = files.write_whole

    def later(*args):
        may_write.wait()
        write(*args)

    monkeypatch.setattr(files, "write_whole", later)
    state, step = training()
    array = np.zeros(3)
    with gt.Checkpointer(tmp_path) as checkpoints:
        step()
        wanted = bits(state)
        checkpoints.save(1, {**state, "array": array})
        assert checkpoints.steps() == []
        array[:] = 7.0
        for _ in range(5):
            step()
        assert bits(state) != wanted
        may_write.set()
        found = checkpoints.restore(into={**state, "array": array})
    assert bits(state) == wanted
    assert found.tree["array"].tolist() == [0.0, 0.0, 0.0]


def test_error_of_the_writer_is_raised_by_the_next_call(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    checkpoints = gt.Checkpointer(tmp_path, every=2)
    checkpoints.save(0, [0])
    checkpoints.wait()
    monkeypatch.setattr(files, "write_whole", fail)
    checkpoints.save(2, [2])
    with pytest.raises(gt.errors.CheckpointError, match=r"step 2 could not be written.*No space"):
        checkpoints.wait()
    monkeypatch.undo()
    # The error is told once; the run may go on.
    checkpoints.save(4, [4])
    checkpoints.close()
    assert checkpoints.steps() == [0, 4]
    with pytest.raises(gt.errors.CheckpointError, match="closed"):
        checkpoints.save(6, [6])


def test_error_of_the_writer_comes_at_a_step_that_is_not_due(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "write_whole", fail)
    checkpoints = gt.Checkpointer(tmp_path, every=10)
    checkpoints.save(0, [0])
    checkpoints._writing.thread.join()
    with pytest.raises(gt.errors.CheckpointError, match="Input/output"):
        checkpoints.save(1, [1])
    checkpoints.close()


def test_error_in_the_block_is_the_one_to_see(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_whole", fail)

    def block():
        with gt.Checkpointer(tmp_path) as checkpoints:
            checkpoints.save(0, [0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()


def test_unsavable_tree_raises_at_once_and_leaves_no_file(tmp_path):
    with gt.Checkpointer(tmp_path) as checkpoints:
        with pytest.raises(gt.errors.UnsavableError, match=r"tree\['tree'\]\['a'\]"):
            checkpoints.save(0, {"a": object()})
        assert checkpoints.steps() == []


def test_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path):
    with gt.Checkpointer(tmp_path) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, {"w": gt.asarray([float(step)])})
    newest = next(tmp_path.glob("*2.*"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 64
    newest.write_bytes(content)
    checkpoints = gt.Checkpointer(tmp_path)
    with pytest.warns(UserWarning, match="An older one is used"):
        found = checkpoints.restore()
    assert found.step == 1
    with pytest.raises(gt.errors.DamagedFileError):
        checkpoints.restore(step=2)
    next(tmp_path.glob("*1.*")).write_bytes(b"nothing")
    with (
        pytest.warns(UserWarning, match="An older one"),
        pytest.raises(gt.errors.DamagedFileError),
    ):
        checkpoints.restore()


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = tmp_path / f".checkpoint-0000000007.npz.1.0{files.UNFINISHED}"
    left.mkdir()
    (left / "file").write_bytes(b"half")
    with gt.Checkpointer(tmp_path) as checkpoints:
        assert checkpoints.latest() is None
        checkpoints.save(8, [8])
    assert not left.exists()
    assert checkpoints.steps() == [8]


def test_one_writer_at_a_time(tmp_path):
    first, second = gt.Checkpointer(tmp_path), gt.Checkpointer(tmp_path)
    first.save(0, [0])
    with pytest.raises(gt.errors.CheckpointError, match="another Checkpointer of this process"):
        second.save(1, [1])
    code = (
        "import sys, gradtape as gt\n"
        "c = gt.Checkpointer(sys.argv[1])\n"
        "assert c.restore().tree == [0]\n"
        "try:\n    c.save(1, [1])\n"
        "except gt.errors.CheckpointError as error:\n    print(error)\n"
    )
    first.wait()
    command = [sys.executable, "-c", code, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert f"process {os.getpid()} writes checkpoints" in result.stdout, result.stderr
    first.close()
    second.save(1, [1])
    second.close()
    assert second.steps() == [0, 1]


def test_a_dropped_checkpointer_lets_go(tmp_path):
    checkpoints = gt.Checkpointer(tmp_path)
    checkpoints.save(0, [0])
    checkpoints.wait()
    checkpoints = gt.Checkpointer(tmp_path)
    checkpoints.save(1, [1])
    checkpoints.close()


def test_threads_may_share_one(tmp_path):
    with gt.Checkpointer(tmp_path, keep=None) as checkpoints:

        def work(base):
            for number in range(5):
                checkpoints.save(base + number, {"w": gt.asarray([float(base + number)])})

        threads = [threading.Thread(target=work, args=(10 * n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for step in checkpoints.steps():
        assert checkpoints.restore(step=step).tree["w"].tolist() == [float(step)]
    assert len(checkpoints.steps()) == 20


def _child(checkpoints, queue):
    try:
        checkpoints.save(5, [5])
    except gt.errors.CheckpointError as error:
        queue.put(str(error))
    else:
        queue.put("saved")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_does_not_write_into_its_parents_folder(tmp_path):
    with gt.Checkpointer(tmp_path) as checkpoints:
        checkpoints.save(0, [0])
        checkpoints.wait()
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=_child, args=(checkpoints, queue))
        child.start()
        assert "writes checkpoints" in queue.get(timeout=60)
        child.join()
        checkpoints.save(1, [1])
    assert checkpoints.steps() == [0, 1]


def test_plans_are_compiled_before_their_first_run_inside(tmp_path):
    def made():
        # A kernel may lie in the cache on disk.
        counts = gt.counters()
        return counts.kernels_compiled + counts.kernels_loaded

    def compiled():
        before = made()
        float(gt.sum(gt.sin(gt.asarray([0.1, 0.2])) * gt.cos(gt.asarray([0.3, 0.4]))))
        return made() - before

    gt.clear_plans()
    assert compiled() == 0
    gt.clear_plans()
    with gt.Checkpointer(tmp_path):
        assert compiled() > 0
    gt.clear_plans()
    assert compiled() == 0


def test_shared_stream_is_restored_all_or_nothing(tmp_path):
    gt.random.seed(4)
    w = gt.Variable(1.0)
    with gt.Checkpointer(tmp_path) as checkpoints:
        checkpoints.save(0, {"w": w})
        wanted = gt.random.uniform((3,)).tolist()
        place = gt.random.get_state()
        with pytest.raises(gt.errors.MismatchError):
            checkpoints.restore(into={"w": gt.Variable([1.0, 2.0])})
        assert gt.random.get_state() == place
        checkpoints.restore(into={"w": w})
        assert gt.random.uniform((3,)).tolist() == wanted


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="keep=0"):
        gt.Checkpointer(tmp_path, keep=0)
    with pytest.raises(ValueError, match="every=0"):
        gt.Checkpointer(tmp_path, every=0)
    with pytest.raises(TypeError, match="is not a path"):
        gt.Checkpointer(7)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        gt.Checkpointer(tmp_path / "file")
    with pytest.raises(ValueError, match="step=-1"):
        gt.Checkpointer(tmp_path).save(-1, [])


def test_a_program_that_ends_lets_its_last_checkpoint_become_whole(tmp_path):
    code = (
        "import sys, numpy as np, gradtape as gt\n"
        "checkpoints = gt.Checkpointer(sys.argv[1])\n"
        "checkpoints.save(3, gt.Variable(np.ones(1 << 20)))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    found = gt.Checkpointer(tmp_path).restore()
    assert found.step == 3
    assert found.tree.shape == (1 << 20,)
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_tree_that_is_no_checkpoint(tmp_path):
    gt.save({"w": 1}, tmp_path / "checkpoint-0000000001.npz")
    checkpoints = gt.Checkpointer(tmp_path)
    with pytest.raises(gt.errors.DamagedFileError, match="no checkpoint"):
        checkpoints.restore(step=1)
    with pytest.raises(gt.errors.MismatchError):
        checkpoints.restore(into={"w": 1}, step=1)


def test_foreign_files_in_the_folder_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("keep me")
    (tmp_path / "checkpoint-final.npz").write_text("keep me")
    with gt.Checkpointer(tmp_path, keep=1) as checkpoints:
        for step in range(3):
            checkpoints.save(step, [step])
    assert (tmp_path / "notes.txt").exists()
    assert (tmp_path / "checkpoint-final.npz").exists()
    assert module.checkpoints_in(tmp_path)[-1][0] == 2
