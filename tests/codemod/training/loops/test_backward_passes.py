"""What is called backward and is none, and backward passes whose gradients are only read."""

from __future__ import annotations

import pytest

from accelify.codemod.training.loops.backward_passes import takes_one_step
from tests.codemod.facts import Facts, texts
from tests.codemod.training.loops.described import kinds
from tests.codemod.training_scripts import training


@pytest.mark.parametrize(
    "call",
    ["z, log_det = flow.backward(x)", "y = flow.backward(x)", "super().backward()", "accelerator.backward(loss)"],
)
def test_what_is_called_backward_and_is_none(call: str) -> None:
    assert Facts(f"class A(B):\n    def f(self):\n        {call}\n").training.backwards == ()


def test_a_backward_of_the_project_s_own_is_none() -> None:
    facts = Facts("class A:\n    def backward(self): pass\na = A()\na.backward()\n")
    assert facts.training.backwards == ()


def test_a_backward_that_nothing_runs() -> None:
    files = {"main.py": "import other\nother.f()\n", "other.py": "def f(): pass\ndef g(): loss().backward()\n"}
    assert Facts(files).training.backwards == ()


KERNEL = """\
rows = torch.rand(40, 4)
for i in range(9):
    chosen = torch.randperm(40)[:5]
    out = model(rows[chosen])
    for j in range(5):
        model.zero_grad()
        out[j].backward(retain_graph=True)
        {read}
    def closure():
        optimizer.zero_grad()
        loss = model({learned}).mean()
        loss.backward()
        return loss
    optimizer.step(closure)
"""


@pytest.mark.parametrize(
    ("read", "learned", "kind"),
    [
        ("row[j] = torch.cat([p.grad.view(-1) for p in model.parameters()])", "rows", "full"),
        ("size += model.weight.grad.norm()", "rows", "full"),
        ("row[j] = model.weight.grad", "rows[chosen]", "random"),
        ("row[j] = model.weight.grad", "rows[torch.randperm(40)]", "random"),
        ("optimizer.step()", "rows", "random"),
        ("row[j] = model.weight.grad\n        optimizer.step()", "rows", "random"),
    ],
)
def test_gradients_that_are_read_and_no_step_takes(read: str, learned: str, kind: str) -> None:
    facts = Facts(
        "import torch\nmodel = torch.nn.Linear(4, 1)\noptimizer = torch.optim.LBFGS(model.parameters())\n"
        + KERNEL.format(read=read, learned=learned)
    )
    assert kinds(facts)[0] == kind


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("x.requires_grad_()\n    model.zero_grad()\n    model(x).sum().backward()\n    show(x.grad)", ["loader"]),
        ("x.requires_grad_()\n    model(x).sum().backward()\n    show(x.grad)", ["loader"]),
        ("model(x).sum().backward()\n    norms.append(x.norm())", ["loader", "other"]),
    ],
)
def test_a_loader_whose_gradients_are_shown(shown: str, expected: list[str]) -> None:
    found = training(set_up="other = DataLoader(others)", end=f"for x, _ in other:\n    {shown}").training
    assert [s for d in found.data for s in texts(d.sources)] == expected


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("def update(loss, opt):\n    loss.backward()\n    opt.step()", True),
        ("def update(loss, opt):\n    for _ in range(3):\n        loss.backward()\n        opt.step()", False),
        ("def update(loss, opt):\n    loss.backward()\n    opt.step()\nupdate(f(), SGD())", False),
    ],
)
def test_a_function_that_takes_one_step_for_a_caller(text: str, is_one: bool) -> None:
    facts = Facts(text)
    steps = [facts.call("opt.step()")]
    assert takes_one_step(facts.program, facts.scope("update"), steps) is is_one
