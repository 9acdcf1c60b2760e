"""Facts about devices, as rules are told of them."""

from __future__ import annotations

import pytest

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
    assert said.startswith("args.gpu no longer selects the device")
    assert not list(found.ignored_options("accelify launch", [facts.statement("other = 3")]))


@pytest.mark.parametrize("option", ["hp.device", "conf['train']['device']", "settings.device", "self.options.gpu"])
def test_a_device_from_a_configuration_no_longer_chooses(option: str) -> None:
    found, facts = devices(before=f"device = torch.device({option})\n", model="model.to(device)\n")
    (said,) = found.ignored_options("accelify launch", [facts.statement("device = torch")])
    assert said.startswith(f"{option} no longer selects the device")


@pytest.mark.parametrize(
    ("before", "is_open"),
    [
        ("exec(open('settings.py').read())\n", True),
        ("for key in range(3):\n    globals()[key] = 1\n", True),
        ("globals().update(torch.load('settings.pt'))\n", True),
        ("print(globals()['device'], eval('1'))\n", False),
        ("def f():\n    exec('x = 1')\n", False),
    ],
)
def test_a_setting_that_code_of_the_user_s_may_change_no_longer_chooses(before: str, is_open: bool) -> None:
    found, facts = devices(before=f"device = 'cuda'\n{before}", model="model.to(device)\n")
    said = list(found.ignored_options("accelify launch", facts.call("model.to(device)").args))
    assert [s.startswith("device no longer selects") for s in said] == [True] * is_open


def test_tensors_of_a_script_that_names_no_device() -> None:
    found, _ = devices(step="x = torch.zeros(2, 4)\n" + STEP)
    assert texts(n for b in found.brought.bringing for n in b.nodes) == ["torch.zeros(2, 4)"]
    assert found.homemade is None
