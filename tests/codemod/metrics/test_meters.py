"""Facts about the meters that a loop fills."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.meters import Metering
from accelify.codemod.training.harmless import Harmless
from tests.codemod.facts import Facts
from tests.codemod.metrics.loops import in_loop, sums_of
from tests.codemod.training_scripts import STEP, script

METER = """\
class Meter:
    def __init__(self): self.reset()
    def reset(self): self.val = self.avg = self.sum = self.count = 0
    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count
"""


def metered(body: str, end: str, before: str) -> list[str]:
    facts, loop = in_loop(body, end, METER + before)
    harmless = Harmless(facts.program, facts.roles)
    found = Metering(facts.program, facts.tracer, facts.script.prepared, harmless, sums_of(facts)).of(loop)
    return [name for name, _ in found.together]


LOSS = "model(x).mean().item()"


@pytest.mark.parametrize(
    ("before", "place"),
    [
        ("m = Meter()", "m"),
        ("m = {'loss': Meter(), 'acc': Meter()}", "m['loss']"),
        ("m = [Meter(), Meter()]", "m[0]"),
        ("m = {k: Meter() for k in ('loss', 'acc')}", "m['loss']"),
        ("m = [Meter() for _ in range(2)]", "m[1]"),
    ],
)
def test_a_meter_of_its_own_or_in_a_container(before: str, place: str) -> None:
    assert metered(f"{place}.update({LOSS}, len(x))", f"print({place}.avg)\n", before) == [place]
    assert metered(f"{place}.update({LOSS})", "use(m)\n", f"{before}\n{place}.reset()") == [place]


@pytest.mark.parametrize(
    ("before", "body", "end"),
    [
        ("m = {'a': Meter()}", f"m['a'].update({LOSS})", "print(m['a'].val)\n"),  # of the last batch
        ("m = {'a': Meter()}", f"if x[0]: m['a'].update({LOSS})", "print(m['a'].avg)\n"),
        ("m = {'a': Meter()}", f"m['a'].update({LOSS})", ""),
        ("m = {'a': Meter()}\nprint(m['a'].avg)", f"m['a'].update({LOSS})", "print(m['a'].avg)\n"),
        ("one = Meter()\nm = {'a': one, 'b': one}", f"m['a'].update({LOSS})", "print(m['a'].avg)\n"),
        ("m = dict.fromkeys('ab', Meter())", f"m['a'].update({LOSS})", "print(m['a'].avg)\n"),
        ("m = {'a': Meter()}", f"for k in m: m[k].update({LOSS})", "print(m['a'].avg)\n"),
    ],
)
def test_meters_that_are_left_alone(before: str, body: str, end: str) -> None:
    assert metered(body, end, before) == []


AGAIN = "try:\n    x, y = next(batches)\nexcept StopIteration:\n    batches = iter(loader); x, y = next(batches)"


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("x, y = next(batches)", ["m"]),
        (AGAIN, ["m"]),
        ("x, y = rows, labels", []),  # all data, on every process
        ("x, y = next(others)", []),  # drawn by each process
    ],
)
def test_a_meter_of_a_loop_that_asks_for_its_batches(asked: str, names: list[str]) -> None:
    step = f"{STEP}m.update(loss.item(), len(x))\n"
    before = f"{METER}others = draw_forever()"
    epoch = "m = Meter(); batches = iter(loader)"
    text = script(before=before, epoch=epoch, batch=asked, step=step, end_of_epoch="print(m.avg)")
    facts = Facts(text.replace("for x, y in loader:", "for i in range(8):"))
    assert [name for metered in facts.script.metrics.metered for name, _ in metered.together] == names


@pytest.mark.parametrize(
    ("method", "add"),
    [
        ("add(self, x, n=1): self.sum += x * n", "m.add({}, len(x))"),
        ("__call__(self, x): self.sum += x", "m({})"),
        ("append(self, x): self.values.append(x)", "m.append({})"),
    ],
)
def test_a_meter_that_another_method_fills(method: str, add: str) -> None:
    cls = f"class Own:\n    def __init__(self): self.sum = 0; self.values = []\n    def {method}\nm = Own()"
    assert metered(add.format(LOSS), "print(m.sum, m.values)\n", cls) == ["m"]
    assert metered(add.format(LOSS), "", cls) == []


def test_a_list_of_rows_is_no_meter() -> None:
    cls = "class Own:\n    def __init__(self): self.rows = []\n    def append(self, x): self.rows.append(x)\nm = Own()"
    assert metered("m.append(x)", "print(m.rows)\n", cls) == []


def test_a_meter_that_two_methods_fill_stays() -> None:
    cls = METER + "    def add(self, x): self.sum += x\n"
    facts, loop = in_loop(f"m.update({LOSS})\nm.add({LOSS})", "print(m.avg)\n", cls + "m = Meter()")
    metering = Metering(
        facts.program,
        facts.tracer,
        facts.script.prepared,
        Harmless(facts.program, facts.roles),
        sums_of(facts),
    )
    assert metering.of(loop).together == ()


@pytest.mark.parametrize(("given", "found"), [("1", []), ("n=1", []), ("len(x)", ["m"]), (f"n={LOSS}", ["m"])])
def test_a_meter_that_counts_steps_is_that_of_each_process(given: str, found: list[str]) -> None:
    cls = "class Own:\n    def __init__(self): self.seen = 0\n    def add(self, n): self.seen += n\nm = Own()"
    assert metered(f"m.add({given})", "print(m.seen)\n", cls) == found
