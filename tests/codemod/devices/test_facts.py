"""Facts about devices, as rules are told of them."""

from __future__ import annotations

from accelify.codemod.devices.facts import Devices
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, training


def devices(**slots: str) -> tuple[Devices, Facts]:
    facts = training(**slots)
    found = facts.script.devices
    assert isinstance(found, Devices)
    return found, facts


def test_a_script_that_names_no_device() -> None:
    found, _ = devices()
    assert (found.moves, found.needless, found.named, found.cpu) == ((), frozenset(), (), None)


def test_options_that_no_longer_choose() -> None:
    found, facts = devices(before="device = args.gpu\nother = 3\n")
    (said,) = found.ignored_options("accelify launch", [facts.statement("device = args.gpu")])
    assert said.startswith("args.gpu no longer chooses the device")
    assert not list(found.ignored_options("accelify launch", [facts.statement("other = 3")]))


def test_tensors_of_a_script_that_names_no_device() -> None:
    found, _ = devices(step="x = torch.zeros(2, 4)\n" + STEP)
    assert texts(n for b in found.brought.bringing for n in b.nodes) == ["torch.zeros(2, 4)"]
    assert found.homemade is None
