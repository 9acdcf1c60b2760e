"""Which files a list of paths means: a file is itself, a folder is the user's own Python files and notebooks in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from accelify.codemod.files.source import describe
from accelify.codemod.patterns import Patterns
from accelify.errors import CannotRead

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# Folders that hold other people's code or a tool's output.
SKIPPED_FOLDERS = ("__pycache__", "__pypackages__", "build", "dist", "node_modules", "site-packages")
ENVIRONMENT_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})


@dataclass(frozen=True, slots=True)
class Found:
    """A file to look at; `named` if the user named it, rather than a folder above it."""

    path: str
    named: bool


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The files that are not looked for in folders, whatever .gitignore says; with `forced`, named files as well."""

    patterns: tuple[Patterns, ...] = (Patterns(os.sep, SKIPPED_FOLDERS),)
    forced: bool = False

    def within(self, folder: Path) -> Exclusion:
        """The exclusion inside a folder that was named: without patterns that would leave out the folder itself."""
        return replace(self, patterns=tuple(each.without_those_for(folder) for each in self.patterns))

    def covers(self, path: Path, *, is_folder: bool = False) -> bool:
        """Whether a path is left out."""
        return any(patterns.match(path, is_folder=is_folder) for patterns in self.patterns)

    def refuses(self, path: str) -> bool:
        """Whether a path is left out though it was named."""
        return self.forced and self.covers(Path(path), is_folder=is_folder(path))


USUAL = Exclusion()


@dataclass(frozen=True, slots=True)
class _Ignore:
    """One .gitignore file: the folder that its patterns are relative to, and the patterns."""

    folder: Path
    patterns: GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class _Place:
    """A file or folder met on a walk: as the user would write it, where it really is, the .gitignore files above it."""

    shown: Path
    real: Path
    is_folder: bool
    ignores: tuple[_Ignore, ...]

    def is_ignored(self) -> bool:
        """Whether git ignores it: of the ignore files with a pattern for it, the nearest decides."""
        for ignore in reversed(self.ignores):
            inside = self.real.relative_to(ignore.folder).as_posix() + ("/" if self.is_folder else "")
            verdict = ignore.patterns.check_file(inside).include
            if verdict is not None:
                return verdict
        return False


def find(paths: Sequence[str], exclusion: Exclusion = USUAL) -> Iterator[Found | CannotRead]:
    """Every file that the paths mean, once, in the order of the paths and by name inside a folder.

    A walk follows no symbolic link, so it ends and never leaves its folder; a link that is named is followed.
    A folder that cannot be read, or has no Python file, gives an error in its place.
    """
    seen: set[Path] = set()
    for path in (path for path in paths if not exclusion.refuses(path)):
        for found in _in_folder(path, exclusion) if is_folder(path) else _itself(path):
            if isinstance(found, CannotRead):
                yield found
            elif found[1] not in seen:
                seen.add(found[1])
                yield found[0]


def is_folder(path: str) -> bool:
    """Whether a path is a folder that may be looked into."""
    return os.access(path, os.F_OK) and Path(path).is_dir()  # which alone raises where it may not look


def _itself(path: str) -> Iterator[tuple[Found, Path]]:
    yield Found(path, named=True), Path(os.path.realpath(path))  # which bears a loop of links, unlike Path.resolve


def _in_folder(path: str, exclusion: Exclusion) -> Iterator[tuple[Found, Path] | CannotRead]:
    empty = True
    for place in _walk(Path(path), exclusion):
        empty = False
        yield place if isinstance(place, CannotRead) else (Found(str(place.shown), named=False), place.real)
    if empty:
        yield CannotRead(path, reason="a folder without Python files")


def _walk(path: Path, exclusion: Exclusion) -> Iterator[_Place | CannotRead]:
    """The Python files in a folder and the folders that could not be read, by name."""
    real = path.resolve()
    exclusion = exclusion.within(real)
    stack = [_Place(path, real, is_folder=True, ignores=_ignores_above(real))]
    while stack:  # not a recursion: folders can be nested deeper than calls
        place = stack.pop()
        if not place.is_folder:
            yield place
            continue
        try:
            with os.scandir(place.real) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            yield CannotRead(str(place.shown), reason=f"a folder that cannot be read: {describe(error)}")
            continue
        if place.real == real or ENVIRONMENT_MARKS.isdisjoint(entry.name for entry in entries):
            stack.extend(reversed(list(_inside(place, entries, exclusion))))


def _inside(folder: _Place, entries: list[os.DirEntry[str]], exclusion: Exclusion) -> Iterator[_Place]:
    """The folders to enter and the files to take."""
    ignores = folder.ignores
    if any(entry.name == ".gitignore" for entry in entries):
        ignores += _read_ignores(folder.real, ".gitignore")
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder:
            wanted = not entry.name.startswith(".")
        else:
            wanted = entry.name.endswith((".py", ".ipynb")) and entry.is_file(follow_symlinks=False)
        if wanted:
            place = _Place(folder.shown / entry.name, folder.real / entry.name, is_folder, ignores)
            if not place.is_ignored() and not exclusion.covers(place.real, is_folder=is_folder):
                yield place


def _ignores_above(folder: Path) -> tuple[_Ignore, ...]:
    """The ignore files that rule a folder from above it, as far as its repository reaches.

    None if they ignore the folder itself: the user named it all the same.
    """
    upwards = [folder, *folder.parents]
    depth = next((depth for depth, parent in enumerate(upwards) if os.access(parent / ".git", os.F_OK)), None)
    if depth is None:
        return ()
    ignores = _read_ignores(upwards[depth], ".git/info/exclude")
    for parent in reversed(upwards[1 : depth + 1]):
        ignores += _read_ignores(parent, ".gitignore")
    place = _Place(folder, folder, is_folder=True, ignores=ignores)
    return () if depth and place.is_ignored() else ignores


def _read_ignores(folder: Path, name: str) -> tuple[_Ignore, ...]:
    from pathspec import GitIgnoreSpec  # here, as most runs name one file

    try:
        lines = (folder / name).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ()
    return (_Ignore(folder, GitIgnoreSpec.from_lines(lines)),)
