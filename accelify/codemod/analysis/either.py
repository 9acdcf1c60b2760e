"""Is a variable given a value whichever way a condition turns out?"""

from __future__ import annotations

import ast

from accelify.codemod.analysis.effects import is_pure
from accelify.codemod.analysis.program import Program


def either_way(program: Program, statement: ast.Assign) -> tuple[ast.If, list[ast.Assign]] | None:
    """The if-else round an assignment, and the one assignment of the same variable in each of its branches."""
    choice = program.parent(statement)
    if not isinstance(choice, ast.If) or not is_pure(choice.test) or not choice.orelse:
        return None
    text = ast.unparse(statement.targets[0])
    found: list[ast.Assign] = []
    for branch in (choice.body, choice.orelse):
        assigned = [s for s in branch if isinstance(s, ast.Assign) and [ast.unparse(t) for t in s.targets] == [text]]
        written = [
            n
            for s in branch
            for n in ast.walk(s)
            if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store) and ast.unparse(n) == text
        ]
        if len(assigned) != 1 or len(written) != 1 or _is_read(text, branch[: branch.index(assigned[0])]):
            return None
        found.extend(assigned)
    parent = program.parent(choice)
    is_elif = isinstance(parent, ast.If) and parent.orelse == [choice]
    return None if is_elif or text in ast.unparse(choice.test) else (choice, found)


def _is_read(text: str, statements: list[ast.stmt]) -> bool:
    return any(isinstance(n, ast.expr) and ast.unparse(n) == text for s in statements for n in ast.walk(s))
