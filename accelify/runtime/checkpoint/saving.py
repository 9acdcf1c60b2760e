"""Write a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any  # torch.save takes anything

from accelify.runtime.checkpoint.files import sync


def write_atomically(path: str | os.PathLike[str], write: Callable[[IO[bytes]], Any]) -> None:
    """Replace `path` by what `write` puts into the file it is given. A failure leaves what was there before.

    A link keeps pointing where it points; an existing file keeps its mode.
    """
    target = Path(path).resolve()
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(_mode(target))
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync(target.parent)


def _mode(target: Path) -> int:
    if target.exists():
        return target.stat().st_mode & 0o7777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
