"""Facts about what follows a count of steps."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.steps.annealing import Annealing
from accelify.codemod.metrics.steps.counts import StepCounts
from accelify.codemod.metrics.steps.intervals import Intervals
from accelify.codemod.metrics.steps.limits import Limits
from accelify.codemod.metrics.steps.rates import Rates
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script


@pytest.mark.parametrize(
    ("value", "is_count", "counts", "is_part"),
    [
        ("n", True, True, False),
        ("n / 1000", True, True, False),
        ("n / (3 * len(loader))", True, False, True),
        ("n < 2 * len(loader)", True, False, True),
        ("epoch", False, False, False),
        ("total / n", True, False, True),
    ],
)
def test_counts_and_parts_of_them(value: str, is_count: bool, counts: bool, is_part: bool) -> None:
    facts = Facts(script(set_up="n, total = 0, 0.0", step=f"{STEP}n += 1; total += x.mean().item()\nkeep({value})\n"))
    found, node = StepCounts(facts.script.metrics), facts.expression(f"keep({value})").args[0]
    assert (found.is_count(node), found.counts(node), found.is_part(node)) == (is_count, counts, is_part)


EPOCHS = """\
import math, torch
from torch.utils.data import DataLoader
from tqdm import tqdm, trange
args, rows = options(), torch.randn(64, 4)
loader, other = DataLoader(rows, batch_size=8), DataLoader(rows, batch_size=8)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def share(i, total):
    if i < total * 0.5:
        return 1.0
    return 0.5 ** ((i / float(total) - 0.5) * 12)
steps, done, few = 1000, 0, len(loader)
{epochs}
for epoch in {rounds}:
    for x in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
        {inside}
"""


def epochs(number: str, rounds: str = "range(epochs)", inside: str = "pass") -> Limits:
    text = EPOCHS.format(epochs=f"epochs = {number}", rounds=rounds, inside=inside)
    return Facts(text).script.limits


@pytest.mark.parametrize(
    ("number", "rounds", "found"),
    [
        ("int(steps / len(loader) + 0.5)", "range(epochs)", "steps"),
        ("steps // len(loader) + 1", "tqdm(range(1, epochs + 1))", "steps"),
        ("math.ceil(args.steps / few)", "trange(epochs)", "args.steps"),
        ("max(1, 1000 // len(loader))", "range(epochs)", "1000"),
        ("(steps + len(loader) - 1) // len(loader)", "range(epochs)", "steps"),
        ("-(-steps // len(loader))", "range(epochs)", "steps"),
        ("3", "range(args.steps // len(loader))", "args.steps"),
        ("steps // (len(rows) // 8)", "range(epochs)", None),
        ("steps // len(other)", "range(epochs)", None),
        ("steps // len(loader)", "range(3)", None),
        ("steps * len(loader) // len(loader)", "range(epochs)", None),
    ],
)
def test_epochs_by_the_length_of_a_prepared_loader(number: str, rounds: str, found: str | None) -> None:
    assert [ast.unparse(n) for n, _ in epochs(number, rounds).multiplied_epochs()] == ([found] if found else [])


def test_epochs_that_a_limit_of_as_many_steps_ends() -> None:
    number = "steps // len(loader) + 1"
    assert [*epochs(number, inside="if done >= steps: break").multiplied_epochs()] == []
    assert len([*epochs(number, inside="if done >= args.steps: break").multiplied_epochs()]) == 1


@pytest.mark.parametrize(
    ("rate", "is_said"),
    [
        ("share(epoch, epochs)", False),
        ("0.1 * (1 - epoch / epochs)", False),
        ("0.1 * (1 - done / (3 * len(loader)))", False),
        ("share(done, steps)", True),
        ("0.1 * 0.5 ** (done // 500)", True),
    ],
)
def test_a_rate_by_the_share_of_such_epochs(rate: str, is_said: bool) -> None:
    limits = epochs("int(steps / len(loader) + 0.5)", inside=f"optimizer.param_groups[0]['lr'] = {rate}")
    assert bool([*Rates(limits).learning_rates()]) is is_said


@pytest.mark.parametrize(("length", "is_said"), [("epochs", False), ("3 * len(loader)", True)])
def test_a_schedule_of_as_many_rounds_as_such_epochs(length: str, is_said: bool) -> None:
    made = f"steps // len(loader)\nscheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, {length})"
    text = EPOCHS.format(epochs=f"epochs = {made}", rounds="range(epochs)", inside="pass") + "    scheduler.step()\n"
    assert bool([*Rates(Facts(text).script.limits).shrunken_schedules()]) is is_said


SCORED = """\
class Scores:
    n = 0
    def of(self, model, x):
        self.n += 1
        model.weight.data.mul_(1)
        return {result}
scores = Scores()
for x, y in loader:
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    found = scores.of(model, x)
    print(found)
"""


@pytest.mark.parametrize(
    ("result", "loss", "found"),
    [
        ("self.n", "model(x).mean()", []),
        ("self.n", "scores.n * model(x).mean()", ["scores.n"]),
        ("x.mean()", "model(x).mean()", []),
    ],
)
def test_what_a_call_gives_that_also_changes_the_model(result: str, loss: str, found: list[str]) -> None:
    facts = Facts(script().partition("for epoch")[0] + SCORED.format(result=result, loss=loss))
    assert texts(Annealing(facts.script.step_counts).in_losses()) == found


DRAWN = """\
import random
import numpy as np
import torch
rows = torch.randn(64, 4)
def to_gpu(x):
    return x.cuda()
class Mover:
    def __call__(self, x):
        return to_gpu(x)
move = Mover()
rng, other = random.Random(0), np.random.default_rng(0)
model = {place}(torch.nn.Linear(4, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
seen = 0
for step in range(300):
    x = {place}(rows[torch.randperm(64)[:8]])
    seen += 1
    x = x + {noise}
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("place", ["to_gpu", "move"])
@pytest.mark.parametrize(
    ("noise", "counts"), [("0", False), ("rng.random()", False), ("other.normal()", False), ("seen", True)]
)
def test_what_only_moves_or_draws_counts_no_steps(place: str, noise: str, counts: bool) -> None:
    """One helper moves the model and the batches, so what moves a module seems to change the data in each step."""
    script = Facts(DRAWN.format(place=place, noise=noise)).script
    assert bool([*Annealing(script.step_counts).in_losses()]) is counts


STATE = """\
import torch
from torch.utils.data import DataLoader
def step(state, x):
    loss = {loss}
    state["optimizer"].zero_grad()
    loss.backward()
    state["optimizer"].step()
    state["step"] += 1
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = {state}
for x in DataLoader(torch.randn(64, 4), batch_size=8):
    step(state, x)
"""


@pytest.mark.parametrize(
    "state", ["dict(model=model, optimizer=optimizer, step=0)", "{'model': model, 'optimizer': optimizer, 'step': 0}"]
)
@pytest.mark.parametrize(
    ("loss", "counts"),
    [("state['model'](x).pow(2).mean()", False), ("state['model'](x).pow(2).mean() * 0.9 ** state['step']", True)],
)
def test_a_model_beside_a_counter_of_steps_counts_none(state: str, loss: str, counts: bool) -> None:
    script = Facts(STATE.format(loss=loss, state=state)).script
    assert bool([*Annealing(script.step_counts).in_losses()]) is counts


OPTIONS = """
import argparse, torch
from torch.utils.data import DataLoader
def train(loader, model, optimizer, args):
    for x in loader:
        loss = model(x).pow(2).mean() + {weight} * model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {count} += 1
{made}
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(DataLoader(torch.randn(64, 4), batch_size=8), model, optimizer, args)
"""


PARSED = "args = argparse.ArgumentParser().parse_args()\nargs.steps = 0"


ASSIGNED = "class Config: pass\nargs = Config()\nargs.steps, args.beta = 0, 0.5"


@pytest.mark.parametrize(
    ("made", "count", "weight", "counts"),
    [
        (PARSED, "args.steps", "args.beta", False),
        (ASSIGNED, "args.steps", "args.beta", False),
        ("args = dict(steps=0, beta=0.5)", "args['steps']", "args['beta']", False),
        (PARSED, "args.steps", "args.steps / 1000", True),
        (ASSIGNED, "args.steps", "(args.beta * args.steps)", True),
        ("args = dict(steps=0, beta=0.5)", "args['steps']", "0.9 ** args['steps']", True),
    ],
)
def test_an_option_beside_a_counter_of_steps_counts_none(made: str, count: str, weight: str, counts: bool) -> None:
    script = Facts(OPTIONS.format(made=made, count=count, weight=weight)).script
    assert bool([*Annealing(script.step_counts).in_losses()]) is counts


PIPELINE = """\
import torch
from pipelines import Annealer, Pipeline
from torch.utils.data import DataLoader
pipe, annealer = Pipeline.load("cats"), Annealer()
optimizer = torch.optim.SGD(pipe.unet.parameters(), lr=0.1)
for step, x in enumerate(DataLoader(torch.randn(64, 4), batch_size=8)):
    optimizer.zero_grad()
    loss = (pipe.unet(x, pipe.steps) * {weight}).mean()
    loss.backward()
    optimizer.step()
    {then}
"""


@pytest.mark.parametrize(
    ("weight", "then", "counts"),
    [
        ("2", 'if step % 500 == 0: pipe.save_pretrained("cats")', False),
        ("2", 'if step % 500 == 0: pipe.unet.export("cats.onnx")', False),
        ("2", 'if step % 500 == 0: pipe.cut(f"cats{step}")', False),
        ("2", "if loss < 0.1:\n        pipe.log(step)", False),
        ("annealer.beta", "annealer.step()", True),
    ],
)
def test_what_an_unknown_object_does_at_times_counts_no_steps(weight: str, then: str, counts: bool) -> None:
    script = Facts(PIPELINE.format(weight=weight, then=then)).script
    assert bool([*Annealing(script.step_counts).in_losses()]) is counts


CURRICULUM = """\
step, level, kept = 0, 1, []
for i, (x, y) in enumerate(loader):
    if step % 50 == 0:
        level += 1
    out = model(x)
    kept.append(out)
    {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
"""


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        ("loss = (out - y)[:, :level].abs().mean()", ["level"]),
        ("loss = (out[:, :level] - y[:, :level]).abs().mean()", ["level", "level"]),
        ("part = out[..., : min(level, 4)]; loss = (part - 1).abs().mean()", ["min(level, 4)"]),
        ("scales = [out.mean(), out.std()]; loss = scales[step // 500]", ["step // 500"]),
        ("loss = sum([out.mean(), out.std(), y.mean()][:level])", ["level"]),
        ("loss = (out - y)[:, :2].abs().mean()", []),
        ("loss = (out - targets[step]).abs().mean()", []),
        ("loss = (out - targets[i * 4 : (i + 1) * 4]).abs().mean()", []),
        ("loss = kept[step].mean()", []),
        ("loss = out[:, step % 2 :].mean()", []),
        ("loss = 0.0\n    for k in range(0, 4, 2): loss += model(x[k : k + 2]).mean()", []),
        ("k = 0; loss = 0.0\n    while k < len(x):\n        loss += model(x[k : k + 2]).mean()\n        k += 2", []),
    ],
)
def test_bounds_that_follow_a_count_of_steps(loss: str, found: list[str]) -> None:
    before = script(set_up="targets = torch.rand(90, 4)").partition("for epoch")[0]
    facts = Facts(before + CURRICULUM.format(loss=loss))
    assert texts(Annealing(facts.script.step_counts).in_losses()) == found


@pytest.mark.parametrize(
    "head",
    [
        "rows = list(loader)\nfor i in range(len(rows)):\n    x, y = rows[i]\n    {}",
        "rows = [b for b in loader]\nfor i, _ in enumerate(loader):\n    x, y = rows[i]\n    {}",
    ],
)
def test_the_number_of_a_batch_is_its_place_in_the_data(head: str) -> None:
    step = "loss = (model(x) - y).mean(); optimizer.zero_grad(); loss.backward(); optimizer.step()"
    facts = Facts(script().partition("for epoch")[0] + head.format(step))
    assert texts(Annealing(facts.script.step_counts).in_losses()) == []


BY_EPOCH = """\
per_epoch, done = len(rows) // 4, 0
def learn(epoch):
    {head}
for epoch in range(20):
    {rounds}
"""


ROUNDS = """\
{before}
    for i, (x, y) in enumerate(loader):
        {count}
        weight = 5.0
        if {step} > 1000:
            weight = 0.0
        loss = weight * model(x).abs().mean() + (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("is_in_function", [False, True])
@pytest.mark.parametrize(
    ("before", "count", "step", "is_of_steps"),
    [
        ("n = len(rows)", "pass", "(n // 4) * epoch + i", False),
        ("n = 0", "n += 1", "n + epoch * per_epoch", False),
        ("", "n = i + 1 + per_epoch * epoch", "n", False),
        ("", "pass", "epoch * len(loader) + i", True),
        ("global done", "done += 1", "per_epoch * epoch + done", True),
        ("", "pass", "epoch * 10 + i", True),
        ("", "pass", "epoch + i", True),
    ],
)
def test_a_count_by_the_epoch_and_the_size_of_all_data(
    before: str, count: str, step: str, is_of_steps: bool, is_in_function: bool
) -> None:
    rounds = ROUNDS.format(
        before=before if is_in_function else before.replace("global done", ""), count=count, step=step
    )
    head, body = (rounds, "learn(epoch)") if is_in_function else ("pass", rounds)
    facts = Facts(script().partition("for epoch")[0] + BY_EPOCH.format(head=head, rounds=body))
    assert texts(Annealing(facts.script.step_counts).in_losses()) == ([f"{step} > 1000"] if is_of_steps else [])


@pytest.mark.parametrize("test", ["step % 50 == 0", "(step + 1) % 50 == 0"])
def test_a_count_by_the_epoch_leaves_out_numbers_within_each(test: str) -> None:
    head = "for i, (x, y) in enumerate(loader):\n        step = len(rows) // 4 * epoch + i\n"
    text = script(step=f"{STEP}if {test}: print(step)").replace("for x, y in loader:\n", head)
    intervals = Intervals(Facts(text).script.limits).intervals()
    assert [ast.unparse(n.test) for n in intervals if isinstance(n, ast.If)] == [test]
