"""Take out what only the removed code used.

    import torch                                   ->    (nothing), when only `torch.device(...)` read it
    use_cuda = torch.cuda.is_available()           ->    (nothing), when only the removed moves read it

Why: a migrated script should read as if it had been written so.
Left alone: names that nothing read before either, and values whose making has an effect.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from accelify.codemod.edits.values import (
    AddParameter,
    Change,
    DropArgument,
    DropNames,
    DropParameter,
    Edit,
    Insert,
    Plan,
    Remove,
)
from accelify.codemod.script import Script
from accelify.codemod.semantics.purity import is_pure
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.used_names import added_reads, edits_of, vanished

NAME = "unused"


def find(script: Script, plan: Plan) -> Iterator[Change]:
    """A change for each name that has become unused; removing one may free the next."""
    plan.changes[:] = [_without_unread(script, change, plan) for change in plan.changes]
    made: list[Change] = []
    while True:
        found = list(_round(script, [*plan.changes, *made])) or list(_idle_choices(script, [*plan.changes, *made]))
        if not found:
            return
        made.extend(found)
        yield from found


def _idle_choices(script: Script, changes: list[Change]) -> Iterator[Change]:
    """Each `if` of which every branch is gone, with the imports that only those needed."""
    edits = [e for c in changes for e in c.edits]
    gone: set[ast.AST] = {e.node for e in edits if isinstance(e, Remove)}
    dropped = {(e.node, name) for e in edits if isinstance(e, DropNames) for name in e.names}
    for node, _ in dropped:
        if all((node, a.asname or a.name.split(".")[0]) in dropped for a in node.names):
            gone.add(node)
    filled = {e.node for e in edits if isinstance(e, Insert)}
    choices = {p for node in gone if isinstance(p := script.program.parent(node), ast.If)}
    for choice in sorted(choices, key=lambda c: (script.path(c), c.lineno)):
        held = [*choice.body, *choice.orelse]
        is_elif = isinstance(around := script.program.parent(choice), ast.If) and around.orelse == [choice]
        is_idle = choice not in gone and gone.issuperset(held) and filled.isdisjoint(held) and is_pure(choice.test)
        if is_idle and not is_elif:
            reason = "nothing is left to do under this condition"
            yield Change(NAME, script.path(choice), choice.lineno, reason, (Remove(choice),))


def _without_unread(script: Script, change: Change, plan: Plan) -> Change:
    """A change that gives a variable a new value, without that where nothing reads the variable any more."""
    kept = tuple(e for e in change.edits if not isinstance(e, Insert) or not _is_unread(script, e, plan))
    if len(kept) == len(change.edits) or not kept:
        return change
    return replace(change, rule=NAME, reason="nothing reads its value any more", edits=kept)


def _is_unread(script: Script, insert: Insert, plan: Plan) -> bool:
    name, equals, _ = insert.code.partition(" = ")
    scope = script.program.frame(insert.node).owner(name) if equals and name.isidentifier() else None
    if scope is None:
        return False
    gone, reads = vanished(plan.changes), script.program.reads_of(scope, name)
    added = added_reads(script.program, (c for c in plan.changes if insert not in c.edits))
    return bool(reads) and all(r in gone for r in reads) and (scope, name) not in added


def _round(script: Script, changes: list[Change]) -> Iterator[Change]:
    gone = vanished(changes)
    added = added_reads(script.program, changes)
    removed = {e.node for c in changes for e in c.edits if isinstance(e, Remove)}
    dropped = {(e.node, n) for c in changes for e in c.edits if isinstance(e, DropNames) for n in e.names}
    for path in sorted(script.files | {c.path for c in changes}):
        root = script.program.flow.bindings[path].root
        exported = _exported(script, root)
        for scope in root.walk():
            if scope.kind not in ("module", "function"):
                continue
            for name, writes in list(scope.writes.items()):
                is_handed = (scope, name) in script.handed | script.unread
                is_read = (scope, name) in added and not is_handed
                if is_read or (name in exported and scope is root) or not scope.binds(name):
                    continue
                reads = script.program.reads_of(scope, name)
                if not reads or any(n not in gone for n in reads):
                    continue
                if is_handed:
                    yield from _parameter(script, scope, name, changes, gone)
                else:
                    kept = {n for s, n in added if s is scope} | (exported if scope is root else set())
                    unread = partial(_nothing_reads, script, scope, gone, kept)
                    yield from _remove(script, path, name, writes, removed, dropped, unread)


def _exported(script: Script, root: Scope) -> set[str]:
    """Names that other files of the program import from a module, or that `__all__` lists."""
    found = set(script.program.imported_from.get(root, ()))
    for statement in root.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            found.update(
                n.value for n in ast.walk(statement.value) if isinstance(n, ast.Constant) and isinstance(n.value, str)
            )
    return found


def _remove(
    script: Script,
    path: str,
    name: str,
    writes: list[ast.AST],
    removed: set[ast.stmt],
    dropped: set[tuple[ast.Import | ast.ImportFrom, str]],
    unread: Callable[[str], bool],
) -> Iterator[Change]:
    reason = f"nothing reads `{name}` any more"
    for write in writes:
        statement = script.program.statement(write)
        if statement in removed or any(a in removed for a in script.program.ancestors(write)):
            continue
        if isinstance(write, ast.alias) and isinstance(statement, (ast.Import, ast.ImportFrom)):
            if (statement, name) not in dropped and not isinstance(script.program.parent(statement), ast.Try):
                yield Change(NAME, path, statement.lineno, reason, (DropNames(statement, (name,)),))
        elif (
            isinstance(statement, ast.Assign)
            and isinstance(write, ast.Name)
            and all(map(unread, _bound(statement)))
            and script.only_computes(statement.value)
        ):
            whole = _choice(script, statement, name) if _is_alone(script, statement) else statement
            if whole is not None:
                whole = _emptied(script, whole, removed)
                yield Change(NAME, path, whole.lineno, reason, (Remove(whole),))
                removed |= {statement, whole}
        elif isinstance(statement, ast.AugAssign) and statement.target is write and is_pure(statement.value):
            whole = _emptied(script, statement, removed)
            yield Change(NAME, path, whole.lineno, reason, (Remove(whole),))
            removed |= {statement, whole}


def _emptied(script: Script, statement: ast.stmt, removed: set[ast.stmt]) -> ast.stmt:
    """A statement that goes, or the `if` that has nothing left to do without it."""
    choice = script.program.parent(statement)
    if isinstance(choice, ast.If) and is_pure(choice.test) and {*choice.body, *choice.orelse} <= removed | {statement}:
        return choice
    return statement


def _bound(statement: ast.Assign) -> list[str]:
    """The names that an assignment binds; one that none has for something else."""
    target = statement.targets[0] if len(statement.targets) == 1 else None
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return [part.id if isinstance(part, ast.Name) else "" for part in parts]


def _nothing_reads(script: Script, scope: Scope, gone: set[ast.AST], kept: set[str], name: str) -> bool:
    """Whether a variable of a scope is one that nothing reads once some names are gone."""
    return name not in kept and scope.binds(name) and all(r in gone for r in script.program.reads_of(scope, name))


def _parameter(
    script: Script, function: Scope, name: str, changes: list[Change], gone: set[ast.AST]
) -> Iterator[Change]:
    """A parameter goes from its function, from every call of it, and from others that the same calls may go to."""
    flow = script.program.flow
    alike = {f for call in flow.callers.get(function, ()) for f in flow.callees[call]} | {function}
    first = min(alike, key=lambda f: (f.module, f.node.lineno))  # type: ignore[attr-defined]  # functions have lines
    if function is not first or not all(_can_lose(script, f, name, changes, gone) for f in alike):
        return
    edits: dict[str, list[Edit]] = {}
    for other in sorted(alike, key=lambda f: (f.module, f.node.lineno)):  # type: ignore[attr-defined]
        edits.setdefault(other.module, []).append(DropParameter(other.node, name))  # type: ignore[arg-type]
    for call in flow.callers.get(function, ()):
        argument = script.tracer.argument(call, function, name)
        if argument is not None:
            edits.setdefault(script.path(call), []).append(DropArgument(call, argument))
    line = function.node.lineno  # type: ignore[attr-defined]
    for path, listed in edits.items():
        yield Change(NAME, path, line, f"nothing reads `{name}` any more", tuple(listed))


def _can_lose(script: Script, function: Scope, name: str, changes: list[Change], gone: set[ast.AST]) -> bool:
    """Whether a function has a parameter that nothing reads any more, and that no other change concerns."""
    taken = {
        (e.node, e.name if isinstance(e, DropParameter) else e.instead_of)
        for e in edits_of(changes)
        if isinstance(e, (DropParameter, AddParameter))
    }
    is_there = any(p.arg == name for p in function.parameters)
    is_read = any(n not in gone for n in script.program.reads_of(function, name))
    return is_there and not is_read and (function.node, name) not in taken and function not in script.program.flow.lost


def _choice(script: Script, statement: ast.stmt, name: str) -> ast.stmt | None:
    """The `if` with nothing in any of its branches but a value for a name."""
    choice: ast.AST | None = statement
    found = None
    while isinstance(choice := script.program.parent(choice or statement), ast.If) and _only_gives(choice, name):
        found = choice
    return found


def _only_gives(choice: ast.If, name: str) -> bool:
    return is_pure(choice.test) and all(
        _only_gives(s, name)
        if isinstance(s, ast.If)
        else isinstance(s, ast.Assign) and [ast.unparse(t) for t in s.targets] == [name] and is_pure(s.value)
        for s in [*choice.body, *choice.orelse]
    )


def _is_alone(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement is all that an `else` or another block holds."""
    return len(script.program.block(statement)) == 1
