"""Find the largest batch that fits."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar  # the function's own arguments

import torch

from accelify.errors import AccelifyError

R = TypeVar("R")
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")


class NothingFits(AccelifyError, RuntimeError):
    """Not even one sample fits into memory."""


def find_executable_batch_size(
    function: Callable[..., R] | None = None,
    starting_batch_size: int = 128,
    reduce_batch_size_fn: Callable[[int], int] | None = None,
) -> Any:
    """The function, called with a batch size first, and again with a smaller one as long as memory runs out.

    Units: batch sizes in samples; each try has half of the last one's, or what `reduce_batch_size_fn` makes of it.
    """
    if function is None:
        return functools.partial(
            find_executable_batch_size,
            starting_batch_size=starting_batch_size,
            reduce_batch_size_fn=reduce_batch_size_fn,
        )
    smaller = reduce_batch_size_fn or (lambda size: size // 2)

    @functools.wraps(function)
    def fitting(*arguments: Any, **options: Any) -> R:
        size = starting_batch_size
        while size > 0:
            try:
                return function(size, *arguments, **options)
            except (RuntimeError, MemoryError) as error:
                if not _is_out_of_memory(error):
                    raise
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            size = smaller(size)
        raise NothingFits(f"{function.__name__}: out of memory even with the smallest batch")

    return fitting


def release_memory(*objects: Any) -> list[None]:
    """Empty the devices' caches; assign the Nones returned to the objects' names."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return [None] * len(objects)


def _is_out_of_memory(error: BaseException) -> bool:
    known = isinstance(error, (MemoryError, torch.OutOfMemoryError))
    return known or any(sign in str(error) for sign in _OUT_OF_MEMORY)
