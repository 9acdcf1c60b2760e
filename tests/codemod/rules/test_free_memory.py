"""Models of the round before, forgotten where each round of a loop trains new ones."""

from __future__ import annotations

import pytest

from accelify.codemod.rules import free_memory
from tests.codemod.pairs import run

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4))
"""
TRAINING = """\
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
LOADER = "loader = DataLoader(data, batch_size=8)\n"
MODEL = "model = nn.Linear(4, 4)\n"
BUILT = "from somewhere import build\nmodel = build()\nmodel.train()\n"
HEADS = "optimizer = torch.optim.SGD(filter(None, model.fc.parameters()), lr=0.1)\n"
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"


@pytest.mark.parametrize(
    ("before", "inside", "is_freed"),
    [
        ("", LOADER + MODEL + OPTIMIZER, True),
        (LOADER, MODEL + OPTIMIZER, True),
        (LOADER + MODEL, OPTIMIZER, False),
        (LOADER + MODEL + OPTIMIZER, "", False),
        (MODEL + "print(model)\n", LOADER + MODEL + OPTIMIZER, True),
        (MODEL, LOADER + MODEL + "model = model.float()\n" + OPTIMIZER, True),
        ("", LOADER + BUILT + HEADS, True),
        (BUILT, LOADER + HEADS, False),
        (MODEL, LOADER + "if fold:\n    " + MODEL + OPTIMIZER, False),
    ],
)
def test_what_each_round_makes_anew_is_forgotten(before: str, inside: str, is_freed: bool) -> None:
    lines = "".join(f"    {line}\n" for line in inside.splitlines())
    after = run(f"{HEAD}{before}for fold in range(3):\n{lines}{TRAINING}").after.decode()
    assert ("for fold in range(3):\n    accelerator.free_memory()\n" in after) is is_freed


@pytest.mark.parametrize(
    ("loop", "freed"),
    [
        ("for seed in range(3):\n    train(seed)", "for seed in range(3):\n    accelerator.free_memory()\n"),
        (
            "for width in (4, 8):\n    for seed in range(3):\n        train(seed)",
            "    for seed in range(3):\n        accelerator.free_memory()\n",
        ),
        ("while wanted:\n    train(wanted.pop())", "while wanted:\n    accelerator.free_memory()\n"),
        ("train(0)", ""),
    ],
)
def test_a_function_may_be_what_trains_them(loop: str, freed: str) -> None:
    made = "".join(f"    {line}\n" for line in (LOADER + MODEL + OPTIMIZER).splitlines())
    after = run(f"{HEAD}wanted = [1, 2]\ndef train(seed):\n{made}{TRAINING}{loop}\n").after.decode()
    assert freed in after
    assert after.count("free_memory") == bool(freed)


def test_models_that_are_trained_after_the_loop_stay() -> None:
    many = "models, optimizers = [], []\nfor k in range(3):\n    model = nn.Linear(4, 4)\n    models.append(model)\n"
    many += "    optimizers.append(torch.optim.SGD(model.parameters(), lr=0.1))\n"
    later = f"for model, optimizer in zip(models, optimizers):\n{TRAINING}"
    assert free_memory.NAME.encode() not in run(HEAD + LOADER + many + later).after


@pytest.mark.parametrize(
    ("sweep", "is_freed"),
    [
        ("import optuna\nstudy = optuna.create_study()\nstudy.optimize(train, n_trials=9)", True),
        ("import optuna\nstudy = optuna.create_study()\nstudy.optimize(lambda trial: train(trial), n_trials=9)", True),
        ("import wandb\nwandb.agent('id', function=train)", True),
        ("import threading\nthreading.Thread(target=train).start()", False),
    ],
)
def test_a_function_that_a_sweep_calls_forgets_what_it_trained_before(sweep: str, is_freed: bool) -> None:
    made = "".join(f"    {line}\n" for line in (MODEL + OPTIMIZER).splitlines())
    function = f"def train(trial=None):\n{{loader}}{made}{TRAINING}    return loss.item()\n{sweep}\n"
    after = run(HEAD + LOADER + function.format(loader="")).after.decode()
    assert ("def train(trial=None):\n    accelerator.free_memory()\n" in after) is is_freed
    # An accelerator that the function makes itself begins with nothing.
    assert b"free_memory" not in run(HEAD + function.format(loader=f"    {LOADER}")).after
