"""Facts about tensors that meet, what is certainly one tensor, and networks that run unprepared."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.devices.conflicts import Cold, Meetings, Shapes
from accelify.codemod.devices.lattice import BATCH, NONE, Lattice, is_open
from accelify.codemod.devices.own_tensors import Homemade
from accelify.codemod.preparing.tensors import Tensors
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, training


def asked(expression: str, **slots: str) -> tuple[Lattice, ast.expr, Facts]:
    facts = training(step=f"use({expression})\n{STEP}", **slots)
    script = facts.script
    tensors = Tensors(script.program, script.roles, script.prepared)
    found = Lattice(script.program, script.roles, script.tracer, tensors)
    return found, facts.call("use(").args[0], facts


def test_single_tensors() -> None:
    found, _, facts = asked("torch.zeros(3), [torch.zeros(1)], 'a', unknown, torch.cat(things)")
    shapes = Shapes(found)
    assert [shapes.is_tensor(a) for a in facts.call("use(").args] == [True, False, False, False, True]


@pytest.mark.parametrize(
    ("batch", "is_one"),
    [
        ("lengths, order = torch.sort(z)", True),
        ("lengths, order = z.sort(0, descending=True)", True),
        ("lengths = z[z.argsort(dim=0)]", True),
        ("lengths, order = ordered(z)", True),
        ("lengths, width = z.view(4, -1).size()", False),
        ("lengths, order = sorted(z), 0", False),
        ("lengths, order = unknown(z)", False),
        ("lengths, order = z.sort(key=len)", False),
        ("lengths = z().detach()", True),
        ("lengths = z().round()", False),
    ],
)
def test_parts_of_what_a_call_gives(batch: str, is_one: bool) -> None:
    ordered = "def ordered(rows):\n    order = torch.argsort(rows)\n    return rows[order], order\n"
    found, node, _ = asked("lengths", before=f"{ordered}z = unknown()\n", batch=batch)
    assert Shapes(found).is_tensor(node) is is_one


@pytest.mark.parametrize(
    ("batch", "is_one"),
    [
        ("print(things[0].size(1))", True),
        ("for each in things:\n    total = each.view(4)", True),
        ("total = [each.float() for each in things]", True),
        ("total = torch.stack(things)", True),
        ("print(things[0])\ntotal = sum(things)", False),
    ],
)
def test_items_of_which_another_is_a_tensor(batch: str, is_one: bool) -> None:
    found, node, _ = asked("things[i]", before="things, i = unknown()\n", batch=batch)
    assert Shapes(found).is_tensor(node) is is_one


@pytest.mark.parametrize(
    ("item", "is_one"),
    [("things['x']", True), ("things['length']", False), ("things[key]", True), ("things[0]", False)],
)
def test_items_beside_one_that_is_a_tensor(item: str, is_one: bool) -> None:
    batch = "print(things['x'].view(4))"
    found, node, _ = asked(item, before="things, key = unknown()\n", batch=batch)
    assert Shapes(found).is_tensor(node) is is_one


def test_containers_as_arguments() -> None:
    assert is_open(Facts("f(*a)").call("f(*a)"))
    assert is_open(Facts("f(**a)").call("f(**a)"))
    assert not is_open(Facts("f(a, b=c)").call("f(a"))


def test_networks_that_run_unprepared() -> None:
    found, node, facts = asked("frozen(x)", before="frozen = nn.Linear(4, 4)\n")
    assert isinstance(node, ast.Call)
    cold = Cold(found.tensors, facts.tracer)
    assert [ast.unparse(c) for c in cold.made_at(node) or ()] == ["nn.Linear(4, 4)"]
    assert not cold.made_at(facts.call("model(x)"))


NETWORKS = """
class Maker(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def draw(self):
        return self.layer(torch.randn(2, 4))
    def __next__(self):
        return self.draw()
class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.maker = Maker()
    def forward(self, x):
        return self.maker.draw()
"""


@pytest.mark.parametrize(
    ("before", "batch", "made"),
    [
        ("maker = Maker()\n", "x = maker.draw()", {"Maker()"}),
        ("maker = Maker()\n", "x = next(maker)", {"Maker()"}),
        ("maker = Maker().eval()\n", "x = maker.draw()", {"Maker()"}),
        ("holder = Holder()\n", "x = holder.maker.draw()", {"Holder()"}),
        ("holder = Holder()\n", "x = holder(None)", {"Holder()"}),
        ("model = Holder()\n", "x = model(None)", set()),
        ("model = Holder()\n", "x = model.maker.draw()", set()),
    ],
)
def test_networks_that_make_their_own_input(before: str, batch: str, made: set[str]) -> None:
    found, _, facts = asked("x", before=NETWORKS, model=before, batch=batch)
    cold = Cold(found.tensors, facts.tracer)
    assert {ast.unparse(c) for c in cold.made_at(facts.call("self.layer(")) or ()} == made


def test_what_is_amiss() -> None:
    meetings = Meetings(asked("x")[0])
    meetings.find(())
    assert meetings.is_there(BATCH)
    assert meetings.is_all_there(BATCH)
    assert not meetings.is_all_there(NONE)


@pytest.mark.parametrize(("batch", "is_own"), [("x = torch.zeros(2, 4)\n", True), ("", False)])
def test_what_a_model_is_given_of_the_scripts_own(batch: str, is_own: bool) -> None:
    script = asked("x", batch=batch)[2].script
    assert (Homemade(script.devices.lattice, script.training.backwards).find() is not None) is is_own
