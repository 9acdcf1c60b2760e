"""Which numbers are worked out from the length of something, and which from more than a prepared loader's?"""

from __future__ import annotations

import ast

from accelify.codemod.files.nodes import walk
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.semantics import sizes


def has_length(metrics: Metrics, number: ast.expr) -> bool:
    """Whether a number is worked out from the length of something."""
    return any(any(sizes.measured_in(part)) for part in (number, *given_values(metrics, number)))


def counts_all(metrics: Metrics, total: ast.expr) -> bool:
    """Whether a number is worked out from something else than the length of a prepared loader."""
    nodes = [n for part in (total, *given_values(metrics, total)) for n in walk(part)]
    counted = [of for n in nodes if (of := sizes.measured(n)) is not None]
    is_worked_out = bool(counted) or any(isinstance(n, ast.BinOp) for n in nodes)
    return is_worked_out and not any(map(metrics.measured.prepared.is_loader, counted))


def given_values(metrics: Metrics, node: ast.expr) -> list[ast.expr]:
    """The values that a variable is given."""
    owner = metrics.measured.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
    writes = metrics.measured.tracer.writes(owner, node.id) if owner is not None and isinstance(node, ast.Name) else []
    values = [metrics.measured.tracer.assigned(w) for w in writes if isinstance(w, ast.Name)]
    return [value for value in values if value is not None]
