"""Whose parameters does an optimizer get? The models, as they are named where the optimizer is."""

from __future__ import annotations

import ast

from accelify.codemod.libraries import methods
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Chain, Tracer
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import Made
from accelify.codemod.training.loops import Training
from accelify.codemod.training.roles import Roles


class Owners:
    """Find the expressions for an optimizer's models."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, training: Training) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.training = training

    def of(self, binding: Binding) -> list[ast.expr]:
        """The models whose parameters are given to what a binding names."""
        value = binding.value
        found = self._owners_in(value, 3) if value is not None else []
        if not found and (call := _call_behind(binding)) is not None:
            found = self._owners_in_callee(call, binding)
        if not found:
            found = self._bound_with(binding)
        if not found and isinstance(value, ast.Call):
            found = self._models_among(value) or self._sorted_before(value)
        return [self._whole_model(expression) for expression in found]

    def _models_among(self, call: ast.Call) -> list[ast.expr]:
        """The models that a call is given."""
        given = [*call.args, *[k.value for k in call.keywords]]
        return [a for a in given if is_plain(a) and any(self.roles.is_model(v) for v in self.program.values(a))]

    def _sorted_before(self, call: ast.Call) -> list[ast.expr]:
        """`model` of `decayed, others = sort(model)`, whose results are given to the optimizer."""
        found: dict[str, ast.expr] = {}
        for node in ast.walk(call):
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
                continue
            owner = self.program.scope(node).owner(node.id)
            if owner is None or owner.frame is not self.program.frame(node):
                continue
            statements = [self.program.statement(w) for w in self.tracer.writes(owner, node.id)]
            made = [s.value for s in statements if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call)]
            for model in (m for c in made if self.program.flow.callees.get(c) for m in self._models_among(c)):
                found.setdefault(ast.unparse(model), model)
        return list(found.values())

    def given_to(self, function: Scope) -> list[tuple[ast.expr, Chain]]:
        """The models that a function is given beside an optimizer, known by what the training code calls on them."""
        found: list[tuple[ast.expr, Chain]] = []
        for call in self.program.calls:
            if not isinstance(call.func, ast.Attribute) or not _tells_a_model(call.func.attr):
                continue
            if not is_plain(call.func.value) or self.program.frame(call) not in self.training.frames:
                continue
            chains = self.tracer.chains(call.func.value)
            given = (c for c in chains if c[-1].kind == "parameter" and c[-1].scope is function)
            found.extend((call.func.value, chain) for chain in given)
        return found

    def _bound_with(self, binding: Binding) -> list[ast.expr]:
        """`model` of `model, optimizer = build()`."""
        found: list[ast.expr] = []
        if not isinstance(binding.statement, ast.Assign):
            return found
        for target in binding.statement.targets:
            for part in target.elts if isinstance(target, (ast.Tuple, ast.List)) else ():
                values = self.program.values(part)
                if part is not binding.node and values and all(self.roles.is_model(v) for v in values):
                    found.append(part)
        return found

    def _owners_in_callee(self, call: ast.Call, binding: Binding) -> list[ast.expr]:
        """The models of an optimizer that a function of the project's own builds, as they are named at the call."""
        found: list[ast.expr] = []
        held = self.program.values(call) | self.program.values(binding.node)
        built = [v.node for v in held if isinstance(v, Made) and self.roles.is_optimizer(v)]
        for made in sorted((n for n in built if isinstance(n, ast.Call)), key=self.program.position):
            for expression in self._owners_in(made, 4):
                seen_here = self._at_caller(expression, call, binding)
                if seen_here is not None:
                    found.append(seen_here)
        return found

    def _at_caller(self, expression: ast.expr, call: ast.Call, binding: Binding) -> ast.expr | None:
        """An expression of a called function as the caller would write it; None when the caller cannot."""
        inner, root = self.program.frame(expression), expression
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if not isinstance(root, ast.Name):
            return None
        owner = self.program.scope(root).owner(root.id)
        if owner is inner and inner.is_method and inner.parameters and root.id == inner.parameters[0].arg:
            if expression is root:
                return self._model_asked(call, inner)
            frame = binding.scope
            same = frame.is_method and bool(frame.parameters) and frame.parameters[0].arg == root.id
            return expression if same and isinstance(expression, ast.Attribute) else None
        if owner is inner and expression is root and inner in self.program.flow.callees.get(call, ()):
            argument = self.tracer.argument(call, inner, root.id)
            return argument if argument is not None and is_plain(argument) else None
        return expression if owner is not None and owner in (binding.scope.root, binding.scope) else None

    def _model_asked(self, call: ast.Call, method: Scope) -> ast.expr | None:
        """`model` of `model.configure_optimizers()`."""
        if not isinstance(call.func, ast.Attribute) or method not in self.program.flow.callees.get(call, ()):
            return None
        receiver = call.func.value
        values = self.program.values(receiver)
        return receiver if is_plain(receiver) and any(self.roles.is_model(v) for v in values) else None

    def _owners_in(self, value: ast.expr, depth: int) -> list[ast.expr]:
        """The expressions `E` of the `E.parameters()` that an expression is made from."""
        found: list[ast.expr] = []
        for node in ast.walk(value):
            handed = self._owners_in_results(node, depth) if isinstance(node, ast.Call) else []
            if handed:
                found.extend(handed)
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and methods.gives_parameters(node.func.attr)
            ):
                if is_plain(node.func.value) and not self._is_comprehended(node.func.value):
                    found.extend(self._gone_over(node.func.value) or [node.func.value])
            elif (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and depth
                and self.roles.parameter_owners(self.program.values(node))
            ):
                found.extend(self._owners_through(node, depth))
        return found

    def _owners_in_results(self, call: ast.Call, depth: int) -> list[ast.expr]:
        """The models whose parameters a function of the project's own gives back: `model` of `model.trainable()`."""
        found: dict[str, ast.expr] = {}
        for callee in self.program.flow.callees.get(call, ()) if depth else ():
            for value in returned([callee]):
                for inner in self._owners_in(value, depth - 1) if value is not None else ():
                    owner = self._as_called(inner, call, callee)
                    if owner is not None:
                        found.setdefault(ast.unparse(owner), owner)
        return list(found.values())

    def _as_called(self, expression: ast.expr, call: ast.Call, callee: Scope) -> ast.expr | None:
        """The thing that a caller gave, of which an expression of the called function is a part, or the whole."""
        root = expression
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if not isinstance(root, ast.Name) or self.program.scope(root).owner(root.id) is not callee:
            return None
        if callee.is_method and callee.parameters and root.id == callee.parameters[0].arg:
            return self._model_asked(call, callee)
        given = self.tracer.argument(call, callee, root.id)
        return given if given is not None and is_plain(given) else None

    def _gone_over(self, node: ast.expr) -> list[ast.expr]:
        """The parts of `(model.a, model.b)`, for the variable of a loop over them."""
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        if owner is None or not isinstance(node, ast.Name):
            return []
        loops = [self.program.parent(w) for w in self.tracer.writes(owner, node.id)]
        listed = [
            loop.iter.elts
            for loop in loops
            if isinstance(loop, (ast.For, ast.AsyncFor)) and isinstance(loop.iter, (ast.Tuple, ast.List))
        ]
        return [e for elements in listed for e in elements if is_plain(e)] if len(listed) == len(loops) else []

    def _is_comprehended(self, node: ast.expr) -> bool:
        """Whether a name is a comprehension's own, so that no statement can speak of it."""
        names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
        owners = [self.program.scope(n).owner(n.id) for n in names]
        return any(o is not None and o.kind == "comprehension" for o in owners)

    def _owners_through(self, node: ast.Name, depth: int) -> list[ast.expr]:
        owner = self.program.scope(node).owner(node.id)
        if owner is None or owner.frame is not self.program.frame(node):
            return []
        found = []
        for write in self.tracer.writes(owner, node.id):
            statement = self.program.statement(write)
            if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and statement.value is not None:
                found.extend(self._owners_in(statement.value, depth - 1))
            elif isinstance(statement, (ast.For, ast.AsyncFor)):
                found.extend(self._owners_in(statement.iter, depth - 1))
        for read in owner.reads.get(node.id, ()):
            parent = self.program.parent(read)
            if isinstance(parent, ast.Attribute) and methods.puts_in(parent.attr):
                call = self.program.parent(parent)
                if isinstance(call, ast.Call):
                    found.extend(e for a in call.args for e in self._owners_in(a, depth - 1))
        return found

    def _whole_model(self, expression: ast.expr) -> ast.expr:
        """`model` for `model.features` and for `model.module`."""
        while isinstance(expression, ast.Attribute):
            inner = expression.value
            values = self.program.values(inner)
            if not any(self.roles.is_model(v) for v in values) or (isinstance(inner, ast.Name) and inner.id == "self"):
                return expression
            expression = inner
        return expression


def is_plain(node: ast.expr) -> bool:
    """A name, dotted or with literal keys."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def _call_behind(binding: Binding) -> ast.Call | None:
    """The call whose result, or a part of it, a binding names."""
    value = binding.value
    if value is None and isinstance(binding.statement, ast.Assign):
        value = binding.statement.value
    return value if isinstance(value, ast.Call) else None


def _tells_a_model(method: str) -> bool:
    """Whether a method tells a model from what else a function may be given."""
    return methods.gives_parameters(method) or methods.switches_mode(method)
