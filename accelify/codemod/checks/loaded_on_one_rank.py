"""A state that one process alone loads.

    if dist.get_rank() == 0:
        optimizer.load_state_dict(state)    ->    optimizer.load_state_dict(state)

Why: the other processes go on with their own momenta, learning rates or weights, and the replicas diverge. What a
model loads before it is wrapped is broadcast to all; what it loads afterwards, and what an optimizer loads, is not.
Left alone: models that are not wrapped yet, and programs that broadcast.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import MAIN, OTHER, Processes
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries import table

NAME = "loaded_on_one_rank"
_STATEFUL = ("optimizer", "scheduler", "scaler")


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each `load_state_dict` that the main process alone comes to."""
    if any("broadcast" in parsed.text for parsed in processes.program.files):
        return
    trained = Trained(processes)
    for call in sorted(processes.program.calls, key=processes.program.position):
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "load_state_dict":
            continue
        owner = call.func.value
        is_alone = not processes.is_dead(call, MAIN) and processes.is_dead(call, OTHER)
        if is_alone and processes.enters(call, OTHER) and _diverges(processes, trained, owner):
            if _is_at_the_end(processes, trained, call):
                continue
            message = (
                f"only the main process loads this state, so `{ast.unparse(owner)}` differs between processes from "
                "then on: load it in all of them"
            )
            yield Finding(NAME, call, message)


def _is_at_the_end(processes: Processes, trained: Trained, call: ast.Call) -> bool:
    """Whether the function that trains has done so."""
    flow = processes.program.control_flow(call)
    near = [b for b in trained.backwards if processes.frame(b) is processes.frame(call)]
    return bool(near) and not any(flow.reaches(call, backward) for backward in near)


def _diverges(processes: Processes, trained: Trained, owner: ast.expr) -> bool:
    if trained.is_wrapped(owner) or (isinstance(owner, ast.Attribute) and trained.is_wrapped(owner.value)):
        return True
    kinds = processes.kinds.of(owner)
    return bool(kinds) and all(any(table.is_kind(kind, base) for base in _STATEFUL) for kind in kinds)
