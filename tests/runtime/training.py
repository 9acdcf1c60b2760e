"""A training run that can be stopped and resumed anywhere, and tells everything that a resumed one must repeat."""

import json
import os
import random
import sys
import time
from pathlib import Path

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from accelify.runtime import Accelerator, ProjectConfiguration

LENGTH = 23


class Rows(Dataset):
    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return index, torch.linspace(-1, 1, 4) * (index + 1) / LENGTH


class Augmented(Rows):
    """Draws from all three libraries, and from a generator that a transform holds."""

    def __init__(self):
        self.transforms = [Jitter()]

    def __getitem__(self, index):
        index, row = super().__getitem__(index)
        noise = random.random() + numpy.random.rand() + torch.rand(1) + self.transforms[0].generator.random()
        return index, row * noise


class Jitter:
    def __init__(self):
        self.generator = numpy.random.default_rng(5)


class Shuffled(IterableDataset):
    """Draws its order when it starts, every worker its own part of it."""

    def __len__(self):
        return LENGTH

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        if info is None:
            order, start, step = torch.randperm(LENGTH), 0, 1
        else:
            shared = torch.Generator().manual_seed(info.seed - info.id)
            order, start, step = torch.randperm(LENGTH, generator=shared), info.id, info.num_workers
        for index in order[start::step].tolist():
            yield Rows()[index]


class Drawing(Sampler):
    """Draws from the global states, for every index anew."""

    def __len__(self):
        return LENGTH

    def __iter__(self):
        for index in range(LENGTH):
            yield (index + random.randrange(LENGTH) + int(torch.randint(3, (1,)))) % LENGTH


class Pairs(BatchSampler):
    """A batch sampler of the user's own, with a private generator and batches of two sizes."""

    def __init__(self):
        self.order = random.Random(5)

    def __len__(self):
        return 11

    def __iter__(self):
        left = self.order.sample(range(LENGTH), LENGTH)
        while left:
            count = 3 if len(left) % 2 else 2
            yield left[:count]
            left = left[count:]


def loader_of(kind, workers):
    data = {"iterable": Shuffled, "augmented": Augmented, "by hand, augmented": Augmented}.get(kind, Rows)()
    options = {
        "sequential": {"sampler": SequentialSampler(data)},
        "shuffle": {"shuffle": True},
        "augmented": {"shuffle": True},
        "generator": {"shuffle": True, "generator": torch.Generator().manual_seed(11)},
        "subset": {"sampler": SubsetRandomSampler(range(3, LENGTH))},
        "weighted": {"sampler": WeightedRandomSampler(torch.arange(1.0, LENGTH + 1), LENGTH)},
        "replacement": {"sampler": RandomSampler(data, replacement=True, num_samples=20)} if kind != "iterable" else {},
        "drop_last": {"shuffle": True, "drop_last": True},
        "drawing": {"sampler": Drawing()},
        "iterable": {},
        "pairs": {"batch_sampler": Pairs()},
        "by hand": {"sampler": by_hand(data)},
        "by hand, augmented": {"sampler": by_hand(data)},
    }[kind]
    if kind != "pairs":
        options["batch_size"] = 3
    if workers == "persistent":
        options["persistent_workers"], workers = True, 2
    return DataLoader(data, num_workers=workers, **options)


def by_hand(data):
    """The sampler of a script that shards its data itself."""
    is_alone = not dist.is_initialized()
    return DistributedSampler(data, *((1, 0) if is_alone else (dist.get_world_size(), dist.get_rank())))


class Counter:
    def __init__(self):
        self.steps = 0

    def state_dict(self):
        return {"steps": self.steps}

    def load_state_dict(self, state):
        self.steps = state["steps"]


def seed(number):
    for set_one in (torch.manual_seed, random.seed, numpy.random.seed):
        set_one(number)


def train(accelerator, kind, workers, epochs, saves=(), stop=None, load=None, seeded=0, hang=None):
    """Train; save at the steps `saves` names (into folders), stop at step `stop`. What was seen and what came out.

    hang: after so many steps, wait to be killed.
    """
    seed(seeded)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, gamma=0.9)
    loader = loader_of(kind, workers)
    model, optimizer, scheduler, loader = accelerator.prepare(model, optimizer, scheduler, loader)
    counter = Counter()
    accelerator.register_for_checkpointing(counter)
    if load == "newest":
        if any(Path(accelerator.project_dir, "checkpoints").glob("checkpoint_*")):
            print("resumed from", Path(accelerator.load_state()).name, flush=True)
    elif load is not None:
        accelerator.load_state(load)
    seen = []
    print("begins at", counter.steps, flush=True)
    for epoch in range(loader.iteration, epochs):
        loader.set_epoch(epoch)
        for index, rows in loader:
            noise = random.random() + numpy.random.rand()
            loss = (model(rows) - noise).pow(2).mean()
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            counter.steps += 1
            seen.append([epoch, counter.steps, index.tolist()])
            if saves == "always":
                accelerator.save_state()
            elif counter.steps in dict(saves):
                accelerator.save_state(dict(saves)[counter.steps])
            if counter.steps == stop:
                return {"seen": seen}
            if len(seen) == hang:
                time.sleep(600)
    return {
        "seen": seen,
        "weights": {name: value.tolist() for name, value in model.state_dict().items()},
        "optimizer": [[v.tolist() for v in state.values()] for state in optimizer.state_dict()["state"].values()],
        "scheduler": {k: v for k, v in scheduler.state_dict().items() if isinstance(v, (int, float, list))},
        "random": [torch.rand(1).item(), random.random(), numpy.random.rand()],
    }


def main(text):
    """Train, once or as many times as there are `runs`."""
    options = json.loads(text)
    out, runs = options.pop("out"), options.pop("runs", None)
    project = ProjectConfiguration(project_dir=options.pop("project", None), total_limit=2)
    results = [train(Accelerator(cpu=True, project_config=project), **run) for run in runs or [options]]
    Path(out, f"{os.environ['RANK']}").write_text(json.dumps(results if runs else results[0]))


if __name__ == "__main__":
    main(sys.argv[1])
