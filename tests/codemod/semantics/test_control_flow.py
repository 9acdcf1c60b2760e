"""Facts about what runs before what: source text in, fact out; and random programs, run, against their graphs."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from hypothesis import given, settings

from accelify.codemod.semantics.control_flow import evaluation_order
from accelify.codemod.semantics.flow_graph import Graph, immediate_dominators
from tests.codemod.facts import spelling
from tests.codemod.semantics.random_flow import Run, programs
from tests.codemod.semantics.sources import Source


def listed(source: Source, function: str | None = None) -> str:
    """The points of the module or of a function in lines, without the entry and the two ends."""
    frame = (
        source.tree
        if function is None
        else next(n for n in ast.walk(source.tree) if getattr(n, "name", "") == function)
    )
    return "\n".join(source.flow.graph(frame).text().split("\n")[3:])


def test_a_loop_with_else_break_and_continue() -> None:
    source = Source("""\
        for x in xs:
            if x:
                continue
            elif y:
                break
            f(x)
        else:
            g()
        h()
    """)
    assert listed(source) == dedent("""\
        3 for xs -> 4
        4 next -> 5, 11
        5 target x -> 6
        6 if x -> 7, 8
        7 continue -> 4
        8 if y -> 9, 10
        9 break -> 12
        10 f(x) -> 4
        11 g() -> 12
        12 h() -> 1
    """)


def test_an_exception_lands_before_or_after_its_statement() -> None:
    source = Source("""\
        try:
            a = f()
            b = g()
        except ValueError:
            c = 1
        else:
            d = 1
        e = 1
    """)
    assert listed(source) == dedent("""\
        3 try -> 5
        4 landing -> 8, 2
        5 a = f() -> 6 ~> 4
        6 b = g() -> 7 ~> 4
        7 d = 1 -> 10
        8 except ValueError -> 9
        9 c = 1 -> 10
        10 e = 1 -> 1
    """)
    graph = source.flow.graph(source.tree)
    assert graph.successors[3] == [5, 4]
    assert not source.flow.dominates(source["a ="], source["c ="])
    assert source.flow.dominates(source["b ="], source["d ="])
    assert source.flow.reaches(source["b ="], source["c ="])
    assert not source.flow.reaches(source["d ="], source["c ="])


def test_finally_is_on_every_way_out() -> None:
    source = Source("""\
        def run():
            for x in xs:
                try:
                    if x:
                        return x
                    if y:
                        break
                    f(x)
                finally:
                    g()
            h()
    """)
    assert listed(source, "run") == dedent("""\
        3 for xs -> 4
        4 next -> 5, 17
        5 target x -> 6
        6 try -> 8
        7 landing -> 14
        8 if x -> 9, 10 ~> 7
        9 return x -> 15 ~> 7
        10 if y -> 11, 12 ~> 7
        11 break -> 16
        12 f(x) -> 13 ~> 7
        13 g() -> 4
        14 g() -> 2
        15 g() -> 1
        16 g() -> 17
        17 h() -> 1
    """)
    assert source.flow.post_dominates(source["g()"], source["if x"])
    assert source.flow.post_dominates(source["g()"], source["return x"])
    assert not source.flow.reaches(source["return x"], source["h()"])


def test_with_match_and_while() -> None:
    source = Source("""\
        while True:
            with open(a) as f, suppress(E):
                g(f)
            match x:
                case [y]:
                    break
                case _:
                    pass
    """)
    assert listed(source) == dedent("""\
        3 loop -> 4
        4 while True -> 5
        5 with -> 6
        6 with item open(a) as f -> 7
        7 with item suppress(E) -> 9
        8 landing -> 2, 10
        9 g(f) -> 10 ~> 8
        10 exit -> 11
        11 match x -> 12
        12 case [y] -> 13, 14
        13 break -> 1
        14 case _ -> 15
        15 pass -> 4
    """)


def test_a_plain_with_passes_exceptions_on() -> None:
    source = Source("with torch.no_grad():\n    x = f()\ng(x)\n")
    assert source.flow.dominates(source["x ="], source["g(x)"])


def test_a_class_body_runs_where_it_stands() -> None:
    source = Source("x = 1\nclass A(B):\n    y = x\n    def f(self):\n        return x\nz = 1\n")
    assert (
        listed(source) == "3 x = 1 -> 4\n4 class B -> 5\n5 y = x -> 6\n6 def f -> 7\n7 class end -> 8\n8 z = 1 -> 1\n"
    )


@pytest.mark.parametrize(
    "leaving", ["return", "raise E", "sys.exit(1)", "os._exit(0)", "assert False", "while True:\n        g()"]
)
def test_what_leaves(leaving: str) -> None:
    source = Source(f"def f():\n    if x:\n        {leaving}\n    h()\n".replace("\n        g()", "\n            g()"))
    block = source["if x"].body
    assert source.flow.leaves(block)
    assert not source.flow.leaves([source["if x"]])


def test_a_try_whose_branches_all_leave() -> None:
    source = Source("""\
        def run():
            try:
                model = f()
                return loss
            except RuntimeError as e:
                if "memory" in str(e):
                    return inf
                else:
                    raise
            after()
    """)
    function = source["def run"]
    assert source.flow.leaves(function.body[:1])
    assert not source.flow.is_reachable(source["after()"])


def test_before_knows_branches_and_rounds() -> None:
    source = Source("""\
        for e in es:
            if e:
                a()
            else:
                b()
            c()
        d()
    """)
    flow = source.flow
    assert not flow.before(source["a()"], source["b()"])
    assert flow.reaches(source["a()"], source["b()"])  # in another round
    assert flow.before(source["a()"], source["c()"])
    assert not flow.before(source["c()"], source["a()"])
    assert flow.is_after(source["d()"], source["for e"])
    assert not flow.is_after(source["c()"], source["for e"])
    assert not flow.reaches(source["a()"], source["d()"], without=[source["c()"]])


def test_nodes_of_another_file_are_on_no_path() -> None:
    source, other = Source("a()\nb()\nc()\n"), Source("for x in xs:\n    a()\n")
    first, last = source["a()"], source["c()"]
    elsewhere = [other["a()"], other["for x"], other.tree]
    assert source.flow.reaches(first, last, without=elsewhere)
    assert not source.flow.reaches(first, last, without=[*elsewhere, source["b()"]])
    assert not source.flow.is_covered(elsewhere, last)
    assert source.flow.is_covered([*elsewhere, source["b()"]], last)
    assert not source.flow.is_covered_after(elsewhere, source.tree.body[1])
    assert source.flow.is_covered_after([*elsewhere, first], source.tree.body[1])


def test_order_inside_a_statement() -> None:
    source = Source("x = f(y) if z else g(w)\nr = a and b\n")
    flow = source.flow
    assert flow.before(source["z"], source["f"])
    assert flow.before(source["y"], source["x"])
    assert not flow.before(source["x"], source["y"])
    assert flow.dominates(source["a"], source["b"])
    assert not flow.dominates(source["b"], source["r"])


def test_what_is_always_reached_after_another() -> None:
    source = Source("""\
        def f(n):
            if n < 0:
                raise ValueError
            a()
            if n == 0:
                return
            b()
            for x in n:
                c()
    """)
    flow = source.flow
    assert flow.post_dominates(source["for x"], source["b()"])
    assert not flow.post_dominates(source["c()"], source["b()"])


def test_one_of_several_covers() -> None:
    source = Source("if x:\n    m = A()\nelse:\n    m = B()\nuse(m)\n")
    both = [source["m = A"], source["m = B"]]
    assert source.flow.is_covered(both, source["use(m)"])
    assert not source.flow.is_covered(both[:1], source["use(m)"])


def test_loops_and_their_exits() -> None:
    source = Source("""\
        def f():
            for a in b:
                while c:
                    if d:
                        break
                    elif e:
                        return
                    g()
                else:
                    h()
    """)
    flow = source.flow
    inner, outer = source["while c"], source["for a"]
    assert flow.loops_round(source["g()"]) == (inner, outer)
    assert flow.loops_round(source["h()"]) == (outer,)
    assert flow.loops_round(source["c"]) == (inner, outer)
    assert flow.loops_round(source["b"]) == ()
    assert flow.exits(inner) == (inner, source["break"], source["return"])
    assert flow.exits(outer) == (outer, source["return"])


def test_different_functions() -> None:
    source = Source("def f():\n    a()\nb()\ndef g():\n    f()\nc = lambda: d\n")
    flow = source.flow
    assert flow.before(source["b()"], source["f()"])
    assert flow.before(source["a()"], source["b()"])
    assert not flow.before(source["f()"], source["b()"])  # `g` is defined later
    assert flow.dominates(source["b()"], source["f()"])
    assert not flow.dominates(source["a()"], source["b()"])
    assert flow.frame(source["d"]) is source["lambda"]


# Sizes, and real programs.


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    ["x{0} = f(x{0})", "if x{0}:\n    y = f()\nelse:\n    z = 1", "for i in x{0}:\n    f(i)"],
    ids=["plain", "if", "for"],
)
@pytest.mark.parametrize("tried", [False, True])
def test_long_files(unit: str, tried: bool) -> None:
    text = "\n".join(unit.format(i) for i in range(1700))
    if tried:
        text = "try:\n" + "\n".join("    " + line for line in text.split("\n")) + "\nexcept E:\n    pass\n"
    source = Source(text + "\nend()\n")
    assert source.flow.before(source.tree.body[0], source.tree.body[-1])
    assert source.flow.dominates(source.tree.body[0], source.tree.body[-1]) is (not tried or True)


def test_a_long_chain_of_elif() -> None:
    text = "if x:\n    a()\n" + "".join(f"elif x == {i}:\n    b()\n" for i in range(300)) + "c()\n"
    source = Source(text)
    assert source.flow.dominates(source.tree.body[0], source.tree.body[1])


def slow_dominators(edges: list[list[int]]) -> list[set[int]]:
    """For each point, the points without which it cannot be reached."""
    found = []
    for target in range(len(edges)):
        needed = set()
        for closed in range(len(edges)):
            seen, stack = {0} - {closed}, [0] if closed else []
            while stack:
                for following in edges[stack.pop()]:
                    if following not in seen and following != closed:
                        seen.add(following)
                        stack.append(following)
            if target not in seen:
                needed.add(closed)
        found.append(needed)
    return found


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(programs())
def test_random_programs_run_along_their_edges(run: Run) -> None:
    source = Source(run.text)
    graph = source.flow.graph(run.function(source.tree))
    for before, after in run.steps:
        assert _leads(graph, before, after), f"{before} -> {after}\n{run.text}\n{graph.text()}"


def _leads(graph: Graph, before: int, after: int) -> bool:
    """Whether a path leads from one line to another past nothing that has a line event of its own."""
    stack, seen = [p for p in range(len(graph.points)) if _line(graph, p) == before], set()
    while stack:
        for following in graph.successors[stack.pop()]:
            if _line(graph, following) == after:
                return True
            if following not in seen and _is_silent(graph, following):
                seen.add(following)
                stack.append(following)
    return False


def _line(graph: Graph, point: int) -> int | None:
    node = graph.points[point].node
    return None if point <= Graph.RAISED else getattr(node, "lineno", None)


def _is_silent(graph: Graph, point: int) -> bool:
    node, role = graph.points[point].node, graph.points[point].role
    quiet = (ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Delete, ast.Constant)
    return role not in ("statement", "if", "while", "for") or isinstance(node, quiet)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(programs())
def test_dominators_are_those_without_which_a_point_is_not_reached(run: Run) -> None:
    source = Source(run.text)
    graph = source.flow.graph(run.function(source.tree))
    if len(graph.points) > 60:
        return
    found = immediate_dominators(graph.successors, 0)
    for point, needed in enumerate(slow_dominators(graph.successors)):
        if found[point] < 0:
            continue
        chain, current = {point, 0}, point
        while current:
            chain.add(current)
            current = found[current]
        assert chain == needed | {0}


def test_what_has_run_whenever_a_statement_is_done() -> None:
    source = Source("""\
        def f():
            try:
                m = A()
                train(m)
            except E:
                m = None
                return
            while True:
                n = B()
                break
            if x:
                k = 1
    """)
    flow = source.flow
    assert flow.is_covered_after([source["m = A"]], source["try"])
    assert flow.is_covered_after([source["n = B"]], source["while"])
    assert not flow.is_covered_after([source["k = 1"]], source["if x"])


@pytest.mark.parametrize(
    ("code", "order"),
    [
        ("x = f(a)", ["f", "a", "f(a)", "x", "x = f(a)"]),
        ("f(lambda: a)", ["f", "lambda: a", "f(lambda: a)"]),
        ("a if b else c", ["b", "a", "c", "a if b else c"]),
    ],
)
def test_the_order_of_evaluation(code: str, order: list[str]) -> None:
    nodes = [n for n in evaluation_order(ast.parse(code).body[0]) if not isinstance(n, (ast.expr_context, ast.Expr))]
    assert [spelling(n) for n in nodes] == order
