"""Facts about what processes decide each by itself that they must decide alike."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.comparisons import Answer
from accelify.codemod.metrics.decisions import decided_apart, decided_together, gradients_apart
from accelify.codemod.metrics.steps.annealing import Annealing
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, script, training


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (STEP.replace("loss.backward()", "if x.sum() > 0:\n    loss.backward()"), 1),
        (STEP.replace("optimizer.step()", "if epoch % 2:\n    optimizer.step()"), 0),
        (STEP.replace("optimizer.step()", "if loss.item() < 3:\n    optimizer.step()"), 1),
        (STEP.replace("optimizer.step()", "optimizer.step() if loss.item() < 3 else None"), 1),
        (STEP.replace("optimizer.step()", "loss.item() < 3 and optimizer.step()"), 1),
        (STEP.replace("optimizer.step()", "epoch % 2 and optimizer.step()"), 0),
        (STEP.replace("optimizer.step()", "[o.step() for o in (optimizer,) if loss.item() < 3]"), 1),
        (STEP.replace("optimizer.step()", "match loss.item() < 3:\n    case True: optimizer.step()"), 1),
        (STEP.replace("optimizer.step()", "match 3:\n    case n if loss.item() < n: optimizer.step()"), 1),
        (STEP.replace("optimizer.step()", "match epoch % 2:\n    case 0: optimizer.step()"), 0),
        (STEP + "if loss.item() < 3:\n    print(loss)\n", 0),
        (STEP + "loss.item() < 3 and print(loss)\n", 0),
        (STEP + "if torch.isnan(loss):\n    break\n", 1),
        (STEP + "if (y == 0).any():\n    continue\n", 1),
        (STEP + "if torch.isnan(loss):\n    exit()\n", 1),
        (STEP + "if torch.isnan(loss):\n    exit(1)\n", 0),  # which ends the other processes, too
        (STEP + "if epoch == 7:\n    exit()\n", 0),
        ("total = 0\nfor row in x:\n    total += row.sum()\n    if row.sum() > 0:\n        break\n" + STEP, 0),
        ("while x.norm() > 1:\n    x = x / 2\n" + STEP, 0),
        ("while x.norm() > 1:\n    x = x / 2\n    model(x).sum().backward()\n    optimizer.step()\n", 1),
        (STEP.replace("loss.backward()", "if loss is None: continue\nloss.backward()"), 0),
        (
            STEP.replace("loss.backward()", "if y.sum() == 0: loss = None\nif loss is None: continue\nloss.backward()"),
            1,
        ),
        ("part = None if y.sum() == 0 else y\nif part is not None:\n    model(part).backward()\n" + STEP, 1),
        ("part = None if epoch else y\nif part is not None:\n    model(part).backward()\n" + STEP, 0),
        ("def keep(a):\n    if a.sum() > 0: return a\n    return a * 2\nif keep(y) is None: continue\n" + STEP, 0),
        ("def keep(a):\n    if a.sum() > 0: return\n    return a\nx = keep(x)\nif x is None: continue\n" + STEP, 1),
        (STEP, 0),
    ],
)
def test_conditions_of_steps(step: str, found: int) -> None:
    assert len(list(decided_apart(training(step=step).script.metrics))) == found


@pytest.mark.parametrize("leaving", ["break", "exit()", "exit(3)", "sys.exit('time is up')", "raise SystemExit(3)"])
def test_what_the_clock_decides_is_no_failure(leaving: str) -> None:
    for passed, found in (("time.time() - begun > 9", 1), ("epoch == 7", 0)):
        text = script(step=f"{STEP}if {passed}:\n    {leaving}\n")
        facts = Facts(f"import sys, time\nbegun = time.time()\n{text}")
        assert len(list(decided_apart(facts.script.metrics))) == found


@pytest.mark.parametrize(
    ("test", "found"), [("loss.item() < 3", 1), ("epoch == 7", 0), ("sum(p.sum() for p in model.parameters()) < 3", 0)]
)
def test_a_new_optimizer_is_prepared_by_all(test: str, found: int) -> None:
    anew = f"    if {test}:\n        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\n"
    assert len(list(decided_apart(Facts(script() + anew).script.metrics))) == found


OPTIONS = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader
args = argparse.ArgumentParser().parse_args()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters())
loader = DataLoader(torch.randn(64, 4))
results = {{"args": args, "losses": []}}
def train(args):
    for i, x in enumerate(loader):
        loss = model(x).mean()
        loss.backward()
        {put}
        if {test}:
            optimizer.step()
train(args)
"""


@pytest.mark.parametrize(
    ("put", "test", "found"),
    [
        ("args.last = loss.item()", "i % args.every == 0", 0),
        ("args.last = loss.item()", "args.half", 0),
        ("args.last = loss.item()", "args.last < 1", 1),
        ("results['losses'].append(loss.item())", "i % args.every == 0", 0),
        ("results['losses'].append(loss.item())", "results['losses'][0] < 1", 1),
        ("setattr(args, 'last', loss.item())", "args.last < 1", 1),
    ],
)
def test_one_option_is_not_another(put: str, test: str, found: int) -> None:
    facts = Facts(OPTIONS.format(put=put, test=test))
    assert len(list(decided_apart(facts.script.metrics))) == found


SIZES = ["len(x) < 2", "x.size(0) != 2", "x.size()[0] is not 2", "2 > y.shape[0] or epoch == 7"]
PAIRS = """\
class Pairs:
    def __iter__(self):
        return self
    def __next__(self):
        return next(self.a), next(self.b)
"""


def test_a_counter_of_steps_beside_own_values_in_a_dict() -> None:
    """What is counted down from an option, and up from a checkpoint that holds losses, too."""
    before = "import argparse\nargs = argparse.ArgumentParser().parse_args()\nleft = args.steps"
    state = "state = {'args': args.__dict__, 'losses': [], 'counts': {'t': 0}}\nt = state['counts']['t']\n"
    step = f"if left > 0:\n    state['losses'].append(x.sum().item())\n    left -= 1\nif t > 9: break\nt += 1\n{STEP}"
    assert not list(decided_apart(training(before=f"{before}\n{state}", step=step).script.metrics))


@pytest.mark.parametrize("test", SIZES)
def test_batches_of_a_prepared_loader_are_of_one_size(test: str) -> None:
    step = f"if {test}:\n    continue\n" + STEP
    assert list(decided_apart(training(step=step).script.metrics)) == []
    divided = training(model="model = nn.DataParallel(model)", step=step)
    assert len(list(decided_apart(divided.script.metrics))) == 1
    assert [m for _, _, m in divided.verdict.obstacles if "each process gets only a part of each batch" in m]


@pytest.mark.parametrize("leave", ["break", "continue"])
@pytest.mark.parametrize("test", SIZES)
def test_batches_of_the_scripts_own_are_of_different_sizes(test: str, leave: str) -> None:
    """A step may be left out by all where one does; what else a size decides about is declined."""
    text = script(before=f"{PAIRS}\nseen = []", step=f"if {test}:\n    {leave}\n" + STEP)
    text = text.replace("loader = DataLoader(rows, batch_size=2)", "loader = Pairs()")
    facts = Facts(text)
    apart = list(decided_apart(facts.script.metrics))
    assert list(decided_together(facts.script.metrics, apart).values()) == [Answer.ANY]
    assert not facts.verdict.obstacles
    counted = Facts(text.replace(f"    {leave}\n", f"    seen.append(x)\n            {leave}\n"))
    assert len(list(decided_apart(counted.script.metrics))) == 1
    assert [m for _, _, m in counted.verdict.obstacles if "depends on the size of the batch" in m]


@pytest.mark.parametrize(
    ("made", "is_apart"),
    [
        ("loader, others = data.BucketIterator.splits((rows, rows), batch_size=2)", True),
        ("loader = data.BucketIterator.splits((rows, rows), batch_size=2)[0]", True),
        ("loader = data.Iterator(rows, batch_size=2)", True),
        ("loader = DataLoader(rows, batch_size=2)", False),
    ],
)
@pytest.mark.parametrize("test", SIZES)
def test_batches_of_a_library_go_to_ranks_as_they_are(made: str, is_apart: bool, test: str) -> None:
    text = script(before="from torchtext import data", step=f"if {test}:\n    continue\n" + STEP)
    facts = Facts(text.replace("loader = DataLoader(rows, batch_size=2)", made))
    apart = list(decided_apart(facts.script.metrics))
    assert list(decided_together(facts.script.metrics, apart).values()) == [Answer.ANY] * is_apart
    assert not facts.verdict.obstacles


@pytest.mark.parametrize("better", ["len(scores) == 0 or score > max(scores)", "not scores or score > scores[-1]"])
def test_what_an_evaluation_gives_now_and_then_goes_by_no_size(better: str) -> None:
    evaluation = f"""\
step += 1
if step % 9 == 0:
    score = sum(len(row) for row in rows)
    better = {better}
    scores.append(score)
    if not better:
        exit()
"""
    text = script(before=f"{PAIRS}\nstep, scores = 0, []", step=STEP + evaluation)
    facts = Facts(text.replace("loader = DataLoader(rows, batch_size=2)", "loader = Pairs()"))
    assert list(decided_apart(facts.script.metrics)) == []


FILTERS = [
    "def join(items):\n    return torch.stack([i for i in items if i is not None])",
    "def join(items):\n    items = list(filter(bool, items))\n    return torch.stack(items) if items else None",
    "class Join:\n    def __call__(self, b):\n        return torch.cat([w for s in b for w in s])\njoin = Join()",
]


@pytest.mark.parametrize("test", ["len(x) < 2", "x is None", "epoch > 1 and x.shape[0] == 0"])
@pytest.mark.parametrize("join", FILTERS)
def test_what_a_function_leaves_of_a_batch_is_own(join: str, test: str) -> None:
    def decided(function: str) -> Facts:
        text = script(before=function, step=f"if {test}:\n    continue\n" + STEP)
        return Facts(text.replace("for x, y in", "for x in").replace("batch_size=2)", "batch_size=2, collate_fn=join)"))

    facts = decided(join)
    assert len(list(decided_apart(facts.script.metrics))) == 1
    assert not facts.verdict.obstacles
    assert not list(decided_apart(decided("def join(items):\n    return torch.stack(items)").script.metrics))


@pytest.mark.parametrize(
    "loop",
    [
        "shown = tqdm(loader)\n    for x in shown:",
        "shown = tqdm(enumerate(loader), total=4)\n    for k, x in shown:",
        "for x in iter(loader):",
        "batches = enumerate(loader)\n    for k, x in batches:",
        "with tqdm(loader) as shown:\n     for x in shown:",
        "for k, x in zip(range(9), loader):",
    ],
)
def test_a_loader_is_known_by_whatever_goes_over_it(loop: str) -> None:
    def decided(function: str) -> int:
        text = script(before=f"from tqdm import tqdm\n{function}", step="if x is None:\n    continue\n" + STEP)
        text = text.replace("for x, y in loader:", loop).replace("batch_size=2)", "batch_size=2, collate_fn=join)")
        return len(list(decided_apart(Facts(text).script.metrics)))

    assert [decided(join) for join in FILTERS] == [1, 1, 1]
    assert decided("def join(items):\n    return torch.stack(items)") == 0


@pytest.mark.parametrize(
    ("loop", "is_full"),
    [
        ("for x, y in tqdm(loader):", True),
        ("shown = tqdm(loader)\n    for x, y in shown:", True),
        ("for x, y in zip(loader, DataLoader(rows, batch_size=2)):", False),
    ],
)
def test_whether_a_loop_has_full_steps(loop: str, is_full: bool) -> None:
    text = script(before="from tqdm import tqdm", step=STEP).replace("for x, y in loader:", loop)
    facts = Facts(text.replace("batch_size=2)\n", "batch_size=2, drop_last=True)\n", 1))
    (rounds,) = facts.training.rounds
    assert isinstance(rounds, ast.For)
    assert facts.script.metrics.has_full_steps(rounds) is is_full


@pytest.mark.parametrize(
    "found", ["torch.where(loss > 1)[0]", "numpy.where(y == 1)[0]", "torchvision.ops.nms(x, y, 0.5)"]
)
def test_how_many_a_search_finds_is_no_size_of_a_batch(found: str) -> None:
    step = f"{STEP}if len({found}) == 0:\n    continue\n"
    text = f"import numpy, torchvision\n{script(before=PAIRS, step=step)}"
    for loader in ("Pairs()", "DataLoader(rows, batch_size=2)"):
        facts = Facts(text.replace("loader = DataLoader(rows, batch_size=2)", f"loader = {loader}"))
        is_sharded = facts.script.preparation.sharded or facts.script.preparation.loaders
        assert len(list(decided_apart(facts.script.metrics))) == bool(is_sharded)
        assert not facts.verdict.obstacles


def test_a_choice_between_two_values_has_as_many_rows() -> None:
    step = f"if len(torch.where(y > 1, x, y)) == 0:\n    continue\n{STEP}"
    assert not list(decided_apart(training(step=step).script.metrics))


STREAM = """\
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield from rows
class Episodes:
    def __iter__(self):
        yield [0, 1]
"""


@pytest.mark.parametrize(
    ("loader", "found"),
    [
        ("DataLoader(Stream(), batch_size=2)", 1),
        ("DataLoader(dataset=torch.utils.data.ChainDataset([rows]), batch_size=2, drop_last=False)", 1),
        ("DataLoader(Stream(), batch_size=2, drop_last=True)", 0),
        ("DataLoader(rows, batch_sampler=Episodes())", 1),
        ("DataLoader(rows, **{'batch_sampler': Episodes()})", 1),
        ("DataLoader(Stream(), **dict(batch_size=2, drop_last=True))", 0),
        ("DataLoader(rows, batch_size=2)", 0),
    ],
)
def test_the_last_batches_of_a_stream_go_to_ranks_as_they_are(loader: str, found: int) -> None:
    text = script(before=STREAM, step="if len(x) < 2:\n    continue\n" + STEP)
    text = text.replace("DataLoader(rows, batch_size=2)", loader).replace("in loader", "in tqdm(loader)")
    facts = Facts(text.replace("import torch\n", "import torch\nfrom tqdm import tqdm\n", 1))
    assert len(list(decided_apart(facts.script.metrics))) == found


OTHER = """\
import torch
from torch import nn
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def sample():
    x = torch.rand(8, 1)
    return x, 2 * x
for i in range(100):
    x, y = sample()
    grads = torch.autograd.grad(((model(x) - y) ** 2).mean(), model.parameters())
    for p, g in zip(model.parameters(), grads):
        p.grad = g
    optimizer.step()
for i in range(100):
    x, y = sample()
    ((model(x) - y) ** 2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("p.grad = g", 1),
        ("p.grad.data.copy_(g.data)", 1),
        ("p.grad += 0.1 * torch.randn_like(p)", 1),
        ("p.grad = p.grad / loss.item()", 1),
        ("p.grad = None", 0),
        ("p.grad = p.grad.clamp(-1, 1)", 0),
        ("p.grad.mul_(0.5)", 0),
        ("p.grad = p.grad / len(loader)", 0),
        ("p.grad = torch.zeros_like(p)", 0),
        ("p.grad = p.grad + 0.01 * p", 0),
        ("p.data = g", 0),  # another question
    ],
)
def test_gradients_of_one_rank(line: str, found: int) -> None:
    gradients = "torch.autograd.grad(model(x).sum(), list(model.parameters()))"
    each = f"for p, g in zip(model.parameters(), {gradients}):\n    {line}\n"
    step = STEP.replace("optimizer.step()", f"{each}optimizer.step()")
    assert len(list(gradients_apart(training(step=step).script.metrics))) == found


ATTACK = """\
def attack(model, x, y):
    delta = {delta}
    inner = torch.optim.SGD([delta], lr=0.1)
    inner.zero_grad()
    (model(x + delta) - y).pow(2).mean().backward()
    {line}
    inner.step()
    return (x + delta).detach()
"""


@pytest.mark.parametrize(
    ("delta", "line", "found"),
    [
        ("torch.zeros_like(x).normal_().requires_grad_()", "delta.grad.div_(delta.grad.norm())", 0),
        ("torch.rand(x.shape, requires_grad=True)", "delta.grad = delta.grad + torch.randn_like(x)", 0),
        ("torch.zeros_like(x, requires_grad=True)", "delta.grad *= x.mean()", 0),
        ("Variable((0.1 * torch.randn(x.shape)).data, requires_grad=True)", "delta.grad.div_(delta.grad.norm())", 0),
        ("Variable(shared.data, requires_grad=True)", "delta.grad *= x.mean()", 1),
        ("shared", "delta.grad *= x.mean()", 1),
        ("torch.zeros_like(x, requires_grad=True)", "model.weight.grad *= x.mean()", 1),
    ],
)
def test_gradients_of_what_each_round_makes_are_shared_by_none(delta: str, line: str, found: int) -> None:
    before = "from torch.autograd import Variable\nshared = torch.zeros(4, requires_grad=True)\n"
    before += f"{ATTACK.format(delta=delta, line=line)}"
    step = f"x = attack(model, x, y)\n{STEP}"
    assert len(list(gradients_apart(training(before=before, step=step).script.metrics))) == found


def test_gradients_from_draws() -> None:
    facts = Facts(OTHER)
    (place,) = gradients_apart(facts.script.metrics)
    assert ast.unparse(place) == "p.grad = g"
    assert [rule for _, rule, message in facts.verdict.obstacles if "sets gradients" in message] == ["backward"]


NOTICED = """\
import os, signal, sys, threading, time
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader
{before}
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters())
loader = DataLoader(torch.randn(64, 4))
start, saved = time.time(), False
for epoch in range(3):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()
    {after}
"""
LOCK = "stop = threading.Event()\nsignal.signal(signal.SIGTERM, lambda number, frame: stop.set())"
FLAG = "STOP = False\ndef end(*args):\n    global STOP\n    STOP = True\nsignal.signal(signal.SIGINT, end)"
OBJECT = (
    "class Ending:\n    def __init__(self):\n        self.now = False\n"
    "        signal.signal(signal.SIGINT, self.end)\n    def end(self, *args):\n        self.note()\n"
    "    def note(self):\n        self.now = True\nending = Ending()"
)
ASKED = "def asked(folder):\n    return os.path.exists(folder + '/stop')"
SAVE = "torch.save(model.state_dict(), 'm.pt')"


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (LOCK, "if stop.is_set(): break", 1),
        (LOCK, f"if stop.is_set(): {SAVE}; sys.exit(1)", 1),
        (LOCK, f"if stop.is_set(): {SAVE}", 1),
        (LOCK, "if stop.is_set(): print(epoch)", 0),
        (FLAG, "if STOP: break", 1),
        (FLAG, f"if STOP and epoch: {SAVE}", 1),
        (FLAG.replace("signal.signal(signal.SIGINT, end)", "end()"), "if STOP: break", 0),
        (OBJECT, "if ending.now: break", 1),
        ("", "if time.time() - start > 60: break", 1),
        ("", f"if time.time() - start > 60: {SAVE}", 0),  # when its clock says so, the main process saves
        ("", "if os.path.exists('stop'): break", 1),
        ("", "found = Path('stop').exists()\n    if found: sys.exit()", 1),
        (ASKED, "if asked('.'): break", 1),
        ("if not os.path.exists('data'): sys.exit()", "", 0),
        ("", "if not os.path.exists('out'): os.makedirs('out')", 0),
        ("", "if os.path.exists('m.pt'): model.load_state_dict(torch.load('m.pt'))", 0),
    ],
)
def test_what_one_process_notices_alone(before: str, after: str, found: int) -> None:
    facts = Facts(NOTICED.format(before=before, after=after))
    assert len(list(decided_apart(facts.script.metrics))) == found


def test_a_fold_that_is_done_is_left_out_by_all() -> None:
    text = NOTICED.format(before="", after="").replace(
        "    for x", "    if os.path.exists(f'{epoch}.pt'): continue\n    for x"
    )
    assert not list(decided_apart(Facts(text).script.metrics))


def test_what_all_do_together_is_decided_apart() -> None:
    load = "model.load_state_dict(torch.load('m.pt'))"
    after = f"if time.time() - start > 60: saved = epoch\n    if saved == epoch: {SAVE}; {load}"
    facts = Facts(NOTICED.format(before="", after=after))
    found = decided_apart(facts.script.metrics, [facts[load]])
    assert [ast.unparse(node.test) for node in found] == ["saved == epoch"]


SHUFFLED = """\
import random
import numpy as np
import torch
from torch import nn
rows = torch.randn(64, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters())
order, others = {order}, list(range(64))
for epoch in range(9):
    {shuffle}
    x = {taken}
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    if loss.item() < 0.1:
        break
"""


@pytest.mark.parametrize(
    ("order", "shuffle", "taken", "found"),
    [
        ("list(range(64))", "random.shuffle(order)", "rows[order[:8]]", 1),
        ("np.arange(64)", "np.random.shuffle(order)", "torch.FloatTensor(order[:4])", 1),
        ("list(rows)", "random.shuffle(order)", "torch.stack(order[:8])", 1),
        ("list(rows)", "random.shuffle(others)", "torch.stack(order[:8])", 0),
    ],
)
def test_an_order_that_each_rank_shuffles(order: str, shuffle: str, taken: str, found: int) -> None:
    read = Facts(SHUFFLED.format(order=order, shuffle=shuffle, taken=taken)).script
    assert len(list(decided_apart(read.metrics))) == found
    assert not list(Annealing(read.step_counts).in_losses())  # it is no count of steps
