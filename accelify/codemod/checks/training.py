"""The training of a script of several processes: backward passes, wrapped models, prepared and stepped objects."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accelify.codemod.checks.processes import Processes
from accelify.codemod.libraries import names, table, vocabulary
from accelify.codemod.libraries.accelerate import PREPARES
from accelify.codemod.libraries.row import Effect, Role
from accelify.codemod.semantics.values import ClassValue, Instance, Made, Member, Value
from accelify.codemod.training.roles import Roles

_DEEPEST = 4
Loop = ast.For | ast.AsyncFor | ast.While


class Trained:
    """Find them in a program."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.program = processes.program

    # Backward passes.

    @cached_property
    def backwards(self) -> dict[ast.Call, ast.expr]:
        """Each backward pass with its loss: `loss.backward()`, `accelerator.backward(loss)`."""
        found: dict[ast.Call, ast.expr] = {}
        for call in sorted(self.program.calls, key=self.program.position):
            if not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
                continue
            if self.processes.is_accelerator(call.func.value):
                if call.args:
                    found[call] = call.args[0]
            elif not call.args and not self.program.flow.callees.get(call):
                found[call] = call.func.value
        return found

    def loop(self, backward: ast.Call) -> Loop | None:
        """The loop of its function that a backward pass stands in, the innermost."""
        around = self.program.loops_round(backward)
        return around[0] if around else None

    # Models.

    @cached_property
    def wraps(self) -> list[ast.Call]:
        """The calls that wrap a model in `DistributedDataParallel`."""
        found = (c for c in self.program.calls if any(map(_wraps, self.program.called(c))))
        return [c for c in found if self.processes.is_run(c)]

    def is_wrapped(self, node: ast.expr) -> bool:
        """Whether a variable holds nothing but wrapped models, where there are several processes."""
        if self.is_always_wrapped(node):
            return True
        is_prepared = bool(self._wrapping_prepares) and self._is_one_of(node, set(self._wrapping_prepares))
        return is_prepared and any(map(self.program.once(Roles).is_model, self.held(node)))

    def held(self, node: ast.expr) -> set[Value]:
        """The values that an expression may have; for a result of `prepare`, those that it was given."""
        return {inner for value in self.program.values(node) for inner in self.before_prepare(value)}

    def before_prepare(self, value: Value) -> frozenset[Value]:
        """The value that was given to `prepare`; the value itself if it is no result of that."""
        made = value.owner if isinstance(value, Member) else value
        call = made.node if isinstance(made, Made) else None
        if call not in self.prepares:
            return frozenset({value})
        assert isinstance(call, ast.Call)
        place = int(value.name[1:-1]) if isinstance(value, Member) and value.name[1:-1].isdigit() else 0
        given = call.args[place] if place < len(call.args) else None
        return self.program.values(given) if given is not None else frozenset()

    def is_always_wrapped(self, node: ast.expr) -> bool:
        """Whether it does so in one process, too."""
        return self._is_one_of(node, set(self.wraps))

    def is_inside_wrapper(self, node: ast.expr) -> bool:
        """Whether an expression takes the wrapper off: `model.module`, `accelerator.unwrap_model(model)`."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_unwrapping = node.func.attr == "unwrap_model" and self.processes.is_accelerator(node.func.value)
            return is_unwrapping and bool(node.args) and self.is_wrapped(node.args[0])
        return isinstance(node, ast.Attribute) and node.attr == "module" and self.is_wrapped(node.value)

    def _is_one_of(self, node: ast.expr, calls: set[ast.Call], depth: int = _DEEPEST) -> bool:
        if not isinstance(node, (ast.Name, ast.Attribute)) or not depth:
            return node in calls
        given = list(self.processes.given(node))
        return bool(given) and all(self._is_one_of(each, calls, depth - 1) for each in given)

    @cached_property
    def _wrapping_prepares(self) -> list[ast.Call]:
        """The calls of a `prepare` that wraps models: Accelerate's does, accelify's gives them back."""
        starts = {name for start in self.processes.starts for name in self.program.called(start)}
        return self.prepares if any(vocabulary.training_library(n) == "accelerate" for n in starts) else []

    # Prepared objects.

    @cached_property
    def prepares(self) -> list[ast.Call]:
        """The calls of `accelerator.prepare`, `accelerator.prepare_scheduler` and the like."""
        calls = (c for c in self.program.calls if isinstance(c.func, ast.Attribute) and c.func.attr in PREPARES)
        found = [c for c in calls if isinstance(c.func, ast.Attribute) and self.processes.is_accelerator(c.func.value)]
        return list(filter(self.processes.is_run, found))

    @property
    def is_prepared_as_listed(self) -> bool:
        """Whether all that is prepared stands in the calls."""
        return not any(isinstance(a, ast.Starred) for c in self.prepares for a in c.args)

    def is_given_to_prepare(self, made: ast.Call) -> bool:
        """Whether what a call made is prepared, or may be by its name."""
        given = [a for c in self.prepares for a in c.args]
        return any(isinstance(v, Made) and v.node is made for a in given for v in self.program.values(a))

    def made(self, value: Made | Instance) -> Iterator[ast.Call]:
        """The calls that make an object."""
        if isinstance(value, Made):
            yield from [value.node] if isinstance(value.node, ast.Call) else []
            return
        for call in self.program.calls:
            is_class = any(isinstance(v, ClassValue) for v in self.program.values(call.func))
            if is_class and value in self.program.values(call):
                yield call

    # Objects that are stepped.

    def made_by(self, role: Role) -> list[ast.Call]:
        """The calls that make an optimizer or a scheduler."""
        return [c for c in self.program.calls if any(_has(n, role) for n in self.program.called(c))]

    def steps(self, made: ast.Call) -> list[ast.Call]:
        """The calls of `step` of what a call made, where that is all it may be."""
        return [c for c in self._steps if self._only_holds(c, made)]

    def _only_holds(self, step: ast.Call, made: ast.Call) -> bool:
        assert isinstance(step.func, ast.Attribute)
        values = self.program.values(step.func.value)
        return bool(values) and all(isinstance(v, Made) and v.node is made for v in values)

    @cached_property
    def _steps(self) -> list[ast.Call]:
        return [c for c in self.program.calls if isinstance(c.func, ast.Attribute) and c.func.attr == "step"]

    # Where values come from.

    def sources(self, node: ast.expr) -> Iterator[ast.expr]:
        """An expression and those that its variables got their values from, as far as these can be followed."""
        seen: set[ast.expr] = set()
        queue: list[tuple[ast.expr, int]] = [(node, 0)]
        while queue:
            each, depth = queue.pop()
            if each in seen or depth > _DEEPEST:
                continue
            seen.add(each)
            yield each
            for part in ast.walk(each):
                if isinstance(part, (ast.Name, ast.Attribute)):
                    queue += [(given, depth + 1) for given in self.processes.given(part)]

    def draws(self, call: ast.Call) -> bool:
        """Whether a call draws from torch's own generator, whatever the mode."""
        rows = self.processes.rows(call)
        has_generator = any(k.arg in ("generator", None) for k in call.keywords)
        return any(Effect.DRAWS_TORCH in row.effects and row.returns == "tensor" for row in rows) and not has_generator


def _wraps(name: str) -> bool:
    return names.is_wrapper(name) and names.is_distributed(name)


def _has(name: str, role: Role) -> bool:
    row = table.function(name)
    return row is not None and row.role is role
