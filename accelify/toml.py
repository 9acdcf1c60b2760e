"""TOML on every Python from 3.10: the standard library's reader, or the package that it was made from."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class NotTOML(ValueError):
    """A text that cannot be read as TOML: the reason, and where."""


def parse(text: str) -> dict[str, Any]:
    """The tables of a text. Raises: NotTOML."""
    try:
        return tomllib.loads(text)
    except ValueError as error:  # a TOMLDecodeError, or what Python has against a number
        raise NotTOML(f"is not TOML: {error}") from None
    except RecursionError:
        raise NotTOML("is nested too deeply") from None
