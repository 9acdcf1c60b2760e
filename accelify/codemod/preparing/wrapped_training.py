"""What a wrapper round the model would break: training that goes past it, and loaders that are not torch's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelify.codemod.libraries import names, vocabulary
from accelify.codemod.preparing.graphs import Graph, Graphs, calls_between, exclude_each_other, innermost_loop
from accelify.codemod.preparing.grouping import Item
from accelify.codemod.preparing.wrapping import Wrapping
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
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
from accelify.codemod.training.loops import Training
from accelify.codemod.training.roles import Roles

_CHANGED = {"batch_size": "None", "sampler": "another sampler", "batch_sampler": "another sampler"}
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
                        f"`{ast.unparse(call.func)}` trains through a method of the model's own, past its wrapper: "
                        "each process would train alone. Let `forward` call it, or rewrite with `--runtime accelify`"
                    ),
                )
        if not (graph.forwards or graph.methods or graph.bypasses):
            yield backward, "cannot tell through which wrapped model this backward pass goes"

    def _goes_twice(self, backward: ast.Call, graph: Graph) -> Found:
        """A second backward pass through what one forward pass has made is not brought together."""
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
                if not other.lineno < backward.lineno or exclude_each_other(self.program, other, backward):
                    continue
                fresh = any(self.program.line(other) < self.program.line(s) for s in own)
                if not fresh and not any(calls_between(self.graphs, item, frame, other, backward)):
                    again = True
            if again:
                yield (
                    backward,
                    (
                        f"this may be a second backward pass through one forward pass of `{item.text}`, which its "
                        "wrapper does not bring together: add the losses up, or rewrite with `--runtime accelify`"
                    ),
                )

    def _taken_apart(self) -> Found:
        """A wrapper cannot be looped over or indexed, and what is inside must not be trained past it."""
        for node in list(self.program.flow.values):
            parent = self.program.parent(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
            if parent is None or not self.program.values(node) & self.preparation.models:
                continue
            looped = isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)) and parent.iter is node
            indexed = isinstance(parent, ast.Subscript) and parent.value is node
            walked = isinstance(parent, ast.Call) and any(names.iteration(n) for n in self.program.called(parent))
            assert isinstance(node, (ast.Name, ast.Attribute))
            if (looped or indexed or walked) and self.wrapping.is_wrapper(node):
                yield node, f"`{ast.unparse(node)}` is taken apart here, and so trained past its wrapper"

    # What is stepped.

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

    # What is wrapped besides.

    def _loaders(self) -> Found:
        message = "this is no plain `torch.utils.data.DataLoader`: it might not be dealt out"
        for item in (i for i in self.preparation.items if i.kind == "loader"):
            values = self._values_of(item) or frozenset(self.preparation.loaders)
            if not self._are_plain(values):
                yield item.statement or item.frame.node, message
        for kind, node in self.preparation.wrapped:
            if kind == "loader" and not self._are_plain(self.program.values(node)):
                yield node, message

    def _are_plain(self, values: Values) -> bool:
        """Whether loaders are torch's own, as far as anyone can tell."""
        plain = {v for v in values if isinstance(v, Made) and names.is_plain_loader(v.name)}
        others = any(isinstance(v, Instance) or self.roles.is_loader(v) for v in values - plain)
        return not others and bool(plain or any(isinstance(v, (Argument, Member)) for v in values))

    def _values_of(self, item: Item) -> Values:
        """What an item may be, as far as its own function tells."""
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
                end = (group.anchor.end_lineno or 0) if group.anchor is not None else 0
                if group.frame is not frame or node.lineno <= end:
                    continue
                kinds = {i.kind for i in group.items if i.text == text}
                if "loader" in kinds and node.attr in _CHANGED:
                    yield node, f"`{text}.{node.attr}` would be {_CHANGED[node.attr]} once the loader is prepared"
                if "optimizer" in kinds and not vocabulary.is_kept_by_optimizers(node.attr):
                    yield node, f"`{text}.{node.attr}` is not there once the optimizer is prepared"
