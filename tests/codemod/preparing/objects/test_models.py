"""Models whose parameters take a roundabout way to their optimizer."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.preparing.objects.bindings import Bindings
from accelify.codemod.preparing.objects.found import Found
from accelify.codemod.preparing.objects.models import Models
from accelify.codemod.preparing.objects.preparation import Preparation
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated, run
from tests.codemod.preparing.objects.texts import HEAD, STEP
from tests.codemod.training_scripts import script, training

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)

    def trainable(self):
        return {result}

    def forward(self, x):
        return self.b(self.a(x))


loader = DataLoader(data, batch_size=2)
model = Net()
{optimizer}
for x, y in loader:
    x, y = x.to(device), y.to(device)
"""


LEARNED = "[p for p in self.parameters() if p.requires_grad]"


GROUPS = '[{"params": self.a.parameters(), "lr": 0.1}, {"params": self.b.parameters()}]'


SGD = "optimizer = torch.optim.SGD({}, lr=0.1)"


LOOP = "learned = []\nfor part in (model.a, model.b):\n    learned += list(part.parameters())\n"


@pytest.mark.parametrize(
    ("result", "optimizer"),
    [
        (LEARNED, SGD.format("model.trainable()")),
        (GROUPS, SGD.format("model.trainable()")),
        ("filter(lambda p: p.requires_grad, self.parameters())", SGD.format("list(model.trainable())")),
        (LEARNED, SGD.format("filter(lambda p: p.requires_grad, model.parameters())")),
        (LEARNED, LOOP + SGD.format("learned")),
    ],
)
def test_a_model_is_known_by_its_parameters(result: str, optimizer: str) -> None:
    after = migrated(HEAD + "\n\n" + NET.format(result=result, optimizer=optimizer) + STEP)
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in after


def preparation(**slots: str) -> Preparation:
    return training(**slots).script.preparation


def test_models_that_no_optimizer_steps_are_not_prepared() -> None:
    found = preparation(before="other = nn.Linear(1, 1)\n")
    assert "other" not in {i.text for i in found.items}


SEVERAL = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn, self.out = nn.BatchNorm1d(4), nn.Linear(4, 1)
    def forward(self, x):
        return self.out(self.bn(x))
{models}
for x, y in DataLoader(data, batch_size=2):
    x, y = x.to(device), y.to(device)
    loss = {loss}
    loss.backward()
    {step}
"""


@pytest.mark.parametrize(
    ("models", "loss", "step", "prepared"),
    [
        (
            "nets = [nn.Linear(4, 1) for _ in range(3)]\n"
            "o = torch.optim.SGD([p for n in nets for p in n.parameters()])",
            "sum((n(x) - y).mean() for n in nets)",
            "o.step()",
            ["[accelerator.prepare(nn.Linear(4, 1)) for _ in range(3)]"],
        ),
        (
            "nets = {'a': nn.Linear(4, 1), 'b': nn.Linear(4, 1)}\ngiven = []\nfor n in nets.values():\n"
            "    given += list(n.parameters())\no = torch.optim.SGD(given)",
            "sum((n(x) - y).mean() for n in nets.values())",
            "o.step()",
            ["{'a': accelerator.prepare(nn.Linear(4, 1)), 'b': accelerator.prepare(nn.Linear(4, 1))}"],
        ),
        (
            "g, d = Net(), nn.Linear(1, 1)\n"
            "os = {'g': torch.optim.SGD(g.parameters()), 'd': torch.optim.SGD(d.parameters())}",
            "(d(g(x)) - y).mean()",
            "os['g'].step(); os['d'].step()",
            ["g, d = accelerator.prepare(g, d)"],
        ),
        (
            "nets, target = [Net() for _ in range(2)], Net()\nos = [torch.optim.SGD(n.parameters()) for n in nets]",
            "sum((n(x) - target(x)).mean() for n in nets)",
            "[o.step() for o in os]",
            ["[accelerator.prepare(Net()) for _ in range(2)], accelerator.prepare(Net())"],
        ),
    ],
)
def test_models_in_containers(models: str, loss: str, step: str, prepared: list[str]) -> None:
    text = migrated(HEAD + SEVERAL.format(models=models, loss=loss, step=step))
    assert all(line in text for line in prepared), text
    assert "prepare(n, " not in text
    assert ", n, " not in text


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("net = Net()\ntrain(loader, net, SGD(net.parameters()))\n", "net = Net()"),
        ("net = Net()\nwith ctx():\n    train(loader, net, SGD(net.parameters()))\n", "net = Net()"),
        ("net = Net()\nif x:\n    net.a = 1\n    train(loader, net, SGD(net.parameters()))\n", "net.a = 1"),
    ],
)
def test_a_model_is_prepared_before_the_call_that_makes_its_optimizer_and_trains(body: str, after: str) -> None:
    """After that call, the model would have been trained unprepared: on the CPU, and by each process alone."""
    head = (
        "from torch.optim import SGD\nfrom torch.nn import Linear as Net\nfrom torch.utils.data import DataLoader\n"
        "def train(loader, net, opt):\n    for x in loader:\n        opt.zero_grad()\n        net(x).sum().backward()\n"
        "        opt.step()\n"
    )
    found = Facts(f"{head}loader = DataLoader(rows)\n{body}").script.preparation
    (group,) = (g for g in found.groups if any(i.kind == "model" for i in g.items))
    assert group.anchor is not None
    assert ast.unparse(group.anchor) == after


def test_a_part_of_a_model_that_is_prepared_is_not_prepared_beside_it() -> None:
    model = "model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))\nif x:\n    model[1] = nn.Linear(4, 2)"
    groups = "[{'params': model[1].parameters(), 'lr': 1.0}] if x else model.parameters()"
    optimizer = f"{model}\noptimizer = torch.optim.SGD({groups}, lr=0.1)"
    found = Facts(script().replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", optimizer))
    assert [i.text for i in found.script.preparation.items if i.kind == "model"] == ["model"]


OF_A_LIBRARY = """\
from somewhere import build
model = build(){then}
model.to(device)
optimizer = {optimizer}
for epoch in range(2):
    model.train()
    for x, y in DataLoader(data, batch_size=4):
        x, y = x.to(device), y.to(device)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    print(model(data[0][0].to(device)))
"""


@pytest.mark.parametrize(
    "given",
    [
        "model.fc.parameters()",
        "model.classifier[6].parameters()",
        "model.get_classifier().parameters()",
        "getattr(model, 'fc').parameters()",
        "filter(lambda p: p.requires_grad, model.fc.parameters())",
        "[p for n, p in model.fc.named_parameters() if 'bias' not in n]",
        "[{'params': model.fc.parameters()}, {'params': model.body.parameters(), 'lr': 0.1}]",
        "[model.fc.weight, model.fc.bias]",
        "model.trainable()",
    ],
)
def test_a_network_of_unknown_make_is_prepared_whole_though_only_a_part_is_trained(given: str) -> None:
    """Its statistics follow each process's own batches otherwise."""
    after = migrated(HEAD + OF_A_LIBRARY.format(then="", optimizer=f"torch.optim.SGD({given}, lr=0.01)"))
    assert "\nmodel, optimizer = accelerator.prepare(model, optimizer)\n" in after, after


@pytest.mark.parametrize("then", ["\nhead = model.fc", "\nhead = nn.Linear(4, 1)\nmodel.fc = head"])
def test_a_network_of_unknown_make_is_prepared_beside_its_part_with_a_name(then: str) -> None:
    after = migrated(HEAD + OF_A_LIBRARY.format(then=then, optimizer="torch.optim.SGD(head.parameters(), lr=0.01)"))
    assert "\nmodel, head, optimizer = accelerator.prepare(model, head, optimizer)\n" in after, after


def test_an_agent_that_gives_its_parts_parameters_is_not_prepared_itself() -> None:
    agent = """\
class Agent:
    def __init__(self):
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 1)
    def parameters(self):
        return [*self.body.parameters(), *self.head.parameters()]
    def __call__(self, x):
        return self.head(self.body(x))
loader = DataLoader(data, batch_size=2)
model = Agent()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
"""
    after = migrated(HEAD + agent + STEP)
    assert "loader, optimizer = accelerator.prepare(loader, optimizer)" in after
    assert after.count("accelerator.prepare(nn.Linear") == 2


PARTS = """\
import zoo
import torch
from torch import nn
from torch.utils.data import DataLoader

class Layers(nn.ModuleDict):
    def __init__(self, body):
        super().__init__({name: layer for name, layer in body.named_children()})

class Net(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body
    def forward(self, x):
        return self.body(x)

def build(name):
    body = zoo.__dict__[name](classes=10)
    PART
    return Net(body)

def main(name):
    model = build(name)
    rest = [p for n, p in model.named_parameters() if "last" not in n]
    optimizer = torch.optim.SGD([{"params": rest}, {"params": model.body.last.parameters(), "lr": 1}], lr=0.1)
    for x in DataLoader(data, batch_size=8):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
main("wide")
"""


@pytest.mark.parametrize(
    "part",
    [
        "body.last = nn.Linear(body.last.in_features, 2)",
        "body = Layers(body)",
        "body.last = zoo.head()\n    body = nn.Sequential(body, nn.Linear(10, 2))",
    ],
)
def test_a_part_of_a_prepared_model_is_not_prepared_where_it_is_made(part: str) -> None:
    text = run(PARTS.replace("PART", part)).after.decode()
    assert [line.strip() for line in text.splitlines() if "accelerator" in line.lower()] == [
        "from accelify.runtime import Accelerator",
        "accelerator = Accelerator()",
        "model, optimizer = accelerator.prepare(model, optimizer)",
        "for x in accelerator.prepare(DataLoader(data, batch_size=8)):",
        "accelerator.backward(model(x).mean())",
    ]


def test_a_part_without_a_prepared_whole_is_prepared_where_it_is_made() -> None:
    text = PARTS.replace("    PART\n    return Net(body)", "    return [body]").replace(
        "model = build", "models = build"
    )
    text = text.replace("model.body.last", "models[0]").replace("model.named", "models[0].named")
    assert "prepare(" in run(text.replace("model(x)", "models[0](x)")).after.decode()


ELSEWHERE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

class Optimizer:
    def __init__(self, parameters):
        self.inner = torch.optim.SGD(parameters, lr=0.1)
    def zero_grad(self):
        self.inner.zero_grad()
    def step(self):
        self.inner.step()

def initialise(model):
    for p in model.parameters():
        p.data.uniform_(-0.1, 0.1)

def main():
    loader = DataLoader(data, batch_size=8)
    MADE
    optimizer = Optimizer(net.parameters())
    for x in loader:
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
main()
"""


@pytest.mark.parametrize(
    "made",
    [
        "net = nn.Linear(4, 2)",
        "net = nn.Linear(4, 2)\n    initialise(net)",
        "net = nn.Linear(4, 2).train()\n    print(net)\n    net.apply(initialise)",
        "net = nn.Linear(4, 2)\n    net.reset_parameters()",
    ],
)
def test_a_model_whose_optimizer_is_made_elsewhere_is_prepared_after_its_weights_are_drawn(made: str) -> None:
    lines = [line.strip() for line in run(ELSEWHERE.replace("MADE", made)).after.decode().splitlines()]
    place = lines.index("loader, net = accelerator.prepare(loader, net)")
    assert lines[place - 1] == made.splitlines()[-1].strip()
    assert lines[place + 1] == "optimizer = Optimizer(net.parameters(), accelerator)"


def test_a_model_without_a_name_is_prepared_where_it_is_made() -> None:
    text = ELSEWHERE.replace("MADE", "nets = [nn.Linear(4, 2)]").replace("net.parameters", "nets[0].parameters")
    assert "nets = [accelerator.prepare(nn.Linear(4, 2))]" in run(text.replace("net(x)", "nets[0](x)")).after.decode()


def test_a_model_that_is_updated_by_hand_has_no_optimizer() -> None:
    by_hand = "loss = model(x).mean()\nloss.backward()\nfor p in model.parameters():\n    p.data -= p.grad"
    facts, found = Facts(script(step=by_hand)), Found(set())
    code = facts.program, facts.roles, facts.tracer
    Models(*code, facts.training, Bindings(*code), found).add_without_optimizer()
    assert [(i.kind, i.text) for i in found.items] == [("model", "model")]
