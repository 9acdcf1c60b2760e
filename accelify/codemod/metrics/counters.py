"""What comes out the same in every process, though each draws data of its own: what is calculated from counters."""

from __future__ import annotations

import ast
from collections.abc import Collection

from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, names_in
from accelify.codemod.semantics.values import Element

_COUNTS = ("range", "tqdm", "trange", "enumerate", "count")
_CALCULATES = ("min", "max", "int", "float", "bool", "len", "round", "abs", "pow", "sum")
_LIBRARIES = ("math.", "numpy.")
_PARTS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript, ast.Tuple, ast.List, ast.Slice)
_DEPTH = 8


class Counted:
    """Follow values through what the loops of the training calculate; what was there before them is the same anyhow."""

    def __init__(self, program: Program, tracer: Tracer, loops: Collection[ast.AST]) -> None:
        self.program = program
        self.tracer = tracer
        self.loops = loops
        self._open: set[ast.AST] = set()  # a counter goes on from what it was
        self._within: set[ast.AST] = set()

    def is_set_alike(self, statement: ast.Assign | ast.AugAssign) -> bool:
        """Whether a statement certainly sets the same value in every process, while they go on together."""
        self._within = set(self.program.loops_round(statement))
        return self.is_common(statement.value) and self._leads_to(statement)

    def _leads_to(self, node: ast.AST) -> bool:
        """Whether a node's function gets to it, and as often as that, in every process."""
        frame = self.program.frame(node)
        around = [a for a in self.program.ancestors(node) if self.program.frame(a) is frame]
        if not all(self.is_common(a.test) for a in around if isinstance(a, (ast.If, ast.While))):
            return False
        return all(self._goes_round_alike(loop) for loop in around if isinstance(loop, LOOPS))

    def _goes_round_alike(self, loop: ast.AST) -> bool:
        """Whether no process leaves a round, or has rounds of its own in a loop that is not the training's."""
        if loop not in self._within and isinstance(loop, ast.For) and not self._is_common_loop(loop):
            return False
        for node in ast.walk(loop):
            leaves = isinstance(node, ast.Continue) or (isinstance(node, ast.Break) and loop not in self._within)
            if leaves and self.program.loops_round(node)[0] is loop:
                tests = [a.test for a in self.program.ancestors(node) if isinstance(a, ast.If)]
                if not all(map(self.is_common, tests)):
                    return False
        return True

    def is_common(self, node: ast.AST | None, depth: int = _DEPTH) -> bool:
        """Whether an expression certainly has the same value in every process."""
        if node is None or not depth:
            return False
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        return isinstance(node, _PARTS) and all(self.is_common(p, depth) for p in parts)

    def _name(self, name: ast.Name, depth: int) -> bool:
        owner = self.program.scope(name).owner(name.id)
        writes = [] if owner is None else self.tracer.writes(owner, name.id)
        return all(self._write(owner, w, depth) for w in writes if owner is not None)

    def _attribute(self, node: ast.Attribute, depth: int) -> bool:
        if any(isinstance(v, Element) for v in self.program.values(node.value)):
            return False
        writes = self.program.attribute_writes.get(node.attr, ())
        return self.is_common(node.value, depth) and all(self._write(None, w, depth) for w in writes)

    def _call(self, call: ast.Call, depth: int) -> bool:
        given = [*call.args, *(k.value for k in call.keywords)]
        called = self.program.called(call)
        if called and all(n in _CALCULATES or (n.startswith(_LIBRARIES) and ".random" not in n) for n in called):
            return all(self.is_common(a, depth) for a in given)
        callees = self.program.flow.callees.get(call, set())
        return bool(callees) and all(self._returned(f, depth - 1) for f in callees)

    def _returned(self, function: Scope, depth: int) -> bool:
        returns = [n for s in function.body for n in ast.walk(s) if isinstance(n, ast.Return)]
        return all(self.is_common(r.value, depth) and self._leads_to(r) for r in returns)

    # What gives a name or an attribute its value.

    def _write(self, owner: Scope | None, write: ast.AST, depth: int) -> bool:
        if write in self._open or self._is_before(write):
            return True
        if isinstance(write, ast.arg) and owner is not None:
            return self._parameter(owner, write, depth)
        if not isinstance(write, ast.expr):
            return False
        self._open.add(write)
        found = self._given(write, depth - 1) and self._leads_to(write)
        self._open.discard(write)
        return found

    def _is_before(self, write: ast.AST) -> bool:
        """Whether a value is there before the training begins: the module's, or of a function that holds its loops."""
        frame = self.program.frame(write)
        if isinstance(write, (ast.alias, ast.FunctionDef, ast.ClassDef)) or frame.name == "__init__":
            return True
        holds = frame.kind == "module" or any(self.program.frame(loop) is frame for loop in self.loops)
        return holds and not any(self.program.inside(write, loop) for loop in self.loops)

    def _parameter(self, function: Scope, parameter: ast.arg, depth: int) -> bool:
        if function.is_method and function.parameters[:1] == [parameter]:
            return True
        calls = self.program.calls_of(function)
        return bool(calls) and all(self._argument(c, function, parameter.arg, depth - 1) for c in calls)

    def _argument(self, call: ast.Call, function: Scope, name: str, depth: int) -> bool:
        given = self.tracer.argument(call, function, name)
        if given is not None:
            return self.is_common(given, depth)
        unpacks = [*(isinstance(a, ast.Starred) for a in call.args), *(k.arg is None for k in call.keywords)]
        return not any(unpacks)  # else it is the default, which was there before

    def _given(self, write: ast.expr, depth: int) -> bool:
        statement = self.program.statement(write)
        if isinstance(statement, ast.For) and self.program.inside(write, statement.target):
            return self._counter(statement, write, depth)
        if isinstance(statement, ast.AugAssign):
            return self.is_common(statement.value, depth)
        value = self.tracer.assigned(write)
        return value is not None and self.is_common(value, depth)

    def _counter(self, loop: ast.For, target: ast.expr, depth: int) -> bool:
        """`epoch` of `for epoch in range(epochs)`; `i` of `for i, batch in enumerate(batches)`."""
        if isinstance(loop.iter, ast.Call) and _name(loop.iter) == "enumerate":
            return isinstance(loop.target, ast.Tuple) and loop.target.elts[0] is target
        return self._is_common_loop(loop, depth)

    def _is_common_loop(self, loop: ast.For, depth: int = _DEPTH) -> bool:
        """Whether a loop goes over the same in every process."""
        if isinstance(loop.iter, ast.Call):
            return _name(loop.iter) in _COUNTS and all(self.is_common(a, depth) for a in loop.iter.args)
        return self.is_common(loop.iter, depth) and not names_in(loop.iter) & names_in(loop.target)


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]
