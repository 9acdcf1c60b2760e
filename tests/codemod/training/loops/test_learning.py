"""What each backward pass learns from."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.loops.learning import Learning
from accelify.codemod.training.loops.loops import Loops
from tests.codemod.facts import Facts, spelling
from tests.codemod.training.loops.described import kinds


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("for x, y in loader:", "loaders"),
        ("for i, (x, y) in enumerate(loader):", "loaders"),
        ("for x, y in tqdm(loader):", "loaders"),
        ("for x, y in zip(loader, loader):", "loaders"),
        ("for i in range(0, len(rows), 2):\n        x = y = rows[i:i + 2]", "sequence"),
        ("for x, y in batches():", "sequence"),
        ("for _ in range(10):\n        x = y = torch.randn(3)", "random"),
        ("for _ in range(10):\n        x = y = rows", "full"),
        ("while True:\n        x, y = next(it)", "loaders"),
        ("for own in Tasks():\n      for x, y in own:", "loaders"),
        ("for k, own in enumerate(Tasks()):\n      for x, y in own:", "loaders"),
        ("for _ in range(10):\n        x, y = next(iter(DataLoader(rows)))", "loaders"),
        ("for _ in range(10):\n        _, (x, y) = next(enumerate(loader))", "loaders"),
        ("for _ in range(10):\n        _, (x, y) = enumerate(loader).__next__()", "loaders"),
        ("own = enumerate(loader)\n    for _ in range(10):\n        k, (x, y) = next(own)", "loaders"),
        ("own = enumerate(rows)\n    for _ in range(10):\n        k, x = y = next(own)", "full"),
        # A task of each round's own is one batch, and is not divided.
        ("for _ in range(10):\n        _, (x, y) = next(enumerate(task(rows)))", "full"),
        ("for _ in range(10):\n        x, y = next(iter(DataLoader(TensorDataset(torch.randn(3)))))", "random"),
        ("for _ in range(10):\n        own = iter(task(torch.randn(3)))\n        x, y = own.__next__()", "random"),
        ("for _ in range(10):\n        x, y = next(iter(task(rows)))", "full"),
        ("own = iter(task(rows))\n    for _ in range(10):\n        x, y = next(own)", "loaders"),
    ],
)
def test_what_a_loop_learns_from(head: str, kind: str) -> None:
    text = f"""\
import torch
from torch import nn
from tqdm import tqdm
from torch.utils.data import DataLoader, TensorDataset
def task(drawn): return DataLoader(TensorDataset(drawn), 25)
class Tasks:
    def __init__(self): self.loaders = [DataLoader(r, 25) for r in load()]
    def __getitem__(self, k): return self.loaders[k]
rows = load()
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters())
loader = DataLoader(rows)
it = iter(loader)
for epoch in range(3):
    {head}
        loss = f(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    assert kinds(Facts(text)) == [kind]


ASKING = """\
import torch
from torch.utils.data import DataLoader
def forever(loader):
    while True:
        yield from loader
def get(batches):
    return next(batches)
model, other = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters())
batches = {made}
for outer in range(3):
    {asked}
    for inner in range(5):
        {within}
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("made", ["forever(DataLoader(load()))", "iter(DataLoader(load()))"])
@pytest.mark.parametrize(
    ("asked", "within", "found"),
    [
        ("x = next(batches)", "pass", ["outer"]),
        ("x = get(batches)", "pass", ["outer"]),
        ("with torch.no_grad(): x = other(next(batches))", "pass", ["outer"]),
        ("pass", "x = next(batches)", ["inner"]),
        ("x = next(batches)", "x = x + next(batches)", ["inner"]),
        ("x = get(batches)", "x = get(batches)", ["inner"]),
    ],
)
def test_the_loop_that_asks_for_batches(made: str, asked: str, within: str, found: list[str]) -> None:
    """One that takes several steps on a batch asks for none."""
    loops = {d.loop for d in Facts(ASKING.format(made=made, asked=asked, within=within)).training.data}
    assert [
        loop.target.id for loop in loops if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name)
    ] == found


CRITIC = """
import torch
class Critic(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.Adam(self.net.parameters())
    def forward(self, fake, real):
        {step}
        return -self.net(fake).mean()
"""


STEPS = [
    "loss = self.net(fake.detach()).mean()\n        loss.backward()\n        self.optimizer.step()",
    "mix = real * torch.rand_like(real)\n        self.net(mix).mean().backward()\n        self.optimizer.step()",
    "for k in (1, 2):\n            self.net(real * torch.rand(1)).mean().backward()\n            self.optimizer.step()",
]


@pytest.mark.parametrize("step", STEPS)
def test_what_unknown_callers_pass_is_given(step: str) -> None:
    assert kinds(Facts(CRITIC.format(step=step))) == ["given"]


@pytest.mark.parametrize("step", STEPS)
def test_a_critic_that_a_loss_of_another_file_holds_trains_on_its_caller_s_batches(step: str) -> None:
    wrapped = """
        import torch
        from critics import Critic
        class Loss(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.function = Critic()
            def forward(self, fake, real):
                return self.function(fake, real)
    """
    main = """
        import torch
        from losses import Loss
        model, loss_of = torch.nn.Linear(4, 4), Loss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in torch.utils.data.DataLoader(rows):
            loss_of(model(x), x).backward()
            optimizer.step()
    """
    facts = Facts({"main.py": main, "losses.py": wrapped, "critics.py": CRITIC.format(step=step)})
    assert kinds(facts) == ["loaders"]
    assert len(facts.training.backwards) == 2


ONE_PASS = """\
import torch
from torch import nn
x, ys, weights = torch.randn(64, 4), torch.randn(3, 64), torch.ones(3)
model, criterion = nn.Linear(4, 3), nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def objectives():
    out = model(x)
    return [criterion(out[:, k], ys[k]) for k in range(3)]
def go_back(part):
    part.backward(retain_graph=True)
for step in range(20):
    optimizer.zero_grad()
    {before}
    {loop}
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("before", "loop", "kind"),
    [
        ("parts = objectives()", "for i in range(3): parts[i].backward(retain_graph=True)", "full"),
        ("parts = objectives()", "for part in parts: part.backward(retain_graph=True)", "full"),
        ("parts = objectives()", "for part in parts: go_back(part)", "full"),
        ("parts = objectives()", "for k, w in enumerate(weights): (w * parts[k]).backward(retain_graph=True)", "full"),
        ("out = model(x)", "for k in range(3): criterion(out[:, k], ys[k]).backward(retain_graph=True)", "full"),
        # What runs the model in the loop learns from the items of the loop.
        ("", "for i in range(0, 64, 8): criterion(model(x[i:i + 8]), ys.T[i:i + 8]).backward()", "sequence"),
        ("out = model(x)", "for i in range(0, 64, 8): model(out[i:i + 8]).sum().backward()", "sequence"),
        ("w = model.weight", "for i in range(0, 64, 8): (x[i:i + 8] @ w.T).sum().backward()", "sequence"),
    ],
)
def test_parts_of_a_loss_are_no_data(before: str, loop: str, kind: str) -> None:
    assert kinds(Facts(ONE_PASS.format(before=before, loop=loop))) == [kind]


def test_nor_are_they_in_a_closure() -> None:
    """As for gradients that are combined by hand, each objective's on its own."""
    loop = "for i in range(3): parts[i].backward(retain_graph=True)"
    text = ONE_PASS.format(before="def closure():\n        parts = objectives()", loop=f"    {loop}")
    assert kinds(Facts(text.replace("optimizer.step()", "optimizer.step(closure)"))) == ["full"]


TASKS = """\
import torch
from torch import nn
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = torch.load("batches.pt")
def gradients():
    return [p.grad.clone() for p in model.parameters()]
def step(tasks):
    found = []
    {before}
    for x, y in tasks:
        {cleared}
        nn.functional.cross_entropy(model(x), y).backward()
        {after}
    merge(model, found)
    {last}
for i in range(9):
    step([(x[i], y[i]) for x, y in batches])
"""


APART = {"before": "pass", "cleared": "optimizer.zero_grad()", "after": "found.append(gradients())"}


@pytest.mark.parametrize(
    ("changed", "is_sharded"),
    [
        ({"last": "optimizer.step()"}, False),
        ({"cleared": "model.zero_grad()", "after": "found += gradients()", "last": "optimizer.step()"}, False),
        ({"before": "optimizer.zero_grad()", "cleared": "pass", "last": "optimizer.step()"}, True),
        ({"after": "optimizer.step()", "last": "pass"}, True),
    ],
)
def test_gradients_that_are_put_aside_for_one_step_are_of_all_parts(changed: dict[str, str], is_sharded: bool) -> None:
    facts = Facts(TASKS.format(**(APART | changed)))
    (data,) = facts.training.data
    assert isinstance(data.loop, ast.For)
    assert (data.kind, spelling(data.loop.iter)) == ("sequence", "tasks" if is_sharded else "range(9)")


def test_what_is_sharded_comes_before_what_is_drawn_at_random() -> None:
    head = "model = nn.Linear(1, 1)\nopt, loader = torch.optim.SGD(model.parameters()), DataLoader(d)\n"
    step = "def step(x):\n    model(x).mean().backward()\n    opt.step()\n"
    loops = "for i in range(9):\n    step(torch.randn(2))\nfor x in loader:\n    step(x)\n"
    facts = Facts(f"import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n{head}{step}{loops}")
    found, (backward,) = Loops(facts.program, facts.roles, facts.tracer), facts.training.backwards
    data = found.learning.all(backward, facts.training.loops[backward], list(facts.training.steps))
    assert isinstance(found.learning, Learning)
    assert [each.kind for each in data] == ["loaders", "random"]
