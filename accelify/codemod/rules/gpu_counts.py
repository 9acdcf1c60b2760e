"""Count processes where the GPUs of `DataParallel` were counted.

    batch_size *= torch.cuda.device_count()      ->    batch_size *= accelerator.num_processes
    num_workers=4 * torch.cuda.device_count()    ->    num_workers=4
    if torch.cuda.device_count() > 1:            ->    if accelerator.num_processes > 1:
        print(torch.cuda.device_count(), "GPUs")           print(accelerator.num_processes, "GPUs")

Why: one process drove all GPUs, with a batch that was larger by their number. Now each process has one GPU, and the
processes divide the batch. Each process starts its own workers.
Left alone: scripts without `DataParallel`, and what only shows how many GPUs the machine has. Where the accelerator
does not reach, a note says what the number does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Remark, Remove, Replace, When
from accelify.codemod.preparing.parallel_wrappers import GpuCount, conditions_on, gpu_counts
from accelify.codemod.result import Tier
from accelify.codemod.script import Script

NAME = "gpu_counts"
_LEFT = (
    "this is scaled by the number of GPUs that `DataParallel` used in one process: start one process for each of "
    "them, or remove the factor"
)


def find(script: Script) -> Iterator[Change | Remark]:
    """A change for each product with the number of GPUs, and where it is shown because there are several."""
    if not script.batch_sizes.parallel:
        return
    counted: set[ast.expr] = set()
    for count in gpu_counts(script.program):
        if script.path(count.node) not in script.files or any(
            script.program.inside(count.node, w) for w in script.wrappers
        ):
            continue
        if count.workers and count.multiplied is not None:
            yield _unscaled(script, count, count.multiplied)
            continue
        nodes = [n for n in (count.node, *conditions_on(script.program, count.node)) if n not in counted]
        counted.update(nodes)
        yield from _processes(script, count, nodes)


def _processes(script: Script, count: GpuCount, nodes: list[ast.expr]) -> Iterator[Change | Remark]:
    accelerator = script.accelerator(count.node)
    if accelerator is None or not script.options.keep_global_batch:
        if count.multiplied is not None:
            yield Remark(NAME, script.path(count.node), count.node, _LEFT, Tier.REVIEW, When.KEPT)
        return
    reason = "each process has one GPU"
    for node in nodes:
        if script.accelerator(node) is not None:
            make = partial(_number, code=f"{accelerator}.num_processes")
            edit = Replace(node, make, reads=(accelerator.split(".")[0],))
            yield Change(NAME, script.path(node), node.lineno, reason, (edit,), Tier.REVIEW)


def _unscaled(script: Script, count: GpuCount, multiplied: ast.BinOp | ast.AugAssign | ast.Assign) -> Change:
    """Workers for one GPU: each process starts its own."""
    reason, path = "each process starts its own loader workers", script.path(multiplied)
    if not isinstance(multiplied, ast.BinOp):
        return Change(NAME, path, multiplied.lineno, reason, (Remove(multiplied),), Tier.REVIEW)
    other = multiplied.right if script.program.inside(count.node, multiplied.left) else multiplied.left
    make = partial(_side, is_left=other is multiplied.left)
    return Change(NAME, path, multiplied.lineno, reason, (Replace(multiplied, make, keeps=(other,)),), Tier.REVIEW)


def _number(node: cst.CSTNode, code: str) -> cst.BaseExpression:
    return cst.parse_expression(code)


def _side(node: cst.CSTNode, is_left: bool) -> cst.BaseExpression:
    """`4` of `4 * torch.cuda.device_count()`."""
    assert isinstance(node, cst.BinaryOperation)
    return snippets.bare(node.left if is_left else node.right)
