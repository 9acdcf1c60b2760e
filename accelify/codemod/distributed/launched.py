"""The model of a script that starts its processes itself, or asks whether there are several."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from accelify.codemod.distributed.conditions import SIZE
from accelify.codemod.distributed.launching import Launching, Spawn
from accelify.codemod.edits.values import Change
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer


@dataclass(frozen=True)
class Launched:
    """The facts about a script that distributes itself, for the rules.

    changes: what is done to the start of the processes, once that is known; which settings nothing reads then follows.
    """

    program: Program
    tracer: Tracer
    launching: Launching
    edits: LauncherEdits
    changes: tuple[Change, ...] = ()

    def path(self, node: ast.AST) -> str:
        return self.program.path(node)

    def group(self, node: ast.AST) -> str:
        """The file's name for `torch.distributed`."""
        root = self.program.scope(node).root
        for name, writes in root.writes.items():
            if any(isinstance(w, ast.alias) and self._imported(w) == "torch.distributed" for w in writes):
                return name
        return "torch.distributed"

    def _imported(self, alias: ast.alias) -> str:
        """The name that an import refers to."""
        holder = self.program.parent(alias)
        if isinstance(holder, ast.ImportFrom):
            return f"{holder.module}.{alias.name}"
        return alias.name if alias.asname else alias.name.partition(".")[0]

    def started(self, spawn: Spawn) -> ast.expr:
        """The expression for the function that is started."""
        return next((k.value for k in spawn.call.keywords if k.arg == "fn"), None) or spawn.call.args[0]

    def unread(self, spawn: Spawn) -> Iterator[str]:
        """The parameters that only what goes has read."""
        for parameter in spawn.others:
            scopes = [s for s in spawn.worker.walk() if s.owner(parameter.arg) is spawn.worker]
            reads = [n for s in scopes for n in s.reads.get(parameter.arg, ())]
            if reads and all(n in self.edits.gone for n in reads):
                yield parameter.arg

    def ranks_and_sizes(self, spawn: Spawn) -> Iterator[tuple[str, str]]:
        """The parameters that give a process its number, or how many there are, with what gives it now."""
        yield spawn.rank.arg, self.launching.words[(spawn.worker, spawn.rank.arg)]
        for parameter, argument in zip(spawn.others, spawn.arguments, strict=False):
            word = self.launching.words.get((spawn.worker, parameter.arg))
            if word == SIZE and isinstance(argument, (ast.Name, ast.Attribute)):
                yield parameter.arg, word


@dataclass
class LauncherEdits:
    """The edits that make a launcher's script.

    branches: conditions, and which of their branches takes their place: the number of `elif`s before it, and whether
    it is a body. removed: statements that go. choices: conditional expressions, and whether their body stays. tests:
    conditions, each with the code that takes its place and the parts of it that are still there. numbers: names that
    are given a rank, or the number of processes, anew after a statement. orders: samplers, and whether they shuffle.
    scaled: what depends on the number of processes. unsaid: what is said in branches that go. foreign: what is not
    understood. gone: all that goes.
    """

    branches: dict[ast.If, tuple[int, bool]] = field(default_factory=dict)
    removed: list[ast.stmt] = field(default_factory=list)
    choices: dict[ast.IfExp, bool] = field(default_factory=dict)
    tests: dict[ast.expr, tuple[str, tuple[ast.expr, ...]]] = field(default_factory=dict)
    numbers: list[tuple[ast.stmt, ast.expr, str]] = field(default_factory=list)
    orders: dict[ast.Call, bool] = field(default_factory=dict)
    scaled: list[ast.stmt] = field(default_factory=list)
    unsaid: list[ast.stmt] = field(default_factory=list)
    foreign: list[tuple[ast.AST, str]] = field(default_factory=list)
    gone: set[ast.AST] = field(default_factory=set)

    def refuse(self, node: ast.AST, reason: str) -> None:
        """Note something that is not understood."""
        self.foreign.append((node, reason))

    def goes(self, node: ast.AST) -> None:
        """Note that all of a node goes."""
        self.gone.update(ast.walk(node))

    def remove(self, statement: ast.stmt) -> None:
        """Note a statement that goes."""
        self.removed.append(statement)
        self.goes(statement)
