"""A logger whose messages come from one process, however many there are."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any  # logging's own keyword arguments

import torch.distributed as dist

from accelify.runtime.world.process_group import place

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter  # not to be subscripted before Python 3.11

# How many calls `log` puts between a logger and its user; before Python 3.11, the adapter's own counts as well.
_CALLS = 1 if sys.version_info >= (3, 11) else 2


class ProcessLogger(_Adapter):
    """A logger whose messages come from process 0 only, unless `main_process_only=False`; in rank order if asked."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger, {})
        self._given: set[str] = set()

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log on process 0; with `main_process_only=False` on all; with `in_order=True` one rank after the other."""
        only_main, in_order = kwargs.pop("main_process_only", True), kwargs.pop("in_order", False)
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + _CALLS
        rank, size = place()
        if in_order:
            for turn in range(size):
                if turn == rank:
                    super().log(level, msg, *args, **kwargs)
                if dist.is_initialized():
                    dist.barrier()
        elif rank == 0 or not only_main:
            super().log(level, msg, *args, **kwargs)

    def warning_once(self, msg: object, *args: object, **kwargs: Any) -> None:
        """A warning, the first time that it is given."""
        if (words := f"{msg} {args}") not in self._given:
            self._given.add(words)
            self.log(logging.WARNING, msg, *args, **{**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + 1})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """The message as it is."""
        return msg, kwargs


def get_logger(name: str, log_level: str | None = None) -> ProcessLogger:
    """A logger for scripts that run in several processes."""
    logger = logging.getLogger(name)
    if log_level is not None:
        logger.setLevel(log_level.upper())
    return ProcessLogger(logger)
