"""Whatever a script's option for the device looks like: the CPU stays the CPU where the user asks for it."""

from __future__ import annotations

import re

import pytest

from tests.codemod.device_options import BY_CONDITION, BY_DEVICE, DECLARED, script
from tests.codemod.pairs import migrated

CONDITIONS = [(name, use) for name, d in DECLARED.items() if d.by_condition for use in BY_CONDITION]
DEVICES = [(name, use) for name in DECLARED for use in BY_DEVICE]


def setting(text: str) -> str:
    """The condition that keeps the accelerator on the CPU, but for scripts that have no other accelerator."""
    made = re.findall(r"Accelerator\(cpu=(.*)\)\n", migrated(text))
    return str(made[0]).removesuffix(" or not torch.cuda.is_available()") if len(made) == 1 else ""


@pytest.mark.parametrize("in_main", [False, True])
@pytest.mark.parametrize(("name", "use"), CONDITIONS)
def test_a_condition_for_a_gpu(name: str, use: str, in_main: bool) -> None:
    declared = DECLARED[name]
    assert setting(script(declared, BY_CONDITION[use], in_main=in_main)) == declared.by_condition


@pytest.mark.parametrize("in_main", [False, True])
@pytest.mark.parametrize(("name", "use"), DEVICES)
def test_a_device_that_is_named(name: str, use: str, in_main: bool) -> None:
    declared = DECLARED[name]
    found = setting(script(declared, BY_DEVICE[use], in_main=in_main))
    assert found == (declared.by_device or declared.by_condition)
