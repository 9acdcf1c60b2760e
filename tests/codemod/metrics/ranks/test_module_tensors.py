"""Which expressions are weights or buffers of a module: source text in, the tensor that is changed out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.ranks.module_tensors import ModuleTensors
from tests.codemod.facts import Facts

SCRIPT = """\
import copy
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows
class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(1))
        self.last = torch.ones(1)
net, memory = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1)), Memory()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(rows, 4):
    loss = net(x).mean()
    loss.backward()
    optimizer.step()
    {changed}
"""


def found(changed: str) -> list[str]:
    """The tensors of modules of which the objects of in-place methods are views, and of which stored items are."""
    facts = Facts(SCRIPT.format(changed=changed.replace("\n", "\n    ")))
    script = facts.script
    tensors = ModuleTensors(script.metrics.ranks.chains, script.roles)
    nodes = [n for parsed in script.program.files for n in parsed.nodes]
    changes: list[ast.expr] = [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    calls = [n.func for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    changes += [f.value for f in calls if f.attr in ("fill_", "mul_")]
    return [ast.unparse(t) for t in map(tensors.find, changes) if t is not None]


@pytest.mark.parametrize(
    ("changed", "tensors"),
    [
        ("for b in net.buffers(): b.fill_(1)", ["b"]),
        ("for name, b in memory.named_buffers(): b.data[0] = 1", ["b"]),
        ("memory.get_buffer('scale').fill_(1)", ["memory.get_buffer('scale')"]),
        ("net.get_parameter('1.bias').data.fill_(1)", ["net.get_parameter('1.bias')"]),
        ("held = net.state_dict()\nheld['1.bias'].fill_(1)", ["held['1.bias']"]),
        ("for name, v in net.state_dict().items(): v.mul_(2)", ["v"]),
        ("net[0].running_mean.fill_(1)", ["net[0].running_mean"]),
        ("first = net[0]\nfirst.running_var.data.fill_(1)", ["first.running_var"]),
        ("for part in net: part.weight.detach().fill_(1)", ["part.weight"]),
        ("for part in net.modules(): part.weight.data.view(-1).fill_(1)", ["part.weight"]),
        ("next(net.parameters()).data.fill_(1)", ["next(net.parameters())"]),
        ("list(net.parameters())[0].data.fill_(1)", ["list(net.parameters())[0]"]),
        ("dict(net.named_parameters())['1.bias'].data.fill_(1)", ["dict(net.named_parameters())['1.bias']"]),
        ("ours = [p.data for p in net.parameters()]\nours[0].fill_(1)", ["ours[0]"]),
        ("def reset(part): part.bias.data.fill_(0)\nnet.apply(reset)", ["part.bias"]),
        ("for p in optimizer.param_groups[0]['params']: p.data.fill_(0)", ["p"]),
        ("for group in optimizer.param_groups:\n    for p in group['params']: p.data.fill_(0)", ["p"]),
        ("net.apply(lambda part: part.bias.data.fill_(0))", ["part.bias"]),
    ],
)
def test_tensors_of_modules(changed: str, tensors: list[str]) -> None:
    assert found(changed) == tensors


@pytest.mark.parametrize(
    "changed",
    [
        "w = net[1].weight.detach().clone()\nw.mul_(2)",
        "w = 2 * net[1].weight\nw.mul_(2)",
        "best = copy.deepcopy(net.state_dict())\nbest['1.bias'].fill_(1)",
        "means = {name: p.data.clone() for name, p in net.named_parameters()}\nmeans['1.bias'].mul_(2)",
        "means = [p.clone() for p in net.parameters()]\nfor m, p in zip(means, net.parameters()): m.mul_(2)",
        "norms = [p.norm() for p in net.parameters()]\nnorms[0].mul_(2)",
        "held = net.state_dict()\nheld['loss'] = loss",
        "ours = list(net.parameters())\nours[0] = loss",
        "for p in net.parameters(): p.grad.mul_(2)",
        "h = net[0](x)\nh.data.mul_(2)",
        "for p in optimizer.param_groups[0]['params']: p.grad.fill_(0)",
        "memory.last.fill_(1)",
        "x.data.fill_(1)",
    ],
)
def test_other_tensors(changed: str) -> None:
    assert not found(changed)


@pytest.mark.parametrize(
    ("tensor", "owners"),
    [
        ("net[0].running_mean", 1),
        ("net.buffers()", 0),
        ("net.get_buffer('0.running_mean')", 1),
        ("x.data", 0),
        ("optimizer.param_groups[0]['params'][0]", 1),
    ],
)
def test_owners(tensor: str, owners: int) -> None:
    facts = Facts(SCRIPT.format(changed=f"show({tensor})"))
    script = facts.script
    shown = next(
        n for p in script.program.files for n in p.nodes if isinstance(n, ast.Call) and "show" in ast.unparse(n.func)
    )
    assert len({*ModuleTensors(script.metrics.ranks.chains, script.roles).owners(shown.args[0])}) == owners
