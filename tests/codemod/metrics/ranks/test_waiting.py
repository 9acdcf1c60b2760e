"""What a fact needs is worked out before the fact, and what is known already is not worked out again."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.ranks import rank
from accelify.codemod.metrics.ranks.waiting import Waiting
from tests.codemod.metrics.facts import script_of, training


def test_what_is_found_later_comes_first() -> None:
    waiting = Waiting[str]()
    waiting.add("sum")
    assert waiting.pop() == "sum"
    for needed in ("left", "right", "sum"):
        waiting.add(needed)
    assert [waiting.pop(), waiting.pop(), waiting.pop()] == ["right", "left", "sum"]
    assert not waiting


def test_a_cycle_goes_round_once_in_a_round() -> None:
    waiting = Waiting[str]()
    for fact in ("outer", "inner", "cycle"):
        waiting.add(fact)
    assert waiting.pop() == "cycle"
    waiting.add("cycle")  # it has grown by itself
    waiting.add("outer")  # in wait already
    assert [waiting.pop() for _ in range(3)] == ["inner", "outer", "cycle"]


BASE = """
class Trainer:
    def __init__(self):
        self.log, self.total, self.seen = {}, 0.0, []

    def step(self, loss):
        self.total += loss.item()
        self.log["loss"] = self.total
        return self.total

"""
HEIR = """
class Trainer{i}(Trainer):
    def step(self, loss):
        value = super().step(loss)
        self.total += value * {i}
        return self.total

    def show(self):
        if self.total > {i}:
            self.seen.append(self.total)
        print(self.total, self.total / 2, self.seen)

"""


def steps(monkeypatch: pytest.MonkeyPatch, heirs: int) -> int:
    """How many times a fact is asked for in a script with some heirs of one class, any of which it may use."""
    counted: list[object] = []
    inner = rank.Ranks._get

    def get(self: rank.Ranks, key: rank._Key) -> frozenset[rank._Label]:
        counted.append(key)
        return inner(self, key)

    monkeypatch.setattr(rank.Ranks, "_get", get)
    table = ", ".join(f'"{i}": Trainer{i}' for i in range(heirs))
    classes = BASE + "".join(HEIR.format(i=i) for i in range(heirs))
    before = f"{classes}\nimport sys\ntrainer = {{{table}}}[sys.argv[1]]()"
    script = script_of(training(before=before, batch="shown = trainer.step(loss)\nprint(shown)\ntrainer.show()"))
    assert script.metrics.reports
    monkeypatch.undo()
    return len(counted)


def test_the_work_grows_with_the_classes_and_not_with_their_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = steps(monkeypatch, 4), steps(monkeypatch, 16)
    assert many < 6 * few
