"""Facts about calls that make weights."""

from __future__ import annotations

import pytest

from accelify.codemod.training.weights import late_parameters
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
