"""Which training code learns from batches that callers give it who are not known, by a parameter or an attribute?"""

from __future__ import annotations

import ast

from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Argument, Element, Instance, Member, Value
from accelify.codemod.training.loops.model_runs import ModelRuns


class GivenBatches:
    """Follow what models are shown back to the parameters of functions that nothing calls, and attributes they set."""

    def __init__(self, program: Program, model_runs: ModelRuns) -> None:
        self.program = program
        self.flow = program.flow
        self.model_runs = model_runs

    def train(self, backward: ast.Call) -> bool:
        """Whether a backward pass is asked for by unknown callers, who also gave what the models are shown in it.

        So a critic does that trains in its `forward`, and a class with `set_input(batch)` beside `train_step()`.
        """
        frame = self.program.frame(backward)
        entries = self._entries(frame)
        if not entries:
            return False
        frames = self.program.run_from(entries) if entries != {frame} or frame.is_method else {frame}
        put_in = self._put_in(frames)
        return any(self._is_given(read, entries, put_in) for each in frames for read in self.model_runs.reads(each))

    def _entries(self, frame: Scope) -> set[Scope]:
        """The function itself, if nothing calls it, or the methods that nothing calls and that lead to it.

        None if a module or a function with a whole training in it is among those.
        """
        found, waiting = set[Scope](), [frame]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting += [self.program.frame(call) for call in self.flow.callers.get(each, ())]
        entries = {each for each in found if not self.flow.callers.get(each)}
        is_step = all(each.is_function and each.name != "__init__" for each in entries)
        return entries if is_step and all(each is frame or each.is_method for each in entries) else set()

    def _is_given(self, read: ast.expr, entries: set[Scope], put_in: set[Value]) -> bool:
        """Whether what a model is shown is a parameter of the entries, or an attribute that other callers have set."""
        for value in self.program.values(read):
            origin = _origin(value)
            if origin in put_in or (isinstance(origin, Argument) and origin.scope in entries):
                return True
            if isinstance(read, ast.Attribute) and isinstance(value, Member) and self._is_set_by_none(value):
                return True
        return False

    def _put_in(self, frames: set[Scope]) -> set[Value]:
        """The parameters of methods that set an attribute to them, or a part of them, which a step reads.

        What a method adds to a list, from which a step draws, is no batch; nor is what an object is created with.
        """
        nodes = ((name, node) for name, nodes in self.program.attribute_reads.items() for node in nodes)
        names = {name for name, node in nodes if self.program.frame(node) in frames}
        writes = (node for name in names for node in self.program.attribute_writes.get(name, ()))
        sources = (self.program.assigned(node)[0] for node in writes)
        origins = {_origin(v) for source in sources for v in self.program.values(source)}
        return {v for v in origins if isinstance(v, Argument) and v.scope.is_method and v.scope.name != "__init__"}

    def _is_set_by_none(self, value: Member) -> bool:
        """Whether nothing here gives an attribute of the project's own class its first value: callers must."""
        owner, name = value.owner, value.name
        if not isinstance(owner, Instance) or self.flow.external_bases(owner.cls):
            return False
        writes = self.program.attribute_writes.get(name, ())
        return all(self._reads(self.program.assigned(node)[0], name) for node in writes) and not self._is_named(name)

    def _reads(self, source: ast.expr | None, name: str) -> bool:
        return source is not None and any(isinstance(n, ast.Attribute) and n.attr == name for n in ast.walk(source))

    def _is_named(self, name: str) -> bool:
        """Whether a string says an attribute's name, as `setattr` is given it, or a class sets it in its body."""
        nodes = (node for parsed in self.program.files for node in parsed.nodes)
        return any(
            (isinstance(n, ast.Constant) and n.value == name)
            or (isinstance(n, ast.FunctionDef) and n.name == name)
            or (isinstance(n, ast.Attribute) and n.attr == "__dict__")
            for n in nodes
        )


def _origin(value: Value) -> Value:
    """What a value is a part of: a batch of `batch["image"]`."""
    while isinstance(value, (Member, Element)):
        value = value.owner
    return value
