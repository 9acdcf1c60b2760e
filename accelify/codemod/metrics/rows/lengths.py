"""May what a round of a sharded loop gives one rank, a batch or one of its items, be longer than another rank's?"""

from __future__ import annotations

import ast
from functools import partial

from accelify.codemod.libraries import methods
from accelify.codemod.metrics.facts import Measured, Metrics
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.preparing.batch_sizes import size_of
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.definitions import Definition, Kind
from accelify.codemod.semantics.values import Constant, Instance, Made, Value
from accelify.codemod.training.row_groups import collate_functions

_LOOPS = (ast.For, ast.AsyncFor)
_MADE_OF = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.Call)
_ONE = frozenset({Constant(1), Constant(None)})  # sizes of batches that hold one item, or are one
_DEPTH = 3  # variables that a length is followed through


def may_be_longer(measured: Measured, loop: ast.AST, *, is_of_item: bool) -> bool:
    """Whether a batch, or an item of one, may be longer on another rank.

    Torch stacks items of one size alone: others come one by one, or by a function of the script's own.
    """
    held = measured.yielding(loop) if is_of_item and isinstance(loop, _LOOPS) else ()
    return has_other_sizes(measured, loop) or any(_may_hold_items_of_other_sizes(measured, v) for v in held)


def _may_hold_items_of_other_sizes(measured: Measured, loader: Value) -> bool:
    is_torch = isinstance(loader, Made) and measured.roles.is_torch_loader(loader)
    return is_torch and (_yields_one(measured, loader) or any(collate_functions(measured.program, loader)))


def _yields_one(measured: Measured, loader: Value) -> bool:
    """Whether the batches of torch's loader hold one item each, or are the items themselves."""
    call = loader.node if isinstance(loader, Made) and measured.roles.is_torch_loader(loader) else None
    size = size_of(measured.tracer, call) if isinstance(call, ast.Call) else None
    numbers = measured.program.values(size) if size is not None else frozenset()
    return size is not None and (size is call or (bool(numbers) and numbers <= _ONE))


def goes_along_an_item(metrics: Metrics, loop: ast.For, batches: ast.AST) -> bool:
    """Whether a loop in a round over batches of one goes along the item that they hold: `for t in range(x.size(1)):`.

    Its rows, of which there is one, it leaves as they are: `for item in batch:`.
    """
    held = metrics.measured.yielding(batches) if isinstance(batches, _LOOPS) else ()
    return any(_yields_one(metrics.measured, v) for v in held) and _counts_across(metrics, loop.iter)


def _counts_across(metrics: Metrics, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether how many a value yields follows another dimension of a batch than the first."""
    chains, program = metrics.measured.chains, metrics.measured.program
    if any(_is_across(part) and _is_of_batch(metrics, part) for part in ast.walk(node)):
        return True
    read = [n for n in ast.walk(node) if isinstance(n, ast.Name) and _is_of_batch(metrics, n)]
    for definition in (d for name in read for d in chains.definitions(name)):
        value, path = program.assigned(definition.node)
        is_shape = value is not None and sizes.shaped(value) is not None
        if (is_shape and path and path[0] != 0) or _turns(definition):
            return True
        if depth and value is not None and _counts_across(metrics, value, depth - 1):
            return True
    return False


def _turns(definition: Definition) -> bool:
    """`x.transpose_(0, 1)`"""
    node = definition.node
    return definition.kind is Kind.IN_PLACE and isinstance(node, ast.Call) and _is_across(node.func)


def _is_across(node: ast.AST) -> bool:
    """`x.size(1)`, `x.transpose(0, 1)`, `x.split(4, dim=1)`"""
    if (asked := sizes.size(node)) is not None:
        return asked.dimension != 0
    if isinstance(node, ast.Attribute):
        return methods.reorders(node.attr)
    along = [k.value for k in node.keywords if k.arg == "dim"] if isinstance(node, ast.Call) else []
    return any(not (isinstance(value, ast.Constant) and value.value == 0) for value in along)


def _is_of_batch(metrics: Metrics, node: ast.AST) -> bool:
    read = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return any(metrics.ranks.of(n).of(Mark.BATCH, Mark.ROWS) for n in read)


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
