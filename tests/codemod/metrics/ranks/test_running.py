"""Which definitions change a value from round to round of a sharded loop."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.ranks.running import Running
from accelify.codemod.metrics.ranks.shards import Shards
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, training


@pytest.mark.parametrize(
    ("epoch", "change", "is_running"),
    [
        ("total = 0.0", "total += loss.item()", True),
        ("total = 0.0", "total = total + loss.item()", True),
        ("seen = []", "seen.append(loss)", True),
        ("log = {}", 'log["loss"] = loss', False),  # the last one alone is left
        ("log = {}", 'log[len(log)]["loss"] = loss', True),
        ("log = {}", 'log["train"][len(log)]["loss"] = loss', True),
        ("log = {}", "log[len(log)].loss = loss", True),
        ("log = {}", 'log[epoch]["loss"] = loss', False),  # of one epoch
        ("log = {}", 'log["train"]["loss"] = loss', False),
        ("total = 0.0", "total = loss.item()", False),
        ("pass", "total = 0.0\nfor row in x:\n    total += row.sum()", False),  # each round begins it anew
    ],
)
def test_what_is_changed_from_round_to_round(epoch: str, change: str, is_running: bool) -> None:
    facts = training(epoch=epoch, step=STEP + change)
    ranks = facts.script.metrics.ranks
    assert isinstance(ranks.running, Running)
    assert isinstance(ranks.shards, Shards)
    loop = facts["for x, y in loader"]
    name = change.splitlines()[-1].strip().split(" ")[0].split(".append")[0].split("[")[0]
    defined = [
        definition
        for node in facts.program.parsed(loop).nodes
        for definition in ranks.chains.facts(loop).at(node)
        if definition.variable.name == name and facts.program.inside(node, loop)
    ]
    assert any(ranks.running.loop_in(d) is loop for d in defined) is is_running


CRITERION = """\
class Error(nn.Module):
    def __init__(self):
        super().__init__()
        self.last, self.seen = 0, []
    def forward(self, out, y):
        {forward}
    def before(self):
        return self.last
error = Error()
def run():
    for x, y in loader:
        {batch}
        loss.backward()
        optimizer.step()
run()
"""
LOSS = "loss = error(model(x), y)"


@pytest.mark.parametrize(
    ("forward", "batch", "is_running"),
    [
        ("self.last = (out - y).mean(); return self.last", LOSS, True),  # `before` may read it
        ("self.loss = (out - y).mean(); return self.loss", LOSS, False),
        ("self.loss, self.y = (out - y).mean(), y; return self.loss", LOSS, False),
        ("self.loss = (out - y).mean(); return self.loss", f"{LOSS}; print(error.loss)", False),
        ("self.loss = (out - y).mean(); return self.loss", "a = error.loss; loss = a * error(model(x), y)", True),
        ("b = self.loss; self.loss = (out - y).mean(); return b + self.loss", LOSS, True),
        ("self.loss = (out - y).mean(); a = self.seen; a.append(self.loss); return sum(a)", LOSS, True),
    ],
)
def test_a_call_that_sets_attributes_anew(forward: str, batch: str, is_running: bool) -> None:
    facts = training(end=CRITERION.format(forward=forward, batch=batch))
    ranks, call = facts.script.metrics.ranks, facts.call("error(model(x), y)")
    defined = [d for d in ranks.chains.facts(call).at(call) if d.variable.name == "error"]
    assert defined
    assert any(ranks.running.loop_in(d) is not None for d in defined) is is_running


MOVED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rows = TensorDataset(torch.randn(8, 4), torch.zeros(8).long())
class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.tensor([0.2, 0.8])
    def forward(self, out, y):
        {moved}
        return nn.functional.cross_entropy(out, y, weight=self.weight)
model, loss_of = nn.Linear(4, 2), Weighted()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(rows, batch_size=2):
    loss = loss_of(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("moved", "is_running"),
    [
        ("self.weight = self.weight.to(out.device)", False),
        ("self.weight = self.weight.float().type_as(out)", False),
        ("if self.weight.type() != out.data.type():\n            self.weight = self.weight.type_as(out.data)", False),
        ("if self.weight.dtype != out.dtype:\n            self.weight = self.weight.to(out)", False),
        ("self.weight = torch.from_numpy(self.weight.numpy()).to(out.device).type(out.dtype)", False),
        ("self.weight = torch.as_tensor(self.weight, device=out.device)", False),
        ("self.weight = torch.tensor(self.weight + 1.0)", True),
        ("self.weight = 0.9 * self.weight.to(out.device)", True),
        ("self.weight = self.weight.to(out.device) + out.detach().mean(0)", True),
        ("if out.sum() > 0:\n            self.weight = self.weight * 0.9", True),
    ],
)
def test_a_constant_that_a_loss_moves_to_its_inputs_is_no_state(moved: str, is_running: bool) -> None:
    facts = Facts(MOVED.format(moved=moved))
    assert bool(facts.script.metrics.ranks.of(facts["loss_of(model(x), y)"]).of(Mark.STEPS, Mark.RUNNING)) is is_running


@pytest.mark.parametrize("given", ["model(x)", "model(x) if len(x) > 1 else x", "x"])
@pytest.mark.parametrize(("asked", "is_own"), [("out.data.type()", False), ("out.data.sum()", True)])
def test_the_type_of_what_may_be_a_tensor_is_the_same_in_all_processes(given: str, asked: str, is_own: bool) -> None:
    moved = f"if {asked} != self.weight.type():\n            self.weight = self.weight.type_as(out)"
    facts = Facts(MOVED.format(moved=moved).replace("loss_of(model(x), y)", f"loss_of({given}, y)"))
    assert facts.script.metrics.ranks.is_own(facts[asked]) is is_own


@pytest.mark.parametrize(
    ("defined", "change", "call", "is_running"),
    [
        ("loss, seen=[]", "seen.append(loss.item())", "scaled(loss)", True),
        ("loss, *, seen={}", 'seen["mean"] = 0.9 * seen.get("mean", 1.0) + 0.1 * loss.item()', "scaled(loss)", True),
        ("loss, seen=torch.ones(1)", "seen.mul_(0.9).add_(0.1 * loss.detach())", "scaled(loss)", True),
        ("loss, seen=[]", "seen.append(loss.item())", "scaled(loss, [])", False),
        ("loss, seen=None", "seen = seen or []\n    seen.append(loss.item())", "scaled(loss)", False),
        ("loss, seen=0.0", "seen += loss.item()", "scaled(loss)", False),
    ],
)
def test_an_object_that_is_a_default_is_one_for_all_calls(
    defined: str, change: str, call: str, is_running: bool
) -> None:
    facts = training(epoch=f"def scaled({defined}):\n    {change}\n    return loss", step=f"{call}\n{STEP}")
    loop, chains = facts["for x, y in loader"], facts.script.metrics.ranks.chains
    made = [d for n in facts.program.parsed(loop).nodes for d in chains.facts(loop).at(n) if d.variable.name == "seen"]
    assert any(facts.script.metrics.ranks.running.loop_in(d) is loop for d in made) is is_running


TIMED = """\
class Timer:
    mean = 0.0
    def __init__(self, loss=0.0): self.loss = loss
    def __enter__(self): return self
    def __exit__(self, *failure):
        {kept}
def run():
    for x, y in loader:
        {batch}
        loss.backward()
        optimizer.step()
run()
"""


@pytest.mark.parametrize(
    ("kept", "batch", "is_running"),
    [
        ("Timer.mean = 0.9 * Timer.mean + 0.1 * self.loss", "with Timer() as t: loss = t.loss = model(x).mean()", True),
        ("Timer.mean += self.loss", "timer = Timer(x.mean())\n        with timer: loss = model(x).mean()", True),
        ("Timer.mean = 0", "with Timer() as t: loss = t.loss = model(x).mean()", False),
        ("Timer.mean += self.loss", "timer = Timer(x.mean()); loss = model(x).mean()", False),  # which nothing enters
    ],
)
def test_what_the_end_of_a_with_statement_changes(kept: str, batch: str, is_running: bool) -> None:
    facts = training(end=TIMED.format(kept=kept, batch=batch))
    ranks = facts.script.metrics.ranks
    nodes = (n for parsed in facts.program.files for n in parsed.nodes)
    defined = [d for n in nodes for d in ranks.chains.facts(n).at(n) if d.variable.name == "mean"]
    assert any(ranks.running.loop_in(d) is not None for d in defined) is is_running
