"""What do the ranks decide each by itself, that they must do alike: whether to take a step, with which gradients?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from functools import partial

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, names
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.comparisons import Answer, LossComparisons, NumberChecks
from accelify.codemod.metrics.facts import Metrics
from accelify.codemod.metrics.joint_steps import JointSteps
from accelify.codemod.metrics.ranks.labels import Mark
from accelify.codemod.metrics.rows.lengths import (
    goes_along_an_item,
    has_other_sizes,
    is_cut_from_an_item,
    leaves_some_out,
    may_be_longer,
)
from accelify.codemod.metrics.rows.padding import follows_padding
from accelify.codemod.semantics import sizes
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.control_flow import Choice, choices
from accelify.codemod.semantics.definitions import Definition, Kind
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, own_statements, returned
from accelify.codemod.semantics.values import Constant
from accelify.codemod.semantics.visits.ways import Gate, Ways
from accelify.codemod.training.gradients.round_tensors import RoundTensors, owners_of_gradients
from accelify.codemod.training.losses import without_gradients

_DRAWN = (Mark.DRAW, Mark.PICKED, Mark.SIMULATION)
_OWN_GRADIENTS = (Mark.BATCH, Mark.DRAW, Mark.SIMULATION)
_GOES_ON = (ast.Break, ast.Continue, ast.Return)
_MAYBE = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.comprehension)
_TRUE_OR_FALSE = (ast.If, ast.While, ast.IfExp)  # an operand may be the value of `a or b`, `match` compares it
_DEPTH = 3  # variables and functions that a question is followed through


def decided_apart(metrics: Metrics, together: Iterable[ast.AST] = ()) -> Iterator[Choice]:
    """The conditions of steps, and of what is prepared, that may hold on one rank and not on another.

    together: what else all processes do together; without it, the steps of the training and what a signal asks for.
    """
    meetings = set(together)
    steps = JointSteps(metrics, meetings)
    program, files = metrics.measured.program, FileQuestions(metrics.measured.chains)
    dropped = metrics.measured.range_ends
    for parsed in program.files:
        asked = (choice for n in parsed.parents for choice in choices(n))
        for choice in sorted(asked, key=lambda c: program.position(c.node)):
            if program.frame(choice.node) not in program.reachable or choice.node in dropped:
                continue
            is_apart = steps.depend_on(choice) and _is_own(metrics, choice.test)
            is_asked = not meetings and (_saves_at_a_signal(metrics, choice) or steps.go_on_by(choice, files.are_in))
            if is_apart or is_asked:
                yield choice


def decided_together(metrics: Metrics, apart: Sequence[Choice]) -> dict[Choice, Answer]:
    """Those of such conditions to which all ranks come equally often, and have one answer, each with how that is made.

    One rank may decide for all where only whether training goes on is decided. A step that a rank leaves out because
    of its own batch is no such decision: all leave it out where one does.
    """
    training = metrics.measured.training
    learning = JointSteps(metrics, {*training.backwards, *training.steps})
    comparisons, checks = LossComparisons(metrics), NumberChecks(metrics)
    found: dict[Choice, Answer] = {}
    for choice in (c for c in apart if isinstance(c.node, _TRUE_OR_FALSE)):
        if metrics.ranks.of(choice.test).of(Mark.SIGNAL):
            continue
        if (how := checks.answer(choice.test)) is not None:
            found[choice] = how
        elif not _is_sized(metrics, choice.test) and _is_for_all(metrics, learning, comparisons, choice):
            found[choice] = Answer.FIRST
        elif _is_of_one_round(metrics, choice.test) and (how := learning.left_out_by(choice)) is not None:
            found[choice] = how
    while left := [c for c in found if not is_met_by_all(metrics, c.node, {*apart}.difference(found), found)]:
        for choice in left:
            del found[choice]
    return found


def _is_of_one_round(metrics: Metrics, test: ast.expr) -> bool:
    """Whether nothing of earlier rounds makes a condition a rank's own, nor that ranks may get parts of each batch."""
    if metrics.measured.options.keep_global_batch and goes_by_size(metrics, test):
        return False
    chosen = [getattr(o.node, "test", None) for o in metrics.ranks.of(test).of(Mark.CHOSEN)]
    asked = [test, *(t for t in chosen if t is not None)]
    return not any(o.differs for t in asked for o in metrics.ranks.of(t).of(Mark.RUNNING, Mark.SIMULATION))


def number_read_on(metrics: Metrics, choice: Choice) -> ast.expr | None:
    """The value of the one number that a condition asks for, set just before in its block and read after it as well.

    It is this that one process has to give to all: `lr = find(loss)`, `if lr == -1: break`, `group["lr"] = lr`.
    """
    program, found = metrics.measured.program, _asked_of(metrics, choice.test)
    if not isinstance(choice.node, ast.If) or len(found) != 1 or not _read_on(metrics, choice.test, found):
        return None
    path, holder = program.binding(next(iter(found)).node)
    if not isinstance(holder, ast.Assign) or path or holder not in program.block(choice.node):
        return None
    is_number = metrics.measured.chains.kinds.of(holder.value) == {"number"}  # no tensor, which may be of another GPU
    return holder.value if is_number else None


def drawn_keys(metrics: Metrics, apart: Sequence[Choice], alike: Container[Choice]) -> Iterator[ast.expr]:
    """What a process draws to choose its loader or its optimizer by: `name = random.choice(names)`, `next(of[name])`.

    apart, alike: the conditions that ranks decide apart, and those of them that one decides for all.
    """
    program, chains, training = metrics.measured.program, metrics.measured.chains, metrics.measured.training
    taken = [*training.steps, *(c for c in program.calls if metrics.ranks.shards.is_loader(program.iterator(c) or c))]
    keys = (n.slice for c in taken for n in walk(c) if isinstance(n, ast.Subscript))
    others = {c for c in apart if c not in alike}
    for key in (k for k in keys if isinstance(k, ast.Name) and _are_draws(metrics, k)):
        found = [d.node for d in chains.definitions(key)]
        path, holder = program.binding(found[0]) if len(found) == 1 else ((), None)
        is_plain = isinstance(holder, ast.Assign) and not path and "tensor" not in chains.kinds.of(holder.value)
        if is_plain and isinstance(holder, ast.Assign) and is_met_by_all(metrics, holder, others, alike):
            yield holder.value


def _are_draws(metrics: Metrics, node: ast.expr) -> bool:
    """Whether nothing but a process's own draws makes a value its own."""
    differing = [o for o in metrics.ranks.of(node).origins if o.differs]
    return bool(differing) and all(o.mark in (Mark.DRAW, Mark.PICKED) for o in differing)


def _asked_of(metrics: Metrics, test: ast.expr) -> set[Definition]:
    """Where a condition's variables get the values that are a process's own."""
    asked = [n for n in walk(test) if isinstance(n, ast.Name) and metrics.ranks.is_own(n)]
    return {d for n in asked for d in metrics.measured.chains.definitions(n)}


def _read_on(metrics: Metrics, test: ast.expr, found: Iterable[Definition]) -> list[ast.AST]:
    """Where the values that a condition asks for are read after it."""
    program, facts = metrics.measured.program, metrics.measured.chains.facts(test)
    reads = (r for d in found for r in facts.uses(d) if not program.inside(r, test))
    return [r for r in reads if program.reaches(test, r)]


def repeated_apart(metrics: Metrics) -> Iterator[ast.For]:
    """The loops that take steps as often as the process's own item says, in a round of a sharded loop, or its episode.

    for t in range(len(states)):
        optimizer.step()
    """
    program, ranks, training = metrics.measured.program, metrics.ranks, metrics.measured.training
    steps = JointSteps(metrics, {*training.backwards, *training.steps})
    loops = (n for parsed in program.files for n in parsed.parents if isinstance(n, ast.For) and n not in ranks.rounds)
    for loop in sorted(loops, key=program.position):
        length = ranks.length_of(loop.iter)
        is_in_round = not ranks.loops.isdisjoint(program.loops_round(loop))
        is_in_round = is_in_round or (bool(length.of(*_DRAWN)) and _is_of_episode(metrics, loop.iter))
        if is_in_round and program.frame(loop) in program.reachable and steps.are_in(loop):
            sized = {origin.node for origin in length.of(Mark.ROWS)}
            is_of_item = is_cut_from_an_item(metrics, loop.iter)
            if length.is_own or any(
                may_be_longer(metrics.measured, around, is_of_item=is_of_item)
                or goes_along_an_item(metrics, loop, around)
                for around in sized
            ):
                yield loop


def repeated_by_length(metrics: Metrics, others: Container[ast.For]) -> Iterator[ast.For]:
    """The loops, but for others, that go backward for each step of the length to which the rank's batch is padded."""
    program, steps = metrics.measured.program, JointSteps(metrics, {*metrics.measured.training.backwards})
    loops = (n for parsed in program.files for n in parsed.parents if isinstance(n, ast.For) and n not in others)
    for loop in sorted(loops, key=program.position):
        if program.frame(loop) in program.reachable and steps.are_in(loop) and follows_padding(metrics, loop.iter):
            yield loop


def _is_of_episode(metrics: Metrics, listed: ast.expr) -> bool:
    """Whether ranks put items into a list, which is not drawn from, some more often than others."""
    program, chains = metrics.measured.program, metrics.measured.chains
    nodes = list(walk(listed))
    is_asked = any(program.flow.callees.get(n) for n in nodes if isinstance(n, ast.Call))
    if is_asked or program.once(Effects).of(listed).draws:  # `random.sample(memory, 8)`
        return False
    definitions = (d for n in nodes if isinstance(n, (ast.Name, ast.Attribute)) for d in chains.definitions(n))
    filled = (d.node for d in definitions if d.kind is Kind.IN_PLACE)
    return any(not is_met_by_all(metrics, node, (), ()) for node in filled)


def _is_for_all(metrics: Metrics, learning: JointSteps, comparisons: LossComparisons, choice: Choice) -> bool:
    """Whether a condition is about going on, or is drawn; or about a step as long as a loss is high or low enough."""
    if isinstance(choice.node, ast.While) or learning.only_end_by(choice) or _is_drawn(metrics, choice):
        return True
    return not learning.is_left_early(choice) and comparisons.decide(choice.test)


def _is_drawn(metrics: Metrics, choice: Choice) -> bool:
    """Whether only a process's own draws make a condition its own, so that any process may draw for all.

    Not where more than conditions reads them afterwards, as they would still be each process's own.
    """
    program = metrics.measured.program
    if not _are_draws(metrics, choice.test):
        return False
    reads = _read_on(metrics, choice.test, _asked_of(metrics, choice.test))
    tests = (getattr(program.statement(r), "test", None) for r in reads)
    is_for_tests = all(t is not None and program.inside(r, t) for r, t in zip(reads, tests, strict=True))
    return is_for_tests or number_read_on(metrics, choice) is not None


def is_asked_together(metrics: Metrics, call: ast.Call, apart: Container[Choice], alike: Container[Choice]) -> bool:
    """Whether all ranks come to a call equally often, and no part of an expression or file on disk decides about it.

    apart, alike: the conditions that ranks decide apart, and those of them that one decides for all.
    """
    program, files = metrics.measured.program, FileQuestions(metrics.measured.chains)
    statement = program.statement(call)
    inside = [n for n in program.ancestors(call) if program.inside(n, statement)]
    tests = [n.test for n in (call, *program.ancestors(call)) if isinstance(n, (ast.If, ast.While))]
    is_sure = not any(isinstance(n, _MAYBE) for n in inside) and not any(map(files.are_in, tests))
    return is_sure and is_met_by_all(metrics, call, apart, alike)


def follows(metrics: Metrics, test: ast.expr, agreed: Iterable[Choice]) -> bool:
    """Whether a value differs between ranks only by what some conditions decide, on which all ranks agree."""
    decided = {c.node for c in agreed}
    differing = [o for o in metrics.ranks.of(test).origins if o.differs]
    return bool(differing) and all(o.mark is Mark.CHOSEN and o.node in decided for o in differing)


def is_met_by_all(metrics: Metrics, node: ast.AST, apart: Container[Choice], alike: Container[Choice]) -> bool:
    """Whether all ranks come to a node equally often, where they decide some conditions apart and others alike."""
    ranks = metrics.ranks

    def is_open(gate: Gate) -> bool:
        asked = (c for c in gate.choices if c not in alike)
        is_counted = all(loop in ranks.rounds or not ranks.is_own(loop.iter) for loop in gate.loops)
        return is_counted and not gate.may_fail and not any(c in apart or _is_own(metrics, c.test) for c in asked)

    return metrics.measured.program.once(Ways).are_open(node, is_open)


def _saves_at_a_signal(metrics: Metrics, choice: Choice) -> bool:
    """Whether a process writes a file when it gets a signal, though only the main process may write it."""
    is_of_signal = bool(metrics.ranks.of(choice.test).of(Mark.SIGNAL))
    return is_of_signal and bool(metrics.measured.chains.effects.of(*choice.parts).files_written)


class FileQuestions:
    """Ask whether a value says that a file is there, or which are, which another process may find a moment later."""

    def __init__(self, chains: Chains, traits: Collection[Trait] = (Trait.LOOKS,)) -> None:
        self.chains = chains
        self.program = chains.program
        self.traits = traits

    def are_in(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether an expression looks for a file, itself, by a variable or by a function of the project's own."""
        return any(self._is_one(n, depth) for n in walk(node) if isinstance(n, (ast.Call, ast.Name)))

    def _is_one(self, node: ast.Call | ast.Name, depth: int) -> bool:
        if isinstance(node, ast.Call):
            if any(row.has(trait) for row in self.chains.kinds.called(node) or () for trait in self.traits):
                return True
            given = returned(self.program.flow.callees.get(node, ()))
        else:
            made = (d.node for d in self.chains.definitions(node) if d.kind is Kind.ASSIGNMENT)
            given = [self.chains.tracer.assigned(n) for n in made if isinstance(n, (ast.Name, ast.Attribute))]
        return bool(depth) and any(self.are_in(n, depth - 1) for n in given if n is not None)


def skipped_apart(metrics: Metrics) -> dict[ast.Try, bool]:
    """The statements in which one rank may fail and go on as the others do not, each with what it leaves out.

    That is a step of a round, or else, False, the training itself, which a loop round it begins once more.
    """
    program, training = metrics.measured.program, metrics.measured.training
    rounds = {d.loop for d in training.data}
    survived = (t for b in training.backwards for t in _survived(program, b, rounds, frozenset(), is_step=True))
    learning = {node: is_step for node, is_step in survived if without_gradients(program, node) is None}
    return {**dict.fromkeys(given_up(metrics), True), **learning}


def given_up(metrics: Metrics) -> Iterator[ast.Try]:
    """The statements before a step in which a rank's own batch, or its draw, may fail: its round ends without one."""
    program, training = metrics.measured.program, metrics.measured.training
    steps = JointSteps(metrics, {*training.backwards, *training.steps})
    for node in (n for parsed in program.files for n in parsed.parents if isinstance(n, ast.Try)):
        inside = [n for s in node.body for n in walk(s)]
        if program.frame(node) not in program.reachable or steps.holds(inside):
            continue
        left = (n for h in _errors(program, node, inside) for n in walk(h) if isinstance(n, _GOES_ON))
        if any(steps.are_left(n, node) for n in left) and any(_is_of_batch(metrics, n) for n in inside):
            yield node


def _errors(program: Program, node: ast.Try, inside: Collection[ast.AST]) -> Iterator[ast.ExceptHandler]:
    """Those handlers that get errors: not the user's interrupt, nor the end of the data, which comes to all ranks."""
    may_end = any(isinstance(n, ast.Call) and program.iterator(n) is not None for n in inside)
    for handler in node.handlers:
        caught = _caught(handler)
        is_end = "StopIteration" in caught or (may_end and all(map(names.is_any_exception, caught)))
        may_end = may_end and not is_end
        if not is_end and not _is_stop(handler):
            yield handler


def _is_stop(handler: ast.ExceptHandler) -> bool:
    caught = _caught(handler)
    return bool(caught) and all(map(names.stops_run, caught))


def _caught(handler: ast.ExceptHandler) -> list[str]:
    return [ast.unparse(n) for n in walk(handler.type) if isinstance(n, ast.Name)] if handler.type else []


def _is_of_batch(metrics: Metrics, node: ast.AST) -> bool:
    found = metrics.ranks.of(node).of(Mark.BATCH, *_DRAWN) if isinstance(node, (ast.Name, ast.Call)) else ()
    return any(origin.differs for origin in found)


def _survived(
    program: Program,
    node: ast.AST,
    rounds: Container[ast.AST | None],
    seen: frozenset[tuple[Scope, bool]],
    *,
    is_step: bool,
) -> Iterator[tuple[ast.Try, bool]]:
    """The statements round a node that go on where it fails, in one round of the training or after it; callers, too."""
    frame = program.frame(node)
    for around in program.ancestors(node):
        if around is frame.node:
            break
        is_step = is_step and around not in rounds
        is_tried = isinstance(around, ast.Try) and any(program.inside(node, s) for s in around.body)
        if isinstance(around, ast.Try) and is_tried and any(_goes_on(program, h, is_step) for h in around.handlers):
            yield around, is_step
    for call in program.calls_of(frame) if (frame, is_step) not in seen and frame.is_function else ():
        yield from _survived(program, call, rounds, seen | {(frame, is_step)}, is_step=is_step)


def _goes_on(program: Program, handler: ast.ExceptHandler, is_step: bool) -> bool:
    """Whether a script may go on after an error of a step, or train again; what stops a run by hand is no error."""
    kinds = _GOES_ON if is_step else (ast.Continue,)
    leaves = any(isinstance(n, kinds) for n in walk(handler))
    is_again = is_step or bool(program.loops_round(handler))
    return not _is_stop(handler) and is_again and (leaves or program.control_flow(handler).completes(handler.body[-1]))


def _is_own(metrics: Metrics, test: ast.expr) -> bool:
    """Whether a condition may hold on one rank alone; a memory of draws grows by one a round, whatever is drawn."""
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
    if any(sizes.measured(s) is not None for s in sides) and metrics.ranks.shards.draws:
        return False
    return metrics.ranks.is_own(test) or _is_sized(metrics, test)


def _is_sized(metrics: Metrics, test: ast.expr) -> bool:
    """Whether a condition asks how much is in a rank's own batch."""
    return _asks_what_is_left(metrics, test) or goes_by_size(metrics, test)


def goes_by_size(metrics: Metrics, test: ast.expr) -> bool:
    """Whether a condition asks for the size of a batch, and ranks may have batches of other sizes."""
    if metrics.ranks.is_own(test) or _asks_what_is_left(metrics, test):
        return False  # no batches of one size would help
    sized = {origin.node for origin in metrics.ranks.of(test).of(Mark.ROWS)}
    return any(has_other_sizes(metrics.measured, loop) for loop in sized)


def _asks_what_is_left(metrics: Metrics, test: ast.expr) -> bool:
    """Whether a condition asks how much of a batch a function of the script's own left: `len(x) > 1`, `x is None`."""
    asked = metrics.ranks.of(test).of(Mark.ROWS)
    for compared in (n for n in walk(test) if isinstance(n, ast.Compare) and isinstance(n.ops[0], (ast.Is, ast.IsNot))):
        if _may_be_none(metrics, compared.left):
            return True
        asked |= metrics.ranks.of(compared.left).of(Mark.BATCH)
    return any(map(partial(leaves_some_out, metrics.measured), {origin.node for origin in asked}))


def _may_be_none(metrics: Metrics, node: ast.expr) -> bool:
    """Whether it depends on a process's own data whether a value is there: `None if mask.sum() == 0 else loss`."""
    program, ranks = metrics.measured.program, metrics.ranks
    is_chosen = any(o.differs for o in ranks.of(node).of(Mark.CHOSEN))
    if is_chosen and Constant(None) in program.values(node):
        return True
    given = (program.binding(d.node)[1] for d in metrics.measured.chains.definitions(node))
    calls = (g.value for g in given if isinstance(g, ast.Assign) and isinstance(g.value, ast.Call))
    functions = {f for call in calls for f in program.flow.callees.get(call, ())}
    left = (n for f in functions for n in own_statements(f.body) if isinstance(n, ast.Return) and _is_nothing(n.value))
    return any(ranks.is_own(branching.test) for n in left for branching, _ in program.branches_round(n))


def _is_nothing(value: ast.expr | None) -> bool:
    """`return`, `return None`, `return None, None`"""
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(part is None or (isinstance(part, ast.Constant) and part.value is None) for part in parts)


def gradients_apart(metrics: Metrics) -> Iterator[ast.AST]:
    """`p.grad = g`, `p.grad += g`, `p.grad.copy_(g)`, where `g` comes from a rank's own batch or its own draws."""
    measured, program = metrics.measured, metrics.measured.program
    tensors = RoundTensors(program, measured.roles, measured.tracer, measured.training.rounds)
    for parsed in program.files:
        for node in parsed.parents:
            if (
                any(_is_own_gradient(metrics, value) for value in _put_into_gradients(node))
                and program.frame(node) in program.reachable
                and not all(map(tensors.holds, owners_of_gradients(node)))
            ):
                yield node


def _put_into_gradients(node: ast.AST) -> list[ast.expr]:
    """The values that a statement or a call puts into gradients."""
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [node.value] if any(map(_is_gradient, targets)) else []
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    is_changed = methods.changes_in_place(node.func.attr) and _is_gradient(node.func.value)
    return [*node.args, *(k.value for k in node.keywords)] if is_changed else []


def _is_gradient(node: ast.expr) -> bool:
    """`p.grad`, `p.grad.data`, `p.grad[0]`"""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "data"):
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _is_own_gradient(metrics: Metrics, value: ast.expr) -> bool:
    """Whether ranks may give different values; what was computed from averaged gradients is the same on all."""
    if any(origin.differs for origin in metrics.ranks.of(value).of(*_OWN_GRADIENTS)):
        return True
    return bool(metrics.ranks.rounds) and metrics.measured.program.once(Effects).of(value).draws
