"""Which of several processes come to a place, by the conditions round it and round the calls that lead there?

A guard that is not understood is still taken for one where it may be about the rank: what these answers are used for
must not be reported unless it is sure.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar, cast

from accelify.codemod.libraries import table, vocabulary
from accelify.codemod.libraries.row import Asks, Effect, Row, Trait
from accelify.codemod.semantics.chains import Chains
from accelify.codemod.semantics.conditions import Conditions, Process, World
from accelify.codemod.semantics.definitions import Definition, Kind
from accelify.codemod.semantics.outcomes import Anything
from accelify.codemod.semantics.program import LEAVING, Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import External, FunctionValue

T = TypeVar("T")
MAIN = World(Process.MAIN, has_gpu=True, trains=True)
OTHER = World(Process.OTHER, has_gpu=True, trains=True)
_DEEPEST = 6  # calls that are followed to a guard
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_NUMBERS = ("range(", "trange(", "itertools.count(", "count(")
_SPANS = (ast.If, ast.IfExp, ast.While)


class Processes:
    """Ask a program about its processes."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.chains = program.once(Chains)
        self.kinds = self.chains.kinds
        self.conditions = Conditions(program, _named(program))
        self._once: dict[object, object] = {}

    def once(self, make: Callable[[Processes], T]) -> T:
        """A value that several checks need, made when the first one asks: `processes.once(Trained)`."""
        if make not in self._once:
            self._once[make] = make(self)
        return cast(T, self._once[make])

    # Which processes.

    def is_dead(self, node: ast.AST, world: World, calls: tuple[ast.Call, ...] = ()) -> bool:
        """Whether one kind of process does not come to a place though it runs its function."""
        return self.conditions.is_dead(node, world, calls)

    def runs(self, node: ast.AST, world: World) -> bool:
        """Whether one kind of process may come to a place."""
        return self.conditions.runs(node, world)

    def enters(self, node: ast.AST, world: World) -> bool:
        """Whether one kind of process may run the function that a place is in."""
        body = self.frame(node).body
        return not body or self.conditions.runs(body[0], world)

    def is_everywhere(self, node: ast.AST) -> bool:
        """Whether every process comes to a place, as no guard stands on the way there from the start of the script."""
        return self._is_everywhere(node, frozenset())

    def _is_everywhere(self, node: ast.AST, seen: frozenset[Scope]) -> bool:
        frame = self.frame(node)
        if frame in seen or len(seen) > _DEEPEST or self.may_be_guarded(node):
            return False
        if frame in self.entries:
            return True
        callers = self.program.flow.callers.get(frame, ())
        return any(self._is_everywhere(call, seen | {frame}) for call in callers)

    @cached_property
    def entries(self) -> frozenset[Scope]:
        """Where each process of a script that starts a group begins: its own code, or the function that is spawned."""
        spawned = {scope for call in self.spawns for scope in self._given(call)}
        if spawned or self.spawns:
            return frozenset(spawned)
        return frozenset(self.program.flow.bindings[p.path].root for p in self.program.named)

    @cached_property
    def spawns(self) -> list[ast.Call]:
        """The calls that start processes."""
        return [c for c in self.program.calls if any(r.has(Effect.STARTS) for r in self.rows(c)) and self._is_run(c)]

    def _given(self, call: ast.Call) -> Iterator[Scope]:
        for given in [*call.args, *(k.value for k in call.keywords)]:
            for value in self.program.values(given):
                if isinstance(value, FunctionValue):
                    yield value.scope

    def is_run(self, node: ast.AST) -> bool:
        """Whether the named files run a place when they are started."""
        return self.program.frame(node) in self._run or self.program.frame(node) in self._spawned

    def _is_run(self, node: ast.AST) -> bool:
        return self.program.frame(node) in self._run

    @cached_property
    def _spawned(self) -> set[Scope]:
        return self.program.run_from(self.entries)

    @cached_property
    def _run(self) -> set[Scope]:
        """The functions that the named files run when they are started, not those that they only define."""
        return self.program.run_from(self.program.flow.bindings[p.path].root for p in self.program.named)

    @cached_property
    def is_distributed(self) -> bool:
        """Whether code that the named files run starts a group of processes, or joins one."""
        return any(self.is_run(call) and self.conditions.runs(call, OTHER) for call in self.starts)

    @cached_property
    def starts(self) -> list[ast.Call]:
        """The calls that start the group, or create an accelerator."""
        return [call for call in self.program.calls if any(map(_starts, self.rows(call)))]

    def frame(self, node: ast.AST) -> Scope:
        """The function or module whose run comes to a node."""
        frame = self.program.frame(node)
        while frame.kind == "class" and frame.parent is not None:
            frame = frame.parent.frame
        return frame

    # Guards.

    def may_be_guarded(self, node: ast.AST) -> bool:
        """Whether something in its function may keep some processes from a place."""
        return any(self._may_ask(test) for test in self.tests_before(node)) or self._is_decorated(node)

    def _may_ask(self, test: ast.expr) -> bool:
        in_main, in_other = (self.conditions.truth(test, world) for world in (MAIN, OTHER))
        if in_main is not None and in_main is in_other:
            return False
        return in_main is not in_other or vocabulary.may_ask_for_rank(self._spelled(test))

    def _spelled(self, test: ast.expr) -> str:
        """The text of a condition, and of what its variables were given."""
        texts = [ast.unparse(test)]
        for name in ast.walk(test):
            if isinstance(name, (ast.Name, ast.Attribute)):
                texts += map(ast.unparse, self.given(name))
        return " ".join(texts)

    def given(self, read: ast.expr) -> Iterator[ast.expr]:
        """The expressions that may have given a variable its value; of a loop's variable, what is iterated over."""
        if not isinstance(read, (ast.Name, ast.Attribute)) or not isinstance(read.ctx, ast.Load):
            return
        found = self.program.definitions(read).definitions(read)
        for definition in sorted(found, key=lambda d: self.program.position(d.node)):
            yield from self._given_by(definition)
        if not found:
            ends = (chain[-1].value for chain in self.chains.tracer.chains(read) if chain)
            yield from (end for end in ends if end is not None and end is not read)

    def _given_by(self, definition: Definition) -> Iterator[ast.expr]:
        tracer, function = self.chains.tracer, definition.variable.scope
        if definition.kind is Kind.PARAMETER and function is not None and not isinstance(function.node, ast.Module):
            calls = self.program.flow.callers.get(function, ())
            for call in calls:
                given = tracer.argument(call, function, definition.variable.name)
                yield from [given] if given is not None else tracer.rest(call, function, definition.variable.name)
        elif isinstance(definition.node, ast.expr):
            statement = self.program.statement(definition.node)
            if isinstance(statement, (ast.For, ast.AsyncFor)):
                yield statement.iter
            elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and statement.value is not None:
                yield statement.value

    def is_of_loop(self, read: ast.Name) -> bool:
        """Whether a variable may be given by a loop over other values than numbers."""
        for definition in self.program.definitions(read).definitions(read):
            _, loop = self.program.binding(definition.node)
            if isinstance(loop, (ast.For, ast.AsyncFor)) and not _counts(loop, definition.node):
                return True
        return False

    def tests_before(self, node: ast.AST) -> Iterator[ast.expr]:
        """The conditions of its function that decide whether a place is reached: round it, or of what leaves before."""
        child = node
        for ancestor in self.program.ancestors(node):
            if isinstance(ancestor, _SPANS) and child is not ancestor.test:
                yield ancestor.test
            if isinstance(ancestor, ast.BoolOp):
                yield from ancestor.values[: ancestor.values.index(child)]  # type: ignore[arg-type]  # one of them
            for block in _blocks(ancestor):
                if child in block:
                    for statement in block[: block.index(child)]:
                        if isinstance(statement, ast.If) and _may_leave(statement):
                            yield statement.test
            if isinstance(ancestor, _FUNCTIONS):
                return
            child = ancestor

    def _is_decorated(self, node: ast.AST) -> bool:
        function = self.frame(node).node
        decorators = getattr(function, "decorator_list", [])
        return any(vocabulary.may_ask_for_rank(ast.unparse(d)) for d in decorators)

    # The function behind a call.

    def rows(self, call: ast.Call) -> tuple[Row, ...]:
        """The rows of a library's function or method that a call surely goes to."""
        named = self.program.called(call)
        if named:
            rows = [table.function(n) for n in sorted(named)]
            return tuple(r for r in rows if r is not None) if None not in rows else ()
        if isinstance(call.func, ast.Attribute):
            if self.is_accelerator(call.func.value):
                row = table.member("accelerator", call.func.attr)
                return (row,) if row is not None else ()
            kinds = self.kinds.of(call.func.value)
            found = [table.member(kind, call.func.attr) for kind in sorted(kinds)]
            return tuple(r for r in found if r is not None) if None not in found else ()
        return ()

    def is_accelerator(self, node: ast.expr) -> bool:
        """Whether an expression is the accelerator: by what it holds, else by its name."""
        if self.kinds.of(node) == {"accelerator"}:
            return True
        last = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        is_module = any(isinstance(v, External) for v in self.program.values(node))
        return vocabulary.is_accelerator_name(last) and not is_module


def _starts(row: Row) -> bool:
    is_group = row.has(Trait.GROUP) and row.has(Effect.READS_ENVIRONMENT)
    return is_group or row.returns == "accelerator"


def _named(program: Program) -> dict[ast.expr, Asks]:
    """The facts about the processes that the names of variables suggest, where nothing else shows their value."""
    plain = program.once(Conditions)
    found: dict[ast.expr, Asks] = {}
    for parsed in program.files:
        for node in parsed.nodes:
            name = _last(node)
            asks = vocabulary.asked_by_name(name) if name else None
            if asks is None:
                continue
            assert isinstance(node, ast.expr)
            is_open = isinstance(node, ast.Attribute) or isinstance(plain.outcome(node, OTHER), Anything)
            if is_open and not any(isinstance(v, External) for v in program.values(node)):
                found[node] = asks
    return found


def _last(node: ast.AST) -> str:
    """The last name of what is read, or of the function that is called."""
    if isinstance(node, ast.Call):
        return _last(node.func)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) else ""


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def _counts(loop: ast.For | ast.AsyncFor, node: ast.AST) -> bool:
    """Whether a loop gives one of its variables numbers: `range(9)`, the first of `enumerate(rows)`."""
    text = ast.unparse(loop.iter)
    is_first = isinstance(loop.target, (ast.Tuple, ast.List)) and loop.target.elts[0] is node
    return text.startswith(_NUMBERS) or (is_first and text.startswith("enumerate("))


def _may_leave(statement: ast.If) -> bool:
    return any(
        isinstance(n, LEAVING) for block in (statement.body, statement.orelse) for s in block for n in ast.walk(s)
    )
