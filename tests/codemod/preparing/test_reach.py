"""How does each function that needs the accelerator get it?"""

from __future__ import annotations

import dataclasses

import pytest

from accelify.codemod.preparing.placing import Access
from accelify.codemod.preparing.reach import Reach, Reacher, constructor, method_of, node_of
from tests.codemod.facts import Facts

BUILD = """\
loader = DataLoader(d)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
HEAD = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
FUNCTION = """\
def fit(model, optimizer, loader):
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""
TRAINER = """\
class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x in DataLoader(d):
            self.model(x).sum().backward()
            self.optimizer.step()

Trainer().fit()
"""


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def reached(text: str) -> tuple[list[str], list[str], str | None]:
    """The homes, the functions that get a parameter, and what the accelerator is at the backward pass."""
    facts = Facts(HEAD + text)
    reach, access = facts.script.reach, facts.script.access
    assert isinstance(reach, Reach)
    assert isinstance(access, Access)
    backward = facts.script.training.backwards[0]
    return [h.name for h in reach.homes], [f.name for f in reach.parameters], access.at(backward)


def test_a_module_that_builds_all_is_the_home() -> None:
    homes, parameters, at = reached(FUNCTION + BUILD + "fit(model, optimizer, loader)")
    assert len(homes) == 1
    assert (parameters, at) == ([], "accelerator")


def test_a_function_that_builds_all_hands_it_on() -> None:
    homes, parameters, at = reached(
        f"{FUNCTION}def main():\n{indented(BUILD)}    fit(model, optimizer, loader)\nmain()"
    )
    assert (homes, parameters, at) == (["main"], ["fit"], "accelerator")


def test_a_class_keeps_it() -> None:
    assert reached(TRAINER) == (["Trainer"], [], "self.accelerator")


def test_nothing_changes_the_model_once_it_is_made() -> None:
    script = Facts(HEAD + FUNCTION + BUILD + "fit(model, optimizer, loader)").script
    with pytest.raises(dataclasses.FrozenInstanceError):
        script.files = frozenset()  # type: ignore[misc]
    assert not hasattr(script, "__dict__")
    for table in (script.run, script.access, script.devices, script.metrics, script.written, script.training):
        assert dataclasses.is_dataclass(table)
        assert not hasattr(table, "__dict__")


def reach(text: str, *needing: str, may_ask: bool = True) -> tuple[Facts, Reach]:
    """The way to the places where calls of some functions stand."""
    facts = Facts(text)
    needs = {facts.program.frame(facts.call(call)): facts.call(call) for call in needing}
    return facts, Reacher(facts.program, "accelerator", needs, may_ask=may_ask).solve()  # type: ignore[arg-type]


def asking(found: Reach) -> set[str]:
    return {scope.qualified_name for scope in found.asking}


def homes(found: Reach) -> list[str]:
    return [h.qualified_name for h in found.homes]


def test_a_module() -> None:
    facts, found = reach("need()\n", "need()")
    assert homes(found) == ["main.py"]
    assert found.expression(facts.scope("main.py")) == "accelerator"


def test_a_function_that_nothing_calls_creates_it_itself() -> None:
    facts, found = reach("def f():\n    need()\n", "need()")
    assert homes(found) == ["f"]
    assert found.expression(facts.scope("f")) == "accelerator"
    assert found.expression(facts.scope("main.py")) is None


def test_functions_that_are_called_by_one_that_needs_it_get_a_parameter() -> None:
    text = "def f():\n    need()\ndef main():\n    other()\n    f()\nmain()\n"
    facts, found = reach(text, "need()", "other()")
    assert homes(found) == ["main"]
    assert [s.qualified_name for s in found.parameters] == ["f"]
    assert found.expression(facts.scope("f")) == "accelerator"


def test_a_module_s_functions_see_it() -> None:
    facts, found = reach("def f():\n    need()\nother()\nf()\n", "need()", "other()")
    assert homes(found) == ["main.py"]
    assert not found.parameters
    assert found.expression(facts.scope("f")) == "accelerator"


def test_classes_keep_it() -> None:
    text = "class A:\n    def __init__(self):\n        need()\n    def fit(me):\n        other()\nA().fit()\n"
    facts, found = reach(text, "need()", "other()")
    assert found.expression(facts.scope("A.fit")) in ("me.accelerator", "accelerator")
    assert not found.obstacles


def test_static_methods_are_handed_it() -> None:
    facts, found = reach("class A:\n    @staticmethod\n    def f():\n        need()\n", "need()")
    assert found.expression(facts.scope("A.f")) == "accelerator"


def test_under_the_main_guard() -> None:
    text = "def f():\n    need()\nif __name__ == '__main__':\n    other()\n    f()\n"
    _, found = reach(text, "need()", "other()")
    assert homes(found) == ["main.py"]
    assert len(found.guarded) == 1


@pytest.mark.parametrize(
    ("name", "node"), [("A.f", "A"), ("A.s", "A.s"), ("g.h", "g"), ("main.py", "main.py"), ("A.f.inner", "A")]
)
def test_what_stands_for_a_frame(name: str, node: str) -> None:
    text = (
        "class A:\n    def f(self):\n        def inner(): pass\n    @staticmethod\n    def s(): pass\n"
        "def g():\n    def h(): pass\n"
    )
    assert node_of(Facts(text).scope(name)).qualified_name == node


def test_methods_and_constructors() -> None:
    text = (
        "class A:\n    def __init__(self): pass\n    def f(self):\n        def g(): pass\n"
        "class B(A): pass\nclass C: pass\ndef h(): pass\n"
    )
    facts = Facts(text)
    assert method_of(facts.scope("A.f.g")) is facts.scope("A.f")
    assert method_of(facts.scope("h")) is None
    assert constructor(facts.program, facts.scope("B")) is facts.scope("A.__init__")
    assert constructor(facts.program, facts.scope("C")) is None


BUILT_LATER = TRAINER.replace("__init__(self)", "build(self)").replace(
    "Trainer().fit()", "t = Trainer()\nt.build()\nt.fit()"
)


@pytest.mark.parametrize(
    "text",
    [
        BUILT_LATER,
        BUILT_LATER.replace("class Trainer:", "class Trainer(object):\n    lr = 0.1"),
        BUILT_LATER.replace("t = Trainer()", "def make():\n    return Trainer()\nt = make()"),
    ],
)
def test_a_class_by_itself_gets_a_constructor(text: str) -> None:
    assert reached(text) == (["Trainer"], [], "self.accelerator")


@pytest.mark.parametrize("more", ["other = Trainer()", "several = [Trainer() for _ in range(3)]"])
def test_several_instances_see_that_of_the_module(more: str) -> None:
    homes, parameters, at = reached(f"{BUILT_LATER}{more}\n")
    assert len(homes) == 1
    assert (parameters, at) == ([], "accelerator")


@pytest.mark.parametrize(
    "text",
    [
        BUILT_LATER.replace("class Trainer:", "@register\nclass Trainer:"),
        BUILT_LATER.replace("class Trainer:", "class Trainer(Base):"),
        BUILT_LATER.replace("class Trainer:", "class Trainer:\n    __slots__ = ('model', 'optimizer')"),
        BUILT_LATER + "class Other(Trainer):\n    def __init__(self):\n        pass\n",
    ],
)
def test_a_class_that_others_have_a_say_in_sees_that_of_the_module(text: str) -> None:
    found = Facts(HEAD + text).script.reach
    assert ([home.kind for home in found.homes], found.obstacles, found.asking) == (["module"], (), frozenset())


@pytest.mark.parametrize(
    ("other", "chosen", "name"),
    [
        ("def other(x): pass\nother(2)", "{'a': f, 'b': other}[name]", "other"),
        ("class Other: pass", "[f, Other][name]", "Other"),
        ("import math", "f if name else math.sqrt", "math.sqrt"),
    ],
)
def test_a_call_that_may_reach_what_does_not_take_it(other: str, chosen: str, name: str) -> None:
    text = (
        f"{other}\ndef f(x):\n    need()\ndef main(name):\n    first()\n    run = {chosen}\n    run(1)\nmain(input())\n"
    )
    _, found = reach(text, "need()", "first()")
    assert (homes(found), found.parameters, asking(found), found.obstacles) == (["main"], (), {"f"}, ())
    _, found = reach(text, "need()", "first()", may_ask=False)
    assert f"this calls `f`, which needs the accelerator, or `{name}`, which does not take it" in [
        message for _, message in found.obstacles
    ]


BUILDS = """\
class Trainer:
    def __init__(self, size=1):
        need()
{maker}
def main():
    first()
    {built}
main()
"""


@pytest.mark.parametrize(
    ("maker", "built", "is_known"),
    [
        ("class Config:\n    def __init__(self, cls): self.cls = cls\n    def __call__(self): return self.cls()",
         "Config({})()", False),
        ("def build(cls, **kwargs): return cls(**kwargs)", "build({}, size=2)", False),
        ("def build(cls): return cls()", "build(Trainer)", True),
    ],
)  # fmt: skip
def test_a_factory_of_whatever_class_it_is_given(maker: str, built: str, is_known: bool) -> None:
    made = f"{built.format('Trainer')}\n    {built.format('load(name).cls')}"
    _, found = reach(BUILDS.format(maker=maker, built=made), "need()", "first()")
    assert (homes(found), asking(found), found.obstacles) == (["main"], set() if is_known else {"Trainer"}, ())
    _, found = reach(BUILDS.format(maker=maker, built=made), "need()", "first()", may_ask=False)
    assert any("something else that is known only at run time" in said for _, said in found.obstacles) is not is_known


@pytest.mark.parametrize("other", ["def other(x):\n    also()", "def other(): pass", "def other(x, y): pass"])
def test_a_call_whose_arguments_fit_only_what_takes_it(other: str) -> None:
    chosen = "    run = {1: f, 2: other}[name]\n    run(1)\n"
    text = f"{other}\ndef f(x):\n    need()\ndef main(name):\n    first()\n{chosen}"
    needing = ["need()", "first()", *(["also()"] if "also" in other else [])]
    _, found = reach(text, *needing)
    assert not [message for _, message in found.obstacles if "does not take" in message]


AGENTS = """\
class Base:
    def __init__(self, config):
        self.config = config

class Agent(Base):
    def __init__(self, config):
        super().__init__(config)
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x in DataLoader(d):
            self.model(x).sum().backward()
            self.optimizer.step()

class Wide(Agent):
    def __init__(self, config):
        {call}
        self.model = nn.Linear(4, 8)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

{run}
"""


def of_agents(call: str, run: str) -> tuple[set[str], set[str], set[str]]:
    """The classes that create the accelerator, those that keep it, and those whose constructors get it."""
    reach = Facts(HEAD + AGENTS.format(call=call, run=run)).script.reach
    inits = {f.parent.name for f in reach.parameters if f.parent is not None}
    return {h.name for h in reach.homes if h.kind == "class"}, {h.name for h in reach.holders}, inits


@pytest.mark.parametrize(
    "call", ["Base.__init__(self, config)", "super(Agent, self).__init__(config)", "self.config = config"]
)
def test_a_subclass_that_passes_by_its_base_keeps_it_itself(call: str) -> None:
    both = {"Agent", "Wide"}
    assert of_agents(call, "if __name__ == '__main__':\n    Agent({}).fit()\n    Wide({}).fit()") == (set(), both, both)
    assert of_agents(call, "") == (both, both, set())


@pytest.mark.parametrize(
    "call", ["Agent.__init__(self, config)", "super(Wide, self).__init__(config)", "super().__init__(config)"]
)
def test_a_subclass_that_calls_its_base_hands_it_on(call: str) -> None:
    both = {"Agent", "Wide"}
    run = "def main():\n    Agent({}).fit()\n    Wide({}).fit()\nmain()"
    assert of_agents(call, run) == (set(), {"Agent"}, both)
    assert of_agents(call, "") == ({"Agent"}, {"Agent"}, set())


def test_a_base_between_hands_it_on() -> None:
    between = "class Between(Agent):\n    def __init__(self, config):\n        Agent.__init__(self, config)\n"
    text = AGENTS.replace("class Wide(Agent)", f"{between}class Wide(Between)")
    reach = Facts(HEAD + text.format(call="super().__init__(config)", run="")).script.reach
    assert {h.name for h in reach.holders} == {"Agent"}


STEPPING = """\
class Step:
    def take(self, x):
        need()
def main(name):
    first()
    {build}
    step.take(name)
main(input())
"""


@pytest.mark.parametrize(
    "build", ["step = Step()", "step = (Step() if name else Step())", "kind = Step; step = kind()"]
)
def test_a_class_without_a_constructor_gets_one_that_keeps_it(build: str) -> None:
    facts, found = reach(STEPPING.format(build=build), "need()", "first()")
    assert not found.obstacles
    assert [cls.name for cls in found.constructed] == ["Step"]
    assert len(found.constructed[facts.scope("Step")]) == build.count("()")
    assert found.expression(facts.scope("Step.take")) == "self.accelerator"


@pytest.mark.parametrize("head", ["@decorated\nclass Step:", "class Step(Base):", "class Step:\n    __slots__ = ()"])
def test_a_class_without_a_constructor_that_others_have_a_say_in(head: str) -> None:
    text = STEPPING.format(build="step = Step()").replace("class Step:", head)
    facts, found = reach(text, "need()", "first()")
    assert (homes(found), asking(found), found.obstacles) == (["main"], {"Step"}, ())
    assert found.expression(facts.scope("Step.take")) == "Accelerator.current()"
    _, found = reach(text, "need()", "first()", may_ask=False)
    assert [message for _, message in found.obstacles if "has no `__init__`" in message]


@pytest.mark.parametrize("body", ["", "    kinds = []\n", '    """Cases that are made elsewhere."""\n'])
def test_a_class_that_only_holds_other_classes_gets_no_constructor(body: str) -> None:
    _, found = reach(f"class Cases:\n{body}    class Step:\n        def take(self):\n            need()\n", "need()")
    assert [message for _, message in found.obstacles if "has no `__init__`" in message]
    assert not found.homes


ZOO = """\
def build(size): need()
def wide(): return build(2)
def deep(size=3): return build(size)
def main(name):
    first()
    {call}
{table}
"""


@pytest.mark.parametrize(
    ("table", "call"),
    [
        ("", "globals()[name]()"),
        ("import sys", "getattr(sys.modules[__name__], name)()"),
        ("import functools", "functools.partial(load(name), 2)()"),
    ],
)
def test_what_only_a_text_names_is_not_passed_the_accelerator(table: str, call: str) -> None:
    _, found = reach(ZOO.format(table=table, call=call), "need()", "first()")
    assert not found.obstacles
    assert not {f.name for f in found.parameters} & {"wide", "deep"}


@pytest.mark.parametrize(("table", "call"), [("KINDS = {1: wide, 2: deep}", "KINDS[name]()"), ("", "wide(); deep()")])
def test_what_the_file_of_the_call_names_is_passed_it(table: str, call: str) -> None:
    _, found = reach(ZOO.format(table=table, call=call), "need()", "first()")
    assert {f.name for f in found.parameters} == {"build", "wide", "deep"}
    assert not found.asking


ENGINES = """\
class Engine:
    def __init__(self, config):
        self.step = need()
class Small(Engine):
    def __init__(self, config):
        move()
        super().__init__(config)
{other}
def main(config):
    first()
    return {built}
"""


@pytest.mark.parametrize("other", ["", "class Large(Engine): pass", "class Large(Small): pass"])
def test_a_constructor_has_it_before_its_base_keeps_it(other: str) -> None:
    facts, found = reach(ENGINES.format(other=other, built="Small(config)"), "need()", "move()", "first()")
    assert found.expression(facts.scope("Small.__init__")) == "accelerator"
    assert found.expression(facts.scope("Engine.__init__")) == "self.accelerator"


@pytest.mark.parametrize("name", ["f", "Trainer"])
def test_a_variable_of_the_same_name_names_no_function(name: str) -> None:
    made = "def f(x): need()" if name == "f" else "class Trainer:\n    def __init__(self, x): need()"
    text = f"{made}\ndef main({name}='x'):\n    first()\n    globals()[{name}](1)\nmain()\n"
    _, found = reach(text, "need()", "first()")
    assert not found.obstacles
    assert not found.parameters


MADE_EARLY = """\
class Loss:
    def __init__(self, scale=1): self.scale = scale
    def backward(self): need()
class Trainer:
    {made}
    def fit(self):
        self.loss.backward()
def main():
    first()
    Trainer().fit()
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    "made",
    [
        "def __init__(self, loss=Loss()): self.loss = loss",
        "def __init__(self, *, loss=Loss(2)): self.loss = loss",
        "loss = Loss()",
        "losses = [Loss()]; loss = losses[0]",
    ],
)
def test_what_is_made_while_a_class_is_defined_asks_for_it(made: str) -> None:
    facts, found = reach(MADE_EARLY.format(made=made), "need()", "first()")
    assert (asking(found), found.obstacles) == ({"Loss"}, ())
    assert found.expression(facts.scope("Loss.backward")) == "Accelerator.current()"


def test_what_is_made_in_a_constructor_is_passed_it() -> None:
    _, found = reach(MADE_EARLY.format(made="def __init__(self): self.loss = Loss()"), "need()", "first()")
    assert not asking(found)
    assert {c.name for c in found.holders} == {"Loss", "Trainer"}


def test_a_base_class_has_it_for_its_heir() -> None:
    """The heir makes what needs the accelerator, and only its base has a constructor."""
    homes, _, at = reached(
        """\
class Epoch:
    def __init__(self, run): self.run, self.loader = run, DataLoader(run.rows)
    def fit(self):
        for x in self.loader:
            self.run.model(x).sum().backward()
            self.run.optimizer.step()
class Base:
    def __init__(self, rows, model, optimizer):
        self.rows, self.model, self.optimizer = rows, model, optimizer
    def train(self):
        for _ in range(2): self.epoch().fit()
class Run(Base):
    def epoch(self): return Epoch(self)
def main():
    model = nn.Linear(4, 1)
    Run(d, model, torch.optim.SGD(model.parameters(), lr=0.1)).train()
main()
"""
    )
    assert (homes, at) == (["main"], "self.accelerator")
