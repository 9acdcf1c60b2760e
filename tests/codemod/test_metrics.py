"""Sums over shared data: reduced where they come out over all processes as over one, left and told otherwise."""

from __future__ import annotations

import pytest

from accelify.codemod.rewrite import Options
from tests.codemod.pairs import run, script

SCRIPT = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,))), batch_size=2)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def train(loader, epoch{parameter}):
    {begin}
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        {add}
    {end}


{before}
for epoch in range(2):
    {call}
"""
EVALUATED = """\
for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    total = 0
    with torch.no_grad():
        for x, y in held:
            loss = criterion(model(x), y)
            total += loss.item()
    scheduler.step(total)
    if total > best:
        break
    best = total
"""
REDUCED = "total = accelerator.reduce(total, "


def rewritten(
    *,
    begin: str = "total = 0",
    add: str = "total += loss.item()",
    end: str = "print(total / len(loader.dataset))",
    call: str = "train(loader, epoch)",
    parameter: str = "",
    before: str = "",
    splits: bool = False,
) -> tuple[str, list[str]]:
    """The new script, and its notes about sums."""
    text = SCRIPT.format(begin=begin, add=add, end=end, call=call, parameter=parameter, before=before)
    result = run(text, Options(keep_global_batch=splits))
    return result.after.decode(), [
        n.message for n in result.notes if " shard " in n.message or "own batches" in n.message
    ]


@pytest.mark.parametrize(
    "end",
    [
        "print(total / len(loader.dataset))",
        "print(total)",
        "print('{:.3f}'.format(100. * total / 8))",
        "total /= len(loader.dataset); print(total)",
        "average = total; print(average / 8)",
        "if total < 3: torch.save(model.state_dict(), 'best.pt')",
    ],
)
def test_what_is_meant_of_all_batches_is_summed(end: str) -> None:
    after, notes = rewritten(end=end)
    added = "total += accelerator.mean_for_metrics(loss, criterion, out, y).item()"
    assert f'        {added}\n    {REDUCED}"sum")\n' in after
    assert not notes


@pytest.mark.parametrize(
    ("add", "how"),
    [
        ("total += loss.item() / len(loader)", "mean"),
        ("total = total + loss.item() * (1 / len(loader))", "mean"),
        ("batches = len(loader); total += 100 * loss.item() / batches", "mean"),
        ("total += loss.item() * len(y) / len(loader.dataset)", "sum"),
        ("total += (loss / x.size(0)).item()", "sum"),
    ],
)
def test_a_mean_that_is_made_part_by_part_is_that_of_all_batches(add: str, how: str) -> None:
    after, notes = rewritten(add=add, end="print(total)")
    assert f'    {REDUCED}"{how}")\n' in after
    assert not notes


@pytest.mark.parametrize("end", ["print(total)", "print(epoch * len(loader) + total)"])
def test_the_number_of_the_last_step_is_no_sum(end: str) -> None:
    after, notes = rewritten(add="total += 1", end=end)
    assert "reduce" not in after
    assert not notes
    after, _ = rewritten(add="if loss < 1:\n            total += 1", end=end)
    assert f'    {REDUCED}"sum")\n' in after


def test_a_count_that_divides_what_stays_a_share_stays_one() -> None:
    after, notes = rewritten(
        before="losses = np.zeros(2)",
        begin="rows = 0",
        add="losses[epoch] += loss.item() * len(x); rows += len(x)",
        end="losses[epoch] /= rows; print(losses[epoch])",
    )
    assert "accelerator.reduce(" not in after
    assert len(notes) == 1
    assert "; also `" in notes[0]


def test_a_mean_that_is_divided_twice_stays() -> None:
    after, notes = rewritten(add="total += loss.item() / len(loader)", end="print(total / len(loader))")
    assert REDUCED not in after
    assert notes


@pytest.mark.parametrize(
    "end",
    [
        "print(total / len(loader))",
        "return 100 * total / len(loader)",
        "total = total / (i + 1); print(total)",
        "batches = len(loader); print(total / batches)",
        "average = total; print(average / len(loader))",
        "print(np.sum(total) / len(loader))",
    ],
)
def test_what_is_divided_by_the_batches_of_one_process_is_averaged(end: str) -> None:
    after, notes = rewritten(end=end)
    assert f'    {REDUCED}"mean")\n' in after
    assert not notes


def test_what_is_divided_before_it_is_added_is_a_part_of_the_mean() -> None:
    after, notes = rewritten(add="part = loss.item() / len(loader); total += part", end="print(total)")
    assert f'    {REDUCED}"mean")\n' in after
    assert not notes


def test_the_caller_that_divides_is_seen() -> None:
    after, _ = rewritten(end="return total, epoch", call="loss, _ = train(loader, epoch); print(loss / len(loader))")
    assert f'    {REDUCED}"mean")\n' in after
    after, _ = rewritten(end="print(total / n)", call="train(loader, epoch, len(loader))", parameter=", n")
    assert f'    {REDUCED}"mean")\n' in after


def test_a_ratio_of_sums_is_reduced_together() -> None:
    after, notes = rewritten(
        begin="hits, total = 0, 0",
        add="hits += (out.argmax(1) == y).sum().item(); total += y.size(0)",
        end="print(hits / total)",
    )
    assert '    hits, total = accelerator.reduce((hits, total), "sum")\n' in after
    assert not notes


def test_a_ratio_that_is_returned_is_of_two_sums_that_are_reduced_or_of_none() -> None:
    add = "hits += (out.argmax(1) == y).sum(); total += len(y)"
    after, notes = rewritten(
        begin="hits = torch.zeros(1).to('cpu'); total = 0",
        add=add,
        end="return loss, hits.item() / total",
        call="_, accuracy = train(loader, epoch); print(accuracy)",
    )
    assert '    hits, total = accelerator.reduce((hits, total), "sum")\n' in after
    assert not notes
    after, notes = rewritten(
        begin="hits = first(); total = 0",
        add=add,
        end="return loss, hits.item() / total",
        call="_, accuracy = train(loader, epoch); print(accuracy)",
        before="def first(): return torch.ones(1)",
    )
    assert "reduce" not in after
    assert len(notes) == 1
    assert "; also `" in notes[0]


def test_a_sum_that_begins_again_for_another_loop_is_reduced_for_this() -> None:
    again = "print(total); total = 0\n    for x, y in [(1, 2)]:\n        total += x\n    print(total)"
    after, _ = rewritten(end=again)
    assert after.count(f'{REDUCED}"sum")') == 1


def test_a_sum_over_several_epochs_is_reduced_after_them() -> None:
    after, _ = rewritten(
        before="hits = 0",
        call="train(loader, 1)\n    for x, y in loader:\n        hits += y.sum().item()\nprint(hits)",
    )
    assert '\nhits = accelerator.reduce(hits, "sum")\nprint(hits)\n' in after


@pytest.mark.parametrize(
    "changes",
    [
        {"begin": "total = 1"},
        {
            "begin": "losses = []; total = 0",
            "add": "losses.append(1); total += len(x)",
            "end": "print(sum(losses) / total)",
        },
        {"add": "total += loss.item()\n        if i % 3 == 0: print(total); total = 0"},
        {"add": "total += loss.item()\n        print(total)", "end": "pass"},
        {"end": "print(total / len(loader), total)"},
        {"end": "show(total)", "before": "def show(value):\n    print(value / 4)\n"},
        {"add": "total += loss.item()\n        if i > 3: return total"},
        {"begin": "global total", "before": "total = 0"},
        {"add": "total += loss", "end": "total.backward(); print(total)"},
        {"end": "for i, (x, y) in enumerate(loader): total += loss.item()\n    print(total)"},
    ],
)
def test_a_sum_that_cannot_be_shown_is_reported(changes: dict[str, str]) -> None:
    after, notes = rewritten(**changes)  # type: ignore[arg-type]  # the names of its parameters
    assert "accelerator.reduce" not in after
    said = "Values shown for some" if changes.get("end") == "pass" else "`total` covers this process's shard only"
    assert any(said in note for note in notes)


def test_what_the_loop_shows_is_reported() -> None:
    after, notes = rewritten(add="total += loss.item()\n        print(total / (i + 1))")
    assert REDUCED in after
    assert any("Values shown for some batches" in note for note in notes)


@pytest.mark.parametrize(
    ("summand", "how"),
    [
        ("loss.item()", "mean"),
        ("loss.data[0]", "mean"),
        ("float(criterion(out, y))", "mean"),
        ("loss.item() * x.size(0)", "sum"),
        ("len(x)", "sum"),
        ("out.argmax(1).eq(y).sum().item()", "sum"),
        ("nn.functional.cross_entropy(out, y, reduction='sum').item()", "sum"),
    ],
)
@pytest.mark.parametrize("end", ["print(total)", "print(total / len(loader))"])
def test_where_processes_share_a_batch_the_summand_decides(summand: str, how: str, end: str) -> None:
    after, _ = rewritten(add=f"total += {summand}", end=end, splits=True)
    assert f'{REDUCED}"{how}")' in after


def test_where_processes_share_a_batch_an_unclear_summand_is_reported() -> None:
    after, notes = rewritten(add="total += model.penalty(out)", splits=True)
    assert "accelerator.reduce" not in after
    assert notes


# Loops that evaluate.

EVALUATION = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,)))
loader = DataLoader(data, batch_size=2)
valid = DataLoader(data, batch_size=3{options})
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss({weighing})


def evaluate(loader):
    {mode}
    total, found = 0, []
    for x, y in {source}:
        {before}
        out = {forward}
        {metric}
    {end}


for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        {inside}
    {call}
"""
SLOTS = {
    "options": "",
    "weighing": "",
    "mode": "model.eval()",
    "source": "loader",
    "before": "pass",
    "forward": "model(x)",
    "metric": "total += (out.argmax(1) == y).sum().item()",
    "end": "return total / len(loader.dataset)",
    "inside": "pass",
    "call": "print(evaluate(valid))",
}


def evaluated(**slots: str) -> tuple[str, list[str]]:
    text = EVALUATION.format(**{**SLOTS, **slots}).replace("        pass\n", "")
    result = run(text)
    return result.after.decode(), [n.message for n in result.notes if n.rule != "batch_size"]


@pytest.mark.parametrize(
    "slots",
    [
        {},
        {"metric": "total += F.nll_loss(F.log_softmax(out, dim=1), y, reduction='sum').item()"},
        {"metric": "loss = criterion(out, y)\n        total += loss.item() * y.size(0)"},
        {"metric": "_, top = torch.max(out.data, 1)\n        total += top.eq(y).sum().item()"},
        {"metric": "found.extend((out.argmax(1) == y).tolist())"},
        {
            "metric": "found.append((out.argmax(1) == y).cpu().numpy())",
            "end": "found = np.concatenate(found)\n    return found.mean()",
        },
        {"before": "x, y = x.float(), y.long()"},
        {"before": "x = x.view(-1, 4)"},
        {"call": "if epoch % 2 == 0:\n        print(evaluate(valid))"},
        {"call": "print(evaluate(valid), evaluate(loader))"},
        {"options": ", collate_fn=list"},
        {"weighing": "torch.ones(2)", "metric": "total += criterion(out, y).item() * y.size(0)"},
        {"weighing": "ignore_index=1", "metric": "total += criterion(out, y).item() * y.size(0)"},
        {"metric": "total += criterion(out, y).item() + len(y) * 0"},
        {"metric": "total += criterion(out, y).item()"},
        {"metric": "total += (out == y).sum().item() + x.size(0)"},
        {"metric": "total += (out.softmax(0).argmax(1) == y).sum().item()"},
        {"metric": "total += (out.argmax(1) == y).sum().item()\n        print(total)"},
        {"metric": "found.append((out.argmax(1) == y).tolist())", "end": "return found"},
        {"metric": "total += (out[0].argmax(1) == y).sum().item()"},
        {"metric": "total += (out.logits.argmax(1) == y).sum().item()"},
        {"end": "return total / len(loader)"},
        {"call": "print(evaluate(valid), len(valid))"},
        {"call": "for x, y in valid:\n        print(x)\n    evaluate(valid)"},
    ],
)
def test_each_batch_is_evaluated_in_one_process(slots: dict[str, str]) -> None:
    after, _ = evaluated(**slots)
    assert "\nloader, model, optimizer = accelerator.prepare(loader, model, optimizer)\n" in after
    assert "    for x, y in accelerator.shard(loader, even=False):\n" in after


@pytest.mark.parametrize(
    "slots",
    [
        {"metric": "total += (out.argmax(1) == y).sum().item()\n        if total > 3:\n            break"},
        {"metric": "total += (out.argmax(1) == y).sum().item()", "end": "return total, out"},
        {
            "inside": "loss = model(x).mean()\n        if loss < 3:\n            evaluate(valid)",
            "call": "evaluate(valid)",
        },
    ],
)
def test_any_other_evaluation_stays_whole(slots: dict[str, str]) -> None:
    after, _ = evaluated(**slots)
    assert "gather_for_metrics" not in after
    assert "shard" not in after


# Decisions.

EPOCHS = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,)))
loader = DataLoader(data, batch_size=2)
valid = DataLoader(data, batch_size=3)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)


def evaluate():
    losses = []
    for x, y in valid:
        losses.append(nn.functional.cross_entropy(model(x), y).item())
    return np.mean(losses)


best = 9.0
for epoch in range(2):
    total, losses = 0.0, []
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        losses.append(loss.item())
    average = total / len(loader)
    score = {score}
    {decision}
"""
DECISIONS = ["if score > best:\n        break\n    best = score", "scheduler.step(score)"]


def decided(score: str, decision: str) -> list[str]:
    result = run(EPOCHS.format(score=score, decision=decision))
    changed = [c.reason for c in result.changes if c.rule in ("schedules", "decisions")]
    return changed + [n.message for n in result.notes if "wait for each other" in n.message]


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize(
    "score",
    ["average", "evaluate()", "average + evaluate()", "0.5 ** epoch", "np.mean(losses)", "sum(losses) / len(losses)"],
)
def test_what_is_decided_from_everyones_value_needs_no_look(score: str, decision: str) -> None:
    assert not decided(score, decision)


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("score", ["loss.item()", "losses[-1]", "evaluate() + sum(losses)"])
def test_what_is_decided_from_a_value_of_its_own_is_told_or_reduced(score: str, decision: str) -> None:
    assert len(decided(score, decision)) == 1


def test_an_evaluation_that_shares_the_names_of_the_training_is_everyones() -> None:
    text = SCRIPT.format(
        parameter="",
        begin="",
        add="",
        end="",
        before="held = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,))), batch_size=2)\n"
        "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\nbest = 9.0",
        call=EVALUATED,
    )
    result = run(text)
    assert "    scheduler.step(total)\n" in result.after.decode()
    assert not [n.message for n in result.notes if "decided from" in n.message]


def test_a_schedule_gets_the_mean_over_the_processes() -> None:
    after = run(EPOCHS.format(score="losses[-1]", decision="scheduler.step(score)")).after.decode()
    assert 'scheduler.step(accelerator.reduce(score, "mean"))' in after


EPISODES = """\
import gym
import torch
from torch import nn

env = gym.make("CartPole-v1")
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
running, steps = 0.0, 0
for episode in range(8):
    state, done, score = env.reset(), False, 0.0
    while {condition}:
        state, reward, done, _ = env.step(0)
        score += reward
        steps += 1
        loss = model(torch.as_tensor(state)).pow(2).mean()
        {backward}
    loss = model(torch.as_tensor(state)).pow(2).mean()
    loss.backward()
    optimizer.step()
    running = 0.9 * running + 0.1 * score
    scheduler.step({told})
    if {test}:
        break
"""


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        ({"test": "running > 9"}, ["if running > 9:"]),
        ({"test": "episode > 9"}, []),
        ({"condition": "not done", "backward": "loss.backward()"}, ["while not done:"]),
        ({"condition": "steps % 9", "backward": "loss.backward()"}, []),
        ({"condition": "not done"}, []),
    ],
)
def test_what_an_environment_decides_is_reported(slots: dict[str, str], told: list[str]) -> None:
    usual = {"condition": "steps % 9", "backward": "pass", "told": "episode", "test": "episode > 9"}
    result = run(EPISODES.format(**{**usual, **slots}))
    lines = result.after.decode().splitlines()
    assert [lines[n.line - 1].strip() for n in result.notes if "one process's own data" in n.message] == told
    assert not [c for c in result.changes if c.rule == "schedules"]


def test_a_schedule_is_told_what_all_environments_gave() -> None:
    text = EPISODES.format(condition="steps % 9", backward="pass", told="running", test="episode > 9")
    assert 'scheduler.step(accelerator.reduce(running, "mean"))' in run(text).after.decode()


METERS = """\
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,))), batch_size=2)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def train():
    {begin}
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {update}
    {end}


for epoch in range(2):
    train()
"""
TOGETHER = (
    '    losses.sum, losses.count = accelerator.reduce((losses.sum, losses.count), "sum")\n'
    "    losses.avg = losses.sum / losses.count\n"
)


def metered(
    begin: str = "losses = AverageMeter()", update: str = "losses.update(loss.item(), len(x))", **end: str
) -> str:
    result = run(METERS.format(begin=begin, update=update, end=end.get("end", "print(losses.avg)")))
    notes = [n.message for n in result.notes if " shard " in n.message or "own batches" in n.message]
    return result.after.decode() + "".join(f"note: {n}\n" for n in notes)


@pytest.mark.parametrize(
    "slots",
    [
        {},
        {"begin": "losses, other = AverageMeter(), 1"},
        {"begin": "losses = AverageMeter()\n    losses.reset()"},
        {"begin": "losses = AverageMeter()\n    meters = [losses]", "end": "print(meters[0].avg)"},
        {"end": "return losses.avg, losses.count"},
    ],
)
def test_meters_that_are_read_after_a_training_loop_are_put_together(slots: dict[str, str]) -> None:
    after = metered(**slots)
    assert TOGETHER in after
    assert "note:" not in after


def test_what_a_meter_kept_of_each_batch_is_gathered() -> None:
    kept = METERS.replace("    self.reset()", "    self.list = []").replace("self.val = self.avg = ", "")
    kept = kept.replace("self.avg = self.sum", "self.list.append(val)\n        self.avg = self.sum")
    slots = {"begin": "losses = AverageMeter()", "update": "losses.update(loss.item(), len(x))"}
    after = run(kept.format(**slots, end="return losses.avg, losses.list")).after.decode()
    assert f'{TOGETHER}    losses.list = accelerator.gather_for_metrics(losses.list, per="batch")\n' in after


@pytest.mark.parametrize(
    "slots",
    [
        {"begin": "losses, end = AverageMeter(), time.time()", "update": "losses.update(time.time() - end)"},
    ],
)
def test_meters_that_are_not_meant_of_all_the_data_stay(slots: dict[str, str]) -> None:
    after = metered(**slots)
    assert "reduce" not in after
    assert "note:" not in after


@pytest.mark.parametrize(
    "slots",
    [
        {"begin": "losses = AverageMeter()\n    losses.update(0.0, 1)"},
        {"update": "if len(x) > 1: losses.update(loss.item())"},
        {"update": "losses.update(loss.item()); print(losses.avg)", "end": "pass"},
    ],
)
def test_meters_that_cannot_be_put_together_are_reported(slots: dict[str, str]) -> None:
    after = metered(**slots)
    assert ".reduce(" not in after
    said = "Values shown for some batches" if slots.get("end") else "note: `losses` covers this process's shard only"
    assert said in after


def test_the_last_value_of_a_meter_is_one_batchs() -> None:
    assert "Values shown for some batches" in metered(end="print(losses.val)")


TORCHMETRICS = """\
import torch
import torchmetrics
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

train, val = DataLoader(torch.randn(8, 4), batch_size=2), DataLoader(torch.randn(8, 4), batch_size=2)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
writer = SummaryWriter()
seen, mean = torchmetrics.SumMetric(), torchmetrics.MeanMetric()
for epoch in range(2):
    for x in train:
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
        mean.update(loss)
    writer.add_scalar("loss", mean.compute(), epoch)
    model.eval()
    for x in val:
        seen(model(x).sum())
    print(seen.compute())
"""


def test_metrics_that_add_up_over_the_processes_themselves_are_reported() -> None:
    result = run(TORCHMETRICS)
    told = [n.message for n in result.notes]
    assert not any("this process's shard only" in m for m in told)
    (whole,) = (m for m in told if m.startswith("this loop is not sharded"))
    assert "`seen` sums across processes by itself" in whole
    (written,) = (m for m in told if "every process writes this" in m)
    assert "(but evaluate `mean.compute()` before that, in all processes)" in written


@pytest.mark.parametrize(
    ("batch", "end", "is_reported"),
    [
        ("right = right + (model(x) > y).sum().item()\nprint(right)", "print(right)", True),
        ("right = right + (model(x) > y).sum().item()\nprint(right)", "", False),
        ("right = right + (model(x) > y).sum().item()", "", False),
        ("right = y.sum()\nright = right + x.sum().item()\nprint(right)", "print(right)", False),
    ],
)
def test_a_sum_written_out_is_told_like_any_other(batch: str, end: str, is_reported: bool) -> None:
    notes = run(script(prepared="right = 1", batch=batch, end=end)).notes
    assert any(n.message.startswith("`right` covers this process's shard only") for n in notes) is is_reported


@pytest.mark.parametrize(
    ("total", "where", "is_reported"),
    [
        ("2 * len(rows) // 2", "batch", True),
        ("2 * len(loader)", "batch", False),
        ("2 * len(rows) // 2", "end", False),
    ],
)
def test_a_schedule_for_steps_that_others_take_is_reported(total: str, where: str, is_reported: bool) -> None:
    made = f"rows = torch.ones(8)\nscheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps={total})"
    notes = run(script(prepared=made, **{where: "scheduler.step()"})).notes
    assert any("depends on the number of steps taken" in n.message for n in notes) is is_reported


@pytest.mark.parametrize(
    ("length", "where", "is_reported"),
    [
        ("len(loader)", "end", True),
        ("2 * len(loader)", "batch", False),
        ("30", "end", False),
        ("len([1, 2, 3])", "end", False),
    ],
)
def test_a_schedule_in_epochs_as_long_as_a_shard_is_reported(length: str, where: str, is_reported: bool) -> None:
    made = f"scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max={length})"
    notes = run(script(prepared=made, **{where: "scheduler.step()"})).notes
    assert any("steps once per epoch" in n.message for n in notes) is is_reported
    stepped = f"{made}\n\ndef after():\n    scheduler.step()"
    notes = run(script(prepared=stepped, **{where: "after()"})).notes
    assert any("steps once per epoch" in n.message for n in notes) is is_reported
