"""Which loads may read what was saved before, in the same run?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from accelify.codemod.files_written.one_process import opened_round
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope

if TYPE_CHECKING:
    from accelify.codemod.script import Script

_DEPTH = 2


def is_loaded_later(script: Script, load: ast.Call, path: ast.expr, save: ast.Call) -> bool:
    """Whether a load may read what was saved, in a run that does both."""
    if not may_be_of(script, load, path, save):
        return False
    program = script.program
    saving = [c for c in program.calls_in(program.frame(load)) if leads_to(script, c, save)]
    choices = [a for a in program.ancestors(load) if isinstance(a, ast.If)]
    return not saving or not all(any(_parts(program, a, load, c) for a in choices) for c in saving)


def _parts(program: Program, choice: ast.If, one: ast.AST, other: ast.AST) -> bool:
    """Whether a condition leads to either of two nodes, never to both."""
    return any(
        any(program.inside(a, s) for s in choice.body) and any(program.inside(b, s) for s in choice.orelse)
        for a, b in ((one, other), (other, one))
    )


def may_be_of(script: Script, load: ast.Call, path: ast.expr, save: ast.Call) -> bool:
    """Whether a load may read what was saved before: the same path, or one that an imported file was given."""
    target = save.args[1] if len(save.args) > 1 else None
    if target is not None and _path(script, path) == _path(script, target):
        return not _comes_first(script, load, save)
    names = script.written.stored.names(target) if target is not None else frozenset()
    if names & script.written.stored.names(path):
        return script.written.stored.is_before(save, load)
    if script.path(save) == script.path(load) or isinstance(path, ast.Constant):
        return False
    return any(leads_to(script, call, save) for call in _before(script, load, _DEPTH))


def _before(script: Script, node: ast.Call, depth: int) -> Iterator[ast.Call]:
    """The calls that are made before one, in its function and where that is called."""
    frame = script.program.frame(node)
    yield from (call for call in script.program.calls_in(frame) if script.program.before(call, node))
    for caller in script.program.flow.callers.get(frame, ()) if depth else ():
        yield from _before(script, caller, depth - 1)


def _path(script: Script, node: ast.expr) -> str:
    """What names a file, as the script wrote it: what was opened, for a file that is open."""
    opened = opened_round(script.program, node)
    if isinstance(opened, ast.Call) and opened.args:
        node = opened.args[0]
    return ast.unparse(node)


def _comes_first(script: Script, load: ast.Call, save: ast.Call) -> bool:
    """Whether a load is over before anything is saved: nothing is on a path to it, in no earlier round either."""
    program = script.program
    frame = program.frame(load)
    if any(program.loops_round(call) for call in program.flow.callers.get(frame, ())):
        return False
    saving = (
        [save] if program.frame(save) is frame else [c for c in program.calls_in(frame) if leads_to(script, c, save)]
    )
    return bool(saving) and not any(program.reaches(c, load) for c in saving)


def leads_to(script: Script, call: ast.Call, target: ast.Call) -> bool:
    """Whether a call may end in another one."""
    goal, flow = script.program.frame(target), script.program.flow
    seen: set[Scope] = set()
    queue = [call]
    while queue:
        for callee in flow.callees.get(queue.pop(), ()):
            if callee is goal:
                return True
            if callee not in seen:
                seen.add(callee)
                queue.extend(script.program.calls_in(callee))
    return False
