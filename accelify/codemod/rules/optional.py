"""Remove the choice between one process and several: the accelerator serves both.

    if args.distributed:                                   ->    (nothing)
        dist.init_process_group("nccl")
    if args.distributed:                                   ->    sampler = DistributedSampler(train_set)
        sampler = DistributedSampler(train_set)
    else:
        sampler = None
    if not args.distributed or args.rank == 0:             ->    if args.rank == 0:
    if args.local_rank in [-1, 0]:                         ->    if args.local_rank == 0:
    if args.distributed:                                   ->    if dist.get_world_size() > 1:
        meter.synchronize()

Why: an Accelerator is the same in one process and in many. What is left is a script for several processes, which the
rule `distributed` migrates. In one process the result does what the script did with its distribution switched off.
Left alone: conditions whose branches differ in more than how data, models and processes are placed; where such a branch
also starts the processes, wraps a model or makes a sampler, the file is declined, with the lines.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import libcst as cst

from accelify.codemod.distributed.launched import Launched
from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Change, Obstacle, Remark, Remove, Replace, Unwrap
from accelify.codemod.result import Tier
from accelify.codemod.semantics.scopes import names_in

NAME = "optional"
_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
_REASON = "the accelerator works the same way with one process and with many"


def find(script: Launched) -> Iterator[Change | Remark | Obstacle]:
    """Changes for all of it."""
    found = script.edits
    for node, reason in found.foreign:
        yield Obstacle(NAME, script.path(node), node, reason)
    for statement in found.removed:
        yield Change(NAME, script.path(statement), statement.lineno, _REASON, (Remove(statement),))
    for node, (depth, is_body) in found.branches.items():
        yield Change(NAME, script.path(node), node.lineno, _REASON, (Unwrap(node, is_body, depth),))
    for choice, is_body in found.choices.items():
        kept = choice.body if is_body else choice.orelse
        edit = Replace(choice, partial(snippets.chosen, is_body=is_body), keeps=(kept,))
        yield Change(NAME, script.path(choice), choice.lineno, _REASON, (edit,))
    for test, (code, parts) in _tests(script).items():
        text = code.replace("{group}", script.group(test))
        reads = tuple(sorted(names_in(ast.parse(text, mode="eval"))))
        edit = Replace(test, partial(snippets.coded, code=text), keeps=parts, reads=reads)
        yield Change(NAME, script.path(test), test.lineno, _REASON, (edit,))
    for sampler, shuffles in found.orders.items():
        edit = Replace(
            sampler,
            partial(in_order, shuffles=shuffles),
            keeps=(sampler.func, *sampler.args, *(k.value for k in sampler.keywords)),
        )
        yield Change(NAME, script.path(sampler), sampler.lineno, "in one process the loader has this order", (edit,))
    for statement in found.unsaid:
        message = f"`{ast.unparse(statement)}` was removed with its branch"
        yield Remark(NAME, script.path(statement), statement, message)
    for statement in found.scaled:
        message = "this now counts the processes of all machines; with one process the value is unchanged"
        yield Remark(NAME, script.path(statement), statement, message, Tier.REVIEW)


def _tests(script: Launched) -> dict[ast.expr, tuple[str, tuple[ast.expr, ...]]]:
    """The questions to ask anew; one for both of `"RANK" in os.environ and "WORLD_SIZE" in os.environ`."""
    known = script.edits.tests
    found = {}
    for test, asked in known.items():
        parent = script.program.parent(test)
        is_one = isinstance(parent, ast.BoolOp) and not asked[1] and all(known.get(v) == asked for v in parent.values)
        found[parent if is_one and isinstance(parent, ast.expr) else test] = asked
    return found


def in_order(call: cst.CSTNode, shuffles: bool) -> cst.BaseExpression:
    """A sampler that shuffles, or does not."""
    assert isinstance(call, cst.Call)
    kept = [a for a in call.args if a.keyword is None or a.keyword.value != "shuffle"]
    order = cst.Arg(cst.Name(str(shuffles)), keyword=cst.Name("shuffle"), equal=_EQUAL)
    return call.with_changes(args=[*kept, order])
