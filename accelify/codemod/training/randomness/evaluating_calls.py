"""Which calls in a training loop only evaluate, so that what they draw trains nothing?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.summary import Place
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, method_of_call
from accelify.codemod.semantics.values import Generated, Value, View
from accelify.codemod.training.roles import Roles


class Evaluations:
    """Tell calls that only evaluate by what they run, and by where their results are read.

    frames: what trains. read: the backward passes whose gradients are only read.
    """

    def __init__(
        self, program: Program, roles: Roles, frames: Collection[Scope], read: Collection[ast.Call] = ()
    ) -> None:
        self.program = program
        self.roles = roles
        self.frames = set(frames)
        self.read = set(read)

    def hold(self, node: ast.AST, seen: frozenset[Scope] = frozenset()) -> bool:
        """Whether code is only run by such calls."""
        frame = self.program.frame(node)
        calls = self.program.calls_of(frame) if frame.is_function and frame not in seen else []
        return bool(calls) and all(self._evaluates(c) or self.hold(c, seen | {frame}) for c in calls)

    def asks(self, call: ast.Call) -> bool:
        """Whether what a call gives is for such calls, or for lines of its function from which nothing is learned."""
        return self.hold(call) or not self.is_learned_from(call)

    def reach_no_step(self, node: ast.AST, seen: frozenset[Scope] = frozenset()) -> bool:
        """Whether nothing that a function's code gives or changes gets to a step, wherever the function is called."""
        frame = self.program.frame(node)
        calls = self.program.calls_of(frame) if frame.is_function and frame not in seen else []
        return bool(calls) and all(self._is_apart(c) or self.reach_no_step(c, seen | {frame}) for c in calls)

    def _is_apart(self, call: ast.Call) -> bool:
        changed = [c for c in self.program.once(Chains).changed_by(call) if not self._is_model(c)]
        named = {c.id for c in changed if isinstance(c, ast.Name)}
        trains = bool(self.program.run_through([call]) & self.frames)
        return not trains and len(named) == len(changed) and not self.is_learned_from(call, named)

    def have_loop(self, node: ast.AST) -> bool:
        """Whether code is in a loop of its function that runs a model and does not train."""
        loops = self.program.loops_round(node)
        calls = [n for n in ast.walk(loops[0]) if isinstance(n, ast.Call)] if loops else []
        return any(self._is_model(c.func) for c in calls) and not self._trains(loops[0])

    def _evaluates(self, call: ast.Call) -> bool:
        run = self.program.run_through([call])
        if run & self.frames or not any(map(self._runs_a_model, run)):
            return False
        changed = self.program.once(Chains).changed_by(call)
        changes_only_these = all(self._is_model(n) or self._asks_only(n, call) for n in changed)
        return changes_only_these and not self.is_learned_from(call)

    def _asks_only(self, node: ast.expr, call: ast.Call) -> bool:
        """Whether a call only takes items from an iterator, or from one that an object keeps: `next(self.samples)`."""
        if not isinstance(node, ast.Name):
            return False
        places = self.program.once(Effects).of_call(call).writes
        written = [p for p in places if p.name == node.id and p.scope is self.program.scope(node).owner(node.id)]
        return bool(written) and all(map(self._is_iterator, (self._held(p, node) for p in written)))

    def _held(self, place: Place, node: ast.expr) -> set[Value]:
        attribute = place.path[0] if place.path else ""
        if attribute.startswith("."):
            writes = self.program.attribute_writes.get(attribute[1:], ())
            return {v for w in writes for v in self.program.values(w)} if place.path[1:] in ((), ("*",)) else set()
        return set(self.program.values(node)) if place.path == ("*",) else set()

    @staticmethod
    def _is_iterator(held: Collection[Value]) -> bool:
        return bool(held) and all(isinstance(v, (View, Generated)) for v in held)

    def _runs_a_model(self, scope: Scope) -> bool:
        functions = (c.func for c in self.program.calls_in(scope))
        return any(self._is_model(f) or self._is_model(getattr(f, "value", f)) for f in functions)

    def _is_model(self, node: ast.expr) -> bool:
        return any(map(self.roles.is_model, self.program.values(node)))

    def is_learned_from(self, call: ast.Call, also: Collection[str] = ()) -> bool:
        """Whether what a call gives or changes may get to a step, by its function's variables; what leaves that may.

        What a function that trains gives back comes after its steps. What one yields is sharded by who goes over it.
        """
        statement = self.program.statement(call)
        changed = {self._owned(statement, name) for name in also}
        given: set[ast.AST] = set()  # the places where a variable gets it; another value of the variable is none of it
        is_over = self.program.frame(statement) in self.frames
        while True:
            reading = [statement, *(s for s in self._statements(statement) if self._takes(s, changed, given))]
            if any((isinstance(s, ast.Return) and not is_over) or self._trains(s) for s in reading):
                return True
            plain = [s for s in reading if not hasattr(s, "body")]
            targets = [t for s in reading for t in _targets(s)]
            others = [n for s in plain for n in self._changed(s, call)] + [n for t in targets for n in _held(t)]
            if any(not isinstance(n, ast.Name) or self._outlives(n) for n in others):
                return True
            found = {
                n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            names = {self._owned(n, n.id) for n in others if isinstance(n, ast.Name)}
            if found <= given and names <= changed:
                return False
            given |= found
            changed |= names

    def _takes(
        self, statement: ast.stmt, changed: Collection[tuple[Scope | None, str]], given: Collection[ast.AST]
    ) -> bool:
        """Whether a statement reads a variable that was changed, or that one of some places has given its value."""
        for read in _names_read(statement):
            owner, name = self._owned(statement, read.id)
            writes = [w for w in owner.writes.get(name, ()) if w in given] if owner is not None else []
            if (owner, name) in changed or (writes and self.program.reaching(read, writes)):
                return True
        return False

    def _changed(self, statement: ast.stmt, asking: ast.Call) -> list[ast.expr]:
        """What a statement may change in place, besides what is asked, and not only the mode of: `kept.append(x)`."""
        calls = (n for n in ast.walk(statement) if isinstance(n, ast.Call) and n not in {asking, *self.read})
        return [n for c in calls for n in self.program.once(Chains).changed_by(c) if not self._is_model(n)]

    def _outlives(self, node: ast.Name) -> bool:
        """Whether a variable's object is there for others than the function that changes it."""
        frame = self.program.frame(node)
        is_given = any(p.arg == node.id for p in frame.parameters) if frame.is_function else False
        return is_given or self.program.scope(node).owner(node.id) is not frame

    def _statements(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """The statements of the same function, and of those inside it."""
        return (n for n in ast.walk(self.program.frame(statement).node) if isinstance(n, ast.stmt))

    def _owned(self, node: ast.AST, name: str) -> tuple[Scope | None, str]:
        return self.program.frame(node).owner(name), name

    def _trains(self, statement: ast.stmt) -> bool:
        calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call) and n not in self.read]
        backward = any(method_of_call(c) == "backward" for c in calls)
        return backward or any(self.program.run_through([c]) & self.frames for c in calls)


def _names_read(statement: ast.stmt) -> list[ast.Name]:
    """The names that a statement reads; of one that holds others, those that decide about them, or give them values."""
    match statement:
        case ast.For(iter=read) | ast.AsyncFor(iter=read) | ast.If(test=read) | ast.While(test=read):
            nodes: list[ast.AST] = [read]
        case ast.With() | ast.AsyncWith():
            nodes = [item.context_expr for item in statement.items]
        case _:
            nodes = [] if hasattr(statement, "body") else [statement]
    names = (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name))
    return [n for n in names if not isinstance(n.ctx, ast.Store) or isinstance(statement, ast.AugAssign)]


def _held(target: ast.expr) -> Iterator[ast.expr]:
    """What an assignment puts something into: `losses` of `losses[i] = x`; an attribute itself."""
    for part in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
        if isinstance(part, ast.Subscript):
            yield part.value
        elif isinstance(part, ast.Attribute):
            yield part


def _targets(statement: ast.stmt) -> list[ast.expr]:
    match statement:
        case ast.Assign():
            return statement.targets
        case ast.AnnAssign() | ast.AugAssign() | ast.For() | ast.AsyncFor():
            return [statement.target]
        case ast.With() | ast.AsyncWith():
            return [item.optional_vars for item in statement.items if item.optional_vars is not None]
        case ast.If() | ast.While():
            return [n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return []
