"""Which code does one process run first, because it makes files that the others then find?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cached_property

from accelify.codemod.files.nodes import walk
from accelify.codemod.files_written.caches import Caches
from accelify.codemod.files_written.one_process import OneProcess
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.call_conditions import with_functions
from accelify.codemod.semantics.scopes import Scope


class CachedCode:
    """Look at code by whether it belongs to a cache."""

    def __init__(
        self, alone: OneProcess, caches: Caches, own: Collection[ast.Call], run_by_all: Collection[Scope]
    ) -> None:
        self.program = alone.program
        self.alone = alone
        self.caches = caches
        self.own = own  # the calls that write to a file of one rank's own
        self.run_by_all = run_by_all  # functions that make files in all processes, of which one is first

    def holds(self, node: ast.AST) -> bool:
        """Whether a node makes what is missing, which one process should do first for all; also where none can."""
        return node in self.found or any(self.program.inside(node, f.node) for f in self._makers)

    def goes_first(self, node: ast.AST) -> bool:
        """Whether one process runs a node before the others, as it can be made to."""
        return node in self.found or any(self.program.inside(node, f.node) for f in self.run_by_all)

    @cached_property
    def found(self) -> set[ast.AST]:
        """All the code of caches."""
        first = [*self.caches.first, *self._told_to_go_first]
        return with_functions(self.program, {n for s in first for n in walk(s)})

    @property
    def _told_to_go_first(self) -> Iterator[ast.stmt]:
        """The statements that a script has one process run first: `with accelerator.main_process_first():`."""
        nodes = (n for parsed in self.program.files for n in parsed.nodes)
        for block in (n for n in nodes if isinstance(n, ast.With)):
            calls = [item.context_expr for item in block.items if isinstance(item.context_expr, ast.Call)]
            rows = (row for call in calls for row in self.alone.effects.kinds.called(call) or ())
            if any(row.has(Trait.GOES_FIRST) for row in rows):
                yield from block.body

    def is_made_anew(self, call: ast.Call) -> bool:
        """Whether each process that comes to a cache later would save it again."""
        return call in self.found and self.caches.are_written_anew(call)

    @cached_property
    def _makers(self) -> set[Scope]:
        """The functions that make a file where it is missing, and that all processes run at once."""
        return {self.program.frame(choice) for choice in self.caches.uncached}.union(self.run_by_all)

    def is_for_one(self, statement: ast.stmt) -> bool:
        """Whether one process alone may write what a statement does; a cache is made by the one that comes first."""
        if statement not in self.found:
            return not self._is_made_by_all(statement)
        return statement not in self.caches.first and self.is_written_anew(statement, in_all=True)

    def _is_made_by_all(self, statement: ast.stmt) -> bool:
        """Whether a statement makes a file where it is missing that no wait follows: each process makes it, then."""
        calls = [n for n in walk(statement) if isinstance(n, ast.Call)]
        run = self.program.run_through(calls) if self._uncached else frozenset()
        is_within = not self._uncached.isdisjoint(walk(statement))
        return is_within or any(self.program.frame(choice) in run for choice in self.caches.uncached)

    @cached_property
    def _uncached(self) -> set[ast.AST]:
        return {n for choice in self.caches.uncached for s in self.caches.parts(choice) for n in walk(s)}

    def is_written_anew(self, node: ast.AST, *, in_all: bool = False) -> bool:
        """Whether code of a cache writes or removes files that the process which came first has made; it does so again.

        in_all: all that it writes.
        """
        written = [c for c in walk(node) if isinstance(c, ast.Call) and self._may_come_again(c)]
        anew = map(self.caches.are_written_anew, written)
        return bool(written) and (all(anew) if in_all else any(anew))

    def _may_come_again(self, call: ast.Call) -> bool:
        rows = self.alone.effects.kinds.called(call) or ()
        is_fetched = any(row.has(Trait.DOWNLOADS) or row.has(Trait.FETCHES) for row in rows)
        return self.alone.writes(call) and call not in self.own and not is_fetched
