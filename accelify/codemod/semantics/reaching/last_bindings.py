"""Which places may have bound a variable or an attribute when it is read? From the read backwards, block by block.

Of an `if`, only the branch that runs counts, where that is known: `live_branch` says which.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from accelify.codemod.semantics.program import LEAVING, LOOPS, Program
from accelify.codemod.semantics.scopes import Scope

Holding = dict[tuple[Scope | None, str], set[ast.AST]]


class LastBindings:
    """Go from a read back to what may have been bound last; `holding` remembers where each variable is bound."""

    def __init__(
        self, program: Program, live_branch: Callable[[ast.If], list[ast.stmt] | None], holding: Holding | None = None
    ) -> None:
        self.program = program
        self.live_branch = live_branch
        self._holding: Holding = {} if holding is None else holding

    def reaching(self, read: ast.expr, key: str, owner: Scope) -> tuple[list[ast.AST], bool]:
        """The places that may have bound a variable or attribute when it is read, and whether one of them has."""
        statement = self.program.statement(read)
        found: list[ast.AST] = []
        if self._are_local(owner, key, statement):
            walruses = (n for n in ast.walk(statement) if isinstance(n, ast.NamedExpr) and n.target.id == key)
            found.extend(w.target for w in walruses if not self.program.inside(read, w))
        if isinstance(statement, LOOPS) and not isinstance(statement, ast.While) and found == []:
            found += self._in_block(statement.body, owner, key)[0] if statement.iter is not read else []
        if isinstance(statement, ast.While):
            found += self._in_block(statement.body, owner, key)[0]
        before, is_certain = self.before(statement, owner, key)
        return [*found, *before], is_certain

    def before(self, statement: ast.stmt, owner: Scope, key: str) -> tuple[list[ast.AST], bool]:
        """The bindings before a statement: those of its block, then of the blocks round it, then the parameters."""
        found: list[ast.AST] = []
        node: ast.AST = statement
        while node is not owner.node:
            parent = self.program.parent(node)
            if parent is None:
                break
            block = next((b for b in blocks(parent) if node in b), [])
            if block:
                more, is_certain = self._in_block(block[: block.index(node)], owner, key)
                found.extend(m for m in more if m not in found)
                if is_certain:
                    return found, True
            more, is_certain = self._round(parent, node, owner, key)
            found.extend(m for m in more if m not in found)
            if is_certain:
                return found, True
            node = parent
        found.extend(w for w in owner.writes.get(key, ()) if isinstance(w, ast.arg))
        return found, any(isinstance(w, ast.arg) for w in owner.writes.get(key, ()))

    def _round(self, parent: ast.AST, child: ast.AST, owner: Scope, key: str) -> tuple[list[ast.AST], bool]:
        """The bindings of a variable on the way into a block: a loop's target or earlier rounds, a context, a `try`."""
        if isinstance(parent, LOOPS) and child in parent.body:
            bound = [] if isinstance(parent, ast.While) else _stored(parent.target, key)
            if bound:
                return bound, True
            return self._in_block(parent.body, owner, key)[0], False
        if isinstance(parent, LOOPS) and child in parent.orelse:
            return self._in_block(parent.body, owner, key)[0], False
        if isinstance(parent, (ast.With, ast.AsyncWith)) and child in parent.body:
            bound = [n for i in parent.items if i.optional_vars is not None for n in _stored(i.optional_vars, key)]
            return bound, bool(bound)
        if isinstance(parent, ast.Try) and child not in parent.body:
            parts = parent.body if child in parent.handlers else [*parent.body, *parent.orelse]
            parts = [*parts, *(s for h in parent.handlers for s in h.body if child in parent.finalbody)]
            is_after = child in parent.orelse
            more, is_certain = self._in_block(parts, owner, key)
            return more, is_certain and is_after
        if isinstance(parent, ast.ExceptHandler) and parent.name == key:
            return [parent], True
        return [], False

    def _in_block(self, block: Sequence[ast.stmt], owner: Scope, key: str) -> tuple[list[ast.AST], bool]:
        """The bindings that reach the end of a block, and whether one of its statements always binds, or leaves."""
        found: list[ast.AST] = []
        for statement in reversed(block):
            if isinstance(statement, LEAVING):
                found.clear()
                return found, True
            if not self._are_local(owner, key, statement):
                continue
            more, is_certain = self._in_statement(statement, owner, key)
            found.extend(m for m in more if m not in found)
            if is_certain:
                return found, True
        return found, False

    def _in_statement(self, statement: ast.stmt, owner: Scope, key: str) -> tuple[list[ast.AST], bool]:
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            bound = [n for t in targets for n in _stored(t, key)] if statement.value is not None else []
            return (bound, True) if bound else (self._named_inside(statement, key), False)
        if isinstance(statement, ast.If):
            branch = self.live_branch(statement)
            branches = [statement.body, statement.orelse] if branch is None else [branch]
            parts = [self._in_block(b, owner, key) for b in branches]
            return [*self._named_inside(statement.test, key), *(n for p in parts for n in p[0])], all(
                p[1] for p in parts
            )
        if isinstance(statement, LOOPS):
            bound = [] if isinstance(statement, ast.While) else _stored(statement.target, key)
            parts = [self._in_block(b, owner, key) for b in (statement.body, statement.orelse)]
            return [*bound, *(n for p in parts for n in p[0])], False
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            more, is_certain = self._in_block(statement.body, owner, key)
            bound = [n for i in statement.items if i.optional_vars is not None for n in _stored(i.optional_vars, key)]
            return [*bound, *more], is_certain or bool(bound)
        if isinstance(statement, ast.Try):
            tried = self._in_block([*statement.body, *statement.orelse], owner, key)
            caught = [self._in_block(h.body, owner, key) for h in statement.handlers]
            last = self._in_block(statement.finalbody, owner, key)
            every = [n for p in (tried, *caught, last) for n in p[0]]
            return every, last[1] or (tried[1] and all(c[1] for c in caught))
        if isinstance(statement, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound = [w for w in owner.writes.get(key, ()) if w is statement or self.program.parent(w) is statement]
            return bound, bool(bound)
        return self._named_inside(statement, key), False

    @staticmethod
    def _named_inside(node: ast.AST, key: str) -> list[ast.AST]:
        walruses = (n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
        stored = (n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        inside = stored if isinstance(node, ast.Match) else (w.target for w in walruses)
        return [n for n in inside if n.id == key]

    def _are_local(self, owner: Scope, key: str, statement: ast.stmt) -> bool:
        """Whether a statement may bind a variable or an attribute."""
        place = (owner, key)
        if place not in self._holding:
            holding: set[ast.AST] = set()
            for write in self.writes(owner, key):
                holding.add(write)
                for around in self.program.ancestors(write):
                    if around in holding:
                        break
                    holding.add(around)
            self._holding[place] = holding
        return statement in self._holding[place]

    def writes(self, owner: Scope, key: str) -> list[ast.AST]:
        if "." not in key:
            return [w for w in owner.writes.get(key, ()) if not isinstance(w, ast.arg)]
        return [
            w
            for w in self.program.attribute_writes.get(key.rpartition(".")[2], ())
            if self.program.frame(w) is owner and ast.unparse(w) == key
        ]


def blocks(node: ast.AST) -> Iterator[list[Any]]:
    """The lists of statements, or of handlers, that a node holds."""
    for name in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield block


def _stored(target: ast.expr, key: str) -> list[ast.AST]:
    """The names or attributes of a target that are the one that is looked for."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return [n for e in target.elts for n in _stored(e, key)]
    if isinstance(target, ast.Starred):
        return _stored(target.value, key)
    is_it = isinstance(target, (ast.Name, ast.Attribute)) and ast.unparse(target) == key
    return [target] if is_it else []
