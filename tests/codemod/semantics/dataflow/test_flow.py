"""Facts about the flow through statements, definitions, classes and imports."""

from __future__ import annotations

import pytest

from accelify.codemod.semantics.dataflow.flow import Flow
from tests.codemod.facts import Facts, values


def test_a_program_has_a_flow() -> None:
    assert isinstance(Facts("").program.flow, Flow)


def test_statements_of_every_kind_are_evaluated() -> None:
    text = """\
        try:
            a = 1
        except E:
            a = 2
        else:
            a = 3
        finally:
            a = 4
        while f():
            a = 5
        else:
            a = 6
        with g():
            a = 7
        if h():
            a = 8
        assert k(), 'x'
        del m().n
        raise p() from q()
    """
    facts = Facts(text)
    assert facts.variable("a") == set("12345678")
    for call in ("f()", "g()", "h()", "k()", "m()", "p()", "q()"):
        assert facts.call(call) in facts.program.flow.values


def test_an_addition_in_place_keeps_what_is_listed() -> None:
    facts = Facts("a = []\na += [1]\nb = f()\nb += g()\n")
    assert facts.variable("a") == {"collection []", "collection [1]"}
    assert facts.variable("b") == {"made: f()"}


def test_a_function_of_another_file_runs_when_something_calls_it() -> None:
    files = {"main.py": "import other\nother.f(1)\n", "other.py": "def f(a): used()\ndef g(b): unused()\n"}
    facts = Facts(files)
    assert facts.call("used()") in facts.program.flow.values
    assert facts.call("unused()") not in facts.program.flow.values
    assert facts.variable("b", "g") == set()


TRIED_OUT = """\
class Net:
    def keep(self, x):
        self.kept = x
        return x
def show(x): return x
def check(y): show(y)
if __name__ == '__main__':
    net = Net()
    net.keep(2)
    show(3)
    check(4)
    new(net)
else:
    default = 5
"""


def test_what_an_imported_file_tries_out_adds_nothing_to_what_others_hold() -> None:
    files = {"main.py": "import other\nother.Net().keep(0)\nother.show(1)\n", "other.py": TRIED_OUT}
    facts = Facts(files)
    assert facts.variable("x", "Net.keep") == {"0"}
    assert facts.variable("x", "show") == {"1"}
    assert facts.values("self.kept") == {"0"}
    assert facts.variable("default", "other.py") == {"5"}


def test_what_an_imported_file_tries_out_is_followed_itself() -> None:
    facts = Facts({"main.py": "import other\nother.show(1)\n", "other.py": TRIED_OUT})
    assert facts.variable("net", "other.py") == {"a Net"}
    assert "4" in facts.variable("y", "check")
    assert facts.call("show(3)") in facts.program.flow.callees
    assert facts.call("new(net)") in facts.program.flow.values


def test_what_the_named_file_does_when_it_is_run_is_run() -> None:
    assert Facts(TRIED_OUT).variable("x", "show") == {"3", "4"}


def test_every_function_of_the_named_file_runs() -> None:
    assert values("def f(a):\n    g(a)\n", "g(a)") == {"made: g(a)"}


def test_imports_of_the_project() -> None:
    files = {
        "main.py": "import pkg.nets as n\nimport pkg\nfrom pkg import nets, size\nfrom pkg.nets import Net as N\n"
        "from missing import thing\na, b, c, d, e = n.Net(), pkg.nets.Net(), nets.size, size, N()\n",
        "pkg/__init__.py": "from .nets import size\n",
        "pkg/nets.py": "class Net: pass\nsize = 1\n",
    }
    facts = Facts(files)
    assert facts.variable("a") == facts.variable("b") == facts.variable("e") == {"a Net"}
    assert facts.variable("c") == facts.variable("d") == {"1"}
    assert facts.variable("thing") == {"missing.thing"}


def test_relative_imports() -> None:
    files = {
        "pkg/main.py": "from . import nets\nfrom .nets import size\nfrom ..top import low\nfrom .gone import x\n"
        "y = nets.size\n",
        "pkg/__init__.py": "",
        "pkg/nets.py": "size = 1\n",
        "top.py": "low = 2\n",
    }
    facts = Facts(files)
    assert facts.variable("y", "pkg/main.py") == facts.variable("size", "pkg/main.py") == {"1"}
    assert facts.variable("low", "pkg/main.py") == {"2"}
    assert facts.variable("x", "pkg/main.py") == set()  # which is not a library's


def test_star_imports_of_the_project() -> None:
    files = {"main.py": "from nets import *\na = size\n", "nets.py": "size = 1\n_hidden = 2\n"}
    facts = Facts(files)
    assert facts.variable("a") == {"1"}
    assert facts.variable("_hidden") == set()


def test_a_star_import_of_what_another_brings() -> None:
    """Whichever of the files is read first: what the names are is known once all are."""
    main = "from middle import *\na = size\ndef f(x=size): return size\nb = f()\nc = len\n"
    for middle in ("from nets import *\nown = 1\n", "own = 1\nfrom nets import *\n"):
        facts = Facts({"main.py": main, "middle.py": middle, "nets.py": "size = 1\n"})
        assert [facts.variable(name) for name in "abc"] == [{"1"}, {"1"}, {"len"}]


def test_a_module_that_imports_itself_in_a_circle() -> None:
    files = {"main.py": "import other\nx = other.y\n", "other.py": "import main\ny = 1\nz = main.x\n"}
    assert Facts(files).variable("z", "other.py") == {"1"}


def test_submodules_of_a_library_and_of_the_project() -> None:
    assert values("import torch.nn.functional\nx = torch.nn.functional.relu\n", "torch.nn.functional.relu") == {
        "torch.nn.functional.relu"
    }
    assert values("import torch.nn.functional as F\nx = F.relu\n", "F.relu") == {"torch.nn.functional.relu"}


def test_self_may_be_of_any_class_of_the_family() -> None:
    facts = Facts("class A:\n    def f(self): pass\nclass B(A): pass\n")
    assert facts.variable("self", "A.f") == {"a A", "a B"}


def test_nested_classes_and_functions() -> None:
    text = """\
        class A:
            class B:
                size = 1
            def f(self):
                def g():
                    nonlocal x
                    x = 2
                x = 0
                g()
                return x
        y = A.B.size
        z = A().f()
    """
    facts = Facts(text)
    assert facts.variable("y") == {"1"}
    assert facts.variable("z") == {"0", "2"}


def test_globals_that_functions_set() -> None:
    facts = Facts("best = None\ndef f():\n    global best\n    best = 1\nx = best\n")
    assert facts.variable("x") == {"None", "1"}


def test_async_loops_and_withs() -> None:
    text = "async def f():\n    async for x in [1]: pass\n    async with g() as y: pass\n"
    facts = Facts(text)
    assert facts.variable("x", "f") == {"1"}
    assert facts.variable("y", "f") == {"made: g()"}


def test_what_is_called_in_two_ways_grows_until_nothing_does() -> None:
    text = "def f(x):\n    return [x]\ny = f(1)\nz = f(y)\nfor w in z: pass\n"
    assert Facts(text).variable("w") == {"1", "collection [x]"}


@pytest.mark.parametrize("imported", ["from other import *", "from other import f"])
@pytest.mark.parametrize("again", ["def f(a): own(a)", "class f:\n    def __init__(self, a): own(a)"])
def test_what_a_file_defines_again_is_its_own(imported: str, again: str) -> None:
    other = "def f(a): theirs(a)\n"
    facts = Facts({"main.py": f"{imported}\n{again}\nf(1)\n", "other.py": other})
    assert facts.call("own(a)") in facts.program.flow.values
    assert facts.call("theirs(a)") not in facts.program.flow.values
    before = Facts({"main.py": f"{again}\n{imported}\nf(1)\n", "other.py": other})
    assert before.call("theirs(a)") in before.program.flow.values


REGISTRY = """\
KINDS = {}
def add(given):
    KINDS[given.__name__] = given
    return given
def wrap(given):
    KINDS["x"] = given
    return lambda: given()
"""


@pytest.mark.parametrize(
    ("decorated", "kept"),
    [
        ("@add\nclass Net: pass", {"class Net"}),
        ("@wrap\nclass Net: pass", {"class Net"}),
        ("@add\ndef run(): pass", {"function run"}),
        ("@wrap\ndef run(): pass", set()),
        ("def run(): pass", set()),
    ],
)
def test_what_decorators_keep_of_what_they_are_given(decorated: str, kept: set[str]) -> None:
    found = Facts(f"{REGISTRY}{decorated}\nmade = KINDS[name]\n").variable("made")
    assert {f for f in found if f.startswith(("class", "function"))} == kept


GROUPED = "class A:\n    def f(a, b): return a\n    def g(a): return A.f(a, 1)\n"


@pytest.mark.parametrize(
    ("use", "plain"),
    [
        ("A.f(1, 2)", set()),  # `g` may be called with an instance
        ("A.g(1)", {"A.f", "A.g"}),
        ("A.f(1, 2)\nA().f(2)", set()),
        ("x = A()\nA.f(x, 2)", set()),
        ("x = A()\nA.g(x)", set()),
        ("class B(A):\n    def f(self, b): return A.f(self, b)\nB().f(1)", set()),
        ("A().g()", set()),
    ],
)
def test_functions_that_a_class_only_groups_get_no_instance(use: str, plain: set[str]) -> None:
    facts = Facts(f"{GROUPED}{use}\n")
    assert {s for s in ("A.f", "A.g") if facts.scope(s).is_static} == plain


def test_what_is_called_on_the_first_argument_of_a_grouped_function_says_nothing() -> None:
    text = "from torch import nn\nclass A:\n    def train(n):\n        A.step(nn.Linear(n, 1))\n"
    facts = Facts(f"{text}    def step(model):\n        model.train()\nA.train(3)\n")
    assert facts.scope("A.train").is_static
    assert facts.scope("A.step").is_static


def test_a_decorated_function_may_get_an_instance() -> None:
    facts = Facts("from other import bind\nclass A:\n    @bind\n    def f(a): return a\nA.f(1)\n")
    assert not facts.scope("A.f").is_static
