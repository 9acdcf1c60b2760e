"""Facts about prepared things, wherever they have gone since: loaders, batches, models."""

from __future__ import annotations

import ast
from textwrap import indent

import pytest

from accelify.codemod.preparing.prepared import Prepared, brings_to_cpu
from tests.codemod.facts import Facts
from tests.codemod.pairs import run
from tests.codemod.training_scripts import STEP, training


def prepared(facts: Facts) -> Prepared:
    found = facts.script.prepared
    assert isinstance(found, Prepared)
    return found


def used(expression: str, **slots: str) -> tuple[Prepared, ast.expr]:
    """The prepared things, and an expression inside the training loop."""
    facts = training(step=f"use({expression})\n{STEP}", **slots)
    return prepared(facts), facts.call("use(").args[0]


@pytest.mark.parametrize("expression", ["x", "x[0]", "x.view(-1)", "x.to(d)"])
def test_batches_and_their_parts(expression: str) -> None:
    found, node = used(expression)
    assert found.is_batch(node)


@pytest.mark.parametrize(
    "expression", ["x.cpu()", "x.size(0)", "other", "3", "loader", "x if flag else other", "x.numpy()", "(x, y)"]
)
def test_what_is_no_batch(expression: str) -> None:
    found, node = used(expression, before="other = load()\n")
    assert not found.is_batch(node)


def test_names_of_batches() -> None:
    found, node = used("z", batch="z = x\n")
    assert found.is_batch(node)
    found, node = used("z", batch="z = x\nif flag:\n    z = other\n")
    assert not found.is_batch(node)


@pytest.mark.parametrize("loop", ["for x in loader", "for i, x in enumerate(loader)", "for x in tqdm(loader)"])
def test_batches_of_a_loader_that_makes_them_itself(loop: str) -> None:
    facts = Facts(OWN_PASS.format(loop=loop))
    assert prepared(facts).is_batch(facts.call("use(").args[0])
    assert not prepared(facts).is_batch(facts.call("see(").args[0])


OWN_PASS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from tqdm import tqdm
class OwnPass(DataLoader):
    def __iter__(self):
        for indices in self.batch_sampler:
            yield self.collate_fn([self.dataset[i] for i in indices])
loader = OwnPass(torch.randn(8, 4), batch_size=2)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{loop}:
    use(x)
    see(loader.collate_fn([torch.zeros(4)]))
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_loaders_and_their_views() -> None:
    for expression in ("loader", "enumerate(loader)", "iter(loader)"):
        found, node = used(expression)
        assert found.is_loader(node), expression
    found, node = used("other", before="other = DataLoader(rows)\n")
    assert not found.is_loader(node)


def test_loops_over_prepared_loaders() -> None:
    facts = training(end="for x, y in loader:\n    print(x)\nfor z in DataLoader(rows):\n    print(z)\n")
    loops = [n for n in facts.files[0].nodes if isinstance(n, ast.For) and n in prepared(facts).loops]
    assert [ast.unparse(n.iter) for n in loops] == ["loader", "loader"]


PHASES = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters())
train_loader, test_loader = DataLoader(a), DataLoader(b)
def learn(batches):
    for x, y in batches:
        loss = f(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
EITHER = "    if {0}:\n        learn({1})\n    else:\n        for x, y in {1}:\n            print(model(x))\n"
RUN = "def run(loader, train=True):\n    go(loader, {0})\n"


@pytest.mark.parametrize(
    "code",
    [
        "def run(loader, train=True):\n" + EITHER.format("train", "loader"),
        "def run(loader, *, train=True):\n    loader = enumerate(loader)\n" + EITHER.format("train", "loader"),
        "def go(loader, phase):\n"
        + EITHER.format("phase == 'fit'", "loader")
        + RUN.format("'fit' if train else 'val'"),
        "def run(loader, train=True):\n    if not train:\n"
        "        for x, y in loader:\n            print(model(x))\n        return\n    learn(loader)\n",
    ],
)
@pytest.mark.parametrize("train", ["", ", train=True"])
def test_a_loader_is_not_prepared_where_only_the_calls_of_another_get_to(code: str, train: str) -> None:
    facts = Facts(f"{PHASES}{code}run(train_loader{train})\nrun(test_loader, train=False)\n")
    loops = [n for n in facts.files[0].nodes if isinstance(n, ast.For)]
    found = [(prepared(facts).is_loader(n.iter), prepared(facts).is_loader_for_some(n.iter)) for n in loops]
    assert found == [(True, True), (False, False)]


@pytest.mark.parametrize("calls", ["run(test_loader, ask())", "run(test_loader, True)\nrun(train_loader, False)"])
def test_a_loader_is_prepared_for_some_where_calls_of_both_get_to(calls: str) -> None:
    code = "def run(loader, train=True):\n" + EITHER.format("train", "loader")
    facts = Facts(f"{PHASES}{code}run(train_loader)\n{calls}\n")
    (loop,) = [n for n in facts.files[0].nodes if isinstance(n, ast.For) and n.lineno > PHASES.count("\n")]
    assert prepared(facts).is_loader_for_some(loop.iter)


@pytest.mark.parametrize(
    ("run", "is_loader"),
    [
        ("learn(both['train'])", True),
        ("def run(loaders):\n    learn(loaders['train'])\nrun(both)", True),
        ("batches = both['train']\nlearn(batches)", True),
        ("learn(both['train'])\nlearn(both['test'])", False),
        ("for phase in both:\n    learn(both[phase])", False),
        ("TRAIN = 'train'\nlearn(both[TRAIN])", True),
        ("def run(key):\n    learn(both[key])\nrun('train')\nrun('test')", False),
        ("def run(key):\n    learn(both[key])\nrun('train')\nrun(ask())", False),
        ("TRAIN = 'train' if flag else ask()\nlearn(both[TRAIN])", False),
    ],
)
def test_a_parameter_is_the_place_of_a_container_that_all_calls_give_it(run: str, is_loader: bool) -> None:
    made = "def loaders():\n    return {'train': DataLoader(a), 'test': DataLoader(b)}, 3\nboth, classes = loaders()\n"
    facts = Facts(f"{PHASES}{made}{run}\n")
    loop = next(n for n in facts.files[0].nodes if isinstance(n, ast.For))
    assert prepared(facts).is_loader(loop.iter) is is_loader


NET = "class Net(nn.Module):\n    def forward(self, x):\n        return x\ndef build():\n    return Net()\n"


@pytest.mark.parametrize(
    ("end", "is_another"),
    [
        ("model = nn.Linear(4, 1)\nuse(model(x))", True),
        ("model = Net()\nmodel.load_state_dict(torch.load('m.pt'))\nuse(model(x))", True),
        ("model = build()\ndef test(net):\n    use(net(x))\ntest(model)", True),
        ("use(model(x))\nmodel = nn.Linear(4, 1)", False),
        ("if flag:\n    model = nn.Linear(4, 1)\nuse(model(x))", False),
        ("model = nn.Linear(4, 1)\nmodel.to(device)\nuse(model(x))", False),
        ("model = nn.Sequential(model, nn.Softmax(1))\nuse(model(x))", False),
        ("model = model.eval()\nuse(model(x))", False),
        ("model = torch.load('model.pt')\nuse(model(x))", False),
        ("def test(net):\n    use(net(x))\ntest(model)\nmodel = Net()\ntest(model)", False),
    ],
)
def test_another_model_under_a_prepared_one_s_name(end: str, is_another: bool) -> None:
    facts = training(before=NET, end=end)
    call = facts.call("use(").args[0]
    assert isinstance(call, ast.Call)
    assert prepared(facts).is_another_model(call.func) is is_another


TRAINER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self, device):
        self.net = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.loader = DataLoader(rows, batch_size=2)
    def train(self):
        for x in self.loader:
            self.optimizer.zero_grad()
            self.net(x).mean().backward()
            self.optimizer.step()
    def test(self, x, device):
        {made}
        {then}
        return self.net(x)
trainer = Trainer(device)
trainer.train()
use(trainer.test(x, device))
"""


@pytest.mark.parametrize(
    ("made", "then", "is_another"),
    [
        ("self.net = nn.Linear(4, 1)", "pass", True),
        ("self.net = nn.Linear(4, 1, bias=False)", "self.net.load_state_dict(torch.load('m.pt'))", True),
        ("pass", "pass", False),
        ("if x: self.net = nn.Linear(4, 1)", "pass", False),
        ("self.net = nn.Linear(4, 1)", "self.net.to(device)", False),
        ("self.net = nn.Linear(4, 1).to(device)", "pass", False),
        ("self.net = self.net.eval()", "pass", False),
    ],
)
def test_another_model_under_a_prepared_one_s_attribute(made: str, then: str, is_another: bool) -> None:
    facts = Facts(TRAINER.format(made=made, then=then))
    call = facts.statement("return self.net(x)").value  # type: ignore[attr-defined]  # a `return`
    assert prepared(facts).is_another_model(call.func) is is_another


def test_another_model_that_other_methods_run_stays_where_it_is() -> None:
    text = TRAINER.format(made="self.load()", then="pass").replace(
        "trainer = ", "    def load(self):\n        self.net = nn.Linear(4, 1)\ntrainer = "
    )
    text = text.replace("trainer = Trainer", "device = torch.device('cuda')\ntrainer = Trainer")
    assert Facts(text).script.devices.together.mixed is not None
    assert Facts(text.replace("(4, 1)\ndevice", "(4, 1).to(device)\ndevice")).script.devices.together.mixed is None


def test_a_model_that_is_trained_again_is_prepared_again() -> None:
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    facts = training(
        end=f"model = nn.Linear(4, 1)\n{optimizer}for x, y in loader:\n{indent(STEP, '    ')}use(model(x))"
    )
    call = facts.call("use(").args[0]
    assert isinstance(call, ast.Call)
    assert not prepared(facts).is_another_model(call.func)


def test_models() -> None:
    found, node = used("model")
    assert found.is_model(node)
    found, node = used("nn.Linear(1, 1)")
    assert not found.is_model(node)


@pytest.mark.parametrize(
    ("expression", "brings"),
    [
        ("x.cpu()", True),
        ("x.to('cpu')", True),
        ("x.detach().cpu()", True),
        ("x.to(device)", False),
        ("x.cuda()", False),
        ("x", False),
        ("cpu(x)", False),
    ],
)
def test_what_is_on_the_cpu_from_there_on(expression: str, brings: bool) -> None:
    assert brings_to_cpu(Facts(f"use({expression})").call("use(").args[0]) is brings


PUT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
loaders = {places}
for k in range(2):
    loaders[k] = DataLoader(rows[k], batch_size=5)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for k in range(2):
    batches = iter(loaders[k])
    for i in range(len(batches)):
        model(next(batches)).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("places", ["[0] * 2", "[None, None]", "{0: None, 1: None}"])
def test_a_loader_that_is_put_where_nothing_was_is_prepared_there(places: str) -> None:
    facts = Facts(PUT.format(places=places))
    assert [kind for kind, _ in facts.script.preparation.wrapped] == ["loader"]
    assert facts.script.prepared.is_loader(facts.call("len(batches)").args[0])


ITERATED = """\
import torch
from torch import nn
rows = load()
class Batches:
    def __iter__(self): return self
    def __next__(self): return torch.randn(4)
    {length}
def yielded():
    yield torch.randn(4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in rows:
    model(x).sum().backward()
    optimizer.step()
for x in {batches}:
    model(x).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("batches", "length", "is_said"),
    [
        ("yielded()", "", True),
        ("Batches()", "", True),
        ("Batches()", "def __getitem__(self, k): return k", False),
        ("Batches()", "def __len__(self): return 4", False),
        ("load()", "", False),
    ],
)
def test_iterables_without_a_length_are_said_to_drop_their_last_round(batches: str, length: str, is_said: bool) -> None:
    result = run(ITERATED.format(batches=batches, length=length))
    assert sum("drops its incomplete last round" in n.message for n in result.notes) == is_said
