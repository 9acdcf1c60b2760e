"""Definitions over a whole program, with what its calls change: source text in, fact out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files.project import Project
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.program import Program
from tests.codemod.semantics.programs import last, program


def chains_of(text: str) -> tuple[Chains, ast.Module]:
    project = Project({"train.py": text.encode()})
    named = [project.load("train.py")]
    return Chains(Program(project.program(named, True), project, named)), named[0].tree


def changed(text: str) -> list[str]:
    """What the last statement, a call, changes in place."""
    chains, tree = chains_of(text)
    last = tree.body[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    return sorted(map(ast.unparse, chains.changed_by(last.value)))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rows = []\nrows.append(1)", ["rows"]),
        ("import torch\nt = torch.zeros(2)\nt.add_(1)", ["t"]),
        ("def fill(rows): rows.append(1)\nkept = []\nfill(kept)", ["kept"]),
        ("rows = []\nprint(rows)", []),
        ("def read(rows): return rows[0]\nkept = [1]\nread(kept)", []),
        ("import torch\nt = torch.zeros(2)\nt.data.clamp_(0, 1)", ["t"]),
        ("import torch\nt = torch.zeros(2)\nt.data.mul_(2).add_(1)", ["t"]),
        ("rows = load()\nrows.data.append(1)", ["rows.data"]),
        ("rows = load()\nrows.refresh()", ["rows"]),
        ("rows = load()\nrows.save_pretrained('p')", []),
        ("from cats import Pipe\nrows = Pipe()\nrows.save_pretrained('p')", []),
        ("def fill(rows, rate=1): rows.append(rate); rate += 1\nkept, rate = [], 0.1\nfill(kept, rate)", ["kept"]),
    ],
)
def test_what_a_call_changes(text: str, names: list[str]) -> None:
    assert changed(text) == names


def test_a_change_in_place_is_a_definition() -> None:
    chains, tree = chains_of("rows = []\nrows.append(1)\nprint(rows)")
    read = tree.body[-1].value.args[0]  # type: ignore[attr-defined]  # a call
    assert {ast.unparse(d.node) for d in chains.definitions(read)} == {"rows", "rows.append(1)"}


@pytest.mark.parametrize(
    ("place", "operator"),
    [("d.setdefault(k, {})['a']", "="), ("d.setdefault(k, {})['a']['b']", "+="), ("d.setdefault(k, []).rows[0]", "=")],
)
def test_a_change_of_what_a_method_gives_is_one_of_its_object(place: str, operator: str) -> None:
    chains, tree = chains_of(f"d = {{}}\n{place} {operator} 1\nprint(d)")
    read = tree.body[-1].value.args[0]  # type: ignore[attr-defined]  # a call
    assert place in {ast.unparse(d.node) for d in chains.definitions(read)}


def test_a_change_of_what_a_function_makes_is_none_of_its_argument() -> None:
    chains, tree = chains_of("d = {}\ncopy.deepcopy(d)['a'] = 1\ndict(d)['a'] = 1\nprint(d)")
    read = tree.body[-1].value.args[0]  # type: ignore[attr-defined]  # a call
    assert {ast.unparse(d.node) for d in chains.definitions(read)} == {"d"}


@pytest.mark.parametrize(("read", "count"), [("x.mean(1)", 0), ("x.centre(1)", 1), ("x.mean", 1)])
def test_a_tensor_s_method_is_no_attribute_of_an_object(read: str, count: int) -> None:
    name = read.removeprefix("x.").removesuffix("(1)")
    chains, tree = chains_of(f"class A:\n    def f(self, x): self.{name} = 1\ndef g(x): return {read}\nA().f(2)\ng(y)")
    returned = tree.body[1].body[0].value  # type: ignore[attr-defined]  # of a function
    assert len(chains.definitions(returned.func if isinstance(returned, ast.Call) else returned)) == count


@pytest.mark.parametrize(
    ("made", "put", "is_changed"),
    [
        ("x = len(rows)", "kept['held'].append(x)", False),
        ("x = round(total / 3, 2)", "kept.append(x)", False),
        ("x = list(rows)", "kept['held'].append(x)", True),
    ],
)
def test_a_number_is_not_changed_with_what_holds_it(made: str, put: str, is_changed: bool) -> None:
    chains, tree = chains_of(f"kept = load()\n{made}\nbest = x\n{put}\nkept['held'].append(1)\nprint(best)")
    read = tree.body[-1].value.args[0]  # type: ignore[attr-defined]  # a call
    assert ("kept['held'].append(1)" in {ast.unparse(d.node) for d in chains.definitions(read)}) is is_changed


def test_the_parameters_that_a_function_fills() -> None:
    chains, tree = chains_of("def fill(rows, x): rows.append(x)\nfill([], 1)")
    function = chains.program.flow.bindings["train.py"].made_by[tree.body[0]]
    assert chains.filled_parameters(function) == ["rows"]


@pytest.mark.parametrize(
    ("made", "put", "is_held"),
    [
        ("rows = []", "rows.append(kept)", True),
        ("import logging\nrows = logging.getLogger()", "rows.info(kept)", False),
        (
            "from torch.utils.tensorboard import SummaryWriter\nrows = SummaryWriter()",
            "rows.add_scalar('n', kept)",
            False,
        ),
        ("rows = open('rows.txt', 'w')", "rows.write(kept)", False),
    ],
)
def test_what_is_written_down_is_not_held(made: str, put: str, is_held: bool) -> None:
    """A change of the list is one of what holds it."""
    chains, tree = chains_of(f"{made}\nkept = []\n{put}\nkept.append(1)\nprint(rows)")
    read = next(n for n in ast.walk(tree.body[-1]) if isinstance(n, ast.Name) and n.id == "rows")
    assert ("kept.append(1)" in {ast.unparse(d.node) for d in chains.definitions(read)}) is is_held


@pytest.mark.parametrize(
    ("made", "is_held"),
    [
        ("def put(rows, seen): rows.append(1); seen.append(2)", False),
        ("def put(rows, seen): rows.append(seen)", True),
        ("def put(rows, seen): seen.append(rows)", False),
        ("def put(rows, seen): rows[0] = seen; seen.append(1)", True),
        ("def keep(a, b): b.last = a\ndef put(rows, seen): keep(seen, rows)", True),
        ("def keep(a, b): b.last = a\ndef put(rows, seen): keep(rows, seen)", False),
        ("def put(rows, seen): rows.first = len(seen)", False),
        ("def put(rows, seen): pair = [seen]; rows.append(pair)", True),
        ("def put(rows, seen, *more): rows.append(more)", False),
        ("from heapq import heappush as put", True),
        ("def put(rows, seen): setattr(rows, 'seen', seen)", True),
        ("import torch\nrows = torch.zeros(2)\ndef put(rows, seen): rows.add_(seen)", False),
    ],
)
def test_an_argument_holds_what_the_function_keeps_in_it(made: str, is_held: bool) -> None:
    """A change of `seen` is one of `rows` that hold it."""
    chains, tree = chains_of(f"rows, seen = [], []\n{made}\nput(rows, seen)\nseen.clear()\nprint(rows)")
    read = next(n for n in ast.walk(tree.body[-1]) if isinstance(n, ast.Name) and n.id == "rows")
    assert ("seen.clear()" in {ast.unparse(d.node) for d in chains.definitions(read)}) is is_held


@pytest.mark.parametrize(
    ("method", "is_held"),
    [
        ("self.rows.append(rows)", True),
        ("self.last = rows", True),
        ("mine = self.rows; mine.append(rows)", True),
        ("self.total += sum(rows)", False),
        ("self.note(rows)", True),
        ("self.count += 1; rows.append(self.count)", False),
    ],
)
def test_an_object_holds_what_its_method_keeps(method: str, is_held: bool) -> None:
    """A change of the list is one of what holds it."""
    cls = "class Kept:\n    def __init__(self): self.rows, self.total, self.count = [], 0, 0\n"
    cls += f"    def note(self, rows): self.rows.append(rows)\n    def put(self, rows): {method}\n"
    chains, tree = chains_of(f"{cls}kept, seen = Kept(), []\nkept.put(seen)\nseen.clear()\nprint(kept)")
    read = next(n for n in ast.walk(tree.body[-1]) if isinstance(n, ast.Name) and n.id == "kept")
    assert ("seen.clear()" in {ast.unparse(d.node) for d in chains.definitions(read)}) is is_held


@pytest.mark.parametrize(
    ("helper", "call"),
    [
        ("SEEN = []\ndef note(x, seen=SEEN):\n    seen.append(x)\n", "helper.note(1)"),
        ("SEEN = {}\ndef note(x, seen=SEEN):\n    seen[x] = 1\n", "helper.note(1)"),
        ("import config\ndef note(x, seen=config.SEEN):\n    seen.append(x)\n", "helper.note(1)"),
        ("SEEN = [0]\nclass Loss:\n    def __init__(self, seen=SEEN):\n        seen.remove(0)\n", "helper.Loss()"),
    ],
)
def test_a_default_of_another_file_is_no_argument(helper: str, call: str) -> None:
    source = program(f"import helper\n{call}\nkept = {call}\nprint(kept)", helper=helper, config="SEEN = []")
    chains = Chains(source)
    made = source.named[0].tree.body[1].value  # type: ignore[attr-defined]  # a call
    assert chains.changed_by(made) == []
    assert chains.definitions(last(source).args[0])  # type: ignore[attr-defined]  # a call


@pytest.mark.parametrize(
    ("method", "calls", "found"),
    [
        ("def other(self)", "t.other()", {"self.n = 0"}),  # no iterator runs what only a call names
        ("def __iter__(self)", "", {"self.n = 0", "self.n = 1"}),
        ("def other(self)", "rows = map(t.other, rows)", {"self.n = 0", "self.n = 1"}),
    ],
)
def test_an_iterator_runs_what_no_call_names(method: str, calls: str, found: set[str]) -> None:
    chains, tree = chains_of(
        f"class T:\n    {method}: self.n = 1\n    def run(self, rows):\n        self.n = 0\n"
        f"        for row in rows: print(self.n)\nt = T()\n{calls}\nt.run(rows)"
    )
    read = next(
        n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and n.attr == "n"
    )
    assert {ast.unparse(chains.program.statement(d.node)) for d in chains.definitions(read)} == found


BEST = """\
import argparse
args = argparse.ArgumentParser().parse_args()
def train(valid, mode, rows):
    best, extra = 1.0, None
    if mode == "long":
        extra = valid
    for epoch in range(3):
        if {first}:
            best = 2.0
        if {second}:
            print(best)
train(None, "test", [])
"""


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("valid is not None", "valid is None", 1),
        ("valid is None", "not valid is None", 1),
        ("mode == 'train'", "mode != 'train'", 1),
        ("args.test", "not args.test", 1),
        ("valid is not None", "valid is not None", 2),
        ("mode == 'train'", "mode == 'test'", 2),  # not compared: both may be left out only by what is known of `mode`
        ("extra is None", "extra is not None", 2),  # set anew
        ("rows", "not rows", 2),  # which others may fill meanwhile
        ("args.test", "args.train", 2),
    ],
)
def test_a_definition_under_the_opposite_of_a_lasting_condition(first: str, second: str, count: int) -> None:
    chains, tree = chains_of(BEST.format(first=first, second=second))
    reads = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "best" and isinstance(n.ctx, ast.Load)]
    assert len(chains.definitions(reads[0])) == count


ONE_CALL = """\
class A:
    def run(self, first):
        if first is None:
            self.x = 2
        else:
            print(self.x)
a = A()
a.x = 1
a.run(None)
a.run(3)
"""


def test_a_condition_lasts_for_one_call_only() -> None:
    chains, tree = chains_of(ONE_CALL)
    reads = [
        n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and n.attr == "x"
    ]
    assert len(chains.definitions(reads[0])) == 2
