"""Runs a script in float64 where it says float32, so that rounding is too small for training to amplify.

What says float32 by name is float64 here: dtypes, defaults, conversions, arrays and files that torch reads. A script
that needs float32, for its bits say, fails; its runs are then compared in float32.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import wraps
from typing import Any  # wrapped functions take what they take

import torch
from torch.utils._pytree import tree_map_only

_SINGLE = torch.float32
# Functions that take the dtype from data which are float32 already: arrays, buffers, files.
_READERS = ("from_numpy", "frombuffer", "from_dlpack", "tensor", "as_tensor", "asarray", "load")


def install() -> None:
    """Compute in float64 from here on."""
    _read_a_file()
    torch.set_default_dtype(torch.float64)
    names: dict[str, Any] = {"float32": torch.float64, "float": torch.float64, "FloatTensor": torch.DoubleTensor}
    vars(torch).update(names)
    torch.Tensor.float = _to_double  # type: ignore[method-assign, assignment]
    torch.nn.Module.float = torch.nn.Module.double  # type: ignore[method-assign]
    for name in _READERS:
        setattr(torch, name, _widened(getattr(torch, name)))
    kind = torch.Tensor.type

    @wraps(kind)
    def convert(tensor: torch.Tensor, dtype: Any = None, *rest: Any, **options: Any) -> Any:
        wanted = "torch.DoubleTensor" if dtype == "torch.FloatTensor" else dtype
        return kind(tensor, wanted, *rest, **options)

    torch.Tensor.type = convert  # type: ignore[method-assign, assignment]


def _read_a_file() -> None:
    """Have torch make its tables of dtypes by name, as it does when it first reads a file, before names change."""
    file = io.BytesIO()
    torch.save(torch.zeros(1), file)
    file.seek(0)
    torch.load(file)


def _to_double(tensor: torch.Tensor, *given: Any, **options: Any) -> torch.Tensor:
    return tensor.double(*given, **options)


def _widened(real: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(real)
    def read(*given: Any, **options: Any) -> Any:
        return tree_map_only(torch.Tensor, _wide, real(*given, **options))

    return read


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype is not _SINGLE:
        return tensor
    return tensor.detach().double().requires_grad_(tensor.requires_grad)
