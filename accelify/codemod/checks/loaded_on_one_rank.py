"""A state that one process alone loads.

    if dist.get_rank() == 0:
        optimizer.load_state_dict(state)    ->    optimizer.load_state_dict(state)

Why: the other processes go on with their own momenta, learning rates or weights, and the replicas diverge. What a
model loads before it is wrapped is broadcast to all; what it loads afterwards, and what an optimizer loads, is not.
Left alone: models that are not wrapped yet, states that the other processes load elsewhere, and programs that
broadcast.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.checks.finding import Finding
from accelify.codemod.checks.processes import MAIN, OTHER, Processes
from accelify.codemod.checks.training import Trained
from accelify.codemod.libraries import table

NAME = "loaded_on_one_rank"
_DEEPEST = 4  # calls that are followed to a guard
_STATEFUL = ("optimizer", "scheduler", "scaler")


def find(processes: Processes) -> Iterator[Finding]:
    """A finding for each state that the main process alone loads, by itself or in a function that it alone calls."""
    if any("broadcast" in parsed.text for parsed in processes.program.files):
        return
    trained = processes.once(Trained)
    loads = [c for c in sorted(processes.program.calls, key=processes.program.position) if _loads(processes, c)]
    others = {_text(c) for c in loads if processes.is_dead(c, MAIN)}
    for call in loads:
        if _text(call) in others or not _is_alone(processes, call, _DEEPEST):
            continue
        if _diverges(processes, trained, call) and not _is_at_the_end(processes, trained, call):
            assert isinstance(call.func, ast.Attribute)
            what = "all that is prepared" if call.func.attr == "load_state" else f"`{_text(call)}`"
            message = f"only the main process loads this state, so {what} differs between processes from then on"
            yield Finding(NAME, call, f"{message}: load it in all of them")


def _loads(processes: Processes, call: ast.Call) -> bool:
    """`model.load_state_dict(state)`, `accelerator.load_state(folder)`."""
    if not isinstance(call.func, ast.Attribute):
        return False
    is_state = call.func.attr == "load_state" and processes.is_accelerator(call.func.value)
    return is_state or call.func.attr == "load_state_dict"


def _text(call: ast.Call) -> str:
    """The call that loads the state, as text."""
    assert isinstance(call.func, ast.Attribute)
    return ast.unparse(call.func.value)


def _is_alone(processes: Processes, call: ast.Call, depth: int) -> bool:
    """Whether the main process alone comes to a call: in its function, or as it alone calls that."""
    if processes.is_dead(call, MAIN):
        return False
    if processes.is_dead(call, OTHER):
        return processes.enters(call, OTHER)
    callers = processes.program.flow.callers.get(processes.frame(call), ())
    return bool(callers) and depth > 0 and all(_is_alone(processes, each, depth - 1) for each in callers)


def _is_at_the_end(processes: Processes, trained: Trained, call: ast.Call) -> bool:
    """Whether the function that trains has done so."""
    flow = processes.program.control_flow(call)
    near = [b for b in trained.backwards if processes.frame(b) is processes.frame(call)]
    return bool(near) and not any(flow.reaches(call, backward) for backward in near)


def _diverges(processes: Processes, trained: Trained, call: ast.Call) -> bool:
    """Whether what is loaded is trained with as it is in each process."""
    assert isinstance(call.func, ast.Attribute)
    owner = call.func.value
    if call.func.attr == "load_state" or trained.is_wrapped(owner) or trained.is_inside_wrapper(owner):
        return True
    kinds = processes.kinds.of(owner)
    return bool(kinds) and all(any(table.is_kind(kind, base) for base in _STATEFUL) for kind in kinds)
