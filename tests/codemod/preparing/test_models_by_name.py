"""Prepared models that are picked by names which code makes."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.preparing.models_by_name import ModelsByName
from tests.codemod.facts import Facts

CLASS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Base:
    def keep(self, name):
{body}
class Pair(Base):
    def __init__(self):
        self.net_g = nn.Linear(4, 4)
        self.sizes = [4]
        self.optimizer = torch.optim.SGD(self.net_g.parameters(), lr=0.1)
    def backward(self, x):
        self.loss = self.net_g(x).mean()
        self.loss.backward()
    def step(self, x):
        self.optimizer.zero_grad()
        self.backward(x)
        self.optimizer.step()
pair = Pair()
for x in DataLoader(torch.randn(8, 4)):
    pair.step(x)
pair.keep('g')
"""


def facts(*lines: str) -> Facts:
    return Facts(CLASS.format(body="\n".join(f"        {line}" for line in lines)))


@pytest.mark.parametrize(
    "lines",
    [
        ("net = getattr(self, 'net_' + name)", "torch.save(net.cpu().state_dict(), 'g.pt')"),
        ("net = getattr(self, f'net_{name}')", "net.cuda(0)"),
        ("net = getattr(self, 'net_%s' % name)", "torch.save(net.module.state_dict(), 'g.pt')"),
        ("net = getattr(self, 'net_' + name)", "setattr(self, 'net_' + name, nn.DataParallel(net))"),
        ("nn.DataParallel(getattr(self, 'net_' + name))",),
        ("getattr(self, name).cuda()",),
    ],
)
def test_a_prepared_model_is_moved_or_wrapped_under_a_made_name(lines: tuple[str, ...]) -> None:
    found = facts(*lines)
    script = found.verdict.script
    assert script is not None
    ((use, attributes),) = ModelsByName(found.program, script.preparation).undone()
    assert isinstance(use, ast.expr)
    assert attributes == ("net_g",)
    (message,) = [m for _, rule, m in found.verdict.obstacles if rule == "prepare"]
    assert message.startswith("`getattr` picks one of the prepared models here (`net_g`)")


@pytest.mark.parametrize(
    "lines",
    [
        ("net = getattr(self, 'net_' + name)", "torch.save(net.state_dict(), 'g.pt')"),
        ("net = getattr(self, 'net_' + name)", "net.eval()"),
        ("net = getattr(self, 'old_' + name)", "net.cuda(0)"),
        ("net = getattr(self, 'net_g')", "net.eval()"),
        ("net = getattr(name, 'net_' + name)", "net.cuda(0)"),
    ],
)
def test_what_only_reads_a_model_or_is_another(lines: tuple[str, ...]) -> None:
    assert not facts(*lines).verdict.obstacles
