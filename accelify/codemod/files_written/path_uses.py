"""Which calls use which paths, and do two of them mean one file, for which all wait?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from accelify.codemod.files_written.loads import may_be_of
from accelify.codemod.files_written.one_process import OneProcess
from accelify.codemod.files_written.paths import Files
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.effects.summary import FileUse
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import names_in

_DEPTH = 2
_PATHS = frozenset({"path", "string"})


class PathUses:
    """Look at the paths that calls read and write, themselves or by what their callers give them."""

    def __init__(self, alone: OneProcess, stored: Files) -> None:
        self.program = alone.program
        self.effects = alone.effects
        self.stored = stored

    def looked_at(self, writes: Iterable[ast.Call]) -> Iterator[ast.Call]:
        """The calls that may read a file, or look at it, after one of some calls has written it.

        Not what stands by itself, and so is what a notebook shows: `Image("all.gif")`.
        """
        written: dict[object, list[tuple[ast.Call, ast.expr]]] = {}
        for call in writes:
            for path in self.written(call):
                for use in self.by_callers(call, path):
                    written.setdefault(self.place_of(use[1]), []).append(use)
        for call in self.program.calls:
            summary = self.effects.of_call(call)
            is_shown = isinstance(self.program.parent(call), ast.Expr) and not summary.files_written
            if is_shown or self.program.flow.callees.get(call):
                continue
            read = (use for path in self._paths(summary.files_read) for use in self.by_callers(call, path))
            found = ((w, by) for by in read for w in written.get(self.place_of(by[1]), ()) if w[0] is not by[0])
            if any(not self.stored.are_of_rounds(*w, *by) and self.stored.is_before(w[0], by[0]) for w, by in found):
                yield call

    def by_callers(self, call: ast.Call, path: ast.expr, depth: int = _DEPTH) -> Iterator[tuple[ast.Call, ast.expr]]:
        """A call with the path that it uses; where its function is given that, the function's calls with theirs."""
        yield call, path
        named, function = self._bare(path), self.program.frame(call)
        if isinstance(named, ast.Name) and depth and function.kind == "function":
            writes = function.writes.get(named.id, ())
            callers = self.program.calls_of(function) if all(isinstance(w, ast.arg) for w in writes) else ()
            for caller in callers if writes else ():
                given = self.stored.tracer.given(caller, function, named.id)
                yield from self.by_callers(caller, given, depth - 1) if given is not None else ()

    def place_of(self, path: ast.expr) -> object:
        """A key equal for paths of one spelling where they mean the same file: everywhere, or in a function."""
        path = self._bare(path)
        is_local = bool(names_in(path)) and not isinstance(path, ast.Attribute)
        return self.program.frame(path) if is_local else None, ast.unparse(path)

    def _bare(self, path: ast.expr) -> ast.expr:
        """`path` of `Path(path)` and `str(path)`."""
        while isinstance(path, ast.Call) and len(path.args) == 1 and self.effects.kinds.of(path) <= _PATHS:
            path = path.args[0]
        return path

    def read(self, call: ast.Call) -> list[ast.expr]:
        is_own = not self.program.flow.callees.get(call)
        return self._paths(self.effects.of_call(call).files_read) if is_own else []

    def written(self, call: ast.Call) -> list[ast.expr]:
        return self._paths(self.effects.of_call(call).files_written)

    def asks_for_folder(self, call: ast.Call, path: ast.expr) -> bool:
        """Whether a call only asks for a folder, which code beside it makes: no file in there gives another answer."""
        if not any(row.has(Trait.LOOKS) for row in self.effects.kinds.called(call) or ()):
            return False
        calls = self.program.calls_in(self.program.frame(call))
        made = (p for c in calls for use in self.effects.of_call(c).files_written if use.is_folder for p in use.paths)
        return self.place_of(path) in map(self.place_of, made)

    @staticmethod
    def _paths(uses: Iterable[FileUse]) -> list[ast.expr]:
        return [p for use in uses if not use.is_folder for p in use.paths]


@dataclass(frozen=True, slots=True)
class ToldWaits:
    """Will all processes wait before one reads what another writes, where the accelerator does not reach the read?

    They can where it reaches the calls that lead there; the rules wait there if the paths tell that it is one file.
    """

    alone: OneProcess
    stored: Files
    uses: PathUses

    @property
    def program(self) -> Program:
        """The program."""
        return self.alone.program

    def are_between(self, write: ast.Call, made: ast.expr, read: ast.Call) -> bool:
        """Whether the accelerator reaches where all come to the function that reads a file, and a wait is put there."""
        met = list(self.stored.meetings(write, read))
        if not all(map(self.alone.is_reached, met)):
            return False
        if any(self._is_loaded_from(write, made, load, met) for load in self._loads(read)):
            return True
        beside = ((c, path) for c in self.program.calls_in(self.program.frame(read)) for path in self.uses.read(c))
        return any(self._tells_to_wait(call, path, made) for call, path in beside)

    def _loads(self, read: ast.Call) -> list[ast.Call]:
        """A load itself; of a question whether a file is there, the loads of that file in its function."""
        if "torch.load" in self.program.called(read):
            return [read]
        if not any(row.has(Trait.LOOKS) for row in self.alone.effects.kinds.called(read) or ()):
            return []
        asked = {self.uses.place_of(path) for path in self.uses.read(read)}
        beside = (c for c in self.program.calls_in(self.program.frame(read)) if "torch.load" in self.program.called(c))
        return [c for c in beside if asked and asked.issuperset(map(self.uses.place_of, self.uses.read(c)))]

    def _is_loaded_from(self, write: ast.Call, made: ast.expr, load: ast.Call, met: Collection[ast.Call]) -> bool:
        """Whether all wait where a load's function is called, if it may read what is written, or saved beside that."""
        beside = self.program.calls_in(self.program.frame(write))
        saves = [c for c in beside if self.program.names_only(c.func, "torch.save")]
        callers, read = self.program.flow.callers.get(self.program.frame(load), ()), self.uses.read(load)
        uses = [use for path in read for use in self.uses.by_callers(load, path)]
        given = {call: [path for by, path in uses if by is call] or read for call in met}
        return all(
            call in callers
            and (
                any(self.stored.is_told_as_one(path, made) for path in given[call])
                or any(may_be_of(self.stored, call, path, save) for path in given[call] for save in saves)
                or not any(self.stored.may_be_one(path, made) for path in given[call])
            )
            for call in met
        )

    def _tells_to_wait(self, read: ast.Call, path: ast.expr, made: ast.expr) -> bool:
        rows, kinds = self.alone.effects.kinds.called(read) or (), self.alone.effects.kinds.of(read)
        if any(row.has(Trait.LISTS) for row in rows):
            return self.stored.is_told_to_hold(path, made)
        is_content = not kinds <= {"number", "string"}
        return is_content and self.stored.are_alike(path, made) and self.stored.is_told_as_one(path, made)
