"""Loaders whose iterators the script takes itself: each is prepared before any iterator of it begins."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.codemod.pairs import run

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def make(size):
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=size)
{handed}

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(size):
{begun}
    for step in range(8):
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(loader)
            x, y = next(batches)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train(2)
"""
BRANCHES = """\
    if size > 2:
        loader = make(size)
        batches = iter(loader)
    else:
        loader = make(2)
        {other}
    print(size)
    batches = iter(loader)"""


def _after(handed: str, begun: str) -> list[str]:
    text = run(SCRIPT.format(handed=handed, begun=begun)).after.decode()
    assert "Accelerator(cpu=True)" not in text  # the batches are known to be on the device
    return [line.strip() for line in text.splitlines()]


def test_a_loader_is_prepared_in_each_branch_that_begins_to_go_over_it() -> None:
    lines = _after("    return loader", BRANCHES.format(other="batches = iter(loader)"))
    assert lines.count("loader = accelerator.prepare(loader)") == 2
    assert all(lines[i + 1] != "batches = iter(loader)" for i, s in enumerate(lines) if s.startswith("loader = make("))


def test_a_loader_that_branches_only_make_is_prepared_once_below_them() -> None:
    begun = BRANCHES.format(other="print(loader.dataset)").replace("        batches = iter(loader)\n", "")
    lines = _after("    return loader", begun)
    assert lines.index("loader = accelerator.prepare(loader)") > lines.index("print(loader.dataset)")
    assert lines.count("loader = accelerator.prepare(loader)") == 1


def test_a_loader_that_is_handed_back_with_its_iterator_is_prepared_where_it_is_made() -> None:
    for handed in ("    return loader, iter(loader)", "    batches = iter(loader)\n    return loader, batches"):
        lines = _after(handed, "    loader, batches = make(size)")
        assert lines.count("loader = accelerator.prepare(loader)") == 1
        assert "loader = DataLoader(" in lines[lines.index("loader = accelerator.prepare(loader)") - 1]
        assert "loader, batches = make(size)" in lines


@pytest.mark.parametrize(
    ("count", "taken", "is_reported"),
    [
        ("len(data) // 2", "x, y = next(batches)", True),
        ("rounds", "x, y = next(batches)", True),
        ("4", "x, y = next(batches)", True),
        ("rounds", "x, y = next(held['batches'])", True),
        ("rounds", "x, y = held['batches'].__next__()", True),
        ("rounds", "x, y = ask()", True),
        ("rounds", "_, (x, y) = next(numbered)", True),
        ("rounds", "_, (x, y) = next(enumerate(loader))", False),
        ("len(loader)", "x, y = next(batches)", False),
        ("whole", "x, y = ask()", False),
        ("len(data) // 2", "x, y = next(iter(loader))", False),
        ("rounds", "begin()\nx, y = ask()", False),
        ("4", "x, y = next(sampled)", False),
        ("len(data) // 2", "try:\n    x, y = next(batches)\nexcept StopIteration:\n    break", False),
    ],
)
def test_rounds_that_take_all_batches_of_one_process_are_reported(count: str, taken: str, is_reported: bool) -> None:
    text = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
rounds = len(data) // 2
loader = DataLoader(data, batch_size=2)
whole, sampled = len(loader), iter(DataLoader(data, sampler=endless(data)))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches, numbered = iter(loader), enumerate(loader)
held = {{"batches": iter(loader)}}
def begin():
    global batches
    batches = iter(loader)
def ask():
    return next(batches)
for step in range({count}):
{indent(taken, "    ")}
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert is_reported == any("`next` fails after them" in note.message for note in run(text).notes)
    text = text.replace(f"for step in range({count})", f"step = 0\nwhile step < {count}") + "    step += 1\n"
    assert is_reported == any("`next` fails after them" in note.message for note in run(text).notes)


@pytest.mark.parametrize(
    ("sampler", "is_reported"),
    [
        ("sampler=RandomSampler(data, replacement=True, num_samples=2 * rounds)", True),
        ("batch_sampler=BatchSampler(RandomSampler(data, True, 2 * rounds), 2, False)", True),
        ("batch_sampler=Pairs(SequentialSampler(data))", True),
        ("sampler=Some(rounds)", True),
        ("sampler=Forever(data)", False),
        ("batch_sampler=Pairs(Forever(data))", False),
        ("batch_sampler=Pairs(cycle(range(8)))", False),
    ],
)
def test_a_sampler_that_ends_has_a_shard_for_each_process(sampler: str, is_reported: bool) -> None:
    text = f"""\
from itertools import cycle
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Sampler, SequentialSampler, TensorDataset
class Pairs(Sampler):
    def __init__(self, sampler):
        self.sampler = sampler
    def __iter__(self):
        pair = []
        for index in self.sampler:
            pair.append(index)
            if len(pair) == 2:
                yield pair
                pair = []
class Some(Sampler):
    def __init__(self, rounds):
        self.rounds = rounds
    def __iter__(self):
        for _ in range(self.rounds):
            yield from (0, 1)
class Forever(Sampler):
    def __init__(self, data):
        self.data = data
    def __iter__(self):
        while True:
            yield from torch.randperm(len(self.data)).tolist()
data, rounds = TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), 5
loader = DataLoader(data, {sampler})
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = iter(loader)
for step in range(rounds):
    x, y = next(batches)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    messages = [note.message for note in run(text).notes]
    assert is_reported == any("`next` fails after them" in message for message in messages)
    assert is_reported != any("the same number of steps" in message for message in messages)


def test_an_optimizer_that_training_hands_back_is_not_prepared_again() -> None:
    text = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def train(model, optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return model, optimizer
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    model, optimizer = train(model, optimizer, loader)
"""
    assert run(text).after.decode().count("accelerator.prepare(") == 1


GENERATED = """\
import itertools, torch
from functools import cached_property
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
def cycle(size):
    while True:
        yield from DataLoader(data, batch_size=size)
def endless(loader):
    while True:
        for batch in loader:
            yield batch
class Source:
    @cached_property
    def loader(self):
        return DataLoader(data, batch_size=2)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=2)
batches = endless(DataLoader(data, batch_size=2))
source = Source()
for {loop}:
    {first}
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("loop", "first", "line"),
    [
        ("i, (x, y) in zip(range(9), cycle(4))", "", "zip(range(9), accelerator.shard(cycle(4)))"),
        ("i, (x, y) in zip(itertools.count(), cycle(4))", "", "zip(itertools.count(), accelerator.shard(cycle(4)))"),
        ("i, (x, y) in zip(range(9), endless(loader))", "", "loader, model, optimizer = accelerator.prepare("),
        ("i, (x, y) in zip(range(9), itertools.cycle(loader))", "", "loader, model, optimizer = accelerator.prepare("),
        ("i in range(9)", "x, y = next(batches)", "endless(accelerator.prepare(DataLoader(data, batch_size=2)))"),
        ("x, y in source.loader", "", "return accelerator.prepare(DataLoader(data, batch_size=2))"),
    ],
)
def test_batches_that_come_by_way_of_generators_and_properties(loop: str, first: str, line: str) -> None:
    text = run(GENERATED.format(loop=loop, first=first)).after.decode()
    assert line in text
    assert "prepare(range" not in text
    assert "prepare(batches" not in text


ASKED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def sample_data(batch):
    data = TensorDataset(torch.randn(64, 4))
    loader = iter(DataLoader(data, batch_size=batch))
    while True:
        try:
            {ask}
        except StopIteration:
            loader = iter(DataLoader(data, batch_size=batch))
            {ask}
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
batches = {made}
for i in range(100):
    (x,) = next(batches)
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("made", ["iter(sample_data(8))", "sample_data(8)"])
@pytest.mark.parametrize("ask", ["yield next(loader)", "yield from loader"])
def test_a_generator_that_asks_its_own_loader_prepares_it(made: str, ask: str) -> None:
    text = run(ASKED.format(ask=ask, made=made)).after.decode()
    assert text.count("loader = iter(accelerator.prepare(DataLoader(data, batch_size=batch)))") == 2
    assert f"batches = {made}\n" in text


@pytest.mark.parametrize("made", ["iter(sample_data(8))", "sample_data(8)"])
@pytest.mark.parametrize(
    ("rows", "is_seen"),
    [
        ("next(loader)", True),
        ("(vendor.mixed(next(loader)[0]),)", True),
        ("vendor.mixed(loader)", False),
        ("next(vendor.mixed(loader))", False),
    ],
)
def test_a_generator_of_what_others_make_of_a_loader(made: str, rows: str, is_seen: bool) -> None:
    text = ASKED.format(ask=f"rows = {rows}", made=made).replace("model = nn", "        yield rows\nmodel = nn", 1)
    result = run(text)
    assert (b"accelerator.prepare(DataLoader(data" in result.after) is is_seen
    assert any("every process has the same data" in n.message for n in result.notes) is not is_seen


@pytest.mark.parametrize(("made", "key"), [('{"train": sample_data(8)}', '["train"]'), ("[sample_data(8), 1]", "[0]")])
def test_a_generator_in_a_container_is_declined(made: str, key: str) -> None:
    text = ASKED.format(ask="yield next(loader)", made=made)
    result = run(text.replace("next(batches)", f"next(batches{key})"))
    assert [n.message for n in result.notes if "batches come from a generator" in n.message]
    assert result.before == result.after


KEPT = """\
import itertools
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Runner:
    def __init__(self, model, loader):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.loader = loader
        {made}
    def ask(self):
        return next(self.batches)
    def train(self, loader):
        {begun}
        for _ in range(4):
            (x,) = {asked}
            loss = self.model(x).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8)
runner = Runner(nn.Linear(4, 4), loader)
for epoch in range(2):
    runner.train(loader)
"""


@pytest.mark.parametrize(
    ("made", "begun", "asked"),
    [
        ("self.batches = None", "self.batches = iter(loader)", "next(self.batches)"),
        ("self.batches = None", "self.batches = iter(loader)", "self.ask()"),
        ("pass", "self.batches = iter(self.loader)", "self.ask()"),
        ("self.batches = iter(loader)", "pass", "next(self.batches)"),
        ("self.batches = itertools.cycle(loader)", "pass", "self.ask()"),
    ],
)
def test_a_loader_is_prepared_and_not_the_iterator_that_an_object_keeps(made: str, begun: str, asked: str) -> None:
    text = run(KEPT.format(made=made, begun=begun, asked=asked)).after.decode()
    assert "prepare(self.batches)" not in text
    assert any("prepare(" in line and "loader" in line for line in text.replace("(\n", "(").splitlines())
    assert "Accelerator(cpu=True)" not in text  # the batches are known to be on the device


CONTAINER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def endless(loader):
    while True:
        yield from loader

def batches():
    data = TensorDataset(torch.randn(64, 4))
    {made}

def train(model, optimizer, found):
    for _ in range(4):
        (x,) = next({asked})
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def main():
    found = batches()
    model = nn.Linear(4, 4)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), found)

main()
"""
MADE = "DataLoader(data, batch_size=8)"


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        (f"return {{'labeled': iter({MADE}), 'n': 3}}", "found['labeled']"),
        (f"return {{'labeled': endless({MADE})}}", "found['labeled']"),
        (f"loaders = {{'labeled': {MADE}}}; return {{k: iter(v) for k, v in loaders.items()}}", "found['labeled']"),
        (f"found = {{}}; found['labeled'] = iter({MADE}); return found", "found['labeled']"),
        (f"return [iter({MADE}), 3]", "found[0]"),
        (f"return iter({MADE}), 3", "found[0]"),
    ],
)
def test_a_loader_below_an_iterator_in_a_container_is_prepared_where_it_is_made(made: str, asked: str) -> None:
    text = run(CONTAINER.format(made=made, asked=asked)).after.decode()
    assert f"accelerator.prepare({MADE})" in text
    assert "prepare(found" not in text
    if "endless" not in made:
        assert "Accelerator(cpu=True)" not in text  # the batches are known to be on the device


def test_a_loader_in_a_container_is_prepared_where_it_is_used() -> None:
    text = run(CONTAINER.format(made=f"return {{'labeled': {MADE}}}", asked="iter(found['labeled'])")).after.decode()
    assert 'found["labeled"], model = accelerator.prepare(found["labeled"], model)' in text


EPISODES = """\
import random
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def main():
    net = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for episode in range(5):
        chosen = torch.tensor(random.sample(range(100), 10)).float()
        loader = DataLoader(TensorDataset(chosen.repeat(4, 1).T, chosen), batch_size=10, shuffle=True)
        x, labels = {drawn}
        target = torch.zeros(10, 5).scatter_(1, labels.long().view(-1, 1) % 5, 1).cuda()
        loss = net(x.cuda()).pow(2).mean() + target.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

main()
"""


@pytest.mark.parametrize(
    "drawn", ["loader.__iter__().__next__()", "loader.__iter__().next()", "iter(loader).next()", "next(iter(loader))"]
)
def test_a_loader_of_one_episode_is_not_prepared_however_its_batch_is_drawn(drawn: str) -> None:
    text = run(EPISODES.format(drawn=drawn)).after.decode()
    assert "net, optimizer = accelerator.prepare(net, optimizer)" in text
    assert "prepare(loader" not in text
    assert "labels.long().view(-1, 1) % 5, 1)" in text


DRAWN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def make():
    train = DataLoader(TensorDataset(torch.randn(100, 4)), batch_size=5)
    {made}

def draw(loader, iterator):
    try:
        (batch,) = next(iterator)
    except StopIteration:
        iterator = iter(loader)
        (batch,) = next(iterator)
    return batch, iterator

{named} = make()
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(30):
    x, batches = draw(loader, batches)
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("return train, iter(train)", "loader, batches"),
        ("return (train, 3), (iter(train), 3)", "(loader, count), (batches, other)"),
        ("return [train, iter(train)], 3", "(loader, batches), count"),
        ("begun = iter(train)\n    return (train,), (begun, 3)", "(loader,), (batches, count)"),
        ("begun = (iter(train), 3)\n    return (train,), begun", "(loader,), (batches, count)"),
    ],
)
def test_a_loader_below_an_iterator_that_functions_hand_on_is_prepared_where_it_is_made(made: str, named: str) -> None:
    text = run(DRAWN.format(made=made, named=named)).after.decode()
    assert "    train = accelerator.prepare(train)\n" in text
    assert not any("batches" in line for line in text.splitlines() if "prepare(" in line)


@pytest.mark.parametrize("begun", ["iter({}) if size > 1 else None", "None if size < 2 else iter({})"])
def test_a_loader_below_an_iterator_that_may_not_be_there_is_prepared_where_it_is_made(begun: str) -> None:
    made = "DataLoader(data, batch_size=size)"
    text = SCRIPT.format(
        handed="    return loader", begun=f"    data = make(size).dataset\n    batches = {begun.format(made)}"
    )
    assert f"batches = {begun.format(f'accelerator.prepare({made})')}\n" in run(text).after.decode()


NUMBERED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from tqdm import tqdm
from rows import rows
loader = DataLoader(rows, 8)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
{numbers}
for {item} in {pairs}:
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("numbers", "item", "pairs"),
    [
        ("loop = tqdm(range(1, 9))", "i, x", "zip(loop, loader)"),
        ("loop = list(range(9))", "x, i", "zip(loader, loop)"),
        ("", "i, x", "zip(tqdm(range(9)), loader)"),
    ],
)
def test_numbers_beside_the_batches_are_no_loader(numbers: str, item: str, pairs: str) -> None:
    text = run(NUMBERED.format(numbers=numbers, item=item, pairs=pairs)).after.decode()
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in text
    assert text.count("prepare(") == 1
