"""Keep what a run measures, with the trackers that were asked for. Only process 0 has any."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any  # values are whatever the script measures

from accelify.runtime.trackers import (
    CannotTrack,
    CSVTracker,
    JSONLTracker,
    Silent,
    TensorBoardTracker,
    Tracker,
    Values,
    WandBTracker,
    plain_value,
)

KINDS = ("jsonl", "csv", "tensorboard", "wandb")


class Trackers:
    """The trackers of a run; none on any process but 0."""

    def __init__(self, log_with: Any, folder: str | os.PathLike[str] | None, is_main: bool) -> None:
        asked = [] if log_with is None else [log_with] if _is_one(log_with) else list(log_with)
        for one in asked:
            _check(one)
        self.asked = asked
        self._folder = None if folder is None else Path(folder)
        self._is_main = is_main
        self.running: list[Tracker] = []

    def start(self, name: str, config: dict[str, Any] | None, options: Mapping[str, Mapping[str, Any]]) -> None:
        """Open them, and keep the settings of the run."""
        if not self._is_main:
            return
        for one in _expanded(self.asked):
            if isinstance(one, str):
                tracker = self._open(one, name, options.get(one, {}))
                if config is not None:
                    tracker.store_init_configuration(config)
            else:
                tracker = one
                if hasattr(tracker, "start"):
                    tracker.start()
                if config is not None:
                    tracker.store_init_configuration(config)
            self.running.append(tracker)

    def _open(self, kind: str, name: str, options: Mapping[str, Any]) -> Tracker:
        if kind == "wandb":
            return WandBTracker(name, self._folder, **options)
        if self._folder is None:
            raise CannotTrack(f"log_with={kind!r} writes files: give the Accelerator a project_dir")
        kinds: dict[str, Any] = {"jsonl": JSONLTracker, "csv": CSVTracker, "tensorboard": TensorBoardTracker}
        tracker: Tracker = kinds[kind](name, self._folder, **options)
        return tracker

    def get(self, name: str, unwrap: bool) -> Any:
        """The tracker of this name, or the library's own object; on the other processes one that does nothing.

        Raises: CannotTrack for a name that none of them has.
        """
        for tracker in self.running:
            if tracker.name == name:
                return tracker.tracker if unwrap else tracker
        if not self._is_main:
            return Silent(name)
        running = ", ".join(tracker.name for tracker in self.running) or "none: call init_trackers first"
        raise CannotTrack(f"get_tracker({name!r}): running are {running}")

    def log(self, values: Values, step: int | None, options: Mapping[str, Mapping[str, Any]]) -> None:
        """Hand the values to each of them."""
        for tracker in self.running:
            tracker.log(dict(values), step=plain_value(step), **options.get(tracker.name, {}))

    def finish(self) -> None:
        """Close them."""
        while self.running:
            self.running.pop().finish()


def _is_one(given: Any) -> bool:
    return isinstance(given, str) or not isinstance(given, Iterable) or isinstance(given, Tracker)


def _check(one: Any) -> None:
    if isinstance(one, str):
        name = str(getattr(one, "value", one))
        if name not in (*KINDS, "all"):
            raise CannotTrack(f"log_with={name!r}: choose from {', '.join(KINDS)}, all, or a tracker of your own")
    elif not all(callable(getattr(one, part, None)) for part in ("log", "store_init_configuration", "finish")):
        raise CannotTrack(f"log_with: a {type(one).__name__} has no log, store_init_configuration and finish")


def _expanded(asked: Sequence[Any]) -> list[Any]:
    """The trackers asked for, each once; "all" stands for those whose libraries are there."""
    import importlib.util

    named: list[Any] = []
    for one in asked:
        if one == "all":
            named += [kind for kind in KINDS if kind in ("jsonl", "csv") or importlib.util.find_spec(kind)]
        else:
            named.append(str(getattr(one, "value", one)) if isinstance(one, str) else one)
    return [one for index, one in enumerate(named) if one not in named[:index]]
