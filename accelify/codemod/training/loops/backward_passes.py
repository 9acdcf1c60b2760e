"""Which calls are backward passes and steps, and which of those train what lasts?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Argument, FunctionValue, Made
from accelify.codemod.training.gradients.input_gradients import InputGradients
from accelify.codemod.training.loops.bodies import Loop, nodes_in
from accelify.codemod.training.loops.nesting import Nesting
from accelify.codemod.training.loops.training import Data
from accelify.codemod.training.losses import is_for_inputs, losses_of
from accelify.codemod.training.roles import Roles, stepped


class BackwardPasses:
    """Tell backward passes and steps from other calls of these names, and say what they are for."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, nesting: Nesting) -> None:
        self.program = program
        self.flow = program.flow
        self.roles = roles
        self.tracer = tracer
        self.nesting = nesting

    def for_inputs(
        self, backwards: Sequence[ast.Call], data: Mapping[ast.Call, Sequence[Data]], steps: Sequence[ast.Call]
    ) -> dict[ast.Call, tuple[ast.expr, ...]]:
        """The backward passes that are for the gradients of tensors of a batch alone, with these."""
        rounds = {d.loop for backward in backwards for d in data[backward] if d.loop is not None}
        gradients = InputGradients(self.program, self.roles, self.tracer, steps, rounds)
        found = {backward: gradients.of(backward) for backward in backwards}
        return {backward: tensors for backward, tensors in found.items() if tensors is not None}

    def is_for_own_tensors(self, backward: ast.Call, steps: Sequence[ast.Call]) -> bool:
        """Whether a pass is for the gradients of tensors that the script makes itself, and of no model, to look at."""
        reads = partial(is_for_inputs, self.program, backward, steps)
        is_of_tensors = bool(losses_of(self.program, backward)) and reads(lambda owner: not self._is_made(owner))
        return is_of_tensors and not reads(self._is_made)

    def _is_made(self, owner: ast.expr) -> bool:
        """Whether an expression is a tensor that a call makes, and no part of a model."""
        made = self.program.values(owner)
        return "tensor" in self.program.once(Effects).kinds.of(owner) and all(isinstance(v, Made) for v in made)

    def is_read(self, backward: ast.Call, loops: Sequence[Loop], steps: Sequence[ast.Call]) -> bool:
        """Whether gradients are only read: no step is taken in a loop that clears them, or reads those of its batch."""
        loop = loops[0] if loops else None
        if loop is None or any(loop in self.nesting.stack(step) for step in steps):
            return False
        nodes = [n for n in nodes_in(loop) if isinstance(n, ast.Attribute)]
        owners = [n.value for n in nodes if n.attr == "grad" and isinstance(n.ctx, ast.Load)]
        is_cleared = any(n.attr == "zero_grad" for n in nodes)
        return bool(owners) and (is_cleared or not all(map(self._is_of_parameters, owners)))

    def _is_of_parameters(self, node: ast.expr) -> bool:
        return self.program.once(Effects).kinds.of(node) == {"parameter"}

    def left_over(self, backwards: list[ast.Call], steps: list[ast.Call]) -> set[Scope]:
        """The functions that take one step for a caller, but that nothing mentions, where other code trains."""
        found = {f for f in map(self.program.frame, backwards) if takes_one_step(self.program, f, steps)}
        found = {f for f in found if self._is_unmentioned(f)}
        return found if any(self.program.frame(s) not in found for s in steps) else set()

    def _is_unmentioned(self, function: Scope) -> bool:
        assert function.parent is not None
        is_decorated = bool(getattr(function.node, "decorator_list", ()))
        is_read = function.is_method or self.program.reads_of(function.parent, function.name)
        value = FunctionValue(function)
        return not (is_decorated or is_read or any(value in held for held in self.flow.values.values()))

    def is_backward(self, call: ast.Call) -> bool:
        assert isinstance(call.func, ast.Attribute)
        if any(isinstance(v, FunctionValue) for v in self.program.values(call.func)) or self._gives_something(call):
            return False
        return not ast.unparse(call.func.value).startswith("super()") and not self.is_through_accelerator(call)

    def is_through_accelerator(self, call: ast.Call) -> bool:
        """Whether a call of `backward` is an accelerator's, which is given the loss: by its value, or its name."""
        assert isinstance(call.func, ast.Attribute)
        is_one = self.program.once(Effects).kinds.of(call.func.value) == {"accelerator"}
        return is_one or ast.unparse(call.func.value).endswith("accelerator")

    def _gives_something(self, call: ast.Call) -> bool:
        """Whether what a call returns is kept: `x, log_det = flow.backward(z)`; a tensor's backward gives nothing."""
        parent = self.program.parent(call)
        if not isinstance(parent, ast.Assign):
            return False
        return bool(call.args) or any(isinstance(t, (ast.Tuple, ast.List)) for t in parent.targets)

    def is_step(self, call: ast.Call) -> bool:
        return any(self.roles.is_optimizer(v) for v in self.program.values(stepped(call)))


def takes_one_step(program: Program, function: Scope, steps: Iterable[ast.Call]) -> bool:
    """Whether a function that nothing here calls takes one step with an optimizer that it is given."""
    if function.kind != "function" or program.flow.callers.get(function):
        return False
    own = [s for s in steps if program.frame(s) is function]
    is_given = any(isinstance(v, Argument) for s in own for v in program.values(stepped(s)))
    return is_given and not any(program.loops_round(s) for s in own)
