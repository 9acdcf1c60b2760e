"""Of the places where a name is bound, which may have given it the value that is read somewhere?"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from accelify.codemod.semantics.program import Program

_PLAIN = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)


def reaching(program: Program, read: ast.Name, writes: Sequence[ast.AST]) -> list[ast.AST]:
    """The bindings whose value may be there at a read; all of them where several functions share the name."""
    frame = program.frame(read)
    is_own = program.scope(read).owner(read.id) is frame and program.scope(read).kind != "lambda"
    if not is_own or len(writes) < 2 or any(program.frame(w) is not frame for w in _stored(writes)):
        return list(writes)
    node = own = program.statement(read)
    while True:
        block = program.block(node)
        at = block.index(node)
        for k in range(at - 1, -1, -1):
            if isinstance(block[k], _PLAIN) and any(program.inside(w, block[k]) for w in writes):
                return _seen(program, writes, block[k : at + 1], own)
        parent = next((a for a in program.ancestors(node) if isinstance(a, ast.stmt)), None)
        if parent is None or parent is frame.node:
            return [w for w in writes if isinstance(w, ast.arg)] + _seen(program, writes, block[: at + 1], own)
        is_dealt = isinstance(parent, (ast.For, ast.AsyncFor)) and node in parent.body
        if is_dealt and any(program.inside(w, parent.target) for w in writes):  # type: ignore[attr-defined]  # a loop
            return _seen(program, writes, [parent], own)
        node = parent


def _stored(writes: Sequence[ast.AST]) -> list[ast.AST]:
    return [w for w in writes if not isinstance(w, ast.arg)]


def _seen(program: Program, writes: Sequence[ast.AST], statements: Sequence[ast.stmt], own: ast.stmt) -> list[ast.AST]:
    """The bindings in some statements, apart from those that the statement which reads makes afterwards."""
    found = [w for w in _stored(writes) if any(program.inside(w, s) for s in statements)]
    if statements[-1] is own and not isinstance(own, ast.While):
        found = [w for w in found if not program.inside(w, own)]
    return found
