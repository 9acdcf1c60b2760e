"""What does the first round of a loop do that counts its rounds? `for k in range(n): if k == 0: ...`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_FIRST = ("{} == 0", "0 == {}", "not {}", "{} < 1", "{} is 0")
_LATER = ("{}", "{} > 0", "0 < {}", "{} != 0", "{} >= 1", "not {} == 0")


def set_in_first_round(loop: ast.For, text: str) -> bool:
    """Whether the first round gives a name a value that is made without its old one, and later rounds may not."""
    counter = _counter(loop)
    return counter is not None and any(text in given for given in _given(loop, counter))


def _counter(loop: ast.For) -> str | None:
    """The name that is 0 in the first round: of `range(n)`, `range(0, n)`, `enumerate(x)`."""
    called = ast.unparse(loop.iter.func) if isinstance(loop.iter, ast.Call) and not loop.iter.keywords else ""
    given = loop.iter.args if isinstance(loop.iter, ast.Call) else []
    is_from_zero = len(given) == 1 or (called == "range" and ast.unparse(given[0]) == "0")
    target = loop.target.elts[0] if called == "enumerate" and isinstance(loop.target, ast.Tuple) else loop.target
    is_counted = called in ("range", "enumerate") and is_from_zero and isinstance(target, ast.Name)
    return target.id if is_counted and isinstance(target, ast.Name) else None


def _given(loop: ast.For, counter: str) -> Iterator[set[str]]:
    """The names that statements of the first round give new values."""
    for statement in loop.body:
        if isinstance(statement, ast.If) and (is_first := _holds_first(statement.test, counter)) is not None:
            yield from map(_assigned, statement.body if is_first else statement.orelse)
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.IfExp):
            choice = statement.value
            is_first = _holds_first(choice.test, counter)
            taken = choice.body if is_first else choice.orelse
            yield _assigned(ast.Assign(statement.targets, taken)) if is_first is not None else set()


def _assigned(statement: ast.stmt) -> set[str]:
    """The names that an assignment gives values made without their old ones."""
    if not isinstance(statement, ast.Assign):
        return set()
    read = {ast.unparse(n) for n in ast.walk(statement.value) if isinstance(n, (ast.Name, ast.Attribute))}
    return {ast.unparse(target) for target in statement.targets} - read


def _holds_first(test: ast.expr, counter: str) -> bool | None:
    """Whether a condition on the counter holds in the first round; None for any other condition."""
    spelled = ast.unparse(test)
    if spelled in [first.format(counter) for first in _FIRST]:
        return True
    return False if spelled in [later.format(counter) for later in _LATER] else None
