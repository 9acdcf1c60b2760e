"""Which code runs under a lock between processes? The script itself sees to it that one at a time works on files there.

    with FileLock(path + ".lock"):
        if not os.path.exists(path):
            make(path)

A wait for the others in it would never end: they wait for the lock.
"""

from __future__ import annotations

import ast
from functools import cached_property

from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.call_conditions import with_functions
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import Made, Value

_TAKING = frozenset({"acquire", "acquire_read_lock", "acquire_write_lock"})
_GIVING = frozenset({"release", "release_read_lock", "release_write_lock"})


class Locks:
    """Look for the code of a program that holds such a lock."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def held(self) -> frozenset[ast.AST]:
        """All of it, with the functions that nothing else calls."""
        found = {n for s in self._taken for n in ast.walk(s)}
        return frozenset(with_functions(self.program, found) if found else ())

    def taking(self, statement: ast.stmt) -> ast.stmt:
        """The statement that takes the first lock which one holds in its function; or else itself."""
        around = [self._taken[s] for s in (statement, *self.program.ancestors(statement)) if s in self._taken]
        return around[-1] if around else statement

    def _is_taken(self, statement: ast.AST) -> bool:
        """Whether a `with` takes a lock between processes."""
        items = statement.items if isinstance(statement, (ast.With, ast.AsyncWith)) else []
        return any(self._is_lock(item.context_expr) for item in items)

    @cached_property
    def _taken(self) -> dict[ast.AST, ast.stmt]:
        """The statements that hold a lock, each with the one that takes it."""
        found: dict[ast.AST, ast.stmt] = {}
        for taking in self._taking:
            if self._is_taken(taking):
                found.update(dict.fromkeys(getattr(taking, "body", ()), taking))
                continue
            block = self.program.block(taking)
            for statement in block[block.index(taking) + 1 :]:
                call = statement.value if isinstance(statement, ast.Expr) else None
                if isinstance(call, ast.Call) and self._gives_back(call):
                    break
                found.setdefault(statement, taking)
        return found

    @cached_property
    def _taking(self) -> list[ast.stmt]:
        """The statements that take one, each with others in its block that hold it."""
        nodes = [n for parsed in self.program.files for n in parsed.nodes]
        called = [n for n in nodes if isinstance(n, (ast.Expr, ast.Assign)) and isinstance(n.value, ast.Call)]
        taking = [n for n in called if isinstance(n.value, ast.Call) and self._takes(n.value)]
        return [*taking, *(n for n in nodes if isinstance(n, (ast.With, ast.AsyncWith)) and self._is_taken(n))]

    def _is_lock(self, node: ast.expr) -> bool:
        """Whether an expression gives a lock, or what a method of one gives: `lock.acquire()`."""
        if any(map(_makes_lock, self.program.values(node))):
            return True
        called = node.func if isinstance(node, ast.Call) else None
        return isinstance(called, ast.Attribute) and any(map(_makes_lock, self.program.values(called.value)))

    def _takes(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _TAKING:
            return self._is_lock(call.func.value)
        return self._locks_file(call) and not _says_unlock(call)

    def _gives_back(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _GIVING:
            return self._is_lock(call.func.value)
        return self._locks_file(call) and _says_unlock(call)

    def _locks_file(self, call: ast.Call) -> bool:
        """Whether a call takes the lock of an open file, or gives it back: `fcntl.flock(file, fcntl.LOCK_EX)`."""
        rows = map(table.function, self.program.called(call))
        return any(row is not None and row.has(Trait.LOCKS_FILE) for row in rows)


def _makes_lock(value: Value) -> bool:
    row = table.function(value.name) if isinstance(value, Made) else None
    return row is not None and row.has(Trait.LOCKS_PROCESSES)


def _says_unlock(call: ast.Call) -> bool:
    return "unlock" in ast.unparse(call.func) or any("LOCK_UN" in ast.unparse(a) for a in call.args)
