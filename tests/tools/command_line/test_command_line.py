"""The command line: each command, its JSON and its exit code."""

import json
import re
import subprocess
import sys

import pytest

import gradtape as gt
from gradtape.tools.command_line.main import COMMANDS, main

SCRIPT = """
import sys
import gradtape as gt
w = gt.Variable([1.0, 2.0])
for _ in range(5):
    with gt.GradientTape() as tape:
        loss = gt.sum(w * w)
    w.assign_sub(0.1 * tape.gradient(loss, w))
    float(loss)
print("arguments:", sys.argv[1:], __name__)
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, "utf-8")
    return path


def test_without_a_command_help_is_printed(capsys):
    assert main([]) == 2
    printed = capsys.readouterr().out
    assert all(name in printed for name in COMMANDS)
    assert "gradtape profile train.py" in printed


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    assert f"usage: gradtape {name}" in capsys.readouterr().out


def test_unknown_command_is_a_wrong_call(capsys):
    with pytest.raises(SystemExit) as end:
        main(["profle"])
    assert end.value.code == 2
    assert "invalid choice: 'profle'" in capsys.readouterr().err


def test_script_runs_unchanged_and_the_page_is_written(script, capsys):
    assert (
        main(["profile", "--data", "data.json", "--trace", "t.json", "train.py", "--n", "3"]) == 0
    )
    printed = capsys.readouterr()
    assert "arguments: ['--n', '3'] __main__" in printed.out
    assert "The page is report.html" in printed.err
    assert (script.parent / "report.html").stat().st_size > 100_000
    data = json.loads((script.parent / "data.json").read_text("utf-8"))
    assert data["counters"]["plans_run"] == 5
    assert any(row["source"] == "loss = gt.sum(w * w)" for row in data["lines"])
    assert json.loads((script.parent / "t.json").read_text("utf-8"))["traceEvents"]


def test_exit_code_of_the_script_is_passed_on(script, capsys):
    script.write_text("import sys\nsys.exit(7)\n", "utf-8")
    assert main(["profile", "-q", "train.py"]) == 7


def test_script_that_fails_still_has_a_page(script, capsys):
    script.write_text(SCRIPT + "raise ValueError('no')\n", "utf-8")
    assert main(["profile", "-q", "-o", "failed.html", "train.py"]) == 1
    assert "ValueError: no" in capsys.readouterr().err
    assert (script.parent / "failed.html").exists()


def test_missing_script_is_a_wrong_call(script, capsys):
    assert main(["profile", "no_such.py"]) == 2
    assert "there is no file no_such.py" in capsys.readouterr().out
    assert main(["profile"]) == 2


def test_arguments_and_path_are_restored(script, capsys):
    before = list(sys.argv), list(sys.path)
    main(["profile", "-q", "train.py", "x"])
    assert (sys.argv, sys.path) == before


def test_info_names_versions(capsys):
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"gradtape", "numpy", "BLAS", "threads"} <= found.keys()
    assert main(["info"]) == 0
    assert "configuration" in capsys.readouterr().out


def test_doctor_finds_nothing_wrong_here(capsys):
    assert main(["doctor", "--json"]) == 0
    found = {each["what"]: each["state"] for each in json.loads(capsys.readouterr().out)}
    assert "wrong" not in found.values()
    assert {"NumPy", "compiler", "threads", "recorder"} <= found.keys()


def test_doctor_says_what_is_off():
    command = [sys.executable, "-m", "gradtape", "doctor", "--json"]
    import os

    switches = {"GRADTAPE_JIT": "off", "GRADTAPE_NUM_THREADS": "1"}
    ended = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **switches}
    )
    found = {each["what"]: each for each in json.loads(ended.stdout)}
    assert found["compiler"]["state"] == "slower"
    assert "GRADTAPE_JIT=off" in found["compiler"]["found"]
    assert found["GRADTAPE_JIT"]["found"] == "off"


def test_cache_is_listed_and_cleared(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "kernels"
    monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", str(folder))
    main(["cache", "--json"])
    assert json.loads(capsys.readouterr().out)["entries"] == 0
    (folder / ("a" * 64)).write_bytes(b"123")
    main(["cache", "list", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["bytes"], found["list"][0]["name"]) == (3, "a" * 64)
    assert main(["cache", "clear"]) == 0
    assert "Removed 1 entries, 3 B" in capsys.readouterr().out
    assert not list(folder.iterdir())


def test_cache_that_is_off_is_said(monkeypatch, capsys):
    monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", "off")
    assert main(["cache"]) == 0
    assert "No machine code is kept on disk" in capsys.readouterr().out


def test_compare_wants_module_and_function(capsys):
    assert main(["compare", "model"]) == 2
    assert "is not module:function" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("compared:loss", "", ["missing a required argument: 'x'", "--args"]),
        ("compared:losses", "", ["has no 'losses'", "loss"]),
        ("missing_module:loss", "", ["No module named 'missing_module'", "missing_module.py"]),
        ("compared:gt", "", ["is a module, not a function"]),
        ("compared:loss", "np.ones(", ["--args", "Python expression"]),
    ],
)
@pytest.mark.slow
def test_compare_names_a_fault_once(tmp_path, monkeypatch, capsys, name, args, words):
    monkeypatch.chdir(tmp_path)
    text = "import gradtape as gt\ndef loss(x):\n    return gt.sum(x)\n"
    (tmp_path / "compared.py").write_text(text, "utf-8")
    assert main(["compare", name, "--args", args]) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.count("\n") == 1
    assert [word for word in words if word not in printed.err] == []


def test_help_fits_a_terminal(help_text):
    assert [line for line in help_text.splitlines() if len(line) > 80] == []


def test_no_command_names_the_commands(capsys):
    assert main([]) == 2
    assert "commands: profile, bench, compare" in capsys.readouterr().out


@pytest.mark.slow
def test_compare_measures_all_forms(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = "def f(xp, x):\n    return xp.sum(xp.sin(x) * x)\n"
    (tmp_path / "compared_model.py").write_text(text, "utf-8")
    assert main(["compare", "compared_model:f", "--args", "np.ones(10)", "--json"]) == 0
    found = {row["form"]: row for row in json.loads(capsys.readouterr().out)}
    assert all("best" in found[form] for form in ("undecorated", "gt.function", "numpy"))
    assert "trouble" not in found["gt.function"]


@pytest.mark.slow
def test_bench_measures_limits_and_programs(capsys):
    assert main(["bench", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["limits"]["bytes_per_second"] > 0
    assert len(found["programs"]) == 4


@pytest.fixture
def help_text(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("question", "calls"),
    [
        ("Jacobians take long", ["tape.jacobian", "gt.prepare_jacobian"]),
        ("a tape takes long", ["tape.report", "gradtape profile"]),
        ("gt.function seems slower", ["gradtape compare", "explain"]),
        ("there are state and branches", ["gt.cond", "gt.scan", "gt.while_loop"]),
        ("gradient is not batch_jacobian", ["tape.gradient", "tape.batch_jacobian"]),
    ],
)
def test_help_answers_each_question(help_text, question, calls):
    _, _, after = help_text.partition(f"  {question} ")
    assert after, f"{question} is not in the help"
    answer = re.split(r"\n(?:  \w|\n)", after)[0]
    assert [call for call in calls if call not in answer] == []


def test_help_names_what_exists(help_text):
    ours = set(re.findall(r"\bgt\.(\w+)", help_text))
    assert len(ours) > 5
    assert [name for name in ours if not hasattr(gt, name)] == []
    asked = set(re.findall(r"\btape\.(\w+)", help_text))
    assert len(asked) > 3
    assert [name for name in asked if not hasattr(gt.GradientTape, name)] == []
    assert max(map(len, help_text.splitlines())) <= 100
