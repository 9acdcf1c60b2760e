"""Facts about calls that only give a value, or show one."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.harmless import Harmless
from tests.codemod.facts import Facts

BEFORE = """\
import math, os, random, time
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm
rows, x, file = load(), torch.zeros(3), open(p, "w")
bar = tqdm(rows)
class Net(nn.Module):
    def forward(self, x): return x * 2
class Noisy(nn.Module):
    def forward(self, x): return x + torch.randn(3)
class Counting(nn.Module):
    def forward(self, x):
        self.count += 1
        return x
net, noisy, counting = Net(), Noisy(), Counting()
def pure(x):
    rows = []
    rows.append(x)
    return rows
def writes(x):
    x.y = 1
def calls_unknown(x):
    return unknown(x)
def shown(x):
    print(x)
"""


def harmless(call: str) -> tuple[Harmless, Facts]:
    facts = Facts(f"{BEFORE}{call}\n")
    return Harmless(facts.program, facts.roles), facts


@pytest.mark.parametrize(
    "call",
    [
        "len(a)",
        "torch.argmax(x)",
        "F.softmax(x)",
        "np.mean(x)",
        "math.sqrt(2)",
        "x.item()",
        "x.sum()",
        "net(x)",
        "pure(3)",
        "time.time()",
        "torch.zeros(3)",
        "F.cross_entropy(x, y)",
    ],
)
def test_what_only_gives_a_value(call: str) -> None:
    asked, facts = harmless(call)
    assert asked.is_call(facts.call(call))


@pytest.mark.parametrize(
    "call",
    [
        "unknown(x)",
        "torch.save(x, p)",
        "torch.randn(3)",
        "np.random.rand()",
        "random.random()",
        "noisy(x)",
        "counting(x)",
        "writes(x)",
        "calls_unknown(x)",
        "torch.manual_seed(0)",
        "os.remove(p)",
        "x.mystery()",
        "time.sleep(1)",
        "x.add_(1)",
    ],
)
def test_what_may_do_more(call: str) -> None:
    asked, facts = harmless(call)
    assert not asked.is_call(facts.call(call))


@pytest.mark.parametrize(
    ("call", "shows"),
    [
        ("print(x)", True),
        ("bar.set_description('x')", True),
        ("shown(x)", True),
        ("print(x, file=file)", False),
        ("x.set_description('x')", False),
        ("pure(x)", False),
        ("unknown(x)", False),
    ],
)
def test_what_only_shows(call: str, shows: bool) -> None:
    asked, facts = harmless(call)
    assert asked.shows(facts.call(call)) is shows


def test_forward_passes() -> None:
    asked, facts = harmless("net(x)\nnet.forward(y)\nlen(z)")
    assert asked.is_of_module(facts.call("net(x)"))
    assert asked.is_of_module(facts.call("net.forward(y)"))
    assert not asked.is_of_module(facts.call("len(z)"))


LEAVING = """\
class Stats(nn.Module):
    def forward(self, x):
        self.centre = x.mean(0)
        return x.sum()
class Other:
    centre = 0
stats, other = Stats(), Other()
for x in rows:
    stats(x)
    {inside}
{after}
"""


@pytest.mark.parametrize(
    ("inside", "after", "is_harmless"),
    [
        ("pass", "pass", True),
        ("print(stats.centre)", "pass", True),
        ("pass", "print(other.centre)", True),
        ("pass", "print(stats.centre)", False),
        ("pass", "for x in rows: print(x - stats.centre)", False),
        ("pass", "def centred(model, x): return x - model.centre\nprint(centred(stats, x))", False),
    ],
)
def test_what_a_model_keeps_for_code_after_the_loop(inside: str, after: str, is_harmless: bool) -> None:
    found, facts = harmless(LEAVING.format(inside=inside, after=after))
    (call,) = [c for c in facts.program.calls if ast.unparse(c) == "stats(x)"]
    assert found.is_call(call) is is_harmless
