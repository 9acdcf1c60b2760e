"""Edits as values: what is to be done at which node, and why; nothing here changes a tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from accelify.codemod.result import Tier
from accelify.codemod.semantics.scopes import Scope

if TYPE_CHECKING:
    import libcst as cst


@dataclass(frozen=True)
class Replace:
    """Put another expression in a node's place.

    make: gets the node as already updated by the edits inside it. keeps: the parts of the node that live on; the names
    read anywhere else in it are gone. reads: names that the new code reads besides.
    """

    node: ast.AST
    make: Callable[[cst.CSTNode], cst.CSTNode]
    keeps: tuple[ast.AST, ...] = ()
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Remove:
    """Take a statement out; its comments are kept, or listed in the report."""

    node: ast.stmt


@dataclass(frozen=True)
class Insert:
    """Put new statements `before` or `after` a statement, with `gap` blank lines round them where there are none.

    unless_before: statements; the same code before one of them does as well.
    """

    node: ast.stmt
    where: str
    code: str
    gap: int = 0
    order: int = 0
    unless_before: tuple[ast.stmt, ...] = ()

    @property
    def imports(self) -> bool:
        """Whether the new statement is an import."""
        return self.code.startswith(("from ", "import "))


@dataclass(frozen=True)
class DropNames:
    """Take some names out of an import statement, or all of it."""

    node: ast.Import | ast.ImportFrom
    names: tuple[str, ...]


@dataclass(frozen=True)
class AddParameter:
    """Give a function a parameter at a position, or a new name to one that it has.

    One that follows others with defaults has `None` for its own.
    """

    node: ast.FunctionDef | ast.AsyncFunctionDef
    name: str
    position: int = 0
    instead_of: str | None = None


@dataclass(frozen=True)
class DropParameter:
    """Take a parameter from a function."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    name: str


@dataclass(frozen=True)
class DropArgument:
    """Take an argument from a call."""

    node: ast.Call
    argument: ast.expr


@dataclass(frozen=True)
class Unwrap:
    """Put one branch of a condition in its place: its body, what it does otherwise, or that of an `elif`.

    Of a `with`, that is its body. What it does otherwise may be an `elif`, which becomes the condition. A condition
    that is an `elif` itself becomes the `else` of the one before it.
    """

    node: ast.If | ast.With
    is_body: bool
    depth: int = 0

    @property
    def gone(self) -> tuple[ast.AST, ...]:
        """The nodes that are removed: the questions, and the other branches."""
        node, found = self.node, []
        if isinstance(node, ast.With):
            return tuple(node.items)
        for _ in range(self.depth):
            found += [node.test, *node.body]
            (inner,) = node.orelse
            assert isinstance(inner, ast.If)
            node = inner
        return (*found, node.test, *(node.orelse if self.is_body else node.body))


@dataclass(frozen=True)
class Wrap:
    """Put statements that follow each other under a header: `if accelerator.is_main_process:`."""

    statements: tuple[ast.stmt, ...]
    header: str

    @property
    def node(self) -> ast.stmt:
        """The first of them."""
        return self.statements[0]


@dataclass(frozen=True)
class Bind:
    """Give the value of an expression to a new variable in a line before its statement, which reads that instead.

    What wraps the statement does not hold the line.
    """

    node: ast.expr
    name: str


Edit = Bind | Replace | Remove | Insert | DropNames | AddParameter | DropParameter | DropArgument | Unwrap | Wrap


Variable = tuple[Scope, str]  # a name of a function or a module


@dataclass(frozen=True)
class Change:
    """Edits of one file that belong together: they happen whole or not at all.

    gives: the variable that gets a value by it; where nothing reads that any more, it is left out.
    """

    rule: str
    path: str
    line: int
    reason: str
    edits: tuple[Edit, ...]
    tier: Tier = Tier.SAFE
    gives: Variable | None = None


class When(Enum):
    """When a note is made."""

    ALWAYS = auto()
    KEPT = auto()  # where its node is still there once all changes are made
    GONE = auto()  # where its node is taken out by itself, not with something round it, or a variable's that none reads
    CHANGED = auto()  # where something else changes in its file
    LEFT = auto()  # where both are so: its node is still there in a file that changes


Place = tuple[str, ast.AST]  # a node and its file


class Loaded(Enum):
    """How files outside the program load a checkpoint that comes out otherwise than before."""

    WRAPPED = "into models that are wrapped for several GPUs"
    WHERE_SAVED = "to the device that it was saved from"  # and is on the CPU with that


@dataclass(frozen=True)
class Remark:
    """A note at a node of the original; the report gives its line in the new file.

    of: the node that `when` is about, if it is another. once: the same message at another place of the file will do.
    about: what the `{}` of the message stands for; notes of a file that differ in it alone become one.
    lines: the places that its `{0}`, `{1}` stand for.
    loaded: which files outside the program load the checkpoint that it is about: those are named, without one there is
    no note.
    shows: where values of one process's own, which the note is about, are shown or saved.
    within: the rules whose first note, where there is one, says this as its last sentence.
    """

    rule: str
    path: str
    node: ast.AST
    message: str
    tier: Tier = Tier.ADVICE
    when: When = When.ALWAYS
    of: ast.AST | None = None
    once: bool = False
    about: str = ""
    lines: tuple[tuple[Place, ...], ...] = ()
    loaded: Loaded | None = None
    shows: tuple[Place, ...] = ()
    within: tuple[str, ...] = ()

    def text(self, named: Callable[[Place], str]) -> str:
        """The message with all that it stands for."""
        text = self.message.replace("{}", self.about) if self.about else self.message
        for number, places in enumerate(self.lines):
            text = text.replace(f"{{{number}}}", ", ".join(_in_runs(dict.fromkeys(map(named, places)))))
        return text


def _in_runs(named: Iterable[str]) -> Iterator[str]:
    """The names of places, where of three or more lines in a row only the first and the last are named."""
    run: list[int] = []
    for name in [*named, ""]:
        number = int(name[5:]) if name.startswith("line ") else None
        if run and number != run[-1] + 1:
            yield from [f"lines {run[0]}-{run[-1]}"] if len(run) > 2 else [f"line {n}" for n in run]
            run = []
        if number is not None:
            run.append(number)
        elif name:
            yield name


@dataclass(frozen=True)
class Obstacle:
    """Why the program cannot be migrated, and at which node; one is enough to leave all its files alone."""

    rule: str
    path: str
    node: ast.AST
    message: str


@dataclass(frozen=True, eq=False)
class Attempt:
    """Changes that are made only where they leave over no name that would have to be taken out by hand.

    unread: variables that nothing may read (any more) once all other changes are made. otherwise: what comes in their
    place. is_optional: whether the script is right with that, too, where the user leaves the changes out.
    takes_parameters: whether the parameters of functions that nothing else reads go, too, from all calls.
    """

    found: tuple[Change | Remark | Obstacle | Attempt, ...]
    unread: tuple[Variable, ...] = ()
    otherwise: tuple[Change | Remark | Obstacle | Attempt, ...] = ()
    is_optional: bool = False
    takes_parameters: bool = False


Found = Change | Remark | Obstacle | Attempt

Facts = Callable[[str, int], tuple[str, ...]]
"""What is known of the names in a line of a file."""


def no_facts(path: str, line: int) -> tuple[str, ...]:
    """Nothing is known."""
    return ()


@dataclass
class Plan:
    """All that will be done to the files of a program, or why nothing will be."""

    changes: list[Change] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)
    waits: bool = False  # whether what trains is handed to functions that nothing in the program calls
    stands_alone: bool = False  # whether these are methods of a class that can be used as before
    is_trial: bool = False  # whether this is a module that only tries itself out
    evidence: Facts = no_facts
    left_over: list[Remark] = field(default_factory=list)  # the notes on names that stay though nothing reads them
    kept: list[tuple[str, str]] = field(
        default_factory=list
    )  # names of functions and modules that only others still use

    def of(self, path: str) -> list[Change]:
        """The changes of one file."""
        return [c for c in self.changes if c.path == path]
