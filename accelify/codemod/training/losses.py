"""Is a loss a sum over the rows of its batch, and not a mean?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Row, Rows
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.definitions import Definition
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import returned
from accelify.codemod.semantics.values import Collection, Made, Parameters, Value
from accelify.codemod.training.roles import Roles

_DEPTH = 5
_TRAINING = worlds_where(Process.MAIN, trains=True)
AUTOGRAD = "torch.autograd.backward"


def is_by_function(program: Program, backward: ast.Call) -> bool:
    """Whether a backward pass is not a loss's method but `torch.autograd.backward`."""
    return AUTOGRAD in program.called(backward)


def losses_of(program: Program, backward: ast.Call) -> tuple[ast.expr, ...]:
    """The losses of a backward pass: of `loss.backward()`, or of `torch.autograd.backward([one, other])`.

    Nothing where they cannot be named one by one, or where the gradients do not start with 1.
    """
    if AUTOGRAD not in program.called(backward):
        return (backward.func.value,) if isinstance(backward.func, ast.Attribute) else ()
    given = {k.arg: k.value for k in backward.keywords}
    given.update(zip(("tensors", "grad_tensors", "retain_graph", "create_graph"), backward.args, strict=False))
    start = given.get("grad_tensors", ast.Constant(None))
    listed = given.get("tensors")
    is_plain = set(given) <= {"tensors", "grad_tensors", "retain_graph", "create_graph"} and len(backward.args) <= 4
    if not is_plain or not isinstance(start, ast.Constant) or start.value is not None:
        return ()
    if not isinstance(listed, (ast.List, ast.Tuple)) or any(isinstance(e, ast.Starred) for e in listed.elts):
        return ()
    return tuple(listed.elts)


def without_gradients(program: Program, node: ast.AST) -> ast.With | ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost `with torch.no_grad():` round code, or the function round it that is decorated so."""
    for ancestor in program.ancestors(node):
        if isinstance(ancestor, ast.With):
            said: list[ast.expr] = [item.context_expr for item in ancestor.items]
        elif isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)):
            said = ancestor.decorator_list
        else:
            continue
        functions = [s.func if isinstance(s, ast.Call) else s for s in said]
        if any(names.is_without_gradient(name) for function in functions for name in program.externals(function)):
            return ancestor
        if not isinstance(ancestor, ast.With):
            return None
    return None


class Losses:
    """Look at how losses are made up."""

    def __init__(self, program: Program, roles: Roles) -> None:
        self.program = program
        self.roles = roles

    def is_sum(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether an expression, or a part that is added to it, is a sum that nothing divides."""
        if not depth:
            return False
        if isinstance(node, ast.UnaryOp):
            return self.is_sum(node.operand, depth)
        if isinstance(node, ast.BinOp):
            return self._is_sum_of(node.op, node.left, node.right, depth)
        if isinstance(node, ast.IfExp):
            return any(self.is_sum(each, depth) for each in (node.body, node.orelse) if self._may_run(each))
        if isinstance(node, (ast.Name, ast.Attribute)):
            return any(self._is_defined_as_sum(d.node, depth) for d in self._definitions(node))
        return isinstance(node, ast.Call) and self._is_sum_call(node, depth)

    def _is_sum_of(self, operator: ast.operator, left: ast.expr, right: ast.expr, depth: int) -> bool:
        if isinstance(operator, ast.Div):
            return isinstance(right, ast.Constant) and self.is_sum(left, depth)
        if isinstance(operator, ast.Mult) and (self._divides(left, depth) or self._divides(right, depth)):
            return False
        is_linear = isinstance(operator, (ast.Add, ast.Sub, ast.Mult))
        return is_linear and (self.is_sum(left, depth) or self.is_sum(right, depth))

    def _divides(self, node: ast.expr, depth: int) -> bool:
        """Whether a factor is the inverse of what a batch counts: `1.0 / n`, a variable that holds it."""
        if isinstance(node, ast.Name) and depth:
            found = [d.node for d in self._definitions(node)]
            values = [v for v in map(self._assigned, found) if v is not None]
            return bool(found) and len(values) == len(found) and all(self._divides(v, depth - 1) for v in values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return self._divides(node.left, depth) or self._divides(node.right, depth)
        return (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Div)
            and not isinstance(node.right, ast.Constant)
            and not self.is_sum(node.left, depth - 1)
        )

    def _is_defined_as_sum(self, target: ast.AST, depth: int) -> bool:
        """Whether a definition gives a variable a sum, or adds one to what it holds; what divides takes it back."""
        if not self._may_run(target):
            return False
        statement = self.program.statement(target)
        if isinstance(statement, ast.AugAssign):
            return self._is_sum_of(statement.op, statement.target, statement.value, depth - 1)
        value = self._assigned(target)
        return value is not None and self.is_sum(value, depth - 1)

    def _may_run(self, node: ast.AST) -> bool:
        """Whether a place is reached in training, as the script's options and the defaults of its classes stand."""
        return any(self.program.once(Conditions).runs(node, world) for world in _TRAINING)

    def _definitions(self, node: ast.expr) -> frozenset[Definition]:
        return self.program.definitions(node).definitions(node)

    def _assigned(self, target: ast.AST) -> ast.expr | None:
        parent = self.program.parent(target)
        return parent.value if isinstance(parent, (ast.Assign, ast.AnnAssign)) else None

    def _is_sum_call(self, call: ast.Call, depth: int) -> bool:
        made = [v.node for v in self.program.values(call.func) if isinstance(v, Made) and self.roles.is_loss(v)]
        if made:
            return any(isinstance(m, ast.Call) and _adds_up(m) for m in made)
        called = self.program.called(call)
        if any(name.startswith("torch.nn.functional.") for name in called):
            return _adds_up(call)
        if "torch.sum" in called:
            return len(call.args) == 1 and not call.keywords and self._adds_rows(call.args[0], depth)
        callees = self.program.flow.callees.get(call)
        if callees:  # one that is given nothing knows no batch: a penalty on the weights
            is_given = bool(call.args or call.keywords)
            live = [v for v in returned(callees) if v is not None and self._may_run(v)]
            return is_given and any(self.is_sum(v, depth - 1) for v in live)
        if not isinstance(call.func, ast.Attribute):
            return False
        operator = methods.operator(call.func.attr)
        if operator is not None and len(call.args) == 1:
            return self._is_sum_of(operator, call.func.value, call.args[0], depth)
        is_plain = call.func.attr == "sum" and not call.args and not call.keywords
        return is_plain and self._adds_rows(call.func.value, depth)

    def _adds_rows(self, summed: ast.expr, depth: int) -> bool:
        """Whether the sum of a value is one over the rows; that of one number is the number."""
        if self._is_one_number(summed, depth):
            return self.is_sum(summed, depth - 1)
        return self._is_over_rows(summed)

    def _is_one_number(self, node: ast.expr, depth: int) -> bool:
        """Whether a tensor is added up or averaged already; what is assigned in place keeps its shape."""
        if not depth or self.program.once(Effects).kinds.of(node) == {"number"}:
            return bool(depth)
        if isinstance(node, ast.BinOp):
            return all(self._is_one_number(side, depth - 1) for side in (node.left, node.right))
        if isinstance(node, ast.Name):
            found = [d.node for d in self._definitions(node)]
            return bool(found) and all(self._holds_one_number(target, depth - 1) for target in found)
        if not isinstance(node, ast.Call) or node.keywords:
            return False
        rows = [table.function(name) for name in sorted(self.program.called(node))]
        if isinstance(node.func, ast.Attribute) and not any(rows):
            return not node.args and _is_total([table.member("tensor", node.func.attr)])
        return len(node.args) == 1 and _is_total(rows)

    def _holds_one_number(self, target: ast.AST, depth: int) -> bool:
        statement, value = self.program.statement(target), self._assigned(target)
        if isinstance(statement, ast.AugAssign):
            value = statement.target
        return value is not None and self._is_one_number(value, depth)

    def _is_over_rows(self, node: ast.expr) -> bool:
        """Whether what is summed may be of a batch: no losses that the script put side by side, and no weights."""
        is_stacked = isinstance(node, ast.Call) and "torch.stack" in self.program.called(node)
        is_of_losses = is_stacked or self._are_losses(node)
        return not is_of_losses and not self._is_of_weights(node) and not self._is_mean_of_rows(node)

    def _are_losses(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a tensor holds a few losses, each of the batch, with or without their weights."""
        if not depth:
            return False
        if isinstance(node, ast.BinOp):
            is_scaled = isinstance(node.op, (ast.Mult, ast.Div))
            return is_scaled and any(self._are_losses(side, depth - 1) for side in (node.left, node.right))
        if isinstance(node, ast.Name):
            values = [self._assigned(d.node) for d in self._definitions(node)]
            return bool(values) and all(v is not None and self._are_losses(v, depth - 1) for v in values)
        if not isinstance(node, ast.Call) or not node.args:
            return False
        operator = methods.operator(node.func.attr) if isinstance(node.func, ast.Attribute) else None
        if operator is not None and isinstance(node.func, ast.Attribute):
            return self._are_losses(ast.BinOp(node.func.value, operator, node.args[0]), depth)
        rows = [table.function(name) for name in sorted(self.program.called(node))]
        is_joined = bool(rows) and all(row is not None and row.rows is Rows.CONCATENATES for row in rows)
        return is_joined and self._lists_losses(node.args[0], depth - 1)

    def _lists_losses(self, listed: ast.expr, depth: int) -> bool:
        """Whether all that a list holds are losses: `[criterion(x, y).view(1), other]`, what was appended to it."""
        held = (v for v in self.program.values(listed) if isinstance(v, Collection))
        return self._are_of_batches([e for v in held for e in self.program.flow.elements(v)], depth)

    def _are_of_batches(self, values: Iterable[Value], depth: int) -> bool:
        """Whether values are each one loss of a batch, perhaps shaped so that it can stand beside others."""
        calls = [v.node if isinstance(v, Made) else None for v in values]
        return bool(calls) and all(isinstance(call, ast.Call) and self._is_of_batch(call, depth) for call in calls)

    def _is_of_batch(self, call: ast.Call, depth: int) -> bool:
        if any(map(self.roles.is_loss, self.program.values(call.func))) or self._is_one_number(call, depth):
            return True
        is_loss = any(map(names.gives_loss, self.program.called(call))) and not _names_a_reduction(call)
        function = call.func
        is_shaped = isinstance(function, ast.Attribute) and methods.keeps_values(function.attr)
        inner = function.value if isinstance(function, ast.Attribute) and is_shaped and depth else None
        return is_loss or (inner is not None and self._are_of_batches(self.program.values(inner), depth - 1))

    def _is_mean_of_rows(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a value is a mean over the rows already, and what is left to sum are its columns: `x.mean(0)`."""
        if not depth:
            return False
        if isinstance(node, ast.UnaryOp):
            return self._is_mean_of_rows(node.operand, depth)
        if isinstance(node, ast.BinOp):
            sides = [s for s in (node.left, node.right) if not isinstance(s, ast.Constant)]
            return bool(sides) and all(self._is_mean_of_rows(s, depth - 1) for s in sides)
        if isinstance(node, ast.Name):
            values = [self._assigned(d.node) for d in self._definitions(node)]
            return bool(values) and all(v is not None and self._is_mean_of_rows(v, depth - 1) for v in values)
        return isinstance(node, ast.Call) and self._averages_rows(node, depth)

    def _averages_rows(self, call: ast.Call, depth: int) -> bool:
        """`x.mean(0)`, `torch.mean(x, dim=0)`, and what is computed of each of their values."""
        rows, given = [table.function(name) for name in sorted(self.program.called(call))], call.args
        if isinstance(call.func, ast.Attribute) and not any(rows):
            rows, given = [table.member("tensor", call.func.attr)], [call.func.value, *call.args]
        if not rows or not given:
            return False
        if all(row is not None and row.rows is Rows.EACH for row in rows):
            return self._is_mean_of_rows(given[0], depth - 1)
        along = [*given[1:2], *(k.value for k in call.keywords if k.arg in ("dim", "axis"))]
        numbers = [n for a in along for n in (a.elts if isinstance(a, (ast.Tuple, ast.List)) else [a])]
        is_of_rows = not numbers or any(isinstance(n, ast.Constant) and n.value == 0 for n in numbers)
        return is_of_rows and all(row is not None and row.rows is Rows.MEAN for row in rows)

    def _is_of_weights(self, node: ast.expr) -> bool:
        """Whether a value is made of parameters alone, as a penalty on them is."""
        reads = [n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))]
        weights = {part for n in reads if self._is_weight(n) for part in ast.walk(n)}
        names = [n for n in reads if isinstance(n, ast.Name) and not self.program.externals(n)]
        return bool(weights) and all(n in weights for n in names)

    def _is_weight(self, node: ast.expr) -> bool:
        values = self.program.values(node)
        is_parameters = bool(values) and all(isinstance(v, Parameters) for v in values)
        return is_parameters or self.program.once(Effects).kinds.of(node) == {"parameter"}


def _is_total(rows: Sequence[Row | None]) -> bool:
    """Whether all that a call may be makes one number of all rows."""
    return bool(rows) and all(row is not None and row.rows in (Rows.SUM, Rows.MEAN) for row in rows)


def _names_a_reduction(call: ast.Call) -> bool:
    return any(k.arg in ("reduction", "size_average", "reduce", None) for k in call.keywords)


def _adds_up(call: ast.Call) -> bool:
    """Whether a loss adds up, rather than takes the mean."""
    given = {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
    return given.get("reduction") == "sum" or (given.get("size_average") is False and given.get("reduce") is not False)
