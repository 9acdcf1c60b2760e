"""A batch's way to its device; to a GPU on a stream of its own, beside the computation.

A GPU does what is asked of one stream in the order of asking: a copy would begin only when the steps before it are
done. A script asks for its next batch long before that. On another stream the copy begins at once, and only what the
script computes from then on waits for it.
Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams
"""

from __future__ import annotations

import functools
from collections import UserDict, deque
from contextlib import nullcontext
from typing import Any  # batches are whatever the user's loader yields

import torch

from accelify.runtime.world import nested

# Units: batches of one pass that may be on a GPU before their computation has begun; each takes memory of its own there
AHEAD = 2


@functools.cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all passes: a stream keeps the memory of what was copied on it for its next copies."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch leaves it so


class Copies:
    """The copies of one pass to a device, none of which the processor waits for."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._reached: deque[torch.cuda.Event] = deque()

    def of(self, batch: Any) -> Any:
        """The batch on the device: its tensors, containers of them, and objects that have a `to` of their own."""
        if self._device.type != "cuda":
            return self._moved(batch)
        computing, copying = torch.cuda.current_stream(self._device), _side_stream(self._device)
        self._limit(computing)
        with torch.cuda.stream(copying):
            moved = self._moved(batch, computing)
        computing.wait_stream(copying)
        return moved

    def _limit(self, computing: torch.cuda.Stream) -> None:
        """Return once the GPU has come to the batch before the last: a script that asks on and on would fill it."""
        self._reached.append(computing.record_event())
        if len(self._reached) > AHEAD:
            self._reached.popleft().synchronize()

    def _moved(self, batch: Any, computing: torch.cuda.Stream | None = None) -> Any:
        def move(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and (computing is None or _is_one_piece(leaf)):
                there = leaf.to(self._device, non_blocking=True)
                if computing is not None:
                    there.record_stream(computing)  # its memory is not for the next copy while a step still reads it
                return there
            if not _moves_itself(leaf):
                return leaf
            # Whoever computed this did so on the script's own stream, and what else it holds is its own affair.
            with torch.cuda.stream(computing) if computing is not None else nullcontext():
                return _moved_itself(leaf, self._device)

        return nested.map_leaves(move, batch, is_leaf=_moves_itself)


def _is_one_piece(tensor: torch.Tensor) -> bool:
    """Whether this is one piece of the processor's memory: only of such a one's copy streams can be told."""
    return tensor.device.type == "cpu" and tensor.layout == torch.strided and not tensor.is_nested


def _moves_itself(tree: Any) -> bool:
    """Whether this has a `to` of its own, as graphs and packed sequences have; a tokenizer's dict is a dict."""
    return callable(getattr(tree, "to", None)) and not isinstance(tree, (type, UserDict))


def _moved_itself(thing: Any, device: torch.device) -> Any:
    try:
        there = thing.to(device, non_blocking=True)
    except TypeError:
        there = thing.to(device)
    return thing if there is None else there
