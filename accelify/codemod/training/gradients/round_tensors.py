"""Which tensors does each round of a loop over data make for itself, so that their gradients are its own?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods
from accelify.codemod.libraries.row import Row, Trait
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.definitions import Definition, Kind
from accelify.codemod.semantics.flow_graph import Loop
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import Element
from accelify.codemod.training.roles import Roles


class RoundTensors:
    """Follow tensors back to where their memory was made: in a round of one of some loops over data, or before it.

    No other round has what a round makes for itself, and no other process: `delta = torch.zeros_like(x)` of an attack.
    """

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, loops: Iterable[Loop]) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.chains = program.once(Chains)
        self._loops = frozenset(loops)
        nodes = (n for loop in self._loops for statement in loop.body for n in walk(statement))
        calls = [n for n in nodes if isinstance(n, ast.Call)]
        self._run: set[Scope] = program.run_through(calls)

    def holds(self, node: ast.expr) -> bool:
        """Whether an expression gives only tensors that the round makes in which it is evaluated."""
        seen: set[ast.expr] = set()
        queue = [node]
        while queue:
            each = queue.pop()
            if each not in seen:
                seen.add(each)
                sources = self._sources(each) if self._is_in_round(each) else None
                if sources is None:
                    return False
                queue += sources
        return True

    def _is_in_round(self, node: ast.AST) -> bool:
        return self.program.frame(node) in self._run or self._loop_round(node) is not None

    def _loop_round(self, node: ast.AST) -> Loop | None:
        """The loop over data in whose function a node stands, and whose rounds evaluate it."""
        return next((loop for loop in self.program.loops_round(node) if loop in self._loops), None)

    def _sources(self, node: ast.expr) -> list[ast.expr] | None:
        """The expressions whose tensors one gives, none where it makes its own; None for a tensor from elsewhere."""
        if isinstance(node, (ast.BinOp, ast.UnaryOp)) or self._is_of_batch(node):
            return []
        if isinstance(node, ast.Name):
            return self._given(node)
        if isinstance(node, ast.Attribute):
            return [node.value] if methods.is_view(node.attr) or node.attr == "grad" else None
        if isinstance(node, ast.Subscript):
            return [node.value]
        if isinstance(node, ast.IfExp):
            return [node.body, node.orelse]
        return self._called(node) if isinstance(node, ast.Call) else None

    def _is_of_batch(self, node: ast.expr) -> bool:
        held = self.program.values(node)
        return bool(held) and all(isinstance(v, Element) and self.roles.is_loader(v.owner) for v in held)

    def _given(self, name: ast.Name) -> list[ast.expr] | None:
        """What a variable gets in the round in which it is read; None where a round may keep it for the next."""
        found = [d for d in self.chains.definitions(name) if d.kind not in (Kind.IN_PLACE, Kind.AUGMENTED)]
        loop, places = self._loop_round(name), [d.node for d in found]
        is_kept = loop is not None and self.program.control_flow(name).reaches(loop, name, without=places)
        given = [self._values(d, name) for d in found]
        return None if is_kept or not found or None in given else [v for each in given for v in each or ()]

    def _values(self, definition: Definition, read: ast.Name) -> list[ast.expr] | None:
        node, frame = definition.node, self.program.frame(definition.node)
        if definition.variable.scope is not frame or (frame is not self.program.frame(read) and frame not in self._run):
            return None  # a variable that outlives the call, or the round
        if isinstance(node, ast.arg):
            given = [self.tracer.argument(call, frame, node.arg) for call in self.program.calls_of(frame)]
            return None if not given or None in given else [g for g in given if g is not None]
        value = self.tracer.assigned(node) if isinstance(node, ast.expr) else None
        if definition.kind is Kind.ASSIGNMENT and value is not None:
            return [value]
        if definition.kind is Kind.LOOP and self.program.binding(node)[1] in self._loops:
            return []
        return [] if isinstance(node, ast.expr) and self._is_in_round(node) and self._is_of_batch(node) else None

    def _called(self, call: ast.Call) -> list[ast.expr] | None:
        """The tensors that a call gives again: the object of a method, a first argument, what a function returns."""
        callees = self.program.flow.callees.get(call)
        if callees:
            results = [r for r in returned(callees) if r is not None]
            return results or None
        rows = self.chains.kinds.called(call) or ()
        if not rows or any(row.returns not in ("tensor", "self", "argument") for row in rows):
            return None
        function = call.func
        is_method = isinstance(function, ast.Attribute) and not self.chains.kinds.name_of(function)
        given = [function.value] if is_method and isinstance(function, ast.Attribute) else call.args[:1]
        return given if any(map(_gives_again, rows)) else []


def _gives_again(row: Row) -> bool:
    """Whether a result may share its memory with what the call is given."""
    is_same = row.returns != "tensor" or row.has(Trait.VIEW) or row.has(Trait.SAME_VALUES)
    return is_same and not row.has(Trait.COPIES)


def owners_of_gradients(node: ast.AST) -> Iterator[ast.expr]:
    """`delta` of `delta.grad`, for all gradients in a node."""
    return (n.value for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr == "grad")
