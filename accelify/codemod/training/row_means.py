"""Which values are means over the rows of a batch, so that a sum of what they hold is one over columns?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from accelify.codemod.libraries import methods, table
from accelify.codemod.libraries.row import Row, Rows, Trait
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Kind
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.values import template

_DEPTH = 6  # variables that a value is followed through


class RowMeans:
    """Find values that are means over the rows of a batch, so that a sum of what they hold is one over columns."""

    def __init__(self, program: Program, is_alike: Callable[[ast.expr], bool] = lambda value: False) -> None:
        self.program = program
        self.is_alike = is_alike
        self.chains = program.once(Chains)

    def is_mean(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a value is a mean over the rows, or is computed from such means alone; `depth` counts variables."""
        if not depth:
            return False
        if isinstance(node, ast.UnaryOp):
            return self.is_mean(node.operand, depth)
        if isinstance(node, ast.BinOp):
            return self._divides_total(node, depth) or self._are_means([node.left, node.right], depth)
        if isinstance(node, ast.Name):
            return self._holds(node, lambda value: self.is_mean(value, depth - 1)) or (
                self.is_divided_in_place(node) and self._is_total(node, depth)
            )
        if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and is_transposed(node)):
            return self.is_mean(node.value, depth)
        return isinstance(node, ast.Call) and self._is_mean_call(node, depth)

    def _are_means(self, values: Sequence[ast.expr], depth: int) -> bool:
        """Whether each of some values is a mean, a plain number or of no batch, and not all are numbers."""
        of_tensors = [v for v in values if not self._is_number(v) and not self.is_alike(v)]
        return bool(of_tensors) and all(self.is_mean(v, depth) for v in of_tensors)

    def _is_number(self, node: ast.expr) -> bool:
        if isinstance(node, ast.BinOp):
            return self._is_number(node.left) and self._is_number(node.right)
        inner = node.operand if isinstance(node, ast.UnaryOp) else node
        return isinstance(inner, ast.Constant) or self.chains.kinds.of(inner) == {"number"} or self._is_size(inner)

    def _is_size(self, node: ast.expr) -> bool:
        """Whether a variable holds a number of rows or columns: `rows, columns = x.shape`, `columns = x.size(1)`."""
        found = [d.node for d in self.chains.definitions(node)] if isinstance(node, ast.Name) else []
        given = [self.program.assigned(n)[0] for n in found]
        return bool(given) and all(value is not None and _asks_for_shape(value) for value in given)

    def _divides_total(self, node: ast.BinOp, depth: int) -> bool:
        """`(a.T @ b) / n`, by what may be the number of rows."""
        is_divided = isinstance(node.op, ast.Div) and not isinstance(node.right, ast.Constant)
        return is_divided and self._is_total(node.left, depth)

    def _is_mean_call(self, call: ast.Call, depth: int) -> bool:
        """`x.mean(0)`, `torch.mean(x, dim=0)`, and what any function makes of means alone."""
        rows, given = self.called(call)
        operator = methods.operator(call.func.attr) if isinstance(call.func, ast.Attribute) else None
        if operator is not None and len(given) == 2:
            return self.is_mean(ast.BinOp(given[0], operator, given[1]), depth)
        if rows and given and all(row is not None and row.rows is Rows.MEAN for row in rows):
            along = [*given[1:2], *(k.value for k in call.keywords if k.arg in ("dim", "axis"))]
            numbers = [n for a in along for n in (a.elts if isinstance(a, (ast.Tuple, ast.List)) else [a])]
            if not numbers or any(isinstance(n, ast.Constant) and n.value == 0 for n in numbers):
                return True
        return self._are_means([*given, *(k.value for k in call.keywords)], depth)

    def called(self, call: ast.Call) -> tuple[list[Row | None], list[ast.expr]]:
        """What is known of a call, and what it is given: the tensor first whose method it is."""
        rows = [table.function(name) for name in sorted(self.program.called(call))]
        is_own = bool(self.program.flow.callees.get(call))
        if is_own or any(rows) or not isinstance(call.func, ast.Attribute):
            return rows, call.args
        return [table.member("tensor", call.func.attr)], [call.func.value, *call.args]

    def _is_total(self, node: ast.expr, depth: int) -> bool:
        """Whether a value is a product of matrices that adds up over the rows: `a.T @ b`."""
        if not depth:
            return False
        if isinstance(node, ast.Name):
            return self._holds(node, lambda value: self._is_total(value, depth - 1))
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.MatMult) and is_transposed(node.left)
        if not isinstance(node, ast.Call):
            return False
        rows, given = self.called(node)
        if "torch.einsum" in self.program.called(node):
            return adds_up_rows(given)
        is_product = bool(rows) and all(row is not None and row.has(Trait.MULTIPLIES) for row in rows)
        return is_product and len(given) == 2 and is_transposed(given[0])

    def _holds(self, name: ast.Name, is_such: Callable[[ast.expr], bool]) -> bool:
        """Whether all that a variable is given is of some kind."""
        targets = [d.node for d in self.program.definitions(name).definitions(name)]
        statements = [self.program.parent(target) for target in targets]
        values = [s.value if isinstance(s, (ast.Assign, ast.AnnAssign)) else None for s in statements]
        return bool(values) and all(value is not None and is_such(value) for value in values)

    def is_divided_in_place(self, name: ast.Name) -> bool:
        """`c.div_(n)`, by what may be the number of rows, before `c` is read."""
        changes = [d.node for d in self.chains.definitions(name) if d.kind is Kind.IN_PLACE]
        calls = [n for n in changes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.args]
        return any(
            isinstance(methods.operator(ast.unparse(call.func).rpartition(".")[2]), ast.Div)
            and not isinstance(call.args[0], ast.Constant)
            for call in calls
        )


def _asks_for_shape(node: ast.expr) -> bool:
    """`x.shape`, `x.shape[1]`, `x.size()`"""
    node = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(node, ast.Attribute):
        return methods.is_about(node.attr)
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and methods.is_size(function.attr)


def is_transposed(node: ast.expr) -> bool:
    """`z.t()`, `z.T`, `z.transpose(0, 1).detach()`: the rows of a matrix side by side."""
    if isinstance(node, ast.Attribute):
        return node.attr == "T" or (methods.keeps_shape(node.attr) and is_transposed(node.value))
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and methods.keeps_shape(node.func.attr):
        return is_transposed(node.func.value)
    name, numbers = ast.unparse(node.func).rpartition(".")[2], [ast.unparse(a) for a in node.args[-2:]]
    return name == "t" or (methods.reorders(name) and sorted(numbers) == ["0", "1"])


def adds_up_rows(given: list[ast.expr]) -> bool:
    """`torch.einsum("ni,nj->ij", a, b)`: the first letter of both is not in what comes out."""
    inputs, _, result = template(given[0]).replace(" ", "").partition("->") if given else ("", "", "")
    first = [part[:1] for part in inputs.split(",")]
    return len(first) == 2 and first[0] == first[1] != "" and first[0] not in result
