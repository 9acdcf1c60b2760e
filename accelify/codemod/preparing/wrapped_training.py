"""Training that a wrapper round the model would break: code that goes past it, and loaders that are not torch's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from accelify.codemod.libraries import methods, names, table, vocabulary
from accelify.codemod.preparing.grouping import Item
from accelify.codemod.preparing.wrapping import Wrapping
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import (
    Argument,
    Collection,
    Constant,
    Instance,
    Made,
    Member,
    Parameters,
    Value,
    Values,
)
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.losses import losses_of, without_gradients
from accelify.codemod.training.roles import Roles

Found = Iterator[tuple[ast.AST, str]]


class WrappedTraining:
    """Finds what would go wrong silently, or not at all, where models and loaders are wrapped."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, training: Training, wrapping: Wrapping) -> None:
        self.program = program
        self.roles = roles
        self.tracer = tracer
        self.training = training
        self.wrapping = wrapping
        self.preparation = wrapping.preparation
        self.graphs = Graphs(program, tracer, wrapping)
        self._graphs: dict[ast.Call, Graph] = {b: self.graphs.of(b) for b in training.backwards}

    def obstacles(self) -> Found:
        """Places, and what stands in the way there."""
        for item in self.preparation.bare_models:
            message = f"`{item.text}` is not this function's to assign, so its wrapper could not take its place"
            yield item.statement or item.frame.node, message
        yield from self._parameters()
        yield from self._loaders()
        yield from self._members()
        yield from self._taken_apart()
        if not self.preparation.bare_models:
            for backward, graph in self._graphs.items():
                yield from self._goes_past(backward, graph)
                yield from self._goes_twice(backward, graph)

    # The backward pass.

    def _goes_past(self, backward: ast.Call, graph: Graph) -> Found:
        for call in graph.bypasses:
            yield (
                call,
                (
                    f"`{ast.unparse(call.func)}` is the model from before it was prepared: its wrapper does not see "
                    "this forward pass, and each process would train alone"
                ),
            )
        for item, call in graph.methods:
            if item not in graph.forwards:
                yield (
                    call,
                    (
                        f"`{ast.unparse(call.func)}` trains without `forward`, and so without the wrapper: "
                        "each process would train alone. Let `forward` call it, or rewrite with `--runtime accelify`"
                    ),
                )
        if not (graph.forwards or graph.methods or graph.bypasses):
            yield backward, "cannot tell through which wrapped model this backward pass goes"

    def _goes_twice(self, backward: ast.Call, graph: Graph) -> Found:
        """A second backward pass through one forward pass: its gradients are not averaged."""
        frame = self.program.frame(backward)
        loop = innermost_loop(self.program, backward)
        for item, sites in graph.forwards.items():
            own = [s for s in sites if s is not None]
            again = not own and any(item in g.forwards for b, g in self._graphs.items() if b is not backward)
            if own and loop is not None and not any(self.program.inside(s, loop) for s in own):
                again = True
            for other, others in self._graphs.items():
                if other is backward or self.program.frame(other) is not frame or item not in others.forwards:
                    continue
                if not self.program.before(other, backward):
                    continue
                fresh = any(self.program.before(other, s) for s in own)
                if not fresh and not any(calls_between(self.graphs, item, frame, other, backward)):
                    again = True
            if again:
                yield (
                    backward,
                    (
                        f"this may be a second backward pass through one forward pass of `{item.text}`, whose "
                        "gradients the wrapper does not average: add the losses up, or rewrite with "
                        "`--runtime accelify`"
                    ),
                )

    def _taken_apart(self) -> Found:
        """A wrapper cannot be looped over or indexed, and what is inside must not be trained without it."""
        for node in list(self.program.flow.values):
            parent = self.program.parent(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
            if parent is None or not self.program.values(node) & self.preparation.models:
                continue
            looped = isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)) and parent.iter is node
            indexed = isinstance(parent, ast.Subscript) and parent.value is node
            walked = isinstance(parent, ast.Call) and any(names.iteration(n) for n in self.program.called(parent))
            assert isinstance(node, (ast.Name, ast.Attribute))
            if (looped or indexed or walked) and self.wrapping.is_wrapper(node):
                yield node, f"`{ast.unparse(node)}` is taken apart here, and so trained without its wrapper"

    # Objects that are stepped.

    def _parameters(self) -> Found:
        """An optimizer's parameters must all be those of prepared models."""
        for call in self.program.calls:
            made = {v for v in self.program.values(call) if isinstance(v, Made) and v.node is call}
            if (
                not any(self.roles.is_optimizer(v) for v in made)
                or self.program.frame(call) not in self.program.reachable
            ):
                continue
            given = next((k.value for k in call.keywords if k.arg == "params"), call.args[0] if call.args else None)
            if given is None or not self._are_of_models(self.program.values(given), 5):
                yield (
                    call,
                    (
                        "cannot tell that all that this optimizer steps belongs to prepared models: the gradients of "
                        "anything else would stay each process's own"
                    ),
                )
        for call in self.program.calls:
            given = call.args[1] if len(call.args) > 1 else None
            of_parameters = any(isinstance(v, Parameters) for v in self.program.values(given))
            if of_parameters and "torch.autograd.grad" in self.program.called(call):
                yield call, "these gradients of the parameters would stay each process's own"

    def _are_of_models(self, values: Values, depth: int) -> bool:
        leaves = [v for v in values if not isinstance(v, Constant)]
        return bool(depth and leaves) and all(self._is_of_models(v, depth) for v in leaves)

    def _is_of_models(self, value: Value, depth: int) -> bool:
        if isinstance(value, Parameters):
            owner: Value = value.owner
            while owner not in self.preparation.models and isinstance(owner, Member):
                owner = owner.owner
            return owner in self.preparation.models
        if isinstance(value, Collection):
            held = self.roles.inside(value)
            if isinstance(value.node, ast.Dict):  # a group of parameters, with settings of its own
                keys = [getattr(k, "value", None) for k in value.node.keys]
                if "params" not in keys:
                    return False
                held = self.program.values(value.node.values[keys.index("params")])
            return self._are_of_models(held, depth - 1)
        return self.roles.parameter_owners(frozenset({value})) != set() and all(
            self._is_of_models(Parameters(o), depth - 1) for o in self.roles.parameter_owners(frozenset({value}))
        )

    # Wrapped objects besides the model.

    def _loaders(self) -> Found:
        message = "this is not a plain `torch.utils.data.DataLoader`: it might not be sharded"
        for item in (i for i in self.preparation.items if i.kind == "loader"):
            values = self._values_of(item) or frozenset(self.preparation.loaders)
            if not self._are_plain(values):
                yield item.statement or item.frame.node, message
        for kind, node in self.preparation.wrapped:
            if kind == "loader" and not self._are_plain(self.program.values(node)):
                yield node, message

    def _are_plain(self, values: Values) -> bool:
        """Whether loaders are torch's own, as far as can be known."""
        plain = {v for v in values if isinstance(v, Made) and names.is_plain_loader(v.name)}
        others = any(isinstance(v, Instance) or self.roles.is_loader(v) for v in values - plain)
        return not others and bool(plain or any(isinstance(v, (Argument, Member)) for v in values))

    def _values_of(self, item: Item) -> Values:
        """The values that an item may have, as far as its own function shows."""
        return frozenset(
            value
            for node in self.program.flow.values
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
            and self.program.frame(node) is item.frame
            and ast.unparse(node) == item.text.replace('"', "'")
            for value in self.program.values(node)
            if not isinstance(value, Constant)
        )

    def _members(self) -> Found:
        """Members that wrapped loaders and optimizers do not have, or have changed."""
        for node in list(self.program.flow.values):
            if not isinstance(node, ast.Attribute) or self.program.frame(node) not in self.program.reachable:
                continue
            text, frame = ast.unparse(node.value), self.program.frame(node)
            for group in self.preparation.groups:
                is_prepared = group.anchor is None or self.program.is_after(node, group.anchor)
                if group.frame is not frame or not is_prepared:
                    continue
                kinds = {i.kind for i in group.items if i.text == text}
                row = table.member("loader", node.attr) if "loader" in kinds else None
                if row is not None and (row.returns == "sampler" or node.attr == "batch_size"):
                    other = "another sampler" if row.returns == "sampler" else "None"
                    yield node, f"`{text}.{node.attr}` would be {other} once the loader is prepared"
                if "optimizer" in kinds and not vocabulary.is_kept_by_optimizers(node.attr):
                    yield node, f"`{text}.{node.attr}` is not there once the optimizer is prepared"


@dataclass
class Graph:
    """The graph of a backward pass.

    forwards: the wrapped models, each with the calls in the function of the backward pass by which it gets there; None
    for one that the function was given. methods: calls of the models' own. bypasses: calls of the model by a name from
    before it was wrapped.
    """

    forwards: dict[Item, list[ast.AST | None]] = field(default_factory=dict)
    methods: list[tuple[Item, ast.Call]] = field(default_factory=list)
    bypasses: list[ast.Call] = field(default_factory=list)


class Graphs:
    """Follow losses back to the models that they come from."""

    def __init__(self, program: Program, tracer: Tracer, wrapping: Wrapping) -> None:
        self.program = program
        self.tracer = tracer
        self.wrapping = wrapping

    def of(self, backward: ast.Call) -> Graph:
        """The graph of one backward pass."""
        found = Graph()
        for loss in losses_of(self.program, backward):
            _Walk(self, found, self.program.frame(backward)).expression(loss, None)
        return found

    def reaching(self, owner: Scope, read: ast.Name) -> list[ast.AST]:
        """The assignments whose value a name may have where it is read."""
        return self.program.reaching(read, self.tracer.writes(owner, read.id))


class _Walk:
    """One walk back from a loss."""

    def __init__(self, graphs: Graphs, found: Graph, frame: Scope) -> None:
        self.graphs = graphs
        self.program = graphs.program
        self.wrapping = graphs.wrapping
        self.found = found
        self.frame = frame
        self._seen: set[ast.AST] = set()
        self._entered: set[Scope] = set()
        self._outside = False

    def expression(self, node: ast.AST, site: ast.AST | None) -> None:
        """Go on from an expression; `site` is the call in the first function through which it was reached."""
        if node in self._seen:
            return
        self._seen.add(node)
        if isinstance(node, ast.Call):
            self._call(node, site)
        elif isinstance(node, ast.Name):
            self._name(node, site)
        elif isinstance(node, ast.Attribute):
            self._attribute(node, site)
        elif not isinstance(node, ast.Lambda):
            for child in ast.iter_child_nodes(node):
                self.expression(child, site)

    def _site(self, call: ast.Call, site: ast.AST | None) -> ast.AST | None:
        inside = not self._outside and self.program.frame(call) is self.frame
        return call if inside and site is None else site

    def _call(self, node: ast.Call, site: ast.AST | None) -> None:
        if isinstance(node.func, ast.Attribute) and methods.ends_graph(node.func.attr):
            return
        if without_gradients(self.program, node) is not None:
            return
        for given in [*node.args, *[k.value for k in node.keywords]]:
            self.expression(given, site)
        if self._is_forward(node, site):
            return
        if isinstance(node.func, ast.Attribute) and self._is_method(node, node.func):
            return
        callees = self.program.flow.callees.get(node, set())
        if isinstance(node.func, ast.Attribute) and not callees:
            self.expression(node.func.value, site)
        for callee in callees:
            self._enter(callee, self._site(node, site))

    def _is_forward(self, node: ast.Call, site: ast.AST | None) -> bool:
        model: ast.expr = node.func
        if isinstance(model, ast.Attribute) and model.attr == "forward":
            model = model.value
        held = self.wrapping.held(model)
        for item in held - {None}:
            if item is not None:
                self.found.forwards.setdefault(item, []).append(self._site(node, site))
        if None in held and self.program.values(model) & self.wrapping.preparation.models and self._is_the_same(model):
            self.found.bypasses.append(node)
            return True
        return held != {None}

    def _is_the_same(self, model: ast.expr) -> bool:
        """Whether an unprepared model is one that is prepared somewhere, by an earlier name."""
        if isinstance(model, ast.Name) and self.program.frame(model).is_method:
            method = self.program.frame(model)
            if method.parameters and method.parameters[0].arg == model.id:
                return False
        origins = {c[-1].node for c in self.graphs.tracer.chains(model) if c}
        return bool(origins & self.wrapping.origins)

    def _is_method(self, node: ast.Call, function: ast.Attribute) -> bool:
        held = self.wrapping.held(function.value) - {None}
        if not held or not self.wrapping.is_own(function):
            return False
        self.found.methods.extend((item, node) for item in held if item is not None)
        return True

    def _enter(self, function: Scope, site: ast.AST | None) -> None:
        if function in self._entered or function.kind == "class":
            return
        self._entered.add(function)
        if isinstance(function.node, ast.Lambda):
            self.expression(function.node.body, site)
            return
        for statement in ast.walk(function.node):
            if isinstance(statement, (ast.Return, ast.Yield)) and statement.value is not None:
                self.expression(statement.value, site)

    def _name(self, node: ast.Name, site: ast.AST | None) -> None:
        owner = self.program.scope(node).owner(node.id)
        if owner is None:
            return
        for write in self.graphs.reaching(owner, node):
            if isinstance(write, ast.arg):
                if owner.frame is self.frame or owner is self.frame:
                    self._given(owner, write)
            elif isinstance(write, ast.Name):
                self._written(write, site)

    def _given(self, function: Scope, parameter: ast.arg) -> None:
        outside, self._outside = self._outside, True
        for call in self.program.flow.callers.get(function, ()):
            argument = self.graphs.tracer.argument(call, function, parameter.arg)
            if argument is not None and self.program.frame(call) in self.program.reachable:
                self.expression(argument, None)
        self._outside = outside

    def _written(self, write: ast.AST, site: ast.AST | None) -> None:
        if without_gradients(self.program, write) is not None:
            return
        statement = self.program.statement(write)
        assigned = self.graphs.tracer.assigned(write) if isinstance(write, ast.expr) else None
        if assigned is not None:
            self.expression(assigned, site)
        elif isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and statement.value is not None:
            self.expression(statement.value, site)
        elif isinstance(statement, (ast.For, ast.AsyncFor)):
            self.expression(statement.iter, site)
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            owner = self.program.scope(statement.target).owner(statement.target.id)
            for earlier in self.graphs.reaching(owner, statement.target) if owner is not None else ():
                if isinstance(earlier, ast.Name) and earlier not in self._seen:
                    self._seen.add(earlier)
                    self._written(earlier, site)

    def _attribute(self, node: ast.Attribute, site: ast.AST | None) -> None:
        if methods.ends_graph(node.attr):
            return
        owners = self.program.values(node.value)
        for write in self.program.attribute_writes.get(node.attr, ()):
            if self.program.values(write.value) & owners:
                self._written(write, site)
        self.expression(node.value, site)


def innermost_loop(program: Program, node: ast.AST) -> ast.AST | None:
    """The loop of its own function that holds a node."""
    return next((loop for loop in program.loops_round(node) if isinstance(loop, LOOPS)), None)


def calls_between(graphs: Graphs, item: Item, frame: Scope, first: ast.AST, last: ast.AST) -> Iterator[ast.Call]:
    """The forward passes of a wrapped model that lie between two places of a function."""
    program = graphs.program
    for call in program.calls:
        between = program.frame(call) is frame and program.before(first, call) and program.before_end(call, last)
        if between and item in graphs.wrapping.held(call.func) and without_gradients(graphs.program, call) is None:
            yield call
