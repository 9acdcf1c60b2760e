"""Which processes come to a place."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.processes import MAIN, OTHER, Processes
from tests.codemod.checks.checking import ACCELERATE, DDP
from tests.codemod.facts import Facts


def asked(text: str) -> tuple[Processes, Facts]:
    facts = Facts(text)
    return Processes(facts.program), facts


@pytest.mark.parametrize(
    ("test", "main", "other"),
    [
        ("rank == 0", True, False),
        ("args.local_rank in [-1, 0]", True, False),
        ("is_main_process()", True, False),
        ("utils.is_main_process()", True, False),
        ("self.is_master", True, False),
        ("args.distributed", True, True),
        ("not args.distributed or args.rank == 0", True, False),
        ("dist.get_world_size() > 1", True, True),
        ("verbose", None, None),
    ],
)
def test_what_a_condition_says(test: str, main: bool | None, other: bool | None) -> None:
    processes, facts = asked(f"{DDP}def f(self, args, verbose):\n    if {test}:\n        here()\n")
    node = facts.expression(test)
    assert [processes.conditions.truth(node, world) for world in (MAIN, OTHER)] == [main, other]


def test_a_place_that_every_process_comes_to() -> None:
    processes, facts = asked(DDP + "def f():\n    a()\nf()\nif writer:\n    b()\ndef g():\n    c()\n")
    assert processes.is_everywhere(facts.call("a()"))
    assert not processes.is_everywhere(facts.call("b()"))
    assert not processes.is_everywhere(facts.call("c()"))


def test_whether_a_script_has_processes() -> None:
    assert asked(DDP)[0].is_distributed
    assert asked(ACCELERATE)[0].is_distributed
    assert not asked("import torch.distributed as dist\ndef f():\n    dist.init_process_group()\n")[0].is_distributed
    assert not asked("import torch\n")[0].is_distributed


def test_what_is_the_accelerator() -> None:
    processes, facts = asked(
        ACCELERATE + "a = accelerator\na.x\ndef f(accelerator):\n    accelerator.y\nimport accelerate\naccelerate.z\n"
    )
    for text in ("a.x", "accelerator.y"):
        assert processes.is_accelerator(facts.expression(text).value)  # type: ignore[attr-defined]  # an attribute
    assert not processes.is_accelerator(facts.expression("accelerate.z").value)  # type: ignore[attr-defined]  # an attribute
