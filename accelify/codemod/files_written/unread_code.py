"""Calls of methods of the project that write files, and were not read: a name of run time or a caller picks them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.project import Project, absolute
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import handed_in, picked_by_name
from accelify.codemod.semantics.scopes import Scope
from accelify.errors import FileError

_MOST_FILES = 8  # in which a method is looked for


@dataclass(frozen=True, slots=True)
class UnreadCall:
    """The call of a method of an object that is picked by its name, or that a parameter brings, and where that is.

    writes: the lines, `hooks.py:4`, of other files that the call may run, and that write files.
    """

    call: ast.Call
    picked: ast.Call | ast.arg
    writes: tuple[str, ...]


class UnreadCode:
    """The files that a program does not read, and the methods there that write."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._project: Project = program.flow.project
        self._read = {absolute(p.path) for p in program.files}
        self._writes: dict[tuple[str, str, bool], tuple[str, ...]] = {}
        self._models: dict[str, tuple[Program, Effects] | None] = {}

    def calls(self) -> Iterator[UnreadCall]:
        """The calls that may run a method which writes, of a class in a file that was not read."""
        for call in self._program.calls:
            function = call.func
            if isinstance(function, ast.Attribute) and (picked := self._picked(call, function.value)):
                is_made_here = isinstance(picked[0], ast.Call)
                writes = self._written_by(self._program.path(call), function.attr, is_made_here)
                if writes:
                    yield UnreadCall(call, picked[0], writes)

    def _picked(self, call: ast.Call, owner: ast.expr) -> Sequence[ast.Call | ast.arg]:
        """What picks the object of a call; of what a caller picks, only calls for their effect are asked for."""
        is_for_effect = isinstance(self._program.parent(call), ast.Expr)
        return picked_by_name(self._program, owner) or (handed_in(self._program, owner) if is_for_effect else ())

    def _written_by(self, importer: str, method: str, is_made_here: bool) -> tuple[str, ...]:
        """The lines of the files around that write where a method of some name is run; trainers are for the user.

        Those of the constructors, which make the objects ready, only where they are run here, too.
        """
        key = (importer, method, is_made_here)
        if key not in self._writes:
            paths = [
                path
                for path in self._project.having(importer, f"def {method}(")
                if absolute(path) not in self._read and not self._project.disk.has(path, ".backward(")
            ]
            found = (line for path in paths[:_MOST_FILES] for line in self._lines(path, method, is_made_here))
            self._writes[key] = tuple(dict.fromkeys(found))
        return self._writes[key]

    def _lines(self, path: str, method: str, is_made_here: bool) -> Iterator[str]:
        """The lines that write, of one method and, with it, of the constructor of an object that is made here."""
        model = self._model(path)
        scopes = model[0].flow.bindings[path].root.walk() if model is not None else ()
        for cls in (s for s in scopes if s.kind == "class" and s.method(method) is not None):
            assert model is not None
            run = ("__init__", method) if is_made_here else (method,)
            yield from self._written_in(*model, cls, run)

    @staticmethod
    def _written_in(program: Program, effects: Effects, cls: Scope, run: Iterable[str]) -> Iterator[str]:
        functions = [program.flow.method(cls, name) for name in run]
        uses = [use.call for f in functions if f is not None for use in effects.of_function(f).files_written]
        for call in sorted(uses, key=program.position):
            yield f"{program.path(call)}:{program.line(call)}"

    def _model(self, path: str) -> tuple[Program, Effects] | None:
        """A program of a file and those that it imports; None where it cannot be parsed."""
        if path not in self._models:
            parsed = self._loaded(path)
            if parsed is None:
                self._models[path] = None
            else:
                program = Program(self._project.program([parsed], follow=True), self._project, [parsed])
                self._models[path] = program, program.once(Effects)
        return self._models[path]

    def _loaded(self, path: str) -> Parsed | None:
        try:
            return self._project.load(path)
        except FileError:
            return None
