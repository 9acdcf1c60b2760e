"""Questions to the disk while files were rewritten, and their answers: asking again shows whether those still hold.

An answer is kept as a short text: the digest of a file's bytes, whether a path is there, which scripts a folder has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from accelify.codemod.files.source import may_train, read
from accelify.errors import CannotRead

Question = tuple[str, str]  # which kind of question, with the word that it is about, and about which path
_MOST_SEARCHED = 2000  # files of a repository that are searched for a name
_MOST_KEPT = 2**20  # bytes of a file
_ENDS = (".py", ".ipynb")
_IMPORT = re.compile(rb"(?:^|\r)\s*(?:from|import)\b([^\r\n(]*(?:\([^)]*)?[^\r\n]*)", re.M)
# One that stands in a comment, in a cell or behind a colon, too.
_MAY_IMPORT = re.compile(rb"\b(?:from|import)\b((?:[^\r\n(\\]|\\\r?\n)*(?:\([^)]*)?[^\r\n]*)")
_WORD = re.compile(rb"[\w\x80-\xff]+|(?<=\s)\.")  # and a dot at the beginning: `from . import lib`


class Disk:
    """The files as they are; remembers each question with its answer."""

    def __init__(self) -> None:
        self.asked: dict[Question, str] = {}
        self._searched: dict[str, bytes] = {}  # files that words were looked for in
        self._named: dict[str, frozenset[str]] = {}  # the words in what may be imports

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises: CannotRead."""
        try:
            data = read(path)
        except CannotRead as error:
            self.asked["bytes", path] = error.reason
            raise
        self.asked["bytes", path] = digest([os.path.realpath(path).encode(errors="surrogateescape"), data])
        return data

    def has(self, path: str, word: str) -> bool:
        """Whether a file can be read and holds a word; what else it holds does not matter to the answer."""
        found = word.encode() in self._search(path)
        self.asked[f"has {word}", path] = str(found)
        return found

    def _search(self, path: str) -> bytes:
        """The bytes of a file that words are looked for in, one after the other; none where it cannot be read."""
        if path not in self._searched:
            try:
                data = read(path)
            except CannotRead:
                data = b""
            if len(data) > _MOST_KEPT:
                return data
            self._searched[path] = data
        return self._searched[path]

    def may_import(self, path: str, name: str) -> bool:
        """Whether a script may import a module: it has its name in an import, or trains and has it anywhere."""
        data = self._search(path)
        found = (may_train(data) and name.encode() in data) or name in _words_of_imports(data)
        self.asked[f"imports {name}", path] = str(found)
        return found

    def may_name(self, path: str, words: Collection[str]) -> bool:
        """Whether one of some words may stand in a script's imports, wherever these are; `.` stands for a dot."""
        if path not in self._named:
            self._named[path] = _words_in(_MAY_IMPORT, self._search(path))
        found = not self._named[path].isdisjoint(words)
        self.asked[f"names {','.join(sorted(words))}", path] = str(found)
        return found

    def words_of_imports(self, path: str) -> frozenset[str]:
        """The words in a script's imports: parts of the modules' names, and what is imported from them."""
        found = _words_of_imports(self._search(path))
        self.asked["words", path] = digest(word.encode() for word in sorted(found))
        return found

    def is_there(self, path: Path) -> bool:
        """Whether a path leads anywhere."""
        found = os.access(path, os.F_OK)
        self.asked["there", str(path)] = str(found)
        return found

    def files(self, folder: Path, end: str) -> list[Path]:
        """The regular files of a folder whose names have an end, by name."""
        found = [path for path in sorted(folder.glob(f"*{end}")) if path.is_file()]
        self.asked[f"files {end}", str(folder)] = digest(str(path).encode(errors="surrogateescape") for path in found)
        return found

    def repository(self, top: Path) -> list[Path]:
        """The scripts and notebooks of a repository, so far as they are searched; none in hidden folders."""
        found: list[Path] = []
        for folder, folders, files in os.walk(top):
            folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in ("site-packages", "venv"))
            found += [Path(folder, f) for f in sorted(files) if f.endswith(_ENDS)]
            if len(found) > _MOST_SEARCHED:
                break
        found = found[:_MOST_SEARCHED]
        self.asked["repository", str(top)] = digest(str(path).encode(errors="surrogateescape") for path in found)
        return found

    def answer(self, question: Question) -> str:
        """The disk's present answer; a question that was asked before is not asked again."""
        if question not in self.asked:
            kind, path = question
            kind, _, word = kind.partition(" ")
            _KINDS[kind](self, path, word)
        return self.asked[question]


def _read(disk: Disk, path: str, word: str) -> None:
    with suppress(CannotRead):  # which is an answer, too
        disk.read(path)


_KINDS: dict[str, Callable[[Disk, str, str], object]] = {
    "bytes": _read,
    "has": lambda disk, path, word: disk.has(path, word),
    "imports": lambda disk, path, word: disk.may_import(path, word),
    "names": lambda disk, path, words: disk.may_name(path, words.split(",")),
    "words": lambda disk, path, word: disk.words_of_imports(path),
    "there": lambda disk, path, word: disk.is_there(Path(path)),
    "files": lambda disk, path, word: disk.files(Path(path), word),
    "repository": lambda disk, path, word: disk.repository(Path(path)),
}


def _words_of_imports(data: bytes) -> frozenset[str]:
    return _words_in(_IMPORT, data) - {"."}


def _words_in(imports: re.Pattern[bytes], data: bytes) -> frozenset[str]:
    return frozenset(word.decode(errors="replace") for part in imports.findall(data) for word in _WORD.findall(part))


def digest(parts: Iterable[bytes]) -> str:
    """A short text that two sequences of bytes share only if they are equal."""
    found = blake2b(digest_size=20)
    for part in parts:
        found.update(b"%d:" % len(part))
        found.update(part)
    return found.hexdigest()
