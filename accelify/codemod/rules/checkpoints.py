"""Save from one process, whole or not at all.

    torch.save(model.state_dict(), path)    ->    accelerator.save(model.state_dict(), path)

Why: N processes that write one file at once leave a mixture; a run that is stopped while it writes leaves half of it.
Where the accelerator does not reach, as in an imported file's `EarlyStopping`, the function `accelify.runtime.save`
does the same. A process that loads what may have been saved before waits first.
Left alone: what is saved before the accelerator is there; a note says so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import libcst as cst

from accelify.codemod.analysis.bindings import Scope
from accelify.codemod.analysis.outputs import opened_round
from accelify.codemod.analysis.placing import import_edit
from accelify.codemod.edits import Change, Edit, Insert, Obstacle, Plan, Remark, Replace
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "checkpoints"
_ASKING = ("exists", "isfile", "isdir", "is_file", "is_dir")


def find(script: Script, plan: Plan) -> Iterator[Change | Remark | Obstacle]:
    """A change for each `torch.save`, and for each load of what was saved."""
    saves: list[ast.Call] = []
    imported: set[Scope] = set()
    for call in _saves(script):
        if call in script.guarding.covered:
            continue
        options = [k for k in call.keywords if k.arg not in ("obj", "f")]
        if (options or len(call.args) > 2) and not script.options.runtime.has("save_options"):
            yield Obstacle(
                NAME, script.path(call), call, "Accelerate's `save` takes none of these options of `torch.save`"
            )
            continue
        saver = _saver(script, call)
        if saver is None:
            yield Remark(
                NAME, script.path(call), call, "every process writes this file: save from one of them", Tier.ADVICE
            )
            continue
        saves.append(call)
        edits: list[Edit] = [
            Replace(
                call,
                partial(saved_by, saver=saver),
                keeps=(*call.args, *[k.value for k in call.keywords]),
                reads=(saver.split(".")[0],),
            )
        ]
        root = script.program.frame(call).root
        if saver == script.options.runtime.functions and root not in imported:
            imported.add(root)
            edits.append(import_edit(script, root, f"import {saver}"))
        reason = "written by one process, and whole or not at all"
        yield Change(NAME, script.path(call), call.lineno, reason, tuple(edits))
    yield from _waits(script, saves)


def _saves(script: Script) -> list[ast.Call]:
    """The calls of `torch.save` in the files that train, and those that these get to in others."""
    return [
        call
        for call in script.program.calls
        if "torch.save" in script.program.called(call)
        and (script.path(call) in script.files or script.program.frame(call) in script.run_by_training)
    ]


def _saver(script: Script, call: ast.Call) -> str | None:
    """What has the `save` for a place: the accelerator, or the module of functions where it does not reach."""
    frame = script.program.frame(call)
    accelerator = script.accelerator(call)
    if accelerator is not None or script.reach.expression(frame) is not None:
        return accelerator
    library = script.options.runtime.functions
    if frame.kind == "module" or script.distribution is not None or library.split(".")[0] in frame.root.writes:
        return None
    return library


def _waits(script: Script, saves: list[ast.Call]) -> Iterator[Change]:
    """No process reads a file before the one that writes it is done."""
    done: set[ast.stmt] = set()
    for call in script.program.calls:
        if "torch.load" not in script.program.called(call) or not call.args or script.path(call) not in script.files:
            continue
        accelerator = script.accelerator(call)
        statement = _before_asking(script, script.program.statement(call))
        if statement in done or accelerator is None or not any(_may_be_of(script, call, save) for save in saves):
            continue
        done.add(statement)
        edit = Insert(statement, "before", f"{accelerator}.wait_for_everyone()")
        yield Change(
            NAME, script.path(call), call.lineno, "the process that writes this file may not be done yet", (edit,)
        )


def _before_asking(script: Script, statement: ast.stmt) -> ast.stmt:
    """The statement before which to wait: all processes do, so it is none under a condition that asks for the file."""
    found = statement
    for around in script.program.ancestors(statement):
        if not isinstance(around, (ast.If, ast.With, ast.Try)):
            break
        if isinstance(around, ast.If) and script.program.block(around) != [found] and _asks_for_a_file(around.test):
            found = around
    return found


def _asks_for_a_file(test: ast.expr) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in _ASKING for n in ast.walk(test))


def _may_be_of(script: Script, load: ast.Call, save: ast.Call) -> bool:
    """Whether a load may read what was saved before: the same path, or one that an imported file was given."""
    target = save.args[1] if len(save.args) > 1 else None
    if target is not None and _path(script, load.args[0]) == _path(script, target):
        return not _comes_first(script, load, save)
    frame = script.program.frame(load)
    if script.path(save) == script.path(load) or isinstance(load.args[0], ast.Constant):
        return False
    before = (call for call in script.program.calls_in(frame) if call.lineno < load.lineno)
    return any(_leads_to(script, call, save) for call in before)


def _path(script: Script, node: ast.expr) -> str:
    """What names a file, as the script wrote it: what was opened, for a file that is open."""
    opened = opened_round(script.program, node)
    if isinstance(opened, ast.Call) and opened.args:
        node = opened.args[0]
    return ast.unparse(node)


def _comes_first(script: Script, load: ast.Call, save: ast.Call) -> bool:
    """Whether a load is over before anything is saved: above it, and in no loop with it."""
    program = script.program
    frame = program.frame(load)
    if any(program.loops_round(call) for call in program.flow.callers.get(frame, ())):
        return False
    saving = (
        [save] if program.frame(save) is frame else [c for c in program.calls_in(frame) if _leads_to(script, c, save)]
    )
    loops = program.loops_round(load)
    return bool(saving) and not any(
        c.lineno < load.lineno or any(loop in loops for loop in program.loops_round(c)) for c in saving
    )


def _leads_to(script: Script, call: ast.Call, target: ast.Call) -> bool:
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


def saved_by(call: cst.CSTNode, saver: str) -> cst.BaseExpression:
    """`accelerator.save(...)` for `torch.save(...)`."""
    assert isinstance(call, cst.Call)
    return call.with_changes(func=cst.parse_expression(f"{saver}.save"))
