"""Which calls only give a value, or show one: no state changes, nothing is written, no random number is drawn?

Such code may run on some batches in one process and on the rest in others.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property

from accelify.codemod.libraries import methods
from accelify.codemod.libraries.row import DRAWS, SEEDS, Effect
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.summary import Place, Summary
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import ClassValue, External, FunctionValue, Instance, Made, Values
from accelify.codemod.training.randomness.draws import draws
from accelify.codemod.training.roles import Roles

_IN_TRAINING = frozenset({Effect.DRAWS_IN_TRAINING, Effect.UPDATES_IN_TRAINING})
_LOOKS = frozenset({Effect.READS_CLOCK, Effect.READS_ENVIRONMENT})
_SHOWS = frozenset({Effect.PRINTS, Effect.LOGS, Effect.SHOWS})
_SHOWN_ON = frozenset({"progress", "logger", "stream"})


class Harmless:
    """Look at calls by the summaries of their effects."""

    def __init__(self, program: Program, roles: Roles, steps: Sequence[ast.AST] = ()) -> None:
        """`steps`: the loops that train; an unknown function that they call is taken only to give a value."""
        self.program = program
        self.roles = roles
        self.effects = program.once(Effects)
        self.steps = steps

    def is_call(self, call: ast.Call) -> bool:
        """Whether a call only gives a value."""
        if self.sets_eval_mode(call):
            return True
        summary = self.effects.of_call(call)
        if draws(self.program, call):
            return False
        if self.is_of_module(call):  # one of a library's is in evaluation mode
            is_random = bool(summary.effects & (DRAWS | SEEDS) - _IN_TRAINING)
            changes = self._carries(call, summary) or self._is_read_after(call, summary)
            return not self.program.flow.callees.get(call) or not (is_random or changes)
        return self._has_only(summary, _IN_TRAINING | _LOOKS) and self._only_leaves(call, summary)

    def shows(self, call: ast.Call) -> bool:
        """Whether a call writes to the screen and does nothing else: `print`, a progress bar, a log."""
        summary = self.effects.of_call(call)
        is_own = all(p.is_variable for p in summary.writes) or self._only_leaves(call, summary)
        return bool(summary.effects & _SHOWS) and is_own and self._has_only(summary, _SHOWS | _LOOKS)

    def is_shown_on(self, node: ast.expr) -> bool:
        """Whether an object is a progress bar or a log."""
        held = self.effects.kinds.of(node)
        return bool(held) and held <= _SHOWN_ON

    def sets_eval_mode(self, call: ast.Call) -> bool:
        """`model.eval()`, in a round or before all: it makes no difference."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "eval" or call.args:
            return False
        return any(self.roles.is_model(v) or self.roles.is_module(v) for v in self.program.values(call.func.value))

    def clears_gradients(self, call: ast.Call) -> bool:
        """`optimizer.zero_grad()`."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "zero_grad":
            return False
        held = self.program.values(call.func.value)
        return any(self.roles.is_optimizer(v) or self.roles.is_model(v) for v in held)

    def is_of_module(self, call: ast.Call) -> bool:
        """Whether a call is a forward pass, of a model or of a loss."""
        values = self._run_by(call)
        return any(self.roles.is_module(v) or self.roles.is_model(v) for v in values) and not any(
            isinstance(v, (FunctionValue, ClassValue, External)) for v in values
        )

    def _run_by(self, call: ast.Call) -> Values:
        """The models of `model(x)` and `model.forward(x)`."""
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr == "forward":
            function = function.value
        return self.program.values(function)

    def changes_own(self, call: ast.Call, kept: set[str]) -> bool:
        """Whether all that a call does is to change what some variables hold: `rows.append(x)`."""
        summary = self.effects.of_call(call)
        is_own = all(p.name in kept and not p.is_variable for p in summary.writes)
        return bool(summary.writes) and is_own and self._has_only(summary, _LOOKS)

    def _has_only(self, summary: Summary, effects: frozenset[Effect]) -> bool:
        """Whether code has no other effects than some, of those that are known; modules may call what is unknown."""
        is_known = all(self._is_in_module(n) or self._is_run_in_training(n) for n in summary.unknown)
        return is_known and not (summary.writes_files or summary.effects - effects)

    def _is_in_module(self, node: ast.AST) -> bool:
        frame = self.program.frame(node)
        return frame.is_method and frame.parent is not None and self.program.flow.is_module_class(frame.parent)

    def _is_run_in_training(self, node: ast.AST) -> bool:
        """Whether an unknown function's value is used, and a training step on a process's own batch calls it, too."""
        if not isinstance(node, ast.Call) or isinstance(self.program.parent(node), ast.Expr):
            return False
        if node in self._called_in_steps or self.program.values(node.func) in self._values_called_in_steps:
            return True
        if not isinstance(node.func, ast.Attribute) or not _reads(node.func.attr):
            return False
        given = self.program.values(node.func.value)  # `loss` of `loss.item()`
        return bool(given) and all(isinstance(v, Made) and self._is_run_in_training(v.node) for v in given)

    @cached_property
    def _called_in_steps(self) -> frozenset[ast.Call]:
        """The calls of the training steps, and the unknown ones that these lead to."""
        calls = [n for step in self.steps for n in ast.walk(step) if isinstance(n, ast.Call)]
        unknown = (n for c in calls for n in self.effects.of_call(c).unknown if isinstance(n, ast.Call))
        return frozenset([*calls, *unknown])

    @cached_property
    def _values_called_in_steps(self) -> frozenset[Values]:
        return frozenset(held for n in self._called_in_steps if (held := self.program.values(n.func)))

    def _carries(self, call: ast.Call, summary: Summary) -> bool:
        """Whether a method changes attributes of its object that it also reads."""
        return bool({_attribute(p) for p in summary.writes if _is_within(p, call)} & self._read_by(call))

    def _only_leaves(self, call: ast.Call, summary: Summary) -> bool:
        """Whether all that a method changes are attributes of its object, for others to look at."""
        is_left = all(_is_within(p, call) and p.path[-1].startswith(".") for p in summary.writes)
        return is_left and not self._carries(call, summary) and not self._is_read_after(call, summary)

    def _is_read_after(self, call: ast.Call, summary: Summary) -> bool:
        """Whether what a method leaves in its object is read by code that the loop round the call does not run."""
        loops = self.program.loops_round(call)
        calls = [call, *(n for loop in loops[:1] for n in ast.walk(loop) if isinstance(n, ast.Call))]
        run = self.program.run_through(calls)
        left = {_attribute(p) for p in summary.writes if _is_within(p, call)}
        writes = [w for name in left for w in self.program.attribute_writes.get(name, ())]
        classes = {self.program.frame(w).parent for w in writes if self.program.frame(w) in run}
        return any(
            self._holds_one_of(read.value, classes) and not self._is_run_in(read, run, loops[:1])
            for name in left
            for read in self.program.attribute_reads.get(name, ())
        )

    def _holds_one_of(self, node: ast.expr, classes: set[Scope | None]) -> bool:
        """Whether an expression is an object of one of some classes, or may be one."""
        held = self.program.values(node)
        known = {v.cls for v in held if isinstance(v, Instance)}
        return not known or len(known) < len(held) or not known.isdisjoint(classes)

    def _is_run_in(self, node: ast.AST, run: set[Scope], loops: Sequence[ast.AST]) -> bool:
        frame = self.program.frame(node)
        is_idle = frame not in self.program.reachable
        return is_idle or frame in run or any(self.program.inside(node, loop) for loop in loops)

    def _read_by(self, call: ast.Call) -> set[str]:
        """The attributes that the functions read that a call runs."""
        run = self.program.run_through([call])
        found = (n for function in run for n in ast.walk(function.node) if isinstance(n, ast.Attribute))
        adds = ast.AugAssign
        return {n.attr for n in found if isinstance(n.ctx, ast.Load) or isinstance(self.program.parent(n), adds)}


def _is_within(place: Place, call: ast.Call) -> bool:
    """Whether a place is in the object whose method a call is."""
    owner = ast.unparse(call.func.value if isinstance(call.func, ast.Attribute) else call.func)
    return "".join([place.name, *place.path]).startswith(f"{owner}.")


def _reads(method: str) -> bool:
    return methods.gives_numbers(method) or methods.brings_to_the_host(method)


def _attribute(place: Place) -> str:
    return next(step[1:] for step in reversed(place.path) if step.startswith("."))
