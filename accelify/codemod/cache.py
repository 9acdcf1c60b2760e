"""Results of earlier runs, each as long as the disk still answers all that was asked of it for that result.

An entry holds a value, and every question that was put to the disk to compute it, with the answer: the contents of the
files that were read, the files that were looked for and not found, the lists of folders. The version of accelify and of
its code, the options and the current folder are part of its name. So an entry is either true or not used. Entries are
replaced whole; one that cannot be read, or written, is as good as none.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from accelify import __version__
from accelify.codemod.files.disk import Disk, Question, digest
from accelify.codemod.files.source import read
from accelify.codemod.result import ChangeRecord, FileResult, Note, Problem, Status, Tier

FOLDER = ".accelify_cache"
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of accelify: it may be deleted.\n"
Program = tuple[FileResult, ...]


class Cache:
    """The entries in a folder, for one version of the code; with no folder there are none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._disk = Disk()  # as it is now: each question is put to it once

    def get(self, *key: object) -> Any:
        """The value that was kept under a key, if all that it was computed from is still so; else None."""
        if self._folder is None:
            return None
        try:
            sum_of_body, _, body = self._path(key).read_bytes().partition(b"\n")
            if digest([body]).encode() != sum_of_body:  # cut off, or touched by somebody
                return None
            entry = json.loads(body)
            asked = {(kind, path): answer for kind, path, answer in entry["asked"]}
            is_true = all(self._disk.answer(question) == answer for question, answer in asked.items())
            return entry["value"] if is_true else None
        except OSError:
            return None

    def put(self, value: object, asked: Mapping[Question, str], *key: object) -> None:
        """Keep a value with the questions that it was computed from."""
        if self._folder is None:
            return
        entry = {"value": value, "asked": [[*question, answer] for question, answer in asked.items()]}
        with suppress(OSError):
            path = self._path(key)
            self._prepare(path.parent)
            body = json.dumps(entry).encode()
            _replace(path, digest([body]).encode() + b"\n" + body)

    def _path(self, key: tuple[object, ...]) -> Path:
        assert self._folder is not None
        name = blake2b(json.dumps([str(Path.cwd()), _plain(key)]).encode(), digest_size=20).hexdigest()
        return self._folder / self._version / f"{name}.json"

    @cached_property
    def _version(self) -> str:
        return f"{__version__}-{_code()}"

    def _prepare(self, folder: Path) -> None:
        """Make the folder of this version, and remove those of others."""
        if folder.is_dir():
            return
        root = folder.parent
        root.mkdir(parents=True, exist_ok=True)
        for name, text in (("CACHEDIR.TAG", _TAG), (".gitignore", "*\n")):
            if not (root / name).exists():
                _replace(root / name, text.encode())
        for other in root.iterdir():
            if other.is_dir() and other != folder:
                shutil.rmtree(other, ignore_errors=True)
        folder.mkdir(exist_ok=True)


def _replace(path: Path, data: bytes) -> None:
    """Make bytes the file at once. They need not outlive a power cut: a broken entry is none."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _code() -> str:
    """A digest of all that decides on a result beside the user's files: our code, the parsers, Python."""
    from importlib import metadata  # costs as much as all of a small script; without a cache nobody asks

    folder = Path(__file__).parent
    modules = sorted(folder.rglob("*.py"))
    versions = f"{metadata.version('libcst')} {platform.python_implementation()} {platform.python_version()}"
    return digest([versions.encode(), *(part for m in modules for part in (str(m).encode(), m.read_bytes()))])[:16]


def _plain(value: object) -> object:
    """A key as JSON has it, alike in every process."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(str(each) for each in value)
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return value


def packed(program: Program) -> list[dict[str, object]]:
    """The results of a program as JSON has them, but for the bytes of the user's files."""
    return [
        {
            **dataclasses.asdict(result),
            "before": digest([result.before]),
            "after": base64.b64encode(result.after).decode(),
        }
        for result in program
    ]


def unpacked(program: list[dict[str, Any]]) -> Program:
    """The results that were packed. Raises: CannotRead or ValueError for a file that is no longer what it was."""
    return tuple(map(_result, program))


def _result(plain: dict[str, Any]) -> FileResult:
    before = read(plain["path"]) if plain["status"] == Status.MIGRATED else b""
    if digest([before]) != plain["before"]:  # changed since the disk was asked
        raise ValueError(plain["path"])
    return FileResult(
        path=plain["path"],
        status=Status(plain["status"]),
        before=before,
        after=base64.b64decode(plain["after"]),
        changes=tuple(ChangeRecord(**_typed(change)) for change in plain["changes"]),
        notes=tuple(Note(**_typed(note)) for note in plain["notes"]),
        error=Problem(**plain["error"]) if plain["error"] is not None else None,
        because=plain["because"],
        kept=tuple(Note(**_typed(note)) for note in plain["kept"]),
    )


def _typed(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: _tuples(value) for name, value in plain.items()} | {"tier": Tier(plain["tier"])}


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
