"""Facts about the values that a loop puts into a list."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.rows.elements import Elements
from accelify.codemod.training.harmless import Harmless
from tests.codemod.metrics.loops import in_loop


@pytest.mark.parametrize(
    ("value", "number", "plain"),
    [
        ("3", True, True),
        ("loss.item()", True, True),
        ("float(x)", True, True),
        ("named", True, True),
        ("loss.item() * 2", True, True),
        ("config['weight'] * loss.item()", True, True),
        ("loss.item() / args.accumulate", True, True),
        ("args.loss.weight * args.scale * loss.item()", True, True),
        ("(loss.item() - settings['loss']['mean']) / spread", True, True),
        ("spread * loss.item()", True, True),
        ("tensor * loss.item()", False, False),
        ("tensor[0] * loss.item()", False, False),
        ("x.weight * loss.item()", False, True),
        ("state['last'] * loss.item()", False, False),
        ("config[key] * loss.item()", False, False),
        ("config['weight'] * config['scale']", False, False),
        ("*x.tolist()", True, True),
        ("x", False, True),
        ("model(x)", False, True),
        ("x.cpu().numpy()", False, True),
        ("(x, y)", False, True),
        ("open(p)", False, False),
        ("unknown", False, False),
    ],
)
def test_numbers_and_what_processes_can_hand_each_other(value: str, number: bool, plain: bool) -> None:
    before = "config, spread, tensor = {'weight': 0.5}, 2.0, torch.ones(2)\nsettings = json.load(open('s.json'))"
    facts, loop = in_loop(f"named = loss.item()\nstate['last'] = loss\nuse({value})", before=before)
    found = Elements(facts.program, facts.tracer, Harmless(facts.program, facts.roles), loop)
    node = facts.call("use(").args[0]
    assert (found.is_number(node), found.is_plain(node)) == (number, plain)


@pytest.mark.parametrize(("value", "is_of_rows"), [("net(x).argmax(1)", True), ("measure(net(x), y)", False)])
def test_rows_of_a_model_that_a_function_is_given(value: str, is_of_rows: bool) -> None:
    end = f"def run(net, measure):\n    for x, y in loader:\n        use({value})\nrun(model, torch.nn.MSELoss())\n"
    facts, _ = in_loop("pass", end)
    node = facts.call("use(").args[0]
    loop = facts.program.loops_round(node)[0]
    assert isinstance(loop, ast.For)
    found = Elements(facts.program, facts.tracer, Harmless(facts.program, facts.roles), loop)
    assert found.has_rows(node) is is_of_rows
