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
        (
            "net = nn.Linear(3, 1)\ndef dream(device):\n    image = torch.zeros(3, device=device, requires_grad=True)\n"
            "    net(image).max().backward()\n    return image.grad\nprint(dream('cpu'))\n",
            True,
        ),
        (TENSOR + "point.sum().backward()\n", False),
        (TENSOR + "for k in range(3):\n    point.sum().backward()\n    print(point.grad)\n", False),
    ],
)
def test_gradients_that_are_only_looked_at_need_no_accelerator(before: str, stays: bool) -> None:
    result = run(script(before=before))
    assert (result.after.decode().count("accelerator.backward(") == 1) is stays
    said = "stays: no step of an optimizer takes the gradients of this pass"
    assert [n.message for n in result.kept if n.rule == "backward"] == [said] * stays


OWN = """
class Flow(nn.Module):
    def backward(self, z):
        return z * 2, z.sum()

def forget(loss):
    loss.backward()

class Probe:
    def run(self, loss):
        loss.backward()
"""


def test_a_pass_that_stays_has_its_reason() -> None:
    """`forget` and `Probe` train something of their own, for all that is known: they are migrated."""
    result = run(script(before=OWN, end="z, total = Flow().backward(torch.ones(3))\nprint(z, total)"))
    lines = result.after.decode().splitlines()
    said = {lines[n.line - 1]: n.message for n in result.kept if n.rule == "backward"}
    assert said == {"z, total = Flow().backward(torch.ones(3))": "stays: this is no tensor's `backward`"}


ATTACK = """
x.requires_grad_()
nn.functional.mse_loss(model(x), y).backward({given})
if x.grad.abs().max() > 1:
    x = x.detach() + 0.1 * x.grad.sign()
"""


@pytest.mark.parametrize(
    ("given", "comes"),
    [("", "inputs=[x]"), ("retain_graph=True", "retain_graph=True, inputs=[x]"), *[("inputs=x",) * 2]],
)
def test_gradients_of_a_batch_are_each_process_s_own(given: str, comes: str) -> None:
    after = run(script(batch=ATTACK.format(given=given))).after.decode()
    assert f".backward({comes})\n        if x.grad.abs().max() > 1:\n" in after
    assert after.count("accelerator.backward(") == 1


def test_an_attack_whose_gradients_are_stepped_along_is_averaged() -> None:
    after = run(
        script(batch=ATTACK.format(given=""), backward="loss.backward()").replace("optimizer.zero_grad()", "pass")
    )
    assert after.after.decode().count("accelerator.backward(") == 2
