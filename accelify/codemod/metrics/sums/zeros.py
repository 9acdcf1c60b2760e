"""Does a sum begin at nothing: a number, a tensor or a table of zeros?"""

from __future__ import annotations

import ast

from accelify.codemod.libraries import methods, table
from accelify.codemod.libraries.row import Role, Trait
from accelify.codemod.semantics.chains import Chains


def is_zero(chains: Chains, value: ast.expr | None) -> bool:
    """Whether a sum begins at nothing: a number or a tensor of zeros."""
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and (methods.keeps_values(value.func.attr) or methods.moves(value.func.attr))
    ):
        value = value.func.value
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, (ast.USub, ast.UAdd)):
        return is_zero(chains, value.operand)
    if isinstance(value, ast.Constant):
        return type(value.value) in (int, float) and value.value == 0
    if not isinstance(value, ast.Call):
        return False
    rows = chains.kinds.called(value) or ()
    if rows and all(row.has(Trait.ZEROS) for row in rows):
        return True
    numbers = [a.value for a in ast.walk(value) if isinstance(a, ast.Constant) and not isinstance(a.value, str)]
    converts = bool(rows) and all(row.role is Role.FACTORY or row.has(Trait.SCALAR) for row in rows)
    is_plain = not any(isinstance(a, ast.Name) and isinstance(a.ctx, ast.Load) for g in value.args for a in ast.walk(g))
    return converts and is_plain and bool(value.args) and all(n == 0 for n in numbers if n is not None)


def is_table_of_zeros(chains: Chains, value: ast.expr | None) -> bool:
    """Whether a list or a dict begins with a number of zeros, or of tables of zeros, or a dict without keys.

    {k: 0.0 for k in names}      [0] * 10      {}      Counter()      defaultdict(float)      {"train": {"loss": 0.0}}
    """
    if _is_empty_table(chains, value):
        return True
    if isinstance(value, (ast.List, ast.Dict)):
        parts = value.elts if isinstance(value, ast.List) else value.values
        return bool(parts) and all(is_zero(chains, p) or is_table_of_zeros(chains, p) for p in parts)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return any(isinstance(side, ast.List) and is_table_of_zeros(chains, side) for side in (value.left, value.right))
    if isinstance(value, (ast.ListComp, ast.GeneratorExp, ast.DictComp)):
        part = value.value if isinstance(value, ast.DictComp) else value.elt
        return is_zero(chains, part) or is_table_of_zeros(chains, part)
    is_list = isinstance(value, ast.Call) and ast.unparse(value.func) == "list"
    return is_list and any(is_table_of_zeros(chains, a) for a in value.args)  # type: ignore[union-attr]  # a call


def _is_empty_table(chains: Chains, value: ast.expr | None) -> bool:
    """Whether a dict has no key yet, and gets zeros if any: `{}`, `Counter()`, `defaultdict(lambda: [0, 0])`."""
    if isinstance(value, ast.Dict):
        return not value.keys
    if not isinstance(value, ast.Call) or value.keywords:
        return False
    kinds = {table.kind_made_by(name) for name in chains.program.called(value)}
    if kinds == {"defaultdict"} and len(value.args) == 1:
        factory = value.args[0]
        makes_zeros = isinstance(factory, ast.Lambda) and any(
            is_it(chains, factory.body) for is_it in (is_zero, is_table_of_zeros)
        )
        return makes_zeros or chains.kinds.name_of(factory) in ({"int"}, {"float"})
    return bool(kinds) and kinds <= {"dict", "counter"} and not value.args
