"""Which optimizers are prepared: wrapped, in lists, made and stepped in one line."""

from __future__ import annotations

import pytest

from accelify.codemod.preparing.objects.bindings import Bindings
from accelify.codemod.preparing.objects.found import Found
from accelify.codemod.preparing.objects.models import Models
from accelify.codemod.preparing.objects.optimizers import Optimizers
from accelify.codemod.result import Status
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated, run
from tests.codemod.preparing.objects.texts import HEAD
from tests.codemod.training_scripts import script

WRAPPER = """\
class Wrapper(torch.optim.Optimizer):
    def __init__(self, {parameters}):
        {made}

    def {step}(self):
        self.inner.step()

model = nn.Linear(4, 1).to(device)
{optimizer}
for x, y in DataLoader(data, batch_size=2):
    x, y = x.to(device), y.to(device)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.{step}()
"""


OF_BASE = "super().__init__(parameters, {}); self.inner = torch.optim.SGD(self.param_groups, lr=0.1)"


@pytest.mark.parametrize(
    ("parameters", "made", "optimizer"),
    [
        ("inner", "self.inner = inner", "base = torch.optim.SGD(model.parameters())\noptimizer = Wrapper(base)"),
        ("inner", "self.inner = inner", "optimizer = Wrapper(torch.optim.SGD(model.parameters()))"),
        ("parameters", OF_BASE, "optimizer = Wrapper(model.parameters())"),
    ],
)
def test_of_an_optimizer_that_wraps_another_the_outer_one_is_prepared(
    parameters: str, made: str, optimizer: str
) -> None:
    after = migrated(HEAD + WRAPPER.format(parameters=parameters, made=made, optimizer=optimizer, step="step"))
    assert "\nmodel, optimizer = accelerator.prepare(model, optimizer)\n" in after
    assert after.count("prepare(") == 2  # and the loader


def test_an_optimizer_that_a_wrapper_steps_by_another_name_is_prepared_with_the_wrapper_s_models() -> None:
    optimizer = "optimizer = Wrapper(model.parameters())"
    after = migrated(
        HEAD + WRAPPER.format(parameters="parameters", made=OF_BASE, optimizer=optimizer, step="second_step")
    )
    assert "self.inner = accelerator.prepare(self.inner)" in after
    assert "\nmodel = accelerator.prepare(model)\n" in after


HANDED = """\
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
first = torch.optim.SGD(model[0].parameters(), lr=0.1)
second = torch.optim.SGD(model[1].parameters(), lr=0.1)
def run(optimizers):
    for x, y in DataLoader(data, batch_size=2):
        for o in optimizers:
            o.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        for o in optimizers:
            o.step()
{calls}
"""


@pytest.mark.parametrize(
    "calls",
    [
        "run([first, second])",
        "run([first])\nrun([second])",
        "run((first, second))",
        "both = [first, second]\nrun(both)",
    ],
)
def test_optimizers_that_a_list_gets_later_are_prepared_by_their_names(calls: str) -> None:
    after = migrated(HEAD + HANDED.format(calls=calls))
    assert "\nmodel, first, second = accelerator.prepare(model, first, second)\n" in after, after


ON_ONE_LINE = """\
import torch
def train(data, model, optimizer):
    for x in data.split(8):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
def main():
    model = torch.nn.Linear(4, 1)
    {line}
main()
"""


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("model = model.cuda(); train(data, model, torch.optim.SGD(model.parameters()))", "train("),
        ("model.cuda(); optimizer = torch.optim.SGD(model.parameters()); train(data, model, optimizer)", "train("),
        ("optimizer = torch.optim.SGD(model.parameters()); model.cuda(); train(data, model, optimizer)", "train("),
        ("model.cuda(); optimizer = torch.optim.SGD(model.parameters())\n    train(data, model, optimizer)", "train("),
    ],
)
def test_what_a_line_makes_and_trains_is_prepared_between(line: str, first: str) -> None:
    after = migrated(ON_ONE_LINE.format(line=f"data = torch.randn(64, 4).cuda()\n    {line}")).partition("def main")[2]
    assert "accelerator.prepare(" in after.partition(first)[0]
    assert "prepare(model" not in after.partition(first)[2]


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


def test_an_optimizer_that_steps_brings_its_models() -> None:
    facts, found = Facts(script()), Found(set())
    code = facts.program, facts.roles, facts.tracer, facts.training
    bindings = Bindings(*code[:3])
    Optimizers(*code, bindings, Models(*code, bindings, found), found).find()
    assert [(i.kind, i.text) for i in found.items] == [("optimizer", "optimizer"), ("model", "model")]


def test_an_optimizer_that_a_method_gives_in_a_list_is_prepared_where_it_is_made() -> None:
    text = migrated(HEAD + IN_A_LIST)
    assert "self.opt = self.accelerator.prepare(torch.optim.SGD(self.model.parameters(), lr=0.1))" in text
    assert "; self.optimizers()[0].step()" in text


IN_A_LIST = """
class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def optimizers(self):
        return [self.opt]
    def fit(self):
        for x, y in DataLoader(data, batch_size=2):
            self.opt.zero_grad()
            self.model(x).mean().backward(); self.optimizers()[0].step()
Trainer().fit()
"""


BY_KEY = """\
import munch, types
nets = {maker}(first=nn.Linear(4, 4).to(device), last=nn.Linear(4, 1).to(device))
optims = {maker}()
for key in nets.keys():
    optims[key] = torch.optim.Adam(nets[key].parameters())
for x, y in DataLoader(data, batch_size=2):
    x, y = x.to(device), y.to(device)
    loss = nn.functional.mse_loss(nets.last(nets.first(x)), y)
    for optim in optims.values():
        optim.zero_grad()
    loss.backward()
    optims.first.step()
    optims{last}.step()
"""


@pytest.mark.parametrize("last", [".last", "['last']"])
def test_optimizers_put_in_by_keys_and_read_as_attributes(last: str) -> None:
    after = migrated(HEAD + BY_KEY.format(maker="munch.Munch", last=last))
    assert "optims[key] = accelerator.prepare(torch.optim.Adam(nets[key].parameters()))" in after
    assert "first=accelerator.prepare(nn.Linear(4, 4)" in after
    assert "last=accelerator.prepare(nn.Linear(4, 1)" in after
    assert after.count("prepare(") == 4  # and the loader


def test_attributes_of_what_is_no_dictionary_are_not_its_items() -> None:
    result = run(HEAD + BY_KEY.format(maker="types.SimpleNamespace", last=".last"))
    assert result.status is Status.DECLINED, result.after.decode()
