"""One process: the interpreter becomes the script, exactly as `python script.py` runs it."""

from __future__ import annotations

from tests.launch.conftest import PATIENCE, Shell

REPORT = """
import os, sys
if __name__ == "__main__":
    module = sys.modules["__main__"]
    print(sys.argv, sys.path[0], __name__, __file__, __doc__, module.__dict__ is globals())
    print(__spec__ and __spec__.name, __package__)
    print(sorted(k for k in globals() if k.startswith("__")), type(__builtins__))
    print("torch" in sys.modules, "accelify" in sys.modules, "click" in sys.modules)
"""


def test_is_what_python_would_run(shell: Shell) -> None:
    shell.script('"""A doc."""' + REPORT, "deep/train.py")
    arguments = ["deep/train.py", "--cpu", "--num-processes", "8", "-h", "a b", ""]
    launched = shell.run("launch", *arguments)
    assert launched.stdout == shell.python(*arguments).stdout
    assert launched.returncode == 0, launched.stderr
    assert "False False False" in launched.stdout  # neither torch nor we are in the script's process


def test_no_parent_is_left(shell: Shell) -> None:
    shell.script("import os; print(os.getpid())")
    process = shell.start("launch", "train.py")
    out, _ = process.communicate(timeout=PATIENCE)
    assert int(out) == process.pid


def test_the_cpu_flag_arrives(shell: Shell) -> None:
    shell.script("import os; print(os.environ.get('ACCELIFY_CPU'), os.environ.get('OMP_NUM_THREADS'))")
    assert shell.run("launch", "--cpu", "train.py").stdout == "1 None\n"
    assert shell.run("launch", "train.py").stdout == "None None\n"


def test_exit_status_is_the_scripts(shell: Shell) -> None:
    shell.script("import sys; sys.exit(7)")
    assert shell.run("launch", "train.py").returncode == 7


def test_a_module_runs_as_python_m_does(shell: Shell) -> None:
    shell.script(REPORT, "package/train.py")
    launched = shell.run("launch", "-m", "package.train", "-x")
    assert launched.stdout == shell.python("-m", "package.train", "-x").stdout


def test_a_program_that_is_not_python(shell: Shell) -> None:
    shell.script("echo $0 $ACCELIFY_MIXED_PRECISION", "go.sh")
    launched = shell.run("launch", "--no-python", "--mixed_precision=bf16", "sh", "go.sh")
    assert launched.stdout == "go.sh bf16\n", launched.stderr
