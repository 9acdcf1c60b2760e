"""Facts about meters: classes whose `update` adds up, and what else they keep."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.sums.meter_classes import Meter, Meters
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


ADDING = """\
class Mean:
    def __init__(self):
        self.total, self.values = 0.0, []
        self.totals = {{k: 0.0 for k in ("loss", "error")}}

    def {method}(self, x, n=1):
        {body}

    def fill(self): pass

m = Mean()
{call}
"""


def updated(call: str, method: str = "add", body: str = "self.total += x * n") -> tuple[str, tuple[str, ...]] | None:
    facts = Facts(ADDING.format(call=call, method=method, body=body))
    found = Meters(facts.program).updated_by(facts.call(call))
    return None if found is None else (ast.unparse(found[0]), (*found[1].sums, *found[1].lists))


@pytest.mark.parametrize(
    ("call", "method", "body", "kept"),
    [
        ("m.add(1, n=2)", "add", "self.total += x * n", "total"),
        ("m(3)", "__call__", "self.total += x * n", "total"),
        ("m.append(3)", "append", "self.values.append(x)", "values"),
        ("m.add(3)", "add", "self.total = self.total + x", "total"),
        ("m.add(3)", "add", "self.totals['loss'] += x", "totals"),
        ("m.add('loss', 3)", "add", "self.totals[x] += n", "totals"),
        ("m.add(3)", "add", "x = float(x)\n        self.total += x", "total"),
        ("m.add(3)", "add", "if isinstance(x, list):\n            x = x.item()\n        self.total += x", "total"),
    ],
)
def test_the_method_that_fills_a_meter(call: str, method: str, body: str, kept: str) -> None:
    assert updated(call, method, body) == ("m", (kept,))


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("m.add()", "self.total += 1"),
        ("m.add(3)", "self.total += 1"),  # counts its calls
        ("m.fill(3)", "self.total += x"),
        ("m.add(3)", "self.total -= x"),
        ("m.add(3)", "self.total = x + self.total.old"),
        ("m.add(3)", "self.rows[x] += n"),  # which are no zeros
        ("m.add(3)", "self.total += x\n        print(x)"),
        ("m.add(3)", "x = self.scale(x)\n        self.total += x"),
        ("m.add(3)", "if x > self.total:\n            x = 0\n        self.total += x"),
    ],
)
def test_a_call_that_fills_no_meter(call: str, body: str) -> None:
    assert updated(call, body=body) is None
