"""What may one process alone run? What runs nothing that the processes do together, and changes nothing.

That is: no backward pass, no forward, no pass over a loader, no random numbers, no way out of a block. What a statement
binds is looked at elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.outputs import Effect, Outputs

_ADDS = frozenset("append extend insert".split())
_BLOCKS = ("body", "orelse", "finalbody")
_DEPTH = 3
_LOCAL = (
    *(ast.Return, ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Raise, ast.Assert, ast.Pass),
    *(ast.Break, ast.Continue, ast.Import, ast.ImportFrom),
)


class Calm:
    """Look at expressions, statements, and the project's own functions."""

    def __init__(
        self, program: Program, outputs: Outputs, files: set[str], accelerator: Callable[[ast.AST], str | None]
    ) -> None:
        self.program = program
        self.outputs = outputs
        self.files = files
        self.accelerator = accelerator
        self._inside: dict[Scope, Effect | None] = {}

    def does(self, statement: ast.stmt) -> Effect:
        """The strongest effect that a statement has."""
        effects = [self.effect(n) for n in ast.walk(statement) if isinstance(n, ast.Call)]
        return max((e for e in effects if e is not None), key=lambda e: e.value, default=Effect.NOTHING)

    def effect(self, call: ast.Call) -> Effect | None:
        """What a call does, the project's own functions included."""
        if self.becomes_a_save(call):
            return None
        callees = self.program.flow.callees.get(call)
        if not callees:
            return Effect.NOTHING if self._changes_its_own(call) else self.outputs.effect(call)
        effects = {self._of_function(f) for f in callees}
        return None if None in effects else max((e for e in effects if e is not None), key=lambda e: e.value)

    def _changes_its_own(self, call: ast.Call) -> bool:
        """Whether a call changes in place what a function that is looked into has made itself: `out.clamp_(0, 1)`."""
        function = call.func
        if not isinstance(function, ast.Attribute) or not function.attr.endswith("_"):
            return False
        frame = self.program.frame(call)
        return frame in self._inside and self._is_local(function.value, frame)

    def becomes_a_save(self, call: ast.Call) -> bool:
        """Whether a call becomes `accelerator.save`, which every process may call."""
        return (
            "torch.save" in self.program.called(call)
            and self.accelerator(call) is not None
            and self.program.path(call) in self.files
            and not any(map(self.outputs.is_a_writer, call.args[1:2]))  # opened by every process before
        )

    def may(self, statement: ast.stmt, refused: Collection[ast.stmt] = ()) -> bool:
        """Whether one process alone may run a statement, if nothing else reads what it binds."""
        if statement in refused:
            return False
        if isinstance(statement, ast.Pass):
            return True
        if isinstance(statement, ast.Expr):
            return isinstance(statement.value, ast.Call) and (
                self._only_adds(statement.value) or self.is_calm(statement.value)
            )
        if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            return self._may_assign(statement)
        if isinstance(statement, ast.If):
            return self.is_calm(statement.test) and all(
                self.may(s, refused) for s in [*statement.body, *statement.orelse]
            )
        if isinstance(statement, ast.For):
            return (
                not statement.orelse
                and _is_plain(statement.target)
                and self.is_calm(statement.iter)
                and not self.outputs.hands_out_data(statement.iter)
                and all(self.may(s, refused) for s in statement.body)
            )
        if isinstance(statement, ast.With):
            items = [(i.context_expr, i.optional_vars) for i in statement.items]
            return all(self.is_calm(e) and (v is None or _is_plain(v)) for e, v in items) and all(
                self.may(s, refused) for s in statement.body
            )
        return False

    def _may_assign(self, statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if statement.value is None or not self.is_calm(statement.value):
            return False
        makes = isinstance(statement.value, ast.Call) and self.effect(statement.value) is Effect.WRITES
        return all(
            _is_plain(t) or (makes and isinstance(t, ast.Attribute) and isinstance(t.value, ast.Name)) for t in targets
        )

    def _only_adds(self, call: ast.Call) -> bool:
        """Whether a call adds to a list of the script's own, which is then bound like a name."""
        function = call.func
        return (
            isinstance(function, ast.Attribute)
            and function.attr in _ADDS
            and isinstance(function.value, ast.Name)
            and not self.program.flow.callees.get(call)
            and all(map(self.is_calm, call.args))
        )

    def is_calm(self, node: ast.expr) -> bool:
        """Whether evaluating an expression changes nothing and needs no other process."""
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and self.effect(part) is None:
                return False
            if isinstance(part, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
                return False
            if isinstance(part, ast.comprehension) and self.outputs.hands_out_data(part.iter):
                return False
        return True

    # Functions.

    def _of_function(self, function: Scope, depth: int = _DEPTH) -> Effect | None:
        """What a function of the project's own does, where the accelerator does not reach; None as for a call."""
        if function not in self._inside:
            self._inside[function] = None  # while it is looked at
            self._inside[function] = self._look_into(function, depth)
        return self._inside[function]

    def _look_into(self, function: Scope, depth: int) -> Effect | None:
        node = function.node
        if not depth or not isinstance(node, ast.FunctionDef) or function.generates or node.decorator_list:
            return None
        if function.declared_global or function.declared_nonlocal or function.name == "__init__":
            return None
        if self.accelerator(node.body[0]) is not None and function.module in self.files:
            effects = [self.outputs.effect(c) for c in ast.walk(node) if isinstance(c, ast.Call)]
            if Effect.WRITES in effects:
                return None  # guarded inside
        if not all(self._may_locally(s, function) for s in node.body):
            return None
        return max((self.does(s) for s in node.body), key=lambda e: e.value)

    def _may_locally(self, statement: ast.stmt, function: Scope) -> bool:
        """Whether a statement changes nothing outside of its function."""
        parts: list[ast.expr] = [n for n in ast.iter_child_nodes(statement) if isinstance(n, ast.expr)]
        inner = [s for name in _BLOCKS for s in getattr(statement, name, ())]
        if isinstance(statement, ast.With):
            parts = [i.context_expr for i in statement.items]
        if isinstance(statement, ast.Try):
            inner += [s for h in statement.handlers for s in h.body]
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return True
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            if self._only_adds(statement.value):
                return self._is_local(statement.value.func.value, function)  # type: ignore[attr-defined]  # checked
        elif isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if not all(_is_plain(t) or self._is_local(t, function) for t in targets):
                return False
        elif not isinstance(statement, _LOCAL):
            return False
        if isinstance(statement, ast.For) and self.outputs.hands_out_data(statement.iter):
            return False
        return all(map(self.is_calm, parts)) and all(self._may_locally(s, function) for s in inner)

    def _is_local(self, target: ast.expr, function: Scope) -> bool:
        """Whether a place is in something that the function itself has made."""
        while isinstance(target, (ast.Subscript, ast.Attribute)):
            target = target.value
        if not isinstance(target, ast.Name) or not function.binds(target.id):
            return False
        made = [self.program.parent(w) for w in function.writes[target.id] if isinstance(w, ast.Name)]
        return len(made) == len(function.writes[target.id]) and all(
            isinstance(a, ast.Assign) and isinstance(a.value, (ast.List, ast.Dict, ast.Call, ast.ListComp, ast.BinOp))
            for a in made
        )


def is_addition(program: Program, node: ast.Name) -> bool:
    """Whether a name is there to be added to: `rows.append(x)`."""
    function = program.parent(node)
    call = program.parent(function) if function is not None else None
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _ADDS
        and isinstance(call, ast.Call)
        and call.func is function
    )


def _is_plain(target: ast.expr) -> bool:
    """Whether only names are bound."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(map(_is_plain, target.elts))
    return isinstance(target, ast.Name)
