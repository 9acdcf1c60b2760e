"""Do the models compute as in evaluation, in the mode that is set last before a place is reached?"""

from __future__ import annotations

import ast
from functools import cached_property

from accelify.codemod.libraries import methods, names
from accelify.codemod.semantics.conditions import WORLDS, Conditions, worlds_where
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.values import External
from accelify.codemod.training.harmless import Harmless
from accelify.codemod.training.phases import Phase
from accelify.codemod.training.roles import Roles

_DEPTH = 4
_MODES = ("dropout", "batchnorm", "batch_norm", "instancenorm", "rrelu", "transformer")
_NAMED = (ast.Name, ast.Attribute)
_TRAINING, _EVALUATING = (worlds_where(trains=trains) for trains in (True, False))


class LastModes:
    """Look for the last `model.eval()` or its like before a place."""

    def __init__(self, program: Program, roles: Roles) -> None:
        self.program = program
        self.roles = roles
        self.conditions = program.once(Conditions)

    def asks(self, node: ast.AST) -> bool:
        """Whether a function comes to a place in it only where models train: `if not model.training: return`."""
        dead = self.conditions.is_dead
        return all(dead(node, w) for w in _EVALUATING) and not all(dead(node, w) for w in _TRAINING)

    def is_in_eval_mode(self, node: ast.AST, phase: Phase | None = None, depth: int = _DEPTH) -> bool:
        """Whether `eval()` is the last that was called to set the mode, in the function of a node or in its callers."""
        frame = self.program.frame(node)
        modes = [
            c
            for c in self.program.calls
            if isinstance(c.func, ast.Attribute)
            and methods.switches_mode(c.func.attr)
            and self.program.frame(c) is frame
            and not (phase is not None and self._is_dead(c, phase))
            and any(self.roles.is_model(v) for v in self.program.values(c.func.value))
        ]
        flow = self.program.control_flow(node)
        last = [c for c in modes if flow.reaches(c, node, without=[m for m in modes if m is not c])]
        if last:
            return all(self._is_eval(c, phase) for c in last)
        calls = self.program.calls_of(frame)
        if phase is not None:
            calls = [c for c in calls if self.conditions.truth_in(phase.test, WORLDS, (c,)) is not phase.trains]
        return bool(depth and calls) and all(self.is_in_eval_mode(c, None, depth - 1) for c in calls)

    @staticmethod
    def _is_eval(call: ast.Call, phase: Phase | None) -> bool:
        """Whether a call sets the mode of evaluation: `m.eval()`, `m.train(False)`, `m.train(training)`."""
        assert isinstance(call.func, ast.Attribute)
        given = call.args[0] if call.args else None
        said = phase.said(given) if phase is not None and given is not None else None
        return call.func.attr == "eval" or said is False or (given is not None and ast.unparse(given) == "False")

    def _is_dead(self, node: ast.AST, phase: Phase) -> bool:
        """Whether a loop's function does not come to a place when the loop is to evaluate."""
        around = [node, *self.program.ancestors(node)]
        return any(isinstance(a, (ast.If, ast.IfExp)) and set(phase.dead(a)) & set(around) for a in around)


class Modes(LastModes):
    """Look at the modes that loops compute in."""

    def __init__(self, program: Program, roles: Roles, tracer: Tracer, harmless: Harmless) -> None:
        super().__init__(program, roles)
        self.harmless = harmless

    def evaluates(self, loop: ast.For, phase: Phase | None) -> bool:
        """Whether models compute in a loop as they do in evaluation; in a loop that also trains, where it does not."""
        nodes = phase.live(*loop.body) if phase is not None else (n for s in loop.body for n in ast.walk(s))
        calls = [n for n in nodes if isinstance(n, ast.Call)]
        return not self._has_modes or any(map(self.harmless.sets_eval_mode, calls)) or self.is_in_eval_mode(loop, phase)

    @cached_property
    def _has_modes(self) -> bool:
        """Whether anything in the program computes otherwise while it is trained; models of libraries may."""
        for node, values in self.program.flow.values.items():
            named = {v.name for v in values if isinstance(v, External)} if isinstance(node, _NAMED) else set()
            if any(
                names.may_differ_in_training(name) or any(word in name.lower() for word in _MODES) for name in named
            ):
                return True
        return False


def only_evaluates(program: Program) -> bool:
    """Whether the named files compute no gradients, set the mode of evaluation, and run no method that may train.

    The methods of models are known; `build(args.name).fit()` of what is picked by a name may do anything.
    """
    named = {parsed.path for parsed in program.named}
    calls = [c for c in program.calls if program.path(c) in named]
    shown = [c.func.attr for c in calls if isinstance(c.func, ast.Attribute)]
    is_shown = any(methods.switches_mode(name) and name != "train" for name in shown)
    is_without = any(map(names.is_without_gradient, (n for c in calls for n in program.called(c))))
    return is_shown and is_without and not any(_may_train(program, c) for c in calls)


def _may_train(program: Program, call: ast.Call) -> bool:
    """Whether a call may run code that trains and is not known: a method of no model, or one for its effects alone."""
    if program.flow.callees.get(call) or program.called(call):
        return False
    if isinstance(call.func, ast.Attribute):
        return methods.may_train(call.func.attr)
    return isinstance(program.parent(call), ast.Expr)
