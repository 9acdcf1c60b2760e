"""Runs whose loaders draw from generators of their own, broken off and gone on with, in any number of processes."""

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset


class Noisy(Dataset):
    """Draws for each element, from two generators that it holds."""

    def __init__(self):
        self.by_numpy = numpy.random.default_rng(5)
        self.by_torch = torch.Generator().manual_seed(1)

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return index + self.by_numpy.random() / 10 + torch.rand((), generator=self.by_torch).item() / 100


class Stream(IterableDataset):
    def __init__(self):
        self.by_numpy = numpy.random.default_rng(5)

    def __iter__(self):
        return (index + self.by_numpy.random() / 10 for index in self.by_numpy.permutation(16))


LOADERS = {
    "of the loader": lambda: DataLoader(
        torch.arange(16.0), batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(3)
    ),
    "of a dataset": lambda: DataLoader(Noisy(), batch_size=2, shuffle=True),
    "of a dataset, with a worker": lambda: DataLoader(Noisy(), batch_size=2, shuffle=True, num_workers=1),
    "of a stream": lambda: DataLoader(Stream(), batch_size=2),
}


def assert_goes_on(kind, make, folder):
    """Broken off in the first epoch, in the second, and between them."""
    whole = _run(kind, make())
    for number, stop in enumerate((3, 9, "after an epoch")):
        target = f"{folder}/{number}"
        begun = _run(kind, make(), target, stop)
        assert begun + _run(kind, make(), target) == whole, (kind, stop)


def _run(kind, accelerator, folder=None, stop=None):
    torch.manual_seed(0)
    loader = accelerator.prepare(LOADERS[kind]())
    if folder and stop is None:
        accelerator.load_state(folder)
    seen = []
    while loader.iteration < 3:
        for batch in loader:
            seen.append(batch.tolist())
            if len(seen) == stop:
                accelerator.save_state(folder)
                return seen
        if stop == "after an epoch":
            accelerator.save_state(folder)
            return seen
    return seen
