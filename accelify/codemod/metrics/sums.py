"""What does a loop add up over the batches it is dealt, and what becomes of the sums after it?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from accelify.codemod.libraries import methods
from accelify.codemod.metrics.sum_uses import Use, Uses, line_of
from accelify.codemod.metrics.summands import Summand
from accelify.codemod.preparing.prepared import Prepared
from accelify.codemod.semantics.program import LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.purity import CLOCKS
from accelify.codemod.semantics.scopes import Scope, names_in
from accelify.codemod.training.phases import Phase

Loop = ast.For | ast.AsyncFor
_ZEROS = ("torch.zeros", "np.zeros", "numpy.zeros", "torch.tensor", "torch.FloatTensor")
_MOVES = ("to", "cuda", "float", "double", "long")
_FAR = 10**9


@dataclass(frozen=True)
class Reduction:
    """Sums over one process's share of a loop that become sums over all of it, after `anchor`.

    how: `sum`, or `mean` for what the script divides by the number of batches that one process takes.
    condition: when the loop goes over a shared loader at all; None for always. training: when it trains, of a loop that
    is dealt out whole batches otherwise; a mean then is a sum where it does not.
    """

    loop: Loop
    anchor: ast.stmt
    names: tuple[str, ...]
    how: str
    condition: str | None
    training: str | None = None


class Sums:
    """Find the sums that can be shown to come out over all processes as over one.

    Such a sum begins at zero just outside its loop, nothing but the loop adds to it, and it is read after the loop.
    Where each process takes batches of its own, what the script divides by decides: the number of batches that one
    process takes asks for the mean, all else for the sum. Where the processes share each batch (`splits_batches`), it
    is what is added: of a batch's mean the mean, of what is summed over its rows the sum.
    """

    def __init__(
        self,
        program: Program,
        tracer: Tracer,
        prepared: Prepared,
        splits_batches: bool,
        phases: Mapping[ast.AST, Phase],
        only_if: Callable[[Loop], str | None],
    ) -> None:
        self.program = program
        self.tracer = tracer
        self.prepared = prepared
        self.splits_batches = splits_batches
        self.phases = phases
        self.only_if = only_if
        self.uses = Uses(program, tracer, prepared)

    def of(self, loop: Loop) -> list[Reduction]:
        """What to reduce after a loop over a loader that is shared, or over a share of the script's own data."""
        phase, phases = self.phases.get(loop), self._phases(loop)
        condition = phase.text if phase else self._condition(loop) if phases is None else self._row(phases)
        always = (
            phase is None and phases is None and (loop in self.prepared.loops or self.prepared.is_dealt_by_hand(loop))
        )
        if condition is None and not always:
            return []
        condition = condition or self.only_if(loop)
        frame = self.program.frame(loop)
        found: dict[str, tuple[str, ast.stmt, set[str]]] = {}
        for name in sorted(added_in(loop), key=lambda n: added_in(loop)[n][0].lineno):
            judged = self._judge(name, loop, frame)
            if judged is not None:
                found[name] = judged
        self._drop_the_unlinked(found, loop)
        grouped: dict[tuple[str, ast.stmt], list[str]] = {}
        for name, (how, anchor, _) in found.items():
            grouped.setdefault((how, anchor), []).append(name)
        return [Reduction(loop, anchor, tuple(names), how, condition) for (how, anchor), names in grouped.items()]

    def _condition(self, loop: Loop) -> str | None:
        """`phase == "train"`, where a loop goes over `loaders[phase]` and only `loaders["train"]` is prepared."""
        keys: set[str | None] = set()
        for node in ast.walk(loop.iter):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Attribute)):
                keys |= {self.prepared.key_of(chain) for chain in self.tracer.chains(node)}
                text = ast.unparse(node.slice)
        key = keys.pop() if len(keys) == 1 else None
        return None if key is None else f"{text} == {key}"

    def _phases(self, loop: Loop) -> Loop | None:
        """The loop that deals out the loaders themselves: `for phase, loader in [("train", a), ("val", b)]`."""
        names = names_in(loop.iter)
        for outer in self.program.loops_round(loop):
            listed = outer.iter if isinstance(outer, ast.For) else None
            if isinstance(outer, ast.For) and isinstance(listed, (ast.List, ast.Tuple)) and len(listed.elts) > 1:
                values = {n for n in ast.walk(outer.target) if isinstance(n, ast.Name) and n.id in names}
                if any(self.tracer.chains(n) for n in values):
                    return outer
        return None

    @staticmethod
    def _row(phases: Loop) -> str | None:
        """`phase == "train"`, for the one row of the phases that trains."""
        rows = [e.elts for e in getattr(phases.iter, "elts", []) if isinstance(e, (ast.Tuple, ast.List))]
        targets = phases.target.elts if isinstance(phases.target, (ast.Tuple, ast.List)) else []
        told = [
            (target.id, e.value)
            for row in rows
            for target, e in zip(targets, row, strict=False)
            if isinstance(target, ast.Name) and isinstance(e, ast.Constant) and "train" in str(e.value).lower()
        ]
        return f'{told[0][0]} == "{told[0][1]}"' if len(told) == 1 and isinstance(told[0][1], str) else None

    @staticmethod
    def _drop_the_unlinked(found: dict[str, tuple[str, ast.stmt, set[str]]], loop: Loop) -> None:
        """A sum that stands beside another of the loop's in one calculation is reduced with it, or not at all."""
        local = added_in(loop).keys() | bound_in(loop)
        changed = True
        while changed:
            changed = False
            for name, (how, anchor, others) in list(found.items()):
                beside = others & local
                if any(o not in found or found[o][:2] != (how, anchor) for o in beside):
                    del found[name]
                    changed = True

    def _judge(self, name: str, loop: Loop, frame: Scope) -> tuple[str, ast.stmt, set[str]] | None:
        """How a sum is reduced, after which statement, and what else it is calculated with; None where unclear."""
        if self.program.scope(loop).owner(name) is not frame or _moves_on(name, loop) or self._is_of_time(name, loop):
            return None
        anchor = self._anchor(name, loop, frame)
        if anchor is None or self._is_trained_on(name, frame):
            return None
        uses = list(self.uses.after(name, anchor, frame))
        if not uses or not all(u.is_known for u in uses):
            return None
        if self.splits_batches and not self.prepared.is_dealt_by_hand(loop):
            how = self._how_it_adds(name, loop)
        else:
            how = self._how_it_is_divided(name, uses, loop)
        if how is None:
            return None
        others = {o for u in uses for o in u.others} - {name}
        if how == "sum" and not others & added_in(loop).keys() and self._only_numbers_rounds(name, loop, frame):
            return None
        if how == "mean":
            others -= names_in(loop.target)
        return how, anchor, others

    def _only_numbers_rounds(self, name: str, loop: Loop, frame: Scope) -> bool:
        """Whether a sum is one more in every round, as of all processes, and nothing is divided by it."""
        steps = added_in(loop)[name]
        is_one = all(isinstance(added(s)[1], ast.Constant) and self.program.parent(s) is loop for s in steps)
        divides = (
            isinstance(a, ast.BinOp) and isinstance(a.op, (ast.Div, ast.FloorDiv)) and self.program.inside(r, a.right)
            for r in self.program.reads_of(frame, name)
            for a in self.program.ancestors(r)
        )
        return is_one and not any(divides)

    def _is_of_time(self, name: str, loop: Loop) -> bool:
        """Whether what is added is the time that a round took, while the processes work at once."""
        clocks = {
            target.id
            for node in ast.walk(loop)
            if isinstance(node, ast.Assign) and self._reads_a_clock(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        added = (statement.value for statement in added_in(loop)[name])
        return any(self._reads_a_clock(value) or names_in(value) & clocks for value in added)

    def _reads_a_clock(self, node: ast.expr) -> bool:
        return any(isinstance(n, ast.Call) and bool(self.program.called(n) & CLOCKS) for n in ast.walk(node))

    def _how_it_is_divided(self, name: str, uses: list[Use], loop: Loop) -> str | None:
        counts = {self.uses.counts_own_batches(d, loop) for u in uses for d in u.divisors}
        if None in counts or len(counts) > 1 or (counts == {True} and any(not u.divisors for u in uses)):
            return None
        divided = {self._is_divided(statement.value, loop) for statement in added_in(loop)[name]}
        if divided != {False}:  # part by part: `mean += loss / len(loader)`
            return "mean" if divided == {True} and counts <= {False} else None
        return "mean" if counts == {True} else "sum"

    def _is_divided(self, summand: ast.expr, loop: Loop) -> bool:
        """Whether what is added is divided by the number of batches that one process takes."""
        names = [n for n in ast.walk(summand) if isinstance(n, ast.Name)]
        nodes = [n for v in [summand, *(v for n in names for v in self._given(n, loop))] for n in ast.walk(v)]
        divisors = [n.right for n in nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
        return any(self.uses.is_of_own_count(d, loop) for d in divisors)

    def _given(self, name: ast.Name, loop: Loop) -> list[ast.expr]:
        """What a variable holds that the loop gives a value."""
        owner = self.program.scope(name).owner(name.id)
        writes = self.tracer.writes(owner, name.id) if owner is not None else []
        names = [w for w in writes if isinstance(w, ast.Name) and self.program.inside(w, loop)]
        assigned = [w for w in names if isinstance(self.program.statement(w), ast.Assign)]
        return [value for value in map(self.tracer.assigned, assigned) if value is not None]

    def _how_it_adds(self, name: str, loop: Loop) -> str | None:
        kinds = {Summand(self.program, loop).is_of_rows(statement.value) for statement in added_in(loop)[name]}
        kind = kinds.pop() if len(kinds) == 1 else None
        return None if kind is None else "sum" if kind else "mean"

    # Where a sum begins.

    def _anchor(self, name: str, loop: Loop, frame: Scope) -> ast.stmt | None:
        """The loop after which a sum is complete, if it begins at zero just outside and nothing else adds to it."""
        writes = [w for w in self.tracer.writes(frame, name) if not self.program.inside(w, loop)]
        if any(self.program.frame(r) is not frame for r in self.program.reads_of(frame, name)):
            return None
        if any(isinstance(self.program.statement(r), ast.Return) for r in self.read_in(loop, name)):
            return None
        within = [w for w in self.tracer.writes(frame, name) if self.program.inside(w, loop)]
        if any(self.program.statement(w) not in added_in(loop)[name] for w in within):
            return None
        begins = [w for w in writes if line_of(w) < loop.lineno]
        first = max(begins, key=line_of, default=None)
        if not isinstance(first, ast.expr) or not is_zero(self.tracer.assigned(first)):
            return None
        outer = self._child_of_block(loop, self.program.statement(first))
        if outer is None:
            return None
        anchor = next((a for a in self._way(loop, outer) if isinstance(a, LOOPS)), loop)
        end = anchor.end_lineno or anchor.lineno
        later = [self.program.statement(w) for w in writes if line_of(w) > loop.lineno]
        begun_again = min((s.lineno for s in later if not isinstance(s, ast.AugAssign)), default=_FAR)
        if any(
            isinstance(s, ast.AugAssign) and isinstance(s.op, (ast.Add, ast.Sub))
            for s in later
            if s.lineno < begun_again
        ):
            return None
        if any(s.lineno <= end for s in later):
            return None
        inside = [r for r in self.program.reads_of(frame, name) if self.program.inside(r, anchor)]
        if anchor is not loop and any(not self.program.inside(r, loop) for r in inside):
            return None
        return anchor

    def _way(self, loop: Loop, outer: ast.stmt) -> Iterator[ast.AST]:
        """A statement, and what it holds down to a loop."""
        inner = [loop, *self.program.ancestors(loop)]
        yield from reversed(inner[: inner.index(outer) + 1])

    def _child_of_block(self, node: ast.stmt, statement: ast.stmt) -> ast.stmt | None:
        """The statement of another's block that holds a node."""
        block = self.program.block(statement)
        for candidate in [node, *self.program.ancestors(node)]:
            if isinstance(candidate, ast.stmt) and any(s is candidate for s in block):
                return candidate
        return None

    def read_in(self, loop: ast.AST, name: str) -> list[ast.Name]:
        """Where a loop reads a variable of its function other than to add to it."""
        frame = self.program.frame(loop)
        return [
            r
            for r in self.program.reads_of(frame, name)
            if self.program.inside(r, loop) and _added_to(self.program.statement(r)) != name
        ]

    def _is_trained_on(self, name: str, frame: Scope) -> bool:
        """Whether a sum is of losses with their graphs, on which a backward pass runs."""
        return any(
            isinstance(c.func, ast.Attribute) and c.func.attr == "backward" and name in names_in(c)
            for c in self.program.calls
            if self.program.frame(c) is frame
        )


def added_in(loop: Loop) -> dict[str, list[ast.AugAssign | ast.Assign]]:
    """The variables to which a loop adds, with the statements that do."""
    found: dict[str, list[ast.AugAssign | ast.Assign]] = {}
    for node in ast.walk(loop):
        target = _added_to(node)
        if target is not None:
            assert isinstance(node, (ast.AugAssign, ast.Assign))
            found.setdefault(target, []).append(node)
    return found


def added(node: ast.AugAssign | ast.Assign) -> tuple[ast.expr, ast.expr | None]:
    """Where a statement adds something, and what: `a` and `x` of `a += x` and of `a = a + x`; None if it does not."""
    if isinstance(node, ast.AugAssign):
        return node.target, node.value if isinstance(node.op, ast.Add) else None
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Name) and len(node.targets) == 1 and isinstance(value, ast.BinOp):
        for side, other in ((value.left, value.right), (value.right, value.left)):
            is_there = isinstance(side, ast.Name) and side.id == target.id
            if is_there and isinstance(value.op, ast.Add) and target.id not in names_in(other):
                return target, other
    return target, None


def _added_to(node: ast.AST) -> str | None:
    """`a` of `a += x` and of `a = a + x`."""
    target, value = added(node) if isinstance(node, (ast.AugAssign, ast.Assign)) else (None, None)
    return target.id if isinstance(target, ast.Name) and value is not None else None


def _moves_on(name: str, loop: Loop) -> bool:
    """Whether what is added depends on the sum so far, as in a running mean: `mean += (x - mean) / n`."""
    return any(isinstance(s, ast.AugAssign) and name in names_in(s.value) for s in added_in(loop)[name])


def bound_in(loop: Loop) -> set[str]:
    """The variables that hold something of one process after a loop."""
    found: set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and methods.puts_in(node.func.attr):
            found |= names_in(node.func.value)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found |= names_in(node.value)
    return found


def is_zero(value: ast.expr | None) -> bool:
    """Whether a sum begins at nothing: a number or a tensor of zeros."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _MOVES:
        value = value.func.value
    if isinstance(value, ast.Constant):
        return type(value.value) in (int, float) and value.value == 0
    if isinstance(value, ast.Call) and ast.unparse(value.func) in _ZEROS:
        numbers = [a.value for a in ast.walk(value) if isinstance(a, ast.Constant) and not isinstance(a.value, str)]
        return "zeros" in ast.unparse(value.func) or all(n == 0 for n in numbers if n is not None)
    return False
