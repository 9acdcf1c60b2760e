"""Which expressions are options of optimizers or settings of modules: source text in, facts out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.ranks.settings import Settings
from tests.codemod.facts import Facts

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows
net, options = nn.Sequential(nn.Dropout(0.1), nn.Linear(4, 1)), {{}}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(rows, 4):
    loss = net(x).mean()
    loss.backward()
    optimizer.step()
    {changed}
"""


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        ("optimizer.param_groups[0]['weight_decay'] = 1", "optimizer.param_groups[0]['weight_decay']"),
        ("for group in optimizer.param_groups: group['momentum'] = 1", "group['momentum']"),
        ("optimizer.state[net[1].weight]['scale'] = 1", "optimizer.state[net[1].weight]['scale']"),
        ("held = optimizer.state[net[1].weight]\nheld['scale'] = 1", "held['scale']"),
        ("net[0].p = min(0.5, loss.item())", "net[0].p"),
        ("drop = net[0]\ndrop.p = 0.5", "drop.p"),
        ("for part in net.modules(): part.p = loss.item()", "part.p"),
        ("net[0].mask = x", None),
        ("optimizer.param_groups[0]['params'][0].grad[0] = 1", None),
        ("options['weight_decay'] = 1", None),
        ("optimizer.last = 1", None),
        ("x.p = 0.5", None),
    ],
)
def test_settings(changed: str, setting: str | None) -> None:
    script = Facts(SCRIPT.format(changed=changed.replace("\n", "\n    "))).script
    settings = Settings(script.metrics.ranks.chains, script.roles)
    nodes = (n for parsed in script.program.files for n in parsed.nodes)
    stores = [n for n in nodes if isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.ctx, ast.Store)]
    found = [ast.unparse(each) for each in map(settings.find, stores) if each is not None]
    assert found == ([] if setting is None else [setting])
