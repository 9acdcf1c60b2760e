"""Colour for terminals, and none for pipes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}

Paint = Callable[[str, str], str]


def paint_for(stream: TextIO) -> Paint:
    """A function (style, text) -> text that colours what is written to `stream`, where that helps.

    Source: https://no-color.org, and FORCE_COLOR for a terminal behind a pipe, such as a CI log.
    """
    if os.environ.get("NO_COLOR"):
        return plain
    wanted = os.environ.get("FORCE_COLOR") or (stream.isatty() and os.environ.get("TERM") != "dumb")
    return colourful if wanted else plain


def plain(style: str, text: str) -> str:
    """The text as it is."""
    return text


def colourful(style: str, text: str) -> str:
    """The text in a style such as `bold green`."""
    codes = ";".join(str(_CODES[word]) for word in style.split())
    return f"\033[{codes}m{text}\033[0m" if text else text


def painted_diff(diff: str, paint: Paint) -> str:
    """A unified diff with its headers, removed and added lines in colours of their own."""
    lines = diff.split("\n")
    return "\n".join(paint(style, line) if (style := _diff_style(line)) else line for line in lines)


def _diff_style(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "bold"
    return {"@": "cyan", "-": "red", "+": "green", "\\": "dim"}.get(line[:1], "")
