"""Is a condition about how high or low losses are, or whether they are numbers, and nothing else of a rank's own?"""

from __future__ import annotations

import ast
from collections.abc import Callable
from enum import Enum

from accelify.codemod.libraries import methods
from accelify.codemod.libraries.row import Row, Rows, Trait
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.semantics.definitions import Definition, Kind
from accelify.codemod.semantics.scopes import returned
from accelify.codemod.training.losses import all_losses

_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_CONNECTING = (ast.BoolOp, ast.IfExp, ast.NamedExpr, ast.List, ast.Tuple, ast.Set, ast.Starred)
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)
_REDUCED = frozenset({Rows.EACH, Rows.MEAN, Rows.SUM, Rows.EXTREME, Rows.LAST})
_NUMBERS = frozenset({Trait.SCALAR, Trait.SAME_VALUES, Trait.GREATER, Trait.LESS, Trait.ADDS})
_FREE = frozenset({Mark.DRAW, Mark.PICKED, Mark.CLOCK})
_CHOOSING = (ast.If, ast.While, ast.IfExp)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp)
_DEPTH = 3  # variables and functions that a question is followed through


class Answer(str, Enum):
    """How ranks come to one answer to a question: as the first has it, or by a reduction of what all have."""

    FIRST = "first"
    ANY = "max"
    ALL = "min"


_OTHER: dict[Answer, Answer] = {Answer.ANY: Answer.ALL, Answer.ALL: Answer.ANY}
_JOINING: dict[Answer, tuple[type[ast.AST], ...]] = {Answer.ANY: (ast.Or, ast.BitOr), Answer.ALL: (ast.And, ast.BitAnd)}
_ASKING: dict[Answer, Trait] = {Answer.ANY: Trait.NOT_FINITE, Answer.ALL: Trait.FINITE}


class _Tests:
    """Follow the parts of a condition."""

    def __init__(self, metrics: Metrics) -> None:
        self.ranks = metrics.ranks
        self.program = metrics.measured.program
        self.chains = metrics.measured.chains

    def _is_truth(self, call: ast.Call) -> bool:
        """`bool(x)`, `any(x)`, `x.all()`, `x.item()`"""
        rows = self.chains.kinds.called(call) or ()
        return bool(rows) and all(row.has(Trait.TRUTH) or row.has(Trait.SAME_VALUES) for row in rows)

    def _given(self, call: ast.Call) -> list[ast.expr]:
        """What a call is given: the object first whose method it is."""
        method = self.chains.kinds.method(call)
        owner = [method.value] if method is not None else []
        return [*owner, *call.args, *(k.value for k in call.keywords)]

    def _sources(self, node: ast.expr) -> list[ast.expr | None]:
        """What a variable may hold, or a function of the project's own return; None for what is not known."""
        if isinstance(node, ast.Call):
            return returned(self.program.flow.callees.get(node, ()))
        found = self.chains.definitions(node) if isinstance(node, (ast.Name, ast.Attribute)) else ()
        return [value for d in found for value in self._put_in(d)]

    def _put_in(self, definition: Definition) -> list[ast.expr | None]:
        """What a definition may give a variable."""
        node, (_, holder) = definition.node, self.program.binding(definition.node)
        if definition.kind is Kind.PARAMETER and isinstance(node, ast.arg):
            function = self.program.frame(node)
            calls = self.program.calls_of(function)
            return [a for c in calls for a in self.chains.tracer.arguments(c, function, node.arg)]
        if definition.kind is Kind.IN_PLACE and isinstance(node, ast.Call):
            return [*node.args]
        if isinstance(holder, ast.comprehension):
            return [holder.iter]
        if isinstance(holder, (ast.AugAssign, ast.NamedExpr)):
            return [holder.value]
        return [self.chains.tracer.assigned(node) if isinstance(node, ast.expr) else None]


class LossComparisons(_Tests):
    """Ask whether all that makes a condition a rank's own are comparisons of the losses on which backward passes run.

    Any rank may answer such a condition for all, as it may draw or look at the clock for all. One that asks whether a
    batch has a loss at all (`isnan(loss)`, `mask.sum() > 0`) it may not: the answer is about its own batch.
    """

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        losses = all_losses(self.program, metrics.measured.training.backwards)
        self._texts = {ast.unparse(loss) for loss in losses}
        self._defined = {d for loss in losses if isinstance(loss, ast.Name) for d in self.chains.definitions(loss)}
        self._asked: set[tuple[ast.expr, bool]] = set()

    def decide(self, test: ast.expr) -> bool:
        """Whether a condition, as far as it differs between ranks, goes by how losses compare."""
        self._asked.clear()
        return self._answers(test)

    def _answers(self, node: ast.expr) -> bool:
        """Whether a value is true or false by how losses compare."""
        if not self.ranks.is_own(node) or (node, True) in self._asked:
            return True
        self._asked.add((node, True))  # what is updated from itself
        if isinstance(node, ast.Compare):
            is_ordered = all(isinstance(op, _ORDER) for op in node.ops)
            return is_ordered and all(map(self._measures, (node.left, *node.comparators)))
        is_negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert))
        is_bitwise = isinstance(node, ast.BinOp) and isinstance(node.op, _BITS)
        if isinstance(node, _CONNECTING) or is_bitwise or is_negated:
            return all(map(self._answers, _operands(node)))
        if isinstance(node, _COMPREHENSIONS):
            return not any(g.ifs for g in node.generators) and self._answers(node.elt)
        if isinstance(node, ast.Call) and not self.program.flow.callees.get(node):
            return self._is_truth(node) and all(map(self._answers, self._given(node)))
        return self._is_made(node, self._answers)

    def _measures(self, node: ast.expr) -> bool:
        """Whether a value is a loss, or a number that is worked out from losses."""
        if not self.ranks.is_own(node) or (node, False) in self._asked or self._is_loss(node) or self._is_free(node):
            return True
        self._asked.add((node, False))
        if isinstance(node, (*_CONNECTING, ast.BinOp, ast.UnaryOp)):
            return all(map(self._measures, _operands(node)))
        if isinstance(node, ast.Subscript):
            return self._measures(node.value) and not self.ranks.is_own(node.slice)
        if isinstance(node, ast.Attribute) and methods.is_view(node.attr):
            return self._measures(node.value)
        if isinstance(node, _COMPREHENSIONS):
            return not any(g.ifs for g in node.generators) and self._measures(node.elt)
        if isinstance(node, ast.Call) and not self.program.flow.callees.get(node):
            rows = self.chains.kinds.called(node)
            is_number = bool(rows) and all(map(_gives_number, rows or ()))
            return is_number and all(map(self._measures, self._given(node)))
        return self._is_made(node, self._measures)

    def _is_loss(self, node: ast.expr) -> bool:
        if ast.unparse(node) in self._texts:
            return True
        found = self.chains.definitions(node) if isinstance(node, ast.Name) else frozenset()
        return bool(found) and found <= self._defined

    def _is_free(self, node: ast.expr) -> bool:
        """Whether a call says nothing of a rank's data: it draws, or reads the clock."""
        return isinstance(node, ast.Call) and all(o.mark in _FREE for o in self.ranks.of(node).origins if o.differs)

    def _is_made(self, node: ast.expr, is_such: Callable[[ast.expr], bool]) -> bool:
        """Whether all that a variable may hold, or a function return, is of a kind; and so is what chooses it."""
        chosen = [o.node for o in self.ranks.of(node).of(Mark.CHOSEN) if o.differs]
        if not all(isinstance(c, _CHOOSING) and self._answers(c.test) for c in chosen):
            return False
        values = self._sources(node)
        return bool(values) and all(value is not None and is_such(value) for value in values)


class NumberChecks(_Tests):
    """Ask whether all that makes a condition a rank's own is whether values are finite numbers: `torch.isnan(loss)`.

    What one rank finds holds for all then: a loss that is NaN for its part of a batch is NaN for the whole batch.
    """

    def answer(self, test: ast.expr) -> Answer | None:
        """How all come to one: true where it is on any rank, or on all of them; None for other questions."""
        asked = _OTHER if self.ranks.is_own(test) else ()
        return next((how for how in asked if self._is_answered(test, how, _DEPTH)), None)

    def _is_answered(self, node: ast.expr, how: Answer, depth: int) -> bool:
        """Whether the answer for all data is the greatest, or least, of those for their parts."""
        if not self.ranks.is_own(node):
            return True
        if isinstance(node, ast.Compare):  # `loss != loss`, which only NaN is
            is_same = len(node.ops) == 1 and ast.unparse(node.left) == ast.unparse(node.comparators[0])
            return is_same and isinstance(node.ops[0], ast.NotEq if how is Answer.ANY else ast.Eq)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, (ast.Not, ast.Invert)) and self._is_answered(node.operand, _OTHER[how], depth)
        if isinstance(node, (ast.BoolOp, ast.BinOp)):
            own = list(filter(self.ranks.is_own, _operands(node)))
            is_joined = len(own) == 1 or isinstance(node.op, _JOINING[how])
            is_logical = isinstance(node, ast.BoolOp) or isinstance(node.op, _BITS[:2])
            return is_logical and is_joined and all(self._is_answered(n, how, depth) for n in own)
        if isinstance(node, ast.Call) and not self.program.flow.callees.get(node):
            rows = self.chains.kinds.called(node) or ()
            if rows and all(row.has(_ASKING[how]) for row in rows):
                return True
            return self._is_truth(node) and all(self._is_answered(n, how, depth) for n in self._given(node))
        values = self._sources(node) if depth and not self.ranks.of(node).of(Mark.CHOSEN) else []
        return bool(values) and all(v is not None and self._is_answered(v, how, depth - 1) for v in values)


def _operands(node: ast.expr) -> list[ast.expr]:
    """The values that an expression is made of; not the target of `(n := x)`."""
    if isinstance(node, ast.NamedExpr):
        return [node.value]
    return [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]


def _gives_number(row: Row) -> bool:
    """Whether a call works out a number from numbers: not one of the questions like `isnan`."""
    return not row.has(Trait.TRUTH) and (row.rows in _REDUCED or any(map(row.has, _NUMBERS)))
