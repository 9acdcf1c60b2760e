"""Guards round what one process writes, with the waits that belong to each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from itertools import chain, count
from keyword import iskeyword

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Bind, Change, Edit, Insert, Replace, Wrap
from accelify.codemod.files_written.refusals import Refusals, path_of
from accelify.codemod.libraries.row import Trait
from accelify.codemod.libraries.vocabulary import is_for_images
from accelify.codemod.rules.writes.uses import NAME, calls_in, calls_with, fetches, made_paths, rows_in
from accelify.codemod.script import Script


def guards(script: Script) -> Iterator[Change]:
    """A guard for each run of statements that write, with the waits round it."""
    for run in script.written.guarding.runs:
        accelerator = script.state(run[0])
        if not script.written.guarding.asks_for_writer(run):
            teller = script.teller(run[0])
            header = Wrap(run, f"if {teller}.is_main_process:")
            guard: tuple[Edit, ...] = (
                *_computed_first(script, run),
                header,
                *script.library_import(run[0], teller),
            )
            reason = "only the main process writes this"
            yield Change(NAME, script.path(run[0]), run[0].lineno, reason, guard)
        if script.written.guarding.cached.holds(run[0]):
            continue  # the others wait where one process makes the cache
        commands = list(filter(script.written.commands.touches_files, calls_in(run)))
        waits = []
        if fetches(script, run):
            waits.append(("after", run[-1], "the other processes wait until the main process has downloaded it"))
        elif commands and _is_followed(script, commands[-1]):
            waits.append(("after", run[-1], "the other processes wait until the main process is done with these files"))
        if script.written.meetings.are_read_before(run) or _is_after_reading(script, commands):
            before = script.written.meetings.before_removal(run)
            waits.append(("before", before, "waits until all processes have read this file"))
        for where, statement, reason in waits:
            edit = Insert(statement, where, f"{accelerator}.wait_for_everyone()")
            fetched = rows_in(script, run, Trait.DOWNLOADS) if where == "after" else []
            edits = (edit, *dict.fromkeys(e for call in fetched for e in script.written.meetings.before(call)))
            yield Change(NAME, script.path(statement), statement.lineno, reason, edits)
        for edits in dict.fromkeys(_refused(script, run)):
            reason = "no process writes the file that another one is still to look for"
            yield Change(NAME, script.path(run[0]), run[0].lineno, reason, edits)
    for backward in script.training.backwards:
        if edits := script.written.meetings.before(backward):
            reason = "no process makes what another one is still to look for"
            yield Change(NAME, script.path(backward), backward.lineno, reason, edits)


def _computed_first(script: Script, run: tuple[ast.stmt, ...]) -> Iterator[Bind]:
    """New variables for what all processes compute in some statements before one of them writes it."""
    for statement in run:
        taken = set[str]()
        for call in script.written.guarding.first.calls(statement):
            root = script.program.frame(statement).root
            taken.update(name for scope in root.walk() for name in scope.writes)
            wanted = _named_for(script, call)
            name = next(n for n in chain([wanted], (f"{wanted}_{i}" for i in count(2))) if n not in taken)
            taken.add(name)
            yield Bind(call, name)


def _named_for(script: Script, call: ast.Call) -> str:
    """A name for what a call gives: its key, `images`, `output` of a model, or what is `removed`."""
    holder = script.program.parent(call)
    keys = dict(zip(holder.values, holder.keys, strict=True)) if isinstance(holder, ast.Dict) else {}
    key = keys.get(call)
    if (
        isinstance(key, ast.Constant)
        and isinstance(key.value, str)
        and key.value.isidentifier()
        and not iskeyword(key.value)
    ):
        return key.value
    statement = script.program.statement(call)
    if rows_in(script, (statement,), Trait.REMOVES):
        return "removed"
    writes = statement.value.func if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else call
    is_model = any(script.roles.is_model(v) for v in script.program.values(call.func))
    return "images" if is_for_images(ast.unparse(writes)) else "output" if is_model else "value"


def _is_followed(script: Script, command: ast.Call) -> bool:
    """Whether a process reads or writes files after a command, or loads data and trains."""
    later = (c for c in script.program.calls if c is not command and script.effects.of_call(c).uses_files)
    return any(script.written.stored.is_before(command, c) for c in (*later, *script.training.backwards))


def _is_after_reading(script: Script, commands: list[ast.Call]) -> bool:
    """Whether every process looks for a file before some commands, which may make it, or reads one that they remove."""
    removing = any(use.is_gone for c in commands for use in script.effects.of_call(c).files_written)
    read = [c for c in script.program.calls if c not in script.written.guarding.covered]
    read = [c for c in read if script.effects.of_call(c).files_read]
    looking = read if removing else [*calls_with(script, read, Trait.LOOKS), *calls_with(script, read, Trait.LISTS)]
    return bool(commands) and any(script.written.stored.is_before(c, commands[0]) for c in looking)


def _refused(script: Script, run: tuple[ast.stmt, ...]) -> Iterator[tuple[Edit, ...]]:
    """The waits before one process writes a file, where the script stops because it is there."""
    stored, meetings = script.written.stored, script.written.meetings
    for call in (n for s in run for n in ast.walk(s) if isinstance(n, ast.Call)):
        if any(stored.is_before(backward, call) for backward in script.training.backwards):
            continue  # for which the processes have waited for each other
        for path in made_paths(script, call):
            refusals = Refusals(stored, partial(_path_of, call, path))
            waits = (w for refusal in refusals.before(call) if refusal.stops for w in refusal.waits)
            yield from filter(None, map(meetings.at, waits))


def _path_of(write: ast.Call, path: ast.expr, call: ast.Call) -> ast.expr:
    return path if call is write else path_of(call)


def handed_on(script: Script) -> Iterator[Change]:
    """A writer that is passed on is made by the process that writes; the others pass on what writes nothing."""
    guarding = script.written.guarding
    for call, otherwise in (dict.fromkeys(guarding.handed_on, "None") | guarding.log_files).items():
        yield _chosen(script, call, call, otherwise)
    for call, path in guarding.files_of_main.items():
        root = script.program.frame(call).root
        imported = () if "os" in root.writes else (script.access.import_edit(root, "import os"),)
        yield _chosen(script, call, path, "os.devnull", imported)


def _chosen(script: Script, call: ast.Call, node: ast.expr, otherwise: str, edits: tuple[Edit, ...] = ()) -> Change:
    """A call that makes a writer, where the main process alone has an expression, and the others something else."""
    state = script.teller(call)
    parted = "({})" if isinstance(script.program.parent(node), (ast.IfExp, ast.Attribute, ast.BoolOp)) else "{}"
    code = parted.format(f"{{node}} if {state}.is_main_process else {otherwise}")
    edit = Replace(node, partial(only_main, code=code), (node,), (state.split(".")[0],))
    edits = (edit, *script.library_import(call, state), *edits)
    return Change(NAME, script.path(call), call.lineno, "only the main process writes with it", edits)


def only_main(node: cst.CSTNode, code: str) -> cst.BaseExpression:
    """`Writer() if accelerator.is_main_process else None`."""
    assert isinstance(node, cst.BaseExpression)
    return snippets.expression(code, node=node)
