"""Facts about what values are: by how they are built, and by how they are used."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.values import Constant, External
from accelify.codemod.training.roles import Roles, stepped
from tests.codemod.facts import Facts, described

IMPORTS = """\
import torch
import torchmetrics
from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader
"""


def is_a(role: str, expression: str, before: str = "") -> bool:
    facts = Facts(f"{IMPORTS}{before}\nit = {expression}\n")
    question = getattr(facts.roles, f"is_{role}")
    return any(question(v) for v in facts.program.flow.variable(facts.scope("main.py"), "it"))


@pytest.mark.parametrize(
    ("role", "expression"),
    [
        ("optimizer", "AdamW(p)"),
        ("optimizer", "torch.optim.SGD(p)"),
        ("scheduler", "StepLR(o, 1)"),
        ("loader", "DataLoader(d)"),
        ("torch_loader", "DataLoader(d)"),
        ("module", "nn.Linear(1, 1)"),
        ("loss", "nn.CrossEntropyLoss()"),
        ("device", "torch.device('cuda')"),
        ("device", "'cuda:0'"),
        ("cuda_test", "torch.cuda.is_available()"),
    ],
)
def test_what_is_built(role: str, expression: str) -> None:
    assert is_a(role, expression)


@pytest.mark.parametrize(
    ("made", "is_other"),
    [
        ("data.BucketIterator(d, 2)", True),
        ("data.BucketIterator.splits((d, e), batch_size=2)[0]", True),
        ("DataLoader(d)", False),
        ("DataLoader.splits(d)[0]", False),
        ("data.Field()", False),
    ],
)
def test_loaders_that_are_none_of_torch(made: str, is_other: bool) -> None:
    assert is_a("other_loader", made, "from torchtext import data") is is_other


@pytest.mark.parametrize(
    ("made", "is_one"),
    [
        ("data.BucketIterator.splits((d, e), batch_size=2)[0]", True),
        ("data.Iterator.splits((d, e), batch_size=2)[1]", True),
        ("data.BucketIterator(d, 2).dataset", False),
        ("data.BucketIterator(d, 2)[0]", False),
        ("data.TabularDataset.splits(d)[0]", False),
    ],
)
def test_loaders_that_their_class_makes(made: str, is_one: bool) -> None:
    assert is_a("loader", made, "from torchtext import data") is is_one


@pytest.mark.parametrize(
    ("role", "expression"),
    [
        ("optimizer", "StepLR(o, 1)"),
        ("optimizer", "mylib.AdamW(p)"),
        ("scheduler", "AdamW(p)"),
        ("loader", "Dataset(d)"),
        ("module", "nn.functional.relu(x)"),
        ("module", "torch.zeros(1)"),
        ("loss", "nn.Linear(1, 1)"),
        ("device", "'model.pt'"),
        ("device", "torch.zeros(1).device"),
        ("cuda_test", "torch.zeros(1)"),
    ],
)
def test_what_is_something_else(role: str, expression: str) -> None:
    assert not is_a(role, expression)


def test_classes_of_the_project_s_own() -> None:
    classes = "class Net(nn.Module): pass\nclass Opt(AdamW): pass\nclass Load(DataLoader): pass\nclass Plain: pass\n"
    assert is_a("module", "Net()", classes)
    assert is_a("optimizer", "Opt(p)", classes)
    assert is_a("loader", "Load(d)", classes)
    assert not any(is_a(role, "Plain()", classes) for role in ("module", "optimizer", "loader", "scheduler"))


def test_a_model_is_what_an_optimizer_gets_the_parameters_of() -> None:
    text = "m = unknown()\nother = unknown()\nn = nn.Linear(1, 1)\nloss = nn.MSELoss()\no = AdamW(m.parameters())\n"
    facts = Facts(IMPORTS + text)

    def is_model(name: str) -> bool:
        return any(map(facts.roles.is_model, facts.program.flow.variable(facts.scope("main.py"), name)))

    assert [is_model(n) for n in ("m", "other", "n", "loss")] == [True, False, True, False]
    assert described(facts.roles.trained) == {"made: unknown()"}


def test_parameters_in_groups() -> None:
    text = (
        f"{IMPORTS}a, b = A(), B()\no = AdamW([{{'params': a.parameters()}}, {{'params': b.parameters(), 'lr': 1}}])\n"
    )
    assert described(Facts(text).roles.trained) == {"made: A()", "made: B()"}


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("o.zero_grad()\no.step()", True),
        ("o.step()", False),
        ("o.zero_grad()", False),
        ("loss.backward()\no.step()", False),
        ("loss.backward()\nopt.step()", True),  # and its name says so
        ("loss.backward()\nenv.step()", False),
    ],
)
def test_optimizers_by_use(text: str, is_one: bool) -> None:
    facts = Facts(f"o = opt = env = unknown()\n{text}\n")
    assert bool(facts.roles.optimizers_by_use) is is_one


@pytest.mark.parametrize(
    ("call", "optimizer"),
    [("o.step()", "o"), ("scaler.step(o)", "o"), ("o.step(closure)", "o"), ("self.grad_scaler.step(self.o)", "self.o")],
)
def test_what_is_stepped(call: str, optimizer: str) -> None:
    assert ast.unparse(stepped(Facts(call).call(call))) == optimizer


def test_parts_of_batches() -> None:
    facts = Facts(IMPORTS + "loader = DataLoader(d)\nfor x, y in loader:\n    f(x, other)\n")
    given = facts.call("f(x, other)").args
    assert [facts.roles.is_part_of_a_batch(a) for a in given] == [True, False]


def test_a_metric_that_adds_up_itself() -> None:
    facts = Facts(f"{IMPORTS}m = torchmetrics.Accuracy()\nn = unknown()\nf(m, n)\n")
    assert [facts.roles.adds_up_itself(a) for a in facts.call("f(m, n)").args] == [True, False]


def test_what_learns() -> None:
    text = (
        "class Agent:\n    def __init__(self):\n        self.o = AdamW(p)\nclass Rows: pass\na, r = Agent(), Rows()\n"
    )
    facts = Facts(IMPORTS + text)
    variable = facts.program.flow.variable
    assert any(map(facts.roles.learns, variable(facts.scope("main.py"), "a")))
    assert not any(map(facts.roles.learns, variable(facts.scope("main.py"), "r")))


def test_nothing_is_known_of_a_constant() -> None:
    roles = Facts("").roles
    assert isinstance(roles, Roles)
    for value in (Constant(1), External("torch.nn.Linear")):
        assert not roles.is_model(value)
        assert not roles.is_optimizer(value)


@pytest.mark.parametrize(
    ("text", "is_model"),
    [
        ("it.train()\nit(x)", True),
        ("it(x)\nfor p in it.parameters(): p.requires_grad = False", True),
        ("it(x)", False),
        ("it.train()", False),
        ("criterion = it\ncriterion.eval()\ncriterion(x)", False),
        ("it.train()\nit.zero_grad()\nit.step()\nit(x)", False),
    ],
)
def test_what_is_run_and_switched_like_a_network_is_one(text: str, is_model: bool) -> None:
    facts = Facts(f"from somewhere import make\nit = make()\n{text}\n")
    assert any(map(facts.roles.is_model, facts.program.flow.variable(facts.scope("main.py"), "it"))) is is_model


@pytest.mark.parametrize(
    ("body", "is_refused"),
    [
        ("(object): pass", True),
        (": batch = 3", True),
        (":\n    def __getitem__(self, i): return i", True),
        (":\n    def __iter__(self): yield 1", False),  # like a loader
        (":\n    def step(self): pass", False),  # like a schedule
        ("(nn.Module): pass", False),
        ("(unknown.Base): pass", False),
        ("(Net): pass", False),
    ],
)
def test_what_prepare_refuses(body: str, is_refused: bool) -> None:
    facts = Facts(f"{IMPORTS}class Net(nn.Module): pass\nclass Own{body}\nuse(Own())\n")
    (value,) = facts.program.values(facts.call("use(").args[0])
    assert facts.roles.is_nothing_to_prepare(value) is is_refused


@pytest.mark.parametrize(
    ("base", "body", "has_weights"),
    [
        ("nn.Module", "self.size = size", False),
        ("nn.Module", "self.size = size; self.part = nn.Dropout()", False),
        ("nn.Module", "self.layer = nn.Linear(2, size)", True),
        ("nn.Module", "self.scale = nn.Parameter(torch.ones(size))", True),
        ("nn.Module", "self.part = Part()", True),
        ("nn.Module", "self.part = made()", True),
        ("Part", "self.size = size", True),
        ("transformers.PreTrainedModel", "self.size = size", True),
    ],
)
def test_modules_with_weights(base: str, body: str, has_weights: bool) -> None:
    facts = Facts(f"""
        import torch, transformers
        from torch import nn
        class Part(nn.Module):
            def __init__(self):
                self.layer = nn.Linear(2, 2)
        def made():
            return nn.Linear(2, 2)
        class Net({base}):
            def __init__(self, size):
                super().__init__()
                {body}
        net = Net(3)
        """)
    assert facts.roles.has_weights(facts.scope("Net")) is has_weights
