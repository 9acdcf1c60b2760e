"""What calls do to files, as the rule asks it."""

from __future__ import annotations

import ast

from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Trait
from accelify.codemod.script import Script

NAME = "writes"


def calls_in(run: tuple[ast.stmt, ...]) -> list[ast.Call]:
    return [n for s in run for n in ast.walk(s) if isinstance(n, ast.Call)]


def rows_in(script: Script, run: tuple[ast.stmt, ...], trait: Trait) -> list[ast.Call]:
    """The calls in some statements whose rows have a trait."""
    return calls_with(script, calls_in(run), trait)


def calls_with(script: Script, calls: list[ast.Call], trait: Trait) -> list[ast.Call]:
    return [c for c in calls if any(row.has(trait) for row in script.effects.kinds.called(c) or ())]


def is_command(script: Script, call: ast.Call) -> bool:
    return any(map(names.runs_command, script.program.called(call)))


def fetches(script: Script, run: tuple[ast.stmt, ...]) -> bool:
    return bool(rows_in(script, run, Trait.DOWNLOADS))


def made_paths(script: Script, call: ast.Call) -> list[ast.expr]:
    """The paths of the files that are there after a call."""
    return [p for use in script.effects.of_call(call).files_written if not use.is_gone for p in use.paths]


def read_paths(script: Script, call: ast.Call) -> list[ast.expr]:
    """The paths that a call may read, in this process or in another that it starts."""
    if not script.program.flow.callees.get(call) and script.effects.of_call(call).files_read:
        return script.effects.of_call(call).paths_read
    if is_command(script, call):
        return [n for a in call.args[:1] for n in ast.walk(a) if isinstance(n, (ast.Name, ast.Attribute))]
    if call in script.effects.of_call(call).unknown:  # which may read any file whose name it gets
        given = [n for a in (*call.args, *(k.value for k in call.keywords)) for n in ast.walk(a)]
        return [n for n in given if isinstance(n, ast.expr) and script.written.stored.names(n)]
    return []


def written_alone(script: Script) -> list[tuple[ast.Call, ast.expr]]:
    """What one process alone writes, with the paths; not what it fetches, for which the processes have waited."""
    guarding = script.written.guarding
    fetched = {node for run in guarding.runs if fetches(script, run) for s in run for node in ast.walk(s)}
    alone = guarding.covered - fetched
    writes = [
        c for c in script.program.calls if c in alone and guarding.alone.writes(c) and not guarding.cached.holds(c)
    ]
    writes += [save.call for save in script.written.saves if save.saver is not None and save.call not in alone]
    return [(call, path) for call in writes for path in script.effects.of_call(call).paths_written]
