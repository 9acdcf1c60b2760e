"""Which condition chooses what a variable is given?"""

from __future__ import annotations

import ast

from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.scopes import Assignment, assignment


def choice_of(effects: Effects, assigned: Assignment) -> ast.If | None:
    """The if-else that does nothing but choose this device."""
    program = effects.program
    parent = program.parent(assigned.node) if isinstance(assigned.node, ast.stmt) else None
    found = None
    while isinstance(parent, ast.If):
        if not _only_assigns(effects, parent, ast.unparse(assigned.target)):
            break
        found = parent
        parent = program.parent(parent)
    is_branch = isinstance(parent, ast.If) and parent.orelse == [found]  # of a condition that does more
    return None if is_branch else found


def _only_assigns(effects: Effects, node: ast.If, text: str) -> bool:
    if not node.orelse or not effects.changes_nothing(node.test):
        return False
    for branch in (node.body, node.orelse):
        if len(branch) != 1:
            return False
        only, assigned = branch[0], assignment(branch[0])
        if isinstance(only, ast.If):
            if not _only_assigns(effects, only, text):
                return False
        elif assigned is None or ast.unparse(assigned.target) != text or not effects.changes_nothing(assigned.value):
            return False
    return True


def either_way(effects: Effects, given: Assignment) -> tuple[ast.If, list[Assignment]] | None:
    """The if-else round an assignment, and the one assignment of the same variable in each of its branches."""
    program = effects.program
    choice = program.parent(given.node)
    if not isinstance(choice, ast.If) or not effects.changes_nothing(choice.test) or not choice.orelse:
        return None
    text = ast.unparse(given.target)
    found: list[Assignment] = []
    for branch in (choice.body, choice.orelse):
        assigned = [a for s in branch if (a := assignment(s)) is not None and ast.unparse(a.target) == text]
        written = [
            n
            for s in branch
            for n in ast.walk(s)
            if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store) and ast.unparse(n) == text
        ]
        if len(assigned) != 1 or len(written) != 1 or _is_read(text, _before(branch, assigned[0])):
            return None
        found.extend(assigned)
    parent = program.parent(choice)
    is_elif = isinstance(parent, ast.If) and parent.orelse == [choice]
    return None if is_elif or text in ast.unparse(choice.test) else (choice, found)


def _before(block: list[ast.stmt], assigned: Assignment) -> list[ast.stmt]:
    return block[: [s is assigned.node for s in block].index(True)]


def _is_read(text: str, statements: list[ast.stmt]) -> bool:
    return any(isinstance(n, ast.expr) and ast.unparse(n) == text for s in statements for n in ast.walk(s))
