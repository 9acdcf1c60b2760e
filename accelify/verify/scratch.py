"""Scratch copies of the user's project, in one of which the script is rewritten. The project itself is only read."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from accelify.codemod.options import Options
from accelify.codemod.result import FileResult
from accelify.errors import AccelifyError, place

LEFT_OUT = {
    *(".git", ".hg", "__pycache__", "node_modules", ".tox", ".nox"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".accelify_cache"),
}
# Larger files are linked: a script that writes one gets a copy of its own then. Units: bytes.
LARGE = 2**20
# A folder tree with more entries than this is a data set: what is left of it is linked as whole folders.
ENTRIES = 20_000
PREFIX = "accelify-verify-"  # of the folders for temporary files
_LINE = re.compile(r"(?::|, line )(\d+)$")  # at the end of a place


class CannotVerify(AccelifyError):
    """Why there is no verdict; what the script itself said, where it said something."""


@dataclass(frozen=True, slots=True)
class Project:
    """The user's project: its top folder, the script in it, and the folder from which the script is run."""

    root: Path
    script: Path
    folder: Path

    @classmethod
    def around(cls, script: Path, current: Path) -> Project:
        """The project of a script: its repository, else the current folder above it, else the script's own folder."""
        current = current.resolve()
        given, script = script, (current / script).parent.resolve() / script.name
        if not script.is_file():
            is_folder = (current / given).is_dir()
            raise CannotVerify("a folder: name the script in it" if is_folder else f"there is no script {script}")
        root = _repository(script.parent)
        if root is None:
            root = current if current in script.parents and not _is_crowd(current) else script.parent
        folder = current if current == root or root in current.parents else script.parent
        return cls(root, script.relative_to(root), folder.relative_to(root))


def _repository(folder: Path) -> Path | None:
    for above in (folder, *folder.parents):
        if os.access(above / ".git", os.F_OK) and not _is_crowd(above):
            return above
    return None


def _is_crowd(folder: Path) -> bool:
    """Whether this holds much else than a project: the home folder, the one for temporary files, or one above them."""
    return any(folder == crowd or folder in crowd.parents for crowd in _crowds())


def _crowds() -> tuple[Path, ...]:
    return Path.home(), Path(os.path.realpath(tempfile.gettempdir()))


@dataclass(frozen=True, slots=True)
class OwnValue:
    """A place that shows or saves a value of one process's own, as a note of the rewrite says.

    file: what stands before the line in the names of places: a path, or a cell of a notebook. function: the first and
    the last line of the function that the place is in, or of the file.
    """

    at: str
    note: str
    file: str
    function: tuple[int, int]

    def is_in_function_of(self, place: str | None) -> bool:
        """Whether another place is in the same function: a file is opened there, and written line by line."""
        match = _LINE.search(place or "")
        return match is not None and (place or "")[: match.start()] == self.file and self._spans(int(match[1]))

    def _spans(self, line: int) -> bool:
        return self.function[0] <= line <= self.function[1]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The project in which the script is rewritten, and what the rewrite said."""

    project: Project
    files: tuple[tuple[Path, bytes, bytes], ...] = ()  # path in the project, before, after
    notes: tuple[str, ...] = ()
    own_values: tuple[OwnValue, ...] = ()


def copy_project(project: Project, target: Path) -> None:
    """A copy of a project; links to it stand for large files, what may not be read, and folders of no project."""
    budget = [0 if _is_crowd(project.root) else ENTRIES]
    _copy(project.root, target, budget)
    (target / project.folder).mkdir(parents=True, exist_ok=True)


def _copy(source: Path, target: Path, budget: list[int]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with os.scandir(source) as entries:
        listed = sorted(entries, key=lambda entry: (entry.is_dir(follow_symlinks=False), entry.name))
    for entry in listed:
        budget[0] -= 1
        here = target / entry.name
        if entry.is_dir(follow_symlinks=False):
            if entry.name in LEFT_OUT or os.access(Path(entry.path, "pyvenv.cfg"), os.F_OK):
                continue
            if budget[0] < 0 or not os.access(entry.path, os.R_OK | os.X_OK):
                here.symlink_to(entry.path)
            else:
                _copy(Path(entry.path), here, budget)
        elif entry.is_symlink() or entry.is_file():
            _copy_file(entry, here, budget[0] < 0)


def _copy_file(entry: os.DirEntry[str], here: Path, link: bool) -> None:
    try:
        small = entry.stat().st_size <= LARGE and Path(entry.path).is_file()
    except OSError:  # a link that leads nowhere
        return
    if os.access(entry.path, os.R_OK) and (entry.name.endswith(".py") or (small and not link)):
        shutil.copyfile(entry.path, here)
    else:
        here.symlink_to(os.path.realpath(entry.path))


def rewrite_copy(project: Project, copy: Path, also: Sequence[Path], options: Options) -> Rewritten:
    """Rewrite the script in a copy of its project. Raises: CannotVerify when it is not migrated."""
    from accelify.codemod.result import Status
    from accelify.codemod.rewrite import rewrite_together

    front = f"{copy}{os.sep}"
    paths = tuple(dict.fromkeys(str(copy / path) for path in (project.script, *also)))
    options = replace(options, selection=options.selection.moved(project.root, copy))
    results = rewrite_together(paths, options)
    migrated = [result for result in results if result.status is Status.MIGRATED]
    if not migrated:
        raise CannotVerify(_why_not(results[0], project.script).replace(front, ""))
    for result in migrated:
        if copy not in Path(result.path).resolve().parents:
            raise CannotVerify(f"{result.path.removeprefix(front)} is a link to a folder outside of the project")
    return as_rewritten(project, [(Path(result.path.removeprefix(front)), result) for result in results], front)


def as_rewritten(project: Project, results: Sequence[tuple[Path, FileResult]], front: str = "") -> Rewritten:
    """The result of rewriting files of the project; `front` is the folder before their paths."""
    files, notes, own = [], [], []
    names = {result.path: str(name) for name, result in results}
    for name, result in results:
        if result.after != result.before:
            files.append((name, result.before, result.after))
        for note in result.notes:
            words = f"{place(str(name), note.line, cell=note.cell)}: {note.message}".replace(front, "")
            notes.append(words)
            for shown in note.shows:
                path, _, rest = shown.rpartition(":")
                at = f"{names.get(path, path.removeprefix(front))}:{rest}"
                text = result.after if path == result.path else b""
                own.append(_own_value(at, words, text))
    return Rewritten(project, tuple(files), tuple(notes), tuple(own))


def _own_value(at: str, note: str, text: bytes) -> OwnValue:
    match = _LINE.search(at)
    assert match is not None
    file, line = at[: match.start()], int(match[1])
    if not file.endswith(".py") or not text:
        return OwnValue(at, note, file, (0, sys.maxsize))  # a cell: all of it
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    spans = [(n.lineno, n.end_lineno or n.lineno) for n in functions]
    around = [(first, last) for first, last in spans if first <= line <= last]
    return OwnValue(at, note, file, max(around, default=(0, sys.maxsize)))


def _why_not(result: FileResult, script: Path) -> str:
    from accelify.codemod.result import Status

    if (error := result.error) is not None:
        return f"{place(str(script), error.line, error.column, error.cell)}: {error.message}"
    reasons = "".join(f"\n  {place(str(script), note.line, cell=note.cell)}: {note.message}" for note in result.notes)
    if result.status is Status.DECLINED:
        return f"{script}: the rewrite declined it, so that there is nothing to prove:{reasons}"
    return f"{script}: the rewrite changes nothing in it, so that there is nothing to prove{reasons}"


def take_new(project: Project, new: Path, folder: Path) -> Rewritten:
    """A script that is rewritten already, named from a folder: in the same project, or in one of its own."""
    theirs = Project.around(new, folder)
    before, after = (project.root / project.script).read_bytes(), (theirs.root / theirs.script).read_bytes()
    if theirs.root == project.root:
        theirs = Project(project.root, theirs.script, project.folder)
    return Rewritten(theirs, ((theirs.script, before, after),))


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        yield Path(os.path.realpath(name))
