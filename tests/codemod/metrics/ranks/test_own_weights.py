"""Where weights are set by hand from what is one rank's own: source text in, facts out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.ranks.own_weights import OwnWeights
from tests.codemod.facts import Facts
from tests.codemod.pairs import run

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows
class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.bank, self.calls = nn.Embedding(2, 4), 0
        self.register_buffer("scale", torch.ones(1))
    def forward(self, y):
        return self.bank(y) * self.scale
    def keep(self, x, y):
        {kept}
def fill(module, value):
    for p in module.parameters():
        p.data.fill_(value)
model, gate, memory = nn.Linear(4, 1), nn.Linear(1, 1).requires_grad_(False), Memory().requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in DataLoader(rows, 4):
        loss = (model(x) * gate(torch.ones(1)) + memory(y)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {batch}
        memory.keep(x, y)
"""


def set_by_hand(batch: str = "pass", kept: str = "pass") -> tuple[OwnWeights, list[tuple[ast.AST, ast.expr]]]:
    batch = batch.replace("\n", "\n        ")
    weights = OwnWeights(Facts(SCRIPT.format(batch=batch, kept=kept)).script.metrics)
    return weights, list(weights.find())


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        ("gate.weight.data.fill_(loss.item())", ["gate.weight"]),
        ("with torch.no_grad(): gate.weight.mul_(0.9).add_(loss.detach())", ["gate.weight"]),
        ("gate.weight.data = loss.detach().view(1, 1)", ["gate.weight"]),
        ("gate.weight = nn.Parameter(loss.detach().view(1, 1), requires_grad=False)", ["gate.weight"]),
        ("gate.bias.data[0] += loss.item()", ["gate.bias"]),
        ("nn.init.constant_(gate.bias, loss.item())", ["gate.bias"]),
        ("setattr(gate.weight, 'data', loss.detach().view(1, 1))", ["gate.weight"]),
        ("for p in model.parameters(): p.data.add_(torch.randn_like(p) * loss.item())", ["p"]),
        ("for p in gate.parameters():\n    p -= 0.1 * loss.detach()", ["p"]),
        ("if loss.item() > 3: model.weight.data.mul_(0.5)", ["model.weight"]),
        ("memory.bank.weight.data[y] = 0.5", ["memory.bank.weight"]),
        ("memory.scale.copy_(loss.detach())", ["memory.scale"]),
        ("fill(gate, loss.item())", ["p"]),
        ("gate.load_state_dict({'weight': loss.detach().view(1, 1), 'bias': torch.zeros(1)})", ["gate"]),
        ("if loss.item() < 0.1: model.load_state_dict(memory.state_dict())", ["model"]),
        ("getattr(memory, 'scale').fill_(loss.item())", ["getattr(memory, 'scale')"]),
        ("memory.load_state_dict(torch.load('memory.pt'))", []),
        ("for n, b in memory.named_buffers(): b.mul_(0.9).add_(0.1 * x.mean(0))", ["b"]),
        ("nn.utils.vector_to_parameters(x.mean(0), gate.parameters())", ["gate.parameters()"]),
        ("gate.state_dict()['weight'].fill_(loss.item())", ["gate.state_dict()['weight']"]),
        ("def fill_all(m, by=loss.item()): nn.init.constant_(m.weight, by)\ngate.apply(fill_all)", ["m.weight"]),
        ("gate.apply(lambda m: m.weight.data.fill_(loss.item()))", ["m.weight"]),
        ("def fill_all(m, by=0.5): nn.init.constant_(m.weight, by)\ngate.apply(fill_all)", []),
        ("optimizer.param_groups[0]['weight_decay'] = loss.item()", ["optimizer.param_groups[0]['weight_decay']"]),
        ("for g in optimizer.param_groups: g['momentum'] *= loss.item()", ["g['momentum']"]),
        ("optimizer.state[model.weight]['scale'] = loss.item()", ["optimizer.state[model.weight]['scale']"]),
        ("for g in optimizer.param_groups: g['weight_decay'] = 0.1 * epoch", []),
        ("gate.load_state_dict(gate.state_dict())", []),
        ("for p in model.parameters(): p.data.clamp_(-1, 1)", []),
        ("for p in model.parameters():\n    p.grad.mul_(0.5)\n    p.data.sub_(p.grad)", []),
        ("for p, q in zip(gate.parameters(), model.parameters()): p.data.mul_(0.9).add_(q.data)", []),
        ("with torch.no_grad(): model.weight.copy_(nn.functional.normalize(model.weight))", []),
        ("gate.weight.data.fill_(1 / (epoch + 1))", []),
        ("if epoch > 1: gate.weight.data.fill_(1)", []),
        ("w = model.weight.detach().clone()\nw = w * loss.item()", []),
        ("x.data.add_(loss.item())", []),
    ],
)
def test_tensors_that_are_set_from_a_ranks_own(batch: str, found: list[str]) -> None:
    assert [ast.unparse(tensor) for _, tensor in set_by_hand(batch)[1]] == found


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        ("self.bank.weight.data[y] = 0.5 * self.bank.weight.data[y] + 0.5 * x", ["self.bank.weight"]),
        ("self.bank.weight.index_copy_(0, y, x)", ["self.bank.weight"]),
        ("self.scale.fill_(x.mean())", ["self.scale"]),
        ("self.scale.fill_(1)", []),
        ("self.calls += 1", []),
    ],
)
def test_a_method_that_a_batch_runs(kept: str, found: list[str]) -> None:
    assert [ast.unparse(tensor) for _, tensor in set_by_hand(kept=kept)[1]] == found


def test_what_a_module_is_made_with_is_not_set_by_hand() -> None:
    made = "class Gate(nn.Module):\n    def __init__(self, by):\n        super().__init__()\n"
    made += "        self.weight = nn.Parameter(torch.ones(1))\n        self.weight.data.fill_(by)\n"
    made += "class Memory(nn.Module):"
    text = SCRIPT.replace("class Memory(nn.Module):", made).format(batch="Gate(loss.item())", kept="pass")
    assert not list(OwnWeights(Facts(text).script.metrics).find())


@pytest.mark.parametrize(
    ("batch", "agrees", "is_drawn"),
    [
        ("model.weight.data.fill_(loss.item())", True, False),
        ("for p in model.parameters(): p.data.add_(torch.randn_like(p))", True, True),
        ("for p in model.parameters(): p.data.add_(torch.randn_like(p) * loss.item())", True, False),
        ("for p in gate.parameters(): p.data.add_(torch.randn_like(p))", False, True),
        ("for p in optimizer.param_groups[0]['params']: p.data.add_(torch.randn_like(p))", True, True),
        ("optimizer.param_groups[0]['weight_decay'] = loss.item()", False, False),
        ("memory.scale.fill_(loss.item())", False, False),
        ("for b in memory.buffers(): b.fill_(loss.item())", False, False),
        ("if loss.item() < 0.1: model.load_state_dict(torch.load('model.pt'))", True, False),
        ("if loss.item() < 0.1: gate.load_state_dict(torch.load('gate.pt'))", False, False),
    ],
)
def test_which_ranks_get_those_of_rank_0(batch: str, agrees: bool, is_drawn: bool) -> None:
    weights, ((node, tensor),) = set_by_hand(batch)
    assert (weights.is_broadcast(tensor, weights=True), weights.is_drawn(node)) == (agrees, is_drawn)
    assert not weights.is_broadcast(tensor, weights=False)  # none of them is a buffer of a prepared model


@pytest.mark.parametrize(
    ("batch", "noted"),
    [
        ("gate.weight.data.fill_(loss.item())", "the processes train different models"),
        ("model.weight.data.fill_(loss.item())", "only the main process's count"),
        ("for p in model.parameters(): p.data.add_(torch.randn_like(p))", None),
        ("optimizer.param_groups[0]['weight_decay'] = loss.item()", "the processes train different models"),
        ("optimizer.param_groups[0]['lr'] = loss.item()", None),  # which has a note of its own
        ("gate.weight.data.fill_(0.5)", None),
    ],
)
def test_such_changes_are_noted(batch: str, noted: str | None) -> None:
    notes = run(SCRIPT.format(batch=batch, kept="pass")).notes
    found = [n.message for n in notes if n.rule == "notes" and "each process sets" in n.message]
    assert [noted is not None and noted in message for message in found] == [True] * (noted is not None)
