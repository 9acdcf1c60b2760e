"""Facts about names: whose is each, where is it read and written?"""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from accelify.codemod.semantics.scopes import (
    Bindings,
    Scope,
    assignment,
    bindings,
    gone_over,
    main_guard,
    names_in,
    names_read_in,
    names_written_in,
    parts,
    returned,
)
from tests.codemod.facts import Facts, texts


def built(text: str) -> Bindings:
    return bindings("main", ast.parse(dedent(text)))


def scope(text: str, name: str) -> Scope:
    """The scope of a qualified name, or the first of a kind."""
    every = list(built(text).root.walk())
    return next(s for s in every if name in (s.qualified_name, s.kind))


def owner(text: str, name: str, seen_from: str) -> str | None:
    """The qualified name of the scope whose variable a name is, seen from another."""
    found = scope(text, seen_from).owner(name)
    return None if found is None else found.qualified_name


def test_a_function_sees_its_own_then_outer_then_module_names() -> None:
    text = """\
        a = b = c = 1
        def outer():
            b = c = 2
            def inner():
                c = 3
                return a, b, c
    """
    assert owner(text, "a", "outer.inner") == "main"
    assert owner(text, "b", "outer.inner") == "outer"
    assert owner(text, "c", "outer.inner") == "outer.inner"


def test_a_name_that_nothing_binds_has_no_owner() -> None:
    text = "def f():\n    return print(undefined)\n"
    assert owner(text, "print", "f") is None
    assert owner(text, "undefined", "f") is None
    assert scope(text, "f").writes_of("undefined") == []


def test_methods_do_not_see_the_names_of_their_class() -> None:
    text = """\
        size = 1
        class Net:
            size = 2
            other = size
            own = 3
            def forward(self):
                return size, own
            class Inner:
                deep = own
    """
    assert owner(text, "size", "Net.forward") == "main"
    assert owner(text, "size", "Net") == "Net"
    assert owner(text, "own", "Net.forward") is None
    assert owner(text, "own", "Net.Inner") is None


def test_global_and_nonlocal() -> None:
    text = """\
        best = 0
        def outer():
            count = best = 0
            def inner():
                global best, made
                nonlocal count
                best = count = made = 1
    """
    assert owner(text, "best", "outer.inner") == "main"
    assert owner(text, "made", "outer.inner") == "main"  # though the module never assigns it itself
    assert owner(text, "count", "outer.inner") == "outer"
    assert owner(text, "best", "outer") == "outer"
    inner = scope(text, "outer.inner")
    assert not inner.binds("best")
    assert not inner.binds("count")
    assert list(inner.writes) == ["best", "count", "made"]


@pytest.mark.parametrize(
    "text", ["global rate\nrate = 1\n", "if __name__ == '__main__':\n    global rate\n    rate = 1\n"]
)
def test_global_says_nothing_new_in_a_module(text: str) -> None:
    text += "def read():\n    return rate\n"
    root = built(text).root
    assert owner(text, "rate", "read") == "main"
    assert root.binds("rate")
    assert len(root.writes["rate"]) == 1
    assert not root.written_below


def test_a_comprehension_has_names_of_its_own() -> None:
    text = "xs = [x for x in rows if x > limit]\n"
    assert owner(text, "x", "comprehension") == "<comprehension>"
    assert owner(text, "x", "main") is None
    root = built(text).root
    assert list(root.reads) == ["rows"]  # the first iterable is evaluated outside
    assert set(root.children[0].reads) == {"x", "limit"}


def test_only_the_first_iterable_of_a_comprehension_is_evaluated_outside() -> None:
    root = built("xs = {k: v for part in parts for k, v in part.items()}\n").root
    assert list(root.reads) == ["parts"]
    assert set(root.children[0].reads) == {"part", "k", "v"}


def test_a_walrus_binds_outside_its_comprehension() -> None:
    text = """\
        def f(rows):
            found = [last := row for row in rows if (size := len(row))]
            return last, size, row
    """
    assert owner(text, "last", "f") == "f"
    assert owner(text, "size", "f") == "f"
    assert owner(text, "row", "f") is None


def test_a_walrus_in_a_comprehension_in_a_lambda_binds_in_the_lambda() -> None:
    text = "f = lambda rows: ([last := row for row in rows], last)\n"
    assert owner(text, "last", "main") is None
    assert owner(text, "last", "lambda") == "<lambda>"


def test_a_walrus_in_nested_comprehensions_binds_in_the_function() -> None:
    text = "def f(rows):\n    return [[last := x for x in row] for row in rows], last\n"
    assert owner(text, "last", "f") == "f"


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("a, (b, *c) = f()", "abc"),
        ("a = b = 1", "ab"),
        ("a: int = 1", "a"),
        ("a += 1", "a"),
        ("for a, b in c: pass", "ab"),
        ("async def f():\n    async for a in b: pass", "f"),
        ("with open(p) as a, f() as (b, c): pass", "abc"),
        ("import a, b.c", "ab"),
        ("import b.c as a", "a"),
        ("from b import a, c as d", "ad"),
        ("try:\n    f()\nexcept E as a:\n    pass", "a"),
        ("def a(b): c = 1", "a"),
        ("class a(b): c = 1", "a"),
        ("if (a := f()): pass", "a"),
        ("del a", "a"),
        ("match x:\n    case [a, *b]: pass\n    case {'k': c, **d}: pass\n    case N(e=f) as g: pass", "abcdfg"),
        ("x.a = b", ""),
        ("x[a] = b", ""),
        ("print(a)", ""),
        ("lambda a: a", ""),
        ("from a import *", ""),
    ],
)
def test_what_statements_bind(statement: str, names: str) -> None:
    assert sorted(built(statement).root.writes) == list(names)


def test_parameters_are_bound_in_the_function_and_defaults_read_outside() -> None:
    text = "@wrap\ndef f(a, /, b: T = x, *c, d=y, **e) -> R:\n    pass\n"
    root, function = built(text).root, scope(text, "f")
    assert set(function.writes) == {"a", "b", "c", "d", "e"}
    assert set(root.reads) == {"wrap", "T", "x", "y", "R"}
    assert [p.arg for p in function.parameters] == ["a", "b", "d"]
    assert {k: ast.unparse(d) for k, d in function.defaults.items()} == {"b": "x", "d": "y"}


def test_defaults_of_keywords_only_and_of_none() -> None:
    function = scope("def f(a, b=1, *, c, d=None): pass", "f")
    assert {k: ast.unparse(d) for k, d in function.defaults.items()} == {"b": "1", "d": "None"}
    assert scope("class A: pass", "A").defaults == {}
    assert scope("class A: pass", "A").parameters == []


def test_what_a_class_is_given_is_evaluated_outside_it() -> None:
    root = built("@mark\nclass A(base, metaclass=meta):\n    x = y\n").root
    assert set(root.reads) == {"mark", "base", "meta"}
    assert set(root.children[0].reads) == {"y"}


def test_methods_frames_and_decorators() -> None:
    text = """\
        class A:
            @staticmethod
            def f(): return [lambda: 1 for _ in x]
            @other.staticmethod
            @wrap(1)
            async def g(self): pass
        def h(): pass
    """
    assert scope(text, "A.f").is_method
    assert scope(text, "A.g").is_method
    assert not scope(text, "h").is_method
    assert not scope(text, "A").is_function
    assert scope(text, "A.f").has_decorator("staticmethod")
    assert not scope(text, "A.g").has_decorator("staticmethod")
    assert not scope(text, "A.g").has_decorator("wrap")
    assert scope(text, "lambda").frame.qualified_name == "A.f"
    assert scope(text, "A.f").root.kind == "module"


def test_the_scope_in_which_a_node_is_evaluated() -> None:
    found = built("def f(a=g()):\n    return h()\n")
    calls = {ast.unparse(n): s.qualified_name for n, s in found.scope_of.items() if isinstance(n, ast.Call)}
    assert calls == {"g()": "main", "h()": "f"}


def test_a_star_import_binds_nothing_by_itself() -> None:
    text = "from torch import *\nx = zeros(1)\n"
    assert owner(text, "zeros", "main") is None
    assert list(built(text).root.writes) == ["x"]


def test_names_in_code() -> None:
    code = ast.parse("a = b.c(d)\ndel e\n")
    assert names_in(code) == {"a", "b", "d", "e"}
    assert names_read_in(code) == {"b", "d"}
    assert names_written_in(code) == {"a"}
    assert names_in() == frozenset()


@pytest.mark.parametrize(
    ("call", "expected"),
    [("tqdm(a, desc=b)", ["a"]), ("tqdm(iterable=a, total=b)", ["a"]), ("tqdm(total=b)", []), ("tqdm()", [])],
)
def test_what_a_progress_bar_goes_over(call: str, expected: list[str]) -> None:
    assert texts(gone_over(Facts(call).call(call))) == expected


def test_what_functions_return() -> None:
    text = "def f():\n    if a:\n        return 1\n    return\ng = lambda: 2\n"
    function, anonymous = scope(text, "f"), scope(text, "lambda")
    assert [n and ast.unparse(n) for n in returned([function, anonymous])] == ["1", None, "2"]
    assert returned([]) == []


def test_what_a_function_inside_returns_is_not_returned() -> None:
    text = """\
        def f():
            def g():
                return 1
            class A:
                def h(self):
                    return 2
            x = lambda: 3
            return 4
    """
    assert [n and ast.unparse(n) for n in returned([scope(text, "f")])] == ["4"]


@pytest.mark.parametrize("test", ['__name__ == "__main__"', "'__main__' == __name__"])
def test_the_main_guard(test: str) -> None:
    assert main_guard(built(f"x = 1\nif {test}:\n    f()\n").root) is not None


@pytest.mark.parametrize(
    "text",
    ["", 'if __name__ != "__main__":\n    f()', 'if x:\n    if __name__ == "__main__":\n        f()', "if a: f()"],
)
def test_what_is_no_main_guard(text: str) -> None:
    assert main_guard(built(text).root) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", ("x", "1")),
        ("self.x: int = 1", ("self.x", "1")),
        ("(x := 1)", ("x", "1")),
        ("x: int", None),
        ("x = y = 1", None),
        ("x += 1", None),
    ],
)
def test_what_assigns_to_one_target(text: str, expected: tuple[str, str] | None) -> None:
    statement = ast.parse(text).body[0]
    found = assignment(statement.value if isinstance(statement, ast.Expr) else statement)
    assert (found and (ast.unparse(found.target), ast.unparse(found.value))) == expected


@pytest.mark.parametrize(
    ("code", "found"), [("f(x, k=y)", ["f", "x", "y"]), ("a.b[c]", ["a.b", "c"]), ("x + 1", ["x", "1"]), ("x", [])]
)
def test_parts_of_an_expression(code: str, found: list[str]) -> None:
    assert [ast.unparse(part) for part in parts(ast.parse(code, mode="eval").body)] == found
