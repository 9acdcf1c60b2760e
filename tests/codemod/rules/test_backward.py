"""Which backward passes go through the accelerator."""

from __future__ import annotations

import pytest

from tests.codemod.pairs import run
from tests.codemod.training_scripts import script

TENSOR = "point = torch.ones(3, requires_grad=True)\n"


@pytest.mark.parametrize(
    ("before", "stays"),
    [
        (TENSOR + "y = point.sum()\ny.backward()\nprint(point.grad)\n", True),
        (TENSOR + "(point ** 2).mean().backward(retain_graph=True)\ngradient = point.grad\nprint(gradient)\n", True),
        ("point = torch.rand(3)\nx.requires_grad_()\nx.sum().backward()\nprint(point.grad)\n", True),
        ("net = nn.Linear(4, 1)\nnet(torch.ones(2, 4)).sum().backward()\nprint(net.weight.grad)\n", False),
        (
            TENSOR + "net = nn.Linear(3, 1)\nnet(point).sum().backward()\nprint(point.grad)\n"
            "for p in net.parameters():\n    p.data -= 0.1 * p.grad\n",
            False,
        ),
        (TENSOR + "point.sum().backward()\n", False),
        (TENSOR + "for k in range(3):\n    point.sum().backward()\n    print(point.grad)\n", False),
    ],
)
def test_gradients_that_are_only_looked_at_need_no_accelerator(before: str, stays: bool) -> None:
    after = run(script(before=before)).after.decode()
    assert (after.count("accelerator.backward(") == 1) is stays
