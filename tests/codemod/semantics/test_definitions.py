"""Which definition gave what is read: source text in, fact out; and random programs, run, against their definitions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings

from accelify.codemod.semantics.definitions import Definition, Definitions, Kind
from accelify.codemod.semantics.scopes import Scope, bindings
from tests.codemod.semantics.random_flow import Run, programs
from tests.codemod.semantics.sources import Source


def _changes(call: ast.Call) -> Iterable[ast.expr]:
    """`x.append(...)` and `x.add_(...)` change `x`, `fill(x)` changes `x`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "add_"):
        return [call.func.value]
    return call.args[:1] if isinstance(call.func, ast.Name) and call.func.id == "fill" else []


class Known(Source):
    """A source with its definitions."""

    def __init__(self, text: str, runs: Callable[[Known, ast.Call], list[str]] | None = None) -> None:
        super().__init__(text)
        self.bindings = bindings("m", self.tree)

        def run(call: ast.Call | None) -> frozenset[Scope] | None:
            named = runs(self, call) if runs is not None and call is not None else None
            return None if named is None else frozenset(s for s in self.bindings.root.walk() if s.name in named)

        self.facts = Definitions(self.flow, self.bindings, mutates=_changes, runs=run)

    def given(self, read: str) -> set[str]:
        """Where what a name or attribute reads may come from: `2 assignment`, for line 2."""
        node = self[read]
        assert isinstance(node, ast.expr)
        return {_named(d) for d in self.facts.definitions(node)}

    def shown(self, call: str) -> set[str]:
        """The same for what a call is given."""
        node = self[call]
        assert isinstance(node, ast.Call)
        return {_named(d) for d in self.facts.definitions(node.args[0])}


def _named(definition: Definition) -> str:
    return f"{getattr(definition.node, 'lineno', 0)} {definition.kind.name.lower()}"


def test_a_later_assignment_hides_an_earlier_one() -> None:
    assert Known("x = 1\nx = 2\nprint(x)\n").given("x#3") == {"2 assignment"}


def test_branches_join() -> None:
    source = Known("x = 1\nif a:\n    x = 2\nelif b:\n    x = 3\nprint(x)\n")
    assert source.given("x#4") == {"1 assignment", "3 assignment", "5 assignment"}


def test_a_branch_that_leaves_gives_nothing() -> None:
    source = Known("def f(x):\n    if x:\n        y = 1\n        return\n    else:\n        y = 2\n    print(y)\n")
    assert source.given("y#3") == {"6 assignment"}


def test_a_loop_gives_its_own_and_what_was_before() -> None:
    source = Known("x = 0\nfor i in a:\n    print(x)\n    x += i\nprint(x, i)\n")
    assert source.given("x#2") == {"1 assignment", "4 augmented"}
    assert source.given("x#3") == {"1 assignment", "4 augmented"}  # `+=` reads, too
    assert source.given("x#4") == {"1 assignment", "4 augmented"}
    assert source.given("i#3") == {"2 loop"}


def test_a_handler_sees_what_was_before_the_exception() -> None:
    source = Known("x = 0\ntry:\n    x = f()\n    x = g(x)\nexcept E as e:\n    print(x, e)\n")
    assert source.given("x#5") == {"1 assignment", "3 assignment", "4 assignment"}
    assert source.given("e") == {"5 except"}


@pytest.mark.parametrize(
    ("text", "read", "kinds"),
    [
        ("import a.b\nprint(a)\n", "a", {"1 import"}),
        ("from m import x as y\nprint(y)\n", "y", {"1 import"}),
        ("with open(p) as f, g(f) as h:\n    print(f)\n", "f#3", {"1 with"}),
        ("def f(a, *b, c=1):\n    print(b)\n", "b", {"1 parameter"}),
        ("x = 1\ndel x\nprint(x)\n", "x#3", {"2 deletion"}),
        ("def f(): pass\nf()\n", "f", {"1 function"}),
        ("class A:\n    y = 1\n    z = y\nA()\n", "y#2", {"2 assignment"}),
        ("class A:\n    y = 1\nA()\n", "A", {"1 class"}),
        ("match p:\n    case [x, *y]:\n        print(y)\n", "y", {"2 pattern"}),
        ("print([y for y in z if y])\n", "y#3", {"1 loop"}),
        ("if (n := f()):\n    print(n)\n", "n#2", {"1 assignment"}),
        ("n = 0\nprint((n := f()) + n)\n", "n#3", {"2 assignment"}),
        ("n = 0\nprint(a and (n := f()), n)\n", "n#3", {"1 assignment", "2 assignment"}),
        ("print(len)\n", "len", set()),
        ("x = 1\nx = x + 1\n", "x#3", {"1 assignment"}),
        ("def f():\n    return 1\n    x = 1\n    print(x)\n", "x#2", set()),
    ],
)
def test_kinds(text: str, read: str, kinds: set[str]) -> None:
    assert Known(text).given(read) == kinds


# Functions.


def test_a_function_sees_what_is_there_by_then() -> None:
    source = Known("x = 1\nx = 2\ndef f():\n    print(x)\nx = 3\n")
    assert source.given("x#3") == {"2 assignment", "5 assignment"}


def test_a_global_arrives_with_the_calls_that_may_run_its_function() -> None:
    text = "x = 1\ndef f():\n    global x\n    x = 2\nprint(x)\nf()\nprint(x)\n"
    assert Known(text).given("x#3") == {"1 assignment"}
    assert Known(text).given("x#4") == {"1 assignment", "4 assignment"}

    def runs(source: Known, call: ast.Call) -> list[str]:
        return ["f"] if ast.unparse(call.func) == "f" else []

    assert Known(text + "x = 3\nprint(x)\n", runs).given("x#6") == {"8 assignment"}


@pytest.mark.parametrize(
    ("calls", "given"),
    [
        ("x = 3\nf()\n", {"4 assignment"}),
        ("f()\nx = 4\nx = 5\n", {"1 assignment", "6 assignment"}),
        ("x = g(x)\nfor _ in y:\n    f()\n    x = 7\n", {"4 assignment", "7 assignment"}),
        ("x = 4\nother.f()\nx = 6\n", {"4 assignment", "6 assignment"}),  # maybe the same
        ("x = 4\nx = 5\n", {"1 assignment", "4 assignment", "5 assignment"}),  # who calls it is not known
    ],
)
def test_a_function_sees_what_is_there_where_it_is_called(calls: str, given: set[str]) -> None:
    source = Known("x = 1\ndef f():\n    print(x)\n" + calls, lambda source, call: [ast.unparse(call.func)])
    assert source.shown("print(x)") == given


def test_a_function_that_runs_without_a_call_sees_what_comes_later() -> None:
    source = Known("x = 1\n@property\ndef f():\n    print(x)\nx = 5\nf()\nx = 7\n", lambda source, call: ["f"])
    assert source.shown("print(x)") == {"1 assignment", "5 assignment", "7 assignment"}


def test_a_nonlocal() -> None:
    source = Known("""\
        def outer():
            n = 0
            def step():
                nonlocal n
                n = n + 1
            step()
            return n
    """)
    assert source.given("n#3") == {"2 assignment", "5 assignment"}
    assert source.given("n#4") == {"2 assignment", "5 assignment"}


def test_a_lambda_and_a_generator_read_later() -> None:
    source = Known("x = 1\nf = lambda: x\ng = (x for _ in y)\nprint(sum(x for _ in y))\nx = 2\n")
    assert source.given("x#2") == {"1 assignment", "5 assignment"}
    assert source.given("x#3") == {"1 assignment", "5 assignment"}
    assert source.given("x#4") == {"1 assignment"}


def test_a_generator_is_left_and_entered_again() -> None:
    source = Known("x = 1\ndef f():\n    global x\n    x = 2\n    yield\n    print(x)\nx = 3\n")
    assert source.given("x#3") == {"1 assignment", "4 assignment", "7 assignment"}


# Attributes.

TRAINER = """\
class Trainer(Base):
    best = 0
    def __init__(self, model):
        self.total = 1
        self.model = model
        print(self.best, self.total)
    def step(self, x):
        print(self.total)
        self.total = 2
        print(self.total)
        self.log()
        print(self.total)
    def log(self):
        print(self.best)
class Other:
    def __init__(self):
        self.total = 17
def use(trainer):
    trainer.best = 19
    print(trainer.total)
"""


def test_attributes_of_self() -> None:
    source = Known(TRAINER, lambda source, call: ["log"] if "log" in ast.unparse(call) else [])
    assert source.given("self.best") == {"2 assignment"}
    assert source.given("self.total#2") == {"4 assignment"}
    assert source.given("self.total#3") == {"4 assignment", "9 assignment"}
    assert source.given("self.total#5") == {"9 assignment"}
    assert source.given("self.total#6") == {"9 assignment"}
    assert source.given("self.best#2") == {"2 assignment", "19 assignment"}


@pytest.mark.parametrize(
    ("made", "given"),
    [
        ("self.rows = a\n        self.rows = load(self.rows)\n", {"4 assignment"}),
        ("self.rows = a\n        self.show()\n        self.rows = b\n", {"3 assignment", "5 assignment"}),
        ("self.rows = a\n        if a:\n            self.rows = b\n", {"3 assignment", "5 assignment"}),
        ("self.rows = a\n        if a:\n            return\n        self.rows = b\n", {"3 assignment", "6 assignment"}),
    ],
)
def test_a_method_does_not_see_what_is_gone_by_then(made: str, given: set[str]) -> None:
    text = f"class A:\n    def __init__(self, a, b):\n        {made}    def show(self):\n        print(self.rows)\n"
    source = Known(text, lambda source, call: [ast.unparse(call.func).removeprefix("self.")])
    assert source.shown("print(self.rows)") == given


def test_attributes_after_calls_of_unknown_code() -> None:
    assert Known(TRAINER).given("self.total#6") == {"4 assignment", "9 assignment"}


def test_attributes_of_any_object() -> None:
    assert Known(TRAINER).given("trainer.total") == {"4 assignment", "9 assignment", "17 assignment"}


def test_a_subclass_shares_its_attributes() -> None:
    text = "class A:\n    def f(self):\n        self.x = 1\nclass B(A):\n    def g(self):\n        print(self.x)\n"
    assert Known(text).given("self.x#2") == {"3 assignment"}
    assert Known(text.replace("B(A)", "B")).given("self.x#2") == set()


# Changes in place.


def test_changes_in_place_add_to_an_assignment() -> None:
    source = Known("rows = []\nrows.append(1)\nrows[0] = 2\nfill(rows)\nprint(rows)\nrows = []\nprint(rows)\n")
    assert source.given("rows#5") == {"1 assignment", "2 in_place", "3 in_place", "4 in_place"}
    assert source.given("rows#7") == {"6 assignment"}


def test_an_item_is_read_from_its_container() -> None:
    assert Known("d = {}\nd['a'] = 1\nprint(d['b'])\n").given("d['b']") == {"1 assignment", "2 in_place"}


@pytest.mark.parametrize(
    ("text", "read", "kinds"),
    [
        ("a = []\nb = a\nb.append(1)\nprint(a)\n", "a#3", {"1 assignment", "3 in_place"}),
        ("a = []\nb = [a]\nb[0].append(1)\nprint(a)\n", "a#3", {"1 assignment", "3 in_place"}),
        ("a = []\nb = [a]\nb.append(1)\nprint(a)\n", "a#3", {"1 assignment"}),
        ("a = []\nb = {'x': a}\nb['x'].append(1)\nprint(a)\n", "a#3", {"1 assignment", "3 in_place"}),
        ("a = []\nb = {'x': a}\nb['y'].append(1)\nprint(a)\n", "a#3", {"1 assignment"}),
        ("a = []\nb = {'x': a}\nb[k].append(1)\nprint(a)\n", "a#3", {"1 assignment", "3 in_place"}),
        (
            "a = []\nb = {}\nb['x']['y'] = a\nb['y'].append(1)\nb['x'][k].append(1)\nprint(a)\n",
            "a#3",
            {"1 assignment", "3 in_place", "5 in_place"},
        ),
        ("b = open()\na = b['x']['y']\nb['z'].append(1)\nprint(a)\n", "a#2", {"2 assignment"}),
        ("b = open()\na = b['x']['y']\nb['x']['y'].append(1)\nprint(a)\n", "a#2", {"2 assignment", "3 in_place"}),
        ("a = []\nb = {'x': a}\nc = b\nc['x'].append(1)\nprint(a)\n", "a#3", {"1 assignment", "4 in_place"}),
        ("a = []\nb = [a]\na.append(1)\nprint(b)\n", "b#2", {"2 assignment", "3 in_place"}),
        ("rows = f()\nfor row in rows:\n    row.append(1)\nprint(rows)\n", "rows#3", {"1 assignment", "3 in_place"}),
        ("t = zeros()\nu = t\nu += 1\nprint(t)\n", "t#3", {"1 assignment", "3 in_place"}),
        ("c = f()\nc.lr = 1\nprint(c)\n", "c#3", {"1 assignment", "2 in_place"}),
        ("a = []\nb = x if x else a\nb.append(1)\nprint(a)\n", "a#3", {"1 assignment", "3 in_place"}),
        ("a = []\ns = f()\ns.x = a\ns.x.append(1)\nprint(a)\n", "a#3", {"1 assignment", "4 in_place"}),
    ],
)
def test_other_names_of_what_is_changed(text: str, read: str, kinds: set[str]) -> None:
    assert Known(text).given(read) == kinds


def test_an_attribute_changed_in_place() -> None:
    text = "class A:\n    def __init__(self):\n        self.rows = []\n    def f(self):\n        self.rows.append(1)\n"
    source = Known(text + "    def g(self):\n        print(self.rows)\n")
    assert source.given("self.rows#3") == {"3 assignment", "5 in_place"}


def test_uses_are_the_other_way_round() -> None:
    source = Known("x = 1\nprint(x)\ndef f():\n    return x\nx = 2\nprint(x)\n")
    first, second = (d for node in ("x", "x#4") for d in source.facts.at(source[node]))
    assert {u.lineno for u in source.facts.uses(first)} == {2, 4}
    assert {u.lineno for u in source.facts.uses(second)} == {4, 6}
    assert first.kind is Kind.ASSIGNMENT


def test_a_statement_in_finally_is_one_definition() -> None:
    source = Known("def f():\n    try:\n        g()\n    finally:\n        x = 1\n        print(x)\n    return x\n")
    assert source.given("x#2") == {"5 assignment"}
    assert source.given("x#3") == {"5 assignment"}


@pytest.mark.slow
def test_long_files() -> None:
    source = Known("x = 0\n" + "y = f(x)\nif y:\n    x = g(y)\n" * 1500 + "print(x)\n", lambda source, call: [])
    last = source.tree.body[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    assert len(source.facts.definitions(last.value.args[0])) == 1501


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(programs())
def test_random_programs_read_only_what_reaches(run: Run) -> None:
    source = Known(run.text)
    reads: dict[tuple[int, str], ast.Name] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "seen":
            assert isinstance(node.args[2], ast.Name)
            reads[node.lineno, node.args[2].id] = node.args[2]
    for line, name, made in run.reads:
        found = {getattr(d.node, "lineno", 0) for d in source.facts.definitions(reads[line, name])}
        assert made in found, f"{name} in line {line} from {made}, not {found}\n{run.text}"
