"""What loops over a script's own data shard."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.loops.iterables import Iterables
from accelify.codemod.training.loops.own_data import OwnData
from tests.codemod.facts import MARK, Facts
from tests.codemod.training.loops.described import kinds

WALK = """\
import numpy as np
import torch
from torch import nn
rows = torch.randn(400, 4)
def piece(source, at, size):
    return source[at : at + size]
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
i = k = 0
while {test}:
    size = max(5, int(np.random.normal(20, 5)))
    x = {x}
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
    {moved}
"""


@pytest.mark.parametrize(
    ("test", "x", "moved", "kind"),
    [
        ("i < 400", "rows[i : i + size]", "i += size", "full"),
        ("i < len(rows)", "piece(rows, i, size)", "i += size", "full"),
        ("True", "rows[i : i + size]", "i += size\n    if i > 400: break", "full"),
        ("i < 400", "rows[i : i + 8] + torch.randn(8, 4)", "i += 8", "full"),
        ("k < 400", "rows[np.random.randint(0, 400, size)]", "k += 1", "random"),
        ("k < 400", "rows[i : i + size]", "k += 1\n    i = np.random.randint(0, 300)", "random"),
        ("k < 400", "torch.randn(size, 4)", "k += size", "random"),
    ],
)
def test_pieces_of_drawn_lengths_one_after_the_other_are_the_same_everywhere(
    test: str, x: str, moved: str, kind: str
) -> None:
    assert [d.kind for d in Facts(WALK.format(test=test, x=x, moved=moved)).training.data] == [kind]


@pytest.mark.parametrize("name", ["step", "update", "log"])
def test_a_method_of_the_project_that_gives_the_loss_does_not_only_show_its_batch(name: str) -> None:
    text = f"""\
        class Runner:
            def __init__(self, batches, net, opt):
                self.batches, self.net, self.opt = batches, net, opt
            def {name}(self, batch):
                return self.net(batch[0]).mean()
            def run(self):
                for batch in self.batches:
                    loss = self.{name}(batch)
                    self.opt.zero_grad()
                    loss.backward()
                    self.opt.step()
    """
    assert kinds(Facts(text)) == ["loaders"]


BEFORE = """\
import torch
from sklearn.model_selection import GroupKFold, KFold
from torch import nn
rows, names, nets = load(), [], [nn.Linear(1, 1), nn.Linear(2, 2)]
class Batches:
    def __iter__(self): yield 1
    def __len__(self): return 1
class Items:
    def __getitem__(self, i): return 1
class Learner:
    def update(self, x): self.learn(x)
    def learn(self, x): self.net(x).backward()
    def append(self, x): self.learn(x)
class Meter:
    def update(self, x): self.all.append(x)
def pick(i):
    return rows[i]
"""


def own(loop: str) -> tuple[str, str] | None:
    facts = Facts(f"{BEFORE}{loop}")
    (node,) = (n for n in facts.marked if isinstance(n, (ast.For, ast.While)))
    found = own_data(facts).own(node)
    return None if found is None else (found[0], ast.unparse(found[1]))


@pytest.mark.parametrize(
    ("loop", "kind", "source"),
    [
        (f"for i in range(9):  {MARK}\n    f(rows[i])\n", "sequence", "range(9)"),
        (f"for i in range(9):  {MARK}\n    j = i * 2\n    f(rows[j:j + 2])\n", "sequence", "range(9)"),
        (f"for i in range(9):  {MARK}\n    f(pick(i))\n", "sequence", "range(9)"),
        (f"for i in reversed(range(9)):  {MARK}\n    f(rows[i])\n", "sequence", "range(9)"),
        (f"for x in rows:  {MARK}\n    f(x)\n", "sequence", "rows"),
        (f"for i in range(9):  {MARK}\n    f(rows[:i], rows[i:])\n", "sequence", "range(9)"),
        (f"for i in range(9):  {MARK}\n    f(rows[:-i], rows[i:])\n", "sequence", "range(9)"),
        (
            f"def train(x): loss(x).backward()\nfor i in range(9):  {MARK}\n    a[i] = train(rows[i])\n",
            "sequence",
            "range(9)",
        ),
        (f"for i in range(9):  {MARK}\n    if i != last: g()\n    f(rows[i])\n", "sequence", "range(9)"),
        # What is calculated without gradients may be what is trained on.
        (
            f"for i in range(9):  {MARK}\n    with torch.no_grad():\n        x = g(rows[i])\n    f(x)\n",
            "sequence",
            "range(9)",
        ),
        (f"for i in range(9):  {MARK}\n    with torch.no_grad():\n        a.x = rows[i]\n", "sequence", "range(9)"),
        # So may be what is picked in some rounds.
        (f"for i in range(9):  {MARK}\n    if i % 3 == 0:\n        x = rows[i]\n    f(x)\n", "sequence", "range(9)"),
        (f"for i in range(9):  {MARK}\n    if i > 2:\n        a.x = rows[i]\n    f(a)\n", "sequence", "range(9)"),
        (
            f"for i in range(9):  {MARK}\n    if i in g():\n        names[0] = rows[i]\n    f(names)\n",
            "sequence",
            "range(9)",
        ),
        (
            f"for i in range(9):  {MARK}\n    if i in g():\n        loss(rows[i]).backward()\n",
            "sequence",
            "range(9)",
        ),
        (f"for i, x in enumerate(rows):  {MARK}\n    f(x)\n", "sequence", "rows"),
        # What a method of text gives is made of it.
        (f"for x in rows:  {MARK}\n    f([index[w] for w in x[0].split()])\n", "sequence", "rows"),
        (f"for x in rows:  {MARK}\n    words = x.strip().lower()\n    f(words)\n", "sequence", "rows"),
        (f"for i in range(9):  {MARK}\n    f(encode(rows[i].split()))\n", "sequence", "range(9)"),
        (f"for x in rows:  {MARK}\n    f(x.format(3))\n", "sequence", "rows"),
        (f"for x in Batches():  {MARK}\n    f(x)\n", "loaders", "Batches()"),
        (f"for x in Items():  {MARK}\n    f(x)\n", "sequence", "Items()"),
        # What a method does says whether it learns, not its name.
        (f"for x in Batches():  {MARK}\n    Learner().update(x)\n", "loaders", "Batches()"),
        (f"for x in rows:  {MARK}\n    Learner().append(x)\n", "sequence", "rows"),
        (f"for i in range(9):  {MARK}\n    Learner().update(rows[i])\n", "sequence", "range(9)"),
        (f"def g(batches):\n    for x in batches:  {MARK}\n        f(x)\n", "loaders", "batches"),
    ],
)
def test_what_a_loop_shares_out(loop: str, kind: str, source: str) -> None:
    assert own(loop) == (kind, source)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ("[g(i) for i in range(9)]", "sequence"),
        ("[]\n    for i in range(9): batches.append(g(i))", "sequence"),
        ("list(torch.randn(9, 1))", "sequence"),
        ("sorted(rows)", "sequence"),
        ("None", "loaders"),
        ("[]", "loaders"),
        ("list(given)", "loaders"),
        ("zip([g(i) for i in range(9)], given)", "loaders"),
        ("{}\n    for i in range(9): batches[g(i)] = i", "loaders"),
    ],
)
def test_a_list_is_no_loader_whatever_else_is_gone_over(made: str, kind: str) -> None:
    assert branches(made, "given") == (kind, "batches")


@pytest.mark.parametrize(
    ("made", "other", "kind"),
    [
        ("None", "torch.load(path)['train']", "sequence"),
        ("None", "next(iter(torch.load(path).values()))", "sequence"),
        ("given", "torch.randn(9, 4, 1)", "sequence"),
        ("given", "torch.randn(9, 1).split(3)", "sequence"),
        ("given", "given.loader", "loaders"),
        ("None", "somebody.Data(path).loader", "loaders"),
    ],
)
def test_what_is_read_from_a_file_may_be_a_list(made: str, other: str, kind: str) -> None:
    assert branches(made, other) == (kind, "batches")


def branches(made: str, other: str) -> tuple[str, str] | None:
    """The data of a loop over one of two values."""
    loop = f"    for k, x in enumerate(batches):  {MARK}\n        f(x)\n"
    return own(f"import somebody\ndef g(path, given):\n    batches = {made}\n    if path: batches = {other}\n{loop}")


@pytest.mark.parametrize(
    "loop",
    [
        f"for i in range(9):  {MARK}\n    f(i)\n",
        f"for i in range(9):  {MARK}\n    print(names[i])\n",
        f"for epoch in range(num_epochs):  {MARK}\n    f(rows[epoch])\n",
        f"for i in range(9):  {MARK}\n    f(nets[i](x))\n",
        f"for x in [1, 2]:  {MARK}\n    f(x)\n",
        f"for x in rows:  {MARK}\n    print(x)\n",
        f"for x in rows:  {MARK}\n    print(x.upper())\n",
        f"for x in rows:  {MARK}\n    names.append(x.strip())\n",
        f"for x in rows:  {MARK}\n    s = 'of {{}}'.format(x)\n",
        f"for x in rows:  {MARK}\n    Meter().update(x)\n",
        f"for net in nets:  {MARK}\n    net(x)\n",
        f"while rows:  {MARK}\n    f(rows.pop())\n",
        f"for i in range(9):  {MARK}\n    with torch.no_grad():\n        f(rows[:i])\n",
        f"for i in range(9):  {MARK}\n    with torch.no_grad():\n        f(pick(i))\n",
        f"for i in range(9):  {MARK}\n    with torch.no_grad():\n        x = rows[:i]\n    x = g()\n    f(x)\n",
        # What is picked in some rounds, of which the rest of the loop reads nothing, only evaluates.
        f"for i in range(9):  {MARK}\n    f(g())\n    if i % 3 == 0:\n        print(h(rows[i // 3]))\n",
        f"for i in range(9):  {MARK}\n    f(g())\n    if i % 3: log = {{}} | h(pick(i))\n    print(log)\n",
        f"for i in range(9):  {MARK}\n    x = g()\n    f(x)\n    if i % 3:\n        x = rows[i]\n        h(x)\n",
        # The same name holds a draw where it picks what is trained on.
        f"for i in range(9):  {MARK}\n    k = g()\n    f(rows[k])\n    if i % 3:\n        k = i\n        h(rows[k])\n",
        f"for batch in rows:\n    for x in batch:  {MARK}\n        f(x)\n",
        f"def train(): loss().backward()\nfor i in range(9):  {MARK}\n    a[i + 1] = a[i] + train()\n    f(a[i])\n",
        # A fold is no batch: all processes train on nearly all rows.
        f"for k, (train, _) in enumerate(KFold(5).split(rows)):  {MARK}\n    f(rows[train])\n",
        f"folds = list(GroupKFold(5).split(rows))\nfor k in range(5):  {MARK}\n    f(rows[folds[k][0]])\n",
        f"for k in range(5):  {MARK}\n    f(rows[rows.fold != k])\n",
        f"for k in range(5):  {MARK}\n    train = group != k\n    f(rows[train])\n",
        f"for k in range(5):  {MARK}\n    f(rows[:k] + rows[k + 1 :])\n",
        f"for k, held in enumerate(rows):  {MARK}\n    f(rows[:k] + rows[k + 1 :])\n",
        f"for k in range(5):  {MARK}\n    a, b = k * 9, k * 9 + 9\n    f(torch.cat([rows[:a, :2], rows[b:, :2]]))\n",
        f"def rest(of, i):\n    return of[:i] + of[i + 1 :]\nfor k in range(5):  {MARK}\n    f(rest(rows, k))\n",
    ],
)
def test_loops_that_share_out_nothing(loop: str) -> None:
    assert own(loop) is None


def test_a_loop_over_what_an_environment_told() -> None:
    text = f"""\
        import gym
        env = gym.make("x")
        memory = []
        for i in range(9):
            obs, reward, done, info = env.step(0)
            memory.append(obs)
        for x in memory:  {MARK}
            f(x)
    """
    facts = Facts(text)
    loop = facts.here
    assert isinstance(loop, ast.For)
    data = own_data(facts)
    assert data.is_own_experience(loop, loop.iter)
    other = Facts(text.replace("memory.append(obs)", "pass"))
    node = other.here
    assert isinstance(node, ast.For)
    assert not own_data(other).is_own_experience(node, node.iter)


CHOSEN = """\
import torch
from itertools import count
from torch import nn
tasks = [torch.randn(20, 5) for _ in range(6)]
net = nn.Linear(5, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def step(x):
    net(x).mean().backward()
    optimizer.step()
for held in range(6):
    k = 0
    {loop}
        {body}
"""


PAIRS = "for k, t in enumerate(tasks):"


@pytest.mark.parametrize(
    ("loop", "body", "kind"),
    [
        (PAIRS, "if k == held: continue\n        step(t)", "full"),
        (PAIRS, "if k != held: step(t)", "full"),
        (PAIRS, "out = k in [held, held + 1]\n        if out: continue\n        step(t)", "full"),
        (PAIRS, "if k % 3 == held: continue\n        step(t)", "full"),
        (PAIRS, "if k == 3: continue\n        step(t)", "full"),
        (PAIRS, "if k < held: step(t)", "full"),
        ("for k, t in zip(range(6), tasks):", "if k == held: continue\n        step(t)", "full"),
        ("for k, t in zip(count(), tasks):", "if k // 2 == held: continue\n        step(t)", "full"),
        ("for k in range(6):", "if k == held: continue\n        step(tasks[k])", "full"),
        ("for t in tasks:", "k += 1\n        if k - 1 == held: continue\n        step(t)", "full"),
        # Where a run ends, and what is done now and then, is no choice of items.
        (PAIRS, "if k == held: break\n        step(t)", "sequence"),
        (PAIRS, "if k == held: print(k)\n        step(t)", "sequence"),
        (PAIRS, "if k > 3: step(t)", "sequence"),
        (PAIRS, "if k % held == held - 1: step(t)", "sequence"),
        (PAIRS, "if t.sum() == held: continue\n        step(t)", "sequence"),
        ("for t in tasks:", "k += 1\n        if k < held: continue\n        step(t)", "sequence"),
    ],
)
def test_items_chosen_by_their_number_are_not_sharded(loop: str, body: str, kind: str) -> None:
    assert [d.kind for d in Facts(CHOSEN.format(loop=loop, body=body)).training.data] == [kind]


MAKE = """\
def build(width, rate=0.1):
    print(rate)
    net = nn.Linear(4, width)
    return net, torch.optim.Adam(net.parameters(), lr=rate)
"""


@pytest.mark.parametrize(
    ("body", "source"),
    [
        ("o = torch.optim.Adam(nets[0].parameters(), x)\n    g().backward()", None),
        ("o = torch.optim.Adam(nets[0].parameters(), lr=10**x)\n    print(x, g())", None),
        ("net, o = build(4, x)\n    f(net)", None),
        ("net, o = build(width=x)\n    f(net)", None),
        ("o = torch.optim.Adam(nets[0].parameters(), x)\n    f(x)", "rows"),
        ("net, o = build(4, x)\n    f(net(x))", "rows"),
    ],
)
def test_what_only_says_how_to_make_an_optimizer_is_no_data(body: str, source: str | None) -> None:
    assert own(f"{MAKE}for x in rows:  {MARK}\n    {body}\n") == (("sequence", source) if source else None)


def own_data(facts: Facts) -> OwnData:
    code = facts.program, facts.roles, facts.tracer
    return OwnData(*code, Iterables(*code))


@pytest.mark.parametrize(
    ("made", "is_data"),
    [
        ("[(a, b) for a in rates for b in sizes]", False),
        ("[(a, b) for a in [1, 2] for b in sizes if a < b]", False),
        ("[{'rate': a} for a in rates]", False),
        ("[(a, row) for a in rates for row in rows]", True),
        ("[load(size) for size in sizes]", True),
        ("[row for row in rows]", True),
    ],
)
def test_settings_combined_from_lists_are_no_data(made: str, is_data: bool) -> None:
    found = own(f"rates, sizes = [0.1, 0.2], (4, 8)\npairs = {made}\nfor pair in pairs:  {MARK}\n    f(pair)\n")
    assert found == (("sequence", "pairs") if is_data else None)
