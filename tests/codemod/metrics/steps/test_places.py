"""Facts about places in loops that are run for all data."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.steps.intervals import Intervals
from accelify.codemod.metrics.steps.places import goes_over_all, is_sharded
from accelify.codemod.metrics.steps.samples import Samples
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script

PHASES = """\
import torch
from torch.utils.data import DataLoader
size, rows, seen = 2, torch.randn(8, 1), 0
loaders = {{"train": DataLoader(rows, batch_size=size), "val": DataLoader(rows, batch_size=size)}}
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for phase in ["train", "val"]:
    for i, x in enumerate(loaders[phase]):
        loss = model(x).mean()
        if phase == "train":
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        if {test}:
            keep(x)
"""


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("phase == 'val' and i * size < 4", []),
        ("phase == 'val':\n            if i * size < 4", []),
        ("phase != 'train':\n            if i * size < 4", []),
        ("phase == 'train':\n            if i * size < 4", ["i * size"]),
        ("i * size < 4", ["i * size"]),
    ],
)
def test_a_phase_that_goes_over_all_counts_all(test: str, found: list[str]) -> None:
    text = PHASES.format(test=test).replace("size < 4:\n            keep", "size < 4:\n                keep")
    facts = Facts(text)
    script, loop = facts.script, facts["for i, x"]
    assert goes_over_all(script.metrics, facts["keep(x)"], loop) is (not found)
    assert texts(Samples(script.step_counts).samples(script.batch_sizes.loaders)) == found
    intervals = Intervals(script.limits).intervals()
    assert [ast.unparse(n.test) for n in intervals if isinstance(n, ast.If)] == [f"{n} < 4" for n in found]


@pytest.mark.parametrize(
    ("step", "end", "is_in_loop"), [("done()", "", True), ("made()", "", True), ("", "done()", False)]
)
def test_places_in_sharded_loops(step: str, end: str, is_in_loop: bool) -> None:
    own = "def done(): return 'here'\ndef made(): return done()\n"
    facts = Facts(script(before=own, step=f"{STEP}{step}\n", end=end))
    assert is_sharded(facts.script.metrics, facts["return 'here'"]) is is_in_loop
