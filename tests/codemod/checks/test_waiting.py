"""Which calls wait for all processes: source text in, answers out."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.processes import Processes
from accelify.codemod.checks.waiting import Waiting
from tests.codemod.checks.checking import DDP
from tests.codemod.facts import Facts

TEXT = (
    DDP
    + """\
def mean(x):
    dist.all_reduce(x)
def outer(x):
    mean(x)
def may(x):
    if x > 3:
        dist.all_reduce(x)
dist.barrier()
outer(1)
may(2)
print(3)
"""
)


@pytest.mark.parametrize(
    ("call", "may", "name"),
    [
        ("dist.barrier()", True, "barrier"),
        ("outer(1)", True, "all_reduce"),
        ("may(2)", True, None),
        ("print(3)", False, None),
    ],
)
def test_a_call(call: str, may: bool, name: str | None) -> None:
    facts = Facts(TEXT)
    waiting, node = Waiting(Processes(facts.program)), facts.call(call)
    assert waiting.may_wait(node) is may
    found = waiting.of(node)
    assert (found[0] if found is not None else None) == name
