"""Which values are one rank's own: source text in, fact out."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.ranks.labels import Mark, Rank
from accelify.codemod.metrics.ranks.rank import Ranks
from tests.codemod.metrics.facts import find, script_of, training


def rank(expression: str, *, others: dict[str, str] | None = None, **slots: str) -> Rank:
    """The rank of what is printed after an epoch, if nothing was reduced."""
    slots["end"] = f"{slots.get('end', '')}\nprint({expression})"
    script = script_of(training(**slots), **(others or {}))
    return Ranks(script.metrics.measured.chains, script.metrics.measured.shards(script.metrics.shared_loops)).of(
        find(script, f"print({expression})")
    )


def is_running(expression: str, **slots: str) -> bool:
    found = rank(expression, **slots)
    return found.is_own and bool(found.of(Mark.RUNNING))


@pytest.mark.parametrize(
    "update",
    [
        "total = total - loss.item() * len(x)",
        "total = 0.5 * loss.item() + total",
        "total -= loss",
        "total, n = total + loss.item(), n + 1",
        "n, total = n + 1, loss + total",
        "(total, n) = [total + 1 * loss, 3]",
        "total.add_(loss)",
        "total.sub_(loss.detach())",
        "total[0].add_(loss)",
        "torch.add(total, loss, out=total)",
        "total = torch.add(loss, total)",
        "total = total.add(loss)",
        "total.index_add_(0, y, x)",
        "total.scatter_add_(0, y, x)",
        "np.add.at(total, y, 1)",
        "total[y, out.argmax(1)] += 1",
        "for a, b in zip(y, out.argmax(1)): total[a, b] += 1",
        "total = max(total, loss.item())",
        "total = torch.maximum(total, loss)",
        "total = loss if loss > total else total",
        "total = 0.9 * total + 0.1 * loss.item()",
        "total = total.lerp(loss, 0.1)",
        "total.mul_(0.9).add_(loss, alpha=0.1)",
        "total += loss if epoch else 2 * loss",
        "if loss < 3: total += 1",
        "if loss > 3: continue\ntotal += 1",
        "while loss > total: total += 1",
        "total = (lambda a, b: a + b)(total, loss)",
    ],
)
def test_a_running_number_is_own(update: str) -> None:
    assert is_running("total / 8", begin="total, n = torch.zeros(2), 0", batch=update)


@pytest.mark.parametrize(
    ("begin", "update", "read"),
    [
        ("rows = []", "rows.append(loss.item())", "sum(rows)"),
        ("rows = []", "rows.extend(out.tolist())", "rows[-1]"),
        ("rows = []", "rows += [loss.item()]", "np.mean(rows)"),
        ("rows = []", "rows = rows + [loss.item()]", "np.mean(rows)"),
        ("rows = []", "rows.insert(0, loss)", "rows"),
        ("rows = deque()", "rows.appendleft(loss.item())", "rows.popleft()"),
        ("rows = Queue()", "rows.put(loss.item())", "rows.get()"),
        ("rows = {}", "rows[i] = loss.item()", "rows"),
        ("rows = {}", "rows.setdefault('loss', []).append(loss.item())", "rows['loss']"),
        ("rows = defaultdict(list)", "rows['loss'].append(loss.item())", "np.mean(rows['loss'])"),
        ("rows = defaultdict(list)", "for k in 'ab': rows[k].append(loss.item())", "rows['a']"),
        ("rows = Counter()", "rows.update(y.tolist())", "rows.most_common(1)"),
        ("rows = set()", "rows.add(y[0].item())", "rows"),
        ("rows = x0 = torch.zeros(1)", "rows = torch.cat([rows, out])", "rows.mean()"),
        ("rows = {'loss': 0.0, 'n': 0}", "rows['loss'] += loss.item(); rows['n'] += 1", "rows['loss'] / rows['n']"),
    ],
)
def test_a_filled_container_is_own(begin: str, update: str, read: str) -> None:
    assert is_running(read, begin=begin, batch=update)


HELPERS = """
def add(total, x):
    return total + x

def fill(rows, x):
    rows.append(x)

def deep(rows, x):
    fill(rows, x)

def pair(x):
    return 1, x

class Meter:
    def __init__(self):
        self.reset()
    def reset(self):
        self.sum = self.n = 0
    def update(self, value, n=1):
        self.sum += value * n
        self.n += n
        self.avg = self.sum / self.n
    def mean(self):
        return self.sum / self.n
    @property
    def value(self):
        return self.sum / self.n

class State:
    pass

losses, times, state = Meter(), Meter(), State()
state.loss = 0
hits = 0

def count(y):
    global hits
    hits += y.sum().item()
"""


@pytest.mark.parametrize(
    ("update", "read"),
    [
        ("total = add(total, loss.item())", "total"),
        ("total = add(x=loss.item(), total=total)", "total"),
        ("fill(rows, loss.item())", "rows[0]"),
        ("deep(rows, loss.item())", "sum(rows)"),
        ("losses.update(loss.item(), len(x))", "losses.avg"),
        ("losses.update(loss.item())", "losses.mean()"),
        ("losses.update(loss.item())", "losses.value"),
        ("state.loss += loss.item()", "state.loss"),
        ("state.loss = state.loss + loss.item()", "state.loss / 3"),
        ("count(y)", "hits"),
        ("first, total = pair(total + loss)", "total"),
        ("rows.append(loss); shown = lambda: sum(rows)", "shown()"),
    ],
)
def test_functions_and_objects_pass_own_values_on(update: str, read: str) -> None:
    assert is_running(read, before=HELPERS, begin="total, rows = 0, []", batch=update)


@pytest.mark.parametrize(
    ("update", "read"),
    [
        ("losses.update(loss.item()); times.update(1)", "times.avg"),
        ("losses.update(loss.item()); times.update(1)", "times.mean()"),
        ("losses.update(loss.item()); times.update(1)", "times.value"),
        ("total = add(total, loss.item())", "add(1, 2)"),
        ("state.loss = loss; state.epoch = epoch", "state.epoch"),
        ("first, total = pair(loss)", "first"),
        ("n += 1", "n"),
        ("n = i", "n + 1"),
        ("if (i + 1) % 4 == 0: n += 1", "n"),
        ("n = len(x)", "n"),
        ("n = x.shape[0]", "n"),
        ("n = loss is None", "n"),
        ("n = isinstance(x, list)", "n"),
        ("pass", "len(loader)"),
        ("model.last = 1", "model.weight.norm()"),
        ("scheduler.step(loss)", "optimizer.param_groups[0]['lr']"),
        ("pass", "epoch"),
        ("total += loss.item()\nfor p in model.parameters(): n = p.grad.norm()", "n"),
        ("total = 0\ntotal += epoch", "total"),
        ("loss = 0", "loss"),
        ("rows.append(loss)\nrows = []", "rows"),
    ],
)
def test_what_all_ranks_have_alike_is_not_own(update: str, read: str) -> None:
    assert not rank(read, before=HELPERS, begin="total, rows, n = 0, [], 0", batch=update).is_own


@pytest.mark.parametrize(
    ("asked", "is_value"),
    [
        ("x.size(0) is not 32", True),
        ("len(x) is size", True),
        ("32 is x.shape[0]", True),
        ("x is not None", False),
        ("x is loss", False),
    ],
)
def test_which_number_it_is_goes_by_its_value(asked: str, is_value: bool) -> None:
    assert bool(rank(asked, before="size = 32").of(Mark.ROWS, Mark.BATCH)) is is_value


def test_counts_of_steps_are_told_from_counts_of_rows() -> None:
    assert rank("n", begin="n = 0", batch="n += 1").steps
    assert rank("max(1, len(loader))").steps
    assert rank("n", begin="n = 0", batch="n += len(x)").of(Mark.RUNNING)
    assert not rank("n", begin="n = 0", batch="n += len(x)").is_own


@pytest.mark.parametrize("batch", ["scores.append(0)", "scores.append(i)", "scores += [n]"])
def test_the_length_of_what_grows_with_the_steps_counts_no_rows(batch: str) -> None:
    found = rank("len(scores)", before="n, scores = 0, []", batch=f"n += 1\nif n % 2 == 0:\n    {batch}")
    assert not found.is_own
    assert not found.of(Mark.ROWS)


LOOP = "for i, (x, y) in enumerate(loader):"


def number_in(loop: str, *, before: str = "") -> Rank:
    """The rank of `i` in a training loop whose head, and what stands before it, is another."""
    text = training(begin=before, batch="print(i)").replace(LOOP, loop)
    script = script_of(text.replace("import time\n", "import time\nimport itertools\nfrom tqdm import tqdm\n"))
    return script.metrics.ranks.of(find(script, "print(i)"))


@pytest.mark.parametrize(
    ("before", "loop"),
    [
        ("steps = enumerate(loader)", "for i, (x, y) in steps:"),
        ("steps = enumerate(loader)\nbar = tqdm(steps)", "for i, (x, y) in bar:"),
        ("numbered = tqdm(enumerate(loader), total=3)", "for i, (x, y) in itertools.islice(numbered, 2):"),
        ("", "for i, (x, y) in zip(itertools.count(1), loader):"),
        ("steps = zip(loader, range(9))", "for (x, y), i in steps:"),
        ("numbers = itertools.count()", "for (x, y), i in zip(loader, numbers):"),
        ("", "for pair in enumerate(loader):\n        i, (x, y) = pair"),
        ("", "for pair in tqdm(enumerate(loader)):\n        i = pair[0]\n        x, y = pair[1]"),
    ],
)
def test_the_number_of_a_round_is_the_same_on_all_ranks(before: str, loop: str) -> None:
    assert number_in(loop, before=before).steps


@pytest.mark.parametrize(
    ("before", "loop"),
    [
        ("", "for i, (x, y) in loader:"),
        ("", "for pair in enumerate(loader):\n        x, (y, i) = pair"),
        ("pairs = [(a, b) for a, b in valid]\nitems = enumerate(pairs)", "for i, (x, y) in items:"),
    ],
)
def test_a_number_that_is_sharded_is_own(before: str, loop: str) -> None:
    assert number_in(loop, before=before).is_own


@pytest.mark.parametrize("update", ["n = x[y > 0].size(0)", "n = len(y.nonzero())", "rows = x[y == 1]\nn = len(rows)"])
def test_how_many_rows_are_chosen_is_own(update: str) -> None:
    assert rank("n", batch=update).is_own


def test_the_last_batch_is_own_but_not_running() -> None:
    found = rank("loss.item()")
    assert found.of(Mark.BATCH)
    assert not found.of(Mark.RUNNING)


def test_a_sum_that_each_batch_begins_anew_is_not_running() -> None:
    found = rank("total", batch="total = 0\nfor o in out: total += o.sum()")
    assert found.is_own
    assert not found.of(Mark.RUNNING)


@pytest.mark.parametrize(
    ("update", "read", "is_own"),
    [
        ("shown.data.add_(loss)", "shown.data.sum()", True),
        ("shown.data += loss.detach()", "shown", True),
        ("log['a'].append(loss.data[0])", "log", True),
        ("log['a'].append(loss.data[0])", "shown.data.sum()", False),
        ("log['a'].append(out.data)", "unknown(model(shown)).data", False),
        ("log['a'].append(loss.data[0])", "model(shown).cpu().data.numpy()", False),
    ],
)
def test_the_data_of_a_tensor_are_no_other_s(update: str, read: str, is_own: bool) -> None:
    assert rank(read, begin="shown, log = torch.zeros(4), {'a': []}", batch=update).is_own is is_own


def test_what_is_reduced_is_everyones() -> None:
    script = script_of(training(begin="total = 0", batch="total += loss.item()", end="print(total)"))
    assert script.metrics.ranks.of(find(script, "print(total)")).is_same


def test_an_evaluation_of_all_the_data_is_everyones() -> None:
    evaluation = "model.eval()\nv = []\nfor a, b in valid: v.append(criterion(model(a), b))"
    assert not rank("v", end=evaluation).is_own


def test_the_time_is_told_apart() -> None:
    found = rank("spent", begin="spent = 0", batch="spent += time.time()")
    assert found.of(Mark.CLOCK)
    assert not found.of(Mark.RUNNING, Mark.BATCH)


@pytest.mark.parametrize(
    ("text", "is_own"),
    [
        ("time.strftime('%d')", False),
        ("str(time.time())", False),
        ("f'run-{time.time()}'", False),
        ("'%d_%s' % (time.time(), 'run')", False),
        ("time.time()", True),
        ("int(time.time())", True),
    ],
)
def test_a_text_with_the_time_in_it_decides_nothing(text: str, is_own: bool) -> None:
    before = f"options = dict.fromkeys(['a', 'b'], 3)\nfor key in options: options[key] = {text}"
    assert rank("options['limit'] < 3", before=before).is_own is is_own


SCALER = """\
args = argparse.ArgumentParser().parse_args()
args.device = "cpu"
class Scaler:
    def __init__(self, std):
        self.std = std
    def inverse(self, data):
        if {test}:
            self.std = {moved}
        return data * self.std
scaler = Scaler(np.ones(3))
"""


@pytest.mark.parametrize("test", ["type(data) == torch.Tensor", "isinstance(data, torch.Tensor)", "data.is_cuda"])
@pytest.mark.parametrize(
    ("moved", "is_own"),
    [
        ("torch.from_numpy(self.std).to(data.device).type(data.dtype)", False),
        ("torch.as_tensor(self.std, device=data.device, dtype=data.dtype)", False),
        ("torch.from_numpy(self.std).to(data.device) + data.mean()", True),
    ],
)
def test_where_a_batch_is_says_nothing_of_its_values(test: str, moved: str, is_own: bool) -> None:
    before = "import argparse\n" + SCALER.format(test=test, moved=moved)
    found = rank("scaler.std", before=before, batch="scaler.inverse(out)")
    assert found.is_own is is_own
    assert found.is_same is not is_own  # no count of steps either


PASSED = """\
from other import collate, device, rows, net as model
from torch.utils.data import DataLoader
import torch
loader = DataLoader(rows, 4, collate_fn=collate)
valid = DataLoader(rows, 4, collate_fn=collate)
kept = []
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def run(model, optimizer, train, other):
    n = 0
    for x in train:
        n += 1
        x = x.to(device)
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    {end}
for epoch in range(3):
    run({given})
    print({shown})
"""
GOES_OVER = "for x in other: print(model(x.to(device)))"


@pytest.mark.parametrize(
    ("end", "given", "shown", "is_same"),
    [
        (GOES_OVER, "model, optimizer, loader, valid", "valid", True),
        (GOES_OVER, "model, optimizer, other=valid, train=loader", "valid", True),
        ("other.append(n)", "model, optimizer, loader, kept", "kept", False),
    ],
)
def test_a_loader_keeps_nothing_of_the_steps(end: str, given: str, shown: str, is_same: bool) -> None:
    script = script_of(PASSED.format(end=end, given=given, shown=shown))
    assert script.metrics.ranks.of(find(script, f"print({shown})")).is_same is is_same


def test_functions_of_other_files_are_followed() -> None:
    others = {"other.py": "def add(a, b):\n    return a + b\n"}
    slots = {"before": "from other import add", "begin": "total = 0", "batch": "total = add(total, loss.item())"}
    assert rank("total", others=others, **slots).is_own


def test_batches_that_are_asked_for_in_rounds() -> None:
    text = training(before="batches, total = iter(loader), 0").replace(
        "for i, (x, y) in enumerate(loader):",
        "for i in range(4):\n        x, y = next(batches)\n        total += x.sum()",
    )
    script = script_of(f"{text}\nprint(total)\nprint(x)")
    ranks = Ranks(script.metrics.measured.chains, script.metrics.measured.shards(script.metrics.shared_loops))
    assert ranks.of(find(script, "print(total)")).of(Mark.RUNNING)
    assert ranks.of(find(script, "print(x)")).of(Mark.BATCH)


def test_an_attribute_that_a_method_makes_of_itself() -> None:
    text = """\
class State:
    def __init__(self):
        self.put(0)
    def put(self, x):
        self.x = x
    def grow(self):
        self.put(self.x + 1)
        return self.x
state = State()
"""
    assert rank("state.grow()", before=text).is_same
    assert rank("state.x", before=text.replace("grow(self)", "grow(self, y)").replace("x + 1", "x + y"),
                batch="state.grow(loss.item())").is_own  # fmt: skip


@pytest.mark.parametrize(
    ("batch", "is_own"),
    [
        ("group['lr'] = 0.1 / (1 + epoch)", False),
        ("group['lr'] = 0.1 * decay(i)", False),
        ("group['lr'] *= 0.5", False),
        ("group['lr'] = 0.1 * loss.item()", True),
        ("group['lr'] = decay(loss)", True),
        ("group['lr'] = 0.1 if loss > 1 else 0.2", True),
        ("if loss > 1: group['lr'] = 0.1", True),
    ],
)
def test_whether_an_assignment_sets_alike(batch: str, is_own: bool) -> None:
    decay = "def decay(x):\n    return 0.5 ** (x // 10)"
    script = script_of(training(before=decay, batch=f"for group in optimizer.param_groups:\n    {batch}"))
    ranks = Ranks(script.metrics.measured.chains, script.metrics.measured.shards(script.metrics.shared_loops))
    statement = script.program.statement(find(script, "group['lr']"))
    assert isinstance(statement, (ast.Assign, ast.AugAssign))
    assert ranks.sets_own(statement) is is_own


@pytest.mark.parametrize(
    ("inner", "is_own"),
    [
        ("for k in range(4): n += 1", False),
        ("for k in range(4):\n    if y[k] > 0: break\n    n += 1", True),
        ("for k in y.nonzero(): n += 1", True),
        ("for k in y: n += 1", False),
    ],
)
def test_how_often_a_loop_within_a_step_runs(inner: str, is_own: bool) -> None:
    assert rank("n", begin="n = 0", batch=inner).is_own is is_own


RUN = """\
import time
class Plan:
    def __init__(self, values):
        self.first, self.name = values["first"], values["name"]
        self.sizes = [n for n in (4, 8) if n >= self.first]
    def size(self):
        return len(self.sizes)
{values}
plan = Plan(values)
"""


@pytest.mark.parametrize(
    "values",
    [
        'values = {"name": time.time(), "first": 8}',
        "values = dict(name=time.time(), first=8)",
        'values = {}\nvalues["first"] = 8\nvalues["name"] = time.time()',
        'def make():\n    made = {"name": time.time(), "first": 8}\n    return made\nvalues = make()',
    ],
)
def test_one_part_of_an_object_is_not_another(values: str) -> None:
    before = RUN.format(values=values)
    assert not rank("plan.first", before=before).is_own
    assert not rank("plan.size()", before=before).is_own
    assert rank("plan.name", before=before).is_own


ASKED = """\
import itertools
import shards
def numbers():
    n = 0
    while True:
        yield n
        n += 1
it = {made}
"""


@pytest.mark.parametrize(
    ("made", "counts"),
    [
        ("iter(shards.load())", False),
        ("iter(shards.load().batch(8).as_numpy_iterator())", False),
        ("itertools.count()", True),
        ("iter(range(99))", True),
        ("enumerate(shards.load())", True),
        ("numbers()", True),
    ],
)
def test_an_item_of_an_iterator_that_is_not_known_is_no_count(made: str, counts: bool) -> None:
    found = rank("item", before=ASKED.format(made=made), batch="item = next(it)")
    assert bool(found.of(Mark.STEPS)) is counts


STAMPED = """\
import argparse, time
class options:
    def __init__(self):
        self.parser = argparse.ArgumentParser()
    def parse(self):
        self.opt = self.parser.parse_args()
        self.opt.name = time.time()
        return self.opt
"""


def test_one_option_is_not_another_whatever_the_variable_is_called() -> None:
    before, others = "from config import options\noptions = options().parse()", {"config.py": STAMPED}
    assert rank("options.name", before=before, others=others).is_own
    assert not rank("options.every", before=before, others=others).is_own
    assert rank("options.get('every')", before=before, others=others).is_own  # which may read all of them


TIMED = """\
import time
class Timed:
    def __init__(self):
        self.started = time.time()
        self.net = nn.Linear(4, 4)
        self.clock = time.time
    def value(self):
        return {value}
timed = Timed()
"""


@pytest.mark.parametrize(
    ("value", "is_own"),
    [
        ("self.net(torch.ones(4)).mean().item()", False),
        ("(self.net(torch.ones(4)) - 1).pow(2).sum()", False),
        ("self.net(torch.ones(4)).mean() * self.started", True),
        ("self.clock()", True),
        ("self.unknown(torch.ones(4))", True),
    ],
)
def test_what_an_attribute_gives_when_it_is_called_reads_no_other(value: str, is_own: bool) -> None:
    assert rank("timed.value()", before=TIMED.format(value=value)).is_own is is_own


@pytest.mark.parametrize(
    ("values", "is_own"), [('{"name": 1, "first": time.time()}', True), ("dict(name=1, first=time.time())", True)]
)
def test_a_part_that_an_object_was_given(values: str, is_own: bool) -> None:
    assert rank("plan.size()", before=RUN.format(values=f"values = {values}")).is_own is is_own


@pytest.mark.parametrize(
    ("chosen", "is_own"),
    [
        ("at = epoch + 1 if first is None else first\nat %= 3", False),
        ("at = 0 if first is None else first\nat += 1", False),
        ("at = first\nat += loss", True),
    ],
)
def test_a_number_that_is_counted_on_changes_no_other_variable(chosen: str, is_own: bool) -> None:
    batch = "\n".join(f"    {line}" for line in chosen.split("\n"))
    found = rank("first", before="first = given()", batch=f"if epoch:\n{batch}")
    assert found.is_own is is_own


@pytest.mark.parametrize(
    ("made", "used", "is_own"),
    [
        ("torch.amp.GradScaler()", "kept.scale(loss)", False),
        ("torch.optim.SGD(model.parameters())", "kept.add_param_group({'params': out})", False),
        ("torch.zeros(1)", "kept.add_(loss)", True),
    ],
)
def test_what_all_processes_have_alike_keeps_nothing_of_a_batch(made: str, used: str, is_own: bool) -> None:
    assert rank("both", before=f"kept = {made}\nboth = [kept]", batch=used).is_own is is_own


DRAWN = """\
import itertools
others = DataLoader(TensorDataset(torch.ones(8, 4), torch.ones(8)), batch_size=2, shuffle=True)
kept = torch.ones(8, 4)
def take(n):
    index = torch.randint(len(kept), (n,))
    return model(kept[index]).sum().item()
def first(n):
    total = 0
    for i, (x, y) in enumerate(others):
        if i >= n:
            break
        total += model(x).sum().item()
    return total
def all_of_them():
    total = 0
    for x, y in others:
        total += model(x).sum().item()
    return total
"""


@pytest.mark.parametrize(
    ("value", "is_drawn"),
    [
        ("take(3)", True),
        ("first(3)", True),
        ("[model(x).mean() for x, y in itertools.islice(others, 3)]", True),
        ("np.random.choice(8)", True),
        ("all_of_them()", False),
        ("model(kept).sum().item()", False),
    ],
)
@pytest.mark.parametrize("slot", ["batch", "end"])
def test_what_an_evaluation_draws_within_a_sharded_loop(value: str, is_drawn: bool, slot: str) -> None:
    script = script_of(training(before=DRAWN, **{slot: f"score = {value}\nscheduler.step(score)"}))
    measured = script.metrics.measured
    ranks = Ranks(measured.chains, measured.shards(script.metrics.shared_loops))
    step = find(script, "scheduler.step(score)")
    assert isinstance(step, ast.Call)
    assert ranks.is_own(step.args[0]) is (is_drawn and slot == "batch")


@pytest.mark.parametrize(
    ("layer", "mode", "is_drawn"),
    [
        ("nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.5))", "", True),
        ("Noisy()", "", True),
        ("nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.5))", "model.eval()", False),
        ("nn.Sequential(nn.Linear(4, 1), nn.BatchNorm1d(1))", "", False),
        ("nn.Sequential(nn.Linear(4, 1), nn.ReLU())", "", False),
    ],
)
@pytest.mark.parametrize("slot", ["batch", "end"])
def test_what_a_model_draws_that_is_never_in_eval_mode(layer: str, mode: str, is_drawn: bool, slot: str) -> None:
    noisy = "class Noisy(nn.Module):\n    def __init__(self): self.d = nn.Dropout()\n"
    noisy += "    def forward(self, x): return self.d(x)\n"
    before = f"{noisy}kept = torch.ones(4, 4)\nnet = {layer}"
    found = rank("score", before=before, **{slot: f"{mode}\nscore = net(kept).sum().item()"})
    assert found.is_own is (is_drawn and slot == "batch")


AGENT = """\
class Agent:
    def __init__(self, frozen=False):
        self.frozen, self.start, self.seen, self.log, self.notes = frozen, 3, 0, [], {}
    def record(self, value):
        self.log.append(value)
    def freeze(self, value):
        self.log.append(value)
        self.frozen = bool(value)
def record(agent, value):
    agent.log.append(value)
agent = Agent()
"""


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ("agent.log.append(1)", "log"),
        ("agent.log += [1]", "log"),
        ("agent.seen += 1", "seen"),
        ("agent.notes['last'] = 1", "notes"),
        ("agent.log.extend([1, 2])", "log"),
        ("agent.record(1)", "log"),
        ("record(agent, 1)", "log"),
        ("agent.freeze(1)", "frozen"),
        ("agent.start = 5", "start"),
    ],
)
def test_a_change_of_one_part_on_some_ranks_leaves_the_others_alike(change: str, part: str) -> None:
    slots = {"before": AGENT, "batch": f"if loss > 3: {change}"}
    assert rank(f"agent.{part}", **slots).is_own
    changed = {"freeze": {"frozen", "log"}}.get(change.removeprefix("agent.").partition("(")[0], {part})
    for other in {"frozen", "start", "seen", "log", "notes"} - changed:
        assert not rank(f"agent.{other}", **slots).is_own


def test_a_change_of_the_whole_object_on_some_ranks() -> None:
    assert rank("agent.frozen", before=AGENT, batch="if loss > 3: agent = Agent(True)").is_own
    assert rank("agent.frozen", before=AGENT, batch="if loss > 3: unknown(agent)\nagent.frozen = loss > 3").is_own


@pytest.mark.parametrize(
    ("made", "draw", "is_own"),
    [
        ("np.random.RandomState(3)", "g.permutation(8)", False),
        ("np.random.default_rng(seed=3)", "g.normal(size=4)", False),
        ("random.Random(3)", "g.random()", False),
        ("np.random.default_rng()", "g.normal(size=4)", True),
        ("random.Random()", "g.random()", True),
        ("np.random.RandomState(3)", "np.random.permutation(8)", True),
    ],
)
def test_a_generator_with_a_seed_draws_the_same_on_all_ranks(made: str, draw: str, is_own: bool) -> None:
    begin = f"import random\nimport numpy as np\ng, drawn = {made}, []"
    assert rank("drawn", begin=begin, batch=f"drawn.append({draw})").is_own is is_own


BASE = """\
class Base:
    def __init__(self):
        self.total, self.rows, self.other = 0.0, [], 0
    def note(self, loss):
        {update}
    def epoch(self, found):
        self.total = found
"""


@pytest.mark.parametrize(
    ("update", "method", "is_own"),
    [
        ("self.total += loss.item()", "self.total / 8", True),
        ("self.rows.append(loss.item())", "sum(self.rows)", True),
        ("self.rows.append(loss.item())", "self.other", False),
        ("self.other += 1", "self.total", False),
    ],
)
@pytest.mark.parametrize("is_inherited", [True, False])
def test_an_attribute_that_a_method_of_another_file_sets(
    update: str, method: str, is_own: bool, is_inherited: bool
) -> None:
    if is_inherited:
        begin = (
            f"from base import Base\nclass Mine(Base):\n    def shown(self):\n        return {method}\nmine = Mine()"
        )
    else:
        begin = f"from base import Base\ndef shown(own):\n    return {method.replace('self', 'own')}\nmine = Base()"
    found = rank(
        "mine.shown()" if is_inherited else "shown(mine)",
        others={"base.py": BASE.format(update=update)},
        begin=begin,
        batch="mine.note(loss)",
    )
    assert found.is_own is is_own


@pytest.mark.parametrize(
    "made",
    [
        *("defaultdict(Tally)", "defaultdict(lambda: Tally())", "{'loss': Tally()}", "OrderedDict(loss=Tally())"),
        *("OrderedDict([('loss', Tally())])", "dict(zip(['loss', 'error'], [Tally(), Tally()]))"),
        *("OrderedDict({'loss': Tally()})", "dict((k, Tally()) for k in ['loss'])", "dict([('loss', Tally())])"),
    ],
)
def test_a_meter_in_a_dictionary_is_own(made: str) -> None:
    tally = "class Tally:\n    def __init__(self): self.n = 0.0\n    def add(self, x): self.n += x"
    batch = "meters['loss'].add(loss.item())"
    assert is_running("meters['loss'].n", before=tally, begin=f"meters = {made}", batch=batch)
    assert not rank("meters['loss'].n", before=tally, begin=f"meters = {made}", batch="pass").is_own


@pytest.mark.parametrize(
    ("update", "is_own"),
    [
        ("batch.total = row.total * loss", False),
        ("batch.total += row.total * loss", False),
        ("batch.total, batch.rows = loss, [row.total]", False),
        ("row.total = row.total * loss", True),
    ],
)
def test_an_attribute_that_another_file_sets_in_objects_of_another_class(update: str, is_own: bool) -> None:
    batch_of = (
        f"class Batch:\n    pass\ndef batch_of(row, loss):\n    batch = Batch()\n    {update}\n    return batch\n"
    )
    row = "class Row:\n    def __init__(self): self.total = 1\n    def shown(self): return self.total\nrow = Row()"
    begin = f"from batches import batch_of\n{row}"
    found = rank("row.shown()", others={"batches.py": batch_of}, begin=begin, batch="batch = batch_of(row, loss)")
    assert found.is_own is is_own


def test_an_attribute_that_another_file_sets_later_is_not_seen_before() -> None:
    before = "from base import Base\ndef shown(own):\n    return own.total\nmine = Base()\nfirst = shown(mine)"
    others = {"base.py": BASE.format(update="self.total += loss.item()")}
    assert not rank("first", others=others, before=before, batch="mine.note(loss)").is_own


@pytest.mark.parametrize(("read", "is_own"), [("options.kept", True), ("options.every", False), ("options", True)])
def test_setattr_sets_one_attribute(read: str, is_own: bool) -> None:
    before = "import argparse\noptions = argparse.ArgumentParser().parse_args()"
    assert rank(read, before=before, batch="setattr(options, 'kept', loss.item())").is_own is is_own


@pytest.mark.parametrize(
    ("call", "is_own"),
    [
        ("setattr(options, *given)", True),
        ("setattr(options, 'kept', *given[1:])", True),
        ("setattr(*(options, *given))", False),  # nothing says which object that is
    ],
)
def test_setattr_that_takes_arguments_out_of_others_sets_any(call: str, is_own: bool) -> None:
    before = "import argparse\noptions = argparse.ArgumentParser().parse_args()"
    assert rank("options", before=before, batch=f"given = ('kept', loss.item()); {call}").is_own is is_own


NOISE = """
def noisy(x):
    t = torch.randint(0, 9, (1,))
    return model(x + torch.rand(4) * table[t])
def measure():
    return sum(noisy(x).sum().item() for x, y in valid)
table = torch.zeros(9)
"""


@pytest.mark.parametrize(("value", "is_own"), [("measure()", False), ("noisy(torch.ones(4)).sum()", False)])
def test_what_a_function_draws_for_a_call_outside_of_the_loops_is_alike(value: str, is_own: bool) -> None:
    found = rank("v", before=NOISE, batch="w = noisy(x); out = w", end=f"v = {value}")
    assert found.is_own is is_own
    assert rank("w", before=NOISE, batch="w = noisy(torch.ones(4))").is_own


@pytest.mark.parametrize(("parts", "is_own"), [(12, False), (30, True)])
def test_what_is_in_very_many_parts_of_an_object_is_in_all_of_it(parts: int, is_own: bool) -> None:
    log = ", ".join(f'"part{i}": loss.item() * {i}' for i in range(parts))
    batch = f'log = {{"epoch": epoch, {log}}}'
    assert rank("log['epoch']", batch=batch).is_own is is_own
    assert rank("log['part1']", batch=batch).is_own


PLOTTED = """\
if {asked}:
    image = plt.imshow(out.detach().numpy())
else:
    image.set_data(out.detach().numpy())
"""


@pytest.mark.parametrize(
    ("asked", "is_own"),
    [
        ("not image", False),
        ("not image or not model", False),
        ("image is None", False),
        ("not kept", True),
        ("not (image and kept)", True),
    ],
)
def test_whether_there_is_a_plot_does_not_depend_on_what_it_shows(asked: str, is_own: bool) -> None:
    before = "import matplotlib.pyplot as plt\nimage, kept = None, []"
    batch = f"{PLOTTED.format(asked=asked)}kept = out[out > 0]"
    assert rank(asked, before=before, batch=batch).is_own is is_own


@pytest.mark.parametrize("test", ["'other' in found", "'other' not in found", "name in found"])
@pytest.mark.parametrize("made", ["found = {'last': loss, 'n': 3}", "found = dict(n=3)\nfound['last'] = loss"])
def test_what_is_at_a_key_of_a_dict_says_nothing_about_its_keys(test: str, made: str) -> None:
    assert rank(test, before="name = 'other'\nfound = {}", batch=made).is_same


@pytest.mark.parametrize(
    ("test", "made"),
    [
        ("loss.item() in found", "found = {'n': 3}"),
        ("'low' in found", "if loss < 3: found['low'] = 1"),
        ("'n' in found", "found[loss.item()] = 1"),
        ("3 in found", "found = [loss.item(), 3]"),
        ("'n' in str(found)", "found = {'n': loss}"),
    ],
)
def test_whether_a_key_is_there_may_differ(test: str, made: str) -> None:
    assert rank(test, before="found = {}", batch=made).is_own
