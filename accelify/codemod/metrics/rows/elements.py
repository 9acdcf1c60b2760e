"""Which values of a loop are numbers, which can be gathered, and which have a row for each of the batch?"""

from __future__ import annotations

import ast

from accelify.codemod.libraries import methods, names
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.rows.trims import is_of_each_row, is_of_loss, object_of, rows_of
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.harmless import Harmless

_BATCH = ast.Constant(None)
_DEPTH = 4


class Elements:
    """Tells it of expressions in a loop; a starred one stands for its elements."""

    def __init__(self, program: Program, tracer: Tracer, harmless: Harmless, loop: ast.For | ast.AsyncFor) -> None:
        self.program = program
        self.tracer = tracer
        self.harmless = harmless
        self.loop = loop

    def is_number(self, value: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a value is a number, not a tensor of one."""
        if isinstance(value, ast.Starred):
            return isinstance(value.value, ast.Call) and methods.gives_numbers(_method(value.value))
        if self.program.once(Kinds).of(value) == {"number"}:
            return True
        if isinstance(value, ast.Constant):
            return isinstance(value.value, (int, float))
        if isinstance(value, ast.BinOp):
            others = [v for v in (value.left, value.right) if not self.is_number(v, depth)]
            return len(others) < 2 and all(map(self._is_setting, others))
        if isinstance(value, ast.Name):
            given = self._given(value.id)
            return bool(depth and given) and all(self.is_number(v, depth - 1) for v in given)
        if not isinstance(value, ast.Call):
            return False
        called = self.program.called(value)
        if any(map(names.gives_what_it_is_given, called)):
            return all(self.is_number(v, depth) for v in value.args)
        return methods.gives_numbers(_method(value)) or any(map(names.gives_a_number, called))

    def _is_setting(self, factor: ast.expr) -> bool:
        """Whether a factor is none of the loop's values, and no tensor as far as is known: `config["weight"]`."""
        if isinstance(factor, ast.BinOp):
            return all(self.is_number(v) or self._is_setting(v) for v in (factor.left, factor.right))
        around = [factor]
        while isinstance(part := around[-1], (ast.Attribute, ast.Subscript)):
            around.append(part.value)
        keys = [part.slice for part in around if isinstance(part, ast.Subscript)]
        if not isinstance(around[-1], ast.Name) or not all(isinstance(key, ast.Constant) for key in keys):
            return False
        stored = {ast.unparse(n) for n in ast.walk(self.loop) if isinstance(getattr(n, "ctx", None), ast.Store)}
        is_made = any(isinstance(v, Made) for v in self.program.values(factor))
        kinds = self.program.once(Kinds).of(factor)
        return stored.isdisjoint(map(ast.unparse, around)) and not is_made and kinds <= {"number", UNKNOWN}

    def has_rows(self, value: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether the elements of a value are the batch's rows, or numbers of theirs, in their order.

        seen: the variables that the value is computed from: `y = y.to(device)`.
        """
        if isinstance(value, ast.Name):
            given = [] if self.is_number(value) else self._given(value.id, in_parts=True)
            others = [v for v in given if v is not _BATCH]
            within = seen | {value.id}
            return value.id in seen or (bool(given) and all(self.has_rows(v, within) for v in others))
        if any(map(self.may_select, ast.walk(value))):
            return False
        if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
            return self.has_rows(value.generators[0].iter, seen)
        if isinstance(value, (ast.Subscript, ast.Attribute)):
            is_turned = isinstance(value, ast.Attribute) and methods.reorders(value.attr)
            return not is_turned and self.has_rows(value.value, seen)
        if isinstance(value, ast.Compare):
            return self.has_rows(value.left, seen)
        if isinstance(value, ast.BinOp):
            return self.has_rows(value.left, seen) or self.has_rows(value.right, seen)
        if not isinstance(value, ast.Call) or _folds(value):
            return False
        if self.harmless.is_of_module(value):
            return not is_of_loss(self.program, value)
        inner = object_of(self.program, value) or next(iter(value.args), None)
        return is_of_each_row(self.program, value) and inner is not None and self.has_rows(inner, seen)

    def has_no_graph(self, value: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether nothing can be learned from a value: data, arrays, answers, places of the largest, what is detached.

        seen: the variables that the value is made from: `x, y = x.to(device), y.to(device)`.
        """
        if self.program.once(Kinds).of(value) == {"ndarray"}:
            return True
        if isinstance(value, ast.Name):
            given, within = self._given(value.id, in_parts=True), seen | {value.id}
            return value.id in seen or (bool(given) and all(v is _BATCH or self.has_no_graph(v, within) for v in given))
        if isinstance(value, ast.Subscript):
            return (self._is_of_pair(value) and _is_second(value.slice)) or self.has_no_graph(value.value, seen)
        if isinstance(value, ast.Attribute):
            is_value = methods.leaves_the_graph(value.attr) or _is_second(value)
            return is_value or self.has_no_graph(value.value, seen)
        if not isinstance(value, ast.Call):
            return isinstance(value, ast.Compare)
        if any(row.has(Trait.LEAVES_GRAPH) for row in rows_of(self.program, value)):
            return True
        return methods.keeps_values(_method(value)) and self.has_no_graph(value.func, seen)

    def may_select(self, node: ast.AST) -> bool:
        """Whether a part of an expression may take some of the rows, or none: `y[y > 0]`, `[total, 0]`."""
        if isinstance(node, ast.Subscript):
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            is_whole = isinstance(first, ast.Slice) and not (first.lower or first.upper or first.step)
            is_key = isinstance(first, ast.Constant) and (isinstance(first.value, str) or first.value is ...)
            return not (is_whole or is_key or self._is_of_pair(node))
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return len(node.generators) > 1 or bool(node.generators[0].ifs)
        return isinstance(node, ast.List)

    def _is_of_pair(self, node: ast.Subscript) -> bool:
        """Whether a part is one of the two tensors of `x.max(1)`, which have a row for each of the batch."""
        call = node.value
        if not isinstance(call, ast.Call) or not isinstance(node.slice, ast.Constant):
            return False
        rows = rows_of(self.program, call)
        gives_pair = bool(rows) and all(row.has(Trait.WITH_PLACES) for row in rows)
        return gives_pair and type(node.slice.value) is int and is_of_each_row(self.program, call)

    def is_plain(self, value: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a value can be handed from process to process: numbers, arrays, tensors."""
        if isinstance(value, ast.Starred):
            return self.is_plain(value.value, depth)
        if self.is_number(value, depth) or isinstance(value, ast.Constant):
            return True
        if isinstance(value, (ast.Tuple, ast.List)):
            return all(self.is_plain(e, depth) for e in value.elts)
        if isinstance(value, ast.BinOp):
            return self.is_plain(value.left, depth) and self.is_plain(value.right, depth)
        if isinstance(value, ast.Name):
            given = self._given(value.id, in_parts=True)
            return bool(depth and given) and all(self.is_plain(v, depth - 1) for v in given)
        if isinstance(value, (ast.Subscript, ast.Attribute)):
            return self.is_plain(value.value, depth)
        return isinstance(value, ast.Call) and self._gives_what_is_plain(value, depth)

    def _gives_what_is_plain(self, call: ast.Call, depth: int) -> bool:
        """Whether a call does: one of a model, of a library for tensors and arrays, or a method of what is plain."""
        if methods.brings_to_the_host(_method(call)) or any(map(names.gives_values, self.program.called(call))):
            return True
        if self.harmless.is_of_module(call):
            return True
        return isinstance(call.func, ast.Attribute) and self.is_plain(call.func.value, depth)

    def _given(self, name: str, *, in_parts: bool = False) -> list[ast.expr]:
        """The values assigned to a variable in a loop, on request in a part of it too; none where some are not known.

        A part of the batch stands for a loader's batches, which came from another process often enough.
        """
        found: list[ast.expr] = []
        for node in ast.walk(self.loop):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                value = self.tracer.assigned(node)
                statement = self.program.statement(node)
                if value is None and in_parts and statement is self.loop:
                    value = _BATCH
                elif value is None and in_parts and isinstance(statement, ast.Assign):
                    value = self._part(statement, node)
                if value is None:
                    return []
                if not isinstance(value, ast.Name) or value.id != name:
                    found.append(value)
        return found

    def _part(self, statement: ast.Assign, name: ast.Name) -> ast.expr:
        """What a variable gets of several: the second of `best, places = out.max(1)`, or anything of the others."""
        value, targets = statement.value, self.program.parent(name)
        if not isinstance(targets, ast.Tuple):
            return value
        part = ast.Subscript(value, ast.Constant(targets.elts.index(name)), ast.Load())
        return part if self._is_of_pair(part) else value


def _is_second(part: ast.expr) -> bool:
    """`1` of `out.max(1)[1]`, `out.max(1).indices`: where the largest are."""
    return part.attr == "indices" if isinstance(part, ast.Attribute) else getattr(part, "value", None) == 1


def _folds(call: ast.Call) -> bool:
    """Whether a call may make other rows of those of a batch: `x.view(-1, classes)`, `x.flatten(0, 1)`, `x.t()`."""
    sizes = [ast.unparse(size) for size in call.args[1:]] if methods.keeps_values(_method(call)) else []
    numbers = [a.value for a in call.args if isinstance(a, ast.Constant)]
    return methods.reorders(_method(call)) or 0 in numbers or not {*sizes} <= {"1", "-1"}


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
