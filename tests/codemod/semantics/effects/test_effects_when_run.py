"""Statements put together at random, run under instruments: what happened is in the summary of their effects."""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from accelify.codemod.libraries.row import Effect
from accelify.codemod.semantics.effects.effects import Effects
from tests.codemod.semantics.programs import program

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.slow

BITS = {
    "x.append(1)": "change",
    "x[0] = 2": "change",
    "x.clear()": "change",
    "y = list(x); y.append(1)": "",
    "y = x; y.append(3)": "change",
    "for z in (x, [0]): z.append(1)": "change",
    "t.add_(1)": "change",
    "t.view(-1)[0] = 1": "change",
    "t.clone().add_(1)": "",
    "t = t + 1": "",
    "t += 1": "change",
    "u = t; u -= 2": "change",
    "o.n = 1": "change",
    "o.rows.append(1)": "change",
    "setattr(o, 'n', 5)": "change",
    "o.bump()": "change",
    "o.draw": "torch",
    "o + 1": "numpy",
    "len(o)": "python",
    "torch.rand(2)": "torch",
    "torch.zeros(2).normal_()": "torch",
    "torch.rand(2, generator=torch.Generator().manual_seed(1))": "",
    "np.random.rand()": "numpy",
    "np.random.default_rng(0).random()": "",
    "random.random()": "python",
    "random.Random(0).random()": "",
    "random.shuffle(x)": "python change",
    "torch.manual_seed(3)": "torch",
    "np.random.seed(3)": "numpy",
    "random.seed(3)": "python",
    "print('a')": "out",
    "print(len(x), file=sys.stdout)": "out",
    "nn.Linear(2, 2)": "torch",
    "nn.init.zeros_(nn.Parameter(torch.zeros(1)))": "",
    "nn.init.normal_(t)": "torch change",
    "nn.Dropout()(torch.ones(4))": "torch",
    "open('out.txt', 'w').close()": "file",
    "torch.save([1], 'out.pt')": "file",
    "Path('note').write_text('n')": "file",
    "helper(x)": "change",
    "list(generate(x))": "change python",
    "generate(x)": "",
    "wrapped(x)": "change out",
}
WORLD = """\
import random, sys, torch
import numpy as np
from pathlib import Path
from torch import nn
class O:
    def __init__(self):
        self.n = 0
        self.rows = []
    def bump(self): self.n += 1
    @property
    def draw(self): return torch.rand(1)
    def __add__(self, other): return np.random.rand()
    def __len__(self): return int(random.random() < 0)
def helper(rows): rows.append(len(rows))
def generate(rows):
    rows.append(random.random())
    yield 1
def loud(f):
    def inner(*given):
        print("loud")
        return f(*given)
    return inner
@loud
def wrapped(rows): rows.append(1)
x, t, o = list(range(9)), torch.zeros(2), O()
"""


def happened(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What running a function did: to its arguments, random states, files and the screen."""
    found: set[str] = set()
    made: dict[str, object] = {}
    exec(compile(WORLD + text, "generated", "exec"), made)
    x, t, o, run = made["x"], made["t"], made["o"], made["run"]

    def state() -> dict[str, object]:
        changes = repr((x, t.tolist(), vars(o)))  # type: ignore[attr-defined]  # a tensor
        numpy = repr(np.random.get_state())
        return {"change": changes, "torch": torch.get_rng_state().tolist(), "numpy": numpy, "python": random.getstate()}

    def watched(path: object, mode: str = "r", *more: object, **named: object) -> object:
        found.update({"file"} if set(mode) & set("wax+") else ())
        return real(path, mode, *more, **named)  # type: ignore[arg-type, call-overload]  # as it was called

    real, before, out = builtins.open, state(), io.StringIO()
    monkeypatch.chdir(folder)
    with contextlib.redirect_stdout(out):
        run(x, t, o)  # type: ignore[operator]  # a function
    found.update({"file"} if list(folder.iterdir()) else (), {"out"} if out.getvalue() else ())
    return found | {what for what, value in state().items() if value != before[what]}


def told(text: str) -> set[str]:
    """The same, as the summary has it."""
    source = program(WORLD + text + "\nrun(x, t, o)")
    found = Effects(source).of(source.named[0].tree.body[-1])
    assert not found.is_unknown, [ast.unparse(n) for n in found.unknown]
    names = {
        "torch": {Effect.DRAWS_TORCH, Effect.SEEDS_TORCH, Effect.DRAWS_IN_TRAINING},
        "numpy": {Effect.DRAWS_NUMPY, Effect.SEEDS_NUMPY},
        "python": {Effect.DRAWS_PYTHON, Effect.SEEDS_PYTHON},
        "out": {Effect.PRINTS},
    }
    said = {name for name, each in names.items() if found.effects & each}
    return said | ({"file"} if found.writes_files else set()) | ({"change"} if found.writes else set())


def function(lines: list[str]) -> str:
    return "def run(x, t, o):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize("line", BITS)
def test_a_line_does_what_its_summary_says(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = function([line])
    assert happened(text, tmp_path, monkeypatch) == set(BITS[line].split())
    assert told(text) == set(BITS[line].split())


def shuffled() -> Iterator[list[str]]:
    chance = random.Random(7)
    for _ in range(40):
        lines = chance.sample(list(BITS), 3)
        yield [
            f"if len(x) >= 0: {lines[0]}" if chance.random() < 0.3 and "for" not in lines[0] else lines[0],
            *lines[1:],
        ]


@pytest.mark.parametrize("lines", [*shuffled()], ids=str)
def test_what_happens_is_in_the_summary(lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = function(lines)
    assert happened(text, tmp_path, monkeypatch) <= told(text)
