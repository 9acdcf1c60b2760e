"""Whose code a file holds: the script's, a library's or the runtime's. Works without torch."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

_OURS = f"{Path(__file__).parents[2]}{os.sep}"
_STANDARD = tuple(f"{sysconfig.get_paths()[name]}{os.sep}" for name in ("stdlib", "platstdlib"))
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def is_library(file: str) -> bool:
    """Whether a file, as a frame names it, is a library's or ours, and not the script's."""
    return is_ours(file) or is_standard(file) or is_installed(file)


def is_ours(file: str) -> bool:
    """Whether it is accelify's own."""
    return file.startswith(_OURS)


def is_standard(file: str) -> bool:
    """Whether it is Python's own, or no file at all."""
    return file.startswith("<") or (file.startswith(_STANDARD) and not is_installed(file))


def is_installed(file: str) -> bool:
    """Whether it has been installed beside Python's own."""
    return any(folder in file for folder in _INSTALLED)
