"""Training code whose batches come from callers who are not known."""

from __future__ import annotations

import pytest

from accelify.codemod.training.loops.given_batches import GivenBatches
from accelify.codemod.training.loops.model_runs import ModelRuns
from tests.codemod.facts import Facts
from tests.codemod.training.loops.described import kinds

HEAD = """
import random
import torch
from torch import nn
"""
CREATED = """
    def __init__(self, opt, rows):
        self.opt, self.rows, self.memory, self.last = opt, rows, [], None
        self.net = nn.Linear(4, 4)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=opt.lr)
"""
STEP = """
    def flip(self):
        if random.random() < 0.5: self.real = -self.real
    def train_step(self):
        self.flip()
        self.optimizer.zero_grad()
        self.descend()
        self.optimizer.step()
    def descend(self):
        self.net({shown}).mean().backward()
"""
SHORT_STEP = """
    def flip(self):
        if random.random() < 0.5: self.real = -self.real
    def train_step(self):
        self.flip()
        self.net({shown}).mean().backward()
        self.optimizer.step()
"""


def found(put_in: str, shown: str = "self.real", step: str = SHORT_STEP) -> list[str]:
    return kinds(Facts(f"{HEAD}class Trainer:{CREATED}    {put_in}{step.format(shown=shown)}"))


@pytest.mark.parametrize("step", [STEP, SHORT_STEP])
@pytest.mark.parametrize(
    "put_in",
    [
        "def set_input(self, batch): self.real = batch['image']",
        "def set_input(self, batch): self.real, self.label = batch",
        "def set_input(self, batch): self.real = batch['a' if self.opt.forth else 'b'].to(self.opt.device)",
        "def set_input(self, batch): self.take(batch)\n    def take(self, given): self.real = given[0]",
        "real: torch.Tensor",  # trainer.real = batch
    ],
)
def test_what_unknown_callers_put_in_is_given(put_in: str, step: str) -> None:
    assert found(put_in, step=step) == ["given"]


@pytest.mark.parametrize(
    "shown", ["self.real + torch.randn(4)", "torch.cat((self.real, self.real))", "input=self.real"]
)
def test_what_a_model_is_shown_may_be_made_of_it(shown: str) -> None:
    assert found("def set_input(self, batch): self.real = batch['image']", shown) == ["given"]


@pytest.mark.parametrize(
    ("put_in", "shown"),
    [
        ("def ready(self): self.real = torch.randn(4)", "self.real"),
        ("def ready(self): setattr(self, 'real', torch.randn(4))", "self.real"),
        ("def ready(self): self.__dict__.update(real=torch.randn(4))", "self.real"),
        ("def ready(self): self.real = self.rows[0]", "self.real"),  # all rows are given once, and drawn from
        ("def store(self, row): self.memory.append(row)", "random.choice(self.memory)"),
        ("def store(self, row): self.last = row; self.memory.append(row)", "self.memory[random.randrange(9)]"),
        ("@property\n    def real(self): return torch.randn(4)", "self.real"),
    ],
)
def test_what_a_step_draws_from_its_object_s_own_is_random(put_in: str, shown: str) -> None:
    assert found(put_in, shown) == ["random"]


BASE = """
import torch
class Base:
    def set_input(self, batch):
        self.real = batch["image"]
"""
DERIVED = """
import torch
from torch import nn
from base import Base
class Model(Base):
    def __init__(self):
        self.net = nn.Linear(4, 4)
        self.optimizer = torch.optim.Adam(self.net.parameters())
    def forward(self):
        self.real = self.real * torch.rand(1)
        self.net(self.real).mean().backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        (BASE, "given"),
        (BASE.replace('batch["image"]', "batch"), "given"),
        (BASE.replace('batch["image"]', "torch.ones(4)"), "random"),
    ],
)
def test_a_base_class_of_another_file_may_be_given_the_batch(base: str, kind: str) -> None:
    assert kinds(Facts({"model.py": DERIVED, "base.py": base})) == [kind]


@pytest.mark.parametrize(
    ("made", "kind"), [("batch", "given"), ("batch[0]", "given"), ("torch.randn(4)", "full"), ("self.rows", "full")]
)
def test_a_batch_may_be_handed_on_to_another_method(made: str, kind: str) -> None:
    text = f"""
    def train_step(self, batch):
        real = {made}
        self.descend(real)
    def descend(self, x):
        loss = self.net(x).mean()
        loss.backward()
        self.optimizer.step()
"""
    assert kinds(Facts(f"{HEAD}class Trainer:{CREATED}{text}")) == [kind]


@pytest.mark.parametrize("asked", ["model.set_input({'image': torch.randn(4)})", "model.real = torch.randn(4)"])
def test_callers_that_are_known_say_what_they_put_in(asked: str) -> None:
    put_in = "def set_input(self, batch): self.real = batch['image']"
    script = f"model = Trainer(opt, rows)\nfor _ in range(9):\n    {asked}\n    model.train_step()\n"
    text = f"{HEAD}class Trainer:{CREATED}    {put_in}{STEP.format(shown='self.real')}{script}"
    assert kinds(Facts(text)) == ["random"]


def test_a_function_with_a_whole_training_in_it_is_no_step() -> None:
    text = f"""{HEAD}
def main(args):
    net = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(9):
        step(net, optimizer, args)
def step(net, optimizer, args):
    (net(torch.randn(4)) * net(args.scale)).mean().backward()
    optimizer.step()
"""
    assert kinds(Facts(text)) == ["random"]


@pytest.mark.parametrize(("real", "is_given"), [("batch", True), ("self.rows", False)])
def test_a_backward_pass_trains_on_given_batches(real: str, *, is_given: bool) -> None:
    put_in = f"    def set_input(self, batch): self.real = {real}"
    facts = Facts(f"{HEAD}class Trainer:{CREATED}{put_in}{STEP.format(shown='self.real')}")
    given = GivenBatches(facts.program, ModelRuns(facts.program, facts.roles))
    assert given.train(facts.call("self.net(self.real).mean().backward()")) == is_given
