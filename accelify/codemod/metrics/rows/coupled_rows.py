"""Where does a training step compare the rows of a batch with each other, so that part of a batch is not enough?

similarity = z @ z.t()    torch.cdist(z, z)    z[None] - z[:, None]    criterion(z, labels)    # that mines pairs
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.rank import Mark
from accelify.codemod.semantics.values import template
from accelify.codemod.training.losses import is_transposed, without_gradients


def coupled(metrics: Metrics) -> Iterator[ast.expr]:
    """The products, differences and losses of all pairs of rows of one process's batch, in the order of the text."""
    program, rows = metrics.measured.program, _Rows(metrics)
    for parsed in program.files:
        nodes = (n for n in parsed.parents if isinstance(n, (ast.BinOp, ast.Call)))
        for node in sorted(nodes, key=program.position):
            is_run = program.frame(node) in program.reachable and without_gradients(program, node) is None
            if is_run and all(map(rows.are_of_a_batch, pair := rows.compared(node))) and pair:
                yield node


class _Rows:
    def __init__(self, metrics: Metrics) -> None:
        self.ranks = metrics.ranks
        self.program = metrics.measured.program
        self.kinds = metrics.ranks.chains.kinds
        self.loops = {loop for loops in metrics.measured.training.loops.values() for loop in loops}

    def are_of_a_batch(self, node: ast.expr) -> bool:
        """Whether a value is computed from a batch that this process trains on."""
        return any(origin.node in self.loops for origin in self.ranks.of(node).of(Mark.BATCH))

    def compared(self, node: ast.BinOp | ast.Call) -> tuple[ast.expr, ...]:
        """The values whose rows an expression pairs with each other; nothing where it does not."""
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.MatMult):
                return (node.left, node.right) if is_transposed(node.right) else ()
            return (node.left, node.right) if {_spread(node.left), _spread(node.right)} == {0, 1} else ()
        if self._is(node, Trait.COUPLES):
            return tuple(node.args[:1])
        given = list(node.args)
        if isinstance(node.func, ast.Attribute) and not self.kinds.name_of(node.func):
            given.insert(0, node.func.value)
        if self._is(node, Trait.MULTIPLIES) and len(given) == 2:
            return tuple(given) if is_transposed(given[1]) else ()
        return tuple(given[1:]) if "torch.einsum" in self.program.called(node) and _pairs(given) else ()

    def _is(self, call: ast.Call, trait: Trait) -> bool:
        named = self.kinds.called(call)
        if named is None and isinstance(call.func, ast.Attribute):
            named = table.members(call.func.attr)
        return any(row.has(trait) for row in named or ())


def _spread(node: ast.expr) -> int | None:
    """The dimension that a value gets to meet all rows of another: 1 of `z.unsqueeze(1)`, of `z[:, None]`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "unsqueeze":
        number = ast.unparse(node.args[-1]) if node.args else ""
        return int(number) if number in ("0", "1") else None
    if isinstance(node, ast.Subscript):
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        new = [k for k, p in enumerate(places) if isinstance(p, ast.Constant) and p.value is None]
        return new[0] if len(new) == 1 and new[0] in (0, 1) else None
    return None


def _pairs(given: list[ast.expr]) -> bool:
    """`torch.einsum("nc,mc->nm", a, b)`: the first letters of both are in what comes out, and are not one."""
    inputs, _, result = template(given[0]).replace(" ", "").partition("->") if given else ("", "", "")
    first = [part[:1] for part in inputs.split(",")]
    return len(first) == 2 and first[0] != first[1] and all(f and f in result for f in first)
