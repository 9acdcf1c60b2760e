"""A self-check to run on every rank: `python -m accelify.runtime.launch.selfcheck`. Rank 0 prints a table.

Every check computes something whose answer is known beforehand; a wrong answer ends all ranks with status 1.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accelify.runtime.accelerator import Accelerator
from accelify.runtime.world.environment import Environment

ROWS, BATCH = 47, 4  # neither divides by the usual numbers of processes


def main() -> int:
    """Run all checks and return the exit status: 1 if any failed on any rank."""
    accelerator = Accelerator()
    checks: list[tuple[str, Callable[[Accelerator], str]]] = [
        ("process group", check_group),
        ("collectives", check_collectives),
        ("data", check_data),
        ("training", check_training),
        ("checkpoint", check_checkpoint),
    ]
    failed = 0
    for name, check in checks:
        try:
            result, is_wrong = check(accelerator), 0
        except AssertionError as error:
            result, is_wrong = str(error), 1
        wrong = int(accelerator.reduce(torch.tensor(float(is_wrong), device=accelerator.device)).item())
        failed += wrong > 0
        if accelerator.is_main_process:
            verdict = f"FAILED on {wrong} of {accelerator.num_processes}" if wrong else "ok"
            print(f"{name:<16} {verdict:<14} {result}", flush=True)
    return 1 if failed else 0


def check_group(accelerator: Accelerator) -> str:
    """Every rank is there, once."""
    ranks = accelerator.gather(torch.tensor([accelerator.process_index], device=accelerator.device))
    _expect(sorted(ranks.tolist()), list(range(accelerator.num_processes)), "the ranks")
    return f"{accelerator.num_processes} processes on {accelerator.device.type}"


def check_collectives(accelerator: Accelerator) -> str:
    """Sums and gathers give what arithmetic gives."""
    size, rank = accelerator.num_processes, accelerator.process_index
    total = accelerator.reduce(torch.tensor([rank + 1.0], device=accelerator.device))
    _expect(total.item(), size * (size + 1) / 2, "the sum of 1 to N")
    gathered = accelerator.gather({"x": torch.full((2, 3), float(rank), device=accelerator.device)})["x"]
    _expect(list(gathered.shape), [2 * size, 3], "the gathered shape")
    _expect(gathered[:, 0].tolist(), [float(r) for r in range(size) for _ in range(2)], "the gathered order")
    accelerator.wait_for_everyone()
    return "reduce, gather, barrier"


def check_data(accelerator: Accelerator) -> str:
    """An epoch over all ranks has every sample exactly once, in order."""
    loader = accelerator.prepare(DataLoader(TensorDataset(torch.arange(ROWS)), batch_size=BATCH))
    seen = torch.cat([accelerator.gather_for_metrics(batch[0]).cpu() for batch in loader])
    _expect(seen.tolist(), list(range(ROWS)), "the samples of an epoch")
    return f"{ROWS} samples, each seen once"


def check_training(accelerator: Accelerator) -> str:
    """After every step of an epoch all ranks hold the same weights, and the loss went down."""
    torch.manual_seed(0)
    inputs = torch.randn(ROWS, 6)
    loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=BATCH, shuffle=True)
    torch.manual_seed(accelerator.process_index)  # ranks that start with different weights must end with the same
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
    losses, difference = [], 0.0
    for _ in range(3):
        for features, target in loader:
            loss = nn.functional.mse_loss(model(features), target)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            losses.append(accelerator.reduce(loss.detach(), "mean").item())
            weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
            everyone = accelerator.gather(weights[None])
            difference = max(difference, (everyone - everyone[0]).abs().max().item())
    _expect(difference, 0.0, "the largest difference between the ranks' weights")
    third = len(losses) // 3
    if not sum(losses[-third:]) < sum(losses[:third]):
        raise AssertionError(f"the loss did not go down: {losses[0]:.3f} to {losses[-1]:.3f}")
    return f"{len(losses)} steps, equal weights after each, loss {losses[0]:.3f} to {losses[-1]:.3f}"


def check_checkpoint(accelerator: Accelerator) -> str:
    """Training that goes on from a checkpoint within an epoch ends with the weights of the run that wrote it."""
    if Environment.read().local_world_size != accelerator.num_processes:
        return "not checked: several machines, which may share no folder"
    accelerator.free_memory()
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(ROWS, 6)), batch_size=BATCH, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    loader, model, optimizer = accelerator.prepare(loader, model, optimizer)

    def step(features: torch.Tensor) -> None:
        optimizer.zero_grad()
        accelerator.backward(model(features).square().mean())
        optimizer.step()

    own = tempfile.mkdtemp(prefix="accelify-test-") if accelerator.is_main_process else ""
    (name,) = accelerator.broadcast_object_list([own])
    folder = Path(name)
    try:
        for count, (features,) in enumerate(loader):
            step(features)
            if count == 0:
                accelerator.save_state(folder / "checkpoint")
        ended = [parameter.detach().clone() for parameter in model.parameters()]
        accelerator.load_state(folder / "checkpoint")
        rest = 0
        for (features,) in loader:
            step(features)
            rest += 1
        same = all(map(torch.equal, ended, model.parameters()))
        _expect(same, True, "the same weights after going on from a checkpoint")
    finally:
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            shutil.rmtree(folder, ignore_errors=True)
    return f"{rest} steps from the middle of an epoch, the same weights bit for bit"


def _expect(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what}: {expected} expected, {found} found")


if __name__ == "__main__":
    sys.exit(main())
