"""Spellings of values that a training loop updates from batch to batch, and of ways in which they leave it.

`$` stands for a name of the value's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import dedent, indent


@dataclass(frozen=True, slots=True)
class Value:
    """What begins before the loop over batches, how a batch updates it, and how it is read after the loop."""

    begin: str
    update: str
    read: str

    def named(self, name: str) -> Value:
        return Value(*(text.replace("$", name) for text in (self.begin, self.update, self.read)))


# Those whose number is that of one process once they are reduced.
REDUCED = {
    "sum": Value("$ = 0.0", "$ += loss.item()", "$"),
    "difference": Value("$ = 0", "$ -= loss.item()", "$"),
    "mean": Value("$ = 0.0", "$ += loss.item()", "$ / len(loader)"),
    "mean by parts": Value("$ = 0.0", "$ += loss.item() / len(loader)", "$"),
    "mean over rows": Value("$, $n = 0.0, 0", "$ += loss.item() * len(x); $n += len(x)", "$ / $n"),
    "mean over rounds": Value("$, $n = 0.0, 0", "$ += loss.item(); $n += 1", "$ / $n"),
    "made safe": Value("$, $n = 0.0, 0", "$ += loss.item(); $n += 1", "$ / max(1, $n)"),
    "tuple": Value("$, $n = 0.0, 0", "$, $n = $ + loss.item(), $n + 1", "$ / $n"),
    "two parts": Value("$ = 0.0", "$ = $ + loss.item() + 0.5 * x.sum().item()", "$ / len(loader)"),
    "hits": Value("$ = 0", "$ += (out.argmax(1) == y).sum().item()", "$ / len(dataset)"),
    "tensor": Value("$ = torch.zeros(())", "$.add_(loss.detach())", "$.item() / len(loader)"),
    "torch.add": Value("$ = torch.zeros(1)", "$ = torch.add($, loss.detach())", "$.item() / len(loader)"),
    "operator": Value("$ = 0.0", "$ = operator.add($, loss.item())", "$ / len(loader)"),
    "array": Value("$ = np.zeros(2)", "$ += np.array([loss.item(), 1])", "$[0] / $[1]"),
    "greatest": Value("$ = 0.0", "$ = max($, loss.item())", "$"),
    "greatest, swapped": Value("$ = -float('inf')", "$ = max(loss.item(), $)", "$"),
    "greatest tensor": Value("$ = torch.zeros(())", "$ = torch.maximum($, loss.detach())", "$.item()"),
    "greatest by if": Value("$ = 0.0", "if loss.item() > $:\n    $ = loss.item()", "$"),
    "least": Value("$ = float('inf')", "$ = min($, loss.item())", "$"),
    "least by if": Value("$ = 1e9", "$ = loss.item() if loss.item() < $ else $", "$"),
    "confusion": Value(
        "$ = torch.zeros(2, 2)", "for a, b in zip(y, out.argmax(1)): $[a, b] += 1", "$.diag().sum().item()"
    ),
    "index_add_": Value("$ = torch.zeros(2)", "$.index_add_(0, y, torch.ones(len(y)))", "$[0].item()"),
    "list": Value("$ = []", "$.append(loss.item())", "np.mean($)"),
    "list, by sum": Value("$ = []", "$.append(loss.item())", "sum($) / len($)"),
    "list +=": Value("$ = []", "$ += [loss.item()]", "np.mean($)"),
    "array, grown": Value("$ = np.array([])", "$ = np.append($, loss.item())", "$.mean()"),
    "dict": Value("$ = {'loss': 0.0, 'n': 0}", "$['loss'] += loss.item(); $['n'] += 1", "$['loss'] / $['n']"),
    "meter": Value("$ = Meter()", "$.update(loss.item(), len(x))", "$.avg"),
    "meters in a dict": Value("$ = {'a': Meter()}", "$['a'].update(loss.item(), len(x))", "$['a'].avg"),
    "under a condition": Value("$ = 0", "if loss.item() < 0.7: $ += 1", "$"),
    "tensors": Value("$ = []", "$.append(loss.detach())", "torch.stack($).mean().item()"),
    "defaultdict": Value("$ = defaultdict(float)", "$['loss'] += loss.item()", "$['loss'] / len(loader)"),
    "extend": Value("$ = []", "$.extend(out.argmax(1).tolist())", "sum($)"),
    "get": Value("$ = {}", "$['a'] = $.get('a', 0.0) + loss.item()", "$['a'] / len(loader)"),
    "lists in a dict": Value("$ = defaultdict(list)", "$['loss'].append(loss.item())", "np.mean($['loss'])"),
    "list + list": Value("$ = []", "$ = $ + [loss.item()]", "np.mean($)"),
    "function": Value("$ = 0.0", "$ = add($, loss.item())", "$ / len(loader)"),
    "average": Value("$ = 0.0", "$ = 0.9 * $ + 0.1 * loss.item()", "$"),
    "average by steps": Value("$ = 0.0", "$ += (loss.item() - $) / (i + 1)", "$"),
    "meter that is called": Value("$ = Running()", "$(loss.item())", "$.total / $.n"),
}
# Those that nobody can reduce for the script, or that the codemod does not: a note names them.
NOTED = {
    "average in place": Value("$ = torch.zeros(())", "$.mul_(0.9).add_(loss.detach(), alpha=0.1)", "$.item()"),
    "np.add.at": Value("$ = np.zeros(2)", "np.add.at($, y.numpy(), 1)", "$[0] / 8"),
    "last of a list": Value("$ = []", "$.append(loss.item())", "$[-1]"),
    "whole list": Value("$ = []", "$.append(loss.item())", "str($)"),
    "list by a function": Value("$ = []", "put($, loss.item())", "np.mean($)"),
    "deque": Value("$ = deque(maxlen=3)", "$.append(loss.item())", "sum($) / len($)"),
    "appendleft": Value("$ = deque()", "$.appendleft(loss.item())", "sum($) / len($)"),
    "np.append": Value("$ = np.zeros(0)", "$ = np.append($, loss.item())", "$.mean()"),
    "cat": Value("$ = torch.zeros(0)", "$ = torch.cat([$, loss.detach()[None]])", "$.mean().item()"),
    "Counter": Value("$ = Counter()", "$.update(y.tolist())", "$[0] / 8"),
    "set": Value("$ = set()", "$.update(y.tolist())", "len($)"),
    "meter of names": Value("$ = Named()", "$.add(loss=loss.item())", "$.mean('loss')"),
    "attribute": Value("$ = SimpleNamespace(total=0.0)", "$.total += loss.item()", "$.total / len(loader)"),
    "sum()": Value("$ = 0.0", "$ = sum([$, loss.item()])", "$ / len(loader)"),
    "product": Value("$ = 1.0", "$ *= loss.item()", "$"),
    "or": Value("$ = False", "$ = $ or torch.isnan(loss).item()", "$"),
    "|=": Value("$ = False", "$ |= bool(torch.isnan(loss))", "$"),
    "flag": Value("$ = False", "if torch.isnan(loss): $ = True", "$"),
    "text": Value("$ = ''", "$ += f'{loss.item()} '", "len($)"),
    "heap": Value("$ = []", "heapq.heappush($, loss.item())", "$[0]"),
    "last": Value("$ = 0.0", "$ = loss.item()", "$"),
    "item of an array": Value("$ = np.zeros(len(loader))", "$[i] = loss.item()", "$.mean()"),
    "item of a dict": Value("$ = {}", "$[i] = loss.item()", "sum($.values()) / len($)"),
    "where the greatest is": Value("$, $i = 0.0, 0", "if loss.item() > $:\n    $, $i = loss.item(), i", "$i"),
}
# What all ranks have alike: neither reduced nor noted.
ALIKE = {
    "steps": Value("$ = 0", "$ += 1", "$"),
    "optimizer steps": Value("$ = 0", "if (i + 1) % 2 == 0: $ += 1", "$"),
    "learning rate": Value("$ = 0", "$ = optimizer.param_groups[0]['lr']", "$"),
}

SINKS = {
    "print": "print(^)",
    "f-string": 'print(f"epoch {epoch}: {^}")',
    "format": "print('%s' % (^))",
    "log": "log.info('x', ^)",
    "stdout": "sys.stdout.write(str(^))",
    "tensorboard": "writer.add_scalar('x', ^, epoch)",
    "json": "json.dump(^, open('x.json', 'w'))",
    "checkpoint": "torch.save({'m': model.state_dict(), 'v': ^}, 'm.pt')",
    "array file": "np.save('x.npy', ^)",
    "text file": "with open('x.txt', 'a') as f:\n    f.write(str(^))",
    "csv": "csv.writer(open('x.csv', 'a')).writerow([epoch, ^])",
    "plot": "plt.plot([epoch], [^])",
    "stop": "if ^ < 0.1:\n    break",
    "best model": "if ^ < 0.5:\n    torch.save(model.state_dict(), 'best.pt')",
    "next loss": "factor = factor * float(^)",
    "history": "$history = []\n$history.append(^)\nprint($history)",
    "by a name": "$value = ^\n$text = f'{$value}'\nprint($text)",
    "dict": "$result = dict(epoch=epoch, value=^)\nprint($result)",
    "assert": "assert ^ < 100",
    "raise": "if ^ > 100:\n    raise ValueError",
    "learning rate": "for g in optimizer.param_groups:\n    g['lr'] = 0.1 * float(^)",
    "phase": "if ^ < 1:\n    for p in model.parameters():\n        p.requires_grad = False",
}

SCRIPT = """\
import csv
import heapq
import json
import logging
import operator
import sys
from collections import Counter, defaultdict, deque
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.utils import tensorboard as writers
from torch.utils.data import DataLoader, TensorDataset


class Meter:
    def __init__(self):
        self.sum, self.count, self.avg = 0.0, 0, 0.0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count


class Running:
    def __init__(self):
        self.total, self.n = 0.0, 0

    def __call__(self, value):
        self.total = self.total + value
        self.n += 1


class Named:
    def __init__(self):
        self.values = {}

    def add(self, **given):
        for name, value in given.items():
            self.values.setdefault(name, []).append(value)

    def mean(self, name):
        return sum(self.values[name]) / len(self.values[name])


def add(a, b):
    return a + b


def put(rows, value):
    rows.append(value)


writer = writers.SummaryWriter()
log = logging.getLogger()
torch.manual_seed(0)
dataset = TensorDataset(torch.randn(8, 4), torch.tensor([0, 1, 1, 0, 1, 0, 0, 0]))
loader = DataLoader(dataset, batch_size=2)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
criterion = nn.CrossEntropyLoss()
factor = 1.0
for epoch in range(2):
{begin}
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y) * factor
        loss.backward()
        optimizer.step()
{update}
{sink}
"""


def names(values: Iterable[str]) -> dict[str, str]:
    """The name that each value has in the script."""
    return {key: f"v{number}_" for number, key in enumerate(values)}


def script(values: dict[str, Value], sink: str) -> str:
    """A script with all of some values, each of which leaves by a sink."""
    parts: dict[str, list[str]] = {"begin": [], "update": [], "sink": []}
    for key, name in names(values).items():
        value = values[key].named(name)
        parts["begin"].append(value.begin)
        parts["update"].append(value.update)
        parts["sink"].append(sink.replace("^", value.read).replace("$", name))
    needless = [tool for tool in ("plt", "writer") if f"{tool}." not in sink]
    text = "".join(line for line in SCRIPT.splitlines(True) if not any(tool in line for tool in needless))
    for part, depth in (("begin", 4), ("update", 8), ("sink", 4)):
        text = text.replace(f"{{{part}}}", indent(dedent("\n".join(parts[part])), " " * depth))
    return text
