"""Save from one process, whole or not at all.

    torch.save(model.state_dict(), path)    ->    accelerator.save(model.state_dict(), path)

Why: N processes that write one file at once leave a mixture; a run that is stopped while it writes leaves half of it.
Left alone: saving where the accelerator does not reach; a note says so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import libcst as cst

from accelify.codemod.edits import Change, Insert, Obstacle, Plan, Remark, Replace
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "checkpoints"


def find(script: Script, plan: Plan) -> Iterator[Change | Remark | Obstacle]:
    """A change for each `torch.save`, and for each load of what was saved."""
    saved: set[str] = set()
    for call in script.program.calls:
        if "torch.save" not in script.program.called(call) or script.path(call) not in script.files:
            continue
        if call in script.guarding.covered:
            continue
        options = [k for k in call.keywords if k.arg not in ("obj", "f")]
        if (options or len(call.args) > 2) and not script.options.runtime.has("save_options"):
            yield Obstacle(
                NAME, script.path(call), call, "Accelerate's `save` takes none of these options of `torch.save`"
            )
            continue
        accelerator = script.accelerator(call)
        if accelerator is None:
            yield Remark(
                NAME, script.path(call), call, "every process writes this file: save from one of them", Tier.ADVICE
            )
            continue
        saved.update(ast.unparse(a) for a in call.args[1:2])
        yield Change(
            rule=NAME,
            path=script.path(call),
            line=call.lineno,
            reason="written by one process, and whole or not at all",
            edits=(
                Replace(
                    call,
                    partial(saved_by, accelerator=accelerator),
                    keeps=(*call.args, *[k.value for k in call.keywords]),
                    reads=(accelerator.split(".")[0],),
                ),
            ),
        )
    yield from _waits(script, saved)


def _waits(script: Script, saved: set[str]) -> Iterator[Change]:
    """No process reads a file before the one that writes it is done."""
    done: set[ast.stmt] = set()
    for call in script.program.calls:
        if "torch.load" not in script.program.called(call) or not call.args or ast.unparse(call.args[0]) not in saved:
            continue
        statement, accelerator = script.program.statement(call), script.accelerator(call)
        if statement in done or accelerator is None or script.path(call) not in script.files:
            continue
        done.add(statement)
        edit = Insert(statement, "before", f"{accelerator}.wait_for_everyone()")
        yield Change(
            NAME, script.path(call), call.lineno, "the process that writes this file may not be done yet", (edit,)
        )


def saved_by(call: cst.CSTNode, accelerator: str) -> cst.BaseExpression:
    """`accelerator.save(...)` for `torch.save(...)`."""
    assert isinstance(call, cst.Call)
    return call.with_changes(func=cst.parse_expression(f"{accelerator}.save"))
