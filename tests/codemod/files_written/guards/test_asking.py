"""Facts about where the library can be asked which process runs some code."""

from __future__ import annotations

import pytest

from accelify.codemod.files_written.guards.asking import Asking
from accelify.codemod.options import ACCELERATE, ACCELIFY, Runtime
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
        ("", f"here()\n    {SELECTION}", "", False),
        ("", f"keep()\n    {SELECTION}", "", False),
        ("", f"for _ in range(2):\n        keep()\n        {SELECTION}", "", False),
        ("", "here()", SELECTION, True),  # which has no effect, once the accelerator is there
        ("", "keep()", SELECTION, True),
        ("", "accelify = 1", "here()", False),
    ],
)
def test_where_the_library_can_be_asked(before: str, first: str, end: str, is_asked: bool) -> None:
    text = TEXT.format(before=before, first=first or "pass", end=end or "pass")
    text = text.replace("def keep():\n    here()\n", "") if before or "here()" in first + end else text
    facts = Facts(text)
    asking = facts.script.written.guarding.asking
    assert isinstance(asking, Asking)
    assert asking.holds(facts.call("here(")) is is_asked
    assert asking.paths <= {"main.py"}


FOLDS = """\
import os, sys
import torch
from torch.utils.data import DataLoader
def keep():
    here()
def train(model, fold):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(data, batch_size=8):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    keep()
def main(fold, writer):
    {0}
    train(torch.nn.Linear(4, 2), fold)
if __name__ == "__main__":
    {1}
    writer = open("log.txt", "w")
    for fold in range(3):
        {2}
        main(fold, writer)
        writer.write(f"{{fold}}\\n")
"""


@pytest.mark.parametrize(
    ("places", "is_asked"),
    [
        (("", "", ""), True),
        ((SELECTION, "", ""), True),
        (("", SELECTION, ""), True),
        (("", "", SELECTION), True),
        ((SELECTION, "", "keep()"), False),
        (("", "keep()", SELECTION), False),
    ],
)
def test_rounds_that_choose_gpus_again(places: tuple[str, str, str], is_asked: bool) -> None:
    facts = Facts(FOLDS.format(*(place or "pass" for place in places)))
    asking = facts.script.written.guarding.asking
    assert asking.holds(facts.call("here(")) is is_asked


@pytest.mark.parametrize(
    ("before", "first", "is_told"),
    [
        ("here()", "", True),  # where a worker imports the script, too
        ("", f"here()\n    {SELECTION}", True),
        ("accelify = 1\nhere()", "", False),
    ],
)
def test_where_the_library_tells_the_rank_alone(before: str, first: str, is_told: bool) -> None:
    text = TEXT.format(before=before, first=first or "pass", end="pass").replace("def keep():\n    here()\n", "")
    facts = Facts(text)
    asking = facts.script.written.guarding.asking
    assert (asking.tells_rank(facts.call("here(")), asking.holds(facts.call("here("))) == (is_told, False)


@pytest.mark.parametrize(("runtime", "is_told"), [(ACCELIFY, True), (ACCELERATE, False)])
@pytest.mark.parametrize(
    ("helper", "is_run"),
    [
        ("here()", True),
        ("def make():\n    here()\nlog = make()", True),
        ("def make():\n    here()", False),
        ("if __name__ == '__main__':\n    make()\ndef make():\n    here()", False),
    ],
)
def test_where_an_imported_file_tells_the_rank(helper: str, is_run: bool, runtime: Runtime, is_told: bool) -> None:
    text = TEXT.format(before="import helper", first="pass", end="pass").replace("def keep():\n    here()\n", "")
    facts = Facts({"main.py": text, "helper.py": helper}, runtime)
    asking = facts.script.written.guarding.asking
    assert asking.tells_rank(facts.call("here(")) is (is_run and is_told)
