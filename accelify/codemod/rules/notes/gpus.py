"""Notes on GPUs that the script chooses for itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.devices.destinations import makes_current
from accelify.codemod.edits.values import Remark, When
from accelify.codemod.preparing.parallel_wrappers import divided_batches, is_plain_call
from accelify.codemod.preparing.placing import gpu_choices
from accelify.codemod.result import Tier
from accelify.codemod.rules.notes.remarks import NAME, review, run_by_files
from accelify.codemod.script import Script
from accelify.codemod.semantics.scopes import Scope


def _divided_batches(script: Script) -> Iterator[Remark]:
    """The functions that compute on several GPUs of one process, each by the first call that says so."""
    found: dict[Scope, ast.Call] = {}
    for call in divided_batches(script.program):
        frame = script.program.frame(call)
        if not is_plain_call(script.program, call):
            found[frame] = min(call, found.get(frame, call), key=script.program.position)
    message = "this divides a batch between GPUs, and each process has one of its own: call the module itself"
    for frame, call in found.items():
        if script.program.may_run(frame):
            yield review(script, call, message)


def chosen(script: Script) -> Iterator[Remark]:
    """One GPU by its number, chosen before the processes have theirs."""
    for call in script.program.calls:
        is_changed = script.path(call) in script.files
        if "torch.cuda.set_device" in script.program.called(call) and (is_changed or not script.is_by_hand):
            yield from (_selected_gpu(script, call, place) for place in run_by_files(script, call))
        elif _concerns(script, call) and makes_current(script.program, call):
            message = (
                f"inside this block `{ast.unparse(call.args[0])}` is the current GPU of every process: remove "
                "this `with`, `Accelerator()` selects a GPU for each process, and choose GPUs with "
                f"`{script.options.runtime.launch} --gpu-ids`"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW, When.KEPT)
    yield from _divided_batches(script)
    for node in script.program.once(gpu_choices):
        for place in run_by_files(script, node):
            yield from _chosen_gpus(script, node, place)


def _concerns(script: Script, node: ast.AST) -> bool:
    """Whether a node is in a changed file, or one that runs where only the runtime says which process it is."""
    runs = not script.is_by_hand and script.program.may_run(script.program.frame(node))
    return script.path(node) in script.files or runs


def _selected_gpu(script: Script, call: ast.Call, place: ast.AST) -> Remark:
    """A call of `set_device`: noted where it is made, or where a changed file calls code that makes it."""
    if place is call:
        message = (
            "every process would use this one GPU: remove this call, `Accelerator()` selects a GPU for each process"
        )
        return Remark(NAME, script.path(call), call, message, Tier.REVIEW, When.KEPT)
    message = (
        "`Accelerator()` selects a GPU for each process, and not the one that {0} selects: remove that, and "
        f"choose GPUs with `{script.options.runtime.launch} --gpu-ids`"
    )
    lines = (((script.path(call), call),),)
    return Remark(NAME, script.path(place), place, message, Tier.REVIEW, When.KEPT, call, lines=lines)


def _chosen_gpus(script: Script, node: ast.AST, place: ast.AST) -> Iterator[Remark]:
    """The fate of `CUDA_VISIBLE_DEVICES`: noted where it is set, or where a changed file calls code that sets it.

    Not of `"-1"`, for the CPU, where what chooses that keeps the accelerator there, too.
    """
    choice = f"`{script.options.runtime.launch} --gpu-ids`"
    is_above = script.program.frame(place) in script.reach.homes  # of the line that creates it
    is_late = script.accelerator(place) is not None or not (is_above or script.devices.is_early(place))
    if is_late:
        setting = "this" if place is node else "the `CUDA_VISIBLE_DEVICES` that {0} sets"
        if _hides_gpus(script, node):
            if script.devices.cpu is not None:
                return
            choice = f"`{script.options.runtime.launch} --cpu` or `Accelerator(cpu=True)`"
        effect = f"{setting} has no effect, because `Accelerator()` has already selected the GPU: use {choice} instead"
    else:
        removed = "this" if place is node else "{0}, which sets `CUDA_VISIBLE_DEVICES`"
        effect = f"every process sees only these GPUs: remove {removed}, and use {choice} instead"
    lines = () if place is node else (((script.path(node), node),),)
    yield Remark(NAME, script.path(place), place, effect, Tier.REVIEW, When.KEPT, node, lines=lines)


def _hides_gpus(script: Script, node: ast.AST) -> bool:
    """`os.environ["CUDA_VISIBLE_DEVICES"] = "-1"`"""
    value = script.tracer.assigned(node) if isinstance(node, ast.Subscript) else None
    return isinstance(value, ast.Constant) and value.value in ("", "-1")
