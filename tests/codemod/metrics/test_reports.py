"""Which values of one rank's own are reported: source text in, reports out."""

from __future__ import annotations

import ast
from textwrap import indent

import pytest

from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.metrics.reports import About, Report, Reports
from tests.codemod.facts import Facts
from tests.codemod.metrics.facts import script_of, training
from tests.codemod.pairs import run
from tests.codemod.training_scripts import script


def reports(**slots: str) -> list[Report]:
    """The reports of a script of which nothing is reduced."""
    script = script_of(training(**slots))
    ranks = Ranks(script.metrics.measured.chains, script.metrics.measured.shards(script.metrics.shared_loops))
    return Reports(ranks, lambda node: False).find()


@pytest.mark.parametrize("update", ["total += loss.item()", "total = max(total, loss.item())", "total.add_(loss)"])
def test_a_running_value_that_is_shown(update: str) -> None:
    found = reports(begin="total = torch.zeros(())", batch=update, end="print(total)")
    assert "total" in {report.text for report in found}


@pytest.mark.parametrize(
    ("update", "found"),
    [
        ('rows[i]["loss"] = loss.item()', ["rows[i]['loss']"]),
        ('rows["train"][i]["loss"] = loss.item()', ["rows['train'][i]['loss']"]),
        ("rows.setdefault(i, {}).setdefault('loss', []).append(loss.item())", ["rows"]),
        ('rows["train"]["loss"] = loss.item()', []),  # the last batch of a process
        ('rows[i]["rate"] = 0.1', []),
    ],
)
def test_a_table_of_all_batches(update: str, found: list[str]) -> None:
    made = reports(begin="rows = {}", batch=update, end="print(rows)")
    assert [report.text for report in made if not report.is_of_some_batches] == found


TIMED = """
class Figures:
    def __init__(self):
        self.loss, self.seconds, self.rows = 0, 0, []
    def update(self, loss, seconds):
        self.loss += loss
        self.seconds += seconds
    def take(self, loss):
        self.loss += loss
        self.seconds += time.time() - begun
    def keep(self, *values):
        self.rows.append(values)
    def tick(self, n):
        self.seconds += n * (time.time() - begun)
begun, figures, rows = time.time(), Figures(), []
"""


@pytest.mark.parametrize(
    ("update", "shown", "found"),
    [
        ("figures.update(loss.item(), time.time() - begun)", "figures.loss", ["figures"]),
        ("figures.take(loss.item())", "figures.loss", ["figures"]),
        ("figures.keep(loss.item(), time.time() - begun)", "figures.rows", ["figures"]),
        ("rows.append((i, loss.item(), time.time() - begun))", "rows", ["rows"]),
        ("rows.append({'loss': loss.item(), 'seconds': time.time() - begun})", "rows", ["rows"]),
        ("figures.tick(len(y))", "figures.seconds", []),
        ("rows.append(time.time() - begun)", "rows", []),
    ],
)
def test_what_is_kept_beside_the_time(update: str, shown: str, found: list[str]) -> None:
    """A meter that keeps the time of a step as well; the time itself is each process's own."""
    assert [r.text for r in reports(before=TIMED, batch=update, end=f"print({shown})")] == found


def test_each_of_two_loops_that_fill_one_name() -> None:
    """A second training loop, of which a reader of the first one's note knows nothing."""
    text = training(begin="found = []", batch="found.append(loss.item())", end="print(found)")
    loop = text[text.index("for epoch") :]
    script = script_of(text + loop)
    ranks = Ranks(script.metrics.measured.chains, script.metrics.measured.shards(script.metrics.shared_loops))
    assert [r.text for r in Reports(ranks, lambda node: False).find()] == ["found", "found"]


TALLY = """
class Tally:
    def reset(self):
        self.value, self.count = 0, 0
    def add(self, value, count=1):
        self.value += value
        self.count += count
    def update(self, *pair):
        self.add(*pair)
    def step(self, out, y):
        self.add(*counts(out, y))
    def mean(self):
        return self.value / self.count
def counts(out, y):
    return [(out.argmax(1) == y).sum().item(), len(y)]
def named(out, y):
    return {"value": (out.argmax(1) == y).sum().item(), "count": len(y)}
def show(*parts):
    print(*parts)
tally = Tally()
"""


@pytest.mark.parametrize(
    ("update", "shown", "is_reported"),
    [
        ("tally.add(*counts(out, y))", "print(tally.mean())", True),
        ("tally.add(**named(out, y))", "print(tally.mean())", True),
        ("tally.update(*counts(out, y))", "show(epoch, tally.mean())", True),
        ("tally.step(out, y)", "show(epoch, tally.mean())", True),
        ("pair = (loss.item(), 2)\ntally.add(*pair)", "show(*[epoch, tally.mean()])", True),
        ("tally.add(*[1, 2])", "show(epoch)", False),
        ("show(*[epoch, i])", "show(*[epoch, 3])", False),
    ],
)
def test_what_starred_arguments_hand_over(update: str, shown: str, is_reported: bool) -> None:
    assert bool(reports(before=TALLY, begin="tally.reset()", batch=update, end=shown)) is is_reported


@pytest.mark.parametrize("shown", ["print(epoch)", "print(len(loader))", "total = 0"])
def test_what_every_rank_has_is_not_reported(shown: str) -> None:
    assert reports(end=shown) == []


@pytest.mark.parametrize(
    ("before", "end"),
    [
        ("", "if False:\n    print(total)"),
        ("DEBUG = False", "if DEBUG and epoch:\n    print(total)"),
        ("def show(value):\n    if not DEBUG: return\n    print(value)\nDEBUG = 0", "show(total)"),
        ("class Settings:\n    debug = False\nsettings = Settings()", "if settings.debug: print(total)"),
    ],
)
def test_what_a_constant_switches_off_is_not_reported(before: str, end: str) -> None:
    assert reports(before=before, begin="total = 0", batch="total += loss.item()", end=end) == []
    switched = before.replace("False", "True").replace("= 0", "= 1")
    assert reports(before=switched, begin="total = 0", batch="total += loss.item()", end=end.replace("False", "True"))


@pytest.mark.parametrize(
    ("fill", "is_reported"),
    [
        ("total.resize_(x.size()).copy_(x)", False),
        ("total.data.resize_as_(x).copy_(x)", False),
        ("total.data.resize_(x.size(0)).fill_(1)", False),
        ("total.normal_(0, 1)", False),
        ("total[: len(x)] = x", False),
        ("for j in range(len(x)):\n    total[j] = x[j]", False),
        ("for j, row in enumerate(x):\n    total[j] = row", False),
        ("for j in range(2, 4):\n    total[j] = x[j]", True),
        ("for j in range(8):\n    if y[j]:\n        total[j] = x[j]", True),  # others stay as they were
        ("for j in range(8):\n    total[y[j]] = x[j]", True),
        ("total[i : i + 2] = x", True),
        ("total.add_(x)", True),
        ("total[x.argmax()] = 1", True),
    ],
)
def test_a_buffer_that_is_filled_anew_collects_nothing(fill: str, is_reported: bool) -> None:
    found = reports(begin="total, i = torch.zeros(8), 0", batch=f"{fill}\nsave_image(total.data, 'x.png')")
    assert any(r.about in (About.LIST, About.SUM, About.RUNNING) for r in found) is is_reported


SAVE = "torch.save(model.state_dict(), 'best.pt')"
KEEP = f"def keep(is_best):\n    if is_best:\n        {SAVE}"


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (f"if loss.item() < best: {SAVE}; best = loss.item()", "loss.item() < best"),
        (f"if i % 9 == 0 and loss < best: {SAVE}; best = loss", "i % 9 == 0 and loss < best"),
        ("is_best = loss.item() < 3; keep(is_best)", "is_best"),
        (f"if i % 9 == 0: {SAVE}", None),
        ("if loss.item() < best: best = loss.item()", None),
    ],
)
def test_one_batch_that_decides_what_is_saved(batch: str, text: str | None) -> None:
    found = reports(before=KEEP, begin="best, i = 9, 0", batch=f"i += 1\n{batch}")
    assert [r.text for r in found if r.about is About.SAVED_BY] == ([] if text is None else [text])


ATTACK = """\
class Attack:
    def __init__(self, model):
        self.model, self.mean = model, 0
    def perturb(self, x):
        x = x.clone()
        self.model.eval()
        x.data += 0.1 * torch.sign(self.model(x).data)
        {kept}
        self.model.train()
        return x
class Holder:
    def __init__(self, attack):
        self.attack = attack
        self.weight = torch.ones(1)
    def loss_of(self, x):
        return model(self.attack.perturb(x)).mean()
holder = Holder(Attack(model))
"""


@pytest.mark.parametrize(("kept", "is_state"), [("", False), ("self.mean = 0.9 * self.mean + x", True)])
def test_a_model_that_is_switched_between_its_modes_is_no_state(kept: str, is_state: bool) -> None:
    batch = "loss = holder.loss_of(x); optimizer.zero_grad(); loss.backward(); optimizer.step()"
    found = script_of(training(before=ATTACK.format(kept=kept), batch=batch)).metrics.reports
    assert any(r.about in (About.STATE, About.CARRIED) for r in found) is is_state


@pytest.mark.parametrize(
    ("update", "is_reported"),
    [
        ("net.hidden = net.first(len(x))", False),
        ("net.hidden = net.first(x.size(0), 2)", False),
        ("net.hidden = net.last(net.hidden, len(x))", True),
        ("net.hidden = net.first(x)", True),
    ],
)
def test_a_state_of_as_many_rows_as_each_batch_has(update: str, is_reported: bool) -> None:
    """Of a model whose class is not known."""
    found = reports(before="net = unknown('model')", batch=update, end="print(net)")
    assert bool(found) is is_reported


DRAWN = """\
import numpy as np
import torch
from torch import nn
X, Y = torch.randn(64, 4), torch.randn(64, 1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total, kept = 0.0, []
for step in range(9):
    i = {drawn}
    loss = (model(X[i]) - Y[i]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {update}
{shown}
"""


@pytest.mark.parametrize("drawn", ["np.random.randint(0, 64, 8)", "torch.randint(64, (8,))", "torch.randperm(64)[:8]"])
@pytest.mark.parametrize(
    ("update", "shown", "text"),
    [
        ("total += loss.item()", "print(total / 9)", "total"),
        ("total = 0.9 * total + 0.1 * loss.item()", "print(total)", "total"),
        ("kept.append(loss.item())", "np.save('kept', kept)", "kept"),
        ("pass", "    print(loss.item())", "loss"),
    ],
)
def test_what_is_of_batches_that_each_rank_draws(drawn: str, update: str, shown: str, text: str) -> None:
    facts = Facts(DRAWN.format(drawn=drawn, update=update, shown=shown))
    assert [report.text for report in facts.script.metrics.reports] == [text]


def test_an_environment_tells_each_rank_what_is_its_own() -> None:
    told = "env.reset()[0]"
    text = "import gym\nenv = gym.make('x')\n" + DRAWN.format(drawn=told, update="kept.append(i)", shown="print(kept)")
    assert Facts(text).script.metrics.reports == ()


OBJECT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class T(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.steps = nn.Linear(4, 4), 3
        self.opt = torch.optim.SGD(self.net.parameters(), lr=.1)
    def update(self, x):
        self.loss_a = self.net(x).pow(2).mean()
        self.opt.zero_grad()
        self.loss_a.backward()
        self.opt.step()
    def show(self, i):
        pass
def log(t, i):
    {log}
t = T()
for i, x in enumerate(DataLoader(rows)):
    t.update(x)
    log(t, i)
"""


@pytest.mark.parametrize(
    ("log", "is_reported"),
    [
        ("for m in dir(t): print(m, getattr(t, m))", True),
        ("print(getattr(t, 'loss_a'))", True),
        ("print({m: float(getattr(t, m, 0)) for m in dir(t) if 'loss' in m})", True),
        ("print(getattr(t, 'steps'))", False),
        ("getattr(t, 'show')(i)", False),
    ],
)
def test_attributes_that_are_read_by_name(log: str, is_reported: bool) -> None:
    assert bool(Facts(OBJECT.format(log=log)).script.metrics.reports) is is_reported


KEPT = """\
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)
        self.register_buffer("kept", torch.zeros(8, 4))
        self.hidden = torch.zeros(4)
    def reset(self):
        self.hidden = torch.zeros(4)
    def put(self, x, i):
        {put}
    def forward(self, x, i):
        out = self.net(x) @ self.kept.t() + self.hidden.sum()
        {forward}
        return out
net, bank = nn.Linear(4, 4), Bank()
optimizer = torch.optim.SGD({trained}.parameters(), lr=0.1)
for x, i in DataLoader(rows):
    {begin}
    loss = F.cross_entropy(bank(net(x), i), i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
"""


def kept(trained: str = "net", **slots: str) -> list[About]:
    names = ("put", "forward", "begin", "after")
    text = KEPT.format(trained=trained, **{n: slots.get(n, "pass") for n in names})
    return [r.about for r in Facts(text).script.metrics.reports]


@pytest.mark.parametrize("trained", ["net", "bank"])
@pytest.mark.parametrize(
    "slots",
    [
        {"forward": "self.kept[i] = 0.5 * self.kept[i] + x.detach()"},
        {"forward": "self.kept[i : i + len(x)] = x.detach()"},
        {"forward": "self.kept.mul_(0.9).add_(x.sum(0).detach(), alpha=0.1)"},
        {"forward": "self.put(x, i)", "put": "self.kept[i] = x"},
        {"after": "bank.put(x, i)", "put": "self.kept[i] = x"},
        {"after": "bank.put(x, i)", "put": "self.kept.index_copy_(0, i, x)"},
        {"after": "bank.kept[i] = x"},
    ],
)
def test_a_bank_that_a_module_keeps(trained: str, slots: dict[str, str]) -> None:
    assert kept(trained, **slots) == [About.STATE]


@pytest.mark.parametrize("begin", ["bank.hidden = torch.zeros(4)", "bank.reset()", "bank.hidden = bank.hidden * 0"])
def test_a_state_that_each_batch_begins_anew(begin: str) -> None:
    carried = kept(forward="self.hidden = self.hidden + x.sum(0)", begin=begin)
    assert carried == ([About.CARRIED] if "* 0" in begin else [])


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("self.hidden = x.sum(0); self.hidden *= 0.1; out = out + self.hidden.sum()", []),
        ("self.hidden = x.sum(0); self.hidden.mul_(2); out = out + self.hidden.sum()", []),
        ("self.put(x, i); out = out + self.hidden.sum()", []),
        # An attribute named as a tensor's method, which the tensor's own call does not read.
        ("self.mean = x.mean(0).detach(); out = (out - self.mean.sum()) * self.mean.sum()", []),
        ("self.std, self.max = x.std(0), x.max(); out = out / self.std.sum() + self.max", []),
        ("self.mean = x.mean(0) + 0.9 * self.mean; out = out - self.mean.sum()", [About.CARRIED]),
        ("self.hidden += x.sum(0).detach()", [About.STATE]),
        # By a variable of the method.
        ("new = self.net(x).sum(0) + self.hidden; self.hidden = new.detach()", [About.CARRIED]),
        ("h = self.hidden; z, (h, c) = self.rnn(x, (h, x)); self.hidden = h", [About.CARRIED]),
        ("self.hidden = x.sum(0); h = self.hidden + 1; self.hidden = h; out = out + h.sum()", []),
        ("h = torch.zeros(len(x)); self.hidden = h.to(x.device)", []),
    ],
)
def test_a_state_that_each_call_begins_anew(forward: str, expected: list[About]) -> None:
    put = "self.hidden = x.sum(0); self.hidden = self.hidden + 1"
    assert kept(forward=forward, put=put) == expected


IN_PLACE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rows = TensorDataset(torch.randn(8, 4), torch.zeros(8, 1))
model, other = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept, seen = torch.zeros(1), {{"weight": 1.0, "loss": 0.0}}
for x, y in DataLoader(rows, batch_size=2):
    {first}
    loss = (model(x) - y).pow(2).mean() * (1 + kept).sum() * seen["weight"]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {last}
"""


@pytest.mark.parametrize(
    ("last", "reported"),
    [
        ("kept.data = loss.detach()[None]", ["kept"]),
        ("kept.data.copy_(loss.detach())", ["kept"]),
        ("kept.copy_(loss.detach())", ["kept"]),
        ("kept.fill_(loss.item())", ["kept"]),
        ("kept.set_(loss.detach()[None])", ["kept"]),
        ("kept[0] = loss.item()", ["kept[0]"]),
        ("kept[:] = x.detach().mean(0)[:1]", ["kept[:]"]),
        ("seen['weight'] = loss.item()", ["seen['weight']"]),
        # What no loss is computed with, or is the same on all ranks.
        ("seen['loss'] = loss.item()", []),
        ("kept.fill_(0.5)", []),
        ("kept.data = torch.ones(1)", []),
        ("other.weight.data.copy_(x.mean(0))", []),
    ],
)
def test_a_state_that_gets_other_values_in_place(last: str, reported: list[str]) -> None:
    found = Facts(IN_PLACE.format(first="pass", last=last)).script.metrics.reports
    assert [(r.text, r.is_pooled) for r in found if r.about is About.STATE] == [(text, True) for text in reported]


@pytest.mark.parametrize(
    ("made", "last", "reported"),
    [
        ("nn.Parameter(torch.ones(1), requires_grad=False)", "kept.data.fill_(loss.item())", ["kept"]),
        ("nn.Parameter(torch.ones(1), False)", "kept.data.copy_(loss.detach())", ["kept"]),
        ("other.kept = nn.Parameter(torch.ones(1))", "kept.data.fill_(loss.item())", ["kept"]),
        ("nn.Parameter(torch.ones(1), requires_grad=False)", "kept.data.fill_(0.5)", []),
    ],
)
def test_a_frozen_parameter_that_gets_other_values_in_place(made: str, last: str, reported: list[str]) -> None:
    text = IN_PLACE.format(first="pass", last=last).replace("optimizer = ", f"kept = {made}\noptimizer = ")
    found = Facts(text.replace("kept, seen = torch.zeros(1), ", "seen = ")).script.metrics.reports
    assert [(r.text, r.is_pooled) for r in found if r.about is About.STATE] == [(text, True) for text in reported]


@pytest.mark.parametrize(
    ("first", "reported"),
    [
        ("kept += torch.bincount(y.long().view(-1), minlength=2)", ["kept"]),
        ("kept += (y > 0).sum(0)", ["kept"]),
        ("kept = kept + (y > 0).sum(0)", ["kept"]),
        ("kept.add_((y > 0).sum(0))", ["kept"]),
        ("kept.scatter_add_(0, y.long(), torch.ones(2))", ["kept"]),
        # A sum of losses, on which the backward pass runs, and counts that are the same on all ranks.
        ("kept = kept + model(x).mean()", []),
        ("kept += len(y)", []),
        ("kept += torch.bincount(torch.ones(2).long())", []),
    ],
)
def test_counts_of_what_batches_hold_are_a_state(first: str, reported: list[str]) -> None:
    found = Facts(IN_PLACE.format(first=first, last="pass")).script.metrics.reports
    assert [r.text for r in found if r.about in (About.STATE, About.CARRIED)] == reported


@pytest.mark.parametrize(
    ("first", "reported"),
    [
        ("if start is None: start = model(x).mean().item()", ["start"]),
        ("if not start: start = x.mean().item()", ["start"]),
        ("start = x.mean().item() if start is None else start", ["start"]),
        ("if start is None: start = 1.0", []),
        ("if len(x) > 1: start = x.mean().item()\n    else: start = x.sum().item()", []),
    ],
)
def test_what_the_first_round_alone_sets(first: str, reported: list[str]) -> None:
    text = IN_PLACE.format(first=first, last="pass").replace("(1 + kept).sum()", "start")
    found = Facts(text.replace("kept, seen", "start, kept, seen").replace("= torch.zeros(1)", "= None, 1"))
    listed = [r.text for r in found.script.metrics.reports if r.about in (About.STATE, About.CARRIED)]
    assert listed == reported


@pytest.mark.parametrize("first", ["kept.copy_(x.mean())", "kept.data = x.mean(0)[:1]", "kept[0] = x.mean()"])
def test_what_gets_other_values_in_place_before_the_loss_is_of_its_batch(first: str) -> None:
    assert not Facts(IN_PLACE.format(first=first, last="pass")).script.metrics.reports


STEPS = """import torch
from torch import nn
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self):
        self.radius, self.last, self.net = torch.tensor(1.0), 0, nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def step(self, x):
        {first}
        distances = self.net(x).pow(2).sum(1)
        loss = torch.relu(distances - self.radius).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        {last}
    def fit(self, loader):
        for x in loader:
            self.step(x)
Trainer().fit(DataLoader(rows, batch_size=2))
"""


@pytest.mark.parametrize(
    ("first", "last", "abouts"),
    [
        ("pass", "self.radius = torch.quantile(distances.detach(), 0.9)", [About.CARRIED]),
        ("pass", "self.radius.data = torch.quantile(distances.detach(), 0.9)", [About.STATE]),
        ("pass", "self.radius.copy_(distances.detach().mean())", [About.STATE]),
        ("self.radius = x.std()", "pass", []),
        ("self.radius.copy_(x.std())", "pass", []),
        ("pass", "self.last = distances.mean().item()", []),
        ("pass", "self.radius = self.radius * 0.9", []),
    ],
)
def test_a_state_that_a_method_of_each_round_keeps(first: str, last: str, abouts: list[About]) -> None:
    assert [r.about for r in Facts(STEPS.format(first=first, last=last)).script.metrics.reports] == abouts


CENTERS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Centers:
    def __init__(self):
        self.centers = torch.zeros(3, 3)
    def __call__(self, x, y):
        loss = (x - self.centers[y]).pow(2).mean()
        self.learn(x, y)
        return loss
    def learn(self, x, y):
        with torch.no_grad():
            for c in y.unique():
                {update}
model, centers = nn.Linear(4, 3), Centers()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(rows, batch_size=2):
    loss = centers(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("update", "reported"),
    [
        ("self.centers[c] -= 0.5 * (self.centers[c] - x[y == c]).mean(0)", ["self.centers[c]"]),
        ("self.centers[c] += (x[y == c] - self.centers[c]).mean(0)", ["self.centers[c]"]),
        ("self.seen = c", []),
    ],
)
def test_a_sum_without_gradients_is_none_of_losses(update: str, reported: list[str]) -> None:
    found = Facts(CENTERS.format(update=update)).script.metrics.reports
    assert [r.text for r in found if r.about is About.STATE] == reported


SAMPLER = """\
import random
import torch
from torch import nn
from torch.utils.data import DataLoader
def sample(net, kept, x):
    net.eval()
    drawn = {source}
    for k in range(3):
        drawn.data.add_(0.1 * net(drawn).data)
    net.train()
    kept.append({put})
    return drawn
net, kept = nn.Linear(4, 4), []
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(rows, batch_size=2):
    loss = (net(x) - net(sample(net, kept, x))).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("source", "put", "reported"),
    [
        ("torch.rand(2, 4)", "drawn", []),
        ("torch.stack(random.choices(kept, k=2))", "drawn.detach()", []),
        ("torch.stack(random.choices(kept, k=2))", "x", ["kept"]),
        ("torch.stack(kept) + x", "drawn.cpu()", ["kept"]),
    ],
)
def test_a_buffer_of_what_each_process_draws_is_meant_to_be_its_own(source: str, put: str, reported: list[str]) -> None:
    """And it is the buffer that is kept, not the model that the same call is given."""
    found = Facts(SAMPLER.format(source=source, put=put)).script.metrics.reports
    assert [r.text for r in found if r.about in (About.STATE, About.CARRIED)] == reported


def test_what_a_module_only_remembers_of_its_last_batch() -> None:
    assert kept(forward="self.last = x.detach()") == []
    assert kept(forward="self.calls = getattr(self, 'calls', 0) + 1") == []


@pytest.mark.parametrize(
    ("drawn", "is_reported"),
    [
        ("sampler = torch.utils.data.WeightedRandomSampler(weights, 8)", True),
        ("subset = torch.utils.data.Subset(rows, weights.argsort())", True),
        ("sampler = torch.utils.data.WeightedRandomSampler(torch.ones(8), 8)", False),
    ],
)
def test_what_chooses_the_data_of_later_rounds(drawn: str, is_reported: bool) -> None:
    found = reports(begin="weights = torch.ones(8)", batch="weights[y] = loss.detach()", end=drawn)
    assert ("weights[y]" in {r.text for r in found}) is is_reported


@pytest.mark.parametrize(
    ("shown", "reported"),
    [("print(loss.item())", ["loss"]), ("print(start)", []), ("print(holder.weights)", [])],
)
def test_what_is_drawn_before_the_training_is_every_rank_s(shown: str, reported: list[str]) -> None:
    """Only in the loop each rank draws for itself."""
    before = "class Holder:\n    def __init__(self):\n        self.weights = torch.randn(3)\n"
    before += "start, holder = torch.randn(3), Holder()\n"
    text = DRAWN.format(drawn="np.random.randint(0, 64, 8)", update="pass", shown="pass")
    text = text.replace("total, kept", f"{before}total, kept").replace(
        "    optimizer.step()", f"    {shown}\n    optimizer.step()"
    )
    assert [r.text for r in script_of(text).metrics.reports if r.about is About.DRAWN] == reported


PHASED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rows = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best, seen = 1e9, []
def run(phase, loader):
    global best
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        if phase == "train":
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {trained}
        {other}:
            {evaluated}
run("train", DataLoader(rows, batch_size=2))
run("val", DataLoader(rows, batch_size=4))
print(best, seen)
"""


@pytest.mark.parametrize(
    ("trained", "other", "evaluated", "reported"),
    [
        ("pass", 'elif phase == "val"', "best = min(best * 2, loss.item())", []),
        ("pass", "else", "best = min(best * 2, loss.item())", []),
        ("seen.append(loss.item())", "else", "pass", [About.LIST]),
        ("best = min(best * 2, loss.item())", "else", "seen.append(loss.item())", [About.RUNNING]),
    ],
)
def test_what_a_phase_over_all_data_computes_is_of_all(
    trained: str, other: str, evaluated: str, reported: list[About]
) -> None:
    text = PHASED.format(trained=trained, other=other, evaluated=evaluated)
    assert [r.about for r in Facts(text).script.metrics.reports] == reported


def test_of_several_places_that_carry_a_value_the_first_is_named() -> None:
    """Whatever the order in which they are found, which hangs on where they lie in memory."""
    branches = "".join(f"    if i.sum() == {n}:\n        kept = x.detach() * {n}\n" for n in range(30))
    text = KEPT.format(trained="net", put="pass", forward="pass", begin="pass", after="pass")
    text = (
        text.replace("bank(net(x), i)", "bank(net(x) + kept, i)").replace("for x, i", "kept = 0\nfor x, i") + branches
    )
    (report,) = Facts(text).script.metrics.reports
    assert (report.about, report.text) == (About.CARRIED, "kept")
    assert ast.unparse(report.node) == "kept"
    assert text.splitlines()[report.node.lineno - 1] == "        kept = x.detach() * 0"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("end", "is_shown"),
    [("print(loss.item())", True), ("print(f'{loss}', epoch)", True), ("print(epoch)", False)],
)
def test_a_loss_with_a_carried_state_that_is_shown_after_its_loop(end: str, is_shown: bool) -> None:
    batch = (
        "loss = criterion(model(x) - center, y); center = 0.9 * center + x.mean().detach(); "
        "optimizer.zero_grad(); loss.backward(); optimizer.step()"
    )
    found = script_of(training(before="center = torch.zeros(1)", batch=batch, end=end)).metrics.reports
    assert About.CARRIED in [r.about for r in found]
    assert any(r.about is About.BATCH and r.leaves for r in found) is is_shown


@pytest.mark.parametrize(
    ("body", "is_carried"),
    [
        ("if k == 0:\n    out = model(x)\nelse:\n    out = torch.cat([out, model(x)])", False),
        ("out = model(x) if k == 0 else torch.maximum(out, model(x))", False),
        ("if k > 0:\n    out = torch.maximum(out, model(x))\nelse:\n    out = model(x)", False),
        ("if k == 1:\n    out = model(x)\nelse:\n    out = torch.cat([out, model(x)])", True),
        ("out = torch.maximum(out, model(x))", True),
    ],
)
def test_what_the_first_round_of_an_inner_loop_sets_is_not_carried(body: str, is_carried: bool) -> None:
    inner = f"        for k in range(3):\n{indent(body, ' ' * 12)}\n"
    text = training(before="out = torch.zeros(2, 2)").replace("        out = model(x)\n", inner)
    found = {(report.about, report.text) for report in script_of(text).metrics.reports}
    assert ((About.CARRIED, "out") in found) is is_carried


@pytest.mark.parametrize(
    ("end", "is_reported"),
    [
        ("for x, y in valid:\n    loss = criterion(model(x), y)\nprint(loss.item())", False),
        ("for k in range(3):\n    loss = torch.tensor(float(k))\nprint(loss.item())", False),
        ("for loss in (1, 2):\n    pass\nprint(loss)", False),
        ("for x, y in valid:\n    if k:\n        loss = criterion(model(x), y)\nprint(loss.item())", True),
        ("if epoch:\n    for x, y in valid:\n        loss = criterion(model(x), y)\nprint(loss.item())", True),
        ("for x, y in valid:\n    other = criterion(model(x), y)\nprint(loss.item())", True),
        ("print(loss.item())\nfor x, y in valid:\n    loss = criterion(model(x), y)", True),
    ],
)
def test_a_name_that_a_later_loop_binds_again_is_that_loops(end: str, is_reported: bool) -> None:
    found = {report.text for report in reports(before="k = 1", end=f"model.eval()\n{end}")}
    assert ("loss" in found) is is_reported


EVALUATES = """\
if i == 3:
    model.eval()
    value = 0.0
    for a, b in valid:
        value += criterion({taken}, b).item()
    if value < best:
        best = value
        torch.save(model, "best.pt")
"""


@pytest.mark.parametrize(
    ("before", "taken", "is_own"),
    [
        ("", "model(a)", False),
        ("if best:\n    model = torch.load('best.pt')", "model(a)", False),
        ("model = torch.load('best.pt') if best else nn.Linear(4, 2)", "model(a)", False),
        ("", "model(a + torch.rand(4))", True),
        ("from torchvision import transforms\njitter = transforms.RandomErasing()", "model(jitter(a))", True),
    ],
)
def test_an_evaluation_that_every_rank_does_in_full_is_no_ranks_own(before: str, taken: str, is_own: bool) -> None:
    found = reports(before=f"best = 9.0\n{before}", batch=EVALUATES.format(taken=taken))
    assert (About.SAVED_BY in {report.about for report in found}) is is_own


OWN_BOARD = """\
class Board:
    def __init__(self): self.rows = []
    def put(self, row): self.rows.append(row)
board = Board()
"""


@pytest.mark.parametrize(
    ("before", "update", "about"),
    [
        ("from somewhere import Board\nboard = Board()", "board.put(loss.item())", About.GIVEN),
        ("import somewhere\nboard = somewhere.make()", "board.plots.line(loss.item())", About.GIVEN),
        ("board = []", "board.append(loss.item())", About.LIST),
        ("board = set()", "board.add(loss.item())", About.LIST),
        (OWN_BOARD, "board.put(loss.item())", About.LIST),
    ],
)
def test_only_what_is_known_to_collect_is_said_to(before: str, update: str, about: About) -> None:
    assert {r.about for r in reports(before=before, batch=update, end="print(board)") if "board" in r.text} == {about}


@pytest.mark.parametrize(
    ("shown", "reported"),
    [
        ("plt.plot([epoch], [x.mean().item()])", ["x"]),
        ("print(x)", ["x"]),
        ("plt.imshow(x[0])", []),
        ("axes[0].hist(model(x).detach())", []),
        ("plt.savefig(x)", ["x"]),
    ],
)
def test_what_is_drawn_of_one_batch_is_an_example(shown: str, reported: list[str]) -> None:
    begin = "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots(2)"
    found = reports(begin=begin, batch="pass", end=f"x, y = next(iter(loader))\n{shown}")
    assert [r.text for r in found if r.about is About.LAST] == reported


@pytest.mark.parametrize(
    ("test", "is_reported"),
    [("not os.path.exists(folder)", False), ("not Path(folder).is_dir()", False), ("loss.item() < 0.1", True)],
)
def test_a_folder_that_is_missing_decides_about_no_save(test: str, is_reported: bool) -> None:
    batch = f"folder = f'out/{{loss.item():.1f}}'\nif {test}:\n    os.makedirs(folder)"
    found = reports(before="import os\nfrom pathlib import Path", batch=batch)
    assert (About.SAVED_BY in {r.about for r in found}) is is_reported


PAIR = """
class Pair:
    def __init__(self):
        self.last, self.kept, self.log = None, 0, {{}}
    def give(self, x):
        self.x = x
    def forward(self):
        self.out = model(self.x)
        return self.out
    def fit(self, y):
        {first}
        self.loss = nn.functional.mse_loss(self.out, y)
        {then}
        optimizer.zero_grad()
        self.loss.backward()
        optimizer.step()
pair = Pair()
"""


@pytest.mark.parametrize(
    ("first", "then", "is_state"),
    [
        ("self.forward()", "pass", False),
        ("if y is None: return\n        self.forward()", "self.shown = self.loss.item()", False),
        ("self.out = self.forward()", "self.last = self.loss", False),
        ("if len(y) > 2:\n            self.out = model(self.x)\n        else: self.forward()", "pass", False),
        ("self.forward()", "self.log['loss'] = self.loss.item(); print(self.log)", False),
        ("self.forward()", "self.loss = self.loss + self.kept; self.kept = self.kept + self.out.mean()", True),
        (
            "self.forward()",
            "if self.last is not None: self.loss += self.last.mean()\n        self.last = self.out",
            True,
        ),
    ],
)
def test_what_each_round_sets_anew_is_no_state(first: str, then: str, is_state: bool) -> None:
    before = PAIR.format(first=first, then=then)
    found = script_of(training(before=before, batch="pair.give(x)\npair.fit(y)")).metrics.reports
    assert any(r.about is About.STATE for r in found) is is_state


BAR = """
class Bar:
    def __init__(self): self.values, self.n = {{}}, 0
    def add(self, value):
        self.values["loss"] = self.values.get("loss", 0) + value
        self.n += 1
        {shown}
bar = Bar()
"""


@pytest.mark.parametrize("shown", ["print(self.values)", "print(self.values['loss'] / self.n)", "pass"])
def test_what_is_said_of_a_meter_is_not_said_of_its_attributes(shown: str) -> None:
    found = reports(before=BAR.format(shown=shown), batch="bar.add(loss.item())", end="print(bar.values)")
    assert {r.text for r in found if r.about in (About.SUM, About.LIST, About.RUNNING)} == {"bar"}


@pytest.mark.parametrize(("given", "is_said"), [("model", False), ("kept", True)])
def test_what_a_function_puts_into_a_model_is_not_a_running_value(given: str, is_said: bool) -> None:
    before = (
        "class Kept: pass\nkept = Kept()\nkept.scale = 0\n"
        "def adapt(value, into):\n    into.scale = into.scale * 0.5 + value\n"
    )
    found = reports(before=before, batch=f"adapt(loss.item(), {given})", end=f"print({given}.scale)")
    assert any(r.about in (About.SUM, About.LIST, About.RUNNING) for r in found) is is_said


@pytest.mark.parametrize(("end", "is_of_shard"), [("pass", False), ("print(total)", True)])
def test_what_is_only_shown_while_its_loop_runs_stands_for_some_batches(end: str, is_of_shard: bool) -> None:
    batch = "total = 0.9 * total + loss.item()\nprint(total)"
    (found,) = (r for r in reports(before="total = 0", batch=batch, end=end) if r.text == "total")
    assert found.is_of_some_batches is not is_of_shard


CURVE = "import matplotlib.pyplot as plt\nimport seaborn as sns\npoints, total = [], 0\n"
CURVE += "def draw(values, title):\n    plt.title(title)\n    plt.plot(range(len(values)), values)\n"


@pytest.mark.parametrize(
    ("batch", "end", "is_of_some"),
    [
        ("points.append(loss.item())", "plt.plot(points, label='loss')", True),
        ("points.append(loss.item())", "draw(points, 'loss')", True),
        ("points.append(loss.item())", "plt.plot(points); print(sum(points) / 4)", False),
        ("points.append(loss.item())", "plt.plot(points); torch.save(points, 'points')", False),
        ("points.append(loss.item())", "plt.title(str(max(points)))", False),
        ("total += loss.item()\npoints.append(total)", "plt.plot(points)", False),
        ("points.append(x)", "plt.plot(points)", False),
        ("points.append(loss.item())", "if points[-1] < 1: torch.save(model, 'best')", False),
    ],
)
def test_a_curve_of_numbers_of_a_batch_each(batch: str, end: str, is_of_some: bool) -> None:
    (found,) = (r for r in reports(before=CURVE, batch=batch, end=end) if r.text == "points")
    assert found.is_of_some_batches is is_of_some


PREFETCHED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Ahead:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.preload()
    def preload(self):
        self.x = next(self.loader, None)
    def next(self):
        x = self.x
        self.preload()
        return x
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.randn(40, 4), batch_size=4)
batches = {batches}
x = {asked}
kept = 0
while x is not None:
    loss = model(x).mean() + kept
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {last}
    x = {asked}
"""


@pytest.mark.parametrize(("last", "about"), [("pass", []), ("kept = 0.9 * kept + x.mean()", [About.CARRIED])])
@pytest.mark.parametrize(
    ("batches", "asked"),
    [("Ahead(loader)", "batches.next()"), ("iter(loader)", "next(batches, None)")],
)
def test_a_batch_that_is_taken_early_is_no_state(batches: str, asked: str, last: str, about: list[About]) -> None:
    found = Facts(PREFETCHED.format(batches=batches, asked=asked, last=last)).script.metrics.reports
    assert [r.about for r in found if r.about in (About.STATE, About.CARRIED)] == about


@pytest.mark.parametrize(
    ("before", "weight", "named"),
    [
        ("seen = Counter()\nfor _, y in loader:\n    seen.update(y.tolist())", "torch.tensor([seen[0]])", "seen"),
        ("first = next(iter(loader))[1]\nshare = first.float().mean()", "torch.stack([share, 1 - share])", "loss_of"),
    ],
)
def test_what_a_pass_over_the_shard_weighs_a_loss_by(before: str, weight: str, named: str) -> None:
    made = f"{before}\nloss_of = nn.CrossEntropyLoss(weight={weight})"
    text = training(before=made).replace("criterion(out, y)", "loss_of(out, y)")
    assert (About.STATE, named) in {(r.about, r.text) for r in script_of(text).metrics.reports}


OWN_LOSS = """\
class Weighted(nn.Module):
    def __init__(self, weight):
        super().__init__()
        {keep}
        self.inner = nn.CrossEntropyLoss(reduction="none")
    def forward(self, out, y):
        return (self.inner(out, y) * self.weight).mean()
weight = {weight}
loss_of = Weighted(weight)
"""


@pytest.mark.parametrize(
    ("keep", "weight", "is_reported"),
    [
        ("self.weight = weight", "torch.stack([y.float().mean() for _, y in loader]).mean()", True),
        ("self.weight = weight.detach()", "next(iter(loader))[1].float().mean()", True),
        ("self.weight = weight", "torch.tensor(0.3)", False),
        ("self.weight = nn.Parameter(weight)", "torch.tensor(0.3)", False),
    ],
)
def test_what_a_loss_of_the_projects_own_weighs_by(keep: str, weight: str, is_reported: bool) -> None:
    text = training(before=OWN_LOSS.format(keep=keep, weight=weight)).replace("criterion(out, y)", "loss_of(out, y)")
    found = {r.text for r in script_of(text).metrics.reports if r.about is About.STATE}
    assert found == ({"loss_of"} if is_reported else set())


def test_what_a_pass_over_the_shard_scales_inputs_by() -> None:
    before = "xs = torch.cat([x for x, _ in loader])\nmean = xs.mean(0)"
    text = training(before=before).replace("model(x)", "model(x - mean)")
    assert {(r.about, r.text) for r in script_of(text).metrics.reports} == {(About.STATE, "mean")}


def test_a_loss_with_weights_that_all_ranks_have_is_not_reported() -> None:
    text = training(before="loss_of = nn.CrossEntropyLoss(weight=torch.tensor([0.2, 0.8]))")
    assert not script_of(text.replace("criterion(out, y)", "loss_of(out, y)")).metrics.reports


@pytest.mark.parametrize(
    "collected",
    [
        "n = sum(x.size(0) for x, _ in loader)",
        "n = sum([len(b[0]) for b in loader]) / 2",
        "n = len([b for b in loader])",
        "n = max(x.max() for i, (x, y) in enumerate(loader))",
        "n = torch.cat([x for x, _ in loader]).mean()",
        "n = sum(map(lambda b: len(b[0]), loader))",
        "n = len({int(v) for _, y in loader for v in y})",
        "n = {i: len(x) for i, (x, y) in enumerate(loader)}",
    ],
)
def test_what_a_comprehension_collects_from_a_sharded_loader(collected: str) -> None:
    assert [r.text for r in reports(begin=collected, end="print(n)")] == ["n"]


@pytest.mark.parametrize(
    "collected",
    [
        "n = sum(len(x) for x, _ in DataLoader(dataset))",  # every process has all of it
        "n = sum(len(row) for row in dataset)",
        "n = sum(map(len, dataset))",
        "n = sum(1 for _ in loader)",  # of the steps of one process, as `len(loader)` is
    ],
)
def test_what_a_comprehension_collects_of_all_data(collected: str) -> None:
    assert not reports(begin=collected, end="print(n)")


@pytest.mark.parametrize("pairs", ["((x * 2, y) for x, y in loader)", "enumerate((x * 2, y) for x, y in loader)"])
def test_a_generator_that_only_changes_the_batches_of_a_loader(pairs: str) -> None:
    assert not reports(begin=f"pairs = {pairs}", end="for x, y in pairs:\n    print(len(x))")


STEP = "loss.backward()\noptimizer.step()\n"
MAYBE = "    if torch.rand(1) < 0.5:\n        loss = model(x).mean()\n"


@pytest.mark.parametrize(
    ("test", "other", "is_carried"),
    [
        ("kind == 'a'", "elif kind == 'b':\n    loss = model(x).mean()", False),
        ("args.kind == 'a'", "", False),
        ("args.kind == 'a' and deep", "elif args.kind == 'b':\n    loss, h = model(x).mean(), 1", False),
        ("torch.cuda.is_available()", "", False),
        ("args.kind == 'a'", f"elif args.kind == 'b':\n{MAYBE}    else:\n        loss = model(-x).mean()\n", False),
        ("args.kind == 'a'", f"elif args.kind == 'b':\n{MAYBE}", True),
        ("k == 0", "", True),
        ("args.kind == 'a' and len(x) > 2", "", True),
    ],
)
def test_what_a_branch_of_each_round_sets_is_not_carried(test: str, other: str, is_carried: bool) -> None:
    step = f"if {test}:\n    loss = model(x).pow(2).mean()\n{other}\nloss = loss / 2\n{STEP}"
    args = "import argparse\nargs = argparse.ArgumentParser().parse_args()\ndeep = kind = args.kind"
    text = script(before=f"rows = torch.randn(8, 2, 4)\n{args}", step=step)
    found = Facts(text.replace("for x, y in loader", "for k, (x, y) in enumerate(loader)")).script.metrics.reports
    assert (About.CARRIED in {r.about for r in found}) == is_carried


HEIRS = {
    "main.py": """\
        import sys
        from one import One
        from two import Two
        for kind in (One, Two):
            trainer = kind()
            trainer.train()
    """,
    "base.py": """\
        import torch
        from torch.utils.data import DataLoader
        class Base:
            def __init__(self):
                self.model = torch.nn.Linear(4, 1)
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
                self.loader = DataLoader(rows)
                self.sums = {"loss": 0.0}
            def train(self):
                for x, y in self.loader:
                    loss = self.loss(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                self.show()
            def show(self):
                print(self.sums["loss"] / len(rows))
    """,
    "one.py": """\
        from base import Base
        class One(Base):
            def loss(self, out, y):
                loss = (out - y).pow(2).mean()
                {added}
                return loss
    """,
}
HEIRS["two.py"] = HEIRS["one.py"].replace("One", "Two")


@pytest.mark.parametrize(
    "added", ["self.sums['loss'] += loss.item()", "self.sums.update({'loss': self.sums['loss'] + loss.item()})"]
)
def test_what_each_heir_adds_in_its_own_file_is_reported_there(added: str) -> None:
    facts = Facts({path: text.replace("{added}", added) for path, text in HEIRS.items()})
    assert sorted(facts.program.path(r.node) for r in facts.script.metrics.reports) == ["one.py", "two.py"]


POOL = """\
class Pool:
    def __init__(self):
        self.images = []
        self.seen = 0
    def query(self, image):
        {kept}
        if random.randint(0, 1) == 1:
            return image
        old = self.images.pop(0)
        self.images.append(image)
        return old
pool = Pool()
"""


@pytest.mark.parametrize(
    "kept", ["pass", "if not self.images: self.images.append(image)", "self.images.append(image); del self.images[:-9]"]
)
def test_a_state_is_reported_where_it_is_held(kept: str) -> None:
    before = "import random\n" + POOL.format(kept=kept)
    text = training(before=before).replace("criterion(out, y)", "criterion(out, y) + pool.query(out.detach()).mean()")
    assert {r.text for r in script_of(text).metrics.reports if r.about is About.STATE} == {"self.images"}


YIELDED = """\
import torch
from torch.utils.data import DataLoader
loader = DataLoader(rows)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def steps():
    for x, y in loader:
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
for epoch in range(2):
    {read}
"""


@pytest.mark.parametrize(
    ("read", "is_of_shard"),
    [
        ("print(sum(steps()))", True),
        ("losses = list(steps())\n    print(max(losses))", True),
        ("total = 0.0\n    for loss in steps(): total += loss\n    print(total)", True),
        ("for loss in steps(): print(loss)", False),
        ("for i, loss in enumerate(steps()): print(i, loss)", False),
    ],
)
def test_what_is_made_of_all_that_a_generator_of_steps_yields_is_of_the_shard(read: str, is_of_shard: bool) -> None:
    (report,) = Facts(YIELDED.format(read=read)).script.metrics.reports
    assert report.is_of_some_batches is not is_of_shard


WRITERS = """\
from torch.utils.tensorboard import SummaryWriter
class Board:
    def __init__(self):
        self.writer = SummaryWriter("runs")
writer, board, sheet, rows = SummaryWriter("runs"), Board(), open("values.txt", "w"), []
"""
_EACH = 'for name, value in {"loss": loss.item()}.items(): '


@pytest.mark.parametrize(
    ("batch", "end", "found"),
    [
        (_EACH + "writer.add_scalar(name, value, i)", "writer.flush()", []),
        ("for n in range(len(x)): writer.add_scalar('row', x[n].mean(), n)", "writer.close()", []),
        (_EACH + "board.writer.add_scalar(name, value, i)", "board.writer.close()", []),
        ("for n in range(len(x)): sheet.write(f'{x[n]}')", "sheet.close()", ["sheet"]),  # the rows of the shard
        (_EACH + "rows.append(value)", "torch.save(rows, 'rows.pt'); writer.close()", ["rows"]),
    ],
)
def test_a_writer_keeps_nothing_of_what_it_logs(batch: str, end: str, found: list[str]) -> None:
    script = script_of(training(before=WRITERS, batch=batch, end=end))
    assert [r.text for r in script.metrics.reports if not r.is_of_some_batches] == found


TASKS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept, last, i = [], {{}}, 0
for x, y in DataLoader(rows, batch_size=2):
    {adds}
    i += 1
    if i % 4 == 0:
        loss = {read}
        loss.backward()
        optimizer.step()
        {ends}
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("adds", "read", "ends", "is_state"),
    [
        ("kept.append(model(x).mean())", "torch.stack(kept).sum(0)", "kept = []", False),
        ("kept.append(model(x).mean())", "sum(kept)", "kept.clear()", False),
        ("kept.append(model(x).detach())", "sum(k.mean() for k in kept) + model(x).mean()", "i = 0; kept = []", False),
        ("last[i % 4] = model(x).mean()", "sum(last.values())", "last = {}", False),
        ("kept.append(x.mean())", "sum(kept) * model(x).mean()", "pass", True),
        ("kept.append(x.mean())", "sum(kept) * model(x).mean()", "kept = kept[-9:]", True),
        ("kept.append(x.mean())", "sum(kept) * model(x).mean()", "if i > 9: kept = []", True),
        ("kept.append(x.mean())", "sum(kept) * model(x).mean()", "last = {}", True),
    ],
)
def test_what_begins_anew_after_each_step_is_no_state(adds: str, read: str, ends: str, is_state: bool) -> None:
    found = Facts(TASKS.format(adds=adds, read=read, ends=ends)).script.metrics.reports
    assert any(r.about in (About.STATE, About.CARRIED) for r in found) is is_state


SUMMED = """\
is_first, total = True, 0.0
for n, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    error = (model(x) - y).pow(2).mean()
    if n % 4:
        if is_first:
            {first}
            is_first = False
        else:
            {then}
    else:
        {last}
        is_first = True
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "then", "last", "is_state"),
    [
        ("loss = error", "loss += error", "loss = loss / 4", False),
        ("loss = error * 2", "loss = loss + error", "loss = 0.25 * loss", False),
        ("loss = error", "loss += error", "loss = loss * 0.25 + error", False),
        ("total = error", "total += error", "loss = total / 4", False),
        ("loss = error.detach()", "loss += error", "loss = loss / 4 + error", True),
        ("kept = error", "kept = 2 * error", "loss = error + kept", True),
    ],
)
def test_losses_that_are_added_up_for_one_backward_pass_are_no_state(
    first: str, then: str, last: str, is_state: bool
) -> None:
    text = script().partition("for epoch")[0] + SUMMED.format(first=first, then=then, last=last)
    found = script_of(text).metrics.reports
    assert any(r.about in (About.STATE, About.CARRIED) for r in found) is is_state


LAYERED = """\
class Layered(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.shares = None
    def forward(self, x):
        for layer in self.layers:
            {set}
            self.shares = torch.softmax(self.shares, -1)
            x = {next}
        return x.mean(1, keepdim=True)
    def loss(self, out, y):
        return (out - y).pow(2).mean() + self.shares.pow(2).mean()
layered = Layered()
optimizer = torch.optim.SGD(layered.parameters(), lr=0.1)
"""
TRAIN_LAYERED = "loss = layered.loss(layered(x), y); optimizer.zero_grad(); loss.backward(); optimizer.step()"


@pytest.mark.parametrize(
    ("given", "then", "is_state"),
    [
        ("self.shares = layer(x)", "x * self.shares", False),
        ("self.shares = layer(x)", "x * self.shares.detach() + x", False),
        ("if self.shares is None: self.shares = layer(x)", "x * self.shares", True),
        ("self.shares = self.shares + layer(x)", "x * self.shares", True),
    ],
)
def test_what_each_pass_sets_for_its_layers_is_no_state(given: str, then: str, is_state: bool) -> None:
    before = LAYERED.replace("{set}", given).replace("{next}", then)
    notes = [note.message for note in run(training(before=before, batch=TRAIN_LAYERED)).notes]
    assert any("later losses" in n or "from one batch to the next" in n for n in notes) is is_state


IN_A_METHOD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 4)), batch_size=4)
class Steps:
    def __init__(self):
        self.model, self.first = nn.Linear(4, 4), None
    def scale(self, loss):
        {scaled}
    def step(self, x, y):
        loss = (self.model(x) - y).pow(2).mean()
        {within}
        return {value}
    def train(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for x, y in loader:
            loss = self.step(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
Steps().train()
"""
ONCE = "if self.first is None: self.first = loss.item()"


@pytest.mark.parametrize(
    ("slots", "found"),
    [
        ({"within": ONCE, "value": "loss / self.first"}, ["self.first"]),
        ({"within": f"{ONCE}\n        part = loss / self.first", "value": "part + 1"}, ["self.first"]),
        ({"scaled": f"{ONCE}\n        return loss / self.first", "value": "self.scale(loss)"}, ["self.first"]),
        ({"within": ONCE}, []),
        ({"within": "self.first = loss.item()", "value": "loss / self.first"}, []),
        ({"within": "if self.first is None: self.first = 4.0", "value": "loss / self.first"}, []),
        ({"within": "if y.mean() > 0: self.first = loss", "value": "loss"}, []),
        ({"within": "if loss.dim() > 0: loss = loss.mean()"}, []),
        ({"scaled": "if loss is not None: loss = loss / 2\n        return loss", "value": "self.scale(loss)"}, []),
        ({"within": "for k in (1, 2):\n            if loss > k: loss = loss / k"}, []),
    ],
)
def test_what_a_method_keeps_of_its_first_batch(slots: dict[str, str], found: list[str]) -> None:
    text = IN_A_METHOD.format(**{"scaled": "pass", "within": "pass", "value": "loss"} | slots)
    reports = Facts(text).script.metrics.reports
    assert [r.text for r in reports if r.about in (About.STATE, About.CARRIED)] == found


IN_A_LOOP = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 4)), batch_size=4)
model, first = nn.Linear(4, 4), None
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    {before}
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    {then}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("slots", "found"),
    [
        ({"then": "if first is None: first = loss.item()\n    loss = loss / first"}, ["first"]),
        ({"before": "if x.dim() > 2: x = x.flatten(1)"}, []),
        ({"before": "x = x.float()\n    if len(x.shape) > 2: x = x.view(-1, 4)"}, []),
        ({"before": "first = None", "then": "if first is None: first = loss.item()\n    loss = loss / first"}, []),
        ({"then": "if loss > 9: loss = loss / 9"}, []),
        ({"before": "for k in (1, 2):\n        if x.dim() > k + 1: x = x.flatten(k)"}, []),
    ],
)
def test_what_a_loop_keeps_of_its_first_batch(slots: dict[str, str], found: list[str]) -> None:
    reports = Facts(IN_A_LOOP.format(**{"before": "pass", "then": "pass"} | slots)).script.metrics.reports
    assert [r.text for r in reports if r.about in (About.STATE, About.CARRIED)] == found


COLLECTED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rows = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 1)
        self.weight.fast = None
    def forward(self, x):
        return nn.functional.linear(x, self.weight if self.weight.fast is None else self.weight.fast)
    def together(self, xs):
        losses = []
        for x in xs:
            (grad,) = torch.autograd.grad(self(x).pow(2).mean(), [self.weight], create_graph=True)
            self.weight.fast = self.weight - 0.1 * grad
            losses.append(self(x).pow(2).mean())
        return torch.stack(losses).mean(0)
def plain(model, optimizer, loader):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
def train(model, optimizer, loader):
    xs = []
    for i, (x, y) in enumerate(loader):
        xs.append(x)
        if (i + 1) % 2 == 0:
            loss = model.together(xs)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {emptied}
        {outside}
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
plain(model, optimizer, DataLoader(rows, batch_size=4))
train(model, optimizer, DataLoader(rows, batch_size=4))
"""


@pytest.mark.parametrize(
    ("emptied", "outside", "reported"),
    [
        ("xs = []", "pass", []),
        ("xs.clear()", "pass", []),
        ("xs, last = list(), loss", "pass", []),
        ("pass", "pass", ["xs"]),
        ("pass", "if i % 5 == 0: xs = []", ["xs"]),  # some batches are learned from again
        ("xs = xs[-1:]", "pass", ["xs"]),
    ],
)
def test_batches_that_are_collected_for_one_step_are_no_state(emptied: str, outside: str, reported: list[str]) -> None:
    found = Facts(COLLECTED.format(emptied=emptied, outside=outside)).script.metrics.reports
    assert sorted({r.text for r in found}) == reported


PASS = """\
def score(loader):
    right = []
    {first}
    for _ in range(4):
        x, y = {asked}
        right.append(model(x).argmax(1) == y)
    return torch.cat(right).float().mean().item()
"""


@pytest.mark.parametrize(
    ("first", "asked", "shown", "reported"),
    [
        ("found = iter(loader)", "next(found)", "print(score(loader))", [("score(...)", False)]),
        (
            "found = iter(loader)",
            "next(found)",
            "value = score(loader)\ntext = f'{value}'\nprint(text)",
            [("value", False)],
        ),
        (
            "found = iter(loader)",
            "found.__next__()",
            "value = score(loader)\nlog = '%.2f' % value\nprint(log)",
            [("value", False)],
        ),
        ("", "next(iter(loader))", "print(score(loader))", [("score(...)", True)]),  # of a first batch
    ],
)
def test_the_result_of_a_pass_is_of_all_batches(
    first: str, asked: str, shown: str, reported: list[tuple[str, bool]]
) -> None:
    for place in ("batch", "end"):
        found = reports(before=PASS.format(first=first, asked=asked), **{place: shown})
        assert [(r.text, r.is_of_some_batches) for r in found] == reported


BOARD = """
class Meter:
    def __init__(self):
        self.sum, self.count, self.avg = 0, 0, 0
    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count
    def __str__(self):
        return f"{self.avg}"
class Board:
    def __init__(self, meters):
        self.meters = meters
    def show(self):
        print([str(m) for m in self.meters])
    def name(self):
        print(type(self.meters).__name__)
class Single:
    def __init__(self, meter):
        self.meter = meter
    def show(self):
        print(self.meter.avg)
meter = Meter()
"""


@pytest.mark.parametrize(
    ("made", "shown", "found"),
    [
        ("board = Board([meter])", "board.show()", ["meter"]),
        ("board = Single(meter)", "board.show()", ["meter"]),
        ("board = Single(meter=meter)", "print(board.meter.avg)", ["meter"]),
        ("board = Single(Meter())", "board.show()", []),
        ("board = Single(None)", "print(meter.count)", []),
        ("board = Board([model])", "board.name()", []),
    ],
)
def test_a_meter_that_another_object_shows(made: str, shown: str, found: list[str]) -> None:
    """A board of meters is given them first, and shows what they have got since."""
    batch = f"meter.update(loss.item())\n{shown}"
    assert [r.text for r in reports(before=BOARD, begin=made, batch=batch)] == found


IN_A_FUNCTION = """
import torch
from torch import nn
from torch.utils.data import DataLoader
{board}
def train(loader, model, optimizer):
    meter = Meter()
    board = Single(meter)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(loss.item())
        board.show()
    board.show()
    print(meter.avg)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    train(DataLoader(rows, batch_size=2), model, optimizer)
"""


def test_a_meter_that_another_object_shows_before_and_after_it_is_combined() -> None:
    """What comes after the loop shows what all processes have."""
    result = run(IN_A_FUNCTION.format(board=BOARD.replace("meter = Meter()", "")))
    (note,) = [n.message for n in result.notes if n.rule in ("batch_size", "notes")]
    lines = result.after.decode().splitlines()
    shown = [at for at, line in enumerate(lines, start=1) if line.strip() == "board.show()"]
    assert f"Values shown for some batches (line {shown[0]}) come" in note


STANDARDIZED = """\
class Norm:
    def __init__(self):
        self.n, self.mean, self.seen = 0, {made}, 0
    def __call__(self, x):
        for row in x:
            self.n += 1
            delta = row - self.mean
            {change}
        return x - self.mean
norm = Norm()
"""


@pytest.mark.parametrize(
    ("made", "change", "is_state"),
    [
        ("torch.zeros(4)", "self.mean = self.mean + delta / self.n", True),
        ("torch.zeros(4)", "self.mean += 0.1 * delta", True),
        ("torch.zeros(4)", "self.mean.add_(delta / self.n)", True),
        ("torch.zeros(4)", "self.seen = delta", False),
        ("torch.zeros(4, requires_grad=True)", "self.seen = self.seen + delta.mean()", False),
    ],
)
def test_a_running_mean_of_rows_is_no_sum_of_losses(made: str, change: str, is_state: bool) -> None:
    text = script(before=STANDARDIZED.format(made=made, change=change)).replace("model(x)", "model(norm(x))")
    found = Facts(text).script.metrics.reports
    assert any(r.about in (About.STATE, About.CARRIED) for r in found) is is_state
