"""The facts that a summary of effects holds: all that code may do besides giving a value."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from enum import Enum

from accelify.codemod.libraries.row import DRAWS, SEEDS, SHOWN, Effect
from accelify.codemod.semantics.scopes import Scope


class Leave(Enum):
    """How code may end before its last statement, or be suspended."""

    RETURN = "return"
    RAISE = "raise"
    BREAK = "break"
    CONTINUE = "continue"
    YIELD = "yield"
    AWAIT = "await"


@dataclass(frozen=True, slots=True)
class Place:
    """A variable, or a place in what it holds: `.name` an attribute, `[]` an item, `*` the object itself.

    The scope is None where it is not known what is changed.
    """

    scope: Scope | None
    name: str
    path: tuple[str, ...] = ()
    is_renewed: bool = False  # of a parameter that has got another value: not what was passed

    @property
    def is_variable(self) -> bool:
        """Whether the variable itself gets another value."""
        return not self.path


@dataclass(frozen=True, slots=True)
class FileUse:
    """A call that reads or writes a file, and the expressions one of which names the file, or is it opened."""

    call: ast.Call
    paths: tuple[ast.expr, ...]
    is_folder: bool = False  # what is written is a folder
    is_gone: bool = False  # what is written is removed, or moved away


@dataclass(frozen=True, slots=True)
class Summary:
    """The effects that code may have. `effects` holds those in the table of libraries, changes apart."""

    writes: frozenset[Place] = frozenset()
    effects: frozenset[Effect] = frozenset()
    files_read: frozenset[FileUse] = frozenset()
    files_written: frozenset[FileUse] = frozenset()
    leaves: frozenset[Leave] = frozenset()
    unknown: frozenset[ast.AST] = frozenset()  # the calls of which nothing is known

    @property
    def is_empty(self) -> bool:
        """Whether the code only gives a value that depends on nothing but what it is given."""
        return self == EMPTY

    @property
    def is_unknown(self) -> bool:
        """Whether the code may do anything; `unknown` is to blame."""
        return bool(self.unknown)

    @property
    def only_reads(self) -> bool:
        """Whether nothing is different afterwards: the clock and the environment may be looked at."""
        return not (self.writes or self.leaves or self.files_written or self.unknown or self.effects - _LOOKS)

    @property
    def draws(self) -> bool:
        """Whether random numbers are drawn, or a simulation is asked that does."""
        return bool(self.effects & (DRAWS | {Effect.SIMULATES}))

    @property
    def seeds(self) -> bool:
        return bool(self.effects & SEEDS)

    @property
    def paths_read(self) -> list[ast.expr]:
        """The expressions that may name the files that are read."""
        return [path for use in self.files_read for path in use.paths]

    @property
    def paths_written(self) -> list[ast.expr]:
        """The expressions that may name the files that are written, and those that are removed."""
        return [path for use in self.files_written for path in use.paths]

    @property
    def writes_files(self) -> bool:
        return bool(self.files_written)

    @property
    def uses_files(self) -> bool:
        return bool(self.files_read or self.files_written)

    @property
    def waits(self) -> bool:
        """Whether the code waits for other processes or threads."""
        return Effect.WAITS in self.effects

    @property
    def shows(self) -> bool:
        return bool(self.effects & SHOWN)

    @property
    def shows_only(self) -> bool:
        """Whether the code writes to the screen, the log or a figure, and does nothing else."""
        return self.shows and replace(self, effects=self.effects - SHOWN).only_reads

    def __or__(self, other: Summary) -> Summary:
        """The effects of the one and of the other."""
        if other is EMPTY or self is other:
            return self
        if self is EMPTY:
            return other
        return Summary(
            self.writes | other.writes,
            self.effects | other.effects,
            self.files_read | other.files_read,
            self.files_written | other.files_written,
            self.leaves | other.leaves,
            self.unknown | other.unknown,
        )


EMPTY = Summary()
_LOOKS = frozenset({Effect.READS_CLOCK, Effect.READS_ENVIRONMENT})
