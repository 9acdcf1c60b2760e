"""Keep one record of the run in Weights & Biases, SwanLab and Comet.

    wandb.init(project="p")    ->    wandb.init(project="p", mode=None if accelerator.is_main_process else "disabled")

    with mlflow.start_run():  ->  with mlflow.start_run() if accelerator.is_main_process else contextlib.nullcontext():
        train()                       train()

Why: each process would start a run of its own. Where it is disabled, all of the library goes on to work and sends
nothing, so that no other line needs to change. What MLflow logs is guarded, as all files are (`writes`).
Left alone: runs that the script disables itself; and sweeps, runs begun where the accelerator does not reach, other
runs that cannot be disabled, and observers of Sacred, of which a note says so.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import partial

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Remark, Replace
from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Trait
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where

NAME = "experiments"
OPTIONAL = True


def find(script: Script) -> Iterator[Change | Remark]:
    """A change for each run that is begun."""
    for call in script.program.calls:
        called = script.program.called(call)
        if script.program.frame(call) not in script.program.reachable:
            continue
        if any(row.has(Trait.SWEEPS) for row in script.metrics.measured.chains.kinds.called(call) or ()):
            message = (
                "each process would choose its own settings here, so that the processes train different models: "
                "search in one process, and let each trial start the processes with `accelify launch`"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)
        is_alone = call in script.written.guarding.covered
        is_one = is_alone or _is_off(call, called) or not _is_run_by_others(script, call)
        if any(map(names.begins_run, called)) and not is_one:
            yield _on_main(script, call)


def _is_run_by_others(script: Script, call: ast.Call) -> bool:
    """Whether another process than the main one comes to a call."""
    runs = script.program.once(Conditions).runs
    return any(runs(call, world) for world in worlds_where(Process.OTHER))


def _is_off(call: ast.Call, called: Collection[str]) -> bool:
    """Whether no process sends anything: `wandb.init(mode="disabled")`."""
    switches = {switch for n in called if (switch := names.switched_off_by(n)) is not None}
    return any((k.arg, ast.unparse(k.value).replace("'", '"')) in switches for k in call.keywords)


def _on_main(script: Script, call: ast.Call) -> Change | Remark:
    """A run that the main process begins, disabled in the others."""
    switches = {names.switched_off_by(n) for n in script.program.called(call)}
    switch = switches.pop() if len(switches) == 1 else None
    accelerator = script.accelerator(call)
    if _is_entered(script, call) and accelerator is not None and script.path(call) in script.files:
        return _entered_on_main(script, call, accelerator)
    if switch is None:
        state = script.state(call)
        is_added = any(map(names.observes_run, script.program.called(call)))
        does = "add this observer" if is_added else "begin it, and log,"
        message = f"every process logs a run of its own: {does} under `if {state}.is_main_process:` alone"
        return Remark(NAME, script.path(call), call, message, Tier.REVIEW)
    keyword, off = switch
    if accelerator is None or script.path(call) not in script.files or any(k.arg is None for k in call.keywords):
        message = f"every process logs a run of its own: pass `{keyword}={off}` on all but the main process"
        return Remark(NAME, script.path(call), call, message, Tier.REVIEW)
    keeps = (call.func, *call.args, *(k.value for k in call.keywords))
    make = partial(on_main, accelerator=accelerator, keyword=keyword, off=off)
    edit = Replace(call, make, keeps, (accelerator.split(".")[0],))
    return Change(NAME, script.path(call), call.lineno, "only the main process logs the run", (edit,))


def _is_entered(script: Script, call: ast.Call) -> bool:
    """Whether a run is begun for a block, in which its logs are guarded: `with mlflow.start_run():`."""
    item = script.program.parent(call)
    is_written = script.written.guarding.alone.writes(call)
    return is_written and isinstance(item, ast.withitem) and item.optional_vars is None


def _entered_on_main(script: Script, call: ast.Call, accelerator: str) -> Change:
    """A block round which the main process has a run."""
    root = script.program.frame(call).root
    nothing = "nullcontext" if "nullcontext" in root.writes else "contextlib.nullcontext"
    is_known = nothing.split(".")[0] in root.writes
    imported = () if is_known else (script.access.import_edit(root, "import contextlib"),)
    make = partial(entered_on_main, accelerator=accelerator, nothing=nothing)
    edit = Replace(call, make, (call,), (accelerator.split(".")[0],))
    return Change(NAME, script.path(call), call.lineno, "only the main process logs the run", (edit, *imported))


def entered_on_main(call: cst.CSTNode, accelerator: str, nothing: str) -> cst.BaseExpression:
    """`mlflow.start_run() if accelerator.is_main_process else contextlib.nullcontext()`."""
    assert isinstance(call, cst.BaseExpression)
    return snippets.expression(f"{{call}} if {accelerator}.is_main_process else {nothing}()", call=call)


def on_main(call: cst.CSTNode, accelerator: str, keyword: str, off: str) -> cst.BaseExpression:
    """`wandb.init(..., mode=None if accelerator.is_main_process else "disabled")`."""
    assert isinstance(call, cst.Call)
    given = [a for a in call.args if a.keyword is not None and a.keyword.value == keyword]
    if off == "True":
        text = f"{{value}} or not {accelerator}.is_main_process" if given else f"not {accelerator}.is_main_process"
    else:
        text = f"{{value}} if {accelerator}.is_main_process else {off}"
    value = snippets.expression(text, value=given[0].value if given else cst.Name("None"))
    if given:
        return call.with_changes(args=[a.with_changes(value=value) if a is given[0] else a for a in call.args])
    return snippets.with_keyword(call, keyword, value)
