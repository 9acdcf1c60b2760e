"""Which loaders of those are prepared that objects of one class ask for batches, some to train, others to evaluate."""

from __future__ import annotations

import pytest

from tests.codemod.pairs import run

TEXT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Ahead:
    def __init__(self, loader):
        self.loader = iter(loader)
    def next(self):
        try:
            return next(self.loader)
        except StopIteration:
            return None
train_loader, valid_loader = DataLoader(load()), DataLoader(load("valid"))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{defined}
for epoch in range(3):
    ahead = Ahead(train_loader)
    x = ahead.next()
    while x is not None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        x = ahead.next()
    {evaluated}
"""
FUNCTION = """\
def evaluate(loader):
    batches, total = Ahead(loader), 0
    x = batches.next()
    while x is not None:
        total += model(x).sum().item()
        x = batches.next()
    return total
"""
LOOP = "{0} = Ahead(valid_loader)\n    x = {0}.next()\n    while x is not None:\n        {1}\n        x = {0}.next()"
STEP = "optimizer.zero_grad(); model(x).sum().backward(); optimizer.step()"


@pytest.mark.parametrize(
    ("defined", "evaluated", "prepared"),
    [
        (FUNCTION, "print(evaluate(valid_loader))", "train_loader, model"),
        ("", LOOP.format("valid", "print(model(x).sum().item())"), "train_loader, model"),
        ("", LOOP.format("ahead", "print(model(x).sum().item())"), "train_loader, model"),
        ("", LOOP.format("more", STEP), "train_loader, valid_loader, model"),
    ],
)
def test_a_loader_that_an_object_asks_to_evaluate_is_not_prepared(defined: str, evaluated: str, prepared: str) -> None:
    result = run(TEXT.format(defined=defined, evaluated=evaluated))
    text = "".join(result.after.decode().split())
    assert f"=accelerator.prepare({prepared},optimizer)".replace(" ", "") in text
    assert not any("shard only" in n.message for n in result.notes)


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


HOLDING = """\
import torch

class Agent:
    def __init__(self, config):
        self.network = config.build()
        self.target = config.build()
        self.target.load_state_dict(self.network.state_dict())

    def blend(self, target, source):
        for t, s in zip(target.parameters(), source.parameters()):
            t.data.copy_(0.9 * t.data + 0.1 * s.data)

    def step(self, x, y):
        self.network.zero_grad()
        (self.network.critic(x) - y).pow(2).mean().backward()
        self.network.critic_opt.step()
        self.network.zero_grad()
        self.network.critic(self.network.actor(x)).mean().backward()
        self.network.actor_opt.step()
        ASKED
"""


@pytest.mark.parametrize(
    "asked",
    [
        "self.blend(self.target, self.network)",
        "torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1)",
        "network = self.network\n        print(sum(p.norm() for p in network.parameters()))",
    ],
)
def test_a_network_of_an_unknown_class_that_holds_its_optimizers(asked: str) -> None:
    text = run(HOLDING.replace("ASKED", asked)).after.decode()
    prepared = [line.strip() for line in text.splitlines() if "prepare(" in line]
    assert prepared == [
        "self.network = self.accelerator.prepare(self.network)",
        "self.accelerator.prepare(self.network.critic_opt)",
        "self.accelerator.prepare(self.network.actor_opt)",
    ]


def test_what_holds_optimizers_and_is_never_asked_for_parameters_may_be_anything() -> None:
    assert "prepare(" not in run(HOLDING.replace("ASKED", "pass").replace("source.parameters()", "y")).after.decode()


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


CLASS_KEPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Mine(torch.optim.SGD):
    pass
KINDS = {{"sgd": torch.optim.SGD, "mine": Mine}}
class Trainer:
    def __init__(self, name):
        self.model = nn.Linear(4, 1)
        self.loader = DataLoader(torch.randn(64, 4), batch_size=8)
        self.optimizer = {kind}
        self.build()
    def build(self):
        self.optimizer = self.optimizer(self.model.parameters(), lr=0.1)
    def train(self):
        for x in self.loader:
            self.optimizer.zero_grad()
            self.model(x).mean().backward()
            self.optimizer.step()
Trainer("sgd").train()
"""


@pytest.mark.parametrize("kind", ["KINDS.get(name)", "KINDS[name]", "torch.optim.Adam", "Mine"])
def test_the_class_of_an_optimizer_is_not_prepared(kind: str) -> None:
    after = run(CLASS_KEPT.format(kind=kind)).after.decode()
    text = "".join(after.split())
    assert "self.loader=self.accelerator.prepare(self.loader)" in text
    assert text.count("self.optimizer=self.accelerator.prepare(self.model,self.optimizer)") == 1
    assert text.count("prepare(") == 2
