"""Facts about where nodes are in a program, and what runs them."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.program import Program
from tests.codemod.facts import Facts, texts

TEXT = """\
import torch
def f(rows):
    for row in rows:
        if row:
            a()
        else:
            [b(x) for x in row]
        while c():
            d()
    else:
        e()
class A:
    size = g()
    def h(self):
        k()
        def inner():
            m()
f([1])
"""


def test_files_and_paths() -> None:
    facts = Facts({"main.py": "import other\nf()\n", "other.py": "g()\n"})
    program = facts.program
    assert isinstance(program, Program)
    assert program.path(facts["f()"]) == "main.py"
    assert program.path(facts["g()"]) == "other.py"
    assert program.parsed(facts["g()"]).path == "other.py"
    assert [p.path for p in program.named] == ["main.py"]


def test_a_node_that_is_in_no_file() -> None:
    with pytest.raises(LookupError):
        Facts("").program.scope(ast.Name("x"))


def test_scopes_and_frames() -> None:
    facts = Facts(TEXT)
    program = facts.program
    assert program.scope(facts["b(x)"]).kind == "comprehension"
    assert program.frame(facts["b(x)"]).qualified_name == "f"
    assert program.frame(facts["g()"]).qualified_name == "A"
    assert program.frame(facts["m()"]).qualified_name == "A.h.inner"
    assert program.frame(facts["f([1])"]).kind == "module"


def test_lambdas_round_a_node() -> None:
    facts = Facts("f = lambda: [a(x) for x in (lambda: b())()]\ndef g():\n    c()\n")
    program = facts.program
    assert [len(program.lambdas(facts[call])) for call in ("a(x)", "b()", "c()")] == [1, 2, 0]


def test_ancestors_statements_and_insides() -> None:
    facts = Facts(TEXT)
    program = facts.program
    call = facts["a()"]
    kinds = [type(n).__name__ for n in program.ancestors(call)]
    assert kinds == ["Expr", "If", "For", "FunctionDef", "Module"]
    assert program.statement(call) is program.parent(call)
    assert program.statement(facts["def f"]) is facts["def f"]
    assert program.inside(call, facts["for row"])
    assert program.inside(call, call)
    assert not program.inside(call, facts["while c()"])


def test_loops_round_a_node() -> None:
    facts = Facts(TEXT)
    program = facts.program
    assert program.loops_round(facts["a()"]) == [facts["for row"]]
    assert program.loops_round(facts["d()"]) == [facts["while c()"], facts["for row"]]
    assert program.loops_round(facts["c()"]) == [facts["for row"]]  # the test is not in the body
    assert program.loops_round(facts["e()"]) == []
    assert program.loops_round(facts["m()"]) == []


def test_a_loop_round_a_function_is_not_round_its_body() -> None:
    facts = Facts("for x in y:\n    def f():\n        g()\n    lambda: h()\n")
    assert facts.program.loops_round(facts["g()"]) == []
    assert facts.program.loops_round(facts["h()"]) == []


def test_branches_round_a_node() -> None:
    facts = Facts("if a:\n    if b:\n        f()\n    else:\n        g(h() if c else k())\n")
    program = facts.program

    def branches(text: str) -> list[tuple[str, bool]]:
        return [(ast.unparse(node.test), holds) for node, holds in program.branches_round(facts[text])]

    assert branches("f()") == [("b", True), ("a", True)]
    assert branches("h()") == [("c", True), ("b", False), ("a", True)]
    assert branches("k()") == [("c", False), ("b", False), ("a", True)]
    assert branches("a") == []
    assert branches("c") == [("b", False), ("a", True)]


def test_an_elif_stands_under_the_condition_before_it() -> None:
    facts = Facts("if a:\n    pass\nelif b:\n    f()\n")
    assert [(ast.unparse(n.test), h) for n, h in facts.program.branches_round(facts["f()"])] == [
        ("b", True),
        ("a", False),
    ]


def test_the_block_of_a_statement() -> None:
    facts = Facts("try:\n    a\nexcept E:\n    b\nelse:\n    c\nfinally:\n    d\nmatch x:\n    case 1:\n        e\n")
    for name in "abcde":
        statement = facts.program.statement(facts[name])
        assert facts.program.block(statement) == [statement]


def test_reads_of_a_variable_in_functions_inside() -> None:
    facts = Facts("x = 1\ndef f():\n    g(x)\ndef h(x):\n    g(x)\ny = [x for _ in z]\n")
    root = facts.scope("main.py")
    assert len(facts.program.reads_of(root, "x")) == 2
    assert len(facts.program.reads_of(facts.scope("h"), "x")) == 1
    assert facts.program.reads_of(root, "missing") == []


def test_names_that_other_files_import() -> None:
    files = {
        "main.py": "from nets import Net, size\nfrom more import *\nf(low, own)\nown = 1\n",
        "nets.py": "class Net: pass\nsize = other = 1\n",
        "more.py": "low = high = own = 1\n",
    }
    facts = Facts(files)
    assert facts.program.imported_from[facts.scope("nets.py")] == {"Net", "size"}
    assert "low" in facts.program.imported_from[facts.scope("more.py")]
    assert "high" not in facts.program.imported_from[facts.scope("more.py")]
    assert facts.scope("main.py") not in facts.program.imported_from


def test_which_library_functions_a_call_may_go_to() -> None:
    text = "import torch\nf = torch.zeros if a else torch.ones\nf(1)\ndef g(): pass\ng()\n"
    facts = Facts(text)
    assert facts.program.called(facts.call("f(1)")) == {"torch.zeros", "torch.ones"}
    assert facts.program.called(facts.call("g()")) == set()
    assert facts.program.externals(None) == set()


def test_calls_of_a_function_and_in_a_frame() -> None:
    files = {"main.py": "import other\ndef f(): g()\nf()\n[h() for x in y]\n", "other.py": "def unused(): main.f()\n"}
    facts = Facts(files)
    assert texts(facts.program.calls_of(facts.scope("f"))) == ["f()"]
    assert texts(facts.program.calls_in(facts.scope("f"))) == ["g()"]
    assert texts(facts.program.calls_in(facts.scope("main.py"))) == ["f()", "h()"]


def test_calls_and_what_they_run_come_in_the_order_of_the_text() -> None:
    functions = "".join(f"def f{n}(x):\n    return x\n" for n in range(30))
    calls = "".join(f"f0({n})\n" for n in range(30))
    facts = Facts(f"{functions}{calls}g = [{', '.join(f'f{n}' for n in range(30))}][int(input())]\ng(1)\n")
    assert texts(facts.program.calls_of(facts.scope("f0"))) == [*(f"f0({n})" for n in range(30)), "g(1)"]
    called = facts.program.flow.callees[facts.program.calls_of(facts.scope("f29"))[0]]
    assert [function.name for function in called] == [f"f{n}" for n in range(30)]


def test_what_the_named_files_may_run() -> None:
    files = {
        "main.py": "import other\ndef f():\n    other.run()\n",
        "other.py": "def run():\n    def inner(): pass\ndef idle(): pass\nclass A:\n    def g(self): pass\n",
    }
    facts = Facts(files)
    reached = {s.qualified_name for s in facts.program.reachable}
    assert {"main.py", "f", "run", "run.inner"} <= reached
    assert reached.isdisjoint({"idle", "A.g", "A"})


def test_attributes_that_are_written() -> None:
    facts = Facts("a.x = 1\nb.x, c.y[0] = 2, 3\ndel a.z\nfor d.w in e: pass\n")
    written = facts.program.attribute_writes
    assert texts(written["x"]) == ["a.x", "b.x"]
    assert set(written) == {"x", "w"}


def test_a_call_that_only_asks_for_a_class() -> None:
    facts = Facts("isinstance(a, B)\nisinstance(a, (C, D))\nf(E)\nissubclass(a, G)\n")
    program = facts.program
    assert program.question_round(facts["B"]) is facts["isinstance(a, B)"]
    assert program.question_round(facts["D"]) is facts["isinstance(a, (C, D))"]
    assert program.question_round(facts["E"]) is None
    assert program.question_round(facts["G"]) is None
    assert program.question_round(facts["isinstance"]) is None


def test_lines_and_texts() -> None:
    facts = Facts("x = 1\ny = (a +\n     b)\n")
    assert facts.program.line(facts["y"]) == 2
    assert facts.program.line(ast.Pass()) == 1
    assert facts.program.text(facts["a + b"]) == "a + b"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a = 1\na = 2\nuse(a)\n", [2]),
        ("a = 1\nif p:\n    a = 2\nuse(a)\n", [1, 3]),
        ("if p:\n    a = 1\nelse:\n    a = 2\nuse(a)\n", [2, 4]),
        ("a = 1\nuse(a)\na = 2\n", [1]),
        ("a = 1\na = f(a)\nuse(a)\n", [2]),
        ("a = 1\nfor a in b:\n    use(a)\n", [2]),
        ("def f(a):\n    if p:\n        a = 2\n    use(a)\n", [1, 3]),
    ],
)
def test_bindings_that_reach_a_read(text: str, lines: list[int]) -> None:
    facts = Facts(text)
    read = facts.call("use(a)").args[0]
    assert isinstance(read, ast.Name)
    owner = facts.program.scope(read).owner("a")
    assert owner is not None
    found = facts.program.reaching(read, facts.tracer.writes(owner, "a"))
    assert sorted(facts.program.line(w) for w in found) == lines


def test_what_runs_before_what() -> None:
    facts = Facts("a()\nfor x in y:\n    b()\nc()\n")
    program, loop = facts.program, facts.statement("for x in y")
    assert program.before(facts["a()"], loop)
    assert program.before_end(facts["b()"], loop)
    assert program.is_after(facts["c()"], loop)
    assert not program.is_after(facts["b()"], loop)
    assert program.reaches(facts["b()"], facts["b()"])
    first, last = (program.statement(facts[text]) for text in ("a()", "c()"))
    assert program.last([first, last, loop]) is last
    assert program.position(facts["c()"]).line == 4


CALLING = """\
def moves(net):
    a()
def runs(net):
    b()
def hooked(net):
    c()
runs(1)
moves(2)
register(hooked)
{}
"""


@pytest.mark.parametrize(
    ("then", "b_after", "c_after"),
    [("pass", False, True), ("runs(3)", True, True), ("for i in x:\n    runs(i)\n    moves(i)", True, True)],
)
def test_what_may_follow_in_other_functions(then: str, *, b_after: bool, c_after: bool) -> None:
    facts = Facts(CALLING.format(then))
    assert facts.program.may_follow(facts.call("b()"), facts.call("a()")) is b_after
    assert facts.program.may_follow(facts.call("c()"), facts.call("a()")) is c_after
    assert facts.program.may_follow(facts.call("b()"), facts.call("moves(2)")) is b_after
    assert facts.program.may_follow(facts.call("moves(2)"), facts.call("b()"))


GIVEN = """\
import lib

class Part:
    def run(self):
        a()

class Whole:
    def __init__(self):
        b()
        self.part = Part()
    def run(self):
        a()
{early}
lib.begin()
size(1)
whole = Whole()
{late}
lib.end()
size(2)
"""


@pytest.mark.parametrize(
    ("early", "late", "runs_first", "runs_later"),
    [
        ("", "print(whole)", False, True),
        ("", "lib.fit(object=whole)", False, True),
        ("", "lib.wrap(whole.part)", False, True),
        ("def give():\n    lib.fit(whole)", "give()", False, True),
        ("def give():\n    lib.fit(Whole())\ngive()", "", True, True),
        ("lib.register(Whole.run)", "", True, True),
        ("lib.fit(Part())", "", True, True),
        ("", "", False, False),
    ],
)
def test_libraries_run_methods_once_they_are_given_the_object(
    early: str, late: str, *, runs_first: bool, runs_later: bool
) -> None:
    facts = Facts(GIVEN.format(early=early, late=late))
    runs = [facts.call("a()"), facts.call("a()#2")]
    assert any(facts.program.may_follow(facts.call("size(1)"), run) for run in runs) is runs_first
    assert any(facts.program.may_follow(facts.call("b()"), run) for run in runs) is runs_first
    assert any(facts.program.may_follow(facts.call("size(2)"), run) for run in runs) is runs_later


@pytest.mark.parametrize(
    ("block", "leaves"),
    [
        ("return", True),
        ("raise SystemExit", True),
        ("print(1); sys.exit()", True),
        ("os._exit(1)", True),
        ("print(1)", False),
    ],
)
def test_a_block_behind_which_nothing_is_run(block: str, leaves: bool) -> None:
    program = Facts(f"import os, sys\ndef f(x):\n    if x: {block}\n    return 1\nf(2)\n").program
    choice = next(n for n in program.files[0].nodes if isinstance(n, ast.If))
    assert program.leaves(choice.body) is leaves
