"""Facts about learning rates that follow a count of steps."""

from __future__ import annotations

from textwrap import indent

import pytest

from accelify.codemod.metrics.steps.rates import Rates
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script, training


def rates(**slots: str) -> list[str]:
    """What makes learning rates follow a count of steps."""
    return texts(Rates(training(**slots).script.limits).learning_rates())


@pytest.mark.parametrize(("rate", "found"), [("rate(done)", ["rate(done)"]), ("0.1 / (epoch + 1)", [])])
def test_optimizers_that_are_made_with_a_rate_by_the_count_of_steps(rate: str, found: list[str]) -> None:
    anew = f"done += 1\noptimizer = torch.optim.SGD(model.parameters(), lr={rate})\n"
    before = "def rate(step):\n    return min(step / 1000, 0.1)\n"
    assert rates(before=before, set_up="done = 0\n", step=anew + STEP) == found


def schedule(steps: str, step: str = STEP, end_of_epoch: str = "") -> tuple[list[str], list[str]]:
    set_up = f"scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, {steps})\n"
    found = training(set_up=set_up, step=step, end_of_epoch=end_of_epoch).script
    rates = Rates(found.limits)
    return texts(rates.learning_rates()), texts(rates.shrunken_schedules())


def test_schedules_that_step_with_each_batch() -> None:
    assert schedule("len(rows) // 2", STEP + "scheduler.step()\n") == (["len(rows) // 2"], [])
    assert schedule("len(loader)", STEP + "scheduler.step()\n") == ([], [])
    (found,) = schedule("1000", STEP + "scheduler.step()\n")[0]
    assert found.startswith("torch.optim.lr_scheduler.CosineAnnealingLR(")


@pytest.mark.parametrize("body", ["pass", "def __init__(self, *given):\n        super().__init__(*given)"])
def test_schedules_of_the_projects_own_class_that_step_with_each_batch(body: str) -> None:
    own = f"class Warm(torch.optim.lr_scheduler.LambdaLR):\n    {body}\n"
    set_up = "scheduler = Warm(optimizer, lambda step: 1 - step / 24)\n"
    found = training(before=own, set_up=set_up, step=STEP + "scheduler.step()\n").script
    assert [text[:5] for text in texts(Rates(found.limits).learning_rates())] == ["Warm("]


@pytest.mark.parametrize(
    ("anew", "found"),
    [
        ("scheduler = CosineAnnealingLR(optimizer, 80)", ["CosineAnnealingLR(optimizer, 80)"]),
        ("del scheduler\nscheduler = CosineAnnealingLR(optimizer, 80)", ["CosineAnnealingLR(optimizer, 80)"]),
        ("pass", ["StepLR(optimizer, 5)"]),
        (
            "if n:\n    scheduler = CosineAnnealingLR(optimizer, 80)",
            ["StepLR(optimizer, 5)", "CosineAnnealingLR(optimizer, 80)"],
        ),
    ],
)
def test_a_second_schedule_under_the_name_of_one_that_counts_epochs(anew: str, found: list[str]) -> None:
    imports = "from torch.optim.lr_scheduler import CosineAnnealingLR, StepLR\nfrom settings import n"
    again = indent(STEP + "scheduler.step()\n", "    ")
    slots = {"set_up": "scheduler = StepLR(optimizer, 5)", "end_of_epoch": "scheduler.step()"}
    assert rates(imports=imports, end=f"{anew}\nfor x, y in loader:\n{again}", **slots) == found


BOUNDED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self, model, optimizer, args):
        self.model, self.optimizer, self.args, self.done = model, optimizer, args, 0
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, {length})
    def train(self, loader):
        {loop}:
            for x in loader:
                loss = self.model(x).mean()
                self.optimizer.zero_grad(); loss.backward(); self.optimizer.step(); self.scheduler.step()
                self.done += 1
                if {leave}:
                    return
model = nn.Linear(4, 1)
Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), args).train(DataLoader(rows, batch_size=8))
"""


@pytest.mark.parametrize(
    ("length", "loop", "leave", "is_said"),
    [
        ("args.steps", "while self.done < self.args.steps", "False", False),
        ("args.steps", "for epoch in range(99)", "self.done >= self.args.steps", False),
        ("T_max=args.steps // 2", "for epoch in range(99)", "args.steps <= self.done", False),
        ("args.steps", "for epoch in range(args.epochs)", "False", True),
        ("args.period", "while self.done < args.steps", "False", True),
    ],
)
def test_schedules_as_long_as_the_training(length: str, loop: str, leave: str, is_said: bool) -> None:
    facts = Facts(BOUNDED.format(length=length, loop=loop, leave=leave).replace("class", "args = options()\nclass", 1))
    assert bool([*Rates(facts.script.limits).learning_rates()]) is is_said


def test_schedules_that_step_with_each_epoch() -> None:
    assert schedule("len(loader)", end_of_epoch="scheduler.step()\n") == ([], ["len(loader)"])
    assert schedule("10", end_of_epoch="scheduler.step()\n") == ([], [])


@pytest.mark.parametrize(
    "steps",
    [
        "t_total = len(rows) // 2\nscheduler = transformers.get_linear_schedule_with_warmup(optimizer, 10, t_total)",
        "n = 5000\nscheduler = transformers.get_cosine_schedule_with_warmup(optimizer, 10, num_training_steps=n)",
        "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step / 1000))",
    ],
)
def test_schedulers_may_be_told_in_any_words(steps: str) -> None:
    assert len(rates(imports="import transformers", set_up=steps, step=STEP + "scheduler.step()")) == 1


@pytest.mark.parametrize(
    ("set_up", "step"),
    [
        (
            "total = 3 * len(loader)\nscheduler = lrs.LambdaLR(optimizer, lambda step: 1 - step / total)",
            "scheduler.step()",
        ),
        ("scheduler = lrs.OneCycleLR(optimizer, 0.1, epochs=3, steps_per_epoch=len(loader))", "scheduler.step()"),
    ],
)
def test_schedulers_may_be_told_the_length_of_the_prepared_loader(set_up: str, step: str) -> None:
    assert rates(imports="import torch.optim.lr_scheduler as lrs", set_up=set_up, step=STEP + step) == []


SET = "for group in optimizer.param_groups:\n    group['lr'] = {}\n"


ADJUST = "def adjust(optimizer, step):\n    for group in optimizer.param_groups:\n        group['lr'] = {}\n"


NOAM = """\
class Noam:
    def __init__(self, optimizer, warmup):
        self.optimizer, self.warmup, self.n = optimizer, warmup, 0
    def step(self):
        self.n += 1
        for group in self.optimizer.param_groups:
            group['lr'] = min(self.n ** -0.5, self.n * self.warmup ** -1.5)
        self.optimizer.step()
"""


@pytest.mark.parametrize(
    "slots",
    [
        {"set_up": "n = 0", "batch": "n += 1\n" + SET.format("0.1 * min(n / 1000, 1)")},
        {"set_up": "n = 0", "batch": "n = n + 1\nrate = 0.1 * 0.9 ** (n // 100)\n" + SET.format("rate")},
        {"set_up": "n = 0", "batch": "n += 1\nif n in (100, 200):\n    optimizer.param_groups[0]['lr'] *= 0.1"},
        {"set_up": "n = 0\n" + ADJUST.format("0.1 / step"), "batch": "n += 1\nadjust(optimizer, n)"},
        {"set_up": "n = 0\n" + ADJUST.format("0.1"), "batch": "n += 1\nif n == 500:\n    adjust(optimizer, n)"},
        {"batch": "optimizer.param_groups[0]['lr'] *= 0.999"},
        {"set_up": NOAM + "wrapped = Noam(optimizer, 20)", "step": STEP.replace("optimizer.step", "wrapped.step")},
    ],
)
def test_learning_rates_that_are_set_from_a_count_of_steps(slots: dict[str, str]) -> None:
    assert len(rates(**slots)) == 1


@pytest.mark.parametrize(
    "slots",
    [
        {"epoch": SET.format("0.1 * 0.1 ** (epoch // 30)")},
        {"set_up": ADJUST.format("0.1 * step"), "epoch": "adjust(optimizer, epoch)"},
        {"set_up": "n = 0", "batch": "n += 1\n" + SET.format("0.1 * (1 - n / (2 * len(loader)))")},
        {
            "set_up": "n, total = 0, 2 * len(loader)",
            "batch": "n += 1\nif n < total:\n    " + SET.format("0.1").replace("\n", "\n    "),
        },
        {"set_up": "log = {}\nn = 0", "batch": "n += 1\nlog['lr'] = n"},
        {
            "set_up": "num = len(loader)\nmult, rate = 10 ** (1 / num), 0.1",
            "batch": "rate *= mult\n" + SET.format("rate"),
        },
        {"set_up": "rate = 0.1", "batch": "rate = rate * 10 ** (1 / len(loader))\n" + SET.format("rate")},
        {"set_up": "mult = 10 ** (1.0 / len(loader))", "batch": "optimizer.param_groups[0]['lr'] *= mult"},
    ],
)
def test_learning_rates_that_are_not(slots: dict[str, str]) -> None:
    assert rates(**slots) == []


@pytest.mark.parametrize("place", ["n == 500", "n == 10 * 50 and n"])
def test_a_rate_that_a_helper_sets_is_said_where_the_steps_are_counted(place: str) -> None:
    call = f"n += 1\nif {place}:\n    adjust(optimizer, n)"
    assert rates(set_up="n = 0\n" + ADJUST.format("0.1"), batch=call) == ["adjust(optimizer, n)"]


FINDING = """\
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
batches = iter(loader)
for step in {rounds}:
    x, y = next(batches)
    optimizer.zero_grad()
    (model(x) - y).pow(2).mean().backward()
    optimizer.step()
    scheduler.step()
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        (model(x) - y).pow(2).mean().backward()
        optimizer.step()
        {inside}
"""


@pytest.mark.parametrize(
    ("rounds", "inside", "found"),
    [
        ("range(100)", "pass", 0),
        ("tqdm(range(steps))", "pass", 0),
        ("range(len(loader))", "pass", 1),
        ("range(100)", "scheduler.step()", 1),
    ],
)
def test_a_schedule_of_a_loop_of_so_many_steps_takes_as_many_anywhere(rounds: str, inside: str, found: int) -> None:
    text = script(imports="from tqdm import tqdm\nsteps = 100\n").partition("for epoch")[0]
    facts = Facts(text + FINDING.format(rounds=rounds, inside=inside))
    assert len(list(Rates(facts.script.limits).learning_rates())) == found
