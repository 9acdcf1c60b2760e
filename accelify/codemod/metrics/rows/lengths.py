"""May what a round of a sharded loop gives one rank, a batch or one of its items, be longer than another rank's?"""

from __future__ import annotations

import ast
from functools import partial

from accelify.codemod.metrics.facts import Measured, Metrics
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.preparing.batch_sizes import size_of
from accelify.codemod.semantics.definitions import Definition
from accelify.codemod.semantics.values import Instance, Made, Value
from accelify.codemod.training.row_groups import collate_functions

_LOOPS = (ast.For, ast.AsyncFor)
_MADE_OF = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.Call)
_DEPTH = 3  # variables that a length is followed through


def may_be_longer(measured: Measured, loop: ast.AST, *, is_of_item: bool) -> bool:
    """Whether a batch, or an item of one, may be longer on another rank.

    Torch stacks items of one size alone: others come one by one, or by a function of the script's own.
    """
    held = measured.yielding(loop) if is_of_item and isinstance(loop, _LOOPS) else ()
    return has_other_sizes(measured, loop) or any(_may_hold_items_of_other_sizes(measured, v) for v in held)


def _may_hold_items_of_other_sizes(measured: Measured, loader: Value) -> bool:
    call = loader.node if isinstance(loader, Made) else None
    if not isinstance(call, ast.Call) or not measured.roles.is_torch_loader(loader):
        return False
    size = size_of(measured.tracer, call)
    is_one = size is call or (isinstance(size, ast.Constant) and size.value in (1, None))
    return is_one or any(collate_functions(measured.program, loader))


def is_cut_from_an_item(metrics: Metrics, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether a value is worked out from one item of a batch, not from all: `x.split(4)` in `for x in batch:`."""
    chains, ranks = metrics.measured.chains, metrics.ranks
    read = [n for n in ast.walk(node) if isinstance(n, ast.Name) and ranks.of(n).of(Mark.BATCH, Mark.ROWS)]
    found = [(name, definition) for name in read for definition in chains.definitions(name)]
    if any(_is_item(metrics, name, definition) for name, definition in found):
        return True
    values = (metrics.measured.program.assigned(definition.node)[0] for _, definition in found if depth)
    return any(is_cut_from_an_item(metrics, value, depth - 1) for value in values if value is not None)


def _is_item(metrics: Metrics, name: ast.Name, definition: Definition) -> bool:
    """Whether a name is an item of a batch, or is asked for one: `x[0]` in `for x, y in loader:`."""
    program = metrics.measured.program
    path, holder = program.binding(definition.node)
    parent = program.parent(name)
    is_asked = isinstance(parent, ast.Subscript) and parent.value is name and isinstance(parent.slice, ast.Constant)
    if not isinstance(holder, _LOOPS):
        return False
    return holder not in metrics.ranks.rounds or (bool(path) and is_asked)


def leaves_some_out(measured: Measured, loop: ast.AST) -> bool:
    """Whether a loader's function that puts batches together takes some of the items, or some of their elements."""
    held = measured.yielding(loop) if isinstance(loop, _LOOPS) else ()
    functions = (f for loader in held for f in collate_functions(measured.program, loader))
    return any(isinstance(n, _MADE_OF) and _filters(n) for scope in functions for n in ast.walk(scope.node))


def _filters(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.Call) -> bool:
    """`[x for x in batch if x is not None]`, `[word for line in batch for word in line]`, `filter(None, batch)`"""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "filter"
    return len(node.generators) > 1 or bool(node.generators[0].ifs)


def has_other_sizes(measured: Measured, loop: ast.AST) -> bool:
    """Whether a round of a sharded loop may give ranks batches of other sizes, as only `prepare` evens them out."""
    if measured.options.keep_global_batch or measured.prepared.is_sharded_sequence(loop):
        return True
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return False
    held = measured.yielding(loop)
    is_own = any(isinstance(v, Instance) and not measured.roles.is_torch_loader(v) for v in held)
    if is_own or any(map(measured.roles.is_other_loader, held)):
        return True
    made = (v.node for v in held if isinstance(v, Made) and isinstance(v.node, ast.Call))
    return any(_divides_whole_batches(measured, call) for call in made)


def _divides_whole_batches(measured: Measured, loader: ast.Call) -> bool:
    """Whether the last batches of torch's loader may go to ranks as they are: those of a stream, or a sampler's own."""
    given = partial(measured.tracer.options, loader)
    data = next(iter([*given("dataset"), *loader.args]), None)
    is_stream = data is not None and any(map(measured.roles.is_stream, measured.program.values(data)))
    is_full = any(not (isinstance(drops, ast.Constant) and not drops.value) for drops in given("drop_last"))
    is_chosen = any(isinstance(v, Instance) for c in given("batch_sampler") for v in measured.program.values(c))
    return is_chosen or (is_stream and not is_full)
