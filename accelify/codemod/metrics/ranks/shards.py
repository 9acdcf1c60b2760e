"""Where ranks get data of their own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from accelify.codemod.training.randomness.loader_draws import LoaderDraws

Loop = ast.For | ast.AsyncFor | ast.While


@dataclass(frozen=True, slots=True)
class Shards:
    """Where ranks get data of their own.

    loops: those whose items are sharded. rounds: those that take a batch by `next` in each round. is_loader: whether an
    expression is a prepared loader. is_alike: whether it holds what all ranks have alike, whatever it is used for: a
    prepared model, an optimizer. draws: whether each rank draws random numbers of its own, outside of the loops, too.
    drawn: those `rounds` in which it draws its batches. loader_draws: what loaders draw that all ranks have whole.
    sequences: those `loops` whose items are sharded as the loop gets them, the numbers that these have been given, too.
    whole: calls whose results are reduced at once.
    """

    loops: Sequence[Loop]
    rounds: Sequence[Loop]
    is_loader: Callable[[ast.expr], bool]
    is_alike: Callable[[ast.expr], bool]
    draws: bool = False
    drawn: Sequence[Loop] = ()
    loader_draws: LoaderDraws | None = None
    sequences: Sequence[Loop] = ()
    whole: Collection[ast.Call] = ()
