"""Which loads may read what was saved before, in the same run?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.files.nodes import walk
from accelify.codemod.files_written.one_process import opened_round
from accelify.codemod.files_written.paths import Files
from accelify.codemod.libraries.row import Effect, Trait
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.scopes import Scope

_DEPTH = 2


def is_loaded_later(files: Files, load: ast.Call, path: ast.expr, save: ast.Call) -> bool:
    """Whether a load may read what was saved, in a run that does both."""
    if not may_be_of(files, load, path, save):
        return False
    program = files.program
    saving = [c for c in program.calls_in(program.frame(load)) if leads_to(files, c, save)]
    choices = [a for a in program.ancestors(load) if isinstance(a, ast.If)]
    return not saving or not all(any(_parts(program, a, load, c) for a in choices) for c in saving)


def _parts(program: Program, choice: ast.If, one: ast.AST, other: ast.AST) -> bool:
    """Whether a condition leads to either of two nodes, never to both."""
    return any(
        any(program.inside(a, s) for s in choice.body) and any(program.inside(b, s) for s in choice.orelse)
        for a, b in ((one, other), (other, one))
    )


def may_be_of(files: Files, load: ast.Call, path: ast.expr, save: ast.Call) -> bool:
    """Whether a load may read what was saved before: the same path, or one that an imported file was given."""
    target = _opened(files, save.args[1]) if len(save.args) > 1 else None
    path = _opened(files, path)
    if target is not None and files.may_be_one(target, path):
        is_written_alike = ast.unparse(path) == ast.unparse(target)
        return not _comes_first(files, load, save) if is_written_alike else files.is_before(save, load)
    is_another = target is not None and files.names(target) and files.names(path)
    if is_another or files.program.path(save) == files.program.path(load) or isinstance(path, ast.Constant):
        return False
    return any(leads_to(files, call, save) for call in _before(files, load, _DEPTH))


def _before(files: Files, node: ast.Call, depth: int) -> Iterator[ast.Call]:
    """The calls that are made before one, in its function and where that is called."""
    frame = files.program.frame(node)
    yield from (call for call in files.program.calls_in(frame) if files.program.before(call, node))
    for caller in files.program.flow.callers.get(frame, ()) if depth else ():
        yield from _before(files, caller, depth - 1)


def _opened(files: Files, node: ast.expr) -> ast.expr:
    """The name of a file; for an open file, that of `open`."""
    opened = opened_round(files.program, node)
    return opened.args[0] if isinstance(opened, ast.Call) and opened.args else node


def waits_as_well(effects: Effects, statement: ast.stmt, depth: int = _DEPTH) -> Iterator[ast.stmt]:
    """The statements before which to wait would do as well as before one: from them on, no file is written.

    A command may write files as well. Those round the only call of a function are among them.
    """
    program = effects.program
    for later in [statement, *(a for a in program.ancestors(statement) if isinstance(a, ast.stmt))]:
        if isinstance(later, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
        if isinstance(later, LOOPS) and later is not statement and _writes(effects, later):
            return
        yield later
        block = program.block(later)
        for earlier in reversed(block[: block.index(later)]):
            if _writes(effects, earlier):
                return
            yield earlier
    calls = program.flow.callers.get(program.frame(statement), set()) if depth else set()
    if len(calls) == 1 and program.frame(statement) not in program.flow.escaped:
        yield from waits_as_well(effects, program.statement(next(iter(calls))), depth - 1)


def _writes(effects: Effects, statement: ast.stmt) -> bool:
    summary = effects.of(statement)
    return Effect.STARTS in summary.effects or any(not use.is_folder for use in summary.files_written)


def _comes_first(files: Files, load: ast.Call, save: ast.Call) -> bool:
    """Whether a load is over before anything is saved: nothing is on a path to it, in no earlier round either."""
    program = files.program
    frame = program.frame(load)
    if any(program.loops_round(call) for call in program.flow.callers.get(frame, ())):
        return False
    saving = (
        [save] if program.frame(save) is frame else [c for c in program.calls_in(frame) if leads_to(files, c, save)]
    )
    return bool(saving) and not any(program.reaches(c, load) for c in saving)


def lists_files(effects: Effects, node: ast.AST) -> bool:
    """Whether code asks which files there are, itself or by a function: `os.listdir(folder)`."""
    calls = (n for n in walk(node) if isinstance(n, ast.Call))
    asked = {use.call for call in calls for use in effects.of_call(call).files_read}
    return any(row.has(Trait.LISTS) for call in asked for row in effects.kinds.called(call) or ())


def leads_to(files: Files, call: ast.Call, target: ast.Call) -> bool:
    """Whether a call may end in another one."""
    goal, flow = files.program.frame(target), files.program.flow
    seen: set[Scope] = set()
    queue = [call]
    while queue:
        for callee in flow.callees.get(queue.pop(), ()):
            if callee is goal:
                return True
            if callee not in seen:
                seen.add(callee)
                queue.extend(files.program.calls_in(callee))
    return False
