"""Facts about calls: what reaches the parameters, and what comes back."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.dataflow.calls import Calls
from tests.codemod.facts import Facts, described, values


def test_the_flow_is_made_of_calls() -> None:
    assert isinstance(Facts("f()").program.flow, Calls)


def test_arguments_reach_parameters() -> None:
    facts = Facts("def f(a, /, b, *rest, c=3, **more): pass\nf(1, 2, 4, 5, c=6, d=7)\n")
    assert facts.variable("a", "f") == {"1"}
    assert facts.variable("b", "f") == {"2"}
    assert facts.variable("c", "f") == {"3", "6"}
    assert facts.variable("rest", "f") == {"collection rest"}
    assert facts.variable("more", "f") == {"collection more"}


def test_what_rest_parameters_hold() -> None:
    text = "def f(*rest, **more):\n    for r in rest: pass\n    g(more['d'], more['e'])\nf(1, 2, d=7, e=8)\n"
    assert Facts(text).variable("r", "f") == {"1", "2"}
    assert values(text, "more['d']") == {"7"}


def test_a_default_of_none_is_no_value() -> None:
    assert Facts("def f(a=None): pass\nf()\n").variable("a", "f") == {"argument a of f"}
    assert Facts("def f(a=None): pass\nf(None)\n").variable("a", "f") == {"None"}


def taken(call: str, before: str = "", parameters: str = "a, b, c=None") -> tuple[set[str], ...]:
    """What the parameters `a`, `b` and `c` of a function get from a call of it."""
    facts = Facts(f"{before}\ndef f({parameters}): pass\n{call}\n")
    return tuple(facts.variable(name, "f") for name in "abc")


def test_a_star_of_known_length_fills_one_parameter_after_the_other() -> None:
    assert taken("f(1, *[2, 3])") == ({"1"}, {"2"}, {"3"})
    assert taken("f(*pair(), 3)", "def pair(): return 1, 2") == ({"1"}, {"2"}, {"3"})
    assert taken("g(1, 2, 3)", "def g(*args): return f(*args)") == ({"1"}, {"2"}, {"3"})
    assert taken("f(*(1, 2), *(3,))") == ({"1"}, {"2"}, {"3"})


def test_what_follows_a_star_of_unknown_length_reaches_each_place_that_it_may_have() -> None:
    assert taken("f(1, *items)", "items = []\nitems.append(2)") == ({"1"}, {"2"}, {"2"})
    assert taken("f(*items, 3)", "items = []\nitems.append(2)") == ({"2"}, {"2", "3"}, {"3"})
    assert taken("f(*unknown(), 3)")[2] == {"3"}
    assert taken("f(*items)", "items = [1, 2]\nitems.append(3)") == ({"1"}, {"2"}, {"3"})
    assert taken("f(*items, *items)", "items = [1]\nitems.append(3)") == ({"1"}, {"1", "3"}, {"1", "3"})
    assert taken("f(*items, b=3)", "items = []\nitems.append(2)") == ({"2"}, {"3"}, {"argument c of f"})
    assert taken("f(*items, **dict(c=3))", "items = []\nitems.append(2)") == ({"2"}, {"2"}, {"3"})
    assert taken("g(*items)", "def g(*args): f(args[0], args[1])\nitems = []\nitems.append(2)")[:2] == ({"2"}, {"2"})


OPTIONS = {
    "f(**dict(a=1, b=2))": "",
    "f(1, **{'b': 2})": "",
    "f(**options)": "options = {'a': 1}; options['b'] = 2",
    "f(1, **options)": "options = {}; options.update(b=2)",
    "f(**{**options, 'b': 2})": "options = dict(a=1)",
    "f(b=2, **dict(options))": "options = {'a': 1}",
    "f(**(options | {'b': 2}))": "options = {'a': 1}",
    "g(1, b=2)": "def g(*args, **options): return f(*args, **options)",
    "partial(f, 1)(2)": "from functools import partial",
    "h = functools.partial(f, b=2); h(1)": "import functools",
    "partial(partial(f, 3), b=2)(a=1)": "from functools import partial",
}


@pytest.mark.parametrize("call", OPTIONS)
def test_options_and_partials_hand_over_what_they_hold(call: str) -> None:
    a, b, c = taken(call, OPTIONS[call], "a, b, c=None" if "3" not in call else "c, b, a")
    assert (a, b) == ({"1"}, {"2"})
    assert c == ({"3"} if "3" in call else {"argument c of f"})


def test_a_partial_of_a_partial_that_one_call_makes_comes_to_an_end() -> None:
    text = """\
from functools import partial
def f(a, b=0, c=0): return a
def given(function, **options): return partial(function, **options)
g = given(f, b=1)
h = given(g, c=2)
x = h(3)
"""
    assert "3" in Facts(text).variable("x")


def test_a_dictionary_of_attributes_hands_over_the_attributes() -> None:
    before = "import argparse\nargs = argparse.ArgumentParser().parse_args()\nargs.a = 1"
    assert taken("f(**vars(args))", before)[0] == {"1"}
    assert taken("f(**args.__dict__)", before)[0] == {"1"}


def test_methods_get_their_instance() -> None:
    text = "class A:\n    def f(self, x): return self\na = A()\nb = a.f(1)\nc = A.f(a, 2)\n"
    facts = Facts(text)
    assert facts.variable("b") == facts.variable("c") == {"a A"}
    assert facts.variable("x", "A.f") == {"1", "2"}


def test_constructors() -> None:
    text = """\
        class A:
            def __init__(self, x): self.x = x
            def __enter__(self): return self.x
            def __call__(self, y): return y
        class B(A): pass
        class C: pass
        a, b, c = A(1), B(2), C()
        d, e = a(3), c(4)
    """
    facts = Facts(text)
    assert facts.variable("a") == {"a A"}
    assert facts.variable("b") == {"a B"}
    assert facts.variable("x", "A.__init__") == {"1", "2"}
    assert facts.variable("d") == {"3"}
    assert facts.variable("e") == {"unknown: c(4)"}


def test_a_module_is_called_through_forward() -> None:
    text = """\
        from torch import nn
        class Net(nn.Module):
            def forward(self, x): return (x, 1)
            def __call__(self, x): return 2
        out = Net()(0)
    """
    assert Facts(text).variable("out") == {"collection (x, 1)"}


def test_a_function_that_returns_nothing_is_unknown_where_it_is_called() -> None:
    assert values("def f(): pass\nx = f()\n", "f()") == {"unknown: f()"}


def test_recursion_ends() -> None:
    text = "def f(n):\n    if n:\n        return 1\n    return f(n - 1)\nx = f(3)\n"
    assert Facts(text).variable("x") == {"1"}
    assert Facts("def f(n):\n    return f(n)\nx = f(3)\n").variable("x") != set()


def test_generators() -> None:
    text = "def f():\n    yield 1\n    yield from [2]\ng = f()\nfor x in g: pass\n"
    facts = Facts(text)
    assert "generator f" in facts.variable("g")
    assert {"1", "2"} <= facts.variable("x")


def test_async_functions_and_await() -> None:
    text = "async def f(): return 1\nasync def main():\n    x = await f()\n"
    assert Facts(text).variable("x", "main") == {"1"}


def test_lambdas_partials_and_functions_as_values() -> None:
    text = "def f(x): return x\ng = f\nh = lambda y: y\na, b, c = g(1), h(2), (f if p else h)(3)\n"
    facts = Facts(text)
    assert facts.variable("a") == {"1", "3"}
    assert facts.variable("b") == {"2", "3"}
    assert facts.variable("c") == {"1", "2", "3"}  # without calling contexts
    assert facts.program.flow.escaped >= {facts.scope("f")}


def test_a_decorator_that_may_change_the_signature() -> None:
    facts = Facts(
        "@other\ndef f(): pass\n@torch.no_grad()\ndef g(): pass\nclass A:\n    @property\n    def h(self): pass\n"
    )
    assert facts.scope("f") in facts.program.flow.lost
    assert facts.scope("g") not in facts.program.flow.lost
    assert facts.scope("A.h") not in facts.program.flow.lost


def test_who_calls_whom() -> None:
    text = "def f(): pass\ndef g(): f()\nf()\ng()\nprint(f)\n"
    facts = Facts(text)
    flow = facts.program.flow
    assert len(flow.callers[facts.scope("f")]) == 2
    assert flow.callees[facts.call("g()")] == {facts.scope("g")}
    assert not flow.callees.get(facts.call("print(f)"))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.zeros(3)", {"made: torch.zeros(3)"}),
        ("undefined(3)", {"made: undefined(3)"}),
        ("getattr(torch, 'zeros')", {"torch.zeros"}),
        ("getattr(torch.optim, name)", {"torch.optim.?"}),
        ("getattr(a, 'x')", {"1"}),
        ("next(iter([1]))", {"1"}),
        ("next(it)", {"2"}),
        ("dict(x=1)", {"collection dict(x=1)"}),
        ("nn.DataParallel(net)", {"a A"}),
        ("nn.DataParallel(module=net)", {"a A"}),
        ("torch.compile(net)", {"a A"}),
        ("torch.tensor(1)", set()),
        ("torch.autograd.Variable(torch.ones(3))", {"made: torch.ones(3)"}),
        ("torch.autograd.Variable(1)", {"1"}),
        ("net.to('cpu')", {"a A"}),
        ("'cuda:{}'.format(0)", {"'cuda:{}'"}),
        ("'x{}'.format(0)", {"unknown: 'x{}'.format(0)"}),
        ("net.parameters()", {"parameters of a A"}),
        ("(1)()", set()),
    ],
)
def test_what_library_functions_return(expression: str, expected: set[str]) -> None:
    text = f"""\
        import torch
        from torch import nn
        class A:
            def __init__(self): self.x = 1
        class It:
            def __iter__(self): return self
            def __next__(self): return 2
        a = net = A()
        it = It()
        y = {expression}
    """
    assert Facts(text).variable("y") - {"element of a It"} == expected


def test_setattr_and_a_name_that_is_not_known() -> None:
    text = "class A: pass\na = A()\nsetattr(a, 'x', 1)\nsetattr(a, name, 2)\nf(a.x, a.y)\n"
    assert values(text, "a.x") == {"1"}
    assert values(text, "a.y") == {"a A.y"}


def test_getattr_of_a_module_of_the_project_may_be_any_of_its_functions() -> None:
    files = {
        "main.py": "import nets\nx = getattr(nets, name)()\n",
        "nets.py": "class A: pass\nclass B: pass\nsize = 1\n",
    }
    assert Facts(files).variable("x") == {"a A", "a B"}


@pytest.mark.parametrize(
    "name", ["'on_' + event", "f'on_{event}'", "'on_%s' % event", "'on_{}'.format(event)", "'on_' + event, None"]
)
def test_getattr_of_an_object_may_be_any_method_whose_name_begins_so(name: str) -> None:
    text = f"""\
        class Base:
            def on_start(self): return first()
        class Own(Base):
            def on_end(self, x): return second()
            def end(self): return third()
        def run(event):
            return getattr(Own(), {name})()
    """
    facts = Facts(text)
    assert {s.name for s in facts.program.flow.callees[facts.call("getattr")]} == {
        "on_start"
    }  # the other one takes an argument


def test_getattr_of_an_object_by_a_name_of_which_nothing_is_known() -> None:
    assert values("class A:\n    def f(self): pass\nx = getattr(A(), name)\n", "x") == set()


OUTPUT = """\
class Output:
    def __init__(self): self.file = None
    def write(self, text): return first()
    def __setitem__(self, key, value): return second()
    def __getattr__(self, name): return third()
"""


@pytest.mark.parametrize(
    ("given", "run"),
    [
        ("sys.stdout = Output()", True),
        ("logging.getLogger('a').addHandler(Output())", True),
        ("contextlib.redirect_stdout(Output())", True),
        ("print(Output())", False),
        ("x = f()\nx.output = Output()", False),
        ("rows = []\nrows.append(Output())", False),
    ],
)
def test_a_library_runs_the_methods_of_what_it_keeps(given: str, run: bool) -> None:
    text = f"import sys, logging, contextlib\nfrom output import Output\n{given}\n"
    facts = Facts({"main.py": text, "output.py": OUTPUT})
    assert (facts.call("first()") in facts.program.flow.values) is run


def test_python_runs_methods_that_no_call_names() -> None:
    facts = Facts({"main.py": "from output import Output\nOutput()\n", "output.py": OUTPUT})
    run = {c for c in ("first()", "second()", "third()") if facts.call(c) in facts.program.flow.values}
    assert run == {"second()", "third()"}


def test_a_loader_runs_what_it_is_given() -> None:
    text = """\
        from torch.utils.data import DataLoader
        from data import Rows, join
        loader = DataLoader(Rows(), collate_fn=join)
    """
    rows = "class Rows:\n    def __getitem__(self, i): return one()\n    def other(self): return two()\n"
    data = rows + "def join(rows): return three()\n"
    facts = Facts({"main.py": text, "data.py": data})
    called = {c for c in ("one()", "two()", "three()") if facts.call(c) in facts.program.flow.values}
    assert called == {"one()", "three()"}


def test_map_gives_the_function_its_elements() -> None:
    facts = Facts("def f(x): return 'y'\nfor y in map(f, [1]): pass\n")
    assert facts.variable("x", "f") == {"1"}
    assert facts.variable("y") == {"'y'"}


def test_super_outside_a_class_is_nothing() -> None:
    assert values("x = super().f\n", "super()") == set()


def test_a_call_of_nothing_known() -> None:
    text = "def f(callback): return callback(1)\n"
    assert values(text, "callback(1)") == {"unknown: callback(1)"}
    assert described([]) == set()


@pytest.mark.parametrize(
    "net",
    [
        "nets.__dict__[name]()",
        "nets.__dict__['small']()",
        "vars(nets)[name]()",
        "getattr(nets, name)()",
        "nets.__dict__['Net']()",
    ],
)
def test_a_function_that_is_picked_by_its_name_from_a_module(net: str) -> None:
    nets = "class Net: pass\ndef small(): return Net()\n"
    facts = Facts({"main.py": f"import nets\nname = input()\nnet = {net}", "nets.py": nets})
    assert facts.variable("net") == {"a Net"}


@pytest.mark.parametrize(
    ("call", "called"),
    [
        ("(1)", {"f", "h"}),
        ("(1, 2)", {"g", "h"}),
        ("(1, b=2)", {"g", "h"}),
        ("(c=3)", {"C.__init__", "h"}),
        ("(*x)", {"f", "g", "h", "C.__init__"}),
        ("(1, **x)", {"f", "g", "h"}),
    ],
)
def test_of_several_functions_those_are_called_that_take_the_arguments(call: str, called: set[str]) -> None:
    facts = Facts(f"""\
        def f(a): pass
        def g(a, b): pass
        def h(*rest, **more): pass
        class C:
            def __init__(self, *, c): pass
        [f, g, h, C][n]{call}
    """)
    callees = facts.program.flow.callees[facts.call(f"[f, g, h, C][n]{call}")]
    assert {scope.qualified_name for scope in callees} == called


@pytest.mark.parametrize(
    "text",
    [
        "def f(a): pass\nf(1, 2)\n",
        "@wrapped\ndef f(a): pass\ndef g(a, b): pass\n[f, g][n](1, 2)\n",
        "class A:\n    def f(self, a): pass\n    @staticmethod\n    def g(a): pass\n    def h(self):\n"
        "        [self.f, self.g][n](1)\n",
    ],
)
def test_a_function_that_is_called_alone_or_decorated_may_take_any(text: str) -> None:
    assert any(scope.name == "f" for scope in Facts(text).program.flow.callers)


RECORDS = {
    "a namedtuple": "import collections\nState = collections.namedtuple('State', 'a b')\ns = State(1, b=2)",
    "its fields in a list": "from collections import namedtuple\nS = namedtuple('S', ['a', 'b'])\ns = S(*(1, 2))",
    "a class of it": "from typing import NamedTuple\nclass S(NamedTuple):\n    a: int\n    b: int\ns = S(1, 2)",
    "a data class": "import dataclasses\n@dataclasses.dataclass\nclass S:\n    a: int\n    b: int = 0\ns = S(1, b=2)",
    "a subclass": "class R:\n    a: int\nclass S(R):\n    b: int\ns = S(1, 2)",
    "a namespace": "import types\ns = types.SimpleNamespace(a=1, **{'b': 2})",
    "a dictionary with attributes": "from easydict import EasyDict\ns = EasyDict({'a': 1}, b=2)",
    "a dictionary of one's own": "class S(dict):\n    def __getattr__(self, k): return self[k]\ns = S({'a': 1}, b=2)",
    "__dict__ itself": "class S:\n    def __init__(self, **o): self.__dict__ = o\ns = S(a=1, b=2)",
    "setattr": "class S:\n    def __init__(self, **o):\n        for k, v in o.items(): setattr(self, k, v)\n"
    "s = S(a=1, b=2)",
    "__dict__": "class S:\n    def __init__(self, **o): self.__dict__.update(o)\ns = S(a=1, b=2)",
    "an item of __dict__": "class S: pass\ns = S()\nd = s.__dict__\nd['a'], d['b'] = 1, 2",
    "an item of vars": "import argparse\ns = argparse.Namespace(a=1)\nvars(s)['b'] = 2",
    "a default of vars": "class S: pass\ns = S()\nvars(s).setdefault('a', 1)\nvars(s).setdefault('b', 2)",
    "vars": "class S:\n    def __init__(self, a, **o): vars(self).update(o, a=a)\ns = S(1, b=2)",
}


@pytest.mark.parametrize("record", RECORDS)
def test_the_attributes_of_a_record_are_what_it_was_made_of(record: str) -> None:
    text = RECORDS[record] + "\na, b = s.a, s.b\n"
    assert values(text, "s.a") >= {"1"}
    assert values(text, "s.b") >= {"2"}
    assert not values(text, "s.a") & {"2"}
    assert not values(text, "s.b") & {"1"}


DECORATORS = {
    "def d(f):\n    def w(*args, **kwargs):\n        print(1)\n        return f(*args, **kwargs)\n    return w": (
        "@d",
        True,
    ),
    "def d(f):\n    @functools.wraps(f)\n    def w(*a, **k):\n        r = f(*a, **k)\n        return r\n    return w": (
        "@d",
        True,
    ),
    "def d(n):\n  def e(f):\n    def w(*a, **k):\n      return f(*a, **k)\n    return w\n  return e": (
        "@d(1)",
        True,
    ),
    "def d(f):\n    def w(*a, **k):\n        if main():\n            return f(*a, **k)\n    return w": ("@d", False),
    "def d(f):\n    def w(*a, **k):\n        return f(*a[1:], **k)\n    return w": ("@d", False),
    "def d(f):\n    def w(x, *a, **k):\n        return f(*a, **k)\n    return w": ("@d", False),
    "def d(f):\n    register(f)\n    return f": ("@d", False),
}


@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_decorator_that_hands_all_arguments_on_leaves_the_calls_known(decorator: str) -> None:
    name, is_known = DECORATORS[decorator]
    facts = Facts(f"import functools\n{decorator}\n{name}\ndef g(x): pass\ng(1)\n")
    assert (facts.scope("g") not in facts.program.flow.lost) is is_known


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        ("h = partial(f, 1)\nh(2)", True),
        ("partial(f, 1)(2)", True),
        ("h = partial(f, 1)\nloader.map(h)", False),
        ("loader.map(partial(f, 1))", False),
    ],
)
def test_the_calls_of_a_partial_are_known_unless_it_goes_to_unknown_code(text: str, is_known: bool) -> None:
    facts = Facts(f"from functools import partial\ndef f(a, b): pass\n{text}\n")
    assert (facts.scope("f") not in facts.program.flow.lost) is is_known


@pytest.mark.parametrize(
    ("head", "made", "is_run"),
    [
        ("from threading import Thread as Base", "w = Worker(3)\nw.start()", True),
        ("from torch.multiprocessing import Process as Base", "ws = [Worker(i) for i in (1, 2)]", True),
        ("import multiprocessing as mp\nclass Base(mp.Process): pass", "Worker(3).start()", True),
        ("Base = object", "w = Worker(3)\nw.start()", False),
    ],
)
def test_what_is_started_beside_the_script_runs(head: str, made: str, is_run: bool) -> None:
    worker = "class Worker(Base):\n    def __init__(self, n): self.n = n\n    def run(self): return g(self.n)\n"
    other = f"{head}\ndef g(x): pass\n{worker}"
    facts = Facts({"main.py": f"from other import Worker\n{made}\n", "other.py": other})
    assert ({"run", "g"} <= {scope.name for scope in facts.program.reachable}) is is_run


@pytest.mark.parametrize("factory", ["Meter", "lambda: Meter()", "make"])
@pytest.mark.parametrize("read", ["meters['loss']", "meters[key]", "self.meters['loss']"])
def test_a_defaultdict_puts_in_what_its_factory_makes(factory: str, read: str) -> None:
    head = "from collections import defaultdict\nclass Meter:\n    def __init__(self): self.n = 0\n"
    head += f"def make(): return Meter()\nmeters = defaultdict({factory})\n"
    if read.startswith("self"):
        cls = (
            f"class A:\n    def __init__(self): self.meters = defaultdict({factory})\n    def f(self): return {read}\n"
        )
        assert "a Meter" in values(f"{head}{cls}A().f()\n", read)
    else:
        assert "a Meter" in values(f"{head}{read}\n", read)


@pytest.mark.parametrize("kind", ["dict", "OrderedDict"])
@pytest.mark.parametrize(
    "given",
    ["zip(['a'], [Meter()])", "[('a', Meter())]", "((k, Meter()) for k in 'a')", "{'a': Meter()}", "a=Meter()"],
)
def test_a_dictionary_holds_what_it_is_made_of(kind: str, given: str) -> None:
    head = "from collections import OrderedDict\nclass Meter: pass\n"
    assert "a Meter" in values(f"{head}meters = {kind}({given})\nmeters['a']\n", "meters['a']")


@pytest.mark.parametrize(
    ("imported", "named"),
    [
        ("importlib.import_module('tensorboardX').Writer", {"tensorboardX.Writer"}),
        ("getattr(importlib.import_module('a.b'), 'Writer')", {"a.b.Writer"}),
        ("__import__('a.b').Writer", {"a.Writer"}),
        ("__import__('a.b', fromlist=['Writer']).Writer", {"a.b.Writer"}),
        ("importlib.import_module('other').Writer", {"class Writer"}),
        ("importlib.import_module('.other', __package__).Writer", {"class Writer"}),
        ("importlib.import_module(f'{kind}er').Writer", {"class Writer"}),
    ],
)
def test_a_module_that_is_imported_by_a_known_name(imported: str, named: set[str]) -> None:
    files = {
        "main.py": f"import importlib, other\nkind = 'oth'\nmade = {imported}\n",
        "other.py": "class Writer: pass\n",
    }
    assert Facts(files).variable("made") == named


@pytest.mark.parametrize(
    ("name", "made"),
    [("'lib.' + kind", {"class One", "class Two"}), ("f'lib.{kind}_net'", {"class Two"}), ("kind", set())],
)
def test_each_module_that_a_name_of_run_time_may_mean(name: str, made: set[str]) -> None:
    files = {
        "main.py": "import importlib, sys\nkind = sys.argv[1]\n"
        f"made = getattr(importlib.import_module({name}), kind)\n",
        "lib/one.py": "class One: pass\n",
        "lib/two_net.py": "class Two: pass\n",
    }
    assert Facts(files).variable("made") == made


def test_each_of_the_names_that_a_loop_imports() -> None:
    text = "import importlib\nfor name in ['a', 'b.c']:\n    writer = importlib.import_module(name).Writer\n"
    assert Facts(text).variable("writer") == {"a.Writer", "b.c.Writer"}


@pytest.mark.parametrize("picked", ["globals()[name]", "globals()[sys.argv[1]]", "globals()['Wide']"])
def test_what_globals_hold_is_called_where_its_parameters_fit(picked: str) -> None:
    text = (
        "import sys\nclass Wide:\n    def __init__(self, size, rate): pass\nclass Plain:\n"
        f"    def __init__(self): pass\ndef other(size): pass\nname = input()\nmade = {picked}(size=2, rate=0.1)\n"
    )
    facts = Facts(text)
    (called,) = facts.program.flow.callees.get(facts.call(f"{picked}(size=2, rate=0.1)"), ())
    assert called.qualified_name == "Wide.__init__"


REPLACED = """\
import types
from functools import partial
from torch import nn
from torchvision.models import resnet18
class Net(nn.Module):
    def forward(self, x): return 1
    def other(self, x): return 3
class Own(Net): pass
def new(self, x): return 2
net = {made}
{change}
y = net(4)
"""


@pytest.mark.parametrize(
    ("made", "change", "returned", "given"),
    [
        ("Net()", "Net.forward = new", {"1", "2"}, {"4"}),
        ("Own()", "Net.forward = new", {"1", "2"}, {"4"}),
        ("Net()", "net.forward = types.MethodType(new, net)", {"1", "2"}, {"4"}),
        ("Net()", "setattr(net, 'forward', partial(new, net))", {"1", "2"}, {"4"}),
        ("Net()", "setattr(Net, 'forward', new)", {"1", "2"}, {"4"}),
        ("Net()", "net.forward = lambda x: new(net, x)", {"1", "2"}, {"4"}),
        ("Net()", "net.forward = net.other", {"1", "3"}, {"argument x of new"}),
        ("Net()", "net.forward = net.forward", {"1"}, {"argument x of new"}),
        ("Net()", "net.forward = partial(net, 5)", {"1"}, {"argument x of new"}),
        ("Net()", "net.loss = types.MethodType(new, net)", {"1"}, {"argument x of new"}),
        ("resnet18()", "net.forward = types.MethodType(new, net)", {"2", "unknown: net(4)"}, {"4"}),
        ("resnet18()", "resnet18.forward = new", {"2", "unknown: net(4)"}, {"4"}),
    ],
)
def test_a_forward_pass_that_is_set_at_run_time(made: str, change: str, returned: set[str], given: set[str]) -> None:
    facts = Facts(REPLACED.format(made=made, change=change))
    assert facts.variable("y") == returned
    assert facts.variable("x", "new") == given


@pytest.mark.parametrize(
    ("options", "called"),
    [
        ("dict(a=1)", {"f", "h"}),
        ("{'a': 1, 'b': 2}", {"f", "g", "h"}),  # `f` if one of them is taken out before
        ("dict(c=3)", {"h", "C.__init__"}),
        ("other(a=1)", {"f", "g", "h", "C.__init__"}),
        ("{name: 1}", {"f", "g", "h", "C.__init__"}),
    ],
)
def test_of_several_functions_those_are_called_that_options_suffice_for(options: str, called: set[str]) -> None:
    facts = Facts(f"""\
        import torch
        def f(a): one()
        def g(a, b): pass
        @kept
        def h(**more): pass
        class C:
            def __init__(self, *, c): pass
        options = {options}
        [f, g, h, C][n](**options)
    """)
    callees = facts.program.flow.callees[facts.call("[f, g, h, C][n](**options)")]
    assert {scope.qualified_name for scope in callees} == called


@pytest.mark.parametrize(
    ("made", "is_picked"),
    [("(1)", False), ("(size=1)", False), ("(**dict(size=1))", False), ("()", True), ("(**options)", True)],
)
def test_a_module_without_a_constructor_takes_no_arguments(made: str, is_picked: bool) -> None:
    facts = Facts(f"""\
        import torch
        class Net(torch.nn.Module):
            def __init__(self, size=1): super().__init__()
        class Half(torch.autograd.Function): pass
        net = [Net, Half][n]{made}
    """)
    assert ("a Half" in facts.variable("net")) is is_picked
    assert "a Net" in facts.variable("net")


CONTAINED = """\
import copy
from collections import OrderedDict
from torch import nn
from names import A
class Scale(nn.Module):
    def forward(self, x): return x
class Stack(nn.Sequential):
    def __init__(self): super().__init__(Scale(), nn.ReLU())
class Own(nn.Sequential): pass
class Net(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.first, self.parts = first, nn.ModuleList()
        for i in range(2):
            {fill}
    def forward(self, x):
        {run}
        return x
def block(): return nn.Sequential(nn.ReLU(), Scale())
{made}
y = net(4)
"""


@pytest.mark.parametrize(
    ("made", "fill", "run", "calls"),
    [
        ("net = nn.Sequential(Scale(), nn.ReLU())", "pass", "pass", {"net(4)"}),
        ("net = nn.Sequential(OrderedDict([('a', Scale()), ('b', nn.ReLU())]))", "pass", "pass", {"net(4)"}),
        ("layers = []\nlayers += [Scale()]\nnet = nn.Sequential(*layers)", "pass", "pass", {"net(4)"}),
        ("net = nn.Sequential(*[block() for _ in range(2)])", "pass", "pass", {"net(4)"}),
        ("net = nn.Sequential()\nnet.add_module('a', Scale())", "pass", "pass", {"net(4)"}),
        ("net = Stack()", "pass", "pass", {"net(4)"}),
        ("net = Own(Scale())", "pass", "pass", {"net(4)"}),
        ("net = Net(block())", "pass", "x = self.first(x)", {"self.first(x)"}),
        ("net = Net(nn.ModuleList([Scale()]))", "pass", "x = self.first[0](x)", {"self.first[0](x)"}),
        ("net = Net(nn.ModuleDict({'a': Scale()}))", "pass", "x = self.first['a'](x)", {"self.first['a'](x)"}),
        (
            "net = Net(nn.ModuleList(copy.deepcopy(Scale()) for _ in range(2)))",
            "pass",
            "for _, f in enumerate(self.first): x = f(x)",
            {"f(x)"},
        ),
        ("net = Net(None)", "self.parts.append(block())", "for f in self.parts: x = f(x)", {"f(x)"}),
        ("net = Net(None)", "self.add_module(f'a{i}', Scale())", "x = getattr(self, A)(x)", {"getattr(self, A)(x)"}),
        ("net = Net(None)", "setattr(self, f'a{i}', Scale())", "x = getattr(self, A)(x)", {"getattr(self, A)(x)"}),
        ("net = Net(Scale())", "pass", "for f in self.children(): x = f(x)", {"f(x)"}),
        ("net = Net(block())", "pass", "for f in list(self.modules())[1:]: x = f(x)", {"f(x)"}),
        ("net = Net(Scale())", "pass", "for _, f in self.named_children(): x = f(x)", {"f(x)"}),
        ("net = Net(copy.deepcopy(Scale()))", "pass", "for f in self._modules.values(): x = f(x)", {"f(x)"}),
        ("net = Net(Scale())", "pass", "for _, f in self._modules.items(): x = f(x)", {"f(x)"}),
        ("net = Net(Scale())", "pass", "x = self._modules[A](x)", {"self._modules[A](x)"}),
        ("net = Net(block())", "pass", "for f in self.first.children(): x = f(x)", {"f(x)"}),
        ("net = Net(Scale())", "pass", "x = self.get_submodule('first')(x)", {"self.get_submodule('first')(x)"}),
        ("net = Net(None)", "self.a = Net(Scale())", "f = self.get_submodule('a.first'); x = f(x)", {"f(x)"}),
        ("net = Net(Scale())", "pass", "x = self.get_submodule('second')(x)", set()),
        ("net = Net(None)", "self.add_module('a', Scale())", "x = self.a(x)", {"self.a(x)"}),
        ("net = Net(None)", "self.register_module('a', Scale())", "for f in self.children(): x = f(x)", {"f(x)"}),
        ("net = Net(nn.ReLU())\nother = Net(Scale)", "pass", "for f in self.children(): x = f(x)", set()),
        ("net = Net([Scale()])", "pass", "for f in self.children(): x = f(x)", set()),
        ("net = Net(Scale())", "pass", "for f in self.children(): x = len(f)", set()),
        ("unused = nn.Sequential(Scale())\nnet = nn.Sequential(nn.ReLU())", "pass", "pass", set()),
        ("net = Net(nn.ModuleList([Scale()]))", "pass", "x = len(self.first)", set()),
    ],
)  # fmt: skip
def test_a_container_runs_its_modules(made: str, fill: str, run: str, calls: set[str]) -> None:
    flow = Facts(CONTAINED.format(made=made, fill=fill, run=run)).program.flow
    relations = (*flow.callees.items(), *flow.run_inside.items())
    runs = (call for call, scopes in relations for s in scopes if s.qualified_name == "Scale.forward")
    assert set(map(ast.unparse, runs)) == calls
