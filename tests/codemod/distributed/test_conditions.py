"""Facts about conditions: what they say where a launcher has started several processes, and in one."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.distributed.conditions import RANKS, SIZE, Conditions
from tests.codemod.distributed.scripts import distributed, launching

TEXT = """\
import argparse
args = argparse.ArgumentParser().parse_args()
rank = int(os.environ["RANK"])
size = dist.get_world_size()
if args.distributed:
    dist.init_process_group("nccl", rank=rank, world_size=size)
def is_main():
    if not dist.is_initialized():
        return True
    return dist.get_rank() == 0
def is_distributed():
    if not dist.is_available():
        return False
    return dist.get_world_size() > 1
def wait():
    if not is_distributed():
        return
    dist.barrier()
def odd(x):
    x += 1
    return x
"""


def asked(condition: str) -> tuple[Conditions, ast.expr]:
    facts = distributed(f"{TEXT}use({condition})\n")
    return launching(facts), facts.call(f"use({condition})").args[0]


@pytest.mark.parametrize(
    ("condition", "several", "one", "off"),
    [
        ("args.distributed", True, False, False),
        ("not args.distributed", False, True, True),
        ("dist.is_initialized()", True, False, False),
        ("is_distributed()", True, False, False),
        ("size > 1", True, False, False),
        ("size == 1", False, True, True),
        ("rank == 0", None, True, None),
        ("rank >= 0", True, False, False),
        ("args.distributed and other", None, False, False),
        ("args.distributed or other", True, None, None),
        ("'RANK' in os.environ", True, False, False),
        ("'RANK' not in os.environ", False, True, True),
        ("'HOME' in os.environ", None, None, None),
        ("True", True, True, True),
        ("args.verbose", None, None, None),
        ("torch.cuda.is_available()", None, None, None),
        ("other > 1", None, None, None),
        ("1 < size < 8", None, None, None),
        ("odd(1)", None, None, None),
    ],
)
def test_what_conditions_say(condition: str, several: bool | None, one: bool | None, off: bool | None) -> None:
    conditions, node = asked(condition)
    assert (conditions.truth(node), conditions.alone(node), conditions.off(node)) == (several, one, off)


def test_what_comparisons_of_a_rank_say_for_each() -> None:
    conditions, node = asked("rank == 0")
    assert conditions.outcomes(node) == [True, False, False]
    for other in ("rank", "rank == other", "name == 0", "rank < 1 < 2"):
        conditions, node = asked(other)
        assert conditions.outcomes(node) == [], other


def test_a_function_that_returns_at_once_in_one_process() -> None:
    facts = distributed(f"{TEXT}wait()\nodd(2)\n")
    conditions = launching(facts)
    assert conditions.does_nothing_alone(facts.call("wait()"))
    assert not conditions.does_nothing_alone(facts.call("odd(2)"))


def test_names_have_the_key_of_their_variable() -> None:
    facts = distributed(
        "x = 1\ndef f(x):\n    g(x)\nclass A:\n    def h(self): g(self.y)\n    def k(self): g(self.y)\n"
    )
    conditions = launching(facts)
    assert conditions.key(facts.expression("x")) == (facts.scope("main.py"), "x")
    assert conditions.key(facts.call("g(x)").args[0]) == (facts.scope("f"), "x")
    assert conditions.key(facts.expression("self.y#1")) == conditions.key(facts.expression("self.y#2"))
    assert conditions.key(facts.expression("1")) is None


def test_the_words_for_ranks_and_sizes() -> None:
    assert "get_rank" in RANKS
    assert SIZE not in RANKS
