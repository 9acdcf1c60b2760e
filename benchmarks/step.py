"""One training step of a tiny model in one process: rewritten, against plain; in CPU time, the libraries beside it.

A tiny model has nothing to hide behind: whatever `backward` or a forward pass costs more shows in full.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from taking_turns import least, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS, ROUNDS = 40, 200


def objects() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader[Any]]:
    """A model of 610 parameters, its optimizer, and its data."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
    data = TensorDataset(torch.randn(16 * STEPS, 16), torch.randint(0, 2, (16 * STEPS,)))
    return model, torch.optim.SGD(model.parameters(), lr=0.01), DataLoader(data, batch_size=16, shuffle=True)


def loop(model: Any, optimizer: Any, batches: Any, backward: Callable[[Any], object]) -> Callable[[], None]:
    """An epoch; as the scripts have it, but for `backward`."""
    criterion = nn.CrossEntropyLoss()

    def epoch() -> None:
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            backward(loss)
            optimizer.step()

    return epoch


def plain(with_loader: bool) -> Callable[[], None]:
    model, optimizer, loader = objects()
    batches = loader if with_loader else list(loader)
    criterion = nn.CrossEntropyLoss()

    def epoch() -> None:
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()

    return epoch


def accelify(with_loader: bool) -> Callable[[], None]:
    from accelify.runtime import Accelerator

    accelerator = Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(*objects())
    return loop(model, optimizer, loader if with_loader else list(loader), accelerator.backward)


def mixed_devices(with_loader: bool) -> Callable[[], None]:
    """As with `Accelerator(mixed_devices=True)` on a GPU, of which this shows what Python does."""
    from accelify.runtime import Accelerator
    from accelify.runtime.world.mixed_devices import MixedDevices

    mixed = MixedDevices(torch.device("cpu"))
    accelerator = Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(*objects())
    mixed.skip_steps(optimizer)
    epoch = loop(model, optimizer, loader if with_loader else list(loader), accelerator.backward)

    def entered() -> None:
        mixed.enter()
        epoch()
        mixed.leave()

    return entered


def accelerate(with_loader: bool) -> Callable[[], None]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(*objects())
    return loop(model, optimizer, loader if with_loader else list(loader), accelerator.backward)


def fabric(with_loader: bool) -> Callable[[], None]:
    from lightning_fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1)
    model, optimizer, loader = objects()
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(loader)
    return loop(model, optimizer, loader if with_loader else list(loader), fabric.backward)


def main() -> None:
    torch.set_num_threads(1)
    peers = {
        "plain": plain,
        "accelify": accelify,
        "mixed devices": mixed_devices,
        "Hugging Face Accelerate": accelerate,
    }
    if importlib.util.find_spec("lightning_fabric"):
        peers["Lightning Fabric"] = fabric
    else:
        print("left out: Lightning Fabric, which is not installed (pip install lightning-fabric)")
    for with_loader in (False, True):
        variants = {name: make(with_loader) for name, make in peers.items()}
        title = "a step and its batch from a loader" if with_loader else "a step alone, batches made beforehand"
        show(f"{title}: CPU time, ratio to plain", least(variants, ROUNDS), STEPS)


if __name__ == "__main__":
    main()
