"""Facts about sums: what a loop adds up, and which of it is reduced after the loop."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.sums.reductions import Reduction
from accelify.codemod.options import Options
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated
from tests.codemod.training_scripts import STEP, script, training

Reduced = list[tuple[tuple[str, ...], str]]  # names, and how


def reductions(facts: Facts) -> Reduced:
    found = facts.script.metrics.reductions
    assert all(isinstance(r, Reduction) for r in found)
    return [(r.names, r.how) for r in found]


def summed(added: str, begin: str = "total, n = 0.0, 0", read: str = "print(total / n)") -> Reduced:
    return reductions(training(epoch=begin, step=f"{STEP}{added}\n", end_of_epoch=read))


def test_a_sum_and_its_count_are_reduced_together() -> None:
    assert summed("total += loss.item() * len(x)\nn += len(x)") == [(("total", "n"), "sum")]


def test_a_comprehension_has_names_of_its_own() -> None:
    begin = "rows = [loss for loss in range(8)]\ntotal = 0.0"
    assert summed("total += loss.item()", begin, "print(total / len(rows))") == [(("total",), "sum")]


def test_a_mean_over_the_batches_of_one_process() -> None:
    assert summed("total += loss.item()", "total = 0.0", "print(total / len(loader))") == [(("total",), "mean")]


def reset(after: str, added: str = "total += loss.item()", begin: str = "total = 0.0") -> Reduced:
    return reductions(training(set_up=begin, step=f"{STEP}{added}\n", end_of_epoch=after))


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("print(total / len(loader))\ntotal = 0.0", [(("total",), "mean")]),
        ("print(total)\ntotal = 0", [(("total",), "sum")]),
        ("if epoch:\n    print(total)\ntotal = 0.0", [(("total",), "sum")]),
        ("print(total)\nif epoch == 1:\n    break\ntotal = 0.0", [(("total",), "sum")]),
        ("print(total)\nif epoch == 1:\n    continue\ntotal = 0.0", []),  # then the next epoch goes on with it
        ("print(total)\nif epoch % 2:\n    total = 0.0", []),
        ("print(total)\ntotal = 1.0", []),
    ],
)
def test_a_sum_that_is_set_to_zero_again_after_each_epoch(after: str, found: Reduced) -> None:
    assert reset(after) == found


def test_an_attribute_that_is_set_to_zero_again_where_it_is_not_begun() -> None:
    """The method may end without setting it to zero, and be run again."""
    text = """
        class Run:
            def __init__(self):
                self.total = 0.0
            def epoch(self, ends):
                for x, y in loader:
                    loss = nn.functional.mse_loss(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    self.total += loss.item()
                print(self.total)
                if ends:
                    return
                self.total = 0.0
        run = Run()
        for ends in (True, False):
            run.epoch(ends)
    """
    facts = training(end=text)
    assert "self.total" not in {name for names, _how in reductions(facts) for name in names}


@pytest.mark.parametrize(
    ("begin", "added"),
    [
        ("mean = 0.0", "mean += (loss.item() - mean) / (step + 1)"),
        ("mean = 0.0", "mean = mean + ((1 / (step + 1)) * (loss.data - mean))"),
        ("mean = 0.0", "mean = 0.9 * mean + 0.1 * loss.item()"),
        ("mean = 0.0", "value = loss.item()\nmean = 0.9 * mean + 0.1 * value"),
        ("mean = 0.0", "mean = (mean * step + loss.item()) / (step + 1)"),
        ("mean = 0.0", "mean = (1 - 0.1) * mean - (-0.1 * loss.item())"),
        ("mean = 0.0", "if step == 0:\n    mean = loss.item()\nelse:\n    mean -= 0.1 * (mean - loss.item())"),
    ],
)
def test_a_running_mean_becomes_that_of_all_processes(begin: str, added: str) -> None:
    assert averaged(begin, added) == [(("mean",), "mean")]


@pytest.mark.parametrize(
    ("begin", "added"),
    [
        ("mean = 0.0", "mean = mean * loss.item()"),
        ("mean = 0.0", "mean = loss.item() / (mean + 1)"),
        ("mean = 0.0", "mean += (loss.item() - mean) * loss.item()"),
        ("mean = 0.0", "mean = 0.9 * mean + 0.1 * mean ** 2 + loss.item()"),
        ("mean = 0.0", "if loss.item() < 5:\n    mean = 0.9 * mean + 0.1 * loss.item()"),
        ("mean = 0.0", "mean = loss.item()"),
        ("mean = 8.0", "mean = mean / 10"),
        ("mean = 8.0", "if step >= 4:\n    mean = mean * 3"),
        ("mean = 8.0", "mean = 0.9 * mean + 0.1"),
        ("mean = 0.0", "mean = -(-mean - loss.item())"),
        ("mean = 0.0", "mean = loss.item() - (-mean)"),
        ("mean = 0.0", "mean = 1.0 * mean + loss.item()"),
        ("mean = 0.0", "mean = (2 * mean + 2 * loss.item()) / 2"),
        ("mean = None", "if mean is None:\n    mean = loss.item()\nmean = 0.9 * mean + 0.1 * loss.item()"),
    ],
)
def test_what_is_no_running_mean_stays(begin: str, added: str) -> None:
    assert averaged(begin, added) == []


def test_a_running_mean_that_is_only_read_in_its_rounds_stays() -> None:
    assert averaged("mean = 0.0", "mean = 0.9 * mean + 0.1 * loss.item()\nprint(mean)", "pass") == []


@pytest.mark.parametrize(
    "read",
    [
        "history['mean'].append(mean)",
        "history['mean'].insert(0, mean)",
        "history.setdefault('mean', []).append(mean)",
        "history.update(last=mean)",
    ],
)
def test_a_running_mean_that_a_history_keeps_becomes_that_of_all_processes(read: str) -> None:
    begin = "if epoch == 0:\n    history = {'mean': []}\nmean = 0.0"
    assert averaged(begin, "mean += (loss.item() - mean) / (step + 1)", read) == [(("mean",), "mean")]


@pytest.mark.parametrize(
    ("again", "found"), [("mean = 0.0", [(("mean",), "mean")] * 2), ("pass", [(("mean",), "mean")])]
)
def test_a_running_mean_that_two_loops_keep_begins_alike_in_both(again: str, found: Reduced) -> None:
    mixed = "mean += (loss.item() - mean) / (step + 1)"
    second = f"for x, y in loader:\n    loss = model(x).mean()\n    {mixed}\nprint(mean)"
    assert averaged("mean = 0.0", mixed, f"print(mean)\n{again}\n{second}") == found


def averaged(begin: str, added: str, read: str = "print(mean)") -> Reduced:
    head = f"step = 0\n{begin}"
    return reductions(training(epoch=head, step=f"{STEP}{added}\nstep = step + 1\n", end_of_epoch=read))


@pytest.mark.parametrize(
    "zero", ["0", "-0.0", "float(0)", "torch.zeros(())", "torch.zeros(2).to('cpu')", "torch.tensor(0.0)"]
)
@pytest.mark.parametrize(
    "added",
    [
        "total += loss.detach()",
        "total -= loss.item()",
        "total = total + loss.item() + 0.5 * x.sum().item()",
        "total, last = total + loss.item(), 3",
        "total = torch.add(total, loss.detach())",
    ],
)
def test_every_spelling_of_a_sum(added: str, zero: str) -> None:
    assert summed(added, f"total = {zero}", "print(total)") == [(("total",), "sum")]


@pytest.mark.parametrize(
    "added",
    ["total.add_(loss.detach())", "torch.add(total, loss, out=total)", "total[y[0]] += 1", "total.index_add_(0, y, x)"],
)
def test_a_tensor_that_is_added_to_in_place(added: str) -> None:
    assert summed(added, "total = torch.zeros(2)", "print(total.sum() / 8)") == [(("total",), "sum")]
    assert summed(added, "total = torch.zeros(2)", "print(total.sum().item() / len(loader))") == [(("total",), "mean")]


@pytest.mark.parametrize(
    ("read", "how"),
    [
        ("print([t / len(loader) for t in total])", "mean"),
        ("print({k: t / len(loader) for k, t in zip('ab', total)})", "mean"),
        ("for i, t in enumerate(total): print(i, t / len(loader))", "mean"),
        ("print(sum(t for t in total) / len(loader))", "mean"),
        ("print(sum([total[0], total[1]]) / len(loader))", "mean"),
        ("print([t / 8 for t in total])", "sum"),
        ("for t in total: print(t)", "sum"),
        ("print([t / len(loader) for t in total], total)", None),
    ],
)
def test_what_the_elements_of_a_table_are_divided_by(read: str, how: str | None) -> None:
    added = "total[0] += loss.item(); total[1] += x.sum().item()"
    assert summed(added, "total = [0.0] * 2", read) == ([(("total",), how)] if how else [])


@pytest.mark.parametrize(
    ("over", "divisor", "how"),
    [
        ("islice(loader, limit)", "limit", "mean"),
        ("islice(loader, 3)", "3", "mean"),
        ("islice(loader, 3)", "len(rows)", "sum"),
        ("tqdm(islice(loader, 0, limit))", "size", None),  # the rows of all, or batches of one process
    ],
)
def test_a_loop_that_ends_after_a_number_of_batches(over: str, divisor: str, how: str | None) -> None:
    text = script(
        imports="from itertools import islice\nfrom tqdm import tqdm",
        epoch="total, size = 0.0, len(rows)\nif limit:\n    size = limit",
        step=f"{STEP}total += loss.item()",
        end_of_epoch=f"print(total / {divisor})",
    )
    found = reductions(Facts(text.replace("in loader:", f"in {over}:")))
    assert found == ([(("total",), how)] if how else [])


@pytest.mark.parametrize(
    ("compared", "is_reduced"),
    [
        ("if total < low:\n    low = total", True),
        ("if total < low:\n    low, best = total, epoch", True),
        ("is_best = low > total\nif is_best:\n    low = total", True),
        ("if epoch == 0 or total <= low:\n    low = total", True),
        ("if total < 5.0:\n    low = total", False),  # which may be meant for all batches
        ("if total < low:\n    low = total\n    print(low)", False),
    ],
)
@pytest.mark.parametrize("mean", ["total /= len(loader)\nprint(total)", "print(total / len(loader))"])
def test_a_sum_that_epochs_are_compared_by_before_it_is_divided(compared: str, is_reduced: bool, mean: str) -> None:
    facts = training(
        set_up="low = 9e9", epoch="total = 0.0", step=f"{STEP}total += loss.item()", end_of_epoch=f"{compared}\n{mean}"
    )
    assert reductions(facts) == ([(("total",), "mean")] if is_reduced else [])


def test_a_count_of_batches_at_which_the_loop_breaks_off() -> None:
    added = "if n == limit:\n    break\nn += 1\ntotal += loss.item()"
    assert summed(added, read="print(total / limit)") == [(("total",), "mean")]


def test_a_count_that_is_made_safe_to_divide_by_belongs_to_its_sum() -> None:
    divided = "d = max(1, n)\nprint(total / d)"
    (found,) = summed("total += loss.item()\nn += len(x)", read=divided)
    assert found == (("total", "n"), "sum")
    (found,) = summed("total += loss.item()\nn += 1", read=divided)
    assert found in [(("total",), "mean"), (("total", "n"), "sum")]


@pytest.mark.parametrize(
    ("added", "how"),
    [
        ("top = max(top, loss.item())", "max"),
        ("top = max(loss.item(), 3, top)", "max"),
        ("top = torch.maximum(loss, top)", "max"),
        ("top = loss.item() if loss.item() > top else top", "max"),
        ("top = top if top >= loss.item() else loss.item()", "max"),
        ("if top < loss.item(): top = loss.item()", "max"),
        ("top = min(top, loss.item())", "min"),
        ("top = np.minimum(loss.item(), top)", "min"),
        ("if loss.item() < top:\n    top = loss.item()", "min"),
    ],
)
def test_the_greatest_and_the_least_of_all(added: str, how: str) -> None:
    assert summed(f"import numpy as np\n{added}", "top = start()", "print(top)") == [(("top",), how)]


TRAINER = """\
import torch
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self, rows):
        self.total = 0.0
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(rows)
    def train(self):
        self.total, self.n = 0.0, 0
        for x, y in self.loader:
            loss = (self.model(x) - y).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.total += loss.item() * len(x)
            self.n += len(x)
{during}
{after}
    def log(self):
        print(self.total / self.n)
trainer = Trainer(load())
trainer.train()
trainer.log()
"""


@pytest.mark.parametrize(
    ("during", "after", "found"),
    [
        ("", "        print(self.total / self.n)", [(("self.total", "self.n"), "sum")]),
        ("", "        self.log()", [(("self.total", "self.n"), "sum")]),
        ("", "        self.mean = self.total / self.n", [(("self.total", "self.n"), "sum")]),
        ("", "        self.total /= self.n\n        print(self.total)", [(("self.total", "self.n"), "sum")]),
        (
            "",
            "        self.total = self.total / self.n\n        print(self.total)",
            [(("self.total", "self.n"), "sum")],
        ),
        ("            self.log()", "        print(self.total)", []),  # while they grow
        ("", "        self.total *= 2\n        print(self.total / self.n)", []),
    ],
)
def test_sums_in_attributes(during: str, after: str, found: Reduced) -> None:
    assert reductions(Facts(TRAINER.format(during=during, after=after))) == found


IN_A_METHOD = """\
import torch
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self):
        self.total, self.n = 0.0, 0
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader, self.valid = DataLoader(rows), DataLoader(others)
    def train(self):
        self.total, self.n = 0.0, 0
        for x, y in self.loader:
            loss = self.step(x, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        print(self.total / self.n)
    def step(self, x, y):
        loss = (self.model(x) - y).pow(2).mean()
        self.keep(loss, y)
        return loss
    def keep(self, loss, y):
        self.total += loss.item() * len(y)
        self.n += len(y)
{method}
trainer = Trainer()
trainer.train()
{end}
"""
VALIDATE = """\
    def validate(self):
        {begin}
        for x, y in self.valid:
            self.step(x, y)
        print(self.total / self.n)
"""


@pytest.mark.parametrize(
    ("method", "end", "is_reduced"),
    [
        ("", "", True),
        (VALIDATE.format(begin="self.total, self.n = 0.0, 0"), "trainer.validate()", True),
        (VALIDATE.format(begin="pass"), "trainer.validate()", False),  # goes on with what training has added up
        ("", "trainer.keep(torch.tensor(1.0), [1])", False),
    ],
)
def test_sums_in_attributes_that_methods_of_the_object_add_to(method: str, end: str, is_reduced: bool) -> None:
    metrics = Facts(IN_A_METHOD.format(method=method, end=end)).script.metrics
    assert [r.names for r in metrics.reductions] == ([("self.total", "self.n")] if is_reduced else [])
    assert bool(metrics.reports) is not is_reduced


@pytest.mark.parametrize(
    ("end", "is_reduced"),
    [
        ("sums['a'] /= len(rows)", True),
        ("for k in sums: sums[k] /= len(rows)", True),
        ("for k in sums: sums[k] = sums[k] / len(rows)", True),
        ("print({k: v / len(rows) for k, v in sums.items()})", True),
        ("for k, v in sums.items(): print(k, v / len(rows))", True),
        ("sums['a'] += 3", False),
        ("sums['a'] = 3 / sums['a']", False),
    ],
)
def test_the_sums_of_a_dict_are_divided_in_their_places(end: str, is_reduced: bool) -> None:
    found = summed("sums['a'] += loss.item() * len(x)", "sums = {'a': 0.0, 'b': 0.0}", f"{end}\nprint(sums)")
    assert found == ([(("sums",), "sum")] if is_reduced else [])


@pytest.mark.parametrize(
    ("over", "value", "is_reduced"),
    [
        ("k in sums", "sums[k]", True),
        ("k in sums.keys()", "sums[k]", True),
        ("k, v in sums.items()", "v", True),
        ("v in sums.values()", "v, v", False),
    ],
)
def test_the_keys_of_a_dict_of_sums_are_no_sums(over: str, value: str, is_reduced: bool) -> None:
    end = f"for {over}: print({value} / len(loader))"
    found = summed("sums['a'] += loss.item()", "sums = {'a': 0.0, 'b': 0.0}", end)
    assert found == ([(("sums",), "mean")] if is_reduced else [])


@pytest.mark.parametrize(
    ("begin", "added", "is_reduced"),
    [
        ("{}", "sums[k] = sums.get(k, 0) + loss.item() * len(x)", True),
        ("dict()", "sums.setdefault(k, 0.0); sums[k] += loss.item() * len(x)", True),
        ("{}", "if k not in sums: sums[k] = 0\nsums[k] += loss.item() * len(x)", True),
        ("{}", "if k in sums: sums[k] += loss.item() * len(x)\nelse: sums[k] = loss.item() * len(x)", True),
        ("defaultdict(float)", "sums[k] += loss.item() * len(x)", True),
        ("defaultdict(lambda: [0, 0])", "sums[k][1] += loss.item() * len(x)", True),
        ("Counter()", "sums[k] += loss.item() * len(x)", True),
        ("{}", "if k not in sums: sums[k] = loss.item()", False),
        ("{}", "sums[k] = loss.item()", False),
        ("{}", "sums[k] = sums.get(k, []) + [loss.item()]", False),
        ("defaultdict(list)", "sums[k] += [loss.item()]", False),
    ],
)
def test_a_dict_that_gets_its_keys_in_the_loop(begin: str, added: str, is_reduced: bool) -> None:
    step = f"{STEP}n += len(x)\nfor k in scores:\n" + "".join(f"    {line}\n" for line in added.splitlines())
    read = "print({k: v / n for k, v in sums.items()})"
    imports = "from collections import Counter, defaultdict\n"
    found = reductions(training(imports=imports, epoch=f"n, sums = 0, {begin}", step=step, end_of_epoch=read))
    assert found == ([(("n", "sums"), "sum")] if is_reduced else [])  # no quotient of two kinds


@pytest.mark.parametrize("added", ["n += 1", "if (i + 1) % 4 == 0: n += 1", "n = n + 1", "n, last = n + 1, loss"])
def test_steps_are_counted_alike_by_all_processes(added: str) -> None:
    assert summed(added, "n, i = 0, 0", "print(n)") == []


@pytest.mark.parametrize(
    ("added", "begin", "read"),
    [
        ("total = loss.item()", "total = 0.0", "print(total)"),
        ("total += loss.item()", "total = 0.0", ""),
        ("total += loss.item()", "total = start()", "print(total)"),
        ("total *= loss.item()", "total = 0.0", "print(total)"),
        ("total = max(total, key=loss)", "total = 0.0", "print(total)"),
        ("total = max(loss.item(), 3)", "total = 0.0", "print(total)"),
        ("total = max(total, loss.item())\ntotal += 1", "total = 0.0", "print(total)"),
        ("if loss.item() > total:\n    total, last = loss.item(), x", "total = 0.0", "print(total)"),
        ("if loss.item() > total:\n    total = loss.item()\nelse:\n    total = 0", "total = 0.0", "print(total)"),
        ("total += total * loss.item()", "total = 0.0", "print(total)"),
    ],
)
def test_what_is_no_sum_over_the_loop(added: str, begin: str, read: str) -> None:
    assert summed(added, begin, read) == []


def test_a_loop_over_what_is_not_shared() -> None:
    facts = training(before="total = 0\n", end="for z in range(3):\n    total += z\nprint(total)\n")
    assert reductions(facts) == []


KEPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
kept, loader = 0.0, DataLoader(rows, batch_size=4{drops})
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def epoch():
    global kept
    total, n = 0.0, 0
    for x in loader:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
        n += len(x)
    kept = total
epoch()
print({read})
"""


@pytest.mark.parametrize(
    ("read", "how"), [("kept / len(loader)", "mean"), ("float(kept) / len(loader)", "mean"), ("kept", "sum")]
)
def test_a_sum_that_the_module_keeps(read: str, how: str) -> None:
    found = reductions(Facts(KEPT.format(drops="", read=read)))
    assert (("total",), how) in found


@pytest.mark.parametrize(
    ("drops", "read", "is_too_many"),
    [
        (", drop_last=True", "kept / len(rows)", True),
        (", drop_last=drops", "kept / len(loader.dataset)", True),
        (", drop_last=True", "kept / 1000", True),
        (", drop_last=True", "kept / len(loader)", False),
        (", drop_last=False", "kept / len(rows)", False),
        ("", "kept / len(rows)", False),
    ],
)
def test_a_divisor_that_counts_what_the_loader_drops(drops: str, read: str, is_too_many: bool) -> None:
    found = Facts(KEPT.format(drops=drops, read=read)).script.metrics.reductions
    assert any(r.wholes and r.leaves_out_its_end for r in found) is is_too_many


def test_a_sum_of_the_loop_is_no_such_divisor() -> None:
    text = KEPT.format(drops=", drop_last=True", read="kept").replace("kept = total", "kept = total / n")
    assert not any(r.wholes and r.leaves_out_its_end for r in Facts(text).script.metrics.reductions)


@pytest.mark.parametrize(
    ("added", "read", "is_mean"),
    [
        ("loss.item()", "total / math.ceil(size / 16)", True),
        ("loss.item()", "total / count", True),
        ("F.mse_loss(model(x), y).item()", "total / 7", True),
        ("loss.item() * len(x)", "total / size", False),
        ("loss.item()", "total / len(loader)", False),
        ("loss.item()", "total", False),
        ("(model(x) > y).sum().item()", "total / size", False),
    ],
)
def test_a_sum_of_means_that_is_divided_by_a_number_of_batches(added: str, read: str, is_mean: bool) -> None:
    text = """
    import math
    import torch
    import torch.nn.functional as F
    from torch.utils.data import DataLoader
    loader = DataLoader(rows)
    count = math.ceil(size / 16)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        total += {added}
    print({read})
    """
    found = Facts(text.format(added=added, read=read)).script.metrics.reductions
    assert [r.adds_means for r in found] == [is_mean]


GENERATED = """\
import torch
from torch import nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = torch.randn(100, 4)
count = len(rows) // 8 + 1
def batches(rows):
    for i in range(0, len(rows), 8):
        yield rows[i:i + 8]
for epoch in range(2):
    total, n = 0.0, 0
    for i, x in {items}:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        n += 1
    {read}
"""


@pytest.mark.parametrize(
    ("items", "read", "is_too_many"),
    [
        ("enumerate(batches(rows))", "print(total / count)", True),
        ("enumerate(batches(rows))", "total /= count", True),
        ("enumerate(batches(rows))", "print(total / (len(rows) // 8 + 1))", True),
        ("enumerate(batches(rows))", "print(total / n)", False),
        ("enumerate(list(batches(rows)))", "print(total / count)", False),
    ],
)
def test_a_divisor_that_counts_the_batches_of_a_round_left_out(items: str, read: str, is_too_many: bool) -> None:
    found = Facts(GENERATED.format(items=items, read=read)).script.metrics.reductions
    assert found
    assert any(r.wholes and r.leaves_out_its_end for r in found) is is_too_many


ROWS = [
    ("for t, p in zip(y, model(x).argmax(1)):\n    table[t, p] += 1", True),
    ("for i in range(len(y)):\n    table[0] += 1", True),
    ("for i in range(y.size(0)):\n    table[0] += 1", True),
    ("for i, p in enumerate(y.tolist()):\n    if p == 1:\n        table[0] += 1", True),
    ("for k in range(3):\n    table[k] += 1", False),
    ("table[0] += 1", False),
]


@pytest.mark.parametrize(
    ("added", "how"),
    [*((a, "sum" if is_of_rows else None) for a, is_of_rows in ROWS), ("table[0] += loss.item()", "mean")],
)
def test_what_is_added_where_the_processes_share_each_batch(added: str, how: str | None) -> None:
    facts = training(epoch="table = torch.zeros(3)", step=f"{STEP}{added}\n", end_of_epoch="print(table)")
    facts.options = Options(keep_global_batch=True)
    assert reductions(facts) == ([(("table",), how)] if how else [])
    assert facts.script.metrics.reports == ()


@pytest.mark.parametrize(("added", "is_of_rows"), ROWS)
def test_a_count_of_rows_is_reduced_and_one_of_rounds_is_not(added: str, is_of_rows: bool) -> None:
    added = added.replace("table[t, p]", "n").replace("table[0]", "n").replace("table[k]", "n")
    assert summed(added, "n = 0", "print(n)") == ([(("n",), "sum")] if is_of_rows else [])


# Sums over all data that are divided by the batches of one process.

EVALUATED = """\
held_out = DataLoader(rows, batch_size=4)
def score():
    found = 0.0
    for x, y in held_out:
        found += nn.functional.mse_loss(model(x), y).item()
    return found
total = 0.0
for x, y in held_out:
    total += {added}
{read}
"""


def divided(read: str, added: str = "model(x).sum().item()") -> list[tuple[str, str]]:
    facts = training(end=EVALUATED.format(read=read, added=added))
    return [(name, ast.unparse(divisor)) for name, divisor in facts.script.metrics.divided_by_steps]


@pytest.mark.parametrize(
    ("read", "found"),
    [
        ("print(total / len(loader))", ("total", "len(loader)")),
        ("total /= len(loader)\nprint(total)", ("total", "len(loader)")),
        ("n = len(loader)\nprint(total / n)", ("total", "n")),
        ("print(score() / len(loader))", ("found", "len(loader)")),
        ("mean = score()\nmean = mean / (2 * len(loader))\nprint(mean)", ("found", "2 * len(loader)")),
    ],
)
def test_a_sum_that_the_length_of_another_loader_divides(read: str, found: tuple[str, str]) -> None:
    assert divided(read) == [found]


def test_summands_that_the_length_of_another_loader_divides() -> None:
    assert divided("print(total)", "model(x).sum().item() / len(loader)") == [("total", "len(loader)")]


def test_a_counter_that_the_loops_share_by_name_counts_those_of_the_last() -> None:
    text = EVALUATED.format(added="model(x).sum().item()", read="print(total / (i + 1))")
    numbered = text.replace("for x, y in held_out:\n    total", "for i, (x, y) in enumerate(held_out):\n    total")
    for end, found in ((numbered, []), (text, [("total", "i + 1")])):
        facts = Facts(script(end=end).replace("for x, y in loader:", "for i, (x, y) in enumerate(loader):"))
        assert [(n, ast.unparse(d)) for n, d in facts.script.metrics.divided_by_steps] == found


@pytest.mark.parametrize("read", ["print(total / len(held_out))", "print(total / 8, len(loader))", "print(total)"])
def test_a_sum_that_something_else_divides(read: str) -> None:
    assert not divided(read)


SHARED = """\
held_out = DataLoader(rows, batch_size=4)
def score(data, other):
    total, n = 0.0, len({counted})
    for i, (x, y) in enumerate(data):
        total += model(x).sum().item()
    return {given}
"""
JUDGE = """\
held_out = DataLoader(rows, batch_size=4)
class Judge:
    def __init__(self, data, other):
        self.data, self.other = data, other
    def score(self):
        total = 0.0
        for x, y in self.data:
            total += model(x).sum().item()
        return total / len({counted})
"""


@pytest.mark.parametrize(
    ("before", "end", "found"),
    [
        (SHARED.format(counted="data", given="total / n"), "print(score({}), score({}))", []),
        (SHARED.format(counted="data", given="total / len(data)"), "print(score({}), score({}))", []),
        (SHARED.format(counted="data", given="total"), "print(score({}) / len(loader), score({}))", []),
        (SHARED.format(counted="other", given="total / n"), "print(score({}), score({}))", ["n"]),
        (
            SHARED.format(counted="data", given="total"),
            "print(score({}))\ndef other():\n    return score({1}) / len(loader)\nprint(other())",
            ["len(loader)"],
        ),
        (
            SHARED.format(counted="data", given="total"),
            "print(score({}), score({1}) / len(loader))",
            ["len(loader)"],
        ),
        (
            SHARED.format(counted="data", given="total"),
            "own, other = score({}), 0\nother = score({1})\nprint(own / len(loader), other / max(len(loader), 1))",
            ["max(len(loader), 1)"],
        ),
        (
            SHARED.format(counted="data", given="total"),
            "own = score({})\nother = score({1})\nprint(own / len(loader), other / len(held_out))",
            [],
        ),
        (
            SHARED.format(counted="data", given="total / other").replace("len(data)", "0"),
            "print(score(loader, len(loader)), score(held_out, len(loader)))",
            ["other"],
        ),
        (JUDGE.format(counted="self.data"), "print(Judge({}).score(), Judge({}).score())", []),
        (JUDGE.format(counted="self.other"), "print(Judge({}).score(), Judge({}).score())", ["len(self.other)"]),
    ],
)
def test_the_length_of_the_loader_that_a_loop_iterates_over_itself(before: str, end: str, found: list[str]) -> None:
    end = end.replace("{1}", "{}").format("loader, loader", "held_out, loader")
    facts = training(before=before, end=end)
    assert [ast.unparse(divisor) for _, divisor in facts.script.metrics.divided_by_steps] == found


_LOGGED = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Logger:
    def __init__(self):
        self.trainer, self.loss = None, 0
        self.losses, self.counts = [], {"n": 0}

    def log(self, step, loss):
        COUNTED
        if step % 4 == 0:
            print(self.trainer.validate())

class Trainer:
    def __init__(self, net, data):
        self.net, self.data, self.steps, self.seen = net, data, 0, 0
        self.size = len(data)
        self.logger = Logger()
        self.logger.trainer = self
        self.optimizer = torch.optim.Adam(net.parameters())

    def tick(self):
        self.seen += 1

    def train(self):
        self.loader = DataLoader(self.data, batch_size=8, shuffle=True)
        for x, y in self.loader:
            loss = F.cross_entropy(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.steps += 1
            self.logger.log(self.steps, loss.item())

    def validate(self):
        total = 0
        right = 0
        with torch.no_grad():
            for x, y in self.loader:
                output = self.net(x)
                total += F.cross_entropy(output, y).item()
                right += (output.argmax(1) == y).sum().item()
        return total / len(self.loader), right / SIZE

x = torch.randn(64, 4)
Trainer(nn.Linear(4, 3), TensorDataset(x, x[:, :3].argmax(1))).train()
"""


@pytest.mark.parametrize("size", ["len(self.data)", "self.size"])
@pytest.mark.parametrize(
    "counted",
    [
        "self.loss += loss",
        "self.losses.append(1)",
        "self.counts['n'] += 1",
        "self.trainer.seen += 1",
        "self.trainer.tick()",
    ],
)
def test_an_object_that_counts_steps_is_no_count_itself(counted: str, size: str) -> None:
    found = reductions(Facts(_LOGGED.replace("COUNTED", counted).replace("SIZE", size)))
    assert found == [(("total",), "mean"), (("right",), "sum")]


def test_a_count_of_steps_in_an_attribute_of_another_object_divides_like_one() -> None:
    text = _LOGGED.replace("COUNTED", "self.loss += loss").replace(
        "return total /", "n = self.counter.n; return total /"
    )
    text = text.replace("total / len(self.loader), right / SIZE", "total / n")
    text = text.replace("        self.size =", "        self.counter = Counter()\n        self.size =")
    text = text.replace("output = self.net(x)", "output = self.net(x); self.counter.n += 1")
    text = text.replace("        total = 0\n", "        total = 0\n        self.counter.n = 0\n")
    text = text.replace("class Logger:", "class Counter:\n    n = 0\n\nclass Logger:")
    assert reductions(Facts(text))[0] == (("total",), "mean")


_SEVERAL = script(
    before="others = DataLoader(rows)\nloaders = [DataLoader(r) for r in rows]\nimport itertools"
).replace("    for x, y in loader:", "    total = 0\n    for x, y in itertools.chain(loader, others):")


def over(iterable: str, read: str = "print(total)") -> Facts:
    text = _SEVERAL.replace("itertools.chain(loader, others)", iterable)
    return Facts(
        text.replace("        loss.backward()", "        loss.backward(); total += loss.item()") + f"    {read}\n"
    )


def test_a_chain_of_loaders_has_all_of_them_prepared() -> None:
    facts = over("itertools.chain(loader, others)", "print(total / (len(loader) + len(others)))")
    assert {i.text for i in facts.script.preparation.items if i.kind == "loader"} == {"loader", "others"}
    assert reductions(facts) == [(("total",), "mean")]


@pytest.mark.parametrize("iterable", ["itertools.chain.from_iterable(loaders)", "itertools.chain(*loaders)"])
def test_a_chain_over_a_list_of_loaders_leaves_out_its_last_round(iterable: str) -> None:
    (found,) = over(iterable).script.metrics.reductions
    assert (found.names, found.how, found.leaves_out_its_end) == (("total",), "sum", True)


def test_a_list_has_a_length() -> None:
    (found,) = over("[(x, y) for x, y in loader]").script.metrics.reductions
    assert not found.leaves_out_its_end


@pytest.mark.parametrize("closure", ["closure", "closure=closure"])
def test_the_loss_that_a_closure_gives_back_is_summed(closure: str) -> None:
    step = """\
def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss
"""
    added = f"loss = optimizer.step({closure})\nlast = max(last, loss.item())\n"
    facts = training(epoch="last = 0.0", step=step + added, end_of_epoch="print(last)")
    assert reductions(facts) == [(("last",), "max")]
    assert (
        reductions(training(epoch="last = 0.0", step=STEP + added.replace(closure, ""), end_of_epoch="print(last)"))
        == []
    )


@pytest.mark.parametrize(
    ("rounds", "begin", "read", "found"),
    [
        ("range(len(loader))", "total, it = 0.0, iter(loader)", "total / len(loader)", [(("total",), "mean")]),
        ("range(steps)", "total = 0.0", "total / steps", [(("total",), "mean")]),
        ("range(1, steps + 1)", "total = 0.0", "total / steps", [(("total",), "mean")]),
        ("range(steps)", "total = n = 0", "total / n", [(("total", "n"), "sum")]),
        ("range(len(loader))", "total, it = 0.0, iter(loader)", "total", [(("total",), "sum")]),
        ("range(steps)", "total = 0.0", "total", []),
        ("range(steps)", "total = 0.0", "total / 7", []),
    ],
)
def test_rounds_that_ask_for_their_batches(rounds: str, begin: str, read: str, found: Reduced) -> None:
    added = f"{STEP}total += loss.item()\n" + ("n += len(x)\n" if " n " in begin else "")
    text = script(set_up="it, steps = cycle(loader), 9", epoch=begin, step=added, end_of_epoch=f"print({read})")
    asked = text.replace("for x, y in loader:\n", f"for i in {rounds}:\n        x, y = next(it)\n")
    assert reductions(Facts(f"from itertools import cycle\n{asked}")) == found


@pytest.mark.parametrize(
    ("end", "line"),
    [
        ("else:\n    print(total / len(loader))", 'total = accelerator.reduce(total, "mean")'),
        ("else: print(total)", 'total = accelerator.reduce(total, "sum")'),
        (
            "else:\n    print(epoch)\nprint(sum(losses) / len(losses))",
            "losses = accelerator.gather_for_metrics(losses, ",
        ),
    ],
)
def test_an_else_that_always_runs_begins_with_what_is_combined(end: str, line: str) -> None:
    added = "total += loss.item()\nlosses.append(loss.item())\n"
    text = script(epoch="total, losses = 0.0, []", step=f"{STEP}{added}", end_of_epoch=end)
    assert f"    else:\n        {line}" in migrated(text)


def test_an_else_that_a_break_leaves_out_is_only_reported() -> None:
    end = "else:\n    print(total)"
    added = "total += loss.item()\nif epoch > 5:\n    break\n"
    assert reductions(training(epoch="total = 0.0", step=f"{STEP}{added}", end_of_epoch=end)) == []


@pytest.mark.parametrize(
    ("defined", "read", "is_reduced"),
    [
        ("def keep(value):\n    torch.save(value, 'x.pt')", "keep(total)", True),
        ("def keep(value):\n    print(f'{value:.2f}')", "keep(value=total)", True),
        ("class Log:\n    def keep(self, epoch, value):\n        print(value)", "Log().keep(epoch, total)", True),
        ("def keep(value, rows):\n    print(value / rows)", "keep(total, n)", False),
        ("sums = [0]\ndef keep(value):\n    sums[0] += value", "keep(total)", False),
    ],
)
def test_what_a_function_does_with_a_sum_that_it_is_given(defined: str, read: str, is_reduced: bool) -> None:
    added = f"{STEP}total += loss.item()\n"
    facts = training(model=defined, epoch="total, n = 0.0, 8", step=added, end_of_epoch=f"print(total)\n{read}")
    assert reductions(facts) == ([(("total",), "sum")] if is_reduced else [])


ROUNDS_IN_ROUNDS = """\
batches = iter(loader)
def draw():
    global batches
    try:
        return next(batches)
    except StopIteration:
        batches = iter(loader)
        return next(batches)
for epoch in range(2):
    low = high = 0.0
    for i in range(len(loader)):
        for _ in range(2):
            x, y = draw()
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            low += loss.item()
        x, y = draw()
        loss = nn.functional.mse_loss(model(x), y) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {high}
    print(low / (2 * len(loader)), high / len(loader))
"""


@pytest.mark.parametrize(
    ("high", "names"),
    [("high += loss.item()", ("low", "high")), ("high = high + loss.item()", ("low", "high")), ("pass", ("low",))],
)
def test_a_sum_of_rounds_within_rounds_is_reduced_once(high: str, names: tuple[str, ...]) -> None:
    facts = Facts(script().partition("for epoch")[0] + ROUNDS_IN_ROUNDS.format(high=high))
    assert reductions(facts) == [(names, "mean")]
