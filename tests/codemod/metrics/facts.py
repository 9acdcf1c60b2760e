"""The model of a script with a training loop, whose expressions are found by what they say."""

from __future__ import annotations

import ast
from textwrap import dedent, indent

from accelify.codemod.files.project import Project
from accelify.codemod.options import Options
from accelify.codemod.script import Script
from accelify.codemod.semantics.program import Program
from accelify.codemod.understand import understand

TRAINING = """\
import time
from collections import Counter, OrderedDict, defaultdict, deque
from queue import Queue
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,))), batch_size=2)
valid = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,))), batch_size=2)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
criterion = nn.CrossEntropyLoss()
{before}
for epoch in range(3):
{begin}
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
{batch}
{end}
{after}
"""


def training(*, before: str = "", begin: str = "", batch: str = "", end: str = "", after: str = "") -> str:
    """A script with statements before the epochs, at the begin and the end of each, in each batch, and after all."""
    slots = {"before": (before, 0), "begin": (begin, 4), "batch": (batch, 8), "end": (end, 4), "after": (after, 0)}
    filled = {name: indent(dedent(text).strip("\n"), " " * depth) for name, (text, depth) in slots.items()}
    return TRAINING.format(**filled)


def script_of(text: str, **others: str) -> Script:
    """The model of a script, with the files that it imports."""
    files = {"train.py": text.encode(), **{name: dedent(other).encode() for name, other in others.items()}}
    project = Project(files)
    named = [project.load("train.py")]
    verdict = understand(Program(project.program(named, True), project, named), Options())
    assert verdict.script is not None
    return verdict.script


def find(script: Script, text: str, path: str = "train.py") -> ast.expr:
    """The last expression that is spelled so, or the only argument of the last call that is."""
    nodes = [n for n in script.program.flow.parsed_of[path].parents if isinstance(n, ast.expr)]
    found = [n for n in nodes if ast.unparse(n) == text]
    assert found, text
    node = max(found, key=lambda n: (n.lineno, n.col_offset))
    return node.args[0] if isinstance(node, ast.Call) and ast.unparse(node.func) == "print" else node
