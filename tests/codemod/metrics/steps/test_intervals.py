"""Facts about conditions that come true at some counts of steps."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.steps.intervals import Intervals
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import script, training


def intervals(batch: str) -> list[str]:
    read = training(set_up="n = 0", batch=f"n += 1\n{batch}").script
    found = Intervals(read.limits).intervals()
    return [text.partition(":")[0] for text in texts(found)]


def test_intervals_and_limits_count_steps() -> None:
    assert intervals("if n % 100 == 0:\n    print(n)") == ["if n % 100 == 0"]
    assert intervals("if n >= 5000:\n    break") == ["if n >= 5000"]
    assert intervals("if not n % 10:\n    print(n)") == ["if not n % 10"]


def test_the_first_step_and_the_last_are_no_intervals() -> None:
    assert intervals("if n == 1:\n    print(n)") == []
    assert intervals("if n % len(loader) == 0:\n    print(n)") == []
    assert intervals("if epoch % 2 == 0:\n    print(n)") == []


FROM_SOME_STEP = """\
def learn(x, y, step):
    {within}
other = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        {inside}
"""


SECOND = "(model(x) - y).abs().mean().backward(); other.step()"


@pytest.mark.parametrize(
    ("inside", "within", "found"),
    [
        (f"if step > 500: {SECOND}", "pass", ["step > 500"]),
        (f"if i >= args.late and args.both: {SECOND}", "pass", ["i >= args.late and args.both"]),
        ("learn(x, y, step)", f"if step < 500: {SECOND}", ["step < 500"]),
        ("if 500 < step: other.step()", "pass", ["500 < step"]),
        (f"if step % 3 > 1: {SECOND}", "pass", []),
        (f"if step % 3 == 1: {SECOND}", "pass", []),
        (f"if epoch > 1: {SECOND}", "pass", []),
        (f"if i > 0: {SECOND}", "pass", []),
        (f"if i < len(loader) - 1: {SECOND}", "pass", []),
        ("if step > 500: print(loss.item())", "pass", []),
        ("if step > 500: break", "pass", []),
    ],
)
def test_phases_that_begin_or_end_at_a_count_of_steps(inside: str, within: str, found: list[str]) -> None:
    facts = Facts(script().partition("for epoch")[0] + FROM_SOME_STEP.format(inside=inside, within=within))
    assert texts(Intervals(facts.script.limits).phases()) == found


CHECKED = "n = len(loader)\n{check}\nfor epoch in"


@pytest.mark.parametrize(
    ("check", "found"),
    [
        ("assert n % args.every == 0, 'must divide'", ["assert n % args.every == 0, 'must divide'"]),
        ("if len(loader) % 50:\n    raise ValueError(n)", ["if len(loader) % 50"]),
        ("if n > 20:\n    print(n)\nelse:\n    raise ValueError(n)", ["if n > 20"]),
        ("assert n > 0", []),
        ("assert len(rows) % 50 == 0", []),
        ("if n % 50:\n    print(n)", []),
    ],
)
def test_checks_of_the_number_of_batches(check: str, found: list[str]) -> None:
    text = script(imports="from settings import args").replace("for epoch in", CHECKED.format(check=check))
    assert [t.partition(":")[0] for t in texts(Intervals(Facts(text).script.limits).checks())] == found


LENGTHS = """\
names = ["step", "loss"]
class Log:
    def __init__(self): self.steps = 0
    def append(self, member):
        assert len(names) == len(member)
def filled(values):
    return sorted(values)
log, kept, count = Log(), [], 0
for x in loader:
    count += 1
    kept.append(model(x).mean().item())
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
{end}
"""


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("log.append([count, 0.5])", []),  # a row of the log has two numbers, whatever they are
        ("log.append((count, *names))", []),
        ("log.append([n for n in (count, 2)])", []),
        ("assert len(torch.full((count, 3), 1.0).shape) == 2", []),
        ("log.append(kept)", ["assert len(names) == len(member)"]),
        ("log.append([0, *kept])", ["assert len(names) == len(member)"]),
        ("assert len(filled(kept)) == 20", ["assert len(filled(kept)) == 20"]),
        ("assert len([k + 1 for k in kept]) == 20", ["assert len([k + 1 for k in kept]) == 20"]),
    ],
)
def test_checks_of_how_many_items_the_rounds_give(end: str, found: list[str]) -> None:
    text = script().partition("for epoch in")[0] + LENGTHS.format(end=end)
    assert texts(Intervals(Facts(text).script.limits).checks()) == found
