"""Facts about sums that a gradient goes through, which `reduce` would cut off."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.sums.differentiated import Differentiated
from accelify.codemod.metrics.updates import addition
from tests.codemod.training_scripts import STEP, training

IMPORTS = """\
def pull(value):
    value.backward()
def slopes(value, weights):
    return torch.autograd.grad(value, weights)
def half(value):
    return value / 2
"""
GRADIENTS = "grads = torch.autograd.grad(total / n, list(model.parameters()))\nprint(grads[0].norm())"


def is_kept(added: str, then: str) -> bool:
    facts = training(
        imports=IMPORTS,
        end=f"total, n = 0.0, 0\nfor x, y in loader:\n    {added}\n    n += len(x)\n{then}\n",
    )
    chains = facts.script.metrics.measured.chains
    stored = (n for n in ast.walk(facts[added]) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    found = addition(chains, next(n for n in stored if n.id == "total"))
    return found is not None and Differentiated(chains).holds([found])


LOSS = "nn.functional.mse_loss(model(x), y)"


@pytest.mark.parametrize("added", [f"total += {LOSS} * len(x)", f"total = total + {LOSS}", f"total += half({LOSS})"])
@pytest.mark.parametrize(
    "then",
    [
        GRADIENTS,
        "total /= n\ntotal.backward()",
        "mean = total / n\nmean.backward()",
        "pull(total / n)",
        "print(slopes(half(total), list(model.parameters())))",
        "print(torch.autograd.grad(inputs=list(model.parameters()), outputs=[total]))",
        "torch.autograd.backward(total)",
    ],
)
def test_a_sum_with_a_graph_that_gradients_are_taken_of(added: str, then: str) -> None:
    assert is_kept(added, then)


@pytest.mark.parametrize(
    ("added", "then"),
    [
        (f"total += {LOSS}.item() * len(x)", "(model.weight.sum() * total / n).backward()"),
        (f"total += {LOSS}.detach()", "(model.weight.sum() * total / n).backward()"),
        (f"total += {LOSS}", "print(total / n)"),
        (f"total += {LOSS}", "print(total.item() / n)\n(model.weight.sum() * total.item()).backward()"),
    ],
)
def test_a_sum_without_a_graph_or_of_which_no_gradients_are_taken(added: str, then: str) -> None:
    assert not is_kept(added, then)


PASS = f"total, n = 0.0, 0\nfor x, y in loader:\n    total += {LOSS} * len(x)\n    n += len(x)\n"


@pytest.mark.parametrize("evaluates", ["", "model.eval()\n"])
@pytest.mark.parametrize("then", [GRADIENTS, "print(slopes(total / n, list(model.parameters())))"])
def test_the_sum_is_not_reduced_and_its_loop_not_sharded(evaluates: str, then: str) -> None:
    metrics = training(imports=IMPORTS, end=f"{evaluates}{PASS}{then}").script.metrics
    assert not metrics.reductions
    assert not metrics.sharded


def test_a_sum_that_is_shown_is_reduced() -> None:
    metrics = training(imports=IMPORTS, end=f"model.eval()\n{PASS}print(total / n)", step=STEP).script.metrics
    assert [each.sums for each in metrics.sharded] == [("total", "n")]
