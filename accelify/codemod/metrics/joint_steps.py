"""What all ranks do together: backward passes, steps, reductions. Which conditions decide about it, or leave it out?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Sequence

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries.row import SHOWN
from accelify.codemod.metrics.comparisons import Answer
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.semantics.control_flow import Choice
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.harmless import Harmless

_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Raise)


class JointSteps:
    """The actions of all ranks together: backward passes, steps of optimizers, reductions, preparing."""

    def __init__(self, metrics: Metrics, others: Collection[ast.AST]) -> None:
        training = metrics.measured.training
        self.program = metrics.measured.program
        self.ranks = metrics.ranks
        self._effects = metrics.measured.chains.effects
        self._harmless = Harmless(self.program, metrics.measured.roles)
        self.nodes: set[ast.AST] = {*training.backwards, *training.steps, *(r.anchor for r in metrics.reductions)}
        self.nodes |= set(metrics.evaluations)
        preparation = metrics.measured.prepared.preparation
        self.nodes |= {group.anchor for group in preparation.groups if group.anchor is not None}
        self.nodes |= {node for _, node in preparation.wrapped}
        self.nodes = set(others) or self.nodes
        self.frames = {self.program.frame(n) for n in self.nodes}
        self._runs: dict[Scope, bool] = {}
        self._holding: dict[ast.AST, bool] = {}

    def depend_on(self, choice: Choice) -> bool:
        """Whether a condition decides about a step, or whether what holds one goes on."""
        return self.holds(choice.nodes()) or any(self._are_left_by(n, choice) for n in choice.nodes())

    def are_in(self, loop: ast.For) -> bool:
        """Whether a round of a loop takes steps."""
        return self.holds(n for s in loop.body for n in walk(s))

    def only_end_by(self, choice: Choice) -> bool:
        """Whether a condition takes no step, but leaves loops and functions that do."""
        return not self.holds(choice.nodes()) and not self.is_left_early(choice)

    def is_left_early(self, choice: Choice) -> bool:
        """Whether a round of a loop that takes steps ends early, or an error is raised, by a condition."""
        leaving = (n for n in choice.nodes() if isinstance(n, (ast.Continue, ast.Raise)))
        return any(self._are_left_by(n, choice) for n in leaving)

    def left_out_by(self, choice: Choice) -> Answer | None:
        """The answer by which a condition does nothing but leave out a step, or what follows of its round.

        Ranks that have another answer can do as much: all leave it out where any has it.
        """
        if not isinstance(choice.node, ast.If):
            return None
        body, orelse = choice.node.body, choice.node.orelse
        sides = ((Answer.ANY, body, orelse), (Answer.ALL, orelse, body))
        return next((how for how, side, other in sides if self._only_leaves_out(side, other, choice)), None)

    def _only_leaves_out(self, side: Sequence[ast.stmt], other: Sequence[ast.stmt], choice: Choice) -> bool:
        """Whether one side of a condition leaves out a step of the other, or of what follows, and changes no object."""
        left = [n for s in side for n in walk(s) if self._are_left_by(n, choice)]
        is_step = bool(left) or self.holds(n for s in other for n in walk(s))
        if not is_step or any(isinstance(n, ast.Raise) for n in left):
            return False
        done = [s for s in side if not (isinstance(s, ast.Expr) and self._clears_gradients(s.value))]
        summary = self._effects.of(*done)
        is_plain = not (summary.files_written or summary.unknown or summary.effects - SHOWN)
        return is_plain and all(place.is_variable for place in summary.writes)

    def _clears_gradients(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self._harmless.clears_gradients(node)

    def go_on_by(self, choice: Choice, asks_for_file: Callable[[ast.expr], bool]) -> bool:
        """Whether a loop that takes steps goes on until a file is there, or is there no more."""
        if isinstance(choice.node, ast.While):
            return self.holds(choice.nodes()) and asks_for_file(choice.test)
        leaving = (n for n in choice.nodes() if not isinstance(n, (ast.Continue, ast.Raise)))
        around = [loop for loop in self.program.loops_round(choice.node) if self._holds_inside(loop)]
        return bool(around) and any(self._are_left_by(n, choice) for n in leaving) and asks_for_file(choice.test)

    def _are_left_by(self, leaving: ast.AST, choice: Choice) -> bool:
        is_end = isinstance(leaving, ast.Call) and self._ends(leaving, choice.test)
        return (is_end or isinstance(leaving, _LEAVES)) and self.are_left(leaving, choice.node)

    def are_left(self, leaving: ast.AST, node: ast.AST) -> bool:
        """Whether what ends a loop or a function leaves one that takes steps; not one inside a node."""
        frame = self.program.frame(leaving)
        if frame is not self.program.frame(node):
            return False
        if not isinstance(leaving, (ast.Break, ast.Continue)):
            return any(map(self._holds_inside, frame.body))
        loop = next(iter(self.program.loops_round(leaving)), None)
        return loop is not None and not self.program.inside(loop, node) and self._holds_inside(loop)

    def _ends(self, call: ast.Call, test: ast.expr) -> bool:
        """Whether a call ends one rank alone; where it says that the run failed, only by the clock."""
        is_of_clock = bool(self.ranks.of(test).of(Mark.CLOCK))
        return self.program.ends(call, failed=False) or (is_of_clock and self.program.ends(call, failed=True))

    def holds(self, nodes: Iterable[ast.AST]) -> bool:
        """Whether some of these nodes take steps."""
        return any(n in self.nodes or (isinstance(n, ast.Call) and self._are_run_by(n)) for n in nodes)

    def _holds_inside(self, statement: ast.AST) -> bool:
        """Whether something in a statement takes steps."""
        if statement not in self._holding:
            self._holding[statement] = self.holds(walk(statement))
        return self._holding[statement]

    def _are_run_by(self, call: ast.Call) -> bool:
        """Whether a call takes a step in one of the project's functions."""
        return any(map(self._is_in, self.program.flow.callees.get(call, ())))

    def _is_in(self, function: Scope) -> bool:
        if function not in self._runs:
            self._runs[function] = not self.frames.isdisjoint(self.program.run_from([function]))
        return self._runs[function]
