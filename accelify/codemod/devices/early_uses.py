"""What is done with a model after a move and not after it is prepared: is it run, or are its weights copied?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, names, table
from accelify.codemod.libraries.row import Effect
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, own_statements
from accelify.codemod.semantics.values import Element, FunctionValue, Parameters, Value
from accelify.codemod.training.randomness.draws import draws, function_draws
from accelify.codemod.training.roles import Roles


@dataclass(frozen=True, slots=True)
class EarlyUses:
    """The uses of models that are prepared later. What has to be the model's own device is not known before that."""

    program: Program
    roles: Roles
    models: frozenset[Value]  # all that are prepared
    is_part: Callable[[ast.expr], bool] = lambda node: False  # whether something is a module that one was made of

    def is_used(self, text: str, start: ast.stmt, end: ast.stmt) -> bool:
        """Whether a model is used, other than to be set up, by one statement or after it, and not after another.

        Also on a path that never comes to the second: `if args.test: test(model); sys.exit()`.
        """
        frame = self.program.frame(start)
        if start is end or self.program.is_after(start, end):
            return False
        calls = [c for c in self.program.calls_in(frame) if self._is_between(c, start, end)]
        calls = [c for c in calls if not self._is_another(text, start, c)]
        calls_here = (n for n in walk(start) if isinstance(n, ast.Call))  # `summary(model.cuda(), size)`
        is_used = any(self._uses(call, text) or self._draws_into(call, text) for call in calls)
        is_used = is_used or any(map(partial(self._is_given, text), calls_here))
        is_used = is_used or self._is_copied(text, start, end, calls) or self._is_run_by(text, frame, calls)
        returned = [r for r in self._returns(text, frame) if r is not end and self._is_between(r, start, end)]
        return is_used or any(not self._is_another(text, start, r) for r in returned)

    def _is_between(self, node: ast.AST, start: ast.stmt, end: ast.stmt) -> bool:
        if self.program.inside(node, start) or not self.program.before(start, node):
            return False
        is_on_the_way = not self.program.inside(start, end) and self.program.reaches(start, node, without=end)
        return is_on_the_way or self.program.inside(node, end)

    def _is_run_by(self, text: str, frame: Scope, calls: Iterable[ast.Call]) -> bool:
        """Whether functions use the model that they know without being given it: a global, an attribute."""
        run = self.program.run_through(calls) - {frame}
        return any(
            self._uses(call, text)
            for function in run
            if self._means_the_same(text, frame, function)
            for call in self.program.calls_in(function)
        )

    def _means_the_same(self, text: str, frame: Scope, function: Scope) -> bool:
        """Whether a name or an attribute is in one function what it is in another."""
        name = text.partition(".")[0]
        if frame.is_method and frame.parameters and frame.parameters[0].arg == name:
            return function.is_method and function.parent is frame.parent
        return function.owner(name) is frame.owner(name)

    def _returns(self, text: str, frame: Scope) -> Iterator[ast.Return]:
        """Where a function gives a model to its caller, who takes it to be on its device."""
        for node in own_statements(frame.body):
            if isinstance(node, ast.Return) and node.value is not None:
                values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                if any(ast.unparse(v) == text for v in values):
                    yield node

    # The model itself.

    def _uses(self, call: ast.Call, text: str) -> bool:
        """Whether a call runs a model or a part, asks where it is, or gives it to something that may do either."""
        uses = (text, f"{text}.forward", f"{text}.share_memory")  # shared: for others, who get the memory of now
        if ast.unparse(_inside_moves(call.func)) in uses or self.is_part(call.func) or self._is_own_method(call, text):
            return True
        if ast.unparse(call.func) == f"{text}.parameters" and self._is_asked_where(call):
            return True
        return self._is_given(text, call)

    def _is_given(self, text: str, call: ast.Call) -> bool:
        """Whether a call gets a model and may run it, or ask where it is."""
        parts = (_inside_moves(p) for a in given(call) for p in _parts(a))
        return any(ast.unparse(p) == text for p in parts) and not self._is_set_up(call)

    def _is_own_method(self, call: ast.Call, text: str) -> bool:
        """Whether a call is of a method of the model's own class, which may compute: `flow.log_prob(x)`."""
        method = call.func
        if not isinstance(method, ast.Attribute) or not f"{ast.unparse(method.value)}.".startswith(f"{text}."):
            return False
        if table.member("module", method.attr) is not None:
            return False
        inner = (c for f in self.program.flow.callees.get(call, ()) for c in self.program.calls_in(f))
        return any(not isinstance(a, ast.Constant) for a in given(call)) or any(self.is_part(c.func) for c in inner)

    def _is_another(self, text: str, start: ast.stmt, node: ast.AST) -> bool:
        """Whether a name holds another model by then: `model = torch.load(path)` after `model.to(device)`."""
        frame = self.program.frame(start)
        if text not in frame.writes or self.program.frame(node) is not frame:
            return False
        writes = [w for w in frame.writes[text] if isinstance(w, ast.expr)]
        moved: set[ast.AST] = {w for w in writes if self.program.inside(w, start)}
        read = next((n for n in walk(start) if isinstance(n, ast.Name) and n.id == text and n not in moved), None)
        if read is not None and not moved:
            moved = set(self.program.reaching(read, writes))
        reads = [n for n in walk(node) if isinstance(n, ast.Name) and n.id == text]
        return bool(moved and reads) and all(moved.isdisjoint(self.program.reaching(n, writes)) for n in reads)

    def _is_asked_where(self, parameters: ast.Call) -> bool:
        """`next(model.parameters()).device`, `.is_cuda`."""
        for ancestor in self.program.ancestors(parameters):
            if isinstance(ancestor, ast.Attribute):
                return methods.says_where(ancestor.attr)
            if isinstance(ancestor, ast.stmt):
                break
        return False

    def _is_set_up(self, call: ast.Call) -> bool:
        """Whether what gets a model looks at it, optimizes it, or is a model that is prepared, too."""
        if any(map(_only_shows, self.program.called(call))) or _logs(call.func):
            return True
        values = self.program.values(call)
        return any(self.roles.is_optimizer(v) for v in values) or (bool(values) and values <= self.models)

    # Its weights.

    def _draws_into(self, call: ast.Call, text: str) -> bool:
        """Whether a call draws a model's weights anew, where they are: the generators of devices draw other numbers.

        `model.apply(init)`, `model.reset()`, `nn.init.normal_(model.head.weight)`, also in a loop over its modules.
        """
        concerned = [
            call.func,
            *given(call),
            *(n.iter for n in self.program.loops_round(call) if isinstance(n, ast.For)),
        ]
        if not any(f"{ast.unparse(part)}.".startswith(f"{text}.") for part in concerned):
            return False
        values = {v for part in given(call) for v in self.program.values(part)}
        run = {*self.program.flow.callees.get(call, ()), *(v.scope for v in values if isinstance(v, FunctionValue))}
        inner = [n for part in given(call) for n in walk(part) if isinstance(n, ast.Call)]  # `lambda m: ...`
        return any(draws(self.program, c) for c in (call, *inner)) or any(function_draws(self.program, f) for f in run)

    def _is_copied(self, text: str, start: ast.stmt, end: ast.stmt, calls: Iterable[ast.Call]) -> bool:
        """Whether a tensor is made of the model's weights, or their storage is kept."""
        held = {v for c in calls for v in self._weights_of(c, text)}
        if not held:
            return False
        frame = self.program.frame(start)
        run = self.program.run_through(calls)
        for node, values in self.program.flow.values.items():
            if held.isdisjoint(values) or not isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
                continue
            place = self.program.frame(node)
            is_run = self._is_between(node, start, end) if place is frame else place in run
            if is_run and self._makes_tensors(node):
                return True
        return False

    def _weights_of(self, call: ast.Call, text: str) -> Iterator[Value]:
        """The parameters that a call returns: `model.parameters()`, `model.head.named_parameters()`, `state_dict()`."""
        function = call.func
        if isinstance(function, ast.Attribute) and f"{ast.unparse(function.value)}.".startswith(f"{text}."):
            if methods.gives_parameters(function.attr):
                yield from (v for v in self.program.values(call) if isinstance(v, Parameters))
            elif methods.gives_state(function.attr):
                yield from (Element(v) for v in self.program.values(call))

    def _makes_tensors(self, weight: ast.expr) -> bool:
        """Whether what is done with a weight gives a tensor of its own, or keeps its storage."""
        user = self.program.parent(weight)
        if isinstance(user, (ast.BinOp, ast.UnaryOp)):
            return not self._is_concatenation(user)
        if isinstance(user, ast.Attribute):
            row, call = table.member("tensor", user.attr), self.program.parent(user)
            is_called = isinstance(call, ast.Call) and call.func is user
            return is_called and row is not None and row.returns == "tensor" and not row.mutates
        if isinstance(weight, ast.Attribute) and methods.is_view(weight.attr) and not isinstance(user, ast.Call):
            return not isinstance(user, (ast.Subscript, ast.Assign)) or getattr(user, "value", None) is weight
        return isinstance(user, ast.Call) and user.func is not weight and self._is_made_by(user, weight)

    def _is_concatenation(self, node: ast.BinOp | ast.UnaryOp) -> bool:
        """Whether the parameters of two models are listed together: `list(a.parameters()) + list(b.parameters())`."""
        sides = [node.left, node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else []
        return bool(sides) and all(any(isinstance(v, Parameters) for v in self.program.values(s)) for s in sides)

    def _is_made_by(self, call: ast.Call, weight: ast.expr) -> bool:
        """Whether a call that gets weights makes tensors of them, or may do so: `torch.zeros_like(p)`."""
        if self.program.flow.callees.get(call) or any(map(self.roles.is_optimizer, self.program.values(call))):
            return False  # what a function does with its parameter is looked at there
        for name in self.program.called(call):
            row = table.function(name)
            if names.iteration(name) or names.asks_about(name) or (row is not None and row.effects & {Effect.PRINTS}):
                continue
            if row is None or (not row.mutates and row.returns in ("tensor", "argument", None)):
                return True
        return False


def _inside_moves(node: ast.expr) -> ast.expr:
    """`model` of `model.cuda()` and of `model.train().to(device)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if not methods.returns_itself(node.func.attr, "module"):
            break
        node = node.func.value
    return node


def _parts(node: ast.expr) -> list[ast.expr]:
    """What a container's literal holds; anything else by itself."""
    if isinstance(node, ast.Dict):
        return node.values
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]


def _only_shows(name: str) -> bool:
    row = table.function(name)
    return row is not None and (row.effects == {Effect.PRINTS} or names.is_set_up(name))


def _logs(function: ast.expr) -> bool:
    """Whether a function is a method of a logger's: `logger.info`."""
    row = table.member("logger", function.attr) if isinstance(function, ast.Attribute) else None
    return row is not None and row.effects == {Effect.LOGS}


def given(call: ast.Call) -> list[ast.expr]:
    """All that a call is given, by position and by name."""
    return [*call.args, *(k.value for k in call.keywords)]
