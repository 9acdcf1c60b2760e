"""Optimizers over what each batch makes for itself: they stay as they are within a training, or nothing is migrated."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.codemod.pairs import left_alone, migrated

HEAD = """\
import copy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 4)), batch_size=2)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
OUTER = """\
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x + delta.detach()), y)
    loss.backward()
    optimizer.step()
"""
ATTACK = """\
delta = torch.zeros_like(x, requires_grad=True)
inner = torch.optim.SGD([delta], lr=0.1)
for _ in range(3):
    inner.zero_grad()
    (-nn.functional.mse_loss(model(x + delta), y)).backward()
    inner.step()
"""
PREPARED = "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)\n"


def outcome(text: str) -> str:
    """What comes out, where the weights alone are prepared and have the only pass through the accelerator."""
    after = migrated(text)
    assert PREPARED in after
    assert "accelerator.backward(loss)" in after
    assert (after.count("accelerator.prepare("), after.count("accelerator.backward(")) == (1, 1)
    return after


def test_a_perturbation_of_the_batch_keeps_its_optimizer() -> None:
    assert "(-nn.functional.mse_loss(model(x + delta), y)).backward()" in outcome(
        f"{HEAD}for x, y in loader:\n{indent(ATTACK, '    ')}{OUTER}"
    )


@pytest.mark.parametrize(
    "made",
    [
        "delta = x.clone().requires_grad_(True)",
        "delta = torch.rand_like(x)\n    delta.requires_grad_()",
        "delta = torch.autograd.Variable((0.001 * torch.randn_like(x)).data, requires_grad=True)",
    ],
)
def test_within_a_function(made: str) -> None:
    attack = indent(ATTACK.split("\n", 1)[1], "    ")
    text = f"{HEAD}def perturbed(model, x, y):\n    {made}\n{attack}    return delta\n"
    outcome(f"{text}for x, y in loader:\n    delta = perturbed(model, x, y)\n{OUTER}")


def test_within_a_method() -> None:
    attack = indent(ATTACK.replace("model(", "self.model("), "        ")
    text = f"class Attack:\n    def __init__(self, model): self.model = model\n    def run(self, x, y):\n{attack}"
    text = f"{HEAD}{text}        return delta\nattack = Attack(model)\n"
    outcome(f"{text}for x, y in loader:\n    delta = attack.run(x, y)\n{OUTER}")


def test_a_network_that_each_batch_makes() -> None:
    inner = ATTACK.replace("delta = torch.zeros_like(x, requires_grad=True)", "probe = copy.deepcopy(model)")
    inner = inner.replace("[delta]", "probe.parameters()").replace("model(x + delta)", "probe(x)")
    outcome(f"{HEAD}for x, y in loader:\n{indent(inner, '    ')}    delta = probe(x)\n{OUTER}")


def test_a_perturbation_of_all_batches_is_prepared() -> None:
    delta, inner, *loop = ATTACK.splitlines(keepends=True)
    delta = delta.replace("zeros_like(x, ", "zeros(4, ")
    text = migrated(f"{HEAD}{delta}{inner}for x, y in loader:\n{indent(''.join(loop), '    ')}{OUTER}")
    assert "accelerator.prepare(loader, model, optimizer, inner)" in text


def test_an_optimizer_made_for_each_epoch_is_prepared() -> None:
    text = """\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        model = nn.Linear(4, 4)
        def train():
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for (x,) in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        for epoch in range(2):
            train()
        """
    assert "optimizer = accelerator.prepare(optimizer)" in migrated(text)


def test_where_nothing_else_is_trained_there_is_nothing_to_share() -> None:
    head = HEAD.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "")
    left_alone(f"{head}for x, y in loader:\n{indent(ATTACK, '    ')}    print(delta)\n", "created anew for each batch")


def test_gradients_for_another_model_that_are_set_by_hand() -> None:
    by_hand = "    for p in model.parameters():\n        p.grad = delta.mean()\n    optimizer.step()\n"
    left_alone(f"{HEAD}for x, y in loader:\n{indent(ATTACK, '    ')}{by_hand}", "created anew for each batch")


def test_one_backward_pass_for_both() -> None:
    both = ATTACK.replace("inner.step()", "inner.step()\n    optimizer.step()")
    left_alone(
        f"{HEAD}for x, y in loader:\n{indent(both, '    ')}", "and parameters that are created anew for each batch"
    )


ADAPT = """\
def adapt(model, x, y):
    head = nn.Linear(4, 4)
    inner = torch.optim.SGD(head.parameters(), lr=0.1)
    for i in range(0, len(x), 4):
        inner.zero_grad()
        nn.functional.mse_loss(head(model(x[i:i + 4]).detach()), y[i:i + 4]).backward()
        inner.step()
    return head
"""
TRAINING = f"for x, y in loader:\n{OUTER.replace(' + delta.detach()', '')}"


@pytest.mark.parametrize(
    "calls",
    [
        "",
        "for _ in range(9):\n    rows = torch.randperm(8)[:4]\n    adapt(model, inputs[rows], targets[rows])\n",
        "def score(tasks):\n    x, y = random.choice(tasks)\n    return adapt(model, x, y)(x)\n"
        "print([score(tasks) for _ in range(9)])\n",
    ],
)
def test_what_a_call_trains_for_the_data_that_it_is_given(calls: str) -> None:
    text = f"import random\n{HEAD}{ADAPT}{TRAINING}{calls}"
    after = outcome(text)
    assert "y[i:i + 4]).backward()" in after
    assert "shard" not in after
    assert "seed_by_rank" not in after


def test_where_a_call_is_a_stage_of_the_training() -> None:
    text = f"{HEAD}{ADAPT}{TRAINING}adapt(model, inputs, targets)\n"
    assert "    head, inner = accelerator.prepare(head, inner)\n" in migrated(text)


def test_where_only_calls_on_data_drawn_for_them_train() -> None:
    drawn = ADAPT.replace("i in range(0, len(x), 4):", "_ in range(9):\n        i = random.randrange(len(x))")
    head = HEAD.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "")
    calls = "for _ in range(9):\n    rows = torch.randperm(8)[:4]\n    adapt(model, inputs[rows], targets[rows])\n"
    left_alone(f"import random\n{head}{drawn}{calls}", "created anew for each batch or call")
