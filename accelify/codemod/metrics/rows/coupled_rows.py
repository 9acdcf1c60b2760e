"""Where does a training step need a whole batch, as it compares the rows, or takes some by their places?

similarity = z @ z.t()    torch.cdist(z, z)    z[None] - z[:, None]    correlation = a.t() @ b    # over all rows
torch.cumsum(hazards, dim=0)
output[:labelled]    output.split([labelled, unlabelled])
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.effects.kinds import UNKNOWN
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import parts
from accelify.codemod.semantics.values import template
from accelify.codemod.training.losses import without_gradients
from accelify.codemod.training.row_means import adds_up_rows, is_transposed


def coupled(metrics: Metrics) -> Iterator[ast.expr]:
    """What is made of pairs of rows of one process's batch, or of all its rows at once, in the order of the text."""
    rows = _Rows(metrics)
    for node in _run_with_gradients(metrics.measured.program):
        pair = rows.compared(node) if isinstance(node, (ast.BinOp, ast.Call)) else ()
        if pair and all(map(rows.are_of_a_batch, pair)):
            yield node


def taken_by_place(metrics: Metrics) -> Iterator[ast.expr]:
    """The parts of one process's batch, for a loss, whose places say which rows they are, in the order of the text."""
    rows = _Rows(metrics)
    for node in _run_with_gradients(metrics.measured.program):
        if isinstance(node, (ast.Subscript, ast.Call)) and rows.is_taken_by_place(node):
            yield node


def _run_with_gradients(program: Program) -> Iterator[ast.expr]:
    for parsed in program.files:
        nodes = (n for n in parsed.parents if isinstance(n, (ast.BinOp, ast.Call, ast.Subscript)))
        for node in sorted(nodes, key=program.position):
            if program.frame(node) in program.reachable and without_gradients(program, node) is None:
                yield node


class _Rows:
    def __init__(self, metrics: Metrics) -> None:
        self.ranks = metrics.ranks
        self.program = metrics.measured.program
        self.tracer = metrics.measured.tracer
        self.kinds = metrics.ranks.chains.kinds
        self.backwards = set(metrics.measured.training.backwards)
        self.loops = {loop for loops in metrics.measured.training.loops.values() for loop in loops}

    def are_of_a_batch(self, node: ast.expr) -> bool:
        """Whether a value is computed from a batch that this process trains on, and not from its shape alone."""
        is_labelled = any(origin.node in self.loops for origin in self.ranks.of(node).of(Mark.BATCH))
        return is_labelled and self._has_values(node, set())

    def _has_values(self, node: ast.expr, seen: set[ast.expr]) -> bool:
        """Whether a value is made of more than the shape of a batch: not `embed(torch.arange(x.shape[1]))`."""
        if node in seen or sizes.shaped(node) is not None or sizes.size(node) is not None:
            return False
        seen.add(node)
        found = self.ranks.chains.definitions(node) if isinstance(node, (ast.Name, ast.Attribute)) else frozenset()
        values = [self.program.assigned(d.node)[0] if d.kind is Kind.ASSIGNMENT else None for d in found]
        made_of = [v for v in values if v is not None] if values else [*parts(node)]
        made_of = [part for part in made_of if self.ranks.of(part).of(Mark.BATCH)]
        return None in values or not made_of or any(self._has_values(part, seen) for part in made_of)

    def is_taken_by_place(self, node: ast.Subscript | ast.Call) -> bool:
        """`output[:labelled]`, `output.split(labelled)`: by numbers that do not depend on the size of the batch."""
        holder, numbers = _cut(node) if isinstance(node, ast.Subscript) else self._split(node)
        if holder is None or not all(self.ranks.of(n).is_same for n in numbers) or self._is_shown_or_unpacked(node):
            return False
        return self._has_rows(holder) and self.are_of_a_batch(holder)

    def _split(self, call: ast.Call) -> tuple[ast.expr | None, list[ast.expr]]:
        """The tensor and the sizes of `torch.split(x, sizes)`, along the rows."""
        given = self._given(call) if self._is(call, Trait.SPLITS) else []
        dims = [*given[2:], *(k.value for k in call.keywords)]
        is_of_rows = len(given) > 1 and all(isinstance(d, ast.Constant) and d.value == 0 for d in dims)
        return (given[0] if is_of_rows else None), given[1:2]

    def _given(self, call: ast.Call) -> list[ast.expr]:
        """The arguments of a call, after the tensor whose method it is, or that is its `input`."""
        method = self.kinds.method(call)
        named = [k.value for k in call.keywords if k.arg == "input"]
        return [*([method.value] if method is not None else named), *call.args]

    def _is_shown_or_unpacked(self, node: ast.expr) -> bool:
        """`show(images[:8])`, `loss, logits = outputs[:2]`: what computes no loss, or takes no rows."""
        statement, parent = self.program.statement(node), self.program.parent(node)
        is_shown = isinstance(statement, ast.Expr) and not self.backwards & set(ast.walk(statement))
        targets = parent.targets if isinstance(parent, ast.Assign) and isinstance(node, ast.Subscript) else []
        is_of_tuple = isinstance(parent, ast.BinOp) and isinstance(parent.left, ast.Tuple)
        return is_shown or is_of_tuple or any(isinstance(t, (ast.Tuple, ast.List)) for t in targets)

    def _has_rows(self, holder: ast.expr) -> bool:
        """Whether a value may be a tensor with the rows of a batch: no row of a loop over them, list or answers."""
        if isinstance(holder, ast.Subscript) or not self.kinds.of(holder) <= {"tensor", UNKNOWN}:
            return False
        if self._is_answer(self.tracer.only_value(holder) or holder):
            return False
        found = self.program.definitions(holder).definitions(holder) if isinstance(holder, ast.Name) else ()
        items = [d.node for d in found if d.kind is Kind.LOOP]
        return all(any(a in self.loops for a in self.program.ancestors(i) if self._binds(a, i)) for i in items)

    def _is_answer(self, value: ast.expr) -> bool:
        """`guess.eq(y)`: no numbers of which a loss could be made."""
        if isinstance(value, ast.Call):
            return self._is(value, Trait.LEAVES_GRAPH) and not self._is(value, Trait.SAME_VALUES)
        return isinstance(value, ast.Compare)

    def _binds(self, loop: ast.AST, item: ast.AST) -> bool:
        """Whether a loop gives a name its items."""
        return isinstance(loop, (ast.For, ast.AsyncFor)) and self.program.inside(item, loop.target)

    def compared(self, node: ast.BinOp | ast.Call) -> tuple[ast.expr, ...]:
        """The values whose rows an expression pairs with each other, or adds up; nothing where it does not."""
        if isinstance(node, ast.BinOp):
            meet = self._multiply if isinstance(node.op, ast.MatMult) else self._meet
            return (node.left, node.right) if meet(node.left, node.right) else ()
        given = self._given(node)
        if self._is(node, Trait.COUPLES):
            return tuple(g for g in given[:2] if self.kinds.of(g) != {"number"})
        if self._is_along_rows(node, given):
            return tuple(given[:1])
        if "torch.einsum" in (called := self.program.called(node)):
            return tuple(given[1:]) if _pairs(given) or adds_up_rows(given) else ()
        if "torch.nn.functional.linear" in called:
            return tuple(given[:2])
        meet = self._multiply if self._is(node, Trait.MULTIPLIES) else self._meet  # `distances.addmm_(1, -2, z, z.t())`
        return next((pair for pair in pairwise(given) if meet(*pair)), ())

    def _is_along_rows(self, call: ast.Call, given: list[ast.expr]) -> bool:
        """`torch.cumsum(hazards, dim=0)`: a row of what comes out depends on the others, as in a Cox loss."""
        dims = [*given[1:2], *(k.value for k in call.keywords if k.arg in ("dim", "axis"))]
        is_first = [d.value for d in dims if isinstance(d, ast.Constant)] == [0]
        return is_first and self._is(call, Trait.ACCUMULATES) and any(map(self._has_rows, given[:1]))

    def _multiply(self, first: ast.expr, second: ast.expr) -> bool:
        """`z @ z.t()`, each row with each; `a.t() @ b`, the sum over all rows."""
        return self._is_transposed(first) != self._is_transposed(second)

    def _meet(self, first: ast.expr, second: ast.expr) -> bool:
        """`z[None]` and `z[:, None]`: each row of one meets all rows of the other."""
        return {self._spread(first), self._spread(second)} == {0, 1}

    def _spread(self, node: ast.expr) -> int | None:
        """The dimension that a value, or the only one that a name is given, gets to meet all rows of another."""
        node = self.tracer.value_at(node) or node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and self._is(node, Trait.REPEATS):
            return self._spread(node.func.value)
        return _spread(node)

    def _is_transposed(self, node: ast.expr) -> bool:
        """Whether a value, or the only one that a name is given, has the rows side by side."""
        return is_transposed(node) or is_transposed(self.tracer.only_value(node) or node)

    def _is(self, call: ast.Call, trait: Trait) -> bool:
        named = self.kinds.called(call)
        if named is None and isinstance(call.func, ast.Attribute):
            named = table.members(call.func.attr)
        return any(row.has(trait) for row in named or ())


def _cut(node: ast.Subscript) -> tuple[ast.expr | None, list[ast.expr]]:
    """The tensor and the bounds of `x[:n]`; no tensor where they shift a sequence: `x[1:]`, `x[:-1]`."""
    place = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    if not isinstance(place, ast.Slice):
        return None, []
    starts_late = place.lower is not None and ast.unparse(place.lower) in ("1", "-1")
    bounds = [bound for bound in (place.lower, place.upper) if bound is not None]
    return (None if starts_late or isinstance(place.upper, ast.UnaryOp) or not bounds else node.value), bounds


def _spread(node: ast.expr) -> int | None:
    """The dimension that a value gets to meet all rows of another: 1 of `z.unsqueeze(1)`, of `z[:, None]`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "unsqueeze":
        number = ast.unparse(node.args[-1]) if node.args else ""
        # The last dimension is that of a row's numbers; with `2`, a row is a matrix: the utterances of a speaker.
        return {"0": 0, "1": 1, "2": 1, "-2": 1, "-3": 0}.get(number)
    if isinstance(node, ast.Subscript):
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        new = [k for k, p in enumerate(places) if isinstance(p, ast.Constant) and p.value is None]
        if len(new) != 1:  # also of `z[()]`
            return None
        if isinstance(places[0], ast.Constant) and places[0].value is ...:  # `z[..., None, :]`
            return {2: 1, 3: 0}.get(len(places) - new[0])
        return new[0] if new[0] in (0, 1) else None
    return None


def _pairs(given: list[ast.expr]) -> bool:
    """`torch.einsum("nc,mc->nm", a, b)`: the first letters of both are in what comes out, and are not one."""
    inputs, _, result = template(given[0]).replace(" ", "").partition("->") if given else ("", "", "")
    first = [part[:1] for part in inputs.split(",")]
    return len(first) == 2 and first[0] != first[1] and all(f and f in result for f in first)
