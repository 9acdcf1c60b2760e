"""How does a statement make a variable's next value from its last one: by adding, collecting, comparing?

total += x      total = total + a + b      total, n = total + x, n + 1      torch.add(total, x, out=total)
sums[key] = sums.get(key, 0) + x
rows.append(x)      rows = torch.cat([rows, x])      best = max(best, x)      average = 0.9 * average + 0.1 * x
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries.kinds import SEQUENCES
from accelify.codemod.libraries.row import Rows, Trait
from accelify.codemod.metrics.sums.zeros import is_zero
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Kind, Variable
from accelify.codemod.semantics.effects.kinds import UNKNOWN
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, method_of_call, names_in, returned

_DEPTH = 3


class Updating(Enum):
    """The fate of the last value."""

    ADDS = auto()
    COLLECTS = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Addition:
    """A statement, or a part of one, that adds to a variable or to a place in what it holds.

    node: the definition. target: what is added to. parts: what is added, each with its sign.
    """

    node: ast.AST
    statement: ast.stmt
    target: ast.expr
    parts: tuple[ast.expr, ...]

    @property
    def value(self) -> ast.expr:
        """The expression that is added, if there is one; else the first of several."""
        return self.parts[0]


def addition(chains: Chains, node: ast.AST) -> Addition | None:
    """How a definition adds to what was there; None if it does anything else."""
    return _addition(chains, node, _DEPTH)


def _addition(chains: Chains, node: ast.AST, depth: int) -> Addition | None:
    if isinstance(node, ast.Call):
        return _added_by_call(chains, node)
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return None
    program = chains.program
    statement = program.statement(node)
    if isinstance(statement, ast.AugAssign) and statement.target is node:
        if isinstance(statement.op, (ast.Add, ast.Sub)) and not _names(statement.value, ast.unparse(node)):
            return Addition(node, statement, node, (statement.value,))
        return None
    value = assigned_to(program, node)
    if value is not None and isinstance(node, ast.Subscript) and _begins_place(chains, node, value):
        return Addition(node, statement, node, (value,))
    parts = _rest(chains, value, ast.unparse(node)) if value is not None else None
    if parts is None:
        parts = _added_in_functions(chains, node, depth)
    return None if parts is None else Addition(node, statement, node, tuple(parts))


def _added_in_functions(chains: Chains, target: ast.expr, depth: int) -> list[ast.expr] | None:
    """What functions add to an argument that they return: `total = step(x, total)`, `total, n = step(x, total, n)`."""
    call, position = _call_given_to(chains.program, target)
    if call is None or not depth:
        return None
    found: list[ast.expr] = []
    for function in chains.program.flow.callees.get(call, ()):
        given = {p.arg: a for p in function.parameters if (a := chains.given(call, function, p.arg)) is not None}
        names = [name for name, a in given.items() if _names(a, ast.unparse(target))]
        is_passed_on = len(names) == 1 and ast.unparse(given[names[0]]) == ast.unparse(target)
        parts = _added_to_argument(chains, function, names[0], position, depth) if is_passed_on else None
        if parts is None:
            return None
        found += parts
    return found or None


def _call_given_to(program: Program, target: ast.expr) -> tuple[ast.Call | None, int | None]:
    """The call whose result, or the part of it with a position, an assignment gives to a target."""
    parent = program.parent(target)
    is_part = isinstance(parent, (ast.Tuple, ast.List))
    holder = program.parent(parent) if is_part and parent is not None else parent
    value = holder.value if isinstance(holder, ast.Assign) else None
    position = parent.elts.index(target) if isinstance(parent, (ast.Tuple, ast.List)) else None
    return (value, position) if isinstance(value, ast.Call) else (None, None)


def _added_to_argument(
    chains: Chains, function: Scope, name: str, position: int | None, depth: int
) -> list[ast.expr] | None:
    """What a function adds to an argument and returns; None if it changes it, or returns anything, in another way."""
    results = returned([function])
    if position is not None:
        tuples = [r for r in results if isinstance(r, ast.Tuple) and position < len(r.elts)]
        results = [r.elts[position] for r in tuples] if len(tuples) == len(results) else []
    found = [None if r is None else _rest(chains, r, name) for r in results]
    every = chains.facts(function.node).all_of(Variable(function, name))
    changes = (_addition(chains, d.node, depth - 1) for d in every if d.kind is not Kind.PARAMETER)
    found += [None if change is None else list(change.parts) for change in changes]
    return None if not found or None in found else [part for parts in found for part in parts or ()]


def _begins_place(chains: Chains, place: ast.Subscript, value: ast.expr) -> bool:
    """Whether a value is added to a dict's place that is not there yet: `if key not in sums: sums[key] = 0`."""
    program = chains.program
    branch, holds = next(iter(program.branches_round(place)), (None, False))
    test = branch.test if isinstance(branch, ast.If) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], (ast.In, ast.NotIn)):
        return False
    if f"{ast.unparse(test.comparators[0])}[{ast.unparse(test.left)}]" != ast.unparse(place):
        return False
    if holds == isinstance(test.ops[0], ast.In) or not isinstance(branch, ast.If):
        return False
    others = branch.orelse if holds else branch.body
    added = (s.target for s in others if isinstance(s, ast.AugAssign) and isinstance(s.op, (ast.Add, ast.Sub)))
    return is_zero(chains, value) or ast.unparse(place) in map(ast.unparse, added)


def assigned_to(program: Program, target: ast.AST) -> ast.expr | None:
    """The value that an assignment gives to a target, in a tuple of as many values too."""
    parent = program.parent(target)
    if isinstance(parent, ast.Assign):
        return parent.value
    if isinstance(parent, (ast.AnnAssign, ast.NamedExpr)) and parent.target is target:
        return parent.value
    if not isinstance(parent, (ast.Tuple, ast.List)):
        return None
    holder = program.parent(parent)
    value = holder.value if isinstance(holder, ast.Assign) else None
    if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(parent.elts):
        return value.elts[parent.elts.index(target)]  # type: ignore[arg-type]  # an expression
    return None


def _rest(chains: Chains, value: ast.expr, text: str) -> list[ast.expr] | None:
    """The terms that an expression adds to a variable: `a` and `0.5 * b` of `total + a + 0.5 * b`."""
    if ast.unparse(value) == text or _is_got(chains, value, text):
        return []
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        left = _rest(chains, value.left, text)
        if left is not None:
            return None if _names(value.right, text) else [*left, value.right]
        right = _rest(chains, value.right, text) if isinstance(value.op, ast.Add) else None
        return None if right is None or _names(value.left, text) else [value.left, *right]
    if isinstance(value, ast.Call) and (operands := _operands(chains, value)) is not None:
        first, second = operands
        inner = _rest(chains, first, text)
        if inner is not None:
            return None if _names(second, text) else [*inner, second]
        inner = _rest(chains, second, text)
        return None if inner is None or _names(first, text) else [first, *inner]
    return None


def _is_got(chains: Chains, value: ast.expr, text: str) -> bool:
    """`sums.get(name, 0)`, the last value of `sums[name]`."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or len(value.args) != 2:
        return False
    place = f"{ast.unparse(value.func.value)}[{ast.unparse(value.args[0])}]"
    return value.func.attr == "get" and place == text and is_zero(chains, value.args[1])


def _operands(chains: Chains, call: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """The sum and the summand of a call: `torch.add(a, b)`, `a.add(b)`, `table.index_add_(0, i, b)`."""
    rows = chains.kinds.called(call)
    if not rows or not all(row.has(Trait.ADDS) for row in rows) or any(k.arg != "out" for k in call.keywords):
        return None
    if (method := chains.kinds.method(call)) is not None:
        return (method.value, call.args[-1]) if len(call.args) in (1, 3) else None
    return (call.args[0], call.args[1]) if len(call.args) == 2 else None


def _added_by_call(chains: Chains, call: ast.Call) -> Addition | None:
    """`total.add_(x)`, `torch.add(total, x, out=total)`, `table.index_add_(0, i, x)`."""
    operands, changed = _operands(chains, call), chains.changed_by(call)
    is_default = method_of_call(call) == "setdefault" and len(call.args) == 2
    if is_default and len(changed) == 1 and is_zero(chains, call.args[1]):
        return Addition(call, chains.program.statement(call), changed[0], (call.args[1],))
    if operands is None or len(changed) != 1:
        return None
    parts = _rest(chains, call, ast.unparse(changed[0]))
    return None if not parts else Addition(call, chains.program.statement(call), changed[0], tuple(parts))


def updating(chains: Chains, node: ast.AST) -> Updating:
    """How a definition that is run again and again makes a value from its last one."""
    added = addition(chains, node)
    if added is not None:
        kinds = [chains.kinds.of(part) for part in (added.target, *added.parts)]
        is_list = any(held & SEQUENCES and held <= SEQUENCES | {UNKNOWN} for held in kinds)
        return Updating.COLLECTS if is_list else Updating.ADDS
    if isinstance(node, ast.Call):
        return Updating.COLLECTS
    value = assigned_to(chains.program, node)
    if isinstance(value, ast.Call):
        rows = chains.kinds.called(value) or ()
        if any(r.rows is Rows.CONCATENATES for r in rows):
            return Updating.COLLECTS
    return Updating.OTHER


def extreme(chains: Chains, target: ast.AST) -> str | None:
    """`max` or `min`, of an assignment that keeps the greater or the lesser of the last value and another."""
    value = assigned_to(chains.program, target)
    text = ast.unparse(target)
    if isinstance(value, ast.IfExp):
        if ast.unparse(value.body) != text:
            return _kept(value.test, value.body, value.orelse, text)
        return {"max": "min", "min": "max"}.get(_kept(value.test, value.orelse, value.body, text) or "")
    statement = chains.program.statement(target)
    branch = chains.program.parent(statement)
    is_alone = isinstance(branch, ast.If) and branch.body == [statement] and not branch.orelse
    if is_alone and value is not None and chains.program.parent(target) is statement:
        return _kept(branch.test, value, target, text)  # type: ignore[union-attr]  # a branch
    if not isinstance(value, ast.Call) or value.keywords:
        return None
    receiver = (
        [value.func.value] if isinstance(value.func, ast.Attribute) and not chains.kinds.name_of(value.func) else []
    )
    given = [ast.unparse(a) for a in (*receiver, *value.args)]
    if given.count(text) != 1 or len(given) < 2 or sum(_names(a, text) for a in (*receiver, *value.args)) != 1:
        return None
    rows = chains.kinds.called(value) or ()
    traits = {"max": Trait.GREATER, "min": Trait.LESS}
    return next((how for how, trait in traits.items() if rows and all(row.has(trait) for row in rows)), None)


def averages(chains: Chains, target: ast.AST, is_own: Callable[[ast.expr], bool]) -> bool:
    """Whether an assignment mixes a last value and one process's values, with weights that all processes share.

    mean += (x - mean) / (i + 1)      average = 0.9 * average + 0.1 * x      average = x

    The mean over the processes of what comes out is then what the means over the processes would give. Not so of a sum,
    in which the last value keeps its whole weight, however that is spelled: `score = -(-score - x)`.
    """
    statement, text = chains.program.statement(target), ast.unparse(target)
    if isinstance(statement, ast.AugAssign):
        is_sum = isinstance(statement.op, (ast.Add, ast.Sub)) and statement.target is target
        return is_sum and _is_mixed(statement.value, text, is_own) is not None and _weight(statement.value, text) != 0
    value = assigned_to(chains.program, target)
    return value is not None and _is_mixed(value, text, is_own) is not None and _weight(value, text) != 1


def _weight(value: ast.expr, text: str) -> float | None:
    """What the last value is multiplied by in a sum of weighted values; None for what is known only at run time."""
    if ast.unparse(value) == text:
        return 1.0
    if not _names(value, text):
        return 0.0
    if isinstance(value, ast.UnaryOp):
        inner = _weight(value.operand, text)
        return -inner if inner is not None and isinstance(value.op, ast.USub) else inner
    if not isinstance(value, ast.BinOp):
        return None
    left, right = _weight(value.left, text), _weight(value.right, text)
    if left is None or right is None:
        return None
    if isinstance(value.op, (ast.Add, ast.Sub)):
        return left + right if isinstance(value.op, ast.Add) else left - right
    by_left = isinstance(value.op, ast.Mult) and _names(value.right, text)
    factor = _number(value.left if by_left else value.right)
    if not factor or not isinstance(value.op, (ast.Mult, ast.Div)):
        return None
    return right * factor if by_left else left * factor if isinstance(value.op, ast.Mult) else left / factor


def _number(node: ast.expr) -> float | None:
    """The value of a number, or of a sum or difference of two."""
    if isinstance(node, ast.Constant):
        return float(node.value) if isinstance(node.value, (int, float)) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Add, ast.Sub)):
        return None
    left, right = _number(node.left), _number(node.right)
    if left is None or right is None:
        return None
    return left + right if isinstance(node.op, ast.Add) else left - right


def _is_mixed(value: ast.expr, text: str, is_own: Callable[[ast.expr], bool]) -> bool | None:
    """Whether a sum of weighted values has one of a process's own; False: the same on all; None: it is no such sum."""
    if ast.unparse(value) == text:
        return True
    if not _names(value, text):
        return is_own(value)
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, (ast.UAdd, ast.USub)):
        return _is_mixed(value.operand, text, is_own)
    if not isinstance(value, ast.BinOp):
        return None
    sides = (_is_mixed(value.left, text, is_own), _is_mixed(value.right, text, is_own))
    if None in sides:
        return None
    if isinstance(value.op, (ast.Add, ast.Sub)):
        return True
    is_weighted = isinstance(value.op, ast.Mult) and False in sides
    return True if is_weighted or (isinstance(value.op, ast.Div) and sides[1] is False) else None


def _kept(test: ast.expr, taken: ast.AST, left: ast.AST, text: str) -> str | None:
    """The name of the reduction that `left = taken if taken > left else left` makes."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or ast.unparse(left) != text:
        return None
    sides, operator = [ast.unparse(test.left), ast.unparse(test.comparators[0])], test.ops[0]
    if sorted(sides) != sorted([ast.unparse(taken), text]) or _names(taken, text):
        return None
    is_greater = isinstance(operator, (ast.Gt, ast.GtE))
    if not is_greater and not isinstance(operator, (ast.Lt, ast.LtE)):
        return None
    return "max" if is_greater == (sides[1] == text) else "min"


def _names(node: ast.AST, text: str) -> bool:
    return any(isinstance(n, ast.expr) and ast.unparse(n) == text for n in walk(node))


def additions_in(chains: Chains, loop: ast.AST) -> Iterator[Addition]:
    """The additions that a loop makes, in no function inside it."""
    for node in walk(loop):
        is_target = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store)
        if is_target or isinstance(node, ast.Call):
            found = addition(chains, node)
            if found is not None and found.parts:
                yield found


# Whole statements that add to a variable.


def added_in(loop: ast.AST) -> dict[str, list[ast.AugAssign | ast.Assign]]:
    """The variables to which a loop adds, with the statements that do."""
    found: dict[str, list[ast.AugAssign | ast.Assign]] = {}
    for node in walk(loop):
        target = _added_to(node)
        if target is not None:
            assert isinstance(node, (ast.AugAssign, ast.Assign))
            found.setdefault(target, []).append(node)
    return found


def added(node: ast.AugAssign | ast.Assign) -> tuple[ast.expr, ast.expr | None]:
    """Where a statement adds something, and what: `a` and `x` of `a += x` and of `a = a + x`; None if it does not."""
    if isinstance(node, ast.AugAssign):
        return node.target, node.value if isinstance(node.op, ast.Add) else None
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Name) and len(node.targets) == 1 and isinstance(value, ast.BinOp):
        for side, other in ((value.left, value.right), (value.right, value.left)):
            is_there = isinstance(side, ast.Name) and side.id == target.id
            if is_there and isinstance(value.op, ast.Add) and target.id not in names_in(other):
                return target, other
    return target, None


def _added_to(node: ast.AST) -> str | None:
    """`a` of `a += x` and of `a = a + x`."""
    target, value = added(node) if isinstance(node, (ast.AugAssign, ast.Assign)) else (None, None)
    return target.id if isinstance(target, ast.Name) and value is not None else None


class Renewals:
    """Which attributes of an object does each round of a loop set anew before it reads them?

    model.set_input(batch)
    model.optimize()
    """

    def __init__(self, chains: Chains) -> None:
        self.chains = chains
        self.program = chains.program
        self._known: dict[tuple[Scope, str, bool], bool] = {}
        self._set: dict[tuple[ast.Call, str, ast.AST], bool] = {}

    def are_set(self, call: ast.Call, name: str, loop: ast.For | ast.AsyncFor | ast.While) -> bool:
        """Whether the methods of a call's object that a loop runs set an attribute before any of them reads it."""
        key = (call, name, loop)
        if key not in self._set:
            self._set[key] = self._are_set(*key)
        return self._set[key]

    def _are_set(self, call: ast.Call, name: str, loop: ast.For | ast.AsyncFor | ast.While) -> bool:
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        body = [n for s in loop.body for n in walk(s)]
        is_read = any(isinstance(n, ast.Attribute) and n.attr == name and ast.unparse(n.value) == owner for n in body)
        if not owner or is_read or call not in body:
            return False
        calls = [n for n in body if isinstance(n, ast.Call) and _object(n) == owner]
        is_set = any(self._has(c, name, sets=True) for c in calls)
        return is_set and not self._is_exposed(calls, [], [], name, loop)

    def _is_exposed(
        self, calls: list[ast.Call], reads: list[ast.Attribute], stores: list[ast.AST], name: str, node: ast.AST
    ) -> bool:
        """Whether an attribute may be read, by some reads or in some calls, before a store or a call has set it."""
        sets = [*stores, *(c for c in calls if self._has(c, name, sets=True))]
        asks = [*reads, *(c for c in calls if self._has(c, name, sets=False))]
        flow = self.chains.flow(node)
        return not all(flow.is_covered([s for s in sets if s is not ask], ask) for ask in asks)

    def _has(self, call: ast.Call, name: str, *, sets: bool) -> bool:
        """Whether a method surely sets an attribute of its object; or whether it may read one as it was before."""
        found = [self._method(f, name, sets=sets) for f in self.program.flow.callees.get(call, ()) if f.is_method]
        return bool(found) and (all(found) if sets else any(found))

    def _method(self, method: Scope, name: str, *, sets: bool) -> bool:
        key = (method, name, sets)
        if key not in self._known:
            self._known[key] = False  # as far as a method that calls itself says
            self._known[key] = self._sets(method, name) if sets else self._reads(method, name)
        return self._known[key]

    def _sets(self, method: Scope, name: str) -> bool:
        calls, _, stores = self._uses(method, name)
        sure = [*stores, *(c for c in calls if self._has(c, name, sets=True))]
        flow = self.chains.flow(method.node)
        is_sure = any(self.program.statement(n) in method.body for n in sure)
        return is_sure or (bool(sure) and flow.is_covered_after(sure, method.body[-1]))

    def _reads(self, method: Scope, name: str) -> bool:
        return self._is_exposed(*self._uses(method, name), name, method.node)

    def _uses(self, method: Scope, name: str) -> tuple[list[ast.Call], list[ast.Attribute], list[ast.AST]]:
        """The calls of a method that its own object gets, and the reads and stores of one attribute."""
        own = method.parameters[0].arg if method.parameters else ""
        nodes = [n for s in method.body for n in walk(s)]
        parts = [n for n in nodes if isinstance(n, ast.Attribute) and n.attr == name and ast.unparse(n.value) == own]
        stores: list[ast.AST] = [n for n in parts if self._is_replaced(n)]
        calls = [n for n in nodes if isinstance(n, ast.Call) and _object(n) in (own, "super()")]
        return calls, [n for n in parts if n not in stores], stores

    def _is_replaced(self, part: ast.Attribute) -> bool:
        """Whether another value is put into an attribute, or under a key of it: `self.log["loss"] = x`."""
        holder = self.program.parent(part)
        is_key = isinstance(holder, ast.Subscript) and holder.value is part and isinstance(holder.slice, ast.Constant)
        target = holder if is_key and holder is not None else part
        is_stored = isinstance(target, (ast.Attribute, ast.Subscript)) and isinstance(target.ctx, ast.Store)
        return is_stored and not isinstance(self.program.parent(target), ast.AugAssign)


def _object(call: ast.Call) -> str:
    """`model` of `model.step(x)`, and of `model(x)`."""
    return ast.unparse(call.func.value if isinstance(call.func, ast.Attribute) else call.func)
