"""Facts about what counts steps: bars, schedules, learning rates set by hand, intervals."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.steps.counts import StepCounts, shrunken_schedules
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script, training


def rates(**slots: str) -> list[str]:
    """What makes learning rates follow a count of steps."""
    return texts(StepCounts(training(**slots).script.metrics).learning_rates())


@pytest.mark.parametrize(("rate", "found"), [("rate(done)", ["rate(done)"]), ("0.1 / (epoch + 1)", [])])
def test_optimizers_that_are_made_with_a_rate_by_the_count_of_steps(rate: str, found: list[str]) -> None:
    anew = f"done += 1\noptimizer = torch.optim.SGD(model.parameters(), lr={rate})\n"
    before = "def rate(step):\n    return min(step / 1000, 0.1)\n"
    assert rates(before=before, set_up="done = 0\n", step=anew + STEP) == found


def schedule(steps: str, step: str = STEP, end_of_epoch: str = "") -> tuple[list[str], list[str]]:
    set_up = f"scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, {steps})\n"
    found = training(set_up=set_up, step=step, end_of_epoch=end_of_epoch).script
    return texts(StepCounts(found.metrics).learning_rates()), texts(shrunken_schedules(found.metrics))


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
    assert [text[:5] for text in texts(StepCounts(found.metrics).learning_rates())] == ["Warm("]


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
    assert bool([*StepCounts(facts.script.metrics).learning_rates()]) is is_said


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


def epochs(number: str, rounds: str = "range(epochs)", inside: str = "pass") -> StepCounts:
    text = EPOCHS.format(epochs=f"epochs = {number}", rounds=rounds, inside=inside)
    return StepCounts(Facts(text).script.metrics)


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
    counts = epochs("int(steps / len(loader) + 0.5)", inside=f"optimizer.param_groups[0]['lr'] = {rate}")
    assert bool([*counts.learning_rates()]) is is_said


@pytest.mark.parametrize(("length", "is_said"), [("epochs", False), ("3 * len(loader)", True)])
def test_a_schedule_of_as_many_rounds_as_such_epochs(length: str, is_said: bool) -> None:
    made = f"steps // len(loader)\nscheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, {length})"
    text = EPOCHS.format(epochs=f"epochs = {made}", rounds="range(epochs)", inside="pass") + "    scheduler.step()\n"
    assert bool([*shrunken_schedules(Facts(text).script.metrics)]) is is_said


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


def intervals(batch: str) -> list[str]:
    found = StepCounts(training(set_up="n = 0", batch=f"n += 1\n{batch}").script.metrics).intervals()
    return [text.partition(":")[0] for text in texts(found)]


def test_intervals_and_limits_count_steps() -> None:
    assert intervals("if n % 100 == 0:\n    print(n)") == ["if n % 100 == 0"]
    assert intervals("if n >= 5000:\n    break") == ["if n >= 5000"]
    assert intervals("if not n % 10:\n    print(n)") == ["if not n % 10"]


def test_the_first_step_and_the_last_are_no_intervals() -> None:
    assert intervals("if n == 1:\n    print(n)") == []
    assert intervals("if n % len(loader) == 0:\n    print(n)") == []
    assert intervals("if epoch % 2 == 0:\n    print(n)") == []


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
    assert len(list(StepCounts(facts.script.metrics).learning_rates())) == found


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
    assert texts(StepCounts(facts.script.metrics).in_losses()) == found


FROM_SOME_STEP = """\
def learn(x, y, step):
    {within}
other = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        {inside}
"""


SECOND = "(model(x) - y).abs().mean().backward(); other.step()"


@pytest.mark.parametrize(
    ("inside", "within", "found"),
    [
        (f"if step > 500: {SECOND}", "pass", ["step > 500"]),
        (f"if i >= args.late and args.both: {SECOND}", "pass", ["i >= args.late and args.both"]),
        ("learn(x, y, step)", f"if step < 500: {SECOND}", ["step < 500"]),
        ("if 500 < step: other.step()", "pass", ["500 < step"]),
        (f"if step % 3 > 1: {SECOND}", "pass", []),
        (f"if step % 3 == 1: {SECOND}", "pass", []),
        (f"if epoch > 1: {SECOND}", "pass", []),
        (f"if i > 0: {SECOND}", "pass", []),
        (f"if i < len(loader) - 1: {SECOND}", "pass", []),
        ("if step > 500: print(loss.item())", "pass", []),
        ("if step > 500: break", "pass", []),
    ],
)
def test_phases_that_begin_or_end_at_a_count_of_steps(inside: str, within: str, found: list[str]) -> None:
    facts = Facts(script().partition("for epoch")[0] + FROM_SOME_STEP.format(inside=inside, within=within))
    assert texts(StepCounts(facts.script.metrics).phases()) == found


ADDED = """\
step, weight, shown, pool = 0, 1.0, 0.0, []
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        step += 1
        out = model(x)
        loss = weight * (out - y).pow(2).mean()
        {inside}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("inside", "found"),
    [
        ("if step > 500: loss += out.abs().mean()", ["step > 500"]),
        ("if i >= args.late and args.both: loss = loss + out.abs().mean()", ["i >= args.late and args.both"]),
        ("loss = loss + out.mean() if step < 500 else loss", ["step < 500"]),
        ("if step > 500: weight = 0.5", ["step > 500"]),
        ("if step % 3 > 1: loss += out.abs().mean()", []),
        ("if epoch > 1: loss += out.abs().mean()", []),
        ("if i > 0: loss += out.abs().mean()", []),
        ("if i < len(loader) - 1: loss += out.abs().mean()", []),
        ("if step > 500: shown = out.mean().item()", []),
        ("if step < 500: pool.append(out)\n        loss += pool[0].mean()", []),
    ],
)
def test_parts_of_a_loss_that_begin_or_end_at_a_count_of_steps(inside: str, found: list[str]) -> None:
    facts = Facts(script().partition("for epoch")[0] + ADDED.format(inside=inside))
    assert texts(StepCounts(facts.script.metrics).in_losses()) == found


PLACES = """\
for i in range(0, len(x), 6):
    {rows}
    loss = model(rows).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_place_in_the_data_is_no_count_of_steps() -> None:
    rows = "if i + 6 > len(x): rows = x[i:]\n    else: rows = x[i : i + 6]"
    facts = Facts(script(set_up="x = torch.rand(20, 4)").partition("for epoch")[0] + PLACES.format(rows=rows))
    assert texts(StepCounts(facts.script.metrics).in_losses()) == []


COUNTING = """\
size = 2
total, count = 0.0, 0
for x, y in DataLoader(rows, batch_size=size):
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    count += size
    total += loss.item() * size
    {inside}
{after}
"""


@pytest.mark.parametrize(
    ("inside", "after", "found"),
    [
        ("print(total / count)", "", []),
        ("pass", "print(total / count)", []),
        ("pass", "mean = total / float(1) / count\nprint(mean)", []),
        ("print(count)", "", []),
        ("if count % 100 == 0: model.eval()", "print(total / count)", ["count"]),
        ("if count >= 9: break", "", ["count"]),
        ("pass", "done = 1 - 5 / count\nprint(done, total / count)", ["count"]),
        ("kept[count:] = 0\nif count >= 9: break", "", []),  # a place in an array
        ("print(kept[:, count - 1 : count])\nif count >= 9: break", "", []),
    ],
)
def test_samples_that_only_divide_their_sum_are_counted_right(inside: str, after: str, found: list[str]) -> None:
    facts = Facts(script().partition("for epoch")[0] + COUNTING.format(inside=inside, after=after))
    counted = StepCounts(facts.script.metrics).samples(facts.script.batch_sizes.loaders)
    assert texts(counted) == found


@pytest.mark.parametrize(
    ("set_up", "step", "end", "found"),
    [
        ("size = len(loader) * loader.batch_size\nprint(size)", "", "", ["len(loader) * loader.batch_size"]),
        ("print({'size': 2 * len(loader)})", "", "", ["2 * len(loader)"]),
        ("n = len(loader)", "", "torch.save({'size': n * loader.batch_size}, 'a.pt')", ["n * loader.batch_size"]),
        ("size = len(rows)\nprint(size)", "", "", []),
        ("print(len(loader) * 5)", "", "", []),  # the steps of five epochs
        ("size = len(loader) * loader.batch_size", "print(f'{epoch} of {size}')", "", []),
        ("total = 0.0", "total += loss.item() * 2", "print(total / (len(loader) * loader.batch_size))", []),
        ("total = 0.0", "total += loss.item() * 2", "size = len(loader) * 2\nprint(total / size)", []),
        ("total = 0.0", "total += loss.item() * 2", "size = len(loader) * 2\ntotal /= size\nprint(total)", []),
    ],
)
def test_sizes_of_the_data_by_the_length_of_a_shard(set_up: str, step: str, end: str, found: list[str]) -> None:
    facts = training(set_up=set_up, step=STEP + step, end=end)
    assert texts(StepCounts(facts.script.metrics).shard_sizes(facts.script.batch_sizes.loaders)) == found


@pytest.mark.parametrize("mean", ["total / len(loader)", "total / (i + 1)", "total / steps_per_epoch"])
def test_a_check_of_the_mean_loss_is_no_limit(mean: str) -> None:
    epoch = (
        "steps_per_epoch = len(loader)\ndef one_epoch():\n    total = 0\n    for i, (x, y) in enumerate(loader):\n"
        "        loss = (model(x) - y).pow(2).mean()\n        optimizer.zero_grad()\n        loss.backward()\n"
        f"        optimizer.step()\n        total += loss.item()\n    return {mean}\n"
    )
    text = (
        script().partition("for epoch in")[0]
        + epoch
        + "for epoch in range(9):\n    if one_epoch() > 1e6:\n        break\n"
    )
    assert not list(StepCounts(Facts(text).script.metrics).limits())


LIMITED = """\
def one_epoch():
    for i, (x, y) in enumerate(loader):
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if {test}:
            return i
    return i


count = 0
for epoch in range(9):
    num = one_epoch()
    count += num
    if {outer}:
        break
"""


@pytest.mark.parametrize(
    ("test", "outer", "found"),
    [
        ("(i + 1) * 2 >= 800", "epoch > 7", ["if (i + 1) * 2 >= 800"]),
        ("i == 0", "count >= 1000", ["if count >= 1000"]),
        ("2 * i > 30", "epoch > 7 or count > 99", ["if 2 * i > 30", "if epoch > 7 or count > 99"]),
        ("False", "epoch > 7", []),
    ],
)
def test_limits_of_steps_and_samples(test: str, outer: str, found: list[str]) -> None:
    text = script().partition("for epoch in")[0] + LIMITED.format(test=test, outer=outer)
    assert [f"if {ast.unparse(node.test)}" for node in StepCounts(Facts(text).script.metrics).limits()] == found


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ("islice(loader, 4)", ["4"]),
        ("islice(loader, 2, 4)", ["4"]),
        ("islice(loader, None)", []),
        ("islice(loader, len(loader) // 2)", []),
        ("zip(range(2, 4), loader)", ["4"]),
        ("enumerate(loader)", []),
    ],
)
def test_numbers_of_batches_in_the_head_of_a_loop(head: str, found: list[str]) -> None:
    text = f"from itertools import islice\n{script()}".replace("in loader:", f"in {head}:")
    assert [ast.unparse(n) for n in StepCounts(Facts(text).script.metrics).caps()] == found


ASKED = """\
{begin}
{loop}
    try:
        x, y = next(batches)
    except StopIteration:
        {end}
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    done += 1
"""


AGAIN = "batches = iter(loader); x, y = next(batches)"


@pytest.mark.parametrize(
    ("loop", "end", "stays"),
    [
        ("for step in range(args.steps):", AGAIN, True),
        ("for step in tqdm.trange(1, 1000):", AGAIN, True),
        ("for step in args.steps(1, 1000):", AGAIN, False),  # what is not known may be anything
        ("for step in tqdm.tqdm(range(1, 1000)):", AGAIN, True),
        ("while done < 1000:", AGAIN, True),
        ("for step in range(len(loader)):", AGAIN, False),
        ("for step in range(2 * len(loader)):", AGAIN, False),
        ("for step in range(1000):", "break", False),
        ("for x, y in loader:", AGAIN, False),
    ],
)
def test_loops_that_take_as_many_steps_as_in_one_process(loop: str, end: str, stays: bool) -> None:
    begin = "done, batches = 0, iter(loader)"
    text = script(imports="import tqdm\nfrom settings import args").partition("for epoch in")[0]
    rounds = StepCounts(Facts(text + ASKED.format(begin=begin, loop=loop, end=end)).script.metrics).rounds()
    assert [t.partition("\n")[0] for t in texts(rounds)] == ([loop] if stays else [])


CHECKED = "n = len(loader)\n{check}\nfor epoch in"


@pytest.mark.parametrize(
    ("check", "found"),
    [
        ("assert n % args.every == 0, 'must divide'", ["assert n % args.every == 0, 'must divide'"]),
        ("if len(loader) % 50:\n    raise ValueError(n)", ["if len(loader) % 50"]),
        ("if n > 20:\n    print(n)\nelse:\n    raise ValueError(n)", ["if n > 20"]),
        ("assert n > 0", []),
        ("assert len(rows) % 50 == 0", []),
        ("if n % 50:\n    print(n)", []),
    ],
)
def test_checks_of_the_number_of_batches(check: str, found: list[str]) -> None:
    text = script(imports="from settings import args").replace("for epoch in", CHECKED.format(check=check))
    assert [t.partition(":")[0] for t in texts(StepCounts(Facts(text).script.metrics).checks())] == found


LENGTHS = """\
names = ["step", "loss"]
class Log:
    def __init__(self): self.steps = 0
    def append(self, member):
        assert len(names) == len(member)
def filled(values):
    return sorted(values)
log, kept, count = Log(), [], 0
for x in loader:
    count += 1
    kept.append(model(x).mean().item())
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
{end}
"""


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("log.append([count, 0.5])", []),  # a row of the log has two numbers, whatever they are
        ("log.append((count, *names))", []),
        ("log.append([n for n in (count, 2)])", []),
        ("assert len(torch.full((count, 3), 1.0).shape) == 2", []),
        ("log.append(kept)", ["assert len(names) == len(member)"]),
        ("log.append([0, *kept])", ["assert len(names) == len(member)"]),
        ("assert len(filled(kept)) == 20", ["assert len(filled(kept)) == 20"]),
        ("assert len([k + 1 for k in kept]) == 20", ["assert len([k + 1 for k in kept]) == 20"]),
    ],
)
def test_checks_of_how_many_items_the_rounds_give(end: str, found: list[str]) -> None:
    text = script().partition("for epoch in")[0] + LENGTHS.format(end=end)
    assert texts(StepCounts(Facts(text).script.metrics).checks()) == found


@pytest.mark.parametrize(
    ("end", "is_shown"),
    [
        ("print(len(loader))", True),
        ("print('%d batches' % len(loader))", True),
        ("print(f'{len(loader)} batches')", True),
        ("print('{} batches'.format(len(loader)))", True),
        ("print(total / len(loader))", False),  # a mean over what each process has seen
        ("print(len(rows))", False),
        ("for x in loader:\n    print(len(loader))", False),
    ],
)
def test_a_number_of_batches_that_is_shown(end: str, is_shown: bool) -> None:
    found = training(end=f"total = 3\n{end}\n").script.metrics
    assert texts(StepCounts(found).shown()) == (["len(loader)"] if is_shown else [])


ANNEALED = """\
import math, random
k = 100
others = iter(DataLoader(rows, batch_size=2))
class State:
    def __init__(self):
        self.step, self.total = 0, 0
state = State()
def weight(step):
    return min(1.0, step / k)
def lost(out, y, w):
    return (out - y).pow(2).mean() * w
"""


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        ("(model(x) - y).pow(2).mean() + weight(n) * x.mean()", ["weight(n)"]),
        ("lost(model(x), y, min(1.0, n / k))", ["min(1.0, n / k)"]),
        ("lost(model(x), y, w=1 - state.step / k)", ["1 - state.step / k"]),
        ("(model(x if random.random() < math.exp(-n / k) else y)).mean()", ["random.random() < math.exp(-n / k)"]),
        ("model(x, n).mean()", ["n"]),
        ("(model(x) - y).pow(2).mean() * ((n + epoch * len(loader)) / 10 / len(loader))", []),
        ("(model(x) - y).pow(2).mean() / len(loader)", []),
        ("(model(x) - y).pow(2).mean() * weight(epoch)", []),
        ("lost(model(x), y, 0.5)", []),
        ("model(x[n % 4 :]).mean()", []),
        ("model(next(others)).mean()", []),
        ("(model(x) - total / n).mean()", []),
        ("(model(x) - state.total / (n + 1)).mean()", []),
        ("(model(x) - total * (n / k)).mean()", ["n / k"]),
    ],
)
def test_what_of_a_loss_follows_a_count_of_steps(loss: str, found: list[str]) -> None:
    facts = training(
        before=ANNEALED,
        epoch="n = 0" if "epoch *" in loss else "",
        set_up="n, total = 0, 0.0",
        step=STEP.replace("nn.functional.mse_loss(model(x), y)", loss)
        + "n += 1; state.step += 1; total += loss.item(); state.total += x.mean().item()\n",
    )
    everything = texts(StepCounts(facts.script.metrics).in_losses())
    assert [text for text in everything if text in found] == found
    assert bool(everything) is bool(found)


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
    assert bool([*StepCounts(script.metrics).in_losses()]) is counts


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
    assert bool([*StepCounts(script.metrics).in_losses()]) is counts


SEVERAL = """\
import itertools, torch
from torch.utils.data import DataLoader
from tqdm import tqdm, trange
def forever(loader):
    while True:
        yield from loader
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = forever(DataLoader(torch.randn(64, 1), batch_size=4))
for _ in {rounds}:
    x = next(batches)
    for _ in range(5):
        loss = model(x).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


@pytest.mark.parametrize(
    ("rounds", "is_fixed"),
    [
        ("range(100)", True),
        ("trange(100, leave=False)", True),
        ("tqdm(range(1, 100))", True),
        ("itertools.count(1)", False),
    ],
)
def test_rounds_of_several_steps_on_a_batch(rounds: str, is_fixed: bool) -> None:
    metrics = Facts(SEVERAL.format(rounds=rounds)).script.metrics
    assert bool(StepCounts(metrics).rounds()) is is_fixed
    assert not metrics.reports


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
    assert bool([*StepCounts(script.metrics).in_losses()]) is counts


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
    assert bool([*StepCounts(script.metrics).in_losses()]) is counts


PHASES = """\
import torch
from torch.utils.data import DataLoader
size, rows, seen = 2, torch.randn(8, 1), 0
loaders = {{"train": DataLoader(rows, batch_size=size), "val": DataLoader(rows, batch_size=size)}}
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for phase in ["train", "val"]:
    for i, x in enumerate(loaders[phase]):
        loss = model(x).mean()
        if phase == "train":
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        if {test}:
            keep(x)
"""


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("phase == 'val' and i * size < 4", []),
        ("phase == 'val':\n            if i * size < 4", []),
        ("phase != 'train':\n            if i * size < 4", []),
        ("phase == 'train':\n            if i * size < 4", ["i * size"]),
        ("i * size < 4", ["i * size"]),
    ],
)
def test_a_phase_that_goes_over_all_counts_all(test: str, found: list[str]) -> None:
    text = PHASES.format(test=test).replace("size < 4:\n            keep", "size < 4:\n                keep")
    facts = Facts(text)
    counts = StepCounts(facts.script.metrics)
    assert texts(counts.samples(facts.script.batch_sizes.loaders)) == found
    assert [ast.unparse(n.test) for n in counts.intervals() if isinstance(n, ast.If)] == [f"{n} < 4" for n in found]


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
    assert texts(StepCounts(facts.script.metrics).in_losses()) == found


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
    assert texts(StepCounts(facts.script.metrics).in_losses()) == []


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
    assert texts(StepCounts(facts.script.metrics).in_losses()) == ([f"{step} > 1000"] if is_of_steps else [])


@pytest.mark.parametrize("test", ["step % 50 == 0", "(step + 1) % 50 == 0"])
def test_a_count_by_the_epoch_leaves_out_numbers_within_each(test: str) -> None:
    head = "for i, (x, y) in enumerate(loader):\n        step = len(rows) // 4 * epoch + i\n"
    text = script(step=f"{STEP}if {test}: print(step)").replace("for x, y in loader:\n", head)
    counts = StepCounts(Facts(text).script.metrics)
    assert [ast.unparse(n.test) for n in counts.intervals() if isinstance(n, ast.If)] == [test]
