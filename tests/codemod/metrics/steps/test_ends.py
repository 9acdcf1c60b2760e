"""Facts about the last round of a loop that no process comes to."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.steps.ends import Ends
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
    assert [tuple(map(ast.unparse, pair)) for pair in Ends(facts.script.metrics).find()] == found
