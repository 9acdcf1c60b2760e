"""Small scripts, rewritten or left alone; both helpers also check that a second run changes nothing."""

from __future__ import annotations

import difflib
from textwrap import dedent

from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options, rewrite_source

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
{imports}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_cuda = torch.cuda.is_available()
{before}
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1)
{model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{prepared}
for epoch in range(2):
    for x, y in loader:
{batch}
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
{backward}
        optimizer.step()
print(device, use_cuda)
{end}
"""
SLOTS = ("imports", "before", "model", "prepared", "batch", "backward", "end")
# What the rewrite does to the script whatever its slots hold.
ALWAYS = [
    "+from accelify.runtime import Accelerator",
    "+accelerator = Accelerator()",
    '-device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    "+device = accelerator.device",
    "+loader, model, optimizer = accelerator.prepare(loader, model, optimizer)",
]


def script(**slots: str) -> str:
    """The script with its slots filled, at their own depths of indentation."""
    depth = {"batch": 8, "backward": 8}
    filled = {slot: dedent(slots.get(slot, "")).strip("\n") for slot in SLOTS}
    if "backward" not in slots:
        filled["backward"] = "loss.backward()"
    indented = {
        s: "\n".join(" " * depth.get(s, 0) + line if line else "" for line in t.split("\n")) for s, t in filled.items()
    }
    lines = SCRIPT.format(**indented).split("\n")
    return "\n".join(line for line in lines if line.strip() or line == "")


def run(text: str, options: Options | None = None) -> FileResult:
    """The result for one file, whose second rewrite changes nothing."""
    data = text.encode()
    result = rewrite_source("train.py", data, options or Options())
    if result.status is Status.MIGRATED:
        again = rewrite_source("train.py", result.after, options or Options())
        assert again.status is Status.UNCHANGED, again
        assert again.after == result.after
    else:
        assert result.after == data
    return result


def rewritten(before: str, after: str) -> FileResult:
    """`before` comes out as `after`."""
    result = run(dedent(before))
    assert result.status is Status.MIGRATED, result
    got, want = result.after.decode(), dedent(after)
    assert got == want, "\n" + "".join(
        difflib.unified_diff(want.splitlines(True), got.splitlines(True), "expected", "got")
    )
    return result


def migrated(text: str) -> str:
    """What a script comes out as."""
    result = run(dedent(text))
    assert result.status is Status.MIGRATED, result.notes
    return result.after.decode()


def left_alone(text: str, *reasons: str) -> FileResult:
    """The file is untouched; with reasons, declined for each of them, else not looked at further."""
    result = run(dedent(text))
    assert result.status is (Status.DECLINED if reasons else Status.UNCHANGED), result.after.decode()
    for reason in reasons:
        assert any(reason in note.message for note in result.notes), result.notes
    return result


KEPT = "Accelerator(device_placement=False)"


def changed(*lines: str, created: str = "Accelerator()", **slots: str) -> FileResult:
    """With these slots, the script changes in these lines (`-old`, `+new`, stripped) besides what always changes."""
    text = script(**slots)
    result = run(text)
    assert result.status is Status.MIGRATED, result.notes
    always = [line.replace("Accelerator()", created) for line in ALWAYS]
    if "backward" not in slots:
        always += ["-loss.backward()", "+accelerator.backward(loss)"]
    compared = difflib.ndiff(text.splitlines(), result.after.decode().splitlines())
    got = [line[0] + line[2:].strip() for line in compared if line[0] in "+-" and line[2:].strip()]
    assert sorted(got) == sorted([*always, *lines]), result.after.decode()
    return result
