"""Several processes from a cell, in a real Jupyter kernel, and from a plain script."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from accelify.runtime.launch.notebook import choose_start_method
from tests.kernels import execute, nbclient, nbformat
from tests.launch.conftest import PATIENCE, Shell, wait_until

TRAIN = """
import torch, signal
from accelify.runtime import Accelerator
from accelify.runtime import notebook_launcher, debug_launcher
from accelify.runtime.launch.notebook import choose_start_method

scale = 10  # a global of the notebook, which the function uses
handler = signal.getsignal(signal.SIGINT)
torch.nn.Linear(64, 64)(torch.randn(256, 64)).sum().backward()  # torch has been used before

def train(steps):
    accelerator = Accelerator()
    torch.manual_seed(accelerator.process_index)
    model = accelerator.prepare(torch.nn.Linear(4, 1))
    for _ in range(steps):
        accelerator.backward(model(torch.randn(8, 4)).pow(2).mean())
    print("process", accelerator.process_index, "of", accelerator.num_processes)
    gradients = accelerator.gather(model.weight.grad)
    assert gradients.shape == (2, 4) and torch.equal(gradients[0], gradients[1])
    return scale * accelerator.num_processes
"""
CELLS = {
    "fork": "print(choose_start_method(), notebook_launcher(train, (2,), num_processes=2))",
    "spawn": """
from unittest.mock import patch
with patch.object(torch.cuda, "is_initialized", lambda: True):  # as after any use of CUDA in an earlier cell
    print(choose_start_method(), notebook_launcher(train, (2,), num_processes=2))
""",
    "handler": "print(signal.getsignal(signal.SIGINT) is handler)",
    "failure": """
class Wrong(ValueError):
    pass
def fail():
    import os, time
    if os.environ["RANK"] == "1":
        raise Wrong("bad data")
    time.sleep(600)
for method in ("fork", "spawn"):
    try:
        notebook_launcher(fail, num_processes=2, cpu=True, start_method=method)
    except Wrong as error:
        print("caught", error, "|", "in fail" in str(error.__cause__), "process 1 on" in str(error.__cause__))
""",
    "environment": """
import os
print([name for name in os.environ if name in ("RANK", "ACCELIFY_CPU", "ACCELIFY_MIXED_PRECISION")])
""",
}


def test_a_real_kernel(shell: Shell) -> None:
    cells = [nbformat.v4.new_code_cell(source) for source in (TRAIN, *CELLS.values())]
    notebook = nbformat.v4.new_notebook(cells=cells)
    execute(notebook, shell.folder, env=shell.environment())
    outputs = dict(zip(CELLS, notebook.cells[1:], strict=True))
    printed = {
        name: "".join(output.text for output in cell.outputs if output.get("name") == "stdout")
        for name, cell in outputs.items()
    }
    assert printed["fork"] == "process 0 of 2\nfork 20\n"
    assert printed["spawn"] == "process 0 of 2\nspawn 20\n"
    assert printed["handler"] == "True\n"
    assert printed["failure"] == "caught bad data | True True\n" * 2
    assert printed["environment"] == "[]\n"
    wait_until(lambda: not shell.processes(), "the kernel and its processes to be gone")


def test_output_streams_into_the_cell(shell: Shell) -> None:
    source = """
from accelify.runtime.launch.notebook import debug_launcher
def talk():
    import os, time
    print("first")
    while not os.path.exists("go"):
        time.sleep(0.05)
debug_launcher(talk)
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    seen: list[str] = []

    class Watcher(nbclient.NotebookClient):
        def output(self, outs, msg, display_id, cell_index):
            out = super().output(outs, msg, display_id, cell_index)
            seen.append(msg["content"].get("text", ""))
            if "first" in "".join(seen):
                (shell.folder / "go").touch()  # only what was shown lets the processes end
            return out

    execute(notebook, shell.folder, Watcher, env=shell.environment())
    assert "".join(seen) == "first\n"


SCRIPT = """
import os, sys
from accelify.runtime.launch.notebook import notebook_launcher
def work(how):
    if how == "killed" and os.environ["RANK"] == "1":
        os.kill(os.getpid(), 9)
    if how == "restart" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise ValueError("the first time")
    if how == "wait":
        open("up-" + os.environ["RANK"], "w").close()
        import time
        time.sleep(600)
    if how == "lock":
        import threading
        return threading.Lock()
    return how
if __name__ == "__main__":
    print("value", notebook_launcher(work, sys.argv[1:2], int(sys.argv[2]) if sys.argv[2:] else 2, cpu=True,
                                     max_restarts=int(sys.argv[1] == "restart")))
"""


def test_one_process_is_this_one(shell: Shell) -> None:
    shell.script(SCRIPT)
    done = shell.python("train.py", "plain", "1")
    assert (done.returncode, done.stdout) == (0, "value plain\n"), done.stderr


def test_a_killed_process_is_named(shell: Shell) -> None:
    shell.script(SCRIPT)
    done = shell.python("train.py", "killed")
    assert done.returncode == 1
    assert "RankFailed: process 1 on" in done.stderr
    assert "SIGKILL" in done.stderr


def test_a_restart(shell: Shell) -> None:
    shell.script(SCRIPT)
    done = shell.python("train.py", "restart")
    assert done.stdout == "value restart\n", done.stderr
    assert "starting all processes again, 1 of at most 1 times" in done.stderr


TWICE = """
import gc
from accelify.runtime import notebook_launcher
def tidy():
    return gc.collect() >= 0
if __name__ == "__main__":
    gc.disable()  # so that what the first launch left is there for the second one's processes
    print([notebook_launcher(tidy, num_processes=2, cpu=True) for _ in range(2)])
"""


def test_a_second_launch_does_not_clean_up_after_the_first_in_other_processes(shell: Shell) -> None:
    shell.script(TWICE)
    done = shell.python("train.py")
    assert (done.returncode, done.stdout) == (0, "[True, True]\n"), done.stderr


def test_a_value_that_cannot_be_sent(shell: Shell) -> None:
    shell.script(SCRIPT)
    done = shell.python("train.py", "lock")
    assert done.returncode == 1
    assert "the function's value, lock, cannot be sent back" in done.stderr


def test_an_interrupt_ends_all(shell: Shell) -> None:
    shell.script(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, "train.py", "wait"], cwd=shell.folder, env=shell.environment(), stderr=subprocess.PIPE
    )
    wait_until(lambda: all((shell.folder / f"up-{rank}").exists() for rank in (0, 1)), "both processes to be up")
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert b"KeyboardInterrupt" in err
    wait_until(lambda: not shell.processes(), "every process to be gone")


@pytest.mark.parametrize(("answer", "method"), [(0, "spawn"), (3, "fork")])  # CUDA_SUCCESS, CUDA_ERROR_NOT_INITIALIZED
def test_cuda_that_was_only_asked_for_is_not_forked(answer: int, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.cuda.is_available()` starts the driver, and leaves `is_initialized()` false."""
    driver = SimpleNamespace(cuDeviceGetCount=lambda count: answer)
    monkeypatch.setattr("ctypes.CDLL", lambda name: driver)
    assert choose_start_method() == method
