"""How the training code is run."""

from __future__ import annotations

import pytest

from accelify.codemod.options import ACCELIFY
from accelify.codemod.training.facts import Run, run_of
from tests.codemod.facts import Facts

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(x):
    model(x).sum().backward()
    optimizer.step()
"""


def run(text: str) -> Run:
    facts = Facts(HEAD + text)
    files = frozenset({"main.py"})
    return run_of(facts.program, facts.roles, facts.tracer, facts.training, files, ACCELIFY)


def test_what_leads_to_training() -> None:
    found = run("def main():\n    for x in DataLoader(d):\n        step(x)\ndef other(): ...\nmain()")
    assert {s.name for s in found.leading} >= {"step", "main"}
    assert "other" not in {s.name for s in found.leading}


@pytest.mark.parametrize(("item", "draws"), [("torch.randn(4)", True), ("self.rows[i]", False)])
def test_whether_data_are_drawn(item: str, draws: bool) -> None:
    data = f"class Rows(Dataset):\n    def __getitem__(self, i):\n        return {item}\n"
    assert run(data + "for x in DataLoader(Rows()):\n    step(x)").draws_in_its_data is draws


@pytest.mark.parametrize(("guard", "is_trial"), [('if __name__ == "__main__":', True), ("if model:", False)])
def test_a_module_that_tries_itself_out(guard: str, is_trial: bool) -> None:
    inner = "    for i in range(3):\n        model(torch.randn(2, 4)).sum().backward()\n        optimizer.step()"
    head = HEAD.partition("def step")[0]
    facts = Facts(f"{head}{guard}\n{inner}")
    files = frozenset({"main.py"})
    found = run_of(facts.program, facts.roles, facts.tracer, facts.training, files, ACCELIFY)
    assert found.is_trial is is_trial


def test_a_step_for_unknown_callers_waits_for_them() -> None:
    facts = Facts("def step(model, optimizer, x):\n    model(x).sum().backward()\n    optimizer.step()")
    files = frozenset({"main.py"})
    assert run_of(facts.program, facts.roles, facts.tracer, facts.training, files, ACCELIFY).waits
