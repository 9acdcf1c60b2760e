"""Facts about where things were bound: from an expression back to its origin."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.provenance import wrapped_by
from tests.codemod.facts import Facts, texts


def ways(text: str | dict[str, str], node: str) -> set[tuple[str, ...]]:
    """The chains of an expression, each as `kind text`, from the inside out."""
    facts = Facts(text)
    chains = facts.tracer.chains(facts.expression(node))
    return {tuple(f"{b.kind} {b.text}" for b in chain) for chain in chains}


def test_a_variable_and_its_copies() -> None:
    assert ways("a = f()\nb = a\nuse(b)\n", "b#2") == {("assign b", "assign a")}
    assert ways("a = f()\nuse(a)\n", "a#2") == {("assign a",)}


def test_what_never_gets_a_name() -> None:
    assert ways("use(f())\n", "f()") == {("inline f()",)}
    assert ways("use(1 + 2)\n", "1 + 2") == set()
    assert ways("use(undefined)\n", "undefined") == set()


def test_branches_give_several_ways() -> None:
    assert ways("if p:\n    a = f()\nelse:\n    a = g()\nuse(a)\n", "a#3") == {("assign a",)}
    facts = Facts("if p:\n    a = f()\nelse:\n    a = g()\nuse(a)\n")
    values = {ast.unparse(c[-1].value) for c in facts.tracer.chains(facts.expression("a#3")) if c[-1].value}
    assert values == {"f()", "g()"}
    assert ways("a = f()\nb = g()\nuse(a if p else b, a or b)\n", "a if p else b") == {("assign a",), ("assign b",)}
    assert ways("a = f()\nb = g()\nuse(a or b)\n", "a or b") == {("assign a",), ("assign b",)}


def test_only_the_last_binding_before_the_read() -> None:
    facts = Facts("a = f()\na = g()\nuse(a)\na = h()\n")
    values = [ast.unparse(c[-1].value) for c in facts.tracer.chains(facts.expression("a#3")) if c[-1].value]
    assert values == ["g()"]


def test_a_parameter_leads_to_its_arguments() -> None:
    text = "def train(model): use(model)\nnet = f()\ntrain(net)\ntrain(model=g())\n"
    assert ways(text, "model") == {("parameter model", "assign net"), ("parameter model", "inline g()")}
    assert ways("def train(model): use(model)\n", "model") == {("parameter model",)}


def test_a_property_that_is_an_argument() -> None:
    text = """\
class A:
    {0}
    def part(self): return f()
def train(x): use(x)
a = A()
b = a.part
train(b)
train(a.part)
"""
    assert ways(text.format("@property"), "x") == {("parameter x", "assign b"), ("parameter x", "inline a.part")}
    assert ways(text.format("# no property"), "x") == {("parameter x", "assign b")}


def test_attributes_lead_to_their_assignments() -> None:
    text = """\
        class A:
            def __init__(self, net):
                self.net = net
            def fit(self):
                use(self.net)
        class B:
            def __init__(self):
                self.net = other()
        A(f())
    """
    assert ways(text, "self.net#2") == {("assign self.net", "parameter net", "inline f()")}


def test_what_only_hands_on() -> None:
    text = "from torch import nn\nfrom tqdm import tqdm\na = f()\n"
    assert ways(f"{text}use(a.to(d))\n", "a.to(d)") == {("assign a",)}
    assert ways(f"{text}use(nn.DataParallel(a))\n", "nn.DataParallel(a)") == {("assign a",)}
    assert ways(f"{text}use(tqdm(a))\n", "tqdm(a)") == {("assign a",)}
    assert ways(f"{text}use(enumerate(a))\n", "enumerate(a)") == {("assign a",)}
    assert ways(f"{text}use(g(a))\n", "g(a)") == {("inline g(a)",)}
    assert ways(f"{text}use(a.copy())\n", "a.copy()") == {("inline a.copy()",)}


def test_a_zip_leads_to_all_that_it_goes_over() -> None:
    assert ways("a, b = f(), g()\nuse(zip(a, b))\n", "zip(a, b)") == {("assign a",), ("assign b",)}


def test_a_function_that_gives_its_argument_back() -> None:
    text = "def adjust(o, lr):\n    o.lr = lr\n    return o\na = f()\nuse(adjust(a, 1))\n"
    assert ways(text, "adjust(a, 1)") == {("assign a",)}


def test_a_function_inside_does_not_count_as_giving_back() -> None:
    text = "def adjust(o):\n    def g():\n        return 1\n    return o\na = f()\nuse(adjust(a))\n"
    assert ways(text, "adjust(a)") == {("assign a",)}
    other = "def adjust(o):\n    def g():\n        return o\n    return 1\na = f()\nuse(adjust(a))\n"
    assert ways(other, "adjust(a)") == {("inline adjust(a)",)}


def test_a_function_that_binds_its_parameter_anew_gives_something_else() -> None:
    text = "def adjust(o):\n    o = wrap(o)\n    return o\na = f()\nuse(adjust(a))\n"
    assert ways(text, "adjust(a)") == {("inline adjust(a)",)}


def test_items_of_literals_are_what_was_listed() -> None:
    text = "a, b = f(), g()\nd = {'train': a, 'val': b}\nt = [a, b]\nuse(d['train'], t[1], d[k], d['other'])\n"
    assert ways(text, "d['train']") == {("assign a",)}
    assert ways(text, "t[1]") == {("assign b",)}
    assert ways(text, "d[k]") == {("item d[k]", "assign d")}
    assert ways(text, "d['other']") == {("item d['other']", "assign d")}


def test_items_of_dicts_made_by_their_function() -> None:
    text = "a, b = f(), g()\nd = dict(train=a, val=b, **more)\nuse(d['train'], d['val'], d['other'], d[k])\n"
    assert ways(text, "d['train']") == {("assign a",)}
    assert ways(text, "d['val']") == {("assign b",)}
    assert ways(text, "d['other']") == {("item d['other']", "assign d")}
    assert ways(text, "d[k]") == {("item d[k]", "assign d")}
    assert ways(f"def dict(**k): return k\n{text}", "d['train']") == {("item d['train']", "assign d")}


def test_unpacking_pairs_the_parts() -> None:
    facts = Facts("a, b = f(), g()\nc, d = h()\nuse(b, d)\n")
    (chain,) = facts.tracer.chains(facts.expression("b#2"))
    assert chain[-1].value is not None
    assert ast.unparse(chain[-1].value) == "g()"
    (other,) = facts.tracer.chains(facts.expression("d#2"))
    assert other[-1].value is None  # a part of something


def test_loops_over_literals() -> None:
    text = "a, b = f(), g()\nfor x in (a, b): use(x)\n"
    assert ways(text, "x#2") == {("assign a",), ("assign b",)}
    pairs = "a, b = f(), g()\nfor n, x in [('train', a), ('val', b)]: use(x)\n"
    assert ways(pairs, "x#2") == {("assign a",)}  # the one that trains
    assert ways("for x in rows: use(x)\n", "x#2") == set()


def test_imports() -> None:
    files = {"main.py": "from nets import net\nuse(net)\n", "nets.py": "net = f()\n"}
    assert ways(files, "net") == {("import net", "assign net")}
    assert ways("from lib import net\nuse(net)\n", "net") == {("import net",)}
    starred = {"main.py": "from middle import *\nuse(net)\n", "middle.py": "from nets import *\n"}
    assert ways({**starred, "nets.py": "net = f()\n"}, "net") == {("assign net",)}
    assert ways("import torch\nuse(torch)\n", "torch") == {("import torch",)}


def test_a_walrus_a_with_and_an_annotation() -> None:
    assert ways("use(a := f())\n", "(a := f())") == {("inline f()",)}
    assert ways("with f() as a:\n    use(a)\n", "a#2") == {("assign a",)}
    assert ways("a: T = f()\nuse(a)\n", "a#2") == {("assign a",)}


def test_circles_end() -> None:
    assert ways("while p:\n    a, b = b, a\nuse(a)\n", "a#3") <= {
        ("assign a",),
        ("assign a", "assign b"),
        ("assign b",),
    }
    assert ways("def f(x):\n    f(x)\n    use(x)\n", "x#2") == {("parameter x",)}


@pytest.mark.parametrize(
    ("call", "name", "expected"),
    [
        ("f(1, 2)", "b", "2"),
        ("f(1, b=2)", "b", "2"),
        ("f(1)", "b", "0"),
        ("f(*args)", "b", None),
        ("f(1, **more)", "b", None),
        ("f(1, 2, k=3)", "k", "3"),
        ("f(1, 2)", "k", "None"),
        ("f(1, 2)", "missing", None),
    ],
)
def test_what_a_call_gives_a_parameter(call: str, name: str, expected: str | None) -> None:
    facts = Facts(f"def f(a, b=0, *, k=None): pass\n{call}\n")
    given = facts.tracer.given(facts.call(call), facts.scope("f"), name)
    assert (given and ast.unparse(given)) == expected


def test_what_a_call_gives_a_method() -> None:
    text = "class A:\n    def f(self, a): pass\n    @staticmethod\n    def g(a): pass\n"
    facts = Facts(text + "x = A()\nx.f(1)\nA.f(x, 2)\nx.g(3)\n")

    def argument(call: str, function: str) -> str:
        found = facts.tracer.argument(facts.call(call), facts.scope(function), "a")
        return "" if found is None else ast.unparse(found)

    assert argument("x.f(1)", "A.f") == "1"
    assert argument("A.f(x, 2)", "A.f") == "2"
    assert argument("x.g(3)", "A.g") == "3"


def test_where_a_variable_is_bound() -> None:
    facts = Facts("a = 1\ndef f():\n    global a\n    a = 2\n")
    assert len(facts.tracer.writes(facts.scope("main.py"), "a")) == 2
    assert facts.tracer.writes(facts.scope("f"), "missing") == []


def test_what_a_loop_goes_over() -> None:
    facts = Facts("for i, x in enumerate(tqdm(loader, desc='x')): pass\nfor y in sorted(rows): pass\n")
    loop, other = facts["for i"], facts["for y"]
    assert isinstance(loop, ast.For)
    assert isinstance(other, ast.For)
    assert ast.unparse(facts.tracer.inside(loop.iter)) == "loader"
    assert ast.unparse(facts.tracer.inside(other.iter)) == "sorted(rows)"
    assert ast.unparse(facts.tracer.inside(other.iter, "sorted")) == "rows"


@pytest.mark.parametrize(
    ("over", "inside"),
    [
        ("iter(loader)", "loader"),
        ("tqdm(iter(loader))", "loader"),
        ("enumerate(iter(loader))", "loader"),
        ("iter(file.read, '')", "iter(file.read, '')"),
    ],
)
def test_an_iterator_is_what_it_goes_over(over: str, inside: str) -> None:
    facts = Facts(f"for i in {over}: pass\n")
    loop = facts["for i"]
    assert isinstance(loop, ast.For)
    assert ast.unparse(facts.tracer.inside(loop.iter)) == inside


@pytest.mark.parametrize(
    ("call", "shows"),
    [
        *((call, True) for call in ("tqdm(a)", "tqdm.auto.tqdm(a)", "progress_bar(a)", "track(a)")),
        *((call, False) for call in ("list(a)", "tqdm()", "tqdm(total=3)", "x[0](a)")),
    ],
)
def test_progress_bars(call: str, shows: bool) -> None:
    facts = Facts(call)
    assert facts.tracer.is_progress(facts.call(call)) is shows


def test_the_model_of_a_wrapper() -> None:
    facts = Facts("D(a)\nD(module=b)\nD(model=c, x=d)\nD(x=e)\n")
    found = [wrapped_by(c) for c in facts.program.calls]
    assert texts(n for n in found if n is not None) == ["a", "b", "c"]
    assert found[-1] is None
