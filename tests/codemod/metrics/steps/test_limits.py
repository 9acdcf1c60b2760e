"""Facts about what ends the training, and loops of as many steps as in one process."""

from __future__ import annotations

import ast

import pytest

from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import script


@pytest.mark.parametrize("mean", ["total / len(loader)", "total / (i + 1)", "total / steps_per_epoch"])
def test_a_check_of_the_mean_loss_is_no_limit(mean: str) -> None:
    epoch = (
        "steps_per_epoch = len(loader)\ndef one_epoch():\n    total = 0\n    for i, (x, y) in enumerate(loader):\n"
        "        loss = (model(x) - y).pow(2).mean()\n        optimizer.zero_grad()\n        loss.backward()\n"
        f"        optimizer.step()\n        total += loss.item()\n    return {mean}\n"
    )
    text = (
        script().partition("for epoch in")[0]
        + epoch
        + "for epoch in range(9):\n    if one_epoch() > 1e6:\n        break\n"
    )
    assert not list(Facts(text).script.limits.conditions())


LIMITED = """\
def one_epoch():
    for i, (x, y) in enumerate(loader):
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if {test}:
            return i
    return i


count = 0
for epoch in range(9):
    num = one_epoch()
    count += num
    if {outer}:
        break
"""


@pytest.mark.parametrize(
    ("test", "outer", "found"),
    [
        ("(i + 1) * 2 >= 800", "epoch > 7", ["if (i + 1) * 2 >= 800"]),
        ("i == 0", "count >= 1000", ["if count >= 1000"]),
        ("2 * i > 30", "epoch > 7 or count > 99", ["if 2 * i > 30", "if epoch > 7 or count > 99"]),
        ("False", "epoch > 7", []),
    ],
)
def test_limits_of_steps_and_samples(test: str, outer: str, found: list[str]) -> None:
    text = script().partition("for epoch in")[0] + LIMITED.format(test=test, outer=outer)
    assert [f"if {ast.unparse(node.test)}" for node in Facts(text).script.limits.conditions()] == found


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ("islice(loader, 4)", ["4"]),
        ("islice(loader, 2, 4)", ["4"]),
        ("islice(loader, None)", []),
        ("islice(loader, len(loader) // 2)", []),
        ("zip(range(2, 4), loader)", ["4"]),
        ("enumerate(loader)", []),
    ],
)
def test_numbers_of_batches_in_the_head_of_a_loop(head: str, found: list[str]) -> None:
    text = f"from itertools import islice\n{script()}".replace("in loader:", f"in {head}:")
    assert [ast.unparse(n) for n in Facts(text).script.limits.caps()] == found


ASKED = """\
{begin}
{loop}
    try:
        x, y = next(batches)
    except StopIteration:
        {end}
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    done += 1
"""


AGAIN = "batches = iter(loader); x, y = next(batches)"


@pytest.mark.parametrize(
    ("loop", "end", "stays"),
    [
        ("for step in range(args.steps):", AGAIN, True),
        ("for step in tqdm.trange(1, 1000):", AGAIN, True),
        ("for step in args.steps(1, 1000):", AGAIN, False),  # what is not known may be anything
        ("for step in tqdm.tqdm(range(1, 1000)):", AGAIN, True),
        ("while done < 1000:", AGAIN, True),
        ("for step in range(len(loader)):", AGAIN, False),
        ("for step in range(2 * len(loader)):", AGAIN, False),
        ("for step in range(1000):", "break", False),
        ("for x, y in loader:", AGAIN, False),
    ],
)
def test_loops_that_take_as_many_steps_as_in_one_process(loop: str, end: str, stays: bool) -> None:
    begin = "done, batches = 0, iter(loader)"
    text = script(imports="import tqdm\nfrom settings import args").partition("for epoch in")[0]
    rounds = Facts(text + ASKED.format(begin=begin, loop=loop, end=end)).script.limits.rounds()
    assert [t.partition("\n")[0] for t in texts(rounds)] == ([loop] if stays else [])


SEVERAL = """\
import itertools, torch
from torch.utils.data import DataLoader
from tqdm import tqdm, trange
def forever(loader):
    while True:
        yield from loader
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = forever(DataLoader(torch.randn(64, 1), batch_size=4))
for _ in {rounds}:
    x = next(batches)
    for _ in range(5):
        loss = model(x).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


@pytest.mark.parametrize(
    ("rounds", "is_fixed"),
    [
        ("range(100)", True),
        ("trange(100, leave=False)", True),
        ("tqdm(range(1, 100))", True),
        ("itertools.count(1)", False),
    ],
)
def test_rounds_of_several_steps_on_a_batch(rounds: str, is_fixed: bool) -> None:
    found = Facts(SEVERAL.format(rounds=rounds)).script
    assert bool(found.limits.rounds()) is is_fixed
    assert not found.metrics.reports


@pytest.mark.parametrize(
    ("bar", "is_fixed"),
    [
        ("bar = range(100)", True),
        ("bar = range(1, 100)\nif verbose:\n    bar = tqdm(bar)", True),
        ("counter = range(100)\nbar = tqdm(counter) if verbose else counter", True),
        ("bar = tqdm(range(100)) if verbose else loader", False),
        ("bar = range(100)\nif verbose:\n    bar = itertools.count()", False),
        ("bar = range(len(loader))", False),
        ("bar = loader", False),
    ],
)
def test_rounds_of_a_named_bar(bar: str, is_fixed: bool) -> None:
    made = f"from settings import verbose\nloader = DataLoader(torch.randn(64, 1), batch_size=4)\n{bar}\n"
    text = SEVERAL.format(rounds="bar").replace("batches = forever(DataLoader(torch.randn(64, 1), batch_size=4))", "")
    text = text.replace("for _ in bar", f"{made}batches = forever(loader)\nfor _ in bar")
    assert bool(Facts(text).script.limits.rounds()) is is_fixed
