"""Is a loss a sum over the rows of its batch, and not a mean?"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Role, Row, Rows, Trait
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.definitions import Definition, Kind
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import Collection, Constant, Instance, Made, Parameters, Value
from accelify.codemod.training.roles import Roles
from accelify.codemod.training.row_means import RowMeans

_DEPTH = 5
_TRAINING = worlds_where(Process.MAIN, trains=True)
AUTOGRAD = "torch.autograd.backward"
GRADIENTS = "torch.autograd.grad"
AUTOGRAD_PARAMETERS = ("tensors", "grad_tensors", "retain_graph", "create_graph")


def is_by_function(program: Program, backward: ast.Call) -> bool:
    """Whether a backward pass is not a loss's method but `torch.autograd.backward`."""
    return AUTOGRAD in program.called(backward)


def losses_of(program: Program, backward: ast.Call) -> tuple[ast.expr, ...]:
    """The losses of a backward pass: of `loss.backward()`, `torch.autograd.backward(loss)`, or of a list in its place.

    The list itself where they cannot be named one by one. Nothing where it may be a tensor as well, or where the
    gradients of several losses do not start with 1.
    """
    if AUTOGRAD not in program.called(backward):
        return (backward.func.value,) if isinstance(backward.func, ast.Attribute) else ()
    given = {k.arg: k.value for k in backward.keywords}
    given.update(zip(AUTOGRAD_PARAMETERS, backward.args, strict=False))
    start = given.get("grad_tensors", ast.Constant(None))
    listed = given.get("tensors")
    is_plain = set(given) <= set(AUTOGRAD_PARAMETERS) and len(backward.args) <= len(AUTOGRAD_PARAMETERS)
    if not is_plain or listed is None or any(isinstance(a, ast.Starred) for a in backward.args):
        return ()
    kinds = program.once(Kinds)
    starts_with_one = isinstance(start, ast.Constant) and start.value is None
    if kinds.of(listed) == {"tensor"}:
        return (listed,) if starts_with_one or kinds.of(start) == {"tensor"} else ()
    if kinds.of(listed) not in ({"list"}, {"tuple"}) or not (starts_with_one or _are_ones(program, start)):
        return ()
    return _written(program, listed) or (listed,)


def all_losses(program: Program, backwards: Iterable[ast.Call]) -> list[ast.expr]:
    """The losses of some backward passes."""
    return [loss for backward in backwards for loss in losses_of(program, backward)]


def differentiated(program: Program) -> Iterator[ast.expr]:
    """The values of which `torch.autograd.grad` takes gradients."""
    for call in (c for c in program.calls if GRADIENTS in program.called(c)):
        yield from call.args[:1]
        yield from (k.value for k in call.keywords if k.arg == "outputs")


def _written(program: Program, listed: ast.expr) -> tuple[ast.expr, ...]:
    """The elements of a list, where it is written out, or a variable holds such a list as it was written."""
    if isinstance(listed, ast.Name):
        definitions = list(program.once(Chains).definitions(listed))
        parent = program.parent(definitions[0].node) if len(definitions) == 1 else None
        listed = parent.value if isinstance(parent, ast.Assign) else listed
    is_written = isinstance(listed, (ast.List, ast.Tuple)) and not any(isinstance(e, ast.Starred) for e in listed.elts)
    return tuple(listed.elts) if is_written and isinstance(listed, (ast.List, ast.Tuple)) else ()


def _are_ones(program: Program, start: ast.expr) -> bool:
    """`[torch.ones(1).cuda() for _ in losses]`, and a variable that holds it: what gradients start with anyhow."""
    if isinstance(start, ast.ListComp):
        return _is_one(program, start.elt)
    if not isinstance(start, ast.Name):
        written = _written(program, start)
        return bool(written) and all(_is_one(program, each) for each in written)
    parents = [program.parent(d.node) for d in program.once(Chains).definitions(start)]
    held = [p.value if isinstance(p, ast.Assign) else p for p in parents]
    is_written = all(isinstance(v, (ast.List, ast.Tuple, ast.ListComp)) and _are_ones(program, v) for v in held)
    return bool(held) and is_written


def _is_one(program: Program, node: ast.expr) -> bool:
    """`torch.ones(1)`, `torch.ones_like(loss).to(device)`, `torch.tensor(1.0)`"""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and methods.moves(node.func.attr):
        return _is_one(program, node.func.value)
    called = program.called(node)
    if "torch.tensor" in called:
        return bool(node.args) and ast.unparse(node.args[0]).strip("[]") in ("1", "1.0")
    return any(row is not None and row.has(Trait.ONES) for row in map(table.function, called))


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


def is_for_inputs(
    program: Program, backward: ast.Call, steps: Iterable[ast.Call], is_alike: Callable[[ast.expr], bool]
) -> bool:
    """Whether a backward pass is for the gradients of a batch, and no step takes up those that weights get from it.

    `net(image).sum().backward()`, then `image.data.add_(image.grad)`, and `net.zero_grad()` before the next step.
    """
    flow, frame = program.control_flow(backward), program.frame(backward)
    owners = [n.value for n in walk(frame.node) if isinstance(n, ast.Attribute) and n.attr == "grad"]
    read = [n for n in owners if not is_alike(n) and flow.reaches(backward, n)]
    calls = program.calls_in(frame)
    clearing = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "zero_grad"]
    taken = (s for s in steps if program.frame(s) is frame)
    return bool(read) and not any(flow.reaches(backward, step, without=clearing) for step in taken)


class _Terms(ABC):
    """Look at the terms that losses are made up of, as variables hold them and functions return them."""

    def __init__(self, program: Program, roles: Roles) -> None:
        self.program = program
        self.roles = roles
        self.means = RowMeans(program)
        self.totals = program.once(Totals)
        self._ways: dict[Scope, tuple[ast.Call, ...]] = {}  # the calls by which functions were entered last

    def has(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether an expression, or a part that is added to it, is what is looked for."""
        if not depth:
            return False
        if isinstance(node, ast.UnaryOp):
            return self.has(node.operand, depth)
        if isinstance(node, ast.BinOp):
            return self._is_calculated(node.op, node.left, node.right, depth)
        if isinstance(node, ast.IfExp):
            return any(self.has(each, depth) for each in (node.body, node.orelse) if self._may_run(each))
        if isinstance(node, (ast.Name, ast.Attribute)):
            return any(self._is_defined(target, depth) for target in self._last(node))
        if isinstance(node, ast.Subscript):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            return any(self.has(each, depth - 1) for each in self._items(node.value, key, depth - 1))
        return isinstance(node, ast.Call) and self._is_called(node, depth)

    @abstractmethod
    def _is_calculated(self, operator: ast.operator, left: ast.expr, right: ast.expr, depth: int) -> bool:
        """Whether the result of an operator is, or has, what is looked for."""

    @abstractmethod
    def _reduces(self, call: ast.Call, depth: int) -> bool | None:
        """Whether a call makes what is looked for of the rows; None where it is no known reduction."""

    def _is_called(self, call: ast.Call, depth: int) -> bool:
        known = self._reduces(call, depth)
        if known is not None:
            return known
        if self.program.flow.callees.get(call):  # one that is given nothing knows no batch: a penalty on the weights
            is_given = bool(call.args or call.keywords)
            return is_given and any(self.has(v, depth - 1) for v in self._returned(call))
        operator = methods.operator(call.func.attr) if isinstance(call.func, ast.Attribute) else None
        if operator is None or not isinstance(call.func, ast.Attribute) or len(call.args) != 1:
            return False
        return self._is_calculated(operator, call.func.value, call.args[0], depth)

    def _made_losses(self, call: ast.Call) -> list[ast.AST]:
        """Where the losses are made that a call may run."""
        return [v.node for v in self.program.values(call.func) if isinstance(v, Made) and self.roles.is_loss(v)]

    def _is_defined(self, target: ast.AST, depth: int) -> bool:
        """Whether a definition gives a variable what is looked for, or adds it to what it holds."""
        if not self._may_run(target):
            return False
        statement = self.program.statement(target)
        if isinstance(statement, ast.AugAssign):
            return self._is_calculated(statement.op, statement.target, statement.value, depth - 1)
        return any(self.has(value, depth - 1) for value in self._given(target, depth - 1))

    def _given(self, target: ast.AST, depth: int) -> Iterator[ast.expr]:
        """What an assignment may give a variable: of `loss, parts = f(x)`, the first of what the function returns."""
        value, parent = self._assigned(target), self.program.parent(target)
        holder = self.program.parent(parent) if isinstance(parent, (ast.Tuple, ast.List)) else None
        if value is not None:
            yield value
        elif isinstance(parent, (ast.Tuple, ast.List)) and isinstance(holder, ast.Assign):
            yield from self._items(holder.value, next(i for i, e in enumerate(parent.elts) if e is target), depth)

    def _items(self, node: ast.expr, key: object, depth: int) -> Iterator[ast.expr]:
        """What stands at a place of a tuple or at a key of a dict, as written or as a function returns it."""
        if isinstance(node, (ast.Tuple, ast.List)):
            is_there = isinstance(key, int) and -len(node.elts) <= key < len(node.elts)
            yield from [node.elts[key]] if isinstance(key, int) and is_there else []
        elif isinstance(node, ast.Dict):
            yield from (v for k, v in zip(node.keys, node.values, strict=True) if _is_constant(k, key))
        elif isinstance(node, ast.Name) and depth:
            values = [self._assigned(d.node) for d in self._definitions(node)]
            yield from (item for v in values if v is not None for item in self._items(v, key, depth - 1))
        elif isinstance(node, ast.Call) and depth:
            yield from (item for v in self._returned(node) for item in self._items(v, key, depth - 1))

    def _returned(self, call: ast.Call) -> list[ast.expr]:
        """What the functions that a call runs may return to it in training."""
        callees = self.program.flow.callees.get(call, ())
        self._ways.update(dict.fromkeys(callees, (*self._ways.get(self.program.frame(call), ()), call)))
        return [v for v in returned(callees) if v is not None and self._may_run(v)]

    def _may_run(self, node: ast.AST) -> bool:
        """Whether a place is reached in training, as the script's options and the arguments of its calls stand."""
        conditions, way = self.program.once(Conditions), self._ways.get(self.program.frame(node), ())
        return any(conditions.runs(node, world) and not conditions.is_dead(node, world, way) for world in _TRAINING)

    def _definitions(self, node: ast.expr) -> frozenset[Definition]:
        return self.program.definitions(node).definitions(node)

    def _last(self, read: ast.expr) -> list[ast.AST]:
        """Where a variable gets the value that is read, but for those after which a branch that is taken sets it."""
        found = [d.node for d in self._definitions(read)]
        taken = [b for b in map(self._branch_that_is_taken, found) if b is not None]
        return [
            t
            for t in found
            if all(self.program.reaches(t, read, without=b.test) for b in taken if not self.program.inside(t, b))
        ]

    def _branch_that_is_taken(self, target: ast.AST) -> ast.If | None:
        """The condition, true in training, on which alone it depends whether a variable is set at a place."""
        statement = self.program.statement(target)
        branching = self.program.parent(statement)
        if not isinstance(branching, ast.If) or statement not in branching.body:
            return None
        way = self._ways.get(self.program.frame(target), ())
        return branching if self.program.once(Conditions).truth_in(branching.test, _TRAINING, way) else None

    def _assigned(self, target: ast.AST) -> ast.expr | None:
        parent = self.program.parent(target)
        return parent.value if isinstance(parent, (ast.Assign, ast.AnnAssign)) else None

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


class Losses(_Terms):
    """Find losses that are sums over rows.

    is_fixed: whether what divides one is the same for any batch. is_alike: whether a value is of no batch at all.
    """

    def __init__(
        self,
        program: Program,
        roles: Roles,
        is_fixed: Callable[[ast.expr], bool] = lambda divisor: False,
        is_alike: Callable[[ast.expr], bool] = lambda value: False,
    ) -> None:
        super().__init__(program, roles)
        self.is_fixed = is_fixed
        self.is_alike = is_alike
        self.means = RowMeans(program, is_alike)

    def is_sum(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether an expression, or a part that is added to it, is a sum that nothing divides."""
        return self.has(node, depth)

    def summed(self, node: ast.expr, depth: int = _DEPTH) -> Iterator[ast.expr]:
        """The terms of an expression that are such sums, where they are written one by one; else the expression."""
        given = [v for t in self._last(node) for v in self._given(t, depth)] if isinstance(node, ast.Name) else []
        written = given[0] if len(given) == 1 and depth else node
        if isinstance(written, ast.BinOp) and isinstance(written.op, (ast.Add, ast.Sub)):
            yield from self.summed(written.left, depth - 1)
            yield from self.summed(written.right, depth - 1)
        elif self.is_sum(node, depth):
            yield node

    def has(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        is_divided = isinstance(node, ast.Name) and self.means.is_divided_in_place(node)
        return not is_divided and super().has(node, depth)

    def _is_calculated(self, operator: ast.operator, left: ast.expr, right: ast.expr, depth: int) -> bool:
        if isinstance(operator, ast.Div):
            return self._is_fixed(right) and self.is_sum(left, depth)
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
            and not self._is_fixed(node.right)
            and not self.is_sum(node.left, depth - 1)
        )

    def _is_fixed(self, divisor: ast.expr) -> bool:
        return isinstance(divisor, ast.Constant) or self.is_fixed(divisor)

    def _reduces(self, call: ast.Call, depth: int) -> bool | None:
        made = self._made_losses(call)
        if made:
            return any(isinstance(m, ast.Call) and _adds_up(m) for m in made)
        called = self.program.called(call)
        if any(name.startswith("torch.nn.functional.") for name in called):
            return _adds_up(call) and not all(map(self.means.is_mean, call.args))
        if "torch.sum" in called:
            return len(call.args) == 1 and not call.keywords and self._adds_rows(call.args[0], depth)
        is_method = isinstance(call.func, ast.Attribute) and not self.program.flow.callees.get(call)
        if not is_method or not isinstance(call.func, ast.Attribute) or call.func.attr != "sum":
            return None
        return not call.args and not call.keywords and self._adds_rows(call.func.value, depth)

    def _adds_rows(self, summed: ast.expr, depth: int) -> bool:
        """Whether the sum of a value is one over the rows; that of one number is the number."""
        if self.totals.is_one_number(summed):
            return self.is_sum(summed, depth - 1)
        return self._is_over_rows(summed)

    def _is_over_rows(self, node: ast.expr) -> bool:
        """Whether what is summed may be of a batch: no losses that the script put side by side, and no weights."""
        is_stacked = isinstance(node, ast.Call) and "torch.stack" in self.program.called(node)
        is_of_losses = is_stacked or self._are_losses(node)
        is_of_none = self.is_alike(node) or self._is_of_weights(node) or self._is_of_fixed_size(node)
        return not is_of_losses and not is_of_none and not self.means.is_mean(node)

    def _is_of_fixed_size(self, node: ast.expr) -> bool:
        """Whether a variable's tensor has as many elements for any batch: `parts = torch.zeros(3)`, filled later."""
        found = self._definitions(node) if isinstance(node, ast.Name) else ()
        values = [self._assigned(d.node) for d in found if d.kind is not Kind.IN_PLACE]
        made = [v for v in values if isinstance(v, ast.Call) and v.args]
        if len(made) < len(values):
            return False
        rows = [table.function(name) for v in made for name in self.program.called(v)]
        sizes = (e for v in made for a in v.args for e in (a.elts if isinstance(a, (ast.Tuple, ast.List)) else [a]))
        is_factory = bool(rows) and all(row is not None and row.role is Role.FACTORY for row in rows)
        return is_factory and all(isinstance(e, ast.Constant) for e in sizes)

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
        if any(map(self.roles.is_loss, self.program.values(call.func))) or self.totals.is_one_number(call):
            return True
        is_loss = any(map(names.gives_loss, self.program.called(call))) and not _reductions(call)
        function = call.func
        is_shaped = isinstance(function, ast.Attribute) and methods.keeps_values(function.attr)
        inner = function.value if isinstance(function, ast.Attribute) and is_shaped and depth else None
        return is_loss or (inner is not None and self._are_of_batches(self.program.values(inner), depth - 1))


class MeanLosses(_Terms):
    """Find losses that are means over rows."""

    def _is_calculated(self, operator: ast.operator, left: ast.expr, right: ast.expr, depth: int) -> bool:
        if isinstance(operator, ast.Div):
            return self.has(left, depth) and not self._counts_rows(right, depth)
        is_linear = isinstance(operator, (ast.Add, ast.Sub, ast.Mult))
        return is_linear and (self.has(left, depth) or self.has(right, depth))

    def _reduces(self, call: ast.Call, depth: int) -> bool | None:
        made = self._made_losses(call) or [call] * any(map(names.gives_loss, self.program.called(call)))
        if made:
            return all(isinstance(m, ast.Call) and self._averages(m) for m in made)
        rows, given = self.means.called(call)
        is_mean = bool(rows) and all(row is not None and row.rows is Rows.MEAN for row in rows)
        return len(given) == 1 and not call.keywords and not self._is_of_weights(given[0]) if is_mean else None

    def _averages(self, call: ast.Call) -> bool:
        """Whether a loss takes the mean, as it does unless it is asked for something else."""
        return all(v in ("mean", "elementwise_mean", True, None) for _, v in _asked(self.program, call))

    def _counts_rows(self, node: ast.expr, depth: int) -> bool:
        """Whether a number is how many rows a batch has: `len(x)`, `x.size(0)`, `n` of `n, c = x.shape`."""
        if isinstance(node, ast.Name):
            found = [d.node for d in self._definitions(node)] if depth else []
            return bool(found) and all(self._holds_count(target, depth - 1) for target in found)
        if isinstance(node, ast.Subscript):
            return _is_constant(node.slice, 0) and sizes.shaped(node.value) is not None
        if not isinstance(node, ast.Call):
            return False
        rows, given = self.means.called(node)
        if any(row is None or row.rows is not Rows.COUNT for row in rows):
            return len(given) == 1 and "float" in self.program.called(node) and self._counts_rows(given[0], depth)
        is_of_tensor = bool(given) and self.program.once(Effects).kinds.of(given[0]) & {"tensor", UNKNOWN}
        return bool(rows and is_of_tensor) and all(_is_constant(place, 0) for place in given[1:])

    def _holds_count(self, target: ast.AST, depth: int) -> bool:
        value, parent = self._assigned(target), self.program.parent(target)
        if value is not None:
            return self._counts_rows(value, depth)
        holder = self.program.parent(parent) if isinstance(parent, (ast.Tuple, ast.List)) else None
        is_first = isinstance(parent, (ast.Tuple, ast.List)) and parent.elts[0] is target
        return is_first and isinstance(holder, ast.Assign) and sizes.shaped(holder.value) is not None


class DividedMeans(MeanLosses):
    """Find means over the rows of a batch that the number of these rows divides once more."""

    def __init__(self, program: Program, roles: Roles) -> None:
        super().__init__(program, roles)
        self.mean_losses = MeanLosses(program, roles)

    def _is_calculated(self, operator: ast.operator, left: ast.expr, right: ast.expr, depth: int) -> bool:
        sides = ((left, right), (right, left)) if isinstance(operator, ast.Mult) else ((left, right),)
        for mean, by in sides:
            divisor = by.right if isinstance(by, ast.BinOp) and isinstance(by.op, ast.Div) else None
            divisor = by if isinstance(operator, ast.Div) else divisor
            if divisor is not None and self._counts_rows(divisor, depth) and self.mean_losses.has(mean, depth):
                return True
        is_linear = isinstance(operator, (ast.Add, ast.Sub, ast.Mult))
        return self.has(left, depth) or (is_linear and self.has(right, depth))

    def _reduces(self, call: ast.Call, depth: int) -> bool | None:
        return None


class Totals:
    """Find tensors that are added up or averaged already, so that their sum and their mean are the same number."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.kinds = program.once(Effects).kinds

    def is_one_number(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a value has no dimension; what is assigned in place keeps its shape."""
        if not depth or self.kinds.of(node) == {"number"}:
            return bool(depth)
        if isinstance(node, ast.BinOp):
            return all(self.is_one_number(side, depth - 1) for side in (node.left, node.right))
        if isinstance(node, ast.Name):
            found = [d.node for d in self.program.definitions(node).definitions(node)]
            return bool(found) and all(self._holds_one_number(target, depth - 1) for target in found)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self._is_number_at(node.value, node.slice.value, depth - 1)
        return isinstance(node, ast.Call) and self._is_called(node, depth)

    def _is_number_at(self, holder: ast.expr, key: object, depth: int) -> bool:
        """Whether what stands at a place of a tuple or at a key of a dict, as written or returned, has no dimension."""
        if not depth:
            return False
        if isinstance(holder, ast.Tuple):
            is_there = isinstance(key, int) and key < len(holder.elts)
            is_clear = not any(isinstance(e, ast.Starred) for e in holder.elts)
            return isinstance(key, int) and is_there and is_clear and self.is_one_number(holder.elts[key], depth)
        if isinstance(holder, ast.Dict):
            found = [v for k, v in zip(holder.keys, holder.values, strict=True) if _is_constant(k, key)]
            return len(found) == 1 and None not in holder.keys and self.is_one_number(found[0], depth)
        if isinstance(holder, ast.Name):
            targets = [d.node for d in self.program.definitions(holder).definitions(holder)]
            filled = [t for t in targets if isinstance(t, ast.Subscript) and isinstance(t.slice, ast.Constant)]
            at_key = [t for t in filled if _is_constant(t.slice, key)]
            parents = [self.program.parent(t) for t in targets if t not in filled]
            values = [p.value if isinstance(p, (ast.Assign, ast.AnnAssign)) else None for p in parents]
            held = [v for v in values if not (at_key and isinstance(v, ast.Dict) and not v.keys)]
            return (
                bool(values)
                and all(self._holds_one_number(t, depth - 1) for t in at_key)
                and all(v is not None and self._is_number_at(v, key, depth - 1) for v in held)
            )
        values = returned(self.program.flow.callees.get(holder, ())) if isinstance(holder, ast.Call) else []
        is_known = bool(values) and all(v is not None and self._is_number_at(v, key, depth - 1) for v in values)
        return is_known and isinstance(holder, ast.Call) and not self._is_of_parts(holder)

    def _is_called(self, call: ast.Call, depth: int) -> bool:
        if losses := self._losses(call):
            return all(map(self._is_reduced, losses))
        callees = self.program.flow.callees.get(call)
        if callees:
            values = [v for v in returned(callees) if not isinstance(v, ast.Constant)]
            is_single = bool(values) and all(v and self.is_one_number(v, depth - 1) for v in values)
            return is_single and not self._is_of_parts(call)
        if call.keywords:
            return False
        rows = [table.function(name) for name in sorted(self.program.called(call))]
        if isinstance(call.func, ast.Attribute) and not any(rows):
            return not call.args and _is_total([table.member("tensor", call.func.attr)])
        return len(call.args) == 1 and _is_total(rows)

    def _losses(self, call: ast.Call) -> list[ast.Call]:
        """What says how a loss of PyTorch reduces the rows' losses: its call, and those that make it."""
        functions, values = self.program.called(call), self.program.values(call.func)
        made = [v.node for v in values if isinstance(v, Made) and names.is_loss(v.name) and _is_of_torch(v.name)]
        is_made = bool(made) and len(made) == len(values)
        is_function = bool(functions) and all(names.gives_loss(name) and _is_of_torch(name) for name in functions)
        return [call, *(m for m in made if isinstance(m, ast.Call))] if is_made or is_function else []

    def _is_of_parts(self, call: ast.Call) -> bool:
        """Whether a model may give a number for each part of a batch, which a `DataParallel` divides."""
        is_model = any(isinstance(v, Instance) for v in self.program.values(call.func))
        return is_model and any(names.is_wrapper(n) for c in self.program.calls for n in self.program.called(c))

    def _is_reduced(self, call: ast.Call) -> bool:
        return all(
            value not in ("none", False, "") or (value is False and key == "size_average")
            for key, value in _asked(self.program, call)
        )

    def _holds_one_number(self, target: ast.AST, depth: int) -> bool:
        statement, parent = self.program.statement(target), self.program.parent(target)
        value = parent.value if isinstance(parent, (ast.Assign, ast.AnnAssign)) else None
        if isinstance(statement, ast.AugAssign):
            value = statement.target
        if isinstance(parent, ast.Tuple) and isinstance(statement, ast.Assign) and statement.targets == [parent]:
            is_clear = not any(isinstance(e, ast.Starred) for e in parent.elts)
            place = next(i for i, e in enumerate(parent.elts) if e is target)
            return is_clear and self._is_number_at(statement.value, place, depth)
        return value is not None and self.is_one_number(value, depth)


def _is_constant(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _is_total(rows: Sequence[Row | None]) -> bool:
    """Whether all that a call may be makes one number of all rows."""
    return bool(rows) and all(row is not None and row.rows in (Rows.SUM, Rows.MEAN, Rows.EXTREME) for row in rows)


def _asked(program: Program, call: ast.Call) -> Iterator[tuple[str | None, object]]:
    """What a loss is asked for by keyword, with its values; empty text where one is unknown."""
    for keyword in _reductions(call):
        for held in program.values(keyword.value) or (keyword.value,):
            yield keyword.arg, held.value if isinstance(held, (ast.Constant, Constant)) else ""


def _is_of_torch(name: str | None) -> bool:
    return name is not None and name.startswith("torch.")


def _reductions(call: ast.Call) -> list[ast.keyword]:
    """The keyword arguments by which a loss is asked for another reduction; `**options` may hold one."""
    return [k for k in call.keywords if k.arg in ("reduction", "size_average", "reduce", None)]


def _adds_up(call: ast.Call) -> bool:
    """Whether a loss adds up, rather than takes the mean."""
    given = {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
    return given.get("reduction") == "sum" or (given.get("size_average") is False and given.get("reduce") is not False)
