"""Facts about meters: classes whose `update` adds up, and what else they keep."""

from __future__ import annotations

import pytest

from accelify.codemod.training.meters import Meter, Meters
from tests.codemod.facts import Facts

METER = """\
class AverageMeter:
    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count
"""


def meter(text: str) -> Meter | None:
    facts = Facts(f"{text}m = AverageMeter()\nuse(m)\n")
    return Meters(facts.program).of(facts.call("use(m)").args[0])


def test_the_common_meter() -> None:
    assert meter(METER) == Meter(("sum", "count"), (("avg", "{}.sum / {}.count"),), frozenset({"val"}))


KEPT = "        self.kept.append({})\n"
FRESH = METER.replace("    def", "    def reset(self):\n        self.kept = []\n\n    def") + KEPT


@pytest.mark.parametrize("text", [FRESH, FRESH.replace("reset", "__init__"), FRESH.replace("{}", "val * n")])
def test_a_meter_that_keeps_what_it_was_given(text: str) -> None:
    found = meter(text.format("val"))
    assert found is not None
    assert found.lists == ("kept",)


@pytest.mark.parametrize(
    "text",
    [
        FRESH.format("self.avg"),
        FRESH.format("float(val)"),
        METER.replace("    def", "    kept = []\n\n    def") + KEPT.format("val"),  # one list of all meters
        FRESH.format("val").replace("= []", "= deque(maxlen=10)"),
    ],
)
def test_a_meter_with_another_list(text: str) -> None:
    assert meter(text) is None


@pytest.mark.parametrize(
    ("old", "new", "mean", "last"),
    [
        ("self.avg = self.sum /", "self.avg = float(self.sum) /", "float({}.sum) / {}.count", {"val"}),
        ("self.sum / self.count", "self.sum / max(1, self.count)", "{}.sum / max(1, {}.count)", {"val"}),
        (
            "self.val = val",
            "self.val = float(val)\n        if val > self.best:\n            self.best = val",
            "{}.sum / {}.count",
            {"val", "best"},
        ),
    ],
)
def test_what_else_a_meter_calculates_or_keeps(old: str, new: str, mean: str, last: set[str]) -> None:
    assert meter(METER.replace(old, new)) == Meter(("sum", "count"), (("avg", mean),), frozenset(last))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.count += n", "self.count -= n"),
        ("self.count += n", "if n:\n            self.count += n"),
        ("self.count += n", "self.count += self.sum"),
        ("self.avg = self.sum / self.count", "self.avg = self.sum / n"),
        ("self.avg = self.sum / self.count", "self.avg = mean(self.sum)"),
        ("self.val = val", "self.sum = val"),
        ("self.val = val", "self.val = shown(val)"),
        ("self.val = val", "if val > 0:\n            self.avg = val"),
        ("def update(", "def add("),
        ("    def update", "    @torch.no_grad()\n    def update"),
        ("self.val = val", "print(val)"),
    ],
)
def test_what_is_no_meter(old: str, new: str) -> None:
    assert meter(METER.replace(old, new)) is None


def test_only_sums_make_a_meter() -> None:
    assert meter("class AverageMeter:\n    def update(self, val):\n        self.val = val\n") is None
    assert meter("class AverageMeter: pass\n") is None


def test_something_else_beside_a_meter() -> None:
    facts = Facts(METER + "class B: pass\nm = AverageMeter() if p else B()\nuse(m, 3)\n")
    found = [Meters(facts.program).of(a) for a in facts.call("use(").args]
    assert found == [None, None]
