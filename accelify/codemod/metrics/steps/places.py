"""Which places in loops are run for a part of the data, and which for all of it?"""

from __future__ import annotations

import ast
import itertools

from accelify.codemod.metrics.facts import Metrics

_DEPTH = 3  # Units: functions between a loop and what it calls in the end


def is_sharded(metrics: Metrics, call: ast.AST, depth: int = _DEPTH) -> bool:
    """Whether a loop that is sharded makes a call, itself or by functions that it calls."""
    if any(metrics.measured.program.inside(call, loop) for loop in metrics.shared_loops):
        return True
    callers = metrics.measured.program.flow.callers.get(metrics.measured.program.frame(call), ()) if depth else ()
    return any(is_sharded(metrics, caller, depth - 1) for caller in callers)


def goes_over_all(metrics: Metrics, node: ast.AST, loop: ast.AST) -> bool:
    """Whether a place in a loop over `loaders[phase]` is for a phase whose loader is whole in every process."""
    measured, program = metrics.measured, metrics.measured.program
    phase = measured.training.phases.get(loop)
    source = measured.tracer.inside(phase.loop.iter) if phase is not None else None
    if phase is None or any(d.loop is loop for d in metrics.sharded) or not isinstance(source, ast.Subscript):
        return False
    if not isinstance(phase.test, ast.Compare) or ast.unparse(source.slice) != ast.unparse(phase.test.left):
        return False
    rounds = (loop, *program.loops_round(loop)[:1])  # that of the phases round it
    around = [b for b in program.branches_round(node) if any(program.inside(b[0], r) for r in rounds)]
    asked = [(branching.test, holds) for branching, holds in around]
    asked += [(node.test, True)] if isinstance(node, ast.If) else []
    for test in (a for a in program.ancestors(node) if isinstance(a, ast.BoolOp) and isinstance(a.op, ast.And)):
        asked += [(v, True) for v in itertools.takewhile(lambda v: not program.inside(node, v), test.values)]
    return any(phase.is_over(test, holds) for test, holds in asked)
