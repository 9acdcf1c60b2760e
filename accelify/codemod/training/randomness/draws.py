"""What draws random numbers, or asks a simulation, and so gives each process something else?"""

from __future__ import annotations

import ast

from accelify.codemod.libraries import table, vocabulary
from accelify.codemod.libraries.row import DRAWS, Effect, Role, Row
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.kinds import UNKNOWN
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Made


def draws(program: Program, call: ast.Call) -> bool:
    """Whether a call of a library draws random numbers, samples, or asks an environment for the next observation."""
    if program.flow.callees.get(call):
        return asks_environment(program, call)
    kinds, function = program.once(Effects).kinds, call.func
    rows = kinds.called(call) or (table.members(function.attr) if isinstance(function, ast.Attribute) else ())
    owner = function.value if isinstance(function, ast.Attribute) else function
    is_one_of_many = not kinds.name_of(function) and UNKNOWN in kinds.of(owner)
    drawn = [_draws(row) for row in rows] if not _is_of_fixed_parts(program, owner) else []
    return ((all(drawn) if is_one_of_many else any(drawn)) and bool(rows)) or asks_environment(program, call)


def _is_of_fixed_parts(program: Program, node: ast.expr) -> bool:
    """Whether what is called only runs parts that draw nothing: `Compose([Resize(8), ToTensor()])`."""
    made = [v.node for v in program.values(node) if isinstance(v, Made) and isinstance(v.node, ast.Call)]
    parts = [c.args[0].elts if c.args and isinstance(c.args[0], (ast.List, ast.Tuple)) else [] for c in made]
    if not all(parts) or not made or len(made) < len(program.values(node)):
        return False
    kinds = program.once(Effects).kinds
    rows = [row for elements in parts for part in elements for row in kinds.rows(part, "__call__") or (None,)]
    return all(row is not None and row.is_pure for row in rows)


def _draws(row: Row) -> bool:
    is_model = row.role in (Role.MODEL, Role.LOSS)  # whose weights are drawn
    return bool(row.effects & (DRAWS - {Effect.DRAWS_IN_TRAINING})) and not is_model


def asks_environment(program: Program, call: ast.Call) -> bool:
    """Whether a call asks an environment for the next observation."""
    row = table.member("environment", call.func.attr) if isinstance(call.func, ast.Attribute) else None
    if not isinstance(call.func, ast.Attribute) or row is None or Effect.SIMULATES not in row.effects:
        return False
    return is_environment(program, call.func.value)


def is_environment(program: Program, node: ast.expr) -> bool:
    """Whether an expression is an environment, by what is known of it or by its name."""
    kinds = program.once(Effects).kinds
    made = [v.node for v in program.values(node) if isinstance(v, Made) and isinstance(v.node, ast.expr)]
    is_known = any(table.is_kind(kind, "environment") for n in (node, *made) for kind in kinds.of(n))
    return is_known or vocabulary.is_environment_name(ast.unparse(node))


def function_draws(program: Program, function: Scope) -> bool:
    """Whether a function, or one that it calls, draws random numbers."""
    return any(draws(program, call) for f in program.run_from([function]) for call in program.calls_in(f))
