"""Which values differ from process to process, because they come from one process's share of the data?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from accelify.codemod.libraries import methods
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.purity import draws_at_random, function_draws
from accelify.codemod.semantics.scopes import Scope

Loop = ast.For | ast.AsyncFor
_ROUNDS = 8


class Locality:
    """Follow what shared loops deal out through the functions that hold them; what is `reduced` is everyone's.

    With `draws`, what is drawn at random is each process's own, too.
    """

    def __init__(
        self,
        program: Program,
        loops: Sequence[Loop],
        reduced: Sequence[tuple[Loop, Sequence[str]]],
        *,
        draws: bool = False,
    ) -> None:
        self.program = program
        self.loops = loops
        self.reduced = reduced
        self.draws = draws
        self._drawing: dict[Scope, bool] = {}
        self._names: dict[Scope, set[str]] = {}
        self._written: set[ast.AST] = set()
        self._filled: set[tuple[Scope, str]] = set()
        self._kept: set[tuple[Scope, str]] = set()
        self._returns: dict[Scope, bool] = {}

    def is_own(self, node: ast.AST) -> bool:
        """Whether an expression is calculated from what one process alone has seen."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and self._holds_own(part):
                return True
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load) and self._keeps_own(part):
                return True
            if isinstance(part, ast.Call) and (self._draws(part) or any(map(self._returns_own, self._callees(part)))):
                return True
        return False

    def _holds_own(self, name: ast.Name) -> bool:
        """Whether a variable may have been given such a value last, where it is read."""
        owner = self.program.scope(name).owner(name.id)
        if owner is None or name.id not in self.names(owner.frame) | self._global(name):
            return False
        if name.id not in self.names(owner.frame) or (owner.frame, name.id) in self._filled:
            return True
        return any(w in self._written for w in self.program.reaching(name, owner.writes.get(name.id, ())))

    def _keeps_own(self, attribute: ast.Attribute) -> bool:
        """Whether a method of the same class gives an attribute of its object such a value."""
        owner = self._object(attribute)
        if owner is None:
            return False
        for method in owner.children:
            if method.is_function:
                self.names(method)
        return (owner, attribute.attr) in self._kept

    def _object(self, attribute: ast.Attribute) -> Scope | None:
        """The class of the object whose attribute a method names: `self.loss`."""
        frame = self.program.frame(attribute)
        is_own = frame.is_method and bool(frame.parameters) and isinstance(attribute.value, ast.Name)
        return frame.parent if is_own and ast.unparse(attribute.value) == frame.parameters[0].arg else None

    def _global(self, name: ast.Name) -> set[str]:
        """The global variables to which the function of a name gives such values."""
        frame = self.program.frame(name)
        return self.names(frame) & frame.declared_global

    def _callees(self, call: ast.Call) -> set[Scope]:
        return self.program.flow.callees.get(call, set())

    def _draws(self, call: ast.Call) -> bool:
        """Whether a call draws at random; one that makes a model draws what is the same everywhere."""
        if not self.draws:
            return False
        return draws_at_random(self.program, call) or any(map(self._function_draws, self._callees(call)))

    def _function_draws(self, function: Scope) -> bool:
        if function not in self._drawing:
            is_made = function.name in ("__init__", "__post_init__")
            self._drawing[function] = not is_made and function_draws(self.program, function)
        return self._drawing[function]

    def names(self, frame: Scope) -> set[str]:
        """The variables of a function that hold such values."""
        if frame not in self._names:
            found = self._names[frame] = set()
            loops = [loop for loop in self.loops if self.program.frame(loop) is frame]
            for loop in loops:
                self._note(self._dealt(loop), frame, found)
            for _ in range(_ROUNDS):
                before = self._known(found)
                for node in self._statements(frame):
                    self._note(self._given(node, frame), frame, found)
                if self._known(found) == before:
                    break
        return self._names[frame]

    def _known(self, found: set[str]) -> tuple[int, int, int]:
        return len(found), len(self._written), len(self._kept)

    def _note(self, given: Iterable[ast.Name | ast.Attribute], frame: Scope, found: set[str]) -> None:
        for name in given:
            if isinstance(name, ast.Attribute):
                owner = self._object(name)
                assert owner is not None
                self._kept.add((owner, name.attr))
                continue
            found.add(name.id)
            if isinstance(name.ctx, ast.Store) and self.program.scope(name).owner(name.id) is frame:
                self._written.add(name)
            else:
                self._filled.add((frame, name.id))

    def _returns_own(self, function: Scope) -> bool:
        if function not in self._returns:
            self._returns[function] = False  # for a function that calls itself
            values = [n.value for n in self._statements(function) if isinstance(n, ast.Return)]
            self._returns[function] = any(v is not None and self.is_own(v) for v in values)
        return self._returns[function]

    def _statements(self, frame: Scope) -> list[ast.stmt]:
        return [n for s in frame.body for n in ast.walk(s) if isinstance(n, ast.stmt)]

    def _dealt(self, loop: Loop) -> list[ast.Name]:
        """The names of the batch, without the counter of `enumerate`."""
        target = loop.target
        calls = [n for n in ast.walk(loop.iter) if isinstance(n, ast.Call)]
        if any("enumerate" in self.program.called(call) for call in calls):
            target = target.elts[-1] if isinstance(target, (ast.Tuple, ast.List)) else target
        return [n for n in ast.walk(target) if isinstance(n, ast.Name)]

    def _given(self, node: ast.stmt, frame: Scope) -> list[ast.Name | ast.Attribute]:
        """The variables and attributes that a statement gives a value of one process's own."""
        targets: list[ast.expr] = []
        value: ast.expr | None = None
        if isinstance(node, ast.If) and self.is_own(node.test):  # what it sets depends on the one process, too
            set_here = [s for s in ast.walk(node) if isinstance(s, (ast.Assign, ast.AugAssign))]
            targets = [t for s in set_here for t in (s.targets if isinstance(s, ast.Assign) else [s.target])]
            value = node.test
        elif isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets, value = [node.target], node.value
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            if isinstance(function, ast.Attribute) and methods.puts_in(function.attr) and node.value.args:
                targets, value = [function.value], node.value
        if value is None or not self.is_own(value):
            return []
        everyones = {n for loop, listed in self.reduced if self.program.inside(node, loop) for n in listed}
        holders = [n for target in targets for n in self._holders(target)]
        return [n for n in holders if isinstance(n, ast.Attribute) or (n.id not in everyones and self._is_of(n, frame))]

    def _holders(self, target: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
        """What holds a value that is given to a target: `x`, `losses` of `losses[k]`, `self.loss`."""
        if isinstance(target, ast.Name) or (isinstance(target, ast.Attribute) and self._object(target) is not None):
            yield target
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                yield from self._holders(part)
        elif isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
            yield from self._holders(target.value)

    def _is_of(self, name: ast.Name, frame: Scope) -> bool:
        return self.program.scope(name).owner(name.id) is frame or name.id in frame.declared_global
