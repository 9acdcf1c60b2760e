"""Facts about Accelerate's names; tests/runtime/test_accelerate_names.py holds them to both libraries."""

from __future__ import annotations

from accelify.codemod.libraries.accelerate import PLACES, Status, counterpart, counterparts
from accelify.codemod.options import ACCELERATE, ACCELIFY


def test_a_name_is_found_by_its_other_ways() -> None:
    for name, ours in {
        "accelerate.Accelerator": "accelify.runtime.Accelerator",
        "accelerate.accelerator.Accelerator": "accelify.runtime.Accelerator",
        "accelerate.utils.operations.gather": "accelify.runtime.utils.gather",
        "accelerate.state.DistributedType": "accelify.runtime.utils.DistributedType",
        "accelerate.is_rich_available": "accelify.runtime.utils.is_rich_available",
        "accelerate.Accelerator.prepare": "accelify.runtime.Accelerator.prepare",
    }.items():
        found = counterpart(name)
        assert found is not None, name
        assert found.becomes == ours
    assert counterpart("accelerate.Accelerator.load") is None  # no method, though a function is called so
    assert counterpart("accelerate.nothing") is None
    assert counterpart("torch.load") is None


def test_rows_say_why() -> None:
    assert [row.name for row in counterparts() if (row.status is Status.SAME) is bool(row.how)] == []


def test_modules_are_those_of_the_runtimes() -> None:
    for theirs, ours in ((ACCELERATE.module, ACCELIFY.module), (ACCELERATE.functions, f"{ACCELIFY.functions}.utils")):
        assert f"{ACCELIFY.module}.{PLACES[theirs]}".rstrip(".") == ours
