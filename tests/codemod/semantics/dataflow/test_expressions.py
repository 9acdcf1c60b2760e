"""Facts about expressions: what each kind may hold, and where an assignment puts it."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.dataflow.expressions import Expressions
from accelify.codemod.semantics.values import ModuleValue
from tests.codemod.facts import Facts, values


def test_the_flow_evaluates_expressions() -> None:
    assert isinstance(Facts("f()").program.flow, Expressions)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1", {"1"}),
        ("None", {"None"}),
        ("True", {"True"}),
        ("'a'", {"'a'"}),
        ("1.5", set()),  # numbers with a point are not told apart
        ("b'a'", set()),
        ("...", set()),
        ("1 if p else 2", {"1", "2"}),
        ("p and 1 or 2", {"p", "1", "2"}),
        ("not 1", set()),
        ("1 + 2", set()),
        ("1 < 2", set()),
        ("f'cuda:{n}'", {"'cuda:'"}),
        ("f'{n}'", set()),
        ("'cuda:' + str(n)", {"'cuda:'"}),
        ("'cuda:%d' % n", {"'cuda:%d'"}),
        ("[1] + [2]", {"collection [1]", "collection [2]"}),
        ("(lambda: 1)", {"function <lambda>"}),
        ("(q := 1)", {"1"}),
        ("undefined", {"undefined"}),
        ("undefined.part", {"undefined.part"}),
        ("undefined[0]", set()),
        ("{**a, 'x': 1}", {"collection {**a, 'x': 1}"}),
        ("{1, 2}", {"collection {1, 2}"}),
    ],
)
def test_what_expressions_hold(expression: str, expected: set[str]) -> None:
    assert Facts(f"y = {expression}\n").variable("y") == expected


def test_operations_on_a_batch_are_of_the_batch() -> None:
    text = "for x, y in loader():\n    f(x + 1, -x, x == y, [x], x @ undefined)\n"
    element = "element of made: loader()"
    for part in ("x + 1", "-x", "x == y", "x @ undefined"):
        assert values(text, part) == {element}
    assert values(text, "[x]") == {"collection [x]"}


def test_comprehensions() -> None:
    text = "a = [x for x in [1]]\nb = {k: 2 for k in ['k']}\nf(a[0], b['k'], b['other'])\n"
    assert values(text, "a[0]") == {"1"}
    assert values(text, "b['k']") == {"2"}
    assert values(text, "b['other']") == set()


def test_a_comprehension_of_a_batch_is_a_batch() -> None:
    text = "for batch in loader():\n    moved = {k: v.to(d) for k, v in batch.items()}\n"
    assert "element of made: loader()" in Facts(text).variable("moved")


def test_a_walrus_in_a_comprehension_reaches_the_function() -> None:
    text = "def f():\n    a = [last for x in [1] if (last := x)]\n    return last\ny = f()\n"
    assert Facts(text).variable("y") == {"1"}


def test_assignments() -> None:
    text = """\
        class A: pass
        a = A()
        b = c = 1
        (d, [e, f]), g = (2, [3, 4]), 5
        a.h, a.i[0] = 6, 7
        j: int = 8
        k: int
        with open_it() as (l, m): pass
        for n, o in [(9, 10)]: pass
        p = 11
        p += 12
    """
    facts = Facts(text)
    found = {name: facts.variable(name) for name in "bcdefgjknop"}
    assert found.pop("p") == {"11", "12"}
    assert found.pop("k") == set()
    assert found == {k: {n} for k, n in zip("bcdefgjno", "1 1 2 3 4 5 8 9 10".split(), strict=True)}
    assert facts.values("a.h") == {"6"}


def test_swapping_keeps_both() -> None:
    facts = Facts("a, b = 1, 2\na, b = b, a\n")
    assert facts.variable("a") == facts.variable("b") == {"1", "2"}


def test_star_imports_of_libraries() -> None:
    assert values("from torch.nn import *\nx = Linear(1, 1)\n", "Linear") == {"torch.nn.Linear"}
    assert values("from somewhere import *\nx = Linear(1, 1)\n", "Linear") == {"Linear"}


@pytest.mark.parametrize("name", ["enumerate", "print", "zip", "list"])
def test_a_builtin_stays_what_it_is_below_star_imports(name: str) -> None:
    assert values(f"from torch.nn import *\nfrom torchvision.transforms import *\nx = {name}(y)\n", name) == {name}


@pytest.mark.parametrize(
    ("code", "name", "known"),
    [
        ("from tqdm import *\nfrom torchvision.transforms import *\nx = tqdm(y)\n", "tqdm", "tqdm.tqdm"),
        ("from torchvision.transforms import *\nfrom tqdm import *\nx = tqdm(y)\n", "tqdm", "tqdm.tqdm"),
        ("from torchvision.models import *\nfrom torch.nn import *\nx = Linear(1, 1)\n", "Linear", "torch.nn.Linear"),
        ("from torch import *\nx = sum(y)\n", "sum", "torch.sum"),
        ("from torch import *\nfrom numpy import *\nx = concatenate(y)\n", "concatenate", "numpy.concatenate"),
        ("from torch.nn import *\nfrom other import *\nx = NewLayer(y)\n", "NewLayer", "torch.nn.NewLayer"),
    ],
)
def test_of_several_star_imports_the_one_that_is_known_to_have_a_name(code: str, name: str, known: str) -> None:
    assert values(code, name) == {known}


def test_a_function_that_is_handed_on_escapes() -> None:
    facts = Facts("def f(): pass\ndef g(): pass\ndef h(): pass\nf()\nother(g)\nx = h\n")
    flow = facts.program.flow
    assert facts.scope("f") not in flow.escaped
    assert {facts.scope("g"), facts.scope("h")} <= flow.escaped
    assert facts.scope("g") in flow.lost
    assert facts.scope("h") not in flow.lost  # the calls of a variable are known


@pytest.mark.parametrize("line", ["if f: pass", "x = 1 if not f else 2", "f is None", "while a and f: break"])
def test_a_function_that_is_only_asked_for_is_not_lost(line: str) -> None:
    facts = Facts(f"def f(): pass\n{line}\n")
    assert facts.scope("f") not in facts.program.flow.lost


def test_yields_of_a_lambda_and_of_nested_functions() -> None:
    facts = Facts("def f():\n    def g():\n        yield 1\n    return g\nfor x in f()(): pass\n")
    assert "1" in facts.variable("x")
    assert not facts.scope("f").generates
    assert facts.scope("f.g").generates


def test_match_evaluates_its_subject_and_bodies() -> None:
    text = "match f(1):\n    case [a]:\n        x = 2\n    case _:\n        x = 3\n"
    assert Facts(text).variable("x") == {"2", "3"}
    assert values(text, "f(1)") == {"made: f(1)"}


IMPORTED = "import nets\nfor x in (3,):\n    {before}\n    nets = f(x)\n    g = nets\n    {after}\n"


@pytest.mark.parametrize(
    ("before", "after", "is_module"),
    [
        ("nets", "if g: h = 3", {"g = nets": False}),
        ("first = nets.x", "with g:\n        last = nets", {"first = nets.x": True, "last = nets": False}),
        ("if x: nets = 3", "import nets\n    last = nets", {"last = nets": True}),
        ("pass", "def inside():\n        last = nets", {"last = nets": True}),
    ],
)
def test_a_module_s_name_that_gets_another_value(before: str, after: str, is_module: dict[str, bool]) -> None:
    facts = Facts({"main.py": IMPORTED.format(before=before, after=after), "nets.py": "x = 1\n"})
    reads = {ast.unparse(facts.program.statement(n)): n for n in facts.files[0].nodes if _is_read_of(n, "nets")}
    found = {text: any(isinstance(v, ModuleValue) for v in facts.program.values(reads[text])) for text in is_module}
    assert found == is_module


def _is_read_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
