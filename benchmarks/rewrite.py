"""`accelify rewrite`, in CPU time, beside the floor that LibCST sets; both measured in turn, in one run, as ratios,
and with compiled bytecode, as an installed package has it.

A tree without torch is walked beside TorchFix, where $TORCHFIX names its command; it needs another LibCST than ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = int(os.environ.get("ROUNDS", "5"))
COMPILED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
FIRST = [f"tree/{number:02}" for number in range(10)]  # the first thousand files

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
LAYER = '''

class Block{n}(nn.Module):
    """One block of many, to fill a script as real ones are filled."""

    def __init__(self, width, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first = nn.Linear(width, 4 * width)
        self.second = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = torch.relu(self.first(self.norm(x)))
        return x + self.dropout(self.second(hidden))  # a residual connection
'''
TAIL = """

model = nn.Sequential({blocks}, nn.Linear(8, 2)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(640, 8), torch.randint(0, 2, (640,))), batch_size=16, shuffle=True)
criterion = nn.CrossEntropyLoss()

for epoch in range(3):
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
"""


def script(lines: int) -> str:
    """A training script of about so many lines."""
    count = max((lines - len((HEAD + TAIL).splitlines())) // len(LAYER.splitlines()), 1)
    blocks = ", ".join(f"Block{n}(8)" for n in range(count))
    return HEAD + "".join(LAYER.format(n=n) for n in range(count)) + TAIL.format(blocks=blocks)


def cost(command: list[str], folder: str) -> tuple[float, float]:
    """User and system time in seconds of a command and all that it starts, and the most memory in MB that one held."""
    process = subprocess.Popen(command, cwd=folder, env=COMPILED, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def least(commands: dict[str, list[str]], folder: str) -> dict[str, tuple[float, float]]:
    """The least cost of each command; they take turns, so that a busy machine is fair to all."""
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            costs[name].append(cost(command, folder))
    return {name: (min(time for time, _ in each), min(memory for _, memory in each)) for name, each in costs.items()}


def main() -> None:
    python, parse = sys.executable, "import libcst, pathlib; libcst.parse_module(pathlib.Path({!r}).read_text())"
    with tempfile.TemporaryDirectory() as folder:
        for lines in (500, 1000, 2000, 5000):
            (Path(folder) / f"{lines}.py").write_text(script(lines))
        tree = Path(folder) / "tree"
        for number in range(5000):
            path = tree / f"{number // 100:02}" / f"{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(LAYER.replace("torch", "tensor").format(n=number))
        commands = {
            "python -c pass": [python, "-c", "pass"],
            "accelify --version": [python, "-m", "accelify", "--version"],
        }
        commands["1,000 files without torch"] = [python, "-m", "accelify", "rewrite", "--no-cache", "--check", *FIRST]
        commands["5,000 files without torch"] = [python, "-m", "accelify", "rewrite", "--no-cache", "--check", "tree"]
        if "TORCHFIX" in os.environ:
            commands["TorchFix, the same files"] = [os.environ["TORCHFIX"], "--select", "ALL", "--jobs", "1", "tree"]
        for lines in (500, 1000, 2000, 5000):
            commands[f"floor, {lines} lines"] = [python, "-c", parse.format(f"{lines}.py")]
            commands[f"rewrite --diff, {lines} lines"] = [
                python,
                "-m",
                "accelify",
                "rewrite",
                "--no-cache",
                "--diff",
                f"{lines}.py",
            ]
        costs = least(commands, folder)
    print(f"{'CPU seconds, least of ' + str(ROUNDS):<32}{'':8}{'memory':>11}")
    for name, (seconds, memory) in costs.items():
        floor, _ = costs.get(name.replace("rewrite --diff", "floor"), (seconds, memory))
        ratio = f"{seconds / floor:8.2f} x the floor" if floor != seconds else ""
        print(f"{name:<32}{seconds:8.3f}{memory:8.0f} MB{ratio}")
    times = {name: seconds for name, (seconds, _) in costs.items()}
    extra = times["accelify --version"] - times["python -c pass"]
    walk = times["5,000 files without torch"] - times["accelify --version"]
    print(f"{'--version, more than bare python':<32}{1000 * extra:5.0f} ms\n{'walking':<32}{5000 / walk:8.0f} files/s")


if __name__ == "__main__":
    main()
