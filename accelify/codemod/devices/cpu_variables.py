"""Which variables say that something goes to the CPU, beside what is trained on the device of the process?

device = torch.device("cpu")    # to look at what was trained, below the loop or in a function of its own
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from accelify.codemod.devices.moves import Move, is_cpu
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import main_guard


def cpu_only(program: Program, tracer: Tracer, statement: ast.Assign, trained: Sequence[Move]) -> bool:
    """Whether a statement chooses the CPU for good, and for none of the moves that training makes."""
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or not is_cpu(statement.value):
        return False
    guard = main_guard(program.scope(statement).root)
    around = [a for a in program.ancestors(statement) if isinstance(a, (ast.If, ast.Try)) and a is not guard]
    devices = [m.device for m in trained if m.device is not None]
    return bool(trained) and not around and not any(_is_from(program, tracer, d, target) for d in devices)


def _is_from(program: Program, tracer: Tracer, device: ast.expr, target: ast.Name) -> bool:
    """Whether a device may be what a statement gives to its target."""
    if not isinstance(device, ast.Name) or program.scope(device).owner(device.id) is not program.scope(target):
        return bool(program.values(device) & program.values(target))
    return target in program.reaching(device, tracer.writes(program.scope(target), target.id))
