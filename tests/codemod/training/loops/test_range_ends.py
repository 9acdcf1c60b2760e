"""Which loops over a range leave out its last numbers by a condition: source text in, fact out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.chains import Chains
from accelify.codemod.training.loops.range_ends import range_end
from tests.codemod.facts import Facts
from tests.codemod.pairs import run

LOOP = """\
import torch
from torch import nn
n, size = 50, 16
args = parse()
x = torch.randn(n, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for {head}:
    {guard}
    optimizer.zero_grad()
    loss = model(x[i : i + 16]).mean()
    loss.backward()
    optimizer.step()
    {rest}
{after}
"""
RANGE = "i in range(0, n, 16)"


def ends(head: str, guard: str, rest: str = "pass", after: str = "pass") -> str | None:
    facts = Facts(LOOP.format(head=head, guard=guard, rest=rest, after=after))
    loop = facts["for"]
    assert isinstance(loop, ast.For)
    chains = facts.program.once(Chains)
    end = range_end(chains, loop, chains.tracer.inside(loop.iter))
    return end.template.format(stop=ast.unparse(end.stop)) if end is not None else None


@pytest.mark.parametrize(
    ("head", "guard", "end"),
    [
        (RANGE, "if i + 16 > n: break", "n - 15"),
        (RANGE, "if i + 16 > n: continue", "n - 15"),
        (RANGE, "if i + 16 >= n: continue", "n - 16"),
        (RANGE, "if n < i + 16: break", "n - 15"),
        (RANGE, "if not i + 16 <= n: break", "n - 15"),
        (RANGE, "if i > n - 16: break", "n - 15"),
        (RANGE, "end = i + 16\n    if end > n: break", "n - 15"),
        ("i in range(0, n, size)", "if i + size > n: break", "n - size + 1"),
        ("i in range(0, n, args.size)", "if i + args.size + 1 > n: break", "n - args.size"),
        ("i in range(0, n - 1, size)", "if i + size >= n: break", "n - 1 - size + 1"),
        ("i in range(0, len(x), size)", "if i + size >= len(x): break", "len(x) - size"),
        ("k, i in enumerate(range(0, n, 16))", "if i + 16 > n: break", "n - 15"),
        ("i in range(n)", "if i + 8 >= n: break", "n - 8"),
    ],
)
def test_a_range_that_ends_before_what_a_condition_leaves_out(head: str, guard: str, end: str) -> None:
    assert ends(head, guard) == end


@pytest.mark.parametrize(
    ("head", "guard", "rest", "after"),
    [
        (RANGE, "if i + 16 > n: break", "pass", "print(i)"),  # another number is left behind
        (RANGE, "end = i + 16\n    if end > n: break", "pass", "print(end)"),
        (RANGE, "if i + 16 > n: break", "n -= 1", "pass"),  # the range's end was asked for once
        ("i in range(0, len(x), 16)", "if i + 16 > len(x): break", "x = x[1:]", "pass"),
        ("i in range(0, args.n, 16)", "if i + 16 > args.n: break", "args.n = 3", "pass"),
        (RANGE, "if i + 16 > size: break", "pass", "pass"),  # nothing says that it is less than the end
        (RANGE, "if i + size > n: break", "pass", "pass"),
        (RANGE, "if i + 16 < n: continue", "pass", "pass"),  # it leaves out the first ones
        (RANGE, "if i % 32 == 0: continue", "pass", "pass"),
        (RANGE, "if i - 16 > n: break", "pass", "pass"),  # it never holds
        (RANGE, "if i + 16 > n: raise ValueError", "pass", "pass"),
        (RANGE, "if i + 16 > n: break\n    else: print(i)", "pass", "pass"),
        (RANGE, "print(i)\n    if i + 16 > n: break", "pass", "pass"),  # it does something before
        (RANGE, "i = i + 1\n    if i + 16 > n: break", "pass", "pass"),
        ("i in range(n, 0, -1)", "if i + 1 > n: break", "pass", "pass"),
        ("i in reversed(range(0, n, 16))", "if i + 16 > n: continue", "pass", "pass"),
        (RANGE, "if i + 16 > n: break", "pass", "else: print(n)"),
    ],
)
def test_a_condition_that_stays(head: str, guard: str, rest: str, after: str) -> None:
    assert ends(head, guard, rest, after) is None


@pytest.mark.parametrize(
    ("head", "shard"),
    [
        (RANGE, "in accelerator.shard(range(0, n - 15, 16)):\n    optimizer.zero_grad()"),
        ("k, i in enumerate(range(0, n, 16))", "in enumerate(accelerator.shard(range(0, n - 15, 16))):\n    optimizer"),
    ],
)
def test_the_shorter_range_is_sharded(head: str, shard: str) -> None:
    result = run(LOOP.format(head=head, guard="if i + 16 > n: break", rest="pass", after="pass"))
    assert shard in result.after.decode()
    assert not any(n.rule in ("decisions", "data") for n in result.notes)
