"""Facts about options of the script that keep it on the CPU."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.devices.moves import options_in
from accelify.codemod.devices.options import Cpu
from tests.codemod.training_scripts import training


@pytest.mark.parametrize(
    ("choice", "setting"),
    [
        ("'cuda' if not args.no_cuda and torch.cuda.is_available() else 'cpu'", "args.no_cuda"),
        ("'cuda' if args.gpu and torch.cuda.is_available() else 'cpu'", "not args.gpu"),
        ("'cuda' if torch.cuda.is_available() else 'cpu'", None),
        ("'cuda'", None),
    ],
)
def test_what_keeps_it_on_the_cpu(choice: str, setting: str | None) -> None:
    before = f"args = argparse.ArgumentParser().parse_args()\ndevice = torch.device({choice})\n"
    facts = training(imports="import argparse\n", before=before, model="model.to(device)\n")
    script = facts.script
    found = Cpu(script.program, script.roles, script.tracer, script.reach).find({"main.py"})
    assert (found and found.text) == setting


def test_options_that_are_read() -> None:
    node = ast.parse("f(args.a, opt.b.c, x.y, self.args.d)")
    assert {"args.a"} <= options_in(node)
    assert "x.y" not in options_in(node)
