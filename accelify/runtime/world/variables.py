"""Environment variables of a script's own: read as flags, numbers and choices, and set for the length of a block."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_TRUE, _FALSE = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


def str_to_bool(value: str, to_bool: bool = False) -> int | bool:
    """1 for y, yes, t, true, on and 1; 0 for n, no, f, false, off and 0; with `to_bool`, True and False.

    Raises: ValueError for any other text.
    """
    word = value.lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(f"{value!r} is neither true nor false")
    return word in _TRUE if to_bool else int(word in _TRUE)


def parse_flag_from_env(key: str, default: bool = False) -> bool:
    """Whether a variable says so, or the default where it is not set. Raises: ValueError for what is neither."""
    return bool(str_to_bool(os.environ.get(key, str(default))))


def parse_choice_from_env(key: str, default: str = "no") -> str:
    """A variable's text, or the default where it is not set."""
    return os.environ.get(key, str(default))


def get_int_from_env(env_keys: Sequence[str], default: int) -> int:
    """The first of the variables that holds a number from 0 on, else the default. Raises: ValueError for no number."""
    numbers = (int(os.environ.get(key, -1)) for key in env_keys)
    return next((number for number in numbers if number >= 0), default)


@contextmanager
def patch_environment(**kwargs: object) -> Iterator[None]:
    """Set variables, their names in capitals, inside the block; afterwards each is what it was."""
    names = {name.upper(): str(value) for name, value in kwargs.items()}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def clear_environment() -> Iterator[None]:
    """No variables at all inside the block; afterwards they are what they were."""
    before = dict(os.environ)
    os.environ.clear()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
