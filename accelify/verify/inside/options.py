"""Records the options of a script's argparse parser that may take a checkpoint to go on from, likeliest first."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any  # parsers take what they take

from accelify.verify.inside.record import Recorder

# Which of them does is tried: these only say in which order.
_WORDS = tuple(
    re.compile(words) for words in ("resume", "restore|continue", "checkpoint|ckpt", "load|pretrained|weights")
)


def install(recorder: Recorder) -> None:
    """Record from here on."""
    real: Callable[..., Any] = argparse.ArgumentParser.parse_known_args

    @wraps(real)
    def parse(parser: argparse.ArgumentParser, *given: Any, **options: Any) -> Any:
        found = [(rank, action) for action in parser._actions if (rank := _rank(action)) is not None]
        names = [
            (action.option_strings[-1], action.nargs != 0) for _, action in sorted(found, key=lambda each: each[0])
        ]
        recorder.write("options", options=names)
        return real(parser, *given, **options)

    argparse.ArgumentParser.parse_known_args = parse  # type: ignore[method-assign, assignment]


def _rank(action: argparse.Action) -> int | None:
    """How likely an option takes a checkpoint, by its name; None for one that does not."""
    name = " ".join(action.option_strings).lower()
    is_path = action.nargs in (None, "?") and action.type in (None, str, Path) and action.choices is None
    is_flag = isinstance(action, (argparse._StoreTrueAction, argparse.BooleanOptionalAction))
    ranks = [rank for rank, words in enumerate(_WORDS) if words.search(name)]
    return min(ranks) if ranks and (is_path or is_flag) else None
