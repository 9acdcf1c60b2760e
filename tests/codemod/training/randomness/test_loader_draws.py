"""Facts about what loaders draw in each pass."""

from __future__ import annotations

import pytest

from accelify.codemod.training.randomness.loader_draws import LoaderDraws
from accelify.codemod.training.roles import Roles
from tests.codemod.facts import Facts

SCRIPT = """\
import random
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, Sampler, SequentialSampler
from torchvision import datasets, transforms as T
class Noisy(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.rand(3) + index
class Rows(Noisy):
    def __getitem__(self, index):
        return torch.ones(3) + index
class Mixed(Sampler):
    def __iter__(self):
        order = list(range(8))
        random.shuffle(order)
        return iter(order)
rows, augmented = Rows(), T.Compose([T.RandomCrop(8), T.ToTensor()])
loader = {loader}
"""


@pytest.mark.parametrize(
    ("loader", "shuffles", "draws_items"),
    [
        ("DataLoader(rows, batch_size=4)", False, False),
        ("DataLoader(rows, 4, shuffle=False)", False, False),
        ("DataLoader(rows, 4, shuffle=True)", True, False),
        ("DataLoader(rows, 4, True)", True, False),
        ("DataLoader(rows, 4, sampler=RandomSampler(rows))", True, False),
        ("DataLoader(rows, 4, sampler=SequentialSampler(rows))", False, False),
        ("DataLoader(rows, batch_sampler=BatchSampler(RandomSampler(rows), 4, True))", True, False),
        ("DataLoader(rows, 4, sampler=Mixed(rows))", True, False),
        ("DataLoader(Noisy(), 4)", False, True),
        ("DataLoader(dataset=Noisy(), shuffle=True)", True, True),
        ("DataLoader(datasets.CIFAR10('.', transform=augmented))", False, True),
        ("DataLoader(datasets.CIFAR10('.', transform=T.ToTensor()))", False, False),
    ],
)
def test_what_a_loader_draws(loader: str, shuffles: bool, draws_items: bool) -> None:
    facts = Facts(SCRIPT.format(loader=loader))
    draws, made = LoaderDraws(facts.program, facts.program.once(Roles)), facts.call(loader)
    assert (draws.shuffle(made), draws.draw_items(made)) == (shuffles, draws_items)
