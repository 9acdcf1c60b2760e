"""Loaders with something round them, and names that hold one loader after another: each is sharded once."""

from __future__ import annotations

from textwrap import indent

import pytest

from accelify.codemod.result import Status
from tests.codemod.pairs import migrated, run

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = """\
x, y = x.to(device), y.to(device)
optimizer.zero_grad()
loss = nn.functional.mse_loss(model(x), y)
loss.backward()
optimizer.step()
"""


def after(text: str) -> str:
    depth = next(len(line) - len(line.lstrip()) for line in text.splitlines() if line.strip() == "STEP")
    return migrated(HEAD + text.replace(" " * depth + "STEP\n", indent(STEP, " " * depth)))


def test_a_progress_bar_over_a_given_loader_is_not_prepared_again() -> None:
    text = after("""\
def train(loader):
    loader = tqdm(loader)
    for step, (x, y) in enumerate(loader):
        STEP
        loader.desc = f"{step}: {loss.item()}"

loader = DataLoader(data, batch_size=2)
for epoch in range(2):
    train(loader)
""")
    assert text.count("prepare(") == 1
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in text
    assert "x.to(" not in text


@pytest.mark.parametrize("bar", ["tqdm(loader)", "tqdm(iterable=loader, leave=True)"])
def test_of_two_bars_of_one_name_the_one_that_trains_is_dealt_out(bar: str) -> None:
    text = after(f"""\
loader = DataLoader(data, batch_size=2)
others = DataLoader(data, batch_size=2)
for epoch in range(2):
    bar = {bar}
    for x, y in bar:
        STEP
    bar = {bar.replace("loader", "others")}
    for x, y in bar:
        print(model(x.to(device)))
""")
    assert text.count("prepare(") == 1
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in text
    assert "print(model(x.to(device)))" in text


OVER = """\
class Moved:
    def __init__(self, loader, to, every=1):
        self.loader, self.to, self.every = loader, to, every
    def __len__(self):
        return len(self.loader)
    def __iter__(self):
        {over}

def to_device(given, device):
    if isinstance(given, (list, tuple)):
        return [to_device(each, device) for each in given]
    return given.to(device)

def fit(loader, net):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()

model = to_device(nn.Linear(4, 1), device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{made}
fit({loader}, model)
"""
EACH = "for batch in self.loader:\n            yield to_device(batch, self.to)"
NAMED = "loader = DataLoader(data, batch_size=4)\nothers = DataLoader(data, batch_size=2)\n"
NAMED += "loader, others = Moved(loader, device), Moved(others, device)"


@pytest.mark.parametrize(
    ("over", "made", "loader", "prepared"),
    [
        (EACH, NAMED, "loader", "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)\nothers ="),
        (
            "batches = iter(self.loader)\n        for x, y in batches:\n            yield x.to(self.to), y.to(self.to)",
            "",
            "Moved(DataLoader(data, batch_size=4), to=device)",
            "fit(Moved(accelerator.prepare(DataLoader(data, batch_size=4)), to=device), model)",
        ),
        (
            "return (to_device(batch, self.to) for batch in self.loader)",
            "loader = DataLoader(data, batch_size=4)\nloaders = {'train': Moved(loader, device)}",
            "loaders['train']",
            "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)\nloaders =",
        ),
        (
            EACH.replace("            yield", "            if self.every: yield"),
            "loader = Moved(DataLoader(data, batch_size=4), device)",
            "loader",
            "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)\nfit(",
        ),
    ],
    ids=["each", "begun", "mapped", "some"],
)
def test_the_loader_that_an_object_hands_on_batch_by_batch_is_prepared(
    over: str, made: str, loader: str, prepared: str
) -> None:
    text = migrated(HEAD + OVER.format(over=over, made=made, loader=loader))
    assert prepared in text


def test_a_generator_that_hands_on_batches_gets_a_prepared_loader() -> None:
    text = after("""\
class Log:
    def every(self, batches, count):
        for i, batch in enumerate(batches):
            yield batch
            if i % count == 0:
                print(i, len(batches))

log = Log()
loader = DataLoader(data, batch_size=2)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=len(loader))
for x, y in log.every(loader, 10):
    STEP
    schedule.step()
""")
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)\nschedule" in text
    assert "for x, y in log.every(loader, 10):\n    optimizer.zero_grad()" in text


def test_a_generator_that_makes_something_of_its_own_is_dealt_out_and_its_schedule_told() -> None:
    text = """\
def halves(loader):
    for x, y in loader:
        yield x[:1], y[:1]
        yield x[1:], y[1:]

loader = DataLoader(data, batch_size=2)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=2 * len(loader))
for x, y in halves(loader):
    STEP
    schedule.step()
"""
    result = run(HEAD + text.replace("    STEP\n", indent(STEP, "    ")))
    assert "for x, y in accelerator.shard(halves(loader)):" in result.after.decode()
    assert any("divide its numbers of steps" in n.message for n in result.notes)


def test_what_a_generator_makes_of_a_loader_that_is_prepared_is_not_dealt_out_again() -> None:
    text = """\
def halves(loader):
    for x, y in loader:
        yield x[:1], y[:1]
        yield x[1:], y[1:]

loader = DataLoader(data, batch_size=2)
for x, y in loader:
    STEP
for x, y in halves(loader):
    STEP
"""
    result = run(HEAD + text.replace("    STEP\n", indent(STEP, "    ")))
    assert result.status is Status.DECLINED
    assert "would be sharded twice" in result.notes[0].message


def test_a_prefetcher_is_given_a_prepared_loader() -> None:
    text = f"""\
{HEAD}
class Prefetcher:
    def __init__(self, loader):
        self.loader = loader
        self.data = iter(loader)
        self.preload()

    def preload(self):
        try:
            self.batch = next(self.data)
        except StopIteration:
            self.batch = None

    def next(self):
        batch = self.batch
        self.preload()
        return batch

    def reset(self):
        self.data = iter(self.loader)
        self.preload()

    def __len__(self):
        return len(self.loader)


def load():
    loader = DataLoader(data, batch_size=2)
    fetcher = Prefetcher(loader)
    return fetcher


fetcher = load()
for epoch in range(2):
    fetcher.reset()
    batch = fetcher.next()
    while batch is not None:
        x, y = batch
{indent(STEP, " " * 8)}
        batch = fetcher.next()
"""
    result = run(text)
    assert result.status is Status.MIGRATED
    new = result.after.decode()
    assert "    loader = accelerator.prepare(loader)\n    fetcher = Prefetcher(loader)\n" in new
    assert "model, optimizer = accelerator.prepare(model, optimizer)\n" in new
    assert new.count("prepare(") == 2
    assert not [n.message for n in result.notes if "wait for each other" in n.message]


@pytest.mark.parametrize("over", ["iter({})", "iter(tqdm({}))"])
def test_an_iterator_over_a_loader_without_a_name_goes_over_a_prepared_one(over: str) -> None:
    made = "DataLoader(data, batch_size=2)"
    text = after(f"""\
batches = {over.format(made)}
for step in range(4):
    x, y = next(batches)
    STEP
""")
    assert f"batches = {over.format(f'accelerator.prepare({made})')}\n" in text
    assert "model, optimizer = accelerator.prepare(model, optimizer)\n" in text


@pytest.mark.parametrize(("begun", "asked"), [("iter({})", "next({})"), ("{}.__iter__()", "{}.__next__()")])
def test_a_generator_that_begins_a_loader_anew_hands_out_its_batches(begun: str, asked: str) -> None:
    text = after(f"""\
def forever(iterable):
    iterator = {begun.format("iterable")}
    while True:
        try:
            yield {asked.format("iterator")}
        except StopIteration:
            iterator = {begun.format("iterable")}

loader = DataLoader(data, batch_size=2)
batches = forever(loader)
for step in range(2 * len(loader)):
    x, y = {asked.format("batches")}
    STEP
""")
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)\nbatches = forever(" in text
    assert "x.to(" not in text


FOREVER = """\
from itertools import cycle

def forever(loader):
    while True:
        for batch in loader:
            yield batch

def draw(source):
    return next(source)

"""


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        ("sources = {{'train': {over}(loader), 'n': 8}}", "next(sources['train'])"),
        ("sources = dict(train={over}(loader), n=8)", "draw(sources['train'])"),
        ("sources = [{over}(loader), 8]", "sources[0].__next__()"),
        ("batches = {over}(loader)\nsources = {{'train': batches}}", "next(sources['train'])"),
    ],
)
@pytest.mark.parametrize("over", ["forever", "cycle", "iter"])
def test_the_loader_below_an_iterator_in_a_container_is_prepared(made: str, asked: str, over: str) -> None:
    text = after(f"""{FOREVER}
loader = DataLoader(data, batch_size=2)
{made.format(over=over)}
for step in range(8):
    x, y = {asked}
    STEP
""")
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)\n" in text
    assert text.count("prepare(") == 1


@pytest.mark.parametrize("entries", ["sources = {}\n    return sources", "return {}"])
def test_the_loader_below_an_iterator_that_a_function_returns_in_a_dict_is_prepared(entries: str) -> None:
    literal = "{'train': forever(train), 'test': forever(test), 'n': len(train)}"
    text = after(f"""{FOREVER}
def load():
    train, test = DataLoader(data, batch_size=2, shuffle=True), DataLoader(data, batch_size=4)
    {entries.format(literal)}

def evaluate(source):
    with torch.no_grad():
        for _ in range(4):
            x, y = draw(source)
            print(model(x.to(device)))

sources = load()
for step in range(sources["n"]):
    x, y = draw(sources["train"])
    STEP
evaluate(sources["test"])
""")
    assert "    train = accelerator.prepare(train)\n" in text
    assert "prepare(train, test)" not in text


@pytest.mark.parametrize("over", ["forever({})", "cycle({})", "(batch for _ in range(9) for batch in {})"])
def test_the_loader_below_an_iterator_that_an_object_is_given_is_prepared(over: str) -> None:
    made = "DataLoader(data, batch_size=2)"
    text = after(f"""{FOREVER}
class Trainer:
    def __init__(self, batches):
        self.batches = batches

    def train(self):
        for step in range(8):
            x, y = next(self.batches)
            STEP

Trainer({over.format(made)}).train()
""")
    assert f"Trainer({over.format(f'accelerator.prepare({made})')}" in text
    assert "model, optimizer = accelerator.prepare(model, optimizer)" in text


@pytest.mark.parametrize(
    "made",
    [
        "batches = [x for x in torch.randn(16, 2, 4)]",
        "batches = list(torch.randn(16, 2, 4))",
        "batches = []\n    for x in torch.randn(16, 2, 4): batches.append(x)",
    ],
)
def test_a_list_beside_what_a_file_gives_is_sharded_in_the_loop(made: str) -> None:
    step = "for k, x in enumerate(batches):\n    optimizer.zero_grad()\n    loss = model(x).mean()\n"
    step += "    loss.backward()\n    optimizer.step()\n"
    branches = f"import sys\nif not sys.argv[1:]:\n    {made}\nelse:\n    batches, _ = torch.load('a').values()\n"
    text = migrated(HEAD + branches + step)
    assert "for k, x in enumerate(accelerator.shard(batches)):" in text
    assert "model, optimizer = accelerator.prepare(model, optimizer)" in text
