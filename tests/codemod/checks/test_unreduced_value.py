"""A value of one process's shard that is taken for the value of all data."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.unreduced_value import NAME
from tests.codemod.checks.checking import ACCELERATE, DDP, leaves, reports

TRAINED = (
    DDP
    + """\
train_data = DataLoader(data, sampler=DistributedSampler(data))
val_data = DataLoader(data, sampler=DistributedSampler(data, shuffle=False))
net = DDP(torch.nn.Linear(3, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
best = 0
for epoch in range(3):
    for x, y in train_data:
        net(x).sum().backward()
        opt.step()
    correct, losses = 0, []
    for x, y in val_data:
        correct += (net(x).argmax(1) == y).sum().item()
        losses.append(loss_of(net(x), y).item())
"""
)
PREPARED = (
    ACCELERATE
    + """\
from torch.utils.data import DataLoader
net, train_data, val_data = accelerator.prepare(torch.nn.Linear(3, 3), DataLoader(data), DataLoader(other))
for x, y in train_data:
    accelerator.backward(net(x).sum())
total = 0
for x, y in val_data:
    total += loss_of(net(x), y).item()
"""
)


def test_a_sum_of_a_shard_is_shown_or_compared() -> None:
    reports(NAME, TRAINED + "    print(correct / len(data))  # <- here\n")
    reports(NAME, TRAINED + "    if rank == 0:\n        print('accuracy', correct)  # <- here\n")
    reports(NAME, TRAINED + "    if rank == 0 and correct > best:  # <- here\n        torch.save(net, 'best.pt')\n")
    reports(NAME, PREPARED + "accelerator.print(total)  # <- here\n")
    reports(NAME, PREPARED + "accelerator.log({'loss': total / len(val_data)})  # <- here\n")


def test_a_list_of_a_shard() -> None:
    reports(NAME, TRAINED + "    print(sum(losses) / len(losses))  # <- here\n")


def test_a_schedule_that_goes_by_it() -> None:
    plateau = "plan = torch.optim.lr_scheduler.ReduceLROnPlateau(opt)\n"
    reports(NAME, TRAINED + plateau + "plan.step(sum(losses))  # <- here\n")


def test_what_a_function_returns_or_decides_by() -> None:
    text = """\
def evaluate(net, loader):
    total = 0
    for x, y in loader:
        total += loss_of(net(x), y).item()
    return total
class Stopping:
    best = 9.0
    def __call__(self, loss):
        if loss < self.best:
            self.best = loss
"""
    reports(NAME, text + TRAINED + "print(evaluate(net, val_data))  # <- here\n")
    reports(NAME, text + TRAINED + "stopping = Stopping()\nstopping(evaluate(net, val_data))  # <- here\n")


def test_the_worst_that_is_made_of_it() -> None:
    both = "    print(correct)\n    if correct > best:  # <- here\n        best = correct\n"
    reports(NAME, TRAINED + both)


@pytest.mark.parametrize(
    "after",
    [
        "    count = torch.tensor(correct)\n    dist.all_reduce(count)\n    print(count.item())\n",
        "    correct = reduce_mean(correct)\n    print(correct)\n",
        "    n = torch.tensor([correct])\n    dist.all_reduce(n)\n    correct = n.item()\n    print(correct)\n",
        "    parts = [None, None]\n    dist.all_gather_object(parts, losses)\n    print(sum(parts, []))\n",
        "    pass\n",
        "    print(epoch, len(losses))\n",
        "    if correct:\n        print('done')\n",
        "    if correct == 0:\n        raise RuntimeError\n",
    ],
)
def test_what_is_reduced_or_not_of_the_shard(after: str) -> None:
    leaves(NAME, TRAINED + after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DataLoader(data, sampler=DistributedSampler(data, shuffle=False))", "DataLoader(data)"),
        ("        correct += (net(x)", "        correct = correct + reduced(net(x)"),
        ("net = DDP(torch.nn.Linear(3, 3))", "net = torch.nn.Linear(3, 3)"),
        ('dist.init_process_group("nccl")', ""),
    ],
)
def test_another_script(old: str, new: str) -> None:
    assert old in TRAINED
    leaves(NAME, TRAINED.replace(old, new) + "    print(correct)\n")


def test_the_training_is_only_shown() -> None:
    text = TRAINED.replace(
        "        opt.step()", "        opt.step()\n        seen += x.sum().item()\n        print(seen)"
    )
    leaves(
        NAME,
        text.replace("    for x, y in train_data:", "    seen = 0\n    for x, y in train_data:") + "    print(seen)\n",
    )


def test_gathered_with_an_accelerator() -> None:
    leaves(NAME, PREPARED + "total = accelerator.gather(torch.tensor(total)).sum()\nprint(total)\n")
    leaves(
        NAME, PREPARED.replace("loss_of(net(x), y)", "accelerator.gather(loss_of(net(x), y)).sum()") + "print(total)\n"
    )
    leaves(NAME, PREPARED.replace("loss_of(net(x), y)", "accelerator.reduce(loss_of(net(x), y))") + "print(total)\n")


METER = """\
class Meter:
    def __init__(self):
        self.sum = 0.0
    def update(self, value):
        self.sum += value
"""


def test_a_meter_and_what_is_none() -> None:
    text = METER + TRAINED.replace("        losses.append(", "        meter.update(").replace(
        "losses = 0, []", "meter = 0, Meter()"
    )
    reports(NAME, text + "    print(meter.sum)  # <- here\n")
    leaves(NAME, TRAINED.replace("        losses.append(", "        optimizer.step(") + "    print(optimizer)\n")


def test_a_metric_of_a_library() -> None:
    text = PREPARED.replace("total = 0", "import evaluate\nmetric = evaluate.load('glue')")
    text = text.replace("total += loss_of(net(x), y).item()", "metric.add_batch(predictions={}, references={})")
    reports(NAME, text.format("net(x)", "y") + "print(metric.compute())  # <- here\n")
    both = ("accelerator.gather_for_metrics(net(x))", "accelerator.gather_for_metrics(y)")
    leaves(NAME, text.format(*both) + "print(metric.compute())\n")


def test_a_counter_and_code_that_never_runs() -> None:
    text = TRAINED.replace("        opt.step()", "        opt.step()\n        if y.sum() > 0:\n            steps += 1")
    leaves(NAME, text + "    if steps > 100:\n        break\n")
    leaves(NAME, TRAINED + "    if False:\n        print(correct)\n")


def test_what_only_comes_later_because_of_it() -> None:
    ended = "    if args.fast and correct > best:\n        dist.barrier()\n        break\n"
    text = TRAINED.replace("best = 0\n", "best, steps = 0, 0\n") + ended.replace("correct >", "reduced(correct) >")
    leaves(NAME, text + "    steps = steps + 1\n    if steps > 100:\n        break\n")


def test_a_loader_that_gives_every_process_all_of_its_data() -> None:
    both = "names = DataLoader(ids)\nfor (x, y), z in zip(val_data, names)"
    text = PREPARED.replace("for x, y in val_data", both)
    assert both in text
    own = text.replace("total += loss_of(net(x), y).item()", "total += y.sum().item()")
    reports(NAME, own + "print(total)  # <- here\n")
    leaves(NAME, text.replace("total += loss_of(net(x), y).item()", "total += z.sum().item()") + "print(total)\n")


def test_a_function_that_reduces_all_it_is_given() -> None:
    sums = "def summed(gpu, *each):\n    for one in each:\n        {}(one)\n    return each\n"
    text = TRAINED + "    every = summed(0, losses, correct)\n    if every[1] > 3:\n        print(correct)\n"
    leaves(NAME, DDP + sums.format("dist.all_reduce") + text.replace(DDP, ""))
