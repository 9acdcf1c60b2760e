"""Facts about calls that make weights."""

from __future__ import annotations

import pytest

from accelify.codemod.training.weights import draws_weights, late_parameters
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import script

LATE = """\
class Cell:
    def __init__(self, net):
        self.net = net
    def give(self):
        p = nn.Parameter(torch.rand(4))
        self.net.register_parameter('w', p)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 4)
        self.w = None
    def weights(self):
        {weights}
    def unused(self):
        self.late = nn.Linear(4, 4)
    def forward(self, x):
        {forward}
        return self.out(x)
"""


@pytest.mark.parametrize(
    ("weights", "forward", "found"),
    [
        ("pass", "if self.w is None: self.w = nn.Parameter(torch.rand(4))", ["nn.Parameter(torch.rand(4))"]),
        ("p = nn.Parameter(torch.rand(4)); self.w = p", "self.weights()", ["nn.Parameter(torch.rand(4))"]),
        (
            "p = nn.Parameter(torch.rand(4)); self.register_parameter('w', p)",
            "self.weights()",
            ["nn.Parameter(torch.rand(4))"],
        ),
        ("pass", "if self.w is None: self.w = nn.Linear(4, 4)", ["nn.Linear(4, 4)"]),
        ("self.w = nn.Parameter(torch.rand(4))", "pass", []),
        ("pass", "p = nn.Parameter(torch.rand(4)); x = x * p", []),
        ("pass", "c = Cell(self); c.w = nn.Parameter(torch.rand(4))", []),
        ("pass", "self.w = torch.rand(4)", []),
        ("self.cell = Cell(self)", "self.weights(); self.cell.give()", ["nn.Parameter(torch.rand(4))"]),
    ],
)
def test_what_a_forward_pass_makes(weights: str, forward: str, found: list[str]) -> None:
    text = script(before=LATE.format(weights=weights, forward=forward)).replace("nn.Linear(4, 1)", "Net()")
    assert texts(late_parameters(Facts(text).program)) == found


NOISY = """\
class Noisy(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.register_buffer('noise', torch.zeros(4))
    def draw(self):
        self.noise.normal_(); self.noise.data.uniform_()
    def begin(self):
        self.weight.data.normal_()
    def forward(self, x):
        self.drawn.normal_()
        return super().forward(x * self.noise)
class Deep(Noisy):
    pass
net = nn.Sequential(Deep(4, 4))
"""


@pytest.mark.parametrize(
    ("statement", "draws"), [("net[0].draw()", False), ("net(x)", False), ("Noisy(4, 4).begin()", True)]
)
def test_noise_is_no_weight(statement: str, draws: bool) -> None:
    facts = Facts(script(before=f"from torch import nn\n{NOISY}", end=f"z = {statement}"))
    assert draws_weights(facts.program, facts.statement(f"z = {statement}")) is draws
