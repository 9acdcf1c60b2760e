"""Whose parameters does an optimizer get? The models, as they are named where the optimizer is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from functools import cached_property

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, table, vocabulary
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Binding, Chain, Tracer
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import ClassValue, Collection, Constant, Made, Value
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.losses import without_gradients
from accelify.codemod.training.origins import Origins
from accelify.codemod.training.roles import Roles, stepped


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
        found += self._named_beside(binding, found)
        if not found and isinstance(value, ast.Call):
            found = self._models_among(value)
        models = [self._whole_model(expression) for expression in found if not self._is_no_network(expression)]
        wholes = (whole for model in models for whole in self._taken_from(model) or [model])
        return list({ast.unparse(whole): whole for whole in wholes}.values())

    def _is_no_network(self, expression: ast.expr) -> bool:
        values = self.program.values(expression)
        refused = (
            self.roles.learns_from_arrays(v) or self.roles.is_nothing_to_prepare(v) or self.roles.is_plain_object(v)
            for v in values
        )
        return bool(values) and all(refused)

    def _models_among(self, call: ast.Call) -> list[ast.expr]:
        """The models that a call is given, or what it is given to train is made of: `model` of `model.trainable()`."""
        given = [*call.args, *(k.value for k in call.keywords)]
        trained = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "params")]
        parts = (n for t in trained for n in walk(t) if isinstance(n, ast.Name))
        plain = [n for n in (*given, *parts) if is_plain(n) and self._alone(n)]
        found = [n for n in plain if any(map(self.roles.is_model, self.program.values(n)))]
        return list({ast.unparse(n): n for n in found}.values())

    def without_name(self, binding: Binding, prepared: Set[Value]) -> list[ast.Call]:
        """The calls that make the models which an optimizer trains, and which are not prepared under any name."""
        held = {v for expression in self.of(binding) for v in self.program.values(expression)}
        missing = self._missing(binding, prepared | set(map(self.roles.container, held)))
        outer = {v for v in missing if self.roles.wholes(v) & missing == {v}}
        return sorted({c for v in outer for c in self._makers(v)}, key=self.program.position)

    def _makers(self, model: Value) -> list[ast.Call]:
        """The calls that make a network themselves: of a library, or of a class of the project's own."""
        if isinstance(model, Made):
            return [model.node] if isinstance(model.node, ast.Call) else []
        made = (c for c in self.program.calls if model in self.program.values(c))
        built = [c for c in made if any(isinstance(v, ClassValue) for v in self.program.values(c.func))]
        return [c for c in built if self.program.frame(c) in self.program.reachable]

    def _gets_a_name(self, call: ast.Call) -> bool:
        """Whether what a call makes is given a name, or returned; not put into a container."""
        parent = self.program.parent(self._method_called_last(call))
        if isinstance(parent, (ast.Tuple, ast.IfExp)):
            parent = self.program.parent(parent)
        return isinstance(parent, (ast.Assign, ast.AnnAssign, ast.Return))

    def named(self, call: ast.Call) -> Binding | None:
        """The variable that alone is given what a call makes: `net = Net()`, `self.net = Net().cuda()`."""
        value = self._method_called_last(call)
        statement = self.program.parent(value)
        if not isinstance(statement, ast.Assign) or len(statement.targets) > 1 or not is_plain(statement.targets[0]):
            return None
        return Binding("assign", self.program.frame(call), statement.targets[0], statement, value)

    def _method_called_last(self, call: ast.Call) -> ast.expr:
        """`Net().cuda().train()` for `Net()`"""
        node: ast.expr = call
        parent = self.program.parent(node)
        while isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Call) and parent.func is node):
            node, parent = parent, self.program.parent(parent)
        return node

    def _missing(self, binding: Binding, known: Set[Value]) -> set[Value]:
        """The networks that an optimizer trains, with those that they are parts of, where none of them is known."""
        wholes = [self.roles.wholes(m) for m in self._trained_by(binding) if self._is_network(m)]
        return {v for models in wholes if not models & known for v in models}

    def _is_network(self, value: Value) -> bool:
        """Whether a value that is asked for its parameters is a module: of a known class, or of nothing else's kind."""
        made = value.node if isinstance(value, Made) else None  # by `torch.load`
        may_be = isinstance(made, ast.expr) and UNKNOWN in self.program.once(Kinds).of(made)
        return may_be or self.roles.is_module(value)

    def _named_beside(self, binding: Binding, known: list[ast.expr]) -> list[ast.expr]:
        """The names, beside an optimizer's, of models that it trains and that are not known yet."""
        held = {v for expression in known for v in self.program.values(expression)}
        missing = self._missing(binding, set(map(self.roles.container, held)))
        # Instances of one class are not distinguished: where some have no name, none is taken for the one that trains.
        missing = {v for v in missing if all(map(self._gets_a_name, self._makers(v)))}
        found: dict[ast.AST, ast.expr] = {}
        for name in self._bound_beside(binding) if missing else ():
            values = self.program.values(name)
            if values & missing and all(map(self._is_network, values - {Constant(None)})):
                for chain in self.tracer.chains(name):
                    found.setdefault(chain[-1].node, name)
        return list(dict.fromkeys(found.values()))

    def _trained_by(self, binding: Binding) -> set[Value]:
        """The models whose parameters an optimizer gets where it is made."""
        held = self.program.values(binding.node) | self.program.values(binding.value)
        if isinstance(binding.node, ast.arg):
            held |= self.program.flow.variable(binding.scope, binding.node.arg)
        made = {v.node for v in held if isinstance(v, Made) and self.roles.is_optimizer(v)}
        given = [a for c in made if isinstance(c, ast.Call) for a in [*c.args, *(k.value for k in c.keywords)]]
        return self.roles.parameter_owners(frozenset(v for a in given for v in self.program.values(a)))

    def _bound_beside(self, binding: Binding) -> Iterator[ast.expr]:
        """A reading of each variable, and each attribute of `self`, that is bound once an optimizer is made."""
        frame = binding.scope
        for scope in dict.fromkeys((frame, frame.root)):
            for name, writes in scope.writes.items():
                reads = scope.reads.get(name)
                is_in_time = scope is not frame or self._are_in_time(writes, binding)
                if reads and is_in_time and not any(map(self._is_gone_over, writes)):
                    yield reads[0]
        own = frame.parameters[0].arg if frame.is_method and frame.parameters else None
        for write in (w for written in self.program.attribute_writes.values() for w in written):
            is_own = ast.unparse(write.value) == own and self.program.frame(write).parent is frame.parent
            if is_own and (self.program.frame(write) is not frame or self._are_in_time([write], binding)):
                yield write

    def _are_in_time(self, writes: Sequence[ast.AST], binding: Binding) -> bool:
        """Whether a name is bound once the statement that makes an optimizer is done."""
        statement = binding.statement
        is_given = any(isinstance(write, ast.arg) for write in writes)
        return is_given or (
            statement is not None and self.program.control_flow(statement).is_covered_after(writes, statement)
        )

    def given_to(self, function: Scope) -> list[tuple[ast.expr, Chain]]:
        """The models that a function has beside an optimizer of which nothing is known, by how the training uses them.

        Those that are asked for parameters or switched to a mode; else those whose results the losses are made of.
        """
        asked = [c.func for c in self.program.calls if self.program.frame(c) in self.training.frames]
        told = [f.value for f in asked if isinstance(f, ast.Attribute) and _tells_a_model(f.attr)]
        told = [model for model in told if not self._is_no_network(model)]
        return self._had_by(function, told) or self._learning(function)

    def _had_by(self, function: Scope, expressions: Sequence[ast.expr]) -> list[tuple[ast.expr, Chain]]:
        """The expressions whose objects a function is given, or makes, with the ways back there."""
        kinds = ("parameter", "assign")
        chains = [(e, chain) for e in expressions if is_plain(e) for chain in self.tracer.chains(e)]
        return [(e, chain) for e, chain in chains if chain[-1].kind in kinds and chain[-1].scope is function]

    def _learning(self, function: Scope) -> list[tuple[ast.expr, Chain]]:
        """What a function has and runs for the losses, if there is one for each optimizer; else nothing."""
        calls = Origins(self.program, self.roles, self.tracer).learned_through(self.training.backwards)
        run = [c.func for c in calls if without_gradients(self.program, c) is None]
        methods_run = [f for f in run if isinstance(f, ast.Attribute) and not methods.is_of("tensor", f.attr)]
        found = self._models_in(function, run) or self._models_in(function, [f.value for f in methods_run])
        stepped_on = {chain[-1].node for step in self.training.steps for chain in self.tracer.chains(stepped(step))}
        return found if len({chain[-1].node for _, chain in found}) == len(stepped_on) else []

    def _models_in(self, function: Scope, run: Sequence[ast.expr]) -> list[tuple[ast.expr, Chain]]:
        return self._had_by(function, [e for e in run if not self._is_a_loss(e)])

    def _is_a_loss(self, called: ast.expr) -> bool:
        """Whether something is a loss, or named for one."""
        name = ast.unparse(called).rpartition(".")[2]
        return vocabulary.is_name_of_a_loss(name) or any(map(self.roles.is_loss, self.program.values(called)))

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
        for node in walk(value):
            handed = self._owners_in_results(node, depth) if isinstance(node, ast.Call) else []
            if handed:
                found.extend(handed)
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and methods.gives_parameters(node.func.attr)
            ):
                if is_plain(node.func.value):
                    found.extend(self._gone_over(node.func.value) or self._alone(node.func.value))
            elif isinstance(node, ast.Attribute) and self._is_a_parameter(node):
                found.extend(self._alone(node.value))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and depth and self._may_list(node):
                found.extend(self._owners_through(node, depth))
        return found

    def _is_a_parameter(self, node: ast.Attribute) -> bool:
        """`head.kernel`, where `head` is a network that keeps a parameter of its own there."""
        values = self.program.values(node)
        is_one = bool(values) and all(isinstance(v, Made) and table.kind_made_by(v.name) == "parameter" for v in values)
        return is_one and is_plain(node.value) and all(map(self.roles.is_module, self.program.values(node.value)))

    def _may_list(self, node: ast.Name) -> bool:
        """Whether a variable holds parameters, a list that may be one of them, or an optimizer that another wraps."""
        values = self.program.values(node)
        is_list = bool(values) and all(isinstance(v, Collection) for v in values)
        is_wrapped = any(map(self.roles.is_optimizer, values))
        return is_list or is_wrapped or bool(self.roles.parameter_owners(values))

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
        """The argument of a caller, of which an expression of the called function is a part, or the whole."""
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
        """The parts of `(one.a, one.b)`, or the `model` of `model.modules()`, for the variable of a loop over them."""
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        if owner is None or not isinstance(node, ast.Name):
            return []
        loops = [self.program.parent(w) for w in self.tracer.writes(owner, node.id)]
        listed = [
            loop.iter.elts
            for loop in loops
            if isinstance(loop, (ast.For, ast.AsyncFor)) and isinstance(loop.iter, (ast.Tuple, ast.List))
        ]
        asked = [self._whose_parts(loop.iter) for loop in loops if isinstance(loop, (ast.For, ast.AsyncFor))]
        if asked and len(asked) == len(loops) and all(asked):
            return [e for e in asked if e is not None]
        return [e for elements in listed for e in elements if is_plain(e)] if len(listed) == len(loops) else []

    def _whose_parts(self, node: ast.expr, depth: int = 2) -> ast.expr | None:
        """`model` of `model.modules()`, `[*model.modules()]`, or of a variable that holds such a list."""
        for part in walk(node):
            function = part.func if isinstance(part, ast.Call) else None
            if isinstance(function, ast.Attribute) and methods.gives_parts(function.attr) and is_plain(function.value):
                return function.value
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) and depth else None
        writes = self.tracer.writes(owner, node.id) if owner is not None and isinstance(node, ast.Name) else []
        values = [self.tracer.assigned(w) for w in writes if isinstance(w, ast.Name)]
        return next((n for v in values if v is not None and (n := self._whose_parts(v, depth - 1)) is not None), None)

    def _alone(self, node: ast.expr) -> list[ast.expr]:
        return self._taken_from(node) if self._is_one_of_several(node) else [node]

    def _taken_from(self, part: ast.expr, depth: int = 3) -> list[ast.expr]:
        """The models that a variable's networks are parts of, where the script runs them: `net` for `head = net.head`.

        As they are named where the variable, or the container that it is taken out of, gets its value.
        """
        parts = {v for v in self.program.values(part) if v != Constant(None)}
        named = [self._whole_model(n) for n in self._named_in_definition(_variable(part), parts, 3)]
        found = [w for whole in named for w in (self._taken_from(whole, depth - 1) if depth else ()) or [whole]]
        held = {v for whole in found for v in self.program.values(whole)}
        is_all = bool(found) and all(self._is_proper_part(v, held) for v in parts) and self._is_run(held)
        return found if is_all else []

    def _named_in_definition(self, variable: ast.expr, parts: Set[Value], depth: int) -> list[ast.expr]:
        """The names, in what a variable is given, of networks that some networks are parts of."""
        found: list[ast.expr] = []
        frame = self.program.frame(variable)
        for value in self._given_to(variable):
            if not parts:  # `dict(net.named_children())`, of which nothing is known
                asked = self._whose_parts(value)
                found += [asked] if asked is not None and self._is_seen_from(frame, asked) else []
                continue
            named = [n for n in walk(value) if isinstance(n, (ast.Name, ast.Attribute)) and is_plain(n)]
            named = [n for n in named if ast.unparse(n) != "self" and self._is_seen_from(frame, n)]
            wholes = [n for n in named if any(self._is_proper_part(v, self.program.values(n)) for v in parts)]
            inner = [] if wholes or not depth else [n for n in named if n is _variable(n)]
            found += wholes[:1] if len(parts) == 1 else wholes
            found += [n for name in inner for n in self._named_in_definition(name, parts, depth - 1)]
        return list({ast.unparse(n): n for n in found}.values())

    def _given_to(self, variable: ast.expr) -> Iterator[ast.expr]:
        """What the statements give that bind a variable, or an attribute of `self`: or what they go over."""
        if isinstance(variable, ast.Name):
            owner = self.program.scope(variable).owner(variable.id)
            writes = self.program.reaching(variable, self.tracer.writes(owner, variable.id)) if owner else []
        else:
            writes = [chain[0].node for chain in self.tracer.chains(variable)]
        for write in (w for w in writes if isinstance(w, (ast.Name, ast.Attribute))):
            is_name = isinstance(write, ast.Name)
            binder = self.program.binding(write)[1] if is_name else self.program.statement(write)
            if (value := self.tracer.assigned(write)) is not None:
                yield value
            elif isinstance(binder, (ast.For, ast.AsyncFor, ast.comprehension)):
                yield binder.iter
            elif isinstance(binder, ast.Assign):
                yield binder.value

    def _is_seen_from(self, frame: Scope, name: ast.expr) -> bool:
        """Whether a name means the same in a function as where it stands."""
        root = name
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        there = self.program.frame(name)
        if isinstance(root, ast.Name) and root.id == "self" and frame.is_method and there.is_method:
            return frame.parent is there.parent
        owner = self.program.scope(root).owner(root.id) if isinstance(root, ast.Name) else None
        return owner is not None and owner in (frame, frame.root)

    def _is_proper_part(self, part: Value, wholes: Set[Value]) -> bool:
        return part not in wholes and not self.roles.wholes(part).isdisjoint(wholes)

    def _is_run(self, models: Set[Value]) -> bool:
        """Whether the script calls a model, or its training calls a method of the model's class."""
        return not self._run.isdisjoint(models)

    @cached_property
    def _run(self) -> frozenset[Value]:
        methods_run = (
            c.func.value
            for frame in self.training.frames
            for c in self.program.calls_in(frame)
            if isinstance(c.func, ast.Attribute) and self.program.flow.callees.get(c)
        )
        run = [*(c.func for c in self.program.calls), *methods_run]
        return frozenset(v for each in run for v in self.program.values(each))

    def _is_one_of_several(self, node: ast.expr) -> bool:
        """Whether a name is the variable of a comprehension, lambda or loop, which holds one object after another."""
        names = [n for n in walk(node) if isinstance(n, ast.Name)]
        owners = [(self.program.scope(n).owner(n.id), n.id) for n in names]
        return any(
            o is not None
            and (o.kind in ("comprehension", "lambda") or any(map(self._is_gone_over, o.writes.get(name, ()))))
            for o, name in owners
        )

    def _is_gone_over(self, write: ast.AST) -> bool:
        """Whether a loop binds a name, in every round to another object."""
        loop = self.program.statement(write)
        return isinstance(loop, (ast.For, ast.AsyncFor)) and self.program.inside(write, loop.target)

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
            while isinstance(parent, ast.IfExp):  # `(one if frozen else other).append(p)`
                parent = self.program.parent(parent)
            if isinstance(parent, ast.Attribute) and methods.puts_in(parent.attr):
                call = self.program.parent(parent)
                if isinstance(call, ast.Call):
                    found.extend(e for a in call.args for e in self._owners_in(a, depth - 1))
        return found

    def _whole_model(self, expression: ast.expr) -> ast.expr:
        """`model` for `model.features[0]`, for `model.module` and for `model[1]`."""
        whole, inner = expression, expression
        while isinstance(inner, (ast.Attribute, ast.Subscript)):
            inner = inner.value
            is_self = isinstance(inner, ast.Name) and inner.id == "self"
            if not is_self and any(map(self.roles.is_model, self.program.values(inner))):
                whole = inner
        return whole


def is_plain(node: ast.expr) -> bool:
    """A name, dotted or with literal keys."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def _variable(node: ast.expr) -> ast.expr:
    """`groups` of `groups[0].stem`, and `self.groups` of `self.groups[0]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            return node
        node = node.value
    return node


def _call_behind(binding: Binding) -> ast.Call | None:
    """The call whose result, or a part of it, a binding names."""
    value = binding.value
    if value is None and isinstance(binding.statement, ast.Assign):
        value = binding.statement.value
    return value if isinstance(value, ast.Call) else None


def _tells_a_model(method: str) -> bool:
    """Whether a method tells a model from what else a function may be given."""
    return methods.gives_parameters(method) or methods.switches_mode(method)
