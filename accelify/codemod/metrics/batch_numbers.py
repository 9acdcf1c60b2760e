"""Which data beside those of its loader does a sharded loop count off, so that all ranks take the same?

target = labels[i]          a number of this rank's batches
second = rows[at : at + 4]  a position that each rank moves on by itself
third = next(batches)       of what each rank has whole
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from accelify.codemod.files.nodes import walk
from accelify.codemod.metrics.facts import Measured, Metrics
from accelify.codemod.metrics.ranks.shards import Loop
from accelify.codemod.metrics.sums.reductions import bound_in
from accelify.codemod.preparing.tensors import Tensors
from accelify.codemod.semantics.scopes import names_in
from accelify.codemod.semantics.values import Element, Generated
from accelify.codemod.training.losses import all_losses
from accelify.codemod.training.randomness.draws import function_draws

_DEPTH = 3


def counted_off(metrics: Metrics) -> Iterator[tuple[str, ast.expr]]:
    """Choices that the ranks make alike for the model or the loss, each with the number that counts it off, if any."""
    shards = metrics.ranks.shards
    for loop in (*shards.loops, *(r for r in shards.rounds if r not in shards.drawn)):
        counters = _counters(metrics, loop)
        for node in (n for s in loop.body for n in walk(s)):
            number = _number(metrics, loop, node, counters) if isinstance(node, ast.Subscript) else None
            asks = isinstance(node, ast.Call) and _asks_a_whole(metrics.measured, node)
            if (number is not None or asks) and _is_trained_on(metrics.measured, node, loop):
                assert isinstance(node, ast.expr)
                yield number or "", node


def _number(metrics: Metrics, loop: Loop, node: ast.Subscript, counters: set[str]) -> str | None:
    """The number by which a loop picks from what it does not yield."""
    program = metrics.measured.program
    is_index = any(isinstance(a, ast.Subscript) and program.inside(node, a.slice) for a in program.ancestors(node))
    if is_index or not isinstance(node.ctx, ast.Load) or names_in(node.value) & bound_in(loop):
        return None
    is_own = metrics.ranks.is_own(node.slice)
    return None if is_own else next((n for n in sorted(names_in(node.slice)) if n in counters), None)


def _counters(metrics: Metrics, loop: Loop) -> set[str]:
    """The names that number the rounds of a loop, or are made of such numbers: `i` of `enumerate(loader)`, `i * 4`."""
    found: set[str] = set()
    if isinstance(loop, (ast.For, ast.AsyncFor)) and loop not in metrics.ranks.shards.loops:
        found |= names_in(loop.target)
    for node in walk(loop):
        is_read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        if is_read and isinstance(node, ast.Name) and metrics.ranks.of(node).steps:
            found.add(node.id)
    for _ in range(_DEPTH):
        found |= {name for value, names in _assigned(loop) for name in names if _is_counted(value, found)}
    return found


def _is_counted(value: ast.expr, counters: set[str]) -> bool:
    """`i * 4`, `order[i * 4 : i * 4 + 4]`, which is no data yet."""
    is_plain = not any(isinstance(n, ast.Call) for n in walk(value))
    return is_plain and bool(names_in(value) & counters)


def _assigned(loop: Loop) -> Iterator[tuple[ast.expr, Set[str]]]:
    for node in walk(loop):
        if isinstance(node, ast.Assign):
            yield node.value, names_in(*node.targets) - {"_"}


def _asks_a_whole(measured: Measured, call: ast.Call) -> bool:
    """`next(rows)` of a generator of the project's own, which draws nothing and asks no prepared loader."""
    program = measured.program
    iterator = program.iterator(call)
    if iterator is None or measured.prepared.may_be_loader(iterator):
        return False
    made = [v.scope for v in program.values(iterator) if isinstance(v, Generated)]
    held = program.values(call)
    is_loaded = any(isinstance(v, Element) and measured.roles.is_loader(v.owner) for v in held)
    read = (n for f in made for n in walk(f.node) if isinstance(n, (ast.Name, ast.Attribute)))
    is_loaded = is_loaded or any(map(measured.prepared.may_be_loader, read))
    return bool(made) and not is_loaded and not any(function_draws(program, f) for f in made)


def _computes(measured: Measured, call: ast.Call) -> bool:
    """Whether a call runs a prepared model, or compares what it makes with something."""
    tensors = Tensors(measured.program, measured.roles, measured.prepared)
    return tensors.is_model_call(call) or tensors.is_loss(call)


def _is_trained_on(measured: Measured, picked: ast.AST, loop: Loop) -> bool:
    """Whether the model or the loss gets something, as it is or under the names that it is given."""
    statement = measured.program.statement(picked)
    named: set[str] = {*names_in(*statement.targets)} - {"_"} if isinstance(statement, ast.Assign) else set()
    for _ in range(_DEPTH):
        named |= {name for value, names in _assigned(loop) for name in names if _is_made_of(value, named)}
    computed = (n for n in walk(loop) if isinstance(n, ast.Call) and _computes(measured, n))
    given = [a for call in computed for a in [*call.args, *(k.value for k in call.keywords)]]
    weighs = measured.prepared.is_sharded_sequence(loop)  # an item's weight; by a batch's number, a schedule's
    backwards = (b for b in measured.training.backwards if weighs and measured.program.inside(b, loop))
    given += all_losses(measured.program, backwards)
    return any(measured.program.inside(picked, a) or names_in(a) & named for a in given)


def _is_made_of(value: ast.expr, named: Set[str]) -> bool:
    """Whether a value is made of what some names hold, other than by picking what they number."""
    picking = {n for s in walk(value) if isinstance(s, ast.Subscript) for n in walk(s.slice)}
    parts = (n for n in walk(value) if n not in picking)
    return any(isinstance(n, ast.Name) and n.id in named for n in parts)
