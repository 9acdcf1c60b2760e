"""Facts about calls that make tensors, and losses and models that take them."""

from __future__ import annotations

import pytest

from accelify.codemod.preparing.tensors import Tensors
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, training


def tensors(call: str, **slots: str) -> tuple[Tensors, Facts]:
    facts = training(step=f"{call}\n{STEP}", **slots)
    return Tensors(facts.program, facts.roles, facts.script.prepared), facts


@pytest.mark.parametrize(
    ("call", "creates"),
    [
        ("torch.zeros(3)", True),
        ("torch.randn(3)", True),
        ("torch.randn(3, requires_grad=True)", True),
        ("torch.from_numpy(a)", True),
        ("torch.zeros(3, out=a)", True),
        ("torch.zeros(*shape)", True),
        ("torch.cat(a)", False),
        ("numpy.zeros(3)", False),
    ],
)
def test_what_makes_tensors(call: str, creates: bool) -> None:
    found, facts = tensors(call)
    node = facts.call(call)
    assert found.is_creator(node) is creates


def test_losses_and_models() -> None:
    found, facts = tensors("nn.functional.relu(x)", before="criterion = nn.MSELoss()\n", end="criterion(model(x), y)\n")
    assert found.is_loss(facts.call("nn.functional.mse_loss"))
    assert found.is_loss(facts.call("criterion(model(x), y)"))
    assert not found.is_loss(facts.call("nn.functional.relu"))
    assert found.is_model_call(facts.call("model(x)"))
    assert not found.is_model_call(facts.call("criterion(model(x), y)"))


@pytest.mark.parametrize(
    ("between", "early"),
    [
        ("pass", True),
        ("model.eval(); show(other.cpu())", True),
        ("parts = nn.ModuleList([model])", True),
        ("parts = nn.ModuleList([model]); parts.cuda()", False),
        ("set_up(model)", False),
        ("set_up([model])", False),
        ("unknown.to('cuda')", False),
        ("torch.set_default_device('cuda')", False),
        ("other = nn.Linear(4, 1, device='cuda')", False),
        ("for part in model.children(): part.to('cuda')", False),
    ],
)
def test_models_that_run_where_they_were_made(between: str, *, early: bool) -> None:
    found, facts = tensors("model(x)", before="from elsewhere import set_up", model=f"{between}\nmodel(probe)")
    assert found.runs_early(facts.call("model(probe)")) is early
    assert found.is_model_call(facts.call("model(x)"))
    assert not found.runs_early(facts.call("model(x)"))
    assert not found.runs_early(facts.call("torch.optim.SGD"))


def test_tensors_in_models() -> None:
    net = """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("a", torch.zeros(1))
                self.b = nn.Parameter(torch.zeros(2))
                self.c = torch.zeros(3)
            def forward(self, x):
                return x + torch.zeros(4)
        def helper():
            return torch.zeros(5)
    """
    found, facts = tensors("pass", before=net)
    assert found.is_in_model(facts.scope("Net.forward"))
    assert not found.is_in_model(facts.scope("helper"))
    assert [found.is_kept(facts.call(f"torch.zeros({n})")) for n in (1, 2, 3)] == [True, True, False]
    assert found.sets_up(facts.scope("Net.__init__"))
    assert not found.sets_up(facts.scope("Net.forward"))
