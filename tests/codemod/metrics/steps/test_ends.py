"""Facts about the last round of a loop that no process comes to."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.steps.ends import Ends
from accelify.codemod.rules import notes
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import training

MEASURES = """\
class Bar:
    def __init__(self, n):
        self.n = n
    def step(self, i):
        print(i, self.n)
    def __call__(self, step):
        print(step, self.n)
other = DataLoader(rows, batch_size=2)
def progress(i, n):
    print(i / n)
"""


MEASURED = """\
total, n, bar, count = 0.0, 0, Bar(n=len(other)), len(other)
with torch.no_grad():
    for i, (x, y) in enumerate(other):
        total += nn.functional.mse_loss(model(x), y).item()
        n += 1
        {measured}
print(total / len(other))
"""


@pytest.mark.parametrize(
    ("measured", "found"),
    [
        ("if i == len(other) - 1: print(total)", [("i", "len(other) - 1")]),
        ("if n >= count: print(total)", [("n", "count")]),
        ("progress(i, len(other))", [("i", "len(other)")]),
        ("bar.step(i + 1)", [("i + 1", "len(other)")]),
        ("bar(step=i)", [("i", "len(other)")]),
        ("print(i / len(other))", []),
        ("if i == 7: print(total)", []),
        ("if n == len(rows): print(total)", []),
    ],
)
def test_ends_that_no_process_comes_to(measured: str, found: list[tuple[str, str]]) -> None:
    facts = training(before=MEASURES, end_of_epoch=MEASURED.format(measured=measured))
    assert facts.script.metrics.sharded
    ends = list(Ends(facts.script.metrics).find())
    assert [(ast.unparse(end.number), ast.unparse(end.length)) for end in ends] == found


SHOWN = """\
import sys, time
results = []
last = time.time()
def progress(i, n, text=""):
    global last
    sys.stdout.write("%d/%d %s" % (i + 1, n, text))
    if i < n - 1:
        sys.stdout.write("\\r")
    else:
        sys.stdout.write("\\n")
    last = time.time()
class Bar:
    def __init__(self, n):
        self.n = n
    def step(self, i):
        self.i = i
        print(i, self.n)
other, bar = DataLoader(rows, batch_size=2), None
"""


@pytest.mark.parametrize(
    ("measured", "is_bar"),
    [
        ("progress(i, len(other), 'loss %.3f' % (total / n))", True),
        ("progress(i=i, n=len(other))", True),
        ("bar.step(i)", True),
        ("if i == len(other) - 1: progress(0, 1)", False),
    ],
)
def test_what_only_shows_the_progress(measured: str, is_bar: bool) -> None:
    rounds = MEASURED.replace("Bar(n=len(other)), len(other)", "Bar(len(other)), 0").format(measured=measured)
    facts = training(before=SHOWN, end_of_epoch=rounds)
    assert [end.is_bar for end in Ends(facts.script.metrics).find()] == [is_bar]


SEQUENCE = """\
import torch
from torch import nn
batches = [torch.randn(8, 4) for _ in range(6)]
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def show(i, n):
    print(i, n)
def last_of(i, n):
    print(i)
    return i == n - 1
def save(i, n):
    print(i)
    if i == n - 1:
        torch.save(model.state_dict(), "model.pt")
for i, x in enumerate(batches):
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    MEASURED
"""


@pytest.mark.parametrize(
    ("measured", "is_bar"),
    [
        ("show(i, len(batches))", True),
        ("save(i, len(batches))", False),
        ("if last_of(i, len(batches)): print(loss)", False),
    ],
)
def test_what_does_more_in_the_last_round(measured: str, is_bar: bool) -> None:
    script = Facts(SEQUENCE.replace("MEASURED", measured)).script
    assert [end.is_bar for end in Ends(script.metrics).find()] == [is_bar]


def test_the_note_on_a_bar_is_no_advice_to_move_it() -> None:
    for measured, words in (("show(i, len(batches))", "use `len` of"), ("save(i, len(batches))", "move this code")):
        found = [r for r in notes.find(Facts(SEQUENCE.replace("MEASURED", measured)).script) if words in r.message]
        assert [ast.unparse(r.node) for r in found] == ["len(batches)" if "show" in measured else "i"]
