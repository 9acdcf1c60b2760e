"""Facts about classes and modules of a program, and about what its variables remember."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.dataflow.memory import Memory
from accelify.codemod.semantics.scopes import Scope
from tests.codemod.facts import Facts, described

FAMILY = """\
import torch
from torch import nn

class Base:
    def fit(self): pass
    def log(self): pass

class Mixin:
    def log(self): pass

class Trainer(Mixin, Base):
    def fit(self): pass

class Special(Trainer, nn.Module):
    pass

class Net(nn.Module):
    pass

class Wide(Net):
    pass

class Plain(object):
    pass

class Unknown(made_somewhere):
    pass
"""


def memory(text: str) -> tuple[Facts, Memory]:
    facts = Facts(text)
    return facts, facts.program.flow


def named(scopes: list[Scope]) -> list[str]:
    return [s.qualified_name for s in scopes]


def test_ancestors_and_descendants() -> None:
    facts, flow = memory(FAMILY)
    assert named(flow.ancestors(facts.scope("Special"))) == ["Trainer", "Mixin", "Base"]
    assert named(flow.ancestors(facts.scope("Base"))) == []
    assert set(named(flow.descendants(facts.scope("Base")))) == {"Trainer", "Special"}
    assert flow.descendants(facts.scope("Special")) == []


def test_a_class_that_is_based_on_itself_ends() -> None:
    facts, flow = memory("class A: pass\nclass A(A): pass\nclass B(A): pass\n")
    assert named(flow.ancestors(facts.scope("B")))[0] == "A"


def test_classes_that_are_based_on_each_other_end() -> None:
    facts, flow = memory("A = object\nclass B(A): pass\nclass A(B): pass\n")
    assert "A" not in named(flow.ancestors(facts.scope("A")))
    assert "B" not in named(flow.descendants(facts.scope("B")))


def test_the_method_of_the_nearest_class() -> None:
    facts, flow = memory(FAMILY)

    def method(cls: str, name: str) -> str | None:
        found = flow.method(facts.scope(cls), name)
        return None if found is None else found.qualified_name

    assert method("Special", "fit") == "Trainer.fit"
    assert method("Special", "log") == "Mixin.log"
    assert method("Base", "log") == "Base.log"
    assert method("Base", "missing") is None
    assert method("Plain", "fit") is None


def test_which_classes_are_modules() -> None:
    facts, flow = memory(FAMILY)
    assert [name for name in ("Special", "Net", "Wide") if not flow.is_module_class(facts.scope(name))] == []
    assert [n for n in ("Base", "Trainer", "Plain", "Unknown") if flow.is_module_class(facts.scope(n))] == []
    assert flow.external_bases(facts.scope("Wide")) == ["torch.nn.Module"]
    assert flow.external_bases(facts.scope("Base")) == []


def test_a_base_class_of_another_file() -> None:
    facts = Facts({"main.py": "from nets import Base\nclass Net(Base): pass\n", "nets.py": "class Base: pass\n"})
    assert named(facts.program.flow.ancestors(facts.scope("Net"))) == ["Base"]


def test_what_variables_and_functions_hold() -> None:
    facts, flow = memory("def f(a):\n    if a:\n        return 1\n    return 'x'\ny = f(True)\n")
    assert described(flow.returned(facts.scope("f"))) == {"1", "'x'"}
    assert facts.variable("y") == {"1", "'x'"}
    assert facts.variable("a", "f") == {"True"}
    assert facts.variable("missing") == set()
    assert described(flow.returned(facts.scope("main.py"))) == set()


def test_a_parameter_that_nothing_fills_is_an_argument() -> None:
    facts, _ = memory("def f(a, b=None, *rest, **more):\n    pass\nclass A:\n    def g(self, c): pass\n")
    assert facts.variable("a", "f") == {"argument a of f"}
    assert facts.variable("b", "f") == {"argument b of f"}
    assert facts.variable("rest", "f") == {"argument rest of f"}
    assert facts.variable("more", "f") == {"argument more of f"}
    assert facts.variable("self", "A.g") == {"a A"}
    assert facts.variable("c", "A.g") == {"argument c of A.g"}


def test_a_static_method_has_no_self() -> None:
    facts, _ = memory("class A:\n    @staticmethod\n    def f(x): pass\n    @classmethod\n    def g(cls): pass\n")
    assert facts.variable("x", "A.f") == {"argument x of A.f"}
    assert facts.variable("cls", "A.g") == {"class A"}


def test_too_many_values_stop_growing() -> None:
    lines = "".join(f"x = {n}\n" for n in range(100))
    assert 32 <= len(Facts(lines).variable("x")) <= 64


def test_modules_of_the_project_and_of_others() -> None:
    files = {"main.py": "import nets\nfrom lib import deep\nimport torch\n", "nets.py": "x = 1\n", "lib/deep.py": ""}
    flow = Facts(files).program.flow
    found = flow.module_named("main.py", "nets", 0)
    assert found is not None
    assert found.name == "nets.py"
    assert flow.module_named("main.py", "lib.deep", 0) is not None
    assert flow.module_named("lib/deep.py", "nets", 0) is not None  # from the folder above
    assert flow.module_named("lib/deep.py", "nets", 1) is None
    assert flow.module_named("main.py", "torch", 0) is None
    assert flow.module_named("main.py", "missing", 0) is None


FORWARD = "    def forward(self, x):\n        y = 1\n        return y\n"


def test_a_forward_in_another_file_is_not_followed() -> None:
    net = f"from torch import nn\nclass Net(nn.Module):\n    fc = nn.Linear(2, 2)\n{FORWARD}"
    other = Facts({"main.py": "from net import Net\nz = Net()(1)\n", "net.py": net})
    assert other.variable("z") == {"unknown: Net()(1)"}
    own = Facts(net + "z = Net()(1)\n")
    assert own.variable("z") == {"1"}


@pytest.mark.parametrize("part", ["nn.CrossEntropyLoss()", "nn.Softmax(dim=1)", "None"])
def test_the_forward_of_a_loss_in_another_file_is_followed(part: str) -> None:
    loss = f"from torch import nn\nclass Loss(nn.Module):\n    part = {part}\n{FORWARD}"
    facts = Facts({"main.py": "from loss import Loss\nz = Loss()(1)\n", "loss.py": loss})
    assert facts.variable("z") == {"1"}


RAISES = "        if x is None:\n            raise {}\n"


@pytest.mark.parametrize("error", ["NotImplementedError(self.kind)", "ValueError(f'{x}') from None", "Unknown('x')"])
@pytest.mark.parametrize(("part", "followed"), [("None", True), ("nn.Linear(2, 2)", False)])
def test_an_error_is_no_layer(error: str, part: str, followed: bool) -> None:
    forward = FORWARD.replace("        y = 1\n", f"{RAISES.format(error)}        y = 1\n")
    loss = f"from torch import nn\nclass Loss(nn.Module):\n    part = {part}\n{forward}"
    facts = Facts({"main.py": "from loss import Loss\nz = Loss()(1)\n", "loss.py": loss})
    assert ("1" in facts.variable("z")) is followed


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("def fit(self): raise NotImplementedError\n    def fit(self): return 1", 3),
        ("if big:\n        def fit(self): return 1\n    else:\n        def fit(self): return 2", 5),
        ("@property\n    def fit(self): return 1\n    @fit.setter\n    def fit(self, value): self.x = value", 3),
        ("@property\n    def fit(self): return 1\n    @fit.deleter\n    def fit(self): self.x = None", 3),
    ],
)
@pytest.mark.parametrize("asked", ["Trainer", "Special"])
def test_a_method_that_is_defined_again_is_the_last_one(body: str, line: int, asked: str) -> None:
    heir = "class Special(Trainer):\n    @Trainer.fit.setter\n    def fit(self, value): self.x = value\n"
    facts, flow = memory(f"class Trainer:\n    {body}\n{heir}")
    method = flow.method(facts.scope(asked), "fit")
    assert method is not None
    assert getattr(method.node, "lineno", None) == line


@pytest.mark.parametrize("call", ["Trainer().fit()", "Special().fit()", "Special().run()"])
def test_a_stub_above_the_method_is_not_what_runs(call: str) -> None:
    body = "    def fit(self): raise NotImplementedError\n    def fit(self): return 1\n"
    heir = "class Special(Trainer):\n    def run(self): return super().fit()\n"
    _, flow = memory(f"class Trainer:\n{body}{heir}found = {call}\n")
    (run,) = {f for c, found in flow.callees.items() if ast.unparse(c.func).endswith("fit") for f in found}
    assert getattr(run.node, "lineno", None) == 3


STATEFUL = """\
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.register_buffer("{0}", None)
    def {1}(self, x):
        {2}
    def forward(self, x):
        y = 1
        return y
"""


@pytest.mark.parametrize(
    ("buffer", "method", "change", "is_followed"),
    [
        ("queue", "put", "self.queue[0:2] = x", True),
        ("mean", "learn", "self.mean.mul_(0.9)", True),
        ("count", "learn", "self.count += 1", True),
        ("codes", "learn", "self.codes.weight.data = x", True),
        ("places", "look", "return x + self.places", False),
        ("places", "look", "x[0] = self.places", False),
        ("places", "__init__", "self.places = x", False),
    ],
)
def test_a_forward_in_another_file_that_keeps_state(buffer: str, method: str, change: str, is_followed: bool) -> None:
    net = STATEFUL.format(buffer, method, change)
    facts = Facts({"main.py": "import net\nn = net.Net()\nout = n(2)\n", "net.py": net})
    assert facts.variable("out") == ({"1"} if is_followed else {"unknown: n(2)"})


CARRYING = """\
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.hidden = nn.Linear(2, 2), None
    def forward(self, x):
        {0}
        return 1
    def clear(self):
        {1}
"""


@pytest.mark.parametrize(
    ("passed", "cleared", "is_followed"),
    [
        ("y, self.hidden = self.fc(x, self.hidden)", "pass", True),
        ("self.hidden = 0.9 * self.hidden + x", "pass", True),
        ("self.fc(self.hidden)", "self.hidden = 0", True),
        ("self.hidden[0] = x", "print(self.hidden)", True),
        ("self.hidden += x", "print(self.hidden)", True),
        ("self.hidden.add_(x)", "pass", True),
        ("self.shown = self.fc(x)", "pass", False),  # which nothing here reads
        ("self.fc(self.hidden)", "hidden = 0", False),
    ],
)
def test_a_forward_in_another_file_that_carries_an_attribute(passed: str, cleared: str, is_followed: bool) -> None:
    net = CARRYING.format(passed, cleared)
    facts = Facts({"main.py": "import net\nn = net.Net()\nout = n(2)\n", "net.py": net})
    assert facts.variable("out") == ({"1"} if is_followed else {"unknown: n(2)"})
