"""Records the operations that lead to the first backward pass: which, at which line, and how each is set."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any  # operations are given anything

import torch
from torch.overrides import TorchFunctionMode

from accelify.verify.inside.record import Recorder

# More operations than these are not looked at.
MOST = 20_000
# Operations that a migration may add or take away, as they move or read but compute nothing.
MOVES = frozenset("to cpu cuda detach detach_ clone contiguous pin_memory float requires_grad_ empty".split())
# Operations whose whole numbers are sizes, which follow from the batch.
SIZED = tuple(
    "view reshape expand repeat narrow split chunk unflatten flatten __getitem__ new_ zeros ones full empty rand "
    "normal arange linspace eye tensor one_hot".split()
)
# Where samples are fetched, gradients clipped and steps taken; a migrated script does these in other places.
ELSEWHERE = (
    "/torch/utils/data/",
    "/torch/optim/",
    "/torch/nn/utils/clip_grad",
    str(Path(__file__).parents[2] / "runtime"),
)


class Operations(TorchFunctionMode):
    """While it is entered, each outermost operation is recorded, up to the first backward pass."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._count = 0

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Called by torch in the place of the operation."""
        options = kwargs or {}
        result = function(*args, **options)
        name = getattr(function, "__name__", "")
        if name == "backward":
            self._count = MOST
        is_property = name in ("__get__", "__set__")
        if self._count < MOST and isinstance(result, torch.Tensor) and name not in MOVES and not is_property:
            place = self._place()
            if place is not None:
                self._count += 1
                settings = [*_named(name, enumerate(args, 1)), *_named(name, options.items())]
                self._recorder.write("operation", name=name, at=place, settings=settings)
        return result

    def _place(self) -> str | None:
        frame = sys._getframe(2)
        place = None
        while frame is not None:
            file = frame.f_code.co_filename
            if any(part in file for part in ELSEWHERE):
                return None
            if place is None and self._recorder.owns(file):
                place = self._recorder.named(file, frame.f_lineno)
            frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
        return place


def _named(name: str, given: Any) -> Iterator[tuple[str, str]]:
    """The arguments that can be compared: of a tensor only that it is one."""
    is_sized = name.startswith(SIZED)
    for key, value in given:
        if key == "device":
            continue
        if isinstance(value, torch.Tensor):
            yield str(key), "a tensor"
        elif value is None or isinstance(value, (bool, float, str)) or (isinstance(value, int) and not is_sized):
            yield str(key), repr(value)
