"""Backward passes for the gradients of a batch, beside the training whose steps clear those of the weights."""

from __future__ import annotations

import ast
from textwrap import dedent, indent

import pytest

from accelify.codemod.training.gradients.input_gradients import InputGradients
from accelify.codemod.training.loops.training import Training
from tests.codemod.facts import Facts

HEAD = """\
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,))), batch_size=2)
model = nn.Linear(4, 2)
other = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
second = torch.optim.SGD(other.parameters(), lr=0.1)
"""
ATTACK = """\
delta = torch.zeros_like(x, requires_grad=True)
for _ in range(3):
    cross_entropy(model(x + delta), y).backward()
    delta.data += 0.1 * delta.grad.sign()
    delta.grad.zero_()
"""
LEARN = """\
cross_entropy(model(x), y).backward()
optimizer.step()
"""
CLEAR = "optimizer.zero_grad()\n"


def training(text: str) -> Training:
    return Facts(HEAD + text).training


def inputs(text: str) -> list[str]:
    """The tensors whose gradients alone are read, of all passes."""
    found = training(text)
    assert InputGradients.__doc__
    return [ast.unparse(tensor) for tensors in found.for_inputs.values() for tensor in tensors]


def batches(*parts: str) -> str:
    return "for x, y in loader:\n" + indent("".join(map(dedent, parts)), "    ")


@pytest.mark.parametrize(
    "clear",
    [
        CLEAR,
        "model.zero_grad()\n",
        "optimizer.zero_grad(set_to_none=True)\n",
        "for p in model.parameters():\n    p.grad = None\n",
        "for p in model.parameters():\n    if p.grad is not None:\n        p.grad.zero_()\n",
        "if len(x) > 1:\n    model.zero_grad()\nelse:\n    optimizer.zero_grad()\n",
    ],
)
def test_gradients_of_weights_that_are_cleared_before_the_step(clear: str) -> None:
    text = batches(ATTACK, clear, LEARN)
    assert inputs(text) == ["delta"]
    (backward,) = training(text).backwards
    assert backward.lineno == len((HEAD + text).splitlines()) - 1


@pytest.mark.parametrize(
    "attack",
    [
        "x.requires_grad = True\nloss = cross_entropy(model(x), y)\nloss.backward()\nx = x.detach() + x.grad\n",
        *(
            f"{made}\nfor _ in y:\n    model(x).sum().backward()\n    if cond:\n        break\n    x.data += x.grad\n"
            for made in (
                "x = x.clone().requires_grad_(True)",
                "x.requires_grad_(True)",
                "x = x.detach().requires_grad_(requires_grad=True)",
            )
        ),
        """\
        while True:
            x = x.detach().requires_grad_()
            out = model(x)
            keep = [i for i in range(len(x)) if out[i].argmax() == y[i]]
            model.zero_grad()
            cross_entropy(out, y).backward()
            if len(keep) == 0:
                break
            x, y = (x + x.grad.sign())[keep], y[keep]
        """,
        """\
        for name in ("a", "b"):
            if name == "a":
                adv = x + torch.randn_like(x)
            if name == "b":
                adv = x.clone()
            adv.requires_grad_()
            cross_entropy(model(adv), y).backward()
            step = adv.grad.sign()
        """,
    ],
)
def test_spellings_of_an_attack(attack: str) -> None:
    assert inputs(batches(attack, CLEAR, LEARN)) in (["x"], ["adv"])


HELPER = """\
def attack(net, x, y):
    x = x.detach().requires_grad_()
    loss = cross_entropy(net(x), y)
    loss.backward()
    return (x + x.grad.sign()).detach()

def clear():
    optimizer.zero_grad()

"""


def test_through_functions() -> None:
    assert inputs(HELPER + batches("x = attack(model, x, y)\n", CLEAR, LEARN)) == ["x"]
    assert inputs(HELPER + batches("x = attack(model, x, y)\nclear()\n", LEARN)) == ["x"]
    assert inputs(HELPER + batches("x = attack(model, x, y)\n", LEARN, CLEAR)) == []


SIGN = "def sign(t):\n    return t.grad.sign()\n"
STEP = "def step(image, eps):\n    return image + eps * sign(image)\n"
CLASS = "class Attack:\n    def gradient(self, x):\n        return x.grad.data\n"


@pytest.mark.parametrize(
    ("functions", "read"),
    [(SIGN + STEP, "step(x, 0.1)"), (SIGN, "x + sign(t=x)"), (CLASS, "x + Attack().gradient(x)")],
)
def test_read_of_a_parameter_in_a_function(functions: str, read: str) -> None:
    attack = f"x.requires_grad = True\ncross_entropy(model(x), y).backward()\nx = {read}.detach()\n"
    assert inputs(functions + batches(attack, CLEAR, LEARN)) == ["x"]
    assert inputs(functions + batches(attack, LEARN, CLEAR)) == []
    of_weights = read.replace("(x", "(model.weight").replace("=x", "=model.weight")
    assert inputs(functions + batches(attack, of_weights + "\n", CLEAR, LEARN)) == []


@pytest.mark.parametrize(
    "text",
    [
        batches(CLEAR, ATTACK, LEARN),  # what the attack adds is stepped along
        batches(ATTACK, LEARN, CLEAR),
        batches(ATTACK, "second.zero_grad()\n", LEARN),
        batches(ATTACK, "other.zero_grad()\n", LEARN),
        batches(ATTACK, "if len(x) > 1:\n    optimizer.zero_grad()\n", LEARN),
        batches(ATTACK, "penalty = sum(p.grad.norm() for p in model.parameters())\n", CLEAR, LEARN),
        batches(ATTACK.replace("delta.data", "optimizer.step()\n    delta.data"), CLEAR, LEARN),
        batches("x.requires_grad_()\ncross_entropy(model(x), y).backward()\noptimizer.step()\nshow(x.grad)\n", CLEAR),
        batches(
            "if cond:\n    x.requires_grad_()\nmodel(x).sum().backward()\nif cond:\n    show(x.grad)\n",
            CLEAR,
        ),
        batches(
            "x = x.clone().requires_grad_(cond)\nmodel(x).sum().backward()\nif cond:\n    show(x.grad)\n",
            CLEAR,
            LEARN,
        ),
    ],
)
def test_left_alone_where_a_step_or_the_script_reads_the_gradients_of_weights(text: str) -> None:
    assert inputs(text) == []


def test_named_by_the_script() -> None:
    named = ATTACK.replace("backward()", "backward(inputs=[delta])")
    assert inputs(batches(named, LEARN, CLEAR)) == ["delta"]
    assert inputs(batches("model(x).sum().backward(inputs=list(model.parameters()))\n", CLEAR, LEARN)) == []


def test_passes_alone_stay_the_training() -> None:
    found = training(batches("x.requires_grad_()\nmodel(x).sum().backward()\nshow(x.grad)\nmodel.zero_grad()\n"))
    assert list(found.for_inputs) == list(found.backwards) != []


CAM = """\
class Cam:
    def __init__(self, net):
        self.net = net
        net.{hook}(self.keep)

    def keep(self, *gradients):
        self.kept = gradients

    def __call__(self, x):
        self.net.zero_grad()
        self.net(x)[0].max().backward()
        return self.kept

"""


@pytest.mark.parametrize("hook", ["register_full_backward_hook", "register_backward_hook", "weight.register_hook"])
def test_gradients_that_hooks_take(hook: str) -> None:
    text = CAM.format(hook=hook) + batches(CLEAR, LEARN) + "show = Cam(model)\nfor x, y in DataLoader(range(5)):\n    "
    found = training(text + "show(x)\n")
    assert list(found.for_inputs.values()) == [()]
    assert len(found.backwards) == len(found.data) == 1


def test_no_hook_takes_what_a_step_takes() -> None:
    shown = CAM.format(hook="register_full_backward_hook") + "show = Cam(model)\n"
    assert not training(shown + batches(LEARN, "show(x)\n")).for_inputs
    assert len(training(shown + batches("show(x)\n", CLEAR, LEARN)).for_inputs) == 1
    assert not training(CAM.format(hook="register_forward_hook") + batches(CLEAR, LEARN) + "Cam(model)(x)\n").for_inputs


@pytest.mark.parametrize(("last", "is_alone"), [("optimizer.zero_grad()", True), ("optimizer.step()", False)])
def test_functions_that_call_each_other(last: str, is_alone: bool) -> None:
    """The ways through them are not gone one by one: there are more than anyone can wait for."""
    names = [f"part_{i}" for i in range(7)]
    calls = "".join(f"    if depth > {i}: {name}(x, y, depth - 1)\n" for i, name in enumerate(names))
    functions = "".join(f"def {name}(x, y, depth):\n{calls}" for name in names[1:])
    first = f"def part_0(x, y, depth):\n{calls}{indent(ATTACK, '    ')}"
    text = f"{first}{functions}for x, y in loader:\n    part_3(x, y, 9)\n    {last}\n{indent(LEARN, '    ')}"
    assert (inputs(text) == ["delta"]) is is_alone
