"""Facts about training code: its backward passes and steps, the loops round them, and what they go over."""

from __future__ import annotations

import ast
import dataclasses

import pytest

from accelify.codemod.training.loops import Loops, Training
from tests.codemod.facts import Facts, spelling, texts
from tests.codemod.training_scripts import training


def kinds(facts: Facts) -> list[str]:
    return [data.kind for data in facts.training.data]


def test_the_common_training_loop() -> None:
    found = training().training
    assert texts(found.backwards) == ["loss.backward()"]
    assert texts(found.steps) == ["optimizer.step()"]
    (data,) = found.data
    assert data.kind == "loaders"
    assert texts(data.sources) == ["loader"]
    (loops,) = found.loops.values()
    assert [spelling(n).partition(":")[0] for n in loops] == ["for x, y in loader", "for epoch in range(2)"]


def test_a_script_that_does_not_train() -> None:
    found = Facts("x.forward()\n").training
    assert (found.backwards, found.steps, found.data) == ((), (), ())


@pytest.mark.parametrize(
    "call",
    ["z, log_det = flow.backward(x)", "y = flow.backward(x)", "super().backward()", "accelerator.backward(loss)"],
)
def test_what_is_called_backward_and_is_none(call: str) -> None:
    assert Facts(f"class A(B):\n    def f(self):\n        {call}\n").training.backwards == ()


def test_a_backward_of_the_project_s_own_is_none() -> None:
    facts = Facts("class A:\n    def backward(self): pass\na = A()\na.backward()\n")
    assert facts.training.backwards == ()


def test_loops_through_functions_and_closures() -> None:
    text = """\
        import torch
        def step(x):
            loss = f(x)
            loss.backward()
        def train(rows):
            for row in rows:
                step(row)
        for epoch in range(3):
            train(data)
        def closure():
            g().backward()
        optimizer = torch.optim.LBFGS(p)
        for other in things:
            optimizer.step(closure)
    """
    facts = Facts(text)
    found = [[ast.unparse(n.target) for n in loops] for loops in facts.training.loops.values()]  # type: ignore[union-attr]
    assert found == [["row", "epoch"], ["other"]]


def test_a_backward_that_nothing_runs() -> None:
    files = {"main.py": "import other\nother.f()\n", "other.py": "def f(): pass\ndef g(): loss().backward()\n"}
    assert Facts(files).training.backwards == ()


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


def test_loaders_whose_batches_a_loop_yields() -> None:
    facts = training(
        end="def g(it):\n    for b in it:\n        yield b\nfor z in g(loader): pass\nfor w in range(3): pass\n"
    )
    loops = Loops(facts.program, facts.roles, facts.tracer)
    found = {ast.unparse(n.target): loops.is_loader_loop(n) for n in facts.files[0].nodes if isinstance(n, ast.For)}
    assert found == {"epoch": False, "(x, y)": True, "b": True, "z": True, "w": False}
    assert texts(loops.yielded_from(facts.scope("g"))) == ["it"]


@pytest.mark.parametrize(
    ("rows", "is_loader"),
    [
        ("rows = next(iter(loader))\nif f(): rows = torch.stack(list(rows))", False),
        ("for rows in loader: break\nrows = rows if f() else torch.randn(4, 1)", False),
        ("rows = enumerate(next(iter(loader)) if f() else torch.randn(4, 1))", False),
        ("rows = next(iter(loader))\nif f(): rows = DataLoader(rows)", True),
        ("rows = enumerate(loader)", True),
    ],
)
def test_the_rows_of_a_batch_are_no_batches(rows: str, is_loader: bool) -> None:
    facts = training(end=f"{rows}\nfor r in rows: pass")
    loop = next(n for n in facts.files[0].nodes if isinstance(n, ast.For) and ast.unparse(n.target) == "r")
    assert Loops(facts.program, facts.roles, facts.tracer).is_loader_loop(loop) is is_loader


def test_training_is_frozen() -> None:
    found = training().training
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.steps = ()  # type: ignore[misc]
    assert isinstance(found, Training)


@pytest.mark.parametrize(
    ("body", "loaders"),
    [
        ("    loader = DataLoader(d)\n    for b in loader:\n        yield b", ["loader"]),
        ("    while True:\n        yield from DataLoader(d)", ["DataLoader(d)"]),
        ("    it = iter(DataLoader(d))\n    while True:\n        a, b = next(it)\n        yield a * 2, b", ["it"]),
        ("    for i in range(9):\n        yield i", []),
    ],
)
def test_loaders_that_a_generator_yields_from(body: str, loaders: list[str]) -> None:
    facts = Facts(f"from torch.utils.data import DataLoader\ndef feed():\n{body}\nbatches = feed()\nnext(batches)")
    loops = Loops(facts.program, facts.roles, facts.tracer)
    (generator,) = loops.generators(facts.expression("batches#2"))
    assert texts(loops.yielded_from(generator.scope)) == loaders


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        ("import tensorflow as tf\nit = iter(tf.data.Dataset.from_tensor_slices(x).batch(8))", ["it"]),
        ("from somewhere import sets\ntrain, test = sets.load()\nit = iter(train)", ["it"]),
        ("from somewhere import batches\nit = batches(8)", ["it"]),
        ("import itertools\nit = itertools.count()", []),
        ("def batches():\n    yield x\nit = batches()", []),
    ],
)
def test_iterators_of_libraries_that_are_not_known(made: str, asked: list[str]) -> None:
    text = (
        f"import torch\nm = torch.nn.Linear(1, 1)\no = torch.optim.SGD(m.parameters())\nx = torch.ones(8, 1)\n{made}\n"
    )
    for noise, kind in (("", "full"), (" + torch.randn(1)", "random")):
        facts = Facts(f"{text}for step in range(9):\n    m(f(next(it)){noise}).mean().backward()\n    o.step()\n")
        (data,) = facts.training.data
        assert (data.kind, texts(data.sources)) == (kind, asked)


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


SHARED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rows = load()
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters())
loader = DataLoader(rows)
def update(loss, rounds=1):
    for _ in range(rounds):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{}
for epoch in range(3):
    for x, y in loader:
        update(model(x))
    {}
"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "for _ in range(9):\n        update(model(torch.randn(2)))", ["loaders", "random"]),
        ("while busy():\n    update(model(torch.randn(2)))", "pass", ["loaders", "random"]),
        ("", "for i in range(0, len(rows), 4):\n        update(model(rows[i:i + 4]))", ["loaders", "sequence"]),
        ("", "for _ in range(9):\n        update(model(rows))", ["loaders", "full"]),
        ("", "for x, y in DataLoader(rows):\n        update(model(x))", ["loaders", "loaders"]),
        ("def one(x):\n    update(model(x))", "for x, y in loader:\n        one(x)", ["loaders", "loaders"]),
        ("update(model(rows))", "print(epoch)", ["loaders"]),
    ],
)
def test_a_backward_pass_that_several_loops_share(before: str, after: str, expected: list[str]) -> None:
    assert kinds(Facts(SHARED.format(before, after))) == expected


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


SAMPLES = "held = iter(DataLoader(others))\n"


@pytest.mark.parametrize(
    ("batch", "before", "asked"),
    [
        ("z, _ = next(held)\nsave(model(z))", "", []),  # pictures
        ("show()", "def show():\n    z = next(held)\n    save(model(z))", []),
        ("if f():\n    z, _ = next(held)\n    z = model(z)\n    picture = z.cpu()\n    save(picture)", "", []),
        ("z, _ = next(held)\nloss = model(z).mean()\nloss.backward()", "", ["held"]),
        ("zs = []\nzs.append(next(held))\nloss = model(zs).mean()\nloss.backward()", "", ["held"]),
        ("z = take()\nloss = model(z).mean()\nloss.backward()", "def take():\n    return next(held)", ["held"]),
        ("kept.z = next(held)", "", ["held"]),  # whoever reads that
        ("z = next(held)\nfor part in z.chunk(2):\n    model(part).mean().backward()", "", ["held"]),
        ("z = next(held)\nfor part in z:\n    zs = model(part)\nzs.mean().backward()", "", ["held"]),
        ("z, on = next(held)\nif on.any():\n    more = 2\n(more * model(x)).mean().backward()", "", ["held"]),
        ("fill()", "kept = []\ndef fill():\n    kept.append(next(held))", ["held"]),
    ],
)
def test_batches_that_are_asked_for_and_from_which_nothing_is_learned(
    batch: str, before: str, asked: list[str]
) -> None:
    found = training(set_up=SAMPLES + before, batch=batch).training
    assert [*dict.fromkeys(s for d in found.data for s in texts(d.sources))] == ["loader", *asked]


def test_samples_of_a_generator_that_an_object_keeps() -> None:
    keeping = """\
        class Kept:
            def __init__(self):
                self.samples = self.endless()
            def endless(self):
                while True:
                    own = DataLoader(others)
                    for item in own:
                        yield item
            def show(self):
                z = next(self.samples)
                picture = model(z)
                picture.save("p")
        kept = Kept()
        """
    found = training(set_up=keeping, batch="kept.show()").training
    assert [s for d in found.data for s in texts(d.sources)] == ["loader"]


KERNEL = """\
rows = torch.rand(40, 4)
for i in range(9):
    chosen = torch.randperm(40)[:5]
    out = model(rows[chosen])
    for j in range(5):
        model.zero_grad()
        out[j].backward(retain_graph=True)
        {read}
    def closure():
        optimizer.zero_grad()
        loss = model({learned}).mean()
        loss.backward()
        return loss
    optimizer.step(closure)
"""


@pytest.mark.parametrize(
    ("read", "learned", "kind"),
    [
        ("row[j] = torch.cat([p.grad.view(-1) for p in model.parameters()])", "rows", "full"),
        ("size += model.weight.grad.norm()", "rows", "full"),
        ("row[j] = model.weight.grad", "rows[chosen]", "random"),
        ("row[j] = model.weight.grad", "rows[torch.randperm(40)]", "random"),
        ("optimizer.step()", "rows", "random"),
        ("row[j] = model.weight.grad\n        optimizer.step()", "rows", "random"),
    ],
)
def test_gradients_that_are_read_and_no_step_takes(read: str, learned: str, kind: str) -> None:
    facts = Facts(
        "import torch\nmodel = torch.nn.Linear(4, 1)\noptimizer = torch.optim.LBFGS(model.parameters())\n"
        + KERNEL.format(read=read, learned=learned)
    )
    assert kinds(facts)[0] == kind


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("x.requires_grad_()\n    model.zero_grad()\n    model(x).sum().backward()\n    show(x.grad)", ["loader"]),
        ("x.requires_grad_()\n    model(x).sum().backward()\n    show(x.grad)", ["loader"]),
        ("model(x).sum().backward()\n    norms.append(x.norm())", ["loader", "other"]),
    ],
)
def test_a_loader_whose_gradients_are_shown(shown: str, expected: list[str]) -> None:
    found = training(set_up="other = DataLoader(others)", end=f"for x, _ in other:\n    {shown}").training
    assert [s for d in found.data for s in texts(d.sources)] == expected


CURVES = """\
def fit():
    errors, found = torch.zeros(3), []
    for epoch in range(3):
        for x, y in loader:
            loss = (model(x) - y).mean()
            loss.backward()
            optimizer.step()
        x, y = next(iter(DataLoader(others)))
        loss = (model(x) - y).mean()
        {kept}
    return errors, found
{end}
"""


@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        ("errors[epoch] = loss.item()", []),
        ("found += [loss.item()]", []),
        ("found.append(loss.item())", []),
        ("loss.backward()", ["iter(DataLoader(others))"]),
        ("kept[epoch] = x", ["iter(DataLoader(others))"]),  # whoever reads that
    ],
)
def test_errors_that_a_function_collects_beside_its_training(kept: str, asked: list[str]) -> None:
    head = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\nkept = {}\n"
    made = (
        "model = nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nloader = DataLoader(rows)\n"
    )
    found = Facts(f"{head}{made}{CURVES.format(kept=kept, end='print(fit())')}").training
    assert sorted({s for d in found.data for s in texts(d.sources)} - {"loader"}) == asked


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


GIVEN = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        self.seen = x
        return x.mean()


class Trainer:
    def __init__(self, loader, other):
        self.loader = loader
        self.other = other
        self.batches = iter(self.other)
        self.models = {{"net": Net()}}
        self.optimizer = torch.optim.SGD(self.models["net"].parameters(), lr=0.1)

    def run_epoch(self):
        for x in {over}:
            loss = self.loss(x){inside}
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def fit(self, epochs):
        for _ in range(epochs):
            self.run_epoch()
            {after}

    def show(self):
        x = self.batches.__next__()
        self.models["net"].eval()
        print(self.loss(x))

    def loss(self, x):
        self.output = self.models["net"](x)
        return self.output
"""


@pytest.mark.parametrize(
    ("over", "inside", "after", "found"),
    [
        ("self.loader", "", "self.show()", ["self.loader"]),
        ("tqdm(self.loader)", "", "self.show()", ["self.loader"]),
        ("self.loader", " + self.loss(next(self.batches))", "pass", ["self.loader", "self.batches"]),
        ("self.loader", " + self.loss(self.batches.__next__())", "self.show()", ["self.loader", "self.batches"]),
        ("[next(self.batches) for _ in range(3)]", "", "pass", ["self.batches"]),
        ("range(9)", " + self.loss(next(self.batches))", "pass", ["self.batches"]),
    ],
)
def test_loaders_of_unknown_callers_and_batches_asked_for_beside_them(
    over: str, inside: str, after: str, found: list[str]
) -> None:
    facts = Facts("from tqdm import tqdm\n" + GIVEN.format(over=over, inside=inside, after=after))
    assert [ast.unparse(source) for data in facts.training.data for source in data.sources] == found


CARRIED = """\
import torch
from torch import nn
data, model = torch.randn(40, 3, 4), nn.GRU(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def batches():
    for i in range(0, 40, 5):
        yield data[i:i + 5]
def step(x, state):
    y, state = model(x, state)
    y.mean().backward()
    optimizer.step()
    return state.detach()
for epoch in range(2):
    hidden = torch.zeros(1, 3, 4)
    {head}
"""
BACK = "\n        y.mean().backward()\n        optimizer.step()\n"
SLICES = "for i in range(0, 40, 5):\n        x = data[i:i + 5]\n        "


@pytest.mark.parametrize(
    ("rounds", "state"),
    [
        (SLICES + "y, hidden = model(x, hidden.detach())" + BACK, "hidden"),
        (
            "for x in batches():\n        hidden = tuple(h.data for h in hidden)\n        y, hidden = model(x, hidden)"
            + BACK,
            "hidden",
        ),
        (
            "for x in batches():\n        out = model(hx=hidden, input=x)\n        hidden = out[1].detach(); y = out[0]"
            + BACK,
            "hidden",
        ),
        (SLICES + "hidden = step(x, hidden)\n", "hidden"),
        (SLICES + "hidden = torch.zeros(1, 3, 4)\n        y, hidden = model(x, hidden)" + BACK, None),
        (SLICES + "y, last = model(x, hidden)" + BACK, None),
        (SLICES + "y, last = model(x)\n        y, last = model(y, last)" + BACK, None),
    ],
)
def test_a_state_that_goes_from_batch_to_batch(rounds: str, state: str | None) -> None:
    (data,) = Facts(CARRIED.format(head=rounds)).training.data
    assert (data.kind, data.state and texts([data.state])) == (
        "sequence" if state is None else "full",
        state and [state],
    )
