"""Which loops over a range leave out its last numbers by a condition: `if i + 16 > n: break`?

Where the range's own end and step alone say for which numbers it holds, a range that ends earlier does as well.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.scopes import names_in
from accelify.codemod.training.loops.bodies import Loop, calculated

_STEP = 2  # its place among the arguments of `range`
_INVERSE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE}
_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.operator, ast.Load)


@dataclass(frozen=True, slots=True)
class RangeEnd:
    """A condition that leaves out a range's last numbers, and the end of a range without them: `{stop} - 15`."""

    node: ast.If
    stop: ast.expr
    template: str


def range_end(chains: Chains, loop: Loop | None, source: ast.expr) -> RangeEnd | None:
    """The condition by which a loop leaves out the last numbers of its range, if it does nothing before and else."""
    if not isinstance(loop, ast.For) or loop.orelse or not isinstance(source, ast.Call) or source.keywords:
        return None
    if chains.program.called(source) != {"range"} or chains.tracer.inside(loop.iter) is not source:
        return None
    number = loop.target.elts[-1] if isinstance(loop.target, ast.Tuple) else loop.target
    stop = source.args[min(1, len(source.args) - 1)]
    step = source.args[_STEP] if len(source.args) > _STEP else ast.Constant(1)
    guard = _guard(loop)
    if guard is None or not isinstance(number, ast.Name) or _written(number.id, loop) > 1:
        return None
    if _is_read_later(chains, loop):
        return None
    test = _as_at_least(guard.test, number.id, loop)
    if test is None or not all(_is_fixed(chains, each, loop) for each in (stop, step)):
        return None
    template = _template(test, number.id, stop, step)
    return RangeEnd(guard, stop, template) if template is not None else None


def _guard(loop: ast.For) -> ast.If | None:
    """The first statement of a loop that does more than calculate, if it is `if ...: break` or `continue`."""
    for statement in loop.body:
        if isinstance(statement, ast.If):
            is_plain = [type(s) in (ast.Break, ast.Continue) for s in statement.body] == [True]
            return statement if is_plain and not statement.orelse else None
        if not isinstance(statement, ast.Assign) or not all(isinstance(t, ast.Name) for t in statement.targets):
            return None
        if not all(isinstance(n, _PLAIN) for n in ast.walk(statement.value)):
            return None
    return None


def _is_read_later(chains: Chains, loop: ast.For) -> bool:
    """Whether something outside a loop reads its number, or what is calculated from that."""
    program = chains.program
    for name in calculated({*names_in(loop.target)}, loop):
        owner = program.scope(loop).owner(name)
        reads = program.reads_of(owner, name) if owner is not None else []
        outside = (r for r in reads if not program.inside(r, loop))
        if any(program.inside(d.node, loop) for r in outside for d in chains.definitions(r)):
            return True
    return False


def _as_at_least(test: ast.expr, number: str, loop: ast.For) -> ast.Compare | None:
    """A condition as `number + ... > end` or `>=`, with the variables that are calculated just before filled in."""
    is_negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    test = test.operand if isinstance(test, ast.UnaryOp) and is_negated else test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    kind, sides = type(test.ops[0]), [_filled_in(s, loop) for s in (test.left, test.comparators[0])]
    kind = _INVERSE.get(kind, ast.Eq) if is_negated else kind
    if number in names_in(sides[1]):
        kind, sides = _MIRRORED.get(kind, ast.Eq), sides[::-1]
    return ast.Compare(sides[0], [kind()], [sides[1]]) if kind in (ast.Gt, ast.GtE) else None


def _filled_in(node: ast.expr, loop: ast.For) -> ast.expr:
    """`i + 16` for `end`, where a loop begins by `end = i + 16`."""
    for statement in loop.body:
        if not isinstance(statement, ast.Assign):
            break
        if isinstance(node, ast.Name) and ast.unparse(statement.targets[0]) == node.id and _written(node.id, loop) == 1:
            return statement.value
    return node


def _written(name: str, loop: ast.For) -> int:
    """How often a loop writes a variable in its text."""
    return sum(isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load) for n in ast.walk(loop))


def _is_fixed(chains: Chains, node: ast.expr, loop: ast.For) -> bool:
    """Whether a number stays the same in all rounds: `n`, `len(x)`, `args.size`, which the loop does not change."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    if any(chains.program.called(c) != {"len"} for c in calls):
        return False
    if not all(isinstance(n, (*_PLAIN, ast.Call)) for n in ast.walk(node)):
        return False
    stored = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    if names_in(node) & stored:
        return False
    written = chains.effects.of(*loop.body).writes
    for name in (n for n in ast.walk(node) if isinstance(n, ast.Name)):
        parent = chains.program.parent(name)
        path = (f".{parent.attr}",) if isinstance(parent, ast.Attribute) else ()
        if any(place.name == name.id and place.path[: len(path)] in ((), path) for place in written):
            return False
    return True


def _template(test: ast.Compare, number: str, stop: ast.expr, step: ast.expr) -> str | None:
    """How much earlier a range has to end, so that `number + ... >= end` holds for none of its numbers."""
    left: Counter[str] = Counter()  # of `stop`, less the first number for which the condition holds
    for sign, side in ((1, test.left), (-1, test.comparators[0]), (1, stop)):
        for text, times in _terms(side, sign):
            left[text] += times
    if left.pop(number, 0) != 1:
        return None
    less = left.pop("1", 0) - isinstance(test.ops[0], ast.Gt)
    size = ast.unparse(step)
    steps = left.pop(size, 0)
    is_earlier = steps >= 0 and steps + less >= 0 and (steps or less)  # a step is one at least
    if any(left.values()) or not is_earlier or size.startswith("-"):
        return None
    return "{stop}" + f" - {size}" * steps + (f" - {less}" if less > 0 else f" + {-less}" if less else "")


def _terms(node: ast.expr, sign: int) -> Iterator[tuple[str, int]]:
    """What a sum adds up, each with how often: `n - 16` is once `n`, and -16 times `1`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _terms(node.left, sign)
        yield from _terms(node.right, sign if isinstance(node.op, ast.Add) else -sign)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield "1", sign * node.value
    else:
        yield ast.unparse(node), sign
