"""Facts about the kinds of objects that expressions may hold."""

from __future__ import annotations

import pytest

from accelify.codemod.libraries.row import SHOWN
from accelify.codemod.semantics.effects.kinds import OWN, UNKNOWN, Kinds
from accelify.codemod.semantics.effects.library_calls import OF_FILES
from tests.codemod.facts import Facts

BEFORE = """\
import torch
from torch import nn
class Own: pass
class Net(nn.Module): pass
x, rows, names = torch.zeros(3), [1], {}
own, net = Own(), Net()
either = x if flag else rows
"""


def kinds(expression: str) -> frozenset[str]:
    facts = Facts(f"{BEFORE}use({expression})\n")
    return Kinds(facts.program).of(facts.call("use(").args[0])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x", {"tensor"}),
        ("x + 1", {"tensor"}),
        ("x.sum()", {"tensor"}),
        ("rows", {"list"}),
        ("names", {"dict"}),
        ("'a'", {"string"}),
        ("3", {"number"}),
        ("None", {"none"}),
        ("either", {"tensor", "list"}),
        ("open(p)", {"file"}),
    ],
)
def test_what_is_known(expression: str, expected: set[str]) -> None:
    assert kinds(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("abs(x)", {"tensor"}),
        ("sum([x.mean() for _ in names])", {"tensor"}),
        ("sum([x, x])", {"tensor"}),
        ("max(x, 0)", {"tensor", "number"}),
        ("sum(x.item() for _ in names)", {"number"}),
        ("sum([f(n) for n in names])", {UNKNOWN, "number"}),
        ("round(f(x), 2)", {"number"}),
    ],
)
def test_functions_of_numbers_give_what_they_are_given(expression: str, expected: set[str]) -> None:
    assert kinds(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("datetime.now() - start", {"timedelta"}),
        ("start - timedelta(1)", {"datetime", "timedelta"}),
        ("(datetime.now() - start).days", {"number"}),
    ],
)
def test_times_between(expression: str, expected: set[str]) -> None:
    imports = "from datetime import datetime, timedelta\nstart = datetime.now()\n"
    facts = Facts(f"{imports}use({expression})\n")
    assert Kinds(facts.program).of(facts.call("use(").args[0]) == expected


@pytest.mark.parametrize(
    ("returned", "expected"),
    [("1.5, x", {"number"}), ("x.item(), 2", {"number"}), ("x, 1", {"tensor"}), ("*given, 1", {UNKNOWN})],
)
def test_parts_of_what_a_function_returns(returned: str, expected: set[str]) -> None:
    facts = Facts(f"{BEFORE}def step():\n    return {returned}\nfirst, second = step()\nuse(first)\n")
    assert Kinds(facts.program).of(facts.call("use(").args[0]) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [("x.max(0)", {"tensor"}), ("torch.max(x, dim=0)", {"tensor"}), ("(x, rows)", {"tensor"}), ("f(x)", {UNKNOWN})],
)
def test_parts_of_what_a_call_gives(given: str, expected: set[str]) -> None:
    facts = Facts(f"{BEFORE}first, second = {given}\nuse(first)\n")
    assert Kinds(facts.program).of(facts.call("use(").args[0]) == expected


def test_a_container_of_another_file() -> None:
    facts = Facts({"main.py": "from names import table\nuse(table)\n", "names.py": "table = {1: 2}\n"})
    assert Kinds(facts.program).of(facts.call("use(").args[0]) == {"dict"}


@pytest.mark.parametrize(
    ("held", "expected"),
    [("nn.MSELoss()", {"tensor"}), ("nn.Linear(3, 1)", {"tensor"}), ("unknown()", {UNKNOWN})],
)
def test_what_an_object_in_an_attribute_gives_when_it_is_called(held: str, expected: set[str]) -> None:
    facts = Facts(f"{BEFORE}own.part = {held}\nuse(own.part(x))\n")
    assert Kinds(facts.program).of(facts.call("use(").args[0]) == expected


def test_the_project_s_own() -> None:
    assert OWN in kinds("own")
    assert kinds("net") >= {OWN, "module"}


@pytest.mark.parametrize("expression", ["unknown", "unknown()", "rows.pop().x", "own.mystery"])
def test_what_is_not(expression: str) -> None:
    assert UNKNOWN in kinds(expression)


def test_rows_of_calls() -> None:
    facts = Facts(f"{BEFORE}x.add_(1)\nunknown()\ntorch.save(x, p)\n")
    found = Kinds(facts.program)
    (row,) = found.called(facts.call("x.add_(1)")) or ()
    assert "self" in row.mutates
    assert found.called(facts.call("unknown()")) in (None, ())
    assert found.name_of(facts.call("torch.save").func) == {"torch.save"}


@pytest.mark.parametrize(
    ("kept", "is_known"),
    [
        ("log = logging.getLogger().info", True),
        ("log = logging.getLogger().info if flag else logging.getLogger().warning", True),
        ("log = rows.append", False),  # changes what the call does not name
        ("log = torch.optim.SGD(p).step", False),
        ("log = logging.getLogger().info if flag else own.note", False),
    ],
)
def test_rows_of_methods_that_are_kept_under_another_name(kept: str, is_known: bool) -> None:
    facts = Facts(f"import logging\n{BEFORE}{kept}\nown.log = log\nlog('a')\nown.log('b')\n")
    for call in ("log('a')", "own.log('b')"):
        rows = Kinds(facts.program).called(facts.call(call)) or ()
        assert bool(rows) is is_known
        assert all(row.effects & SHOWN for row in rows)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("os.listdir('a')", {"string"}),
        ("sorted(glob.glob('a/*'))", {"string"}),
        ("tqdm.tqdm(os.listdir('a'))", {"string"}),
        ("pathlib.Path('a').iterdir()", {"?"}),  # which gives paths
        ("os.scandir('a')", {"?"}),
    ],
)
def test_names_of_files(listed: str, expected: set[str]) -> None:
    facts = Facts(f"import os, glob, pathlib, tqdm\nfor f in {listed}:\n    f.replace('.jpg', '.txt')\n")
    assert Kinds(facts.program).of(facts.call("f.replace").func.value) == expected


@pytest.mark.parametrize("names", ["['B-x']", "[x, 'B-x']", "[str(x)]"])
@pytest.mark.parametrize("changed", ["names[j].replace('B-', '')", "names[j].strip().replace('B-', '')"])
def test_a_text_that_is_replaced_in_its_list_writes_no_file(names: str, changed: str) -> None:
    facts = Facts(f"x = 'a'\nnames = {names}\nfor j in range(len(names)):\n    names[j] = {changed}\n")
    rows = facts.program.once(Kinds).rows(facts.expression("names[j]#2"), "replace") or ()
    assert all(row.is_pure for row in rows)


@pytest.mark.parametrize("made", ["", "from pathlib import Path\nf(Path('a'), ())\n"])
@pytest.mark.parametrize(
    ("call", "may_be_a_file"),
    [
        ("x.replace('a')", True),
        ("x.replace(target='a')", True),
        ("x.rename(*given)", True),
        ("x.replace('a', 'b')", False),
        ("x.replace('a', 'b', 1)", False),
        ("x.rename(columns={'a': 'b'})", False),
        ("x.rename('a', axis=1)", False),
        ("x.__class__('a', 'b')", False),
        ("x.__subclasshook__('a')", False),
    ],
)
def test_a_method_of_paths_takes_what_paths_take(call: str, may_be_a_file: bool, made: str) -> None:
    facts = Facts(f"def f(x, given):\n    return {call}\n{made}")
    rows = facts.program.once(Kinds).called(facts.call(call)) or ()
    assert any(OF_FILES & row.effects for row in rows) is may_be_a_file
