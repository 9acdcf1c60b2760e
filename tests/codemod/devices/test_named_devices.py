"""Facts about options of the script that name the device of a call."""

from __future__ import annotations

import pytest

from accelify.codemod.devices.options import NamedDevices
from tests.codemod.facts import texts
from tests.codemod.training_scripts import training

IMPORTS = "import argparse\n"
BEFORE = "args = argparse.ArgumentParser().parse_args()\n"


@pytest.mark.parametrize(
    ("before", "end", "named"),
    [
        ("", "z = torch.zeros(3).to(args.device)\n", ["args.device"]),
        ("", "z = torch.zeros(3, device=args.device)\n", ["args.device"]),
        ("args.device = 'cuda'\n", "z = torch.zeros(3, device=args.device)\n", []),
        ("", "z = torch.zeros(3, device='cuda')\n", []),
        ("", "z = other(args.path)\n", []),
    ],
)
def test_options_that_name_a_device(before: str, end: str, named: list[str]) -> None:
    facts = training(imports=IMPORTS, before=BEFORE + before, end=end)
    moves = [m for m in facts.script.devices.moves if not facts.script.devices.is_needless(m)]
    found = NamedDevices(facts.program, facts.tracer, {"main.py"}, moves).find()
    assert sorted(texts(found)) == named
