"""Writes down each loss, and the learning rates and weights after each step; gives every run the same order of data."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any  # what hooks and metrics are handed

import torch
from torch.nn import functional
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import RandomSampler

_ROWS: list[tuple[str, Any]] = []
_passes = 0


def record(kind: str, value: Any) -> None:
    """Note a value of this process."""
    _ROWS.append((kind, value))
    path = Path(os.environ["TRACE_FOLDER"]) / f"{os.environ.get('RANK', '0')}.json"
    path.write_text(json.dumps(_ROWS))


def _after_step(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    record("rates", [group["lr"] for group in optimizer.param_groups])
    record("weights", float(sum(p.detach().double().abs().sum() for p in parameters)))


def _cross_entropy(*args: Any, **kwargs: Any) -> torch.Tensor:
    loss = _original(*args, **kwargs)
    if torch.is_grad_enabled():
        record("loss", loss.mean().item())
    return loss


def _same_order(self: RandomSampler) -> Iterator[int]:
    """An order that follows from how often one was asked for: Accelerate draws other orders on N processes."""
    global _passes
    _passes += 1
    return iter(torch.randperm(self.num_samples, generator=torch.Generator().manual_seed(_passes)).tolist())


_original = functional.cross_entropy
functional.cross_entropy = _cross_entropy
register_optimizer_step_post_hook(_after_step)
if os.environ.get("TRACE_ORDER") == "same":
    RandomSampler.__iter__ = _same_order  # type: ignore[method-assign]
