"""Facts about parts of losses that follow a count of steps."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.steps.annealing import Annealing
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script, training

ADDED = """\
step, weight, shown, pool = 0, 1.0, 0.0, []
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        step += 1
        out = model(x)
        loss = weight * (out - y).pow(2).mean()
        {inside}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("inside", "found"),
    [
        ("if step > 500: loss += out.abs().mean()", ["step > 500"]),
        ("if i >= args.late and args.both: loss = loss + out.abs().mean()", ["i >= args.late and args.both"]),
        ("loss = loss + out.mean() if step < 500 else loss", ["step < 500"]),
        ("if step > 500: weight = 0.5", ["step > 500"]),
        ("if step % 3 > 1: loss += out.abs().mean()", []),
        ("if epoch > 1: loss += out.abs().mean()", []),
        ("if i > 0: loss += out.abs().mean()", []),
        ("if i < len(loader) - 1: loss += out.abs().mean()", []),
        ("if step > 500: shown = out.mean().item()", []),
        ("if step < 500: pool.append(out)\n        loss += pool[0].mean()", []),
    ],
)
def test_parts_of_a_loss_that_begin_or_end_at_a_count_of_steps(inside: str, found: list[str]) -> None:
    facts = Facts(script().partition("for epoch")[0] + ADDED.format(inside=inside))
    assert texts(Annealing(facts.script.step_counts).in_losses()) == found


WHOLE = """\
import argparse, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rows = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
def weigh(net, args):
    return net(torch.ones(1, 4)).mean() * {read}
def train(args):
    loader = DataLoader(rows, batch_size=4)
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    step = 0
    for epoch in range(3):
        for x, y in loader:
            if step % len(loader) == 0:
                {given}
            step += 1
            loss = nn.functional.mse_loss(net(x), y) * weights
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {put}
args = argparse.ArgumentParser().parse_args()
args.log, args.n, args.seen = open("log.txt", "w"), 1, []
train(args)
args.log = open("other.txt", "w")
train(args)
"""


@pytest.mark.parametrize(
    ("read", "given", "put", "found"),
    [
        ("args.weight", "weights = weigh(net, args).detach()", "args.log.write(str(step))", []),
        ("args.weight", "weights = weigh(args=args, net=net).detach()", "args.n = step", []),
        ("args.weight", "weights = weigh(net, args).detach()", "args.seen.append(step)", []),
        ("args.weight / args.n", "weights = weigh(net, args).detach()", "args.n = step", ["weights"]),
        ("args.weight", "weights = weigh(net, args).detach() / args.n", "args.n = step", ["weights"]),
    ],
)
def test_an_object_that_a_function_gets_whole_is_no_count(read: str, given: str, put: str, found: list[str]) -> None:
    facts = Facts(WHOLE.format(read=read, given=given, put=put))
    assert texts(Annealing(facts.script.step_counts).in_losses()) == found


PLACES = """\
for i in range(0, len(x), 6):
    {rows}
    loss = model(rows).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_place_in_the_data_is_no_count_of_steps() -> None:
    rows = "if i + 6 > len(x): rows = x[i:]\n    else: rows = x[i : i + 6]"
    facts = Facts(script(set_up="x = torch.rand(20, 4)").partition("for epoch")[0] + PLACES.format(rows=rows))
    assert texts(Annealing(facts.script.step_counts).in_losses()) == []


ANNEALED = """\
import math, random
k = 100
others = iter(DataLoader(rows, batch_size=2))
class State:
    def __init__(self):
        self.step, self.total = 0, 0
state = State()
def weight(step):
    return min(1.0, step / k)
def lost(out, y, w):
    return (out - y).pow(2).mean() * w
"""


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        ("(model(x) - y).pow(2).mean() + weight(n) * x.mean()", ["weight(n)"]),
        ("lost(model(x), y, min(1.0, n / k))", ["min(1.0, n / k)"]),
        ("lost(model(x), y, w=1 - state.step / k)", ["1 - state.step / k"]),
        ("(model(x if random.random() < math.exp(-n / k) else y)).mean()", ["random.random() < math.exp(-n / k)"]),
        ("model(x, n).mean()", ["n"]),
        ("(model(x) - y).pow(2).mean() * ((n + epoch * len(loader)) / 10 / len(loader))", []),
        ("(model(x) - y).pow(2).mean() / len(loader)", []),
        ("(model(x) - y).pow(2).mean() * weight(epoch)", []),
        ("lost(model(x), y, 0.5)", []),
        ("model(x[n % 4 :]).mean()", []),
        ("model(next(others)).mean()", []),
        ("(model(x) - total / n).mean()", []),
        ("(model(x) - state.total / (n + 1)).mean()", []),
        ("(model(x) - total * (n / k)).mean()", ["n / k"]),
    ],
)
def test_what_of_a_loss_follows_a_count_of_steps(loss: str, found: list[str]) -> None:
    facts = training(
        before=ANNEALED,
        epoch="n = 0" if "epoch *" in loss else "",
        set_up="n, total = 0, 0.0",
        step=STEP.replace("nn.functional.mse_loss(model(x), y)", loss)
        + "n += 1; state.step += 1; total += loss.item(); state.total += x.mean().item()\n",
    )
    everything = texts(Annealing(facts.script.step_counts).in_losses())
    assert [text for text in everything if text in found] == found
    assert bool(everything) is bool(found)
