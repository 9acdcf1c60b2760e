"""Facts about what a script does in one process, and what only in one of several."""

from __future__ import annotations

import pytest

from accelify.codemod.semantics.single_process import UNKNOWN, Alone
from tests.codemod.facts import Facts

BEFORE = """\
import torch.distributed as dist
rank = dist.get_rank()
many = dist.get_world_size() > 1
def is_main():
    if not dist.is_initialized():
        return True
    return dist.get_rank() == 0
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("rank", 0),
        ("many", False),
        ("rank == 0", True),
        ("not many", True),
        ("many and other", False),
        ("rank == 0 or other", True),
        ("is_main()", True),
        ("dist.is_initialized()", False),
        ("other", UNKNOWN),
        ("other()", UNKNOWN),
        ("rank == other", UNKNOWN),
        ("rank < 'a'", UNKNOWN),
    ],
)
def test_values_in_one_process(expression: str, value: object) -> None:
    facts = Facts(f"{BEFORE}use({expression})\n")
    found = Alone(facts.program, facts.tracer).value(facts.call("use(").args[0])
    assert found is value or found == value


@pytest.mark.parametrize(
    ("text", "skips"),
    [
        ("if many:\n    here()", True),
        ("if not many:\n    here()", False),
        ("if many:\n    pass\nelse:\n    here()", False),
        ("if rank != 0:\n    here()", True),
        ("if flag:\n    here()", False),
        ("if False:\n    here()", False),  # a mere switch, which may be turned on
        ("def f():\n    here()\nif many:\n    f()", True),
        ("def f():\n    here()\nif many:\n    f()\nf()", False),
        ("def f():\n    if not many:\n        return\n    here()\nf()", True),
        ("here()", False),
    ],
)
def test_what_is_not_reached(text: str, skips: bool) -> None:
    facts = Facts(f"{BEFORE}{text}\n")
    assert Alone(facts.program, facts.tracer).skips(facts["here()"]) is skips
