"""Noise for a rank's rows of a batch as those rows of one draw for the whole batch, as the original draws it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # drawing functions take sizes in many ways

import numpy
import torch
from torch.utils.data import dataloader

from accelify.runtime.data.passes import LoaderPass

_NORMAL = torch.normal  # as it is before draws are watched
# numpy's functions that draw arrays: which argument, of those by position, is the size; None where all of them are.
ARRAYS: dict[str, int | None] = {
    **dict.fromkeys(("rand", "randn")),
    **dict.fromkeys(("random", "random_sample", "standard_normal", "permutation", "shuffle"), 0),
    **dict.fromkeys(("exponential", "poisson", "choice"), 1),
    **dict.fromkeys(("normal", "uniform", "randint", "integers", "beta", "gamma", "laplace", "binomial"), 2),
}


class Rows:
    """Which rows of the batch under way are this rank's; the last batch of a pass is until another one begins."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._is_over = False
        self._bounds: tuple[int, int, int] | None = None

    def watch(self) -> None:
        """Follow every prepared loader from here on."""
        following: Callable[[LoaderPass], Any] = LoaderPass.__next__

        def handed(passage: LoaderPass) -> Any:
            self._is_over = True
            batch = following(passage)
            self._bounds, self._is_over = None, False
            step = passage.step
            if step is not None and step.is_split:
                start, total = sum(step.valid[: self._rank]), sum(step.valid)
                if not step.valid[self._rank]:
                    start = self._rank % total
                self._bounds = start, start + max(step.valid[self._rank], 1), total
            return batch

        begin: Any = dataloader._BaseDataLoaderIter.__init__

        def begun(iterator: Any, *given: Any, **options: Any) -> None:
            self._bounds = None
            begin(iterator, *given, **options)

        LoaderPass.__next__ = handed  # type: ignore[method-assign, assignment]
        dataloader._BaseDataLoaderIter.__init__ = begun  # type: ignore[method-assign, assignment]

    def draw(self, name: str, real: Callable[..., Any], given: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """This rank's rows of a draw for the whole batch; None where the draw is not one for each row."""
        if self._bounds is None or (self._is_over and not name.endswith(("_like", "_"))):
            return None
        start, stop, total = self._bounds
        if name == "normal":
            return _scaled_normal(given, start, stop, total)
        whole = _for_rows(name, given, options, stop - start, total)
        if whole is None:
            return None
        if name.endswith("_"):
            drawn = real(*whole[0], **whole[1])
            return given[0].copy_(drawn[start:stop])
        kept = {key: value for key, value in whole[1].items() if key != "requires_grad"}
        drawn = real(*whole[0], **kept)[start:stop].clone()
        return drawn.requires_grad_(bool(options.get("requires_grad")))

    def draw_array(self, name: str, real: Callable[..., Any], given: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """This rank's rows of numpy's draw for the whole batch; None where the draw is not one for each row."""
        if self._bounds is None or self._is_over or name in ("permutation", "shuffle"):
            return None
        start, stop, total = self._bounds
        owner = given[: isinstance(given[0], numpy.random.Generator)] if given else ()
        whole = _array_for_rows(ARRAYS[name], given[len(owner) :], options, stop - start, total)
        return None if whole is None else real(*owner, *whole[0], **whole[1])[start:stop]

    def is_for_all(self, drawn: Any) -> bool:
        """Whether a draw is a single number for the whole batch, which all ranks draw as one process does."""
        is_single = isinstance(drawn, (bool, int, float)) or getattr(drawn, "size", None) == 1
        if isinstance(drawn, torch.Tensor):
            is_single = drawn.numel() == 1
        return is_single and self._bounds is not None and self._bounds[1] - self._bounds[0] > 1


Call = tuple[tuple[Any, ...], dict[str, Any]]


def _for_rows(name: str, given: tuple[Any, ...], options: dict[str, Any], rows: int, total: int) -> Call | None:
    """The same call for `total` rows, where it is one for `rows` of them."""
    if name.endswith(("_like", "_")):
        like = given[0]
        if not like.ndim or like.shape[0] != rows:
            return None
        return (like.detach().new_empty((total, *like.shape[1:])), *given[1:]), options
    if name in ("rand", "randn") and given:
        sizes = tuple(given[0]) if not isinstance(given[0], int) else given
        return ((total, *sizes[1:]), options) if sizes and sizes[0] == rows else None
    if name == "randint" and given and isinstance(given[-1], (tuple, list)):
        sizes = tuple(given[-1])
        return ((*given[:-1], (total, *sizes[1:])), options) if sizes and sizes[0] == rows else None
    return None


def _array_for_rows(
    position: int | None, given: tuple[Any, ...], options: dict[str, Any], rows: int, total: int
) -> Call | None:
    by_name = position is not None and "size" in options
    size = given if position is None else options.get("size") if by_name else (*given, *[None] * 3)[position]
    sizes = (size,) if isinstance(size, int) else tuple(size or ())
    if not sizes or sizes[0] != rows or any(getattr(each, "ndim", 0) for each in (*given, *options.values())):
        return None
    sizes = (total, *sizes[1:])
    if position is None:
        return sizes, options
    if by_name:
        return given, {**options, "size": sizes}
    return (*given[:position], sizes, *given[position + 1 :]), options


def _scaled_normal(given: tuple[Any, ...], start: int, stop: int, total: int) -> torch.Tensor | None:
    """`torch.normal(mean, std)` of tensors, as torch.distributions draws; None for its other forms."""
    if len(given) != 2 or not all(isinstance(each, torch.Tensor) and each.ndim for each in given):
        return None
    mean, deviation = given
    if mean.shape != deviation.shape or mean.shape[0] != stop - start:
        return None
    drawn: torch.Tensor = _NORMAL(mean.new_zeros((total, *mean.shape[1:])), mean.new_ones((total, *mean.shape[1:])))
    scaled: torch.Tensor = drawn[start:stop] * deviation + mean
    return scaled
