"""The trace of one rank: a line of JSON for each event, with the line of the script that caused it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any  # events hold what there is to say

import numpy as np
import torch

# A tensor is remembered by its norm and its products with this many vectors of random signs. The distance of two
# tensors follows from the differences of theirs (Johnson and Lindenstrauss), to within about a third.
VECTORS = 8
BLOCK = 4099


class Recorder:
    """Appends events to a file. Forked workers append to the same one."""

    def __init__(self, path: str, root: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._root = f"{root}{os.sep}"
        self.pid = os.getpid()

    def write(self, event: str, **fields: Any) -> None:
        """One event."""
        os.write(self._file, (json.dumps({"e": event, **fields}) + "\n").encode())

    def place(self, depth: int = 1) -> str | None:
        """`train.py:88`, the innermost line of the user's own code; None outside of it."""
        return next(self._places(sys._getframe(depth)), None)

    def stack(self) -> list[str]:
        """All lines of the user's own code that are under way, the innermost first."""
        return list(self._places(sys._getframe(1)))

    def _places(self, frame: FrameType | None) -> Iterator[str]:
        while frame is not None:
            if self.owns(frame.f_code.co_filename):
                yield self.named(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back

    def named(self, filename: str, line: int | None) -> str:
        """A place in one of the user's files; a notebook's cells are files called `train.ipynb:cell 4`."""
        name = filename[len(self._root) :]
        return f"{name}, line {line}" if ".ipynb:cell " in name else f"{name}:{line}"

    def owns(self, filename: str) -> bool:
        """Whether this is one of the user's files."""
        return filename.startswith(self._root)


class Sketcher:
    """Small stand-ins for tensors, by which two runs can be compared without their tensors."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(8128)
        self._generator = generator
        self._signs = self._draw(BLOCK)
        self._weights = self._draw(64)

    def _draw(self, count: int) -> torch.Tensor:
        bits = torch.randint(0, 2, (count, VECTORS), generator=self._generator, device="cpu")
        return (bits * 2 - 1).to(torch.float64)

    @torch.no_grad()
    def sketch(self, tensor: torch.Tensor) -> list[float]:
        """The norm, then the products."""
        flat = _flat(tensor).to(torch.float64)
        total = torch.zeros(VECTORS, dtype=torch.float64, device="cpu")
        whole, rest = divmod(len(flat), BLOCK)
        while len(self._weights) < whole + 1:
            self._weights = torch.cat([self._weights, self._draw(len(self._weights))])
        if whole:
            blocks = flat[: whole * BLOCK].view(whole, BLOCK) @ self._signs
            total += (blocks * self._weights[:whole]).sum(0)
        if rest:
            total += (flat[whole * BLOCK :] @ self._signs[:rest]) * self._weights[whole]
        return [float(flat.norm()), *total.tolist()]


def digest(tensor: torch.Tensor) -> str:
    """Equal for equal bits."""
    data: Any = _flat(tensor, as_real=False).view(torch.uint8).numpy() if tensor.numel() else b""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def digest_of(thing: Any) -> str:
    """Equal for equal tensors, arrays, numbers and texts in equal tuples, lists and dicts; for the rest by its type."""
    if isinstance(thing, torch.Tensor):
        return digest(thing)
    if isinstance(thing, np.ndarray) and thing.dtype.kind in "biufc":
        return hashlib.blake2b(np.ascontiguousarray(thing).tobytes(), digest_size=8).hexdigest()
    if isinstance(thing, dict):
        return " ".join(f"{name}={digest_of(value)}" for name, value in thing.items())
    if isinstance(thing, (list, tuple)):
        return " ".join(map(digest_of, thing))
    return repr(thing) if isinstance(thing, (bool, int, float, str)) else type(thing).__name__


def _flat(tensor: torch.Tensor, as_real: bool = True) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if as_real and tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.cpu().contiguous().reshape(-1)
