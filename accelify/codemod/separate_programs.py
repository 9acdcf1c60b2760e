"""Several programs among the named files: each is rewritten by itself where they cannot be rewritten as one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from accelify.codemod.files.parse import Parsed, parse
from accelify.codemod.files.project import Project, absolute
from accelify.codemod.result import FileResult, Note, Status, Tier

Rewrite = Callable[[Parsed], list[FileResult]]


class Apart:
    """The programs of some files: those that no other of them imports, each with what it imports."""

    def __init__(self, named: Sequence[Parsed], project: Project, follow: bool, rewrite: Rewrite) -> None:
        self._named = {absolute(p.path): p for p in named}
        self._programs = {
            key: {absolute(f.path) for f in project.program([p], follow)} for key, p in self._named.items()
        }
        self._rewrite = rewrite
        self._found: dict[str, FileResult] = {}

    def results(self) -> list[FileResult] | None:
        """What becomes of all files; None where one program would change what another needs as it was."""
        entries = [key for key in self._named if not self._importers(key)]
        for key in entries:
            if not self._take(key):
                return None
        for key in self._named:
            if key in self._found:
                continue
            left = [i for i in self._importers(key) if self._status(i) is Status.DECLINED]
            if left and ".backward" in self._named[key].text:
                self._found[key] = _left(self._named[key], self._named[left[0]].path)
            elif not self._take(key):
                return None
        return list(self._found.values()) if entries and self._fits() else None

    def _importers(self, key: str) -> list[str]:
        return [other for other, files in self._programs.items() if key in files and other != key]

    def _status(self, key: str) -> Status | None:
        return self._found[key].status if key in self._found else None

    def _take(self, key: str) -> bool:
        """Take in what becomes of one program; whether that goes with what became of the others."""
        for result in self._rewrite(self._named[key]):
            at = absolute(result.path)
            known = self._found.get(at)
            if at in self._named:
                result = replace(result, path=self._named[at].path)
            if known is None or known.status is Status.UNCHANGED:
                self._found[at] = result
            elif result.status is Status.MIGRATED and known.after != result.after:
                return False
        return True

    def _fits(self) -> bool:
        """Whether every program can use what others have changed of its files."""
        changed = {at: result for at, result in self._found.items() if result.status is Status.MIGRATED}
        for key, files in self._programs.items():
            if self._status(key) is not Status.MIGRATED:
                for at in (files & changed.keys()) - {key}:
                    if _signatures(at, changed[at].before) != _signatures(at, changed[at].after):
                        return False
        return True


def _left(parsed: Parsed, importer: str) -> FileResult:
    note = Note(1, "callers", Tier.ADVICE, f"{importer} trains with this, and cannot be migrated")
    return FileResult(parsed.path, Status.DECLINED, parsed.data, parsed.data, notes=(note,))


def _signatures(path: str, data: bytes) -> list[tuple[str, str]]:
    """How the functions of a file are to be called."""
    functions = (n for n in ast.walk(parse(path, data).tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return [(function.name, ast.dump(function.args)) for function in functions]
