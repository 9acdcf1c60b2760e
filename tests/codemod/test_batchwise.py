"""Evaluation by batches: sharded where no batch needs another and all that is left is added up; whole otherwise."""

from __future__ import annotations

import pytest

from accelify.codemod.options import ACCELERATE
from accelify.codemod.rewrite import Options
from tests.codemod.pairs import run

SCRIPT = """\
import time
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


class AverageMeter:
    def __init__(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        {average}


def accuracy(output, target):
    hits = []
    hits.append(output.topk(1)[1].eq(target).float().sum())
    return hits


def note(value):
    global seen
    seen = value


data = TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,)))
loader = DataLoader(data, batch_size=2)
valid = DataLoader(data, batch_size=3)
model = nn.Sequential(nn.Linear(4, 2), nn.{layer})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def evaluate(loader):
    {mode}
    {begin}
    for {target} in {source}:
        out = model(x)
        {metric}
    {end}


for epoch in range(2):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        {inside}
    {call}
"""
SLOTS = {
    "average": "self.avg = self.sum / self.count",
    "layer": "Dropout()",
    "mode": "model.eval()",
    "begin": "total = 0",
    "target": "x, y",
    "source": "loader",
    "metric": "total += criterion(out, y).item()",
    "end": "return total / len(loader)",
    "inside": "pass",
    "call": "print(evaluate(valid))",
}
METER = {"begin": "total = AverageMeter()", "metric": "total.update(criterion(out, y).item(), x.size(0))"}
SETTINGS = (
    "every = 2",
    "options = yaml.load(open('options.yaml')); every = options['every']",
    "options, others = parser.parse_known_args(); every = int(options.every)",
)
LIST = {"begin": "rows = []", "end": "return np.mean(rows)"}
SHARDED = "accelerator.shard(loader, even=False)"
SUMMED = '    total = accelerator.reduce(total, "sum")\n'


def rewritten(options: Options | None = None, **slots: str) -> tuple[str, list[str]]:
    text = SCRIPT.format(**{**SLOTS, **slots}).replace("        pass\n", "")
    result = run(text, options or Options())
    # That the script stays on the CPU, since it names no device, is told in any case.
    others = ("own_tensors", "devices", "batch_size")
    return result.after.decode(), [n.message for n in result.notes if n.rule not in others]


@pytest.mark.parametrize(
    "slots",
    [
        {},
        {"target": "i, (x, y)", "source": "enumerate(loader)"},
        {"source": "tqdm(loader)"},
        {"mode": "model.train(False)"},
        {"mode": "pass", "call": "model.eval()\n    print(evaluate(valid))"},
        {"mode": "pass", "layer": "ReLU()"},
        {"mode": "global model", "metric": "model = model.eval(); total += criterion(out, y).item()"},
        {"mode": "pass", "metric": "model.eval()\n        total += criterion(out, y).item()"},
        {"metric": "total = total + criterion(out, y).item()"},
        {"metric": "total += (torch.zeros(len(y), 2).scatter_(1, y, 1.0) * out).sum()"},
        {"metric": "hits = accuracy(out, y)\n        total += hits[0]"},
        {"metric": "if y.sum() == 0:\n            continue\n        total += criterion(out, y).item()"},
        {"metric": "for row in range(len(y)):\n            total += out[row, y[row]]"},
        {"begin": "total, steps = 0, 1", "metric": "total += out.sum()\n        steps += 1"},
        {"metric": "for row in y:\n            if row == 1: break\n            total += out[row].sum()"},
        {"begin": "total = torch.zeros(3)", "metric": "for row in y:\n            total[row] += 1"},
        {"begin": "total = [0.0] * 3", "metric": "total[y[0]] += out.sum().item()"},
        {"begin": "total = {k: 0 for k in (0, 1)}", "metric": "total[y[0].item()] += 1", "end": "return total"},
        {"call": "print(evaluate(valid), evaluate(loader))", "end": "return total / len(loader.dataset)"},
        *({"call": f"{text}\n    if epoch % every == 0: print(evaluate(valid))"} for text in SETTINGS),
    ],
)
def test_sums_are_reduced_after_the_loop(slots: dict[str, str]) -> None:
    after, notes = rewritten(**slots)
    assert SHARDED in after
    assert SUMMED in after
    assert "\nloader, model, optimizer = accelerator.prepare(loader, model, optimizer)\n" in after
    assert not notes


@pytest.mark.parametrize(
    ("source", "counted"),
    [
        ("enumerate(loader)", "(i + 1)"),
        ("tqdm(enumerate(loader))", "(1 + i)"),
        ("enumerate(tqdm(loader), 1)", "i"),
        ("enumerate(loader, start=1)", "i"),
    ],
)
def test_the_number_of_the_last_batch_becomes_that_of_all(source: str, counted: str) -> None:
    after, notes = rewritten(target="i, (x, y)", source=source, end=f"return total / {counted}")
    assert f"{SUMMED}    return total / len(loader)\n" in after
    assert not notes


@pytest.mark.parametrize(
    "slots",
    [
        {"source": "enumerate(loader)", "end": "return total / i"},
        {"source": "enumerate(loader, 5)", "end": "return total / (i + 1)"},
        {"source": "enumerate(loader)", "end": "loader = None\n    return total / (i + 1)"},
        {"source": "enumerate(loader)", "end": "return total / (i + 1)", "call": "print(evaluate(other()))"},
    ],
)
def test_a_number_of_a_batch_that_is_not_known_to_be_the_last_s(slots: dict[str, str]) -> None:
    after, _ = rewritten(target="i, (x, y)", **slots)
    assert "even=False" not in after


def test_a_name_that_another_loop_binds_anew_is_not_read_after_this() -> None:
    train = "for x, y in loader: loss = F.cross_entropy(model(x), y)\n    print(loss)\n    model.eval()\n"
    valid = "for x, y in valid:\n        loss = criterion(model(x), y)\n        total += loss.item()\n    print(total)"
    call = f"{train}    total = 0.0\n    {valid}"
    after, _ = rewritten(call=call)
    assert "    for x, y in accelerator.shard(valid, even=False):\n        loss" in after
    after, _ = rewritten(call=f"{call}\n    print(loss)")
    assert "    for x, y in valid:\n        loss" in after


def test_meters_are_reduced_and_their_means_taken_again() -> None:
    after, notes = rewritten(**METER, end="return total.avg")
    summed = '    total.sum, total.count = accelerator.reduce((total.sum, total.count), "sum")\n'
    assert f"{summed}    total.avg = total.sum / total.count\n    return total.avg\n" in after
    assert not notes
    after, _ = rewritten(**METER, average="pass", end="return total.sum / total.count")
    assert f"{summed}    return" in after


def test_a_meter_of_time_stays_with_its_process() -> None:
    after, notes = rewritten(
        begin="took, end, total = AverageMeter(), time.time(), 0",
        metric="took.update(time.time() - end); end = time.time(); total += 1; print(took.avg)",
    )
    assert SUMMED in after
    assert "took.sum" not in after
    assert not notes


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("rows.append(criterion(out, y).item())", ', per="batch"'),
        ("rows.append(out.mean().item() * len(y))", ', per="batch"'),
        ("rows.extend(out.argmax(1).tolist())", ', per="row"'),
        ("rows += out.argmax(1).tolist()", ', per="row"'),
        ("rows.append(out.cpu().numpy())", ', per="batch"'),
        ("rows.append((y.cpu(), len(y)))", ', per="batch"'),
        ("rows.extend(out.detach().cpu())", ', per="row"'),
        ("rows.append(out)", ', per="batch"'),
        ("loss = criterion(out, y)\n        rows.append(loss)", ', per="batch"'),
        ("_, top = out.max(1)\n        rows += top", ', per="row"'),
        ("rows.extend(y)", ', per="row"'),
        # How many elements these put in is not known.
        ("rows.extend(y[y > 0].tolist())", ""),
        ("rows.extend([y.sum().item(), 0])", ", use_gather_object=True"),
        ("rows.append(1)\n        rows.append(2)", ""),
        ("if len(y) > 1:\n            rows.append(1)", ""),
    ],
)
def test_lists_are_put_together_after_the_loop(metric: str, options: str) -> None:
    after, notes = rewritten(**LIST, metric=metric)
    assert SHARDED in after
    assert f"    rows = accelerator.gather_for_metrics(rows{options})\n    return np.mean(rows)\n" in after
    assert not notes


@pytest.mark.parametrize(
    ("metric", "per"),
    [
        ("rows += out.softmax(1)[:, 1].tolist()", "row"),
        ("batch = {'y': y}\n        rows.extend(batch['y'].tolist())", "row"),
        ("rows.extend(out.reshape(-1, 2)[..., 0].tolist())", "row"),
        ("rows.append(out[:2].sum().item())", "batch"),
        # In another order they would no longer stand beside what else there is for each row.
        ("rows.extend(y[y > 0].tolist())", None),
        ("rows.extend(out[0].tolist())", None),
        ("rows.extend([v for v in y.tolist() if v])", None),
        ("if len(y) > 1:\n            rows.append(1)", None),
    ],
)
def test_the_order_of_what_is_returned_is_that_of_one_process(metric: str, per: str | None) -> None:
    after, _ = rewritten(begin="rows = []", metric=metric, end="return rows")
    assert (f'gather_for_metrics(rows, per="{per}")' in after) is (per is not None)
    assert (SHARDED in after) is (per is not None)


def test_what_the_loop_shows_is_said_with_the_batch_size() -> None:
    for shown in ("print(i, total / (i + 1))", "if i % 2 == 0: print(total)", "mean = total / (i + 1); print(mean)"):
        slots = {
            **SLOTS,
            "target": "i, (x, y)",
            "source": "enumerate(loader)",
            "metric": f"total += 1\n        {shown}",
        }
        result = run(SCRIPT.format(**slots).replace("        pass\n", ""))
        assert SUMMED in result.after.decode()
        (note,) = (n for n in result.notes if n.rule == "batch_size")
        assert "Values shown for some batches (line" in note.message
        assert len(note.shows) == 1


@pytest.mark.parametrize(
    "slots",
    [
        {"mode": "pass"},
        {"mode": "model.train()"},
        {"begin": "total = 1"},
        {"begin": "pass", "call": "total = 0\n    print(evaluate(valid))"},
        {"metric": "total *= out.sum()"},
        {"metric": "total += out.sum()\n        if total > 3: break"},
        {"metric": "total += out.sum()\n        if epoch > 3: break"},
        {"metric": "total += out.sum()\n        with torch.no_grad(): break"},
        {"metric": "total += out.sum() / (total + 1)"},
        {"metric": "total += i * out.sum()", "target": "i, (x, y)", "source": "enumerate(loader)"},
        {"metric": "total += out.sum()\n        best = max(total, 3)", "end": "return best"},
        {"begin": "total, last = 0, 0", "metric": "total += out.sum() - last\n        last = out.sum()"},
        {"metric": "total += out.sum()", "end": "return total, out"},
        {"metric": "total += out.sum()\n        note(total)"},
        {"metric": "total += out.sum()\n        note(y)"},
        {"metric": "total += out.sum()\n        model.last = out"},
        {"metric": "total += out.sum()\n        torch.save(out, 'out.pt')"},
        {"metric": "total += (out + torch.randn(3, 2)).sum()"},
        {"metric": "total += F.dropout(out).sum()"},
        {"metric": "total += out.sum()\n        optimizer.zero_grad()"},
        {"metric": "total += unknown(out)"},
        {"begin": "total = 0\n    total += 5"},
        {"begin": "rows = [1]", "metric": "rows.append(out.mean().item())", "end": "return rows"},
        {**LIST, "metric": "rows.append(unknown)"},
        {**LIST, "metric": "rows.append(out.mean().item())", "inside": "evaluate(valid)"},
        {**LIST, "metric": "rows.insert(0, out.mean().item())"},
        {**METER, "end": "return total.val"},
        {**METER, "average": "self.avg = 0.9 * self.avg + val", "end": "return total.avg"},
        {**METER, "begin": "total = AverageMeter()\n    total.update(1)", "end": "return total.avg"},
        {"metric": "if y[0]: total.update(out.sum())", "begin": "total = AverageMeter()", "end": "return total.avg"},
        {"call": "print(evaluate(valid), evaluate(loader))"},
        {"source": "[next(iter(loader))]"},
        {"call": "every = time.time() % 2\n    if epoch % every: print(evaluate(valid))"},
        {"call": "every = os.path.exists('this')\n    if every and os.path.exists('that'): print(evaluate(valid))"},
        {"begin": "total, kept = 0, []\n    model[0].register_forward_hook(lambda *given: kept.append(given))"},
    ],
)
def test_any_other_evaluation_is_not_dealt_out(slots: dict[str, str]) -> None:
    after, _ = rewritten(**slots)
    assert "even=False" not in after


def test_a_forward_pass_that_remembers_or_draws_is_not_dealt_out() -> None:
    net = "class Net(nn.Module):\n    def forward(self, x):\n        {}\n        return x\n\n\n{}"
    for body, is_dealt in (
        ("self.last = x", True),
        ("self.calls += 1", False),
        ("self.seen.append(x)", False),
        ("rows = []; rows.append(x)", True),
        ("x = self.last = x + self.last", False),
        ("x = x + torch.randn_like(x)", False),
        ("x = F.dropout(x)", False),
        ("x = F.dropout(x, training=self.training)", True),
    ):
        text = SCRIPT.format(**SLOTS).replace("        pass\n", "").replace("data = ", net.format(body, "data = "), 1)
        after = run(text.replace("nn.Dropout()", "Net(), nn.Dropout()"), Options()).after.decode()
        assert "even=False" in after
        text = text.replace("nn.Sequential(nn.Linear(4, 2), nn.Dropout())", "Net()")
        for call in ("model(x)", "model.forward(x)"):
            after = run(text.replace("out = model(x)", f"out = {call}"), Options()).after.decode()
            assert ("even=False" in after) is is_dealt


CLASS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Experiment:
    def __init__(self, data):
        self.model = nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.train_loader, self.valid_loader = DataLoader(data), DataLoader(data)

    def validate(self):
        self.model.eval()
        total = 0
        for x, y in self.valid_loader:
            total += self.model(x).sum().item()
        return total

    def fit(self):
        self.model.train()
        for x, y in self.train_loader:
            self.optimizer.zero_grad()
            self.model(x).sum().backward()
            self.optimizer.step()
        {}
"""


def test_what_trains_is_run_by_every_process_whoever_calls_it() -> None:
    after = run(CLASS.format("print(self.validate())"), Options()).after.decode()
    assert "for x, y in self.accelerator.shard(self.valid_loader, even=False):" in after
    assert 'total = self.accelerator.reduce(total, "sum")' in after
    assert "even=False" not in run(CLASS.format("pass"), Options()).after.decode()


def test_accelerate_has_no_such_share() -> None:
    after, _ = rewritten(Options(runtime=ACCELERATE))
    assert "for x, y in loader:" in after


@pytest.mark.parametrize(
    ("body", "add", "combined"),
    [
        ("def add(self, x, n): self.sum += x * n; self.n += n", "{}, len(x)", 'reduce((m.sum, m.n), "sum")'),
        ("def __call__(self, x): self.sum += x; self.n += 1", "{}", 'reduce((m.sum, m.n), "sum")'),
        ("def append(self, x): self.rows.append(x)", "{}", 'gather_for_metrics(m.rows, per="batch")'),
    ],
)
def test_meters_that_any_method_fills_are_combined(body: str, add: str, combined: str) -> None:
    method = body.split("(")[0].removeprefix("def ")
    made = (
        f"class Own:\n        def __init__(self): self.sum = self.n = 0; self.rows = []\n        {body}\n    m = Own()"
    )
    call = "m" if method == "__call__" else f"m.{method}"
    update = f"{call}({add.format('criterion(out, y).item()')})"
    after, _ = rewritten(begin=made, metric=update, end="return m.sum, m.rows")
    assert SHARDED in after
    assert f"accelerator.{combined}\n" in after
    once = f"if y[0]: {update}"
    assert SHARDED not in rewritten(begin=made, metric=once, end="return m.sum, m.rows")[0]


def test_sums_in_dicts_in_a_dict_are_added_up() -> None:
    begin = 'sums = {"all": {"loss": 0.0, "n": 0}}'
    add = 'sums["all"]["loss"] += criterion(out, y).item(); sums["all"]["n"] += len(y)'
    end = 'return sums["all"]["loss"] / sums["all"]["n"]'
    after, _ = rewritten(begin=begin, metric=add, end=end)
    assert SHARDED in after
    assert '    sums = accelerator.reduce(sums, "sum")\n' in after
    assert SHARDED not in rewritten(begin=begin.replace("0.0", "1.0"), metric=add, end=end)[0]
