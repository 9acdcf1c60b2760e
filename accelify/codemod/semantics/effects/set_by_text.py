"""Which modules run code that may set any of their variables: `exec(settings)`, `globals()[name] = value`?"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from accelify.codemod.libraries import names, table
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope


def setters(program: Program) -> Mapping[Scope, tuple[ast.Call, ...]]:
    """The calls in each module's own code that may set its variables by names that only a run knows."""
    found: dict[Scope, tuple[ast.Call, ...]] = {}
    for call in (c for c in program.calls if any(map(names.reads_variables, program.called(c)))):
        frame = program.frame(call)
        if frame.kind == "module" and _may_set(program, call):
            found[frame] = (*found.get(frame, ()), call)
    return found


def _may_set(program: Program, call: ast.Call) -> bool:
    """Whether a call that sees all variables may set them: `exec(text)`, `globals()[name] = value`, and `update`."""
    holder = program.parent(call)
    rows = [table.function(name) for name in program.called(call)]
    if any(row is not None and row.returns == "dict" for row in rows):
        is_set = isinstance(holder, ast.Subscript) and isinstance(holder.ctx, ast.Store)
        return is_set or (isinstance(holder, ast.Attribute) and holder.attr == "update")
    return isinstance(holder, ast.Expr)
