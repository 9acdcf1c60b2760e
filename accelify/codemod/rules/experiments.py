"""Keep one record of the run in Weights & Biases.

    wandb.init(project="p")    ->    wandb.init(project="p", mode=None if accelerator.is_main_process else "disabled")

Why: each process would start a run of its own. Where it is disabled, all of `wandb` goes on to work and sends nothing,
so that no other line needs to change.
Left alone: sweeps, and runs begun where the accelerator does not reach; a note says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Remark, Replace
from accelify.codemod.libraries import names
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "experiments"
OPTIONAL = True


def find(script: Script) -> Iterator[Change | Remark]:
    """A change for each run that is begun."""
    for call in script.program.calls:
        called = script.program.called(call)
        if script.program.frame(call) not in script.program.reachable:
            continue
        if any(map(names.sweeps, called)):
            message = (
                "every process would take its own runs from the sweep: start one agent, and let each of its runs "
                "start the processes with `accelify launch`"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)
        if "wandb.init" not in called:
            continue
        accelerator = script.accelerator(call)
        if accelerator is None or script.path(call) not in script.files or any(k.arg is None for k in call.keywords):
            message = 'every process logs a run of its own: pass `mode="disabled"` on all but the main process'
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)
            continue
        keeps = (call.func, *call.args, *(k.value for k in call.keywords))
        edit = Replace(call, partial(on_main, accelerator=accelerator), keeps, (accelerator.split(".")[0],))
        yield Change(NAME, script.path(call), call.lineno, "only the main process logs the run", (edit,))


def on_main(call: cst.CSTNode, accelerator: str) -> cst.BaseExpression:
    """`wandb.init(..., mode=None if accelerator.is_main_process else "disabled")`."""
    assert isinstance(call, cst.Call)
    text = f'{{mode}} if {accelerator}.is_main_process else "disabled"'
    given = [a for a in call.args if a.keyword is not None and a.keyword.value == "mode"]
    mode = snippets.expression(text, mode=given[0].value if given else cst.Name("None"))
    if given:
        return call.with_changes(args=[a.with_changes(value=mode) if a is given[0] else a for a in call.args])
    bare = cst.SimpleWhitespace("")
    flag = cst.Arg(mode, keyword=cst.Name("mode"), equal=cst.AssignEqual(bare, bare))
    return call.with_changes(args=snippets.with_last(call.args, flag))
