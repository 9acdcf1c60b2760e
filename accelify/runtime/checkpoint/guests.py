"""What lies in a checkpoint's folder and is not of it: files of the script, which stay when it is replaced."""

from __future__ import annotations

import os
import shutil
from collections.abc import Container
from pathlib import Path


def take_along(old: Path, own: Container[str], new: Path) -> set[Path]:
    """Give the new folder what the old one holds beside its `own` files; the folders that this wrote into.

    The files are in both for a while, under links: whenever we end, nothing is away.
    """
    touched = set()
    for place, folders, files in os.walk(old):
        inside = new / Path(place).relative_to(old)
        links = [name for name in folders if Path(place, name).is_symlink()]
        kept = [name for name in files + links if Path(place, name).relative_to(old).as_posix() not in own]
        missing = [name for name in kept if not os.path.lexists(inside / name)]
        if missing or not (folders or files):
            inside.mkdir(parents=True, exist_ok=True)
            touched.add(inside)
        for name in missing:
            _link(Path(place, name), inside / name)
    return touched


def _link(old: Path, new: Path) -> None:
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:  # a file system without, or another user's file
        shutil.copy2(old, new, follow_symlinks=False)
