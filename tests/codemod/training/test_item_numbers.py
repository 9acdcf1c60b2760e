"""Facts about what a script decides by the number of an item, or of a round, in a loop whose items are sharded."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.item_numbers import ItemNumbers, read_behind
from tests.codemod.facts import Facts, texts

BEFORE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
X, Y, n = torch.randn(64, 4), torch.randn(64, 2), 64
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
"""
STEP = "(model(X[i:i + 8]) - Y[i:i + 8]).pow(2).mean().backward()"


def asked(body: str, loop: str = "for i in range(0, n, 8):", before: str = "") -> dict[str, bool]:
    """What goes by the number of an item, and whether it steers the training."""
    indented = body.replace("\n", "\n    ")
    facts = Facts(f"{BEFORE}{before}{loop}\n    {STEP}\n    {indented}\n")
    numbers = ItemNumbers(facts.program, facts.roles, facts.tracer, facts.training)
    found = list(numbers.asked(facts.statement(loop.split(" in ")[0])))  # type: ignore[arg-type]  # a loop
    return dict(
        zip((t.partition("\n")[0] for t in texts(node for node, _ in found)), (s for _, s in found), strict=True)
    )


@pytest.mark.parametrize(
    ("body", "steers"),
    [
        ("if (i + 1) % 4 == 0: optimizer.step()", True),
        ("if i == n - 8: scheduler.step()", True),
        ("last = i >= n - 8\nif last:\n    scheduler.step()", True),
        ("if i + 8 >= n: continue", True),
        ("end = min(i + 8, n)\nif end == n: break", True),
        ("x = X[i:i + 8]\nif len(x) < 8: break", True),
        ("x = X[i:i + 8]\nif x.shape[0] != 8: continue", True),
        ("optimizer.param_groups[0]['lr'] = 0.1 * i / n", True),
        ("if i > 10:\n    for g in optimizer.param_groups: g['lr'] *= 0.9", True),
        ("if i % 10 == 0: print(i)", False),
        ("if i == n - 8: torch.save(model.state_dict(), 'm.pt')", False),
        ("if i % 2:\n    for k in range(3):\n        if k: break", False),
        ("for k in range(3):\n    if i + k >= n: break\n    optimizer.step()", True),
        ("for k in range(3):\n    while k:\n        optimizer.step()\n    if i + k >= n: continue", True),
    ],
)
def test_what_goes_by_the_number_of_an_item(body: str, steers: bool) -> None:
    assert list(asked(body).values()) == [steers]


@pytest.mark.parametrize(
    ("made", "loop"),
    [
        ("bar = tqdm(range(n))", "for i in bar:"),
        ("bar = trange(n)", "for i in bar:"),
        ("bar = tqdm(range(n), desc='steps')", "for k, i in enumerate(bar):"),
        ("pairs = enumerate(X)", "for i, x in pairs:"),
        ("pairs = tqdm(zip(range(n), X))", "for i, x in pairs:"),
        ("bar = reversed(range(n))", "for i in bar:"),
    ],
)
def test_a_number_is_one_whatever_the_loop_is_written_over(made: str, loop: str) -> None:
    before = f"from tqdm import tqdm, trange\n{made}\n"
    assert list(asked("if i % 10 == 0: print(i)", loop, before).values()) == [False]


def test_a_number_that_a_function_is_given() -> None:
    facts = Facts(
        f"from tqdm import tqdm\n{BEFORE}def train(steps):\n    for i in steps:\n        {STEP}\n"
        "        if i % 10 == 0: print(i)\nwith tqdm(range(n)) as bar:\n    train(bar)\n"
    )
    numbers = ItemNumbers(facts.program, facts.roles, facts.tracer, facts.training)
    found = numbers.asked(facts.statement("for i"))  # type: ignore[arg-type]  # a loop
    assert [steers for _, steers in found] == [False]


@pytest.mark.parametrize(
    ("body", "loop"),
    [
        ("if i % 10 == 0: print(i)", "for i in order:"),
        ("if k % 10 == 0: print(k)", "for k, i in enumerate(bar):"),
        ("if k % 10 == 0: print(k)", "for k, x in zip(range(n), X):"),
        ("if x.sum() == 0: print(x)", "for i, x in pairs:"),
        ("optimizer.step()", "for i in range(0, n, 8):"),
        ("if n % 4 == 0: optimizer.step()", "for i in range(0, n, 8):"),
        ("for k in range(3):\n    if i + k >= n: continue\n    print(k)", "for i in range(0, n, 8):"),
        ("k = i\nwhile True:\n    if k >= n: break\n    k += 1", "for i in range(0, n, 8):"),
        ("if (k + 1) % 4 == 0: optimizer.step()", "for k, i in enumerate(range(0, n, 8)):"),
        ("if i + 8 > n: x = X[i:]\nelse: x = X[i:i + 8]", "for i in range(0, n, 8):"),
        ("loss = model(X[i])\nif loss > 3: print(loss)", "for i in range(n):"),
    ],
)
def test_what_does_not(body: str, loop: str) -> None:
    before = "order = list(range(n))\nbar = range(n)\npairs = enumerate(X)\n"
    assert asked(body, loop, before) == {}


@pytest.mark.parametrize(
    ("loop", "test", "waits"),
    [
        ("for step, i in enumerate(range(len(X))):", "step == len(X) - 1", True),
        ("for step, i in enumerate(loader):", "step + 1 >= len(data) // 8", True),
        ("for step, i in enumerate(loader):", "step + 1 >= whole", True),
        ("for step, i in enumerate(loader):", "step == data.__len__() // 8", True),
        ("for step, i in enumerate(loader):", "step + 1 == len(loader)", False),
        ("for step, i in enumerate(loader):", "(step + 1) % 4 == 0", False),
        ("for step, i in enumerate(loader):", "step == 100", False),
        ("for step, i in enumerate(items(n), 1):", "step == n", True),
        ("for step, i in enumerate(all_items(), 1):", "n == step", True),
        ("for step, i in enumerate(xs, 1):", "step == n", True),
        ("for step, i in enumerate(items(n), 1):", "step == n.patience", False),
        ("for step, i in enumerate(items(n), 1):", "step - 3 > n.patience", False),
    ],
)
def test_what_waits_for_more_rounds_than_there_are(loop: str, test: str, waits: bool) -> None:
    made = (
        "data = list(X)\nloader = DataLoader(data, batch_size=8)\nwhole = len(data) // 8\n"
        "def items(n):\n    yield from range(n)\ndef all_items():\n    yield from range(n)\nxs = list(items(n))\n"
    )
    facts = Facts(f"{BEFORE}{made}{loop}\n    {STEP}\n    optimizer.step()\n    if {test}: scheduler.step()\n")
    numbers = ItemNumbers(facts.program, facts.roles, facts.tracer, facts.training)
    loop_node = facts.statement("for step")
    found = list(numbers.never_counted(loop_node, lambda e: getattr(e, "id", "") == "loader"))  # type: ignore[arg-type]  # a loop
    assert [whole.steers for whole in found] == ([True] if waits else [])


@pytest.mark.parametrize(
    ("condition", "batches"),
    [
        ("if step == len(data) // 8: break", "len(data) // 8"),
        ("if step >= loader.dataset.__len__() // 8: break", "len(loader.dataset) // 8"),
        ("if int(len(data) / 8) <= step: break", "int(len(data) / 8)"),
        ("if step == whole: break", "whole"),
        ("if step == len(data): break", None),
        ("if step == len(data) / 8: break", None),
        ("if step + 1 == len(data) // 8: break", None),
        ("if step < len(data) // 8: break", None),
        ("if step == len(data) // 8: print(step)", None),
    ],
)
def test_a_loop_that_ends_after_the_full_batches(condition: str, batches: str | None) -> None:
    made = "data = list(X)\nloader = DataLoader(data, batch_size=8)\nwhole = len(data) // 8\n"
    facts = Facts(
        f"{BEFORE}{made}for step, i in enumerate(loader):\n    {condition}\n    {STEP}\n    optimizer.step()\n"
    )
    numbers = ItemNumbers(facts.program, facts.roles, facts.tracer, facts.training)
    loop_node = facts.statement("for step")
    (found,) = numbers.never_counted(loop_node, lambda e: getattr(e, "id", "") == "loader")  # type: ignore[arg-type]  # a loop
    assert (texts([found.batches]) if found.batches is not None else [None]) == [batches]


@pytest.mark.parametrize(
    ("body", "items"),
    [
        ("if step == len(xs) - 1: optimizer.step()", ["len(xs)"]),
        ("last = step + 1 == count", ["count"]),
        ("k = k + 1\nif k % count == 0: optimizer.step()", ["count"]),
        ("if step == n: optimizer.step()", []),
        ("if step * 8 == len(xs): optimizer.step()", []),
        ("if step == len(Y): optimizer.step()", []),
    ],
)
def test_the_number_of_items_that_a_loop_goes_over(body: str, items: list[str]) -> None:
    made = "xs, k = list(range(n)), 0\ncount = len(xs)\n"
    indented = body.replace("\n", "\n    ")
    facts = Facts(f"{BEFORE}{made}for step, i in enumerate(xs):\n    {STEP}\n    {indented}\n")
    numbers = ItemNumbers(facts.program, facts.roles, facts.tracer, facts.training)
    found = numbers.own_ends(facts.statement("for step"), facts["xs#2"])  # type: ignore[arg-type]  # a loop
    assert texts(counted for _, counted in found) == items


BEHIND = """\
import torch
where = 0
class Sessions:
    def __init__(self):
        self.where = self.epoch = 0
    def __iter__(self):
        self.epoch += 1
        for k in range(0, 16, 4):
            self._move(k)
            yield data[k:k + 4]
    def _move(self, k):
        self.where = k
class Counted:
    def __iter__(self):
        return self
    def __next__(self):
        self.where = self.where + 1
        return data[self.where]
def lines():
    global where
    for k in range(9):
        where = k
        yield k
def used():
    return sessions.where
sessions, counted = Sessions(), Counted()
for x in {source}:
    use({read})
"""


@pytest.mark.parametrize(
    ("source", "read", "found"),
    [
        ("sessions", "sessions.where", ["sessions.where"]),
        ("enumerate(sessions)", "sessions.where", ["sessions.where"]),
        ("sessions", "used()", ["sessions.where"]),
        ("sessions", "sessions.epoch", []),  # the same for all items
        ("sessions", "counted.where", []),
        ("counted", "counted.where", ["counted.where"]),
        ("lines()", "where", ["where"]),
        ("range(9)", "where", []),
    ],
)
def test_state_that_the_iterator_has_set_for_later_items(source: str, read: str, found: list[str]) -> None:
    facts = Facts(BEHIND.format(source=source, read=read))
    loop = facts.statement(f"for x in {source}")
    assert isinstance(loop, ast.For)
    assert texts(read_behind(facts.program, loop, loop.iter)) == found


@pytest.mark.parametrize(
    ("condition", "is_chosen"),
    [
        ("k == held", True),
        ("k + 1 == held", True),
        ("k in (held, held - 1)", True),
        ("k == limit", False),
        ("k < held", True),
        ("k == len(loader) - 1", False),
    ],
)
def test_a_batch_chosen_by_its_number(condition: str, is_chosen: bool) -> None:
    loop = f"for held in range(6):\n    for k, x in enumerate(loader):\n        if {condition}: continue\n        "
    facts = Facts(f"{BEFORE}loader, limit = DataLoader(X), int(input())\n{loop}model(x).sum().backward()\n")
    numbers = ItemNumbers(facts.program, facts.roles, facts.tracer, facts.training)
    found = numbers.chosen(facts.statement("for k"))  # type: ignore[arg-type]  # a loop
    assert texts(found) == ([condition] if is_chosen else [])


STRIDED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
SIZE = 4
X, Y = torch.randn(64, 4), torch.randn(64, 2)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def parts(rows):
    x = torch.stack(rows)
    return [x[i:i + 4] for i in range(0, len(rows), 4)]
loader = DataLoader(X, batch_size=SIZE * 4, collate_fn=parts)
batches = 64 // SIZE
"""
OF_A_RANGE = "for epoch in range(3):\n    for i, k in enumerate(range(0, 64, SIZE)):\n"
OF_GROUPS = "for epoch in range(3):\n    for n, group in enumerate(loader):\n        for i, x in enumerate(group):\n"
OF_BATCHES = "for epoch in range(3):\n    for i, x in enumerate(DataLoader(X, batch_size=SIZE)):\n"
OF_LOADER = "for epoch in range(3):\n    for i, x in enumerate(loader):\n"


def skipping(loops: str, body: str) -> list[str]:
    """The numbers that skip values on each of N processes, and are asked for."""
    indent = " " * 4 * loops.count("for ")
    data = "X[k:k + SIZE]" if loops is OF_A_RANGE else "x"
    lines = [f"model({data}).pow(2).mean().backward()", "optimizer.step()", "optimizer.zero_grad()", *body.split("\n")]
    facts = Facts(STRIDED + loops + "".join(f"{indent}{line}\n" for line in lines))
    numbers = ItemNumbers(facts.program, facts.roles, facts.tracer, facts.training)
    loop = facts.statement(loops.strip().split("\n")[-1].strip().split(" in ")[0])
    is_sequence = facts.script.prepared.is_sharded_sequence(loop)  # type: ignore[arg-type]  # a loop
    found = numbers.skipping(loop, facts.script.prepared.is_loader, is_sequence=is_sequence)  # type: ignore[arg-type]  # a loop
    return texts(each.node for each in found)


SAVES = "torch.save(model.state_dict(), 'm.pt')"


@pytest.mark.parametrize(
    ("loops", "body", "number"),
    [
        (OF_A_RANGE, f"step = epoch * batches + i\nif step % 8 == 0: {SAVES}", "epoch * batches + i"),
        (OF_A_RANGE, f"step = i + 1 + (epoch - 1) * batches\nif step == 30: {SAVES}", "i + 1 + (epoch - 1) * batches"),
        (OF_A_RANGE, f"if (epoch * batches + i) % 8 == 0: {SAVES}", "epoch * batches + i"),
        (OF_GROUPS, f"step = n * SIZE + i\nif step % 8 == 0: {SAVES}", "n * SIZE + i"),
        (
            OF_GROUPS,
            f"step = n * SIZE + i + epoch * len(loader) * SIZE\nif not step % 8: {SAVES}",
            "n * SIZE + i + epoch * len(loader) * SIZE",
        ),
        (OF_BATCHES, f"if (epoch * (len(X) // SIZE) + i) % 8 == 0: {SAVES}", "epoch * (len(X) // SIZE) + i"),
    ],
)
def test_numbers_that_skip_values(loops: str, body: str, number: str) -> None:
    assert skipping(loops, body) == [number]


@pytest.mark.parametrize(
    ("loops", "body"),
    [
        (OF_A_RANGE, "print(epoch * batches + i)"),  # no condition asks for it
        (OF_A_RANGE, f"if i % 8 == 0: {SAVES}"),
        (OF_A_RANGE, f"if epoch * batches + i > 100: {SAVES}"),  # it comes there, if later
        (OF_A_RANGE, f"if (epoch + i) % 8 == 0: {SAVES}"),
        (
            OF_BATCHES.replace("DataLoader(X, batch_size=SIZE)", "loader"),
            f"if (epoch * len(loader) + i) % 8 == 0: {SAVES}",
        ),
    ],
)
def test_numbers_that_skip_no_values(loops: str, body: str) -> None:
    assert skipping(loops, body) == []
