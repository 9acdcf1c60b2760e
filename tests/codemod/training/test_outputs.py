"""Facts about library calls: which write, which only draw to a figure, and which do nothing."""

from __future__ import annotations

import pytest

from accelify.codemod.training.outputs import Effect, Outputs
from tests.codemod.facts import Facts

BEFORE = """\
import os, csv, json, pickle
import numpy as np
import torch
import matplotlib.pyplot as plt
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter("runs")
file = open("a.txt", "w")
def own(x): return x
"""


def effect(call: str) -> Effect | None:
    facts = Facts(f"{BEFORE}{call}\n")
    return Outputs(facts.program, facts.roles).effect(facts.call(call))


@pytest.mark.parametrize(
    "call",
    [
        "torch.save(x, p)",
        "np.save(p, x)",
        "json.dump(x, file)",
        "plt.savefig(p)",
        "writer.add_scalar('a', 1)",
        "file.write('x')",
        "os.remove(p)",
        "pickle.dump(x, file)",
        "open(p, 'w')",
        "SummaryWriter('x')",
        "print(x, file=file)",
    ],
)
def test_what_writes(call: str) -> None:
    assert effect(call) is Effect.WRITES


@pytest.mark.parametrize("call", ["plt.plot(x)", "plt.figure()", "plt.title('x')"])
def test_what_draws(call: str) -> None:
    assert effect(call) is Effect.DRAWS


@pytest.mark.parametrize("call", ["len(x)", "os.path.join(a, b)", "np.mean(x)", "torch.cat(x)", "x.item()", "open(p)"])
def test_what_does_nothing(call: str) -> None:
    assert effect(call) is Effect.NOTHING


@pytest.mark.parametrize(
    "call", ["unknown(x)", "own(x)", "x.mystery()", "torch.randn(3)", "torch.load(p)", "torch.manual_seed(1)"]
)
def test_what_is_not_known_or_for_all(call: str) -> None:
    assert effect(call) is None
