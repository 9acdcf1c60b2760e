"""Facts about where the library can be asked which process runs some code."""

from __future__ import annotations

import pytest

from accelify.codemod.files_written.guards.asking import Asking
from tests.codemod.facts import Facts

TEXT = """\
import os, sys
import torch
from torch.utils.data import DataLoader
{before}
def keep():
    here()
def main():
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(data, batch_size=8):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
if __name__ == "__main__":
    {first}
    main()
    {end}
"""
SELECTION = "os.environ['CUDA_VISIBLE_DEVICES'] = sys.argv[1]"


@pytest.mark.parametrize(
    ("before", "first", "end", "is_asked"),
    [
        ("", "keep()", "", True),
        ("", "", "here()", True),
        ("", SELECTION, "here()", True),
        ("here()", "", "", False),  # where a worker imports the script, too
        ("", "here()", SELECTION, False),
        ("", "keep()", SELECTION, False),
        ("", "accelify = 1", "here()", False),
    ],
)
def test_where_the_library_can_be_asked(before: str, first: str, end: str, is_asked: bool) -> None:
    text = TEXT.format(before=before, first=first or "pass", end=end or "pass")
    text = text.replace("def keep():\n    here()\n", "") if before or "here()" in (first, end) else text
    facts = Facts(text)
    asking = facts.script.written.guarding.asking
    assert isinstance(asking, Asking)
    assert asking.holds(facts.call("here(")) is is_asked
    assert asking.paths <= {"main.py"}
