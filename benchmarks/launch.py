"""What starting costs: `accelify launch` of one process beside the bare script, of two beside its peers."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5
ONE = {
    "python train.py": ["train.py"],
    "accelify launch": ["-m", "accelify", "launch", "--cpu", "train.py"],
}
TWO = {
    "torchrun": ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"],
    "accelify launch": ["-m", "accelify", "launch", "--cpu", "--num-processes", "2", "train.py"],
}
# On the CPU, Accelerate starts two processes only when it is told that there are GPUs.
PEER = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "train.py"]
HELP = {
    "python -c pass": ["-c", "pass"],
    "accelify launch --help": ["-m", "accelify", "launch", "--help"],
    "accelify launch --dry-run": ["-m", "accelify", "launch", "--dry-run", "--num-processes", "2", "train.py"],
    "accelify config show": ["-m", "accelify", "config", "show"],
    "accelify env": ["-m", "accelify", "env"],
}


def run(command: list[str], folder: str) -> tuple[float, float]:
    """Seconds of a command: on the wall, and in user and system time with all that it starts."""
    start = time.monotonic()
    variables = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, *command], cwd=folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime


def show(title: str, commands: dict[str, list[str]], folder: str) -> None:
    """The least of each command; they take turns."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            times[name].append(run(command, folder))
    print(f"{title:<34}{'wall':>8}{'ratio':>8}{'cpu':>10}{'ratio':>8}")
    least = {name: (min(wall for wall, _ in each), min(cpu for _, cpu in each)) for name, each in times.items()}
    floor = next(iter(least.values()))
    for name, (wall, cpu) in least.items():
        print(f"  {name:<30}{wall:8.2f} s{wall / floor[0]:8.2f}{cpu:8.2f} s{cpu / floor[1]:8.2f}", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text("pass\n", encoding="utf-8")
        show("one process", ONE, folder)
        script.write_text("import torch\n", encoding="utf-8")
        peer = {"accelerate launch": PEER} if importlib.util.find_spec("accelerate") else {}
        show("two processes", {**TWO, **peer}, folder)
        show("no process", HELP, folder)


if __name__ == "__main__":
    main()
