"""Which paths do patterns mean? As in a .gitignore at the root: `build` anywhere below it, `data/raw` there alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class Patterns:
    """Some patterns, and the folder that they are relative to; `!name` means what no other pattern of these does."""

    root: str
    lines: tuple[str, ...] = ()

    def match(self, path: str | os.PathLike[str], *, is_folder: bool = False) -> bool:
        """Whether a path, or a folder above it, is meant; beyond the root, by its name alone."""
        if not self.lines:
            return False
        real = Path(os.path.normpath(Path.cwd() / path))  # not resolved: links are named as they stand
        try:
            inside = real.relative_to(self.root).as_posix()
        except ValueError:
            inside = real.name
        is_negated = all(line.startswith("!") for line in self.lines)
        lines = tuple(line[1:] for line in self.lines) if is_negated else self.lines
        return bool(_spec(lines).check_file(inside + "/" * is_folder).include) is not is_negated

    def moved(self, before: Path, after: Path) -> Patterns:
        """The same patterns where one folder is copied to another."""
        return replace(self, root=os.path.normpath(after / os.path.relpath(self.root, before)))

    def without_those_for(self, folder: Path) -> Patterns:
        """The patterns that do not mean a folder itself."""
        each = [line for line in self.lines if not Patterns(self.root, (line,)).match(folder, is_folder=True)]
        return Patterns(self.root, tuple(each))


@lru_cache(maxsize=256)
def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # here, as most runs name one file

    return GitIgnoreSpec.from_lines(lines)
