"""Schedules that follow a count of samples where each batch is divided between the processes."""

from __future__ import annotations

import pytest

from accelify.codemod.options import ACCELERATE, Options
from tests.codemod.pairs import run
from tests.codemod.training_scripts import STEP, script

SET_UP = "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1, n / 100))\nseen = 0"


def said(step: str, **options: bool) -> bool:
    """Whether a note says that a schedule counts the samples of one process."""
    notes = run(script(set_up=SET_UP, step=f"{STEP}{step}"), Options(**options)).notes
    return any(n.rule == "schedules" and "one process has seen" in n.message for n in notes)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("seen += x.size(0)\nscheduler.step(seen)", True),
        ("seen += len(y)\nscheduler.step(seen / 2)", True),
        ("seen = seen + x.shape[0]\nscheduler.step(seen)", True),
        ("seen += 1\nscheduler.step(seen)", False),
        ("seen += 2\nscheduler.step(seen)", False),
        ("scheduler.step()", False),
        ("scheduler.step(epoch)", False),
    ],
)
def test_samples_of_a_divided_batch(step: str, expected: bool) -> None:
    assert said(step, keep_global_batch=True) is expected


def test_samples_of_whole_batches_are_counted_like_steps() -> None:
    assert not said("seen += x.size(0)\nscheduler.step(seen)")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("seen += 1", True),
        ("seen += 1\nif seen > 500:\n    raise SystemExit", True),
        ("seen += 1\nif seen > 500: break", False),
    ],
)
def test_a_weight_of_the_loss_by_steps(step: str, expected: bool) -> None:
    loss = STEP.replace("loss =", "loss = min(1, seen / 100) *")
    notes = run(script(set_up="seen = 0", step=f"{loss}{step}"), Options()).notes
    assert any(n.rule == "schedules" and "follows the number of steps" in n.message for n in notes) is expected


@pytest.mark.parametrize(("rounds", "is_said"), [("range(500)", False), ("range(len(loader))", True)])
def test_a_training_with_as_many_steps_as_in_one_process(rounds: str, is_said: bool) -> None:
    text = script(set_up=SET_UP, step=f"{STEP}scheduler.step()\n")
    text = text.replace(
        "for x, y in loader:", f"batches = endless(loader)\n    for step in {rounds}:\n        x, y = next(batches)"
    )
    endless = "def endless(loader):\n    while True:\n        yield from loader\nloader ="
    notes = run(text.replace("loader =", endless, 1), Options()).notes
    assert any(n.rule == "schedules" for n in notes) is is_said


@pytest.mark.parametrize(
    ("total", "words"),
    [
        ("2 * len(loader)", "num_processes` (`len(loader)` is 1/N already)"),
        ("seen / len(loader)", "num_processes`, or"),
    ],
)
def test_the_length_of_the_loader_is_divided_already(total: str, words: str) -> None:
    loss = STEP.replace("loss =", "loss = min(1, seen / 100) *")
    step = f"{loss}seen += 1\nif seen > 500:\n    raise SystemExit\ntotal = {total}"
    notes = run(script(set_up="seen = 0", step=step), Options()).notes
    assert any(n.rule == "schedules" and words in n.message for n in notes)


AVERAGE = "for a, b in zip(average.parameters(), model.parameters()):\n    a.data.lerp_(b.data, 1 / (1 + {}))"


@pytest.mark.parametrize(
    ("counted", "is_said"),
    [
        ("step += 1\n" + AVERAGE.format("step * size"), True),
        ("step += 1\nn = size * step\n" + AVERAGE.format("n / 1000"), True),
        ("step += size\n" + AVERAGE.format("step"), True),
        ("step += size\nif step > 100: break", True),
        ("step += 1\n" + AVERAGE.format("step"), False),
        ("step += 1\n" + AVERAGE.format("step * 2"), False),
        ("step += 1\nprint(f'{step * size}/{len(rows)}')", False),
        ("step += 1\nn = step * size\nprint('seen', n)", False),
        ("step += size\nwriter.add_scalar('loss', 1, step)", False),
        ("step += 1\nfor group in optimizer.param_groups:\n    group['lr'] = step * size / 1e6", False),  # said already
    ],
)
def test_samples_that_are_counted_by_the_size_of_a_batch(counted: str, is_said: bool) -> None:
    set_up = "average = nn.Linear(4, 1)\nstep = 0\nwriter = SummaryWriter()"
    imports = "from torch.utils.tensorboard import SummaryWriter"
    text = script(imports=imports, before="size = 2\nrows = f()", set_up=set_up, step=f"{STEP}{counted}")
    text = text.replace("batch_size=2", "batch_size=size")
    whole, divided = (run(text, Options(keep_global_batch=keeps)).notes for keeps in (False, True))
    assert any("N times as many: multiply" in n.message for n in whole) is is_said
    assert not any("N times as many: multiply" in n.message for n in divided)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("if loss.item() > last: optimizer.param_groups[0]['lr'] *= 0.9\nlast = loss.item()", True),
        ("for group in optimizer.param_groups:\n    group['lr'] = 0.1 * float(loss)", True),
        ("rate = 0.1 * float(loss)\noptimizer.param_groups[0]['lr'] = rate", True),
        ("rate = 0.1 * float(loss)\nif rate < 0.01: break\noptimizer.param_groups[0]['lr'] = rate", False),
        ("rate = 0.1 * float(loss)\nif rate < 0.01: break\nset_rate(rate)", False),
        ("set_rate(0.1 * float(loss))", True),
        ("optimizer.param_groups[0]['lr'] = 0.1 / (1 + epoch)", False),
        ("print(loss.item())\nif epoch > 3: optimizer.param_groups[0]['lr'] *= 0.9", False),
    ],
)
def test_a_learning_rate_of_one_process(step: str, expected: bool) -> None:
    set_up = "last = 9\ndef set_rate(rate): optimizer.param_groups[0]['lr'] = rate"
    notes = run(script(set_up=set_up, step=f"{STEP}{step}\n")).notes
    assert any(n.rule == "schedules" and "from its own data" in n.message for n in notes) is expected


VARIED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
def cut(rows):
    while len(rows):
        size = int(torch.randint(2, 9, ()))
        yield rows[:size]
        rows = rows[size:]
rows = torch.randn(90, 4)
loader = DataLoader(rows, batch_size=4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def set_rate(n): optimizer.param_groups[0]['lr'] = n / 10
for x in {rounds}:
    {change}
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("rounds", "change", "expected"),
    [
        ("cut(rows)", "optimizer.param_groups[0]['lr'] = 0.1 * len(x) / 5", True),
        ("cut(rows)", "for group in optimizer.param_groups: group['lr'] = x.size(0) * 0.01", True),
        ("cut(rows)", "set_rate(len(x))", True),
        ("cut(rows)", "optimizer.param_groups[0]['lr'] = 0.1 / len(rows)", False),
        ("loader", "optimizer.param_groups[0]['lr'] = 0.1 * len(x) / 5", False),
    ],
)
def test_a_learning_rate_by_the_size_of_a_batch(rounds: str, change: str, expected: bool) -> None:
    notes = run(VARIED.format(rounds=rounds, change=change)).notes
    assert any(n.rule == "schedules" and "from its own data" in n.message for n in notes) is expected


def test_a_learning_rate_that_no_process_can_give_the_others() -> None:
    step = "rate = 0.1 * float(loss)\nif rate < 0.01: break\noptimizer.param_groups[0]['lr'] = rate"
    notes = run(script(step=f"{STEP}{step}\n"), Options(runtime=ACCELERATE)).notes
    assert any(n.rule == "schedules" and "from its own data" in n.message for n in notes)


STEPPED = """
import torch
from torch.utils.data import DataLoader, TensorDataset
def train(model, optimizer, loader, scheduler=None, by_step=False, after_epoch=True):
    for x, y in loader:
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
        {step}
    if scheduler is not None and after_epoch: scheduler.step()
loader = DataLoader(TensorDataset(torch.randn(9, 3), torch.randn(9, 1)), batch_size=2, shuffle=True)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=10)
for epoch in range(20):
    train(model, optimizer, loader, {given})
"""
UNDER_FLAG = "if scheduler is not None and by_step: scheduler.step()"


@pytest.mark.parametrize(
    ("step", "given", "is_said"),
    [
        (UNDER_FLAG, "scheduler, by_step=False", False),
        (UNDER_FLAG, "scheduler", False),
        ("if by_step:\n            if scheduler is not None: scheduler.step()", "scheduler, False", False),
        ("if not after_epoch: scheduler.step()", "scheduler", False),
        (UNDER_FLAG, "scheduler, by_step=True", True),
        (UNDER_FLAG, "scheduler, epoch < 5", True),
    ],
)
def test_a_step_for_each_batch_under_a_flag(step: str, given: str, is_said: bool) -> None:
    notes = run(STEPPED.format(step=step, given=given), Options()).notes
    assert any("the learning rate depends" in n.message for n in notes) is is_said


@pytest.mark.parametrize("total", ["total", "total / len(loader)"])
def test_a_mean_that_is_reduced_counts_no_samples(total: str) -> None:
    text = script(
        set_up="total = 0\nscheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)",
        step=f"{STEP}total += loss.item()\nif last: scheduler.step({total})\n",
    ).replace("nn.functional.mse_loss(model(x), y)", "(model(x) - y).pow(2).sum() / x.shape[0]")
    result = run(text, Options(keep_global_batch=True))
    assert f'scheduler.step(accelerator.reduce({total}, "mean"))' in result.after.decode()
    assert not any(n.rule == "schedules" for n in result.notes)


DRAWN = """import random
import torch
from torch.utils.data import DataLoader
rows = torch.randn(64, 4)
loader = DataLoader(rows, batch_size=8)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = 0
for epoch in range(3):
    {rounds}
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        seen += 1
        optimizer.param_groups[0]["lr"] = 0.1 * min(1, seen / 100)
"""
SAMPLE = "x = torch.stack([rows[i] for i in random.sample(range(64), 8)])"


@pytest.mark.parametrize(
    ("rounds", "is_said"),
    [
        (f"for step in range(8):\n        {SAMPLE}", False),
        (f"while seen < 8 * epoch + 8:\n        {SAMPLE}", False),
        (
            f"for n in range(8):\n        try:\n            {SAMPLE}\n        except IndexError:\n            continue",
            False,
        ),
        ("for x in loader:", True),
    ],
)
def test_steps_that_each_draw_their_data_are_as_many_as_in_one_process(rounds: str, is_said: bool) -> None:
    notes = run(DRAWN.format(rounds=rounds), Options()).notes
    assert any(n.rule == "schedules" and "1/N of the steps" in n.message for n in notes) is is_said


def test_a_schedule_of_steps_where_some_are_drawn_and_others_sharded() -> None:
    text = DRAWN.format(rounds="for x in loader:")
    drawn = f"for step in range(8):\n    {SAMPLE}\n    optimizer.zero_grad()\n    model(x).pow(2).mean().backward()\n"
    notes = run(f"{text}{drawn}    optimizer.step()\n", Options()).notes
    assert any(n.rule == "schedules" and "1/N of the steps" in n.message for n in notes)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("int(steps / len(loader) + 0.5)", "as `len(loader)` is 1/N: divide `steps` by `accelerator.num_processes`"),
        ("steps // size", "as `size` is 1/N: divide `steps` by `accelerator.num_processes`"),
        ("steps // 8", None),
    ],
)
def test_epochs_that_would_be_n_times_as_many(number: str, words: str | None) -> None:
    set_up = f"steps, size = 100, len(loader)\nepochs = {number}\n"
    step = f"{STEP}for group in optimizer.param_groups:\n    group['lr'] = 0.1 * (1 - epoch / epochs)"
    text = script(set_up=set_up, step=step).replace("range(2)", "range(epochs)")
    whole, divided = (run(text, Options(keep_global_batch=keeps)).notes for keeps in (False, True))
    said = [n.message for n in whole if n.rule == "schedules"]
    assert len(said) == (words is not None)
    assert all(f"N times as many epochs, {words}" in message for message in said)
    assert not any(n.rule == "schedules" for n in divided)


@pytest.mark.parametrize(
    ("set_up", "weight", "words"),
    [
        ("w = 0.1 * len(loader) / len(other)", "w", "`w` weighs the loss and comes from numbers of batches, which are"),
        ("w = 1 / len(loader)", "w", "`w` weighs the loss and comes from numbers of batches, which are"),
        ("args.w = 1 / len(loader)", "args.w", "`args.w` weighs the loss and comes from"),
        ("w = 1", "1 / len(loader)", "`len(loader)` weighs the loss and is 1/N on N processes"),
        ("w = 1 / len(rows)", "w", ""),
        ("w = 1 / len(loader)", "1", ""),
    ],
)
def test_a_weight_of_the_loss_by_the_number_of_batches(set_up: str, weight: str, words: str) -> None:
    before = "import argparse\nargs = argparse.ArgumentParser().parse_args()\nrows = f()\nother = DataLoader(rows[:9])"
    text = script(before=before, set_up=set_up, step=STEP.replace("loss =", f"loss = {weight} *"))
    whole, divided = (
        [n.message for n in run(text, Options(keep_global_batch=keeps)).notes if n.rule == "schedules"]
        for keeps in (False, True)
    )
    assert [m.partition(words)[0] for m in whole] == [""] * bool(words)
    assert all("above `prepare`" in m for m in whole)
    assert not divided


PLAYED = """\
import torch
from torch import nn
import gymnasium as gym
env, net = gym.make("CartPole-v1"), nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
steps = 0
{rounds}:
    state, _ = env.reset()
    log, rewards, done = [], [], False
    while not done:
        dist = torch.distributions.Categorical(logits=net(torch.as_tensor(state)))
        action = dist.sample()
        state, reward, end, cut, _ = env.step(action.item())
        done = end or cut
        log.append(dist.log_prob(action)); rewards.append(reward)
        steps += 1
    {rate}
    optimizer.zero_grad()
    (-torch.stack(log).sum() * sum(rewards)).backward()
    optimizer.step()
    {end}
"""
FOLLOWS = 'optimizer.param_groups[0]["lr"] = 0.1 * (1 - steps / 300)'


@pytest.mark.parametrize(
    ("rounds", "rate", "end", "line"),
    [
        ("while steps < 300", FOLLOWS, "pass", 8),
        ("while not steps >= 300", f"left = 1 - steps / 300\n    {FOLLOWS[:-22]} * left", "pass", 8),
        ("for episode in range(99)", FOLLOWS, "if steps > 300: break", 23),
        ("for episode in range(99)", FOLLOWS, "pass", None),
        ("while True", FOLLOWS, "if sum(rewards) > 300: break", None),  # by another number
        ("for episode in range(99)", FOLLOWS, "if steps > 300: print(steps)", None),
    ],
)
def test_a_loop_ends_by_the_number_that_its_rate_follows(rounds: str, rate: str, end: str, line: int | None) -> None:
    notes = run(PLAYED.format(rounds=rounds, rate=rate, end=end)).notes
    (found,) = (n.message for n in notes if "sets this learning rate" in n.message)
    assert ("end the loop in" in found) is (line is not None)
    assert line is None or "by the same number" in found
