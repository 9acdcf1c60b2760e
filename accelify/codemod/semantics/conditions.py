"""What does a condition come to in a world, and in which worlds does a statement run?

A world says how many processes there are and which one this is, whether there is a GPU, and whether models train. The
answer is true, false or unknown. Expressions are followed through variables (by the definitions that reach them),
attributes, parameters, what functions return, arithmetic and comparisons. `calls` is the way into the function that an
expression stands in, the innermost call last; without it, a parameter is what any of the callers gives.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, product
from typing import Any

from accelify.codemod.libraries import table, vocabulary
from accelify.codemod.libraries.row import Asks
from accelify.codemod.semantics.outcomes import (
    ANYTHING,
    FALSE,
    NONE,
    TRUE,
    Answers,
    Anything,
    Known,
    Outcome,
    Range,
    Something,
    calculated,
    compared,
    converted,
    either,
    known,
    negated,
    of_truth,
    truth,
)
from accelify.codemod.semantics.program import COMPREHENSIONS, LEAVING, LOOPS, Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.reaching.last_bindings import Holding, LastBindings, blocks
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import (
    ClassValue,
    External,
    Instance,
    Made,
    ModuleValue,
    Values,
)

Calls = tuple[ast.Call, ...]
_MOST_CALLS = 4  # how far the way into a function is remembered
_MOST_OPEN = 60  # expressions that wait for another's outcome
_CONVERSIONS = ("bool", "int", "float", "str", "abs", "len")
_MUTABLE = (ast.List, ast.Dict, ast.Set, *COMPREHENSIONS)


class Process(Enum):
    """Which process this is: the only one, the main one of several, or another of several on the same machine."""

    ONE = "one process"
    MAIN = "the main process of several"
    OTHER = "another process of several"


@dataclass(frozen=True, slots=True)
class World:
    """The circumstances that a condition may ask for besides the script's own variables."""

    process: Process
    has_gpu: bool
    trains: bool


WORLDS = frozenset(World(*each) for each in product(Process, (False, True), (False, True)))


def worlds_where(
    process: Process | None = None, has_gpu: bool | None = None, trains: bool | None = None
) -> frozenset[World]:
    """The worlds that are as is said; what is not said may be either."""
    return frozenset(
        w
        for w in WORLDS
        if process in (None, w.process) and has_gpu in (None, w.has_gpu) and trains in (None, w.trains)
    )


class Conditions:
    """Work out expressions, one world at a time."""

    def __init__(self, program: Program, told: Mapping[ast.expr, Asks] | None = None) -> None:
        """Ask a program for them, as one `Conditions` remembers what it has worked out: `program.once(Conditions)`.

        told: what some expressions are known to say of the process, for other reasons than those looked for here.
        """
        self.program = program
        self.flow = program.flow
        self._tracer = program.once(Tracer)
        self._told = told or {}
        self._outcomes: Answers[tuple[ast.AST, World, Calls]] = Answers(_MOST_OPEN)
        self._ways: dict[World, dict[Scope, list[Calls]] | None] = {}
        self._holding: Holding = {}
        self._leaving: dict[ast.AST, dict[ast.AST, tuple[ast.stmt, ...]]] = {}

    # Conditions.

    def truth(self, test: ast.expr, world: World, calls: Calls = ()) -> bool | None:
        """The truth of a condition in a world; None where it is not known."""
        return truth(self.outcome(test, world, calls))

    def truth_in(self, test: ast.expr, worlds: Iterable[World], calls: Calls = ()) -> bool | None:
        """The truth of a condition in all of several worlds; None where they differ or one is not known."""
        found = {self.truth(test, world, calls) for world in worlds}
        return found.pop() if len(found) == 1 else None

    def live_branch(self, branching: ast.If, world: World, calls: Calls = ()) -> list[ast.stmt] | None:
        """The branch that runs in a world; None where that is not known."""
        said = self.truth(branching.test, world, calls)
        return None if said is None else branching.body if said else branching.orelse

    # Where a place is reached.

    def worlds(self, node: ast.AST) -> frozenset[World]:
        """The worlds in which a place may run: through the conditions round it, and round the calls of its function."""
        return frozenset(w for w in WORLDS if self.runs(node, w))

    def runs(self, node: ast.AST, world: World) -> bool:
        """Whether a place may run in a world."""
        ways = self._ways_into(world)
        if ways is None:
            self._outcomes.rest_on_unfinished()  # the ways are just being worked out
            return True
        return any(not self.is_dead(node, world, calls) for calls in ways.get(self._running_frame(node), ()))

    def is_off(self, node: ast.AST) -> bool:
        """Whether a place is never reached though its function is run: `if False:`, `DEBUG = False`, `if DEBUG:`."""
        return all(self.is_dead(node, world) for world in WORLDS)

    def is_dead(self, node: ast.AST, world: World, calls: Calls = ()) -> bool:
        """Whether a place is not reached though its function is run."""
        child = node
        for ancestor in self.program.ancestors(node):
            if self._passes_by(ancestor, child, world, calls):
                return True
            if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                break
            child = ancestor
        return False

    def _passes_by(self, ancestor: ast.AST, child: ast.AST, world: World, calls: Calls) -> bool:
        if isinstance(ancestor, (ast.If, ast.IfExp, ast.While)) and child is not ancestor.test:
            in_body = child is ancestor.body or (isinstance(ancestor.body, list) and child in ancestor.body)
            said = self.truth(ancestor.test, world, calls)
            if said is not None and said is not in_body and (in_body or not isinstance(ancestor, ast.While)):
                return True
        if isinstance(ancestor, ast.BoolOp):
            before = ancestor.values[: ancestor.values.index(child)]  # type: ignore[arg-type]  # one of its values
            if any(self.truth(v, world, calls) is isinstance(ancestor.op, ast.Or) for v in before):
                return True
        return any(self.leaves(statement, world, calls) for statement in self.leaving_before(ancestor).get(child, ()))

    def leaving_before(self, holder: ast.AST) -> dict[ast.AST, tuple[ast.stmt, ...]]:
        """Of the blocks of a node, each statement with those before it that may leave its block."""
        found = self._leaving.get(holder)
        if found is None:
            found = self._leaving[holder] = {}
            for block in blocks(holder):
                before: tuple[ast.stmt, ...] = ()
                for statement in block:
                    found[statement] = before
                    before = (*before, statement) if self._may_leave(statement) else before
        return found

    def said_at(self, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
        """The conditions that hold, or do not, where a node runs: of its branches, and of returns before it."""
        tests = [(branching.test, is_body) for branching, is_body in self.program.branches_round(node)]
        for statement in (n for n in (node, *self.program.ancestors(node)) if isinstance(n, ast.stmt)):
            parent = self.program.parent(statement)
            before = self.leaving_before(parent).get(statement, ()) if parent is not None else ()
            tests += [(s.test, False) for s in before if isinstance(s, ast.If) and isinstance(s.body[-1], ast.Return)]
        for test, holds in tests:
            yield from implied(test, holds)

    def _may_leave(self, statement: ast.AST) -> bool:
        """Whether `leaves` can be true of a statement in some world."""
        if isinstance(statement, (ast.If, ast.With, ast.AsyncWith, ast.Try, ast.ExceptHandler)):
            return any(map(self._may_leave, chain.from_iterable(blocks(statement))))
        return isinstance(statement, (*LEAVING, ast.Assert)) or self._exits(statement)

    def _exits(self, statement: ast.AST) -> bool:
        call = statement.value if isinstance(statement, ast.Expr) else None
        return isinstance(call, ast.Call) and self.program.exits(call)

    def leaves(self, statement: ast.stmt, world: World, calls: Calls = ()) -> bool:
        """Whether nothing after a statement of the same block is reached."""
        if isinstance(statement, LEAVING):
            return True
        if isinstance(statement, ast.If):
            branch = self.live_branch(statement, world, calls)
            branches = [statement.body, statement.orelse] if branch is None else [branch]
            return all(self._block_leaves(b, world, calls) for b in branches)
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            return self._block_leaves(statement.body, world, calls)
        if isinstance(statement, ast.Try):
            tried = self._block_leaves([*statement.body, *statement.orelse], world, calls)
            caught = all(self._block_leaves(h.body, world, calls) for h in statement.handlers)
            return (tried and caught) or self._block_leaves(statement.finalbody, world, calls)
        if isinstance(statement, ast.Assert):
            return self.truth(statement.test, world, calls) is False
        return self._exits(statement)

    def _block_leaves(self, block: Sequence[ast.stmt], world: World, calls: Calls) -> bool:
        return any(self.leaves(s, world, calls) for s in block)

    def _running_frame(self, node: ast.AST) -> Scope:
        frame = self.program.frame(node)
        while frame.kind == "class" and frame.parent is not None:
            frame = frame.parent.frame
        return frame

    def _ways_into(self, world: World) -> dict[Scope, list[Calls]] | None:
        """The calls through which each function may be entered in a world; `()` where nobody is seen to call it."""
        if world in self._ways:
            return self._ways[world]
        self._ways[world] = None
        with self._outcomes.apart():
            ways = self._followed(world)
        self._ways[world] = ways
        return ways

    def _followed(self, world: World) -> dict[Scope, list[Calls]]:
        ways: dict[Scope, list[Calls]] = {}
        queue: list[tuple[Scope, Calls]] = [(s, ()) for s in self._entries()]
        while queue:
            frame, calls = queue.pop()
            if calls in ways.setdefault(frame, []):
                continue
            ways[frame].append(calls)
            for call in self.program.calls_in(frame):
                callees = self.flow.callees.get(call, ())
                if callees and not self.is_dead(call, world, calls):
                    queue.extend((c.frame, (call,)) for c in callees)
        return ways

    def _entries(self) -> Iterator[Scope]:
        for built in self.flow.bindings.values():
            for scope in built.root.walk():
                is_called = bool(self.flow.callers.get(scope)) and scope not in self.flow.escaped
                if scope.kind == "module" or (scope.kind == "function" and not is_called):
                    yield scope

    # Expressions.

    def outcome(self, node: ast.expr, world: World, calls: Calls = ()) -> Outcome:
        """The values that an expression may have in a world."""
        if node in self._told:
            return self._answer(self._told[node], world)
        handler = _HANDLERS.get(type(node))
        if handler is None:
            return ANYTHING
        key = (node, world, calls[-_MOST_CALLS:])
        return self._outcomes.of(key, lambda: handler(self, *key))

    def _constant(self, node: ast.Constant, world: World, calls: Calls) -> Outcome:
        return known(node.value)

    def _boolean(self, node: ast.BoolOp, world: World, calls: Calls) -> Outcome:
        decisive = isinstance(node.op, ast.Or)
        found: list[Outcome] = []
        for index, value in enumerate(node.values):
            each = self.outcome(value, world, calls)
            said, is_last = truth(each), index == len(node.values) - 1
            if is_last or said is decisive:
                return either([*found, each])
            if said is None:
                found.append(of_truth(decisive) if each == of_truth(None) else Anything(decisive))
        return either(found)

    def _unary(self, node: ast.UnaryOp, world: World, calls: Calls) -> Outcome:
        inner = self.outcome(node.operand, world, calls)
        if isinstance(node.op, ast.Not):
            said = truth(inner)
            return of_truth(None if said is None else not said)
        return negated(inner) if isinstance(node.op, ast.USub) else ANYTHING

    def _compare(self, node: ast.Compare, world: World, calls: Calls) -> Outcome:
        if self._asks_for_variable(node):
            found = self._has_variable(node, world)
            return found if isinstance(node.ops[0], ast.In) else of_truth(_not(truth(found)))
        parts = [self.outcome(p, world, calls) for p in (node.left, *node.comparators)]
        answers = [truth(compared(op, one, other)) for op, one, other in zip(node.ops, parts, parts[1:], strict=False)]
        return FALSE if False in answers else of_truth(None if None in answers else True)

    def _binary(self, node: ast.BinOp, world: World, calls: Calls) -> Outcome:
        return calculated(node.op, self.outcome(node.left, world, calls), self.outcome(node.right, world, calls))

    def _conditional(self, node: ast.IfExp, world: World, calls: Calls) -> Outcome:
        said = self.truth(node.test, world, calls)
        parts = [node.body, node.orelse] if said is None else [node.body if said else node.orelse]
        return either(self.outcome(p, world, calls) for p in parts)

    def _walrus(self, node: ast.NamedExpr, world: World, calls: Calls) -> Outcome:
        return self.outcome(node.value, world, calls)

    def _literal(self, node: ast.Tuple | ast.List | ast.Set, world: World, calls: Calls) -> Outcome:
        parts = [self.outcome(e, world, calls) for e in node.elts]
        values = [p.values[0] for p in parts if isinstance(p, Known) and len(p.values) == 1]
        return known(tuple(values)) if len(values) == len(parts) else Something(is_true=bool(parts))

    def _container(self, node: ast.expr, world: World, calls: Calls) -> Outcome:
        return Something(is_true=isinstance(node, (ast.Lambda, ast.GeneratorExp)))

    def _joined(self, node: ast.JoinedStr, world: World, calls: Calls) -> Outcome:
        return Something(is_true=any(isinstance(v, ast.Constant) for v in node.values))

    def _subscript(self, node: ast.Subscript, world: World, calls: Calls) -> Outcome:
        if self._are_variables(node.value):
            return self._variable(node.slice, None, world, calls)
        return ANYTHING

    # The environment.

    def _are_variables(self, node: ast.expr) -> bool:
        return any(_asked_by(n) is Asks.VARIABLES for n in self.program.externals(node))

    def _asks_for_variable(self, node: ast.Compare) -> bool:
        is_membership = len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn))
        return is_membership and self._are_variables(node.comparators[0])

    def _has_variable(self, node: ast.Compare, world: World) -> Outcome:
        """Whether a variable is set: those that say which process this is, where there are several."""
        name = node.left.value if isinstance(node.left, ast.Constant) else None
        asked = vocabulary.asked_by_variable(name) if isinstance(name, str) else None
        return of_truth(None) if asked is None else of_truth(world.process is not Process.ONE)

    def _variable(self, name: ast.expr, default: Outcome | None, world: World, calls: Calls) -> Outcome:
        """The text of an environment variable, or what is given in its stead where it is not set."""
        told = self.outcome(name, world, calls)
        texts = told.values if isinstance(told, Known) else ()
        asked = vocabulary.asked_by_variable(str(texts[0])) if len(texts) == 1 else None
        if asked is None:
            return ANYTHING
        if world.process is Process.ONE and default is not None:
            return default
        return converted("str", self._answer(asked, world))

    # Calls.

    def _call(self, node: ast.Call, world: World, calls: Calls) -> Outcome:
        callees = self.flow.callees.get(node)
        values = self.program.values(node.func)
        if callees and any(isinstance(v, ClassValue) for v in values):
            return self._made(node)
        if callees:
            return either(self._returned(c, world, (*calls, node)) for c in sorted(callees, key=_by_name))
        named = [v.name for v in values if isinstance(v, External)]
        return either(self._library(node, name, world, calls) for name in named) if named else self._made(node)

    def _made(self, node: ast.Call) -> Outcome:
        """An object, where what a call gives is one of a class that is known."""
        values = self.program.values(node)
        if not values or not all(isinstance(v, (Instance, Made)) for v in values):
            return ANYTHING
        classes = [v.cls for v in values if isinstance(v, Instance)]
        makers = [v.name or "" for v in values if isinstance(v, Made)]
        if not all(n.rpartition(".")[2][:1].isupper() for n in makers):
            rows = [table.function(n) for n in makers]
            is_object = all(r is not None and r.returns not in (None, "argument", "self") for r in rows)
            return Something(is_true=False) if is_object else ANYTHING
        is_plain = all(self.flow.method(c, "__bool__") is self.flow.method(c, "__len__") is None for c in classes)
        return Something(is_true=is_plain)

    def _library(self, node: ast.Call, name: str, world: World, calls: Calls) -> Outcome:
        asked = _asked_by(name)
        given = [a for a in node.args if not isinstance(a, ast.Starred)]
        if asked is Asks.VARIABLE and given:
            default = self.outcome(given[1], world, calls) if len(given) > 1 else NONE
            return self._variable(given[0], default, world, calls)
        if asked is Asks.DEVICE:
            return self.outcome(given[0], world, calls) if given else ANYTHING
        if asked is not None:
            return self._answer(asked, world)
        if name in _CONVERSIONS and len(given) == 1:
            return converted(name, self.outcome(given[0], world, calls))
        if name == "isinstance" and len(given) == 2:
            return of_truth(self._is_instance(*given))
        return self._made(node)

    def _answer(self, asked: Asks, world: World) -> Outcome:
        """The answer to a question about the world."""
        is_one, is_main = world.process is Process.ONE, world.process is not Process.OTHER
        answers: dict[Asks, Outcome] = {
            Asks.RANK: known(0) if is_main else Range(1),
            Asks.LOCAL_RANK: known(0) if is_main else Range(1),
            Asks.SIZE: known(1) if is_one else Range(2),
            Asks.IS_MAIN: of_truth(is_main),
            Asks.STARTED: of_truth(not is_one),
            Asks.GPU: of_truth(world.has_gpu),
            Asks.GPUS: Range(1) if world.has_gpu else known(0),
            Asks.ON_GPU: ANYTHING if world.has_gpu else FALSE,
            Asks.TRAINING: of_truth(world.trains),
            Asks.YES: TRUE,
        }
        return answers.get(asked, ANYTHING)

    def _is_instance(self, node: ast.expr, of: ast.expr) -> bool | None:
        """The value of `isinstance` where both the object's classes and the classes asked for are the project's own."""
        values, wanted = self.program.values(node), self._classes(of)
        if not values or wanted is None or not all(isinstance(v, Instance) for v in values):
            return None
        found = set()
        for value in values:
            assert isinstance(value, Instance)
            found.add(bool({value.cls, *self.flow.ancestors(value.cls)} & wanted))
        return found.pop() if len(found) == 1 else None

    def _classes(self, node: ast.expr) -> set[Scope] | None:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        found = [v for p in parts for v in self.program.values(p)]
        classes = {v.scope for v in found if isinstance(v, ClassValue)}
        return classes if found and len(found) >= len(parts) and all(isinstance(v, ClassValue) for v in found) else None

    def _returned(self, function: Scope, world: World, calls: Calls) -> Outcome:
        """The values that a function of the project's own may return to a call."""
        node = function.node
        if isinstance(node, ast.Lambda):
            return self.outcome(node.body, world, calls)
        if not isinstance(node, ast.FunctionDef) or function.generates:
            return ANYTHING
        returns = [n for n in _own_nodes(node) if isinstance(n, ast.Return)]
        live = [r.value for r in returns if not self.is_dead(r, world, calls)]
        ends = [] if self._block_leaves(node.body, world, calls) else [NONE]
        return either([*ends, *(NONE if v is None else self.outcome(v, world, calls) for v in live)])

    # Names and attributes.

    def _name(self, node: ast.Name, world: World, calls: Calls) -> Outcome:
        owner = self.program.scope(node).owner(node.id)
        if owner is None:
            return self._module_name(node) if node.id == "__name__" else self._of_libraries(node, world)
        if owner.kind == "comprehension":
            return ANYTHING
        if owner.kind == "lambda":
            return either(self._bound(owner, node.id, w, world, calls) for w in owner.writes[node.id])
        frame = self.program.frame(node)
        if owner is frame:
            writes, _ = self._bindings(world, calls).reaching(node, node.id, owner)
            return either(self._bound(owner, node.id, w, world, calls) for w in writes)
        made = self._made_by(owner, frame, calls)
        return either(self._bound(owner, node.id, w, world, made) for w in self._seen_from(frame, owner, node, world))

    def _made_by(self, owner: Scope, inner: Scope, calls: Calls) -> Calls:
        """The call that made the inner function which the last call runs: `step = make(train=True)`, then `step()`."""
        if not calls or owner.kind != "function" or inner not in self.flow.callees.get(calls[-1], ()):
            return ()
        made = [chain[-1].value for chain in self._tracer.chains(calls[-1].func)]
        known = [m for m in made if isinstance(m, ast.Call) and owner in self.flow.callees.get(m, ())]
        return tuple(known) if len(made) == 1 else ()

    def _module_name(self, node: ast.Name) -> Outcome:
        """`__name__`: the named files are run, unless one imports another."""
        root = self.program.scope(node).root
        is_named = any(p.path == root.module for p in self.program.named)
        is_imported = root in self.program.imported_from
        return known("__main__") if is_named and not is_imported else ANYTHING if is_named else known("imported")

    def _of_libraries(self, node: ast.expr, world: World) -> Outcome:
        asked = {_asked_by(n) for n in self.program.externals(node)}
        only = asked.pop() if len(asked) == 1 else None
        return ANYTHING if only is None else self._answer(only, world)

    def _seen_from(self, frame: Scope, owner: Scope, node: ast.Name, world: World) -> list[ast.AST]:
        """The places that may have bound an outer function's or a module's variable when an inner function runs."""
        writes = [w for w in self._tracer.writes(owner, node.id) if self.runs(w, world)]
        inner: Scope | None = frame
        while inner is not None and inner.parent is not None and inner.parent is not owner:
            inner = inner.parent
        block = owner.body
        if inner is None or inner.node not in block or len(writes) < 2:
            return writes
        at = block.index(inner.node)
        later = [w for w in writes if not any(self.program.inside(w, s) for s in block[: at + 1])]
        return [*self._bindings(world, ()).before(block[at], owner, node.id)[0], *later]

    def _bindings(self, world: World, calls: Calls) -> LastBindings:
        """What may have been bound last, by the branches that run in a world."""
        return LastBindings(self.program, lambda branching: self.live_branch(branching, world, calls), self._holding)

    def _bound(self, owner: Scope, name: str, write: ast.AST, world: World, calls: Calls) -> Outcome:
        """The value that a variable gets at one of the places that bind it."""
        if isinstance(write, ast.arg):
            return self._parameter(owner, write, world, calls)
        if isinstance(write, ast.alias):
            return self._imported(write, world)
        if isinstance(write, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return Something()
        if not isinstance(write, ast.expr):
            return ANYTHING
        if self.program.frame(write) is not owner:
            calls = ()
        holder = self.program.parent(write)
        if isinstance(holder, ast.NamedExpr):
            return self.outcome(holder.value, world, calls)
        if isinstance(holder, LOOPS) and not isinstance(holder, ast.While):
            return self._looped(holder.iter, world, calls)
        value = None if isinstance(holder, ast.withitem) else self._tracer.assigned(write)
        if isinstance(value, _MUTABLE):
            return Something(is_true=False)  # it may be filled or emptied later
        return ANYTHING if value is None else self.outcome(value, world, calls)

    def _looped(self, over: ast.expr, world: World, calls: Calls) -> Outcome:
        if isinstance(over, (ast.Tuple, ast.List)):
            return either(self.outcome(e, world, calls) for e in over.elts)
        is_counted = isinstance(over, ast.Call) and self.program.called(over) == {"range"} and len(over.args) == 1
        return Range(0) if is_counted else ANYTHING

    def _parameter(self, function: Scope, parameter: ast.arg, world: World, calls: Calls) -> Outcome:
        node = function.node
        rest = (node.args.vararg, node.args.kwarg) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else ()
        if parameter in rest:
            return Something(is_true=False)
        if calls and function in self.flow.callees.get(calls[-1], ()):
            return self._given(calls[-1], function, parameter.arg, world, calls[:-1])
        callers = self.flow.callers.get(function, ())
        if not callers or function in self.flow.lost or len(callers) > _MOST_OPEN:
            return ANYTHING
        running = [c for c in callers if self.runs(c, world)]
        return either(self._given(c, function, parameter.arg, world, ()) for c in running)

    def _given(self, call: ast.Call, function: Scope, name: str, world: World, calls: Calls) -> Outcome:
        given = self._tracer.given(call, function, name)
        is_default = given is not None and given is function.defaults.get(name)
        return ANYTHING if given is None else self.outcome(given, world, () if is_default else calls)

    def _imported(self, alias: ast.alias, world: World) -> Outcome:
        statement = self.program.statement(alias)
        if not isinstance(statement, ast.ImportFrom):
            return Something()
        root = self.flow.module_named(self.program.path(alias), statement.module or "", statement.level)
        if root is None or alias.name not in root.writes:
            return ANYTHING
        writes = [w for w in self._tracer.writes(root, alias.name) if self.runs(w, world)]
        return either(self._bound(root, alias.name, w, world, ()) for w in writes)

    def _attribute(self, node: ast.Attribute, world: World, calls: Calls) -> Outcome:
        said = self._of_attribute(node, world)
        if said is not None:
            return said
        if node.attr == "type":  # of a device
            base = self.outcome(node.value, world, calls)
            texts = base.values if isinstance(base, Known) else ()
            if texts and all(isinstance(t, str) for t in texts):
                return known(*(str(t).partition(":")[0] for t in texts))
        return self._stored(node, world, calls)

    def _of_attribute(self, node: ast.Attribute, world: World) -> Outcome | None:
        """The value of an attribute of a library's object or module."""
        makers = [v.name for v in self.program.values(node.value) if isinstance(v, Made)]
        rows = [table.member(row.returns, node.attr) for n in makers if (row := table.function(n)) is not None]
        rows += [table.function(n) for n in self.program.externals(node)]
        if not rows and not self.program.attribute_writes.get(node.attr):
            rows = [*table.members(node.attr)]
        asked = {None if row is None else row.asks for row in rows}
        only = asked.pop() if len(asked) == 1 else None
        return None if only is None else self._answer(only, world)

    def _stored(self, node: ast.Attribute, world: World, calls: Calls) -> Outcome:
        """The value that was put into an attribute: last in its own function, or anywhere in others."""
        owners = self._owners(node)
        is_own = bool(owners) and all(isinstance(v, Instance) for v in owners)
        if owners and all(isinstance(v, (ModuleValue, ClassValue)) for v in owners):
            return self._of_module(node, world)
        text, frame = ast.unparse(node), self.program.frame(node)
        root = _root(node)
        owner = self.program.scope(root).owner(root.id) if root is not None else None
        near: list[ast.AST] = []
        is_certain = False
        bindings = self._bindings(world, calls)
        if owner is frame and bindings.writes(owner, text):
            near, is_certain = bindings.reaching(node, text, frame)
        others = [w for w in self._matching(node) if self.program.frame(w) is not frame and self.runs(w, world)]
        if not is_certain and not is_own:
            return ANYTHING
        declared = [w for v in owners if isinstance(v, Instance) for w in self._declared(v.cls, node.attr)]
        is_set = is_certain or any(self.program.frame(w).name == "__init__" for w in others)
        found = [*near, *others, *([] if is_set else declared)]
        if not found or any(isinstance(v, Instance) and self._is_method(v, node.attr) for v in owners):
            return ANYTHING
        return either(self._bound(self.program.frame(w), text, w, world, calls if w in near else ()) for w in found)

    def _owners(self, node: ast.Attribute) -> Values:
        """The possible owners of an attribute; `self` is known also where the dataflow skips a network's `forward`."""
        found, frame = self.program.values(node.value), self.program.frame(node)
        own = frame.parameters[0].arg if frame.is_method and frame.parameters else None
        if found or frame.parent is None or not isinstance(node.value, ast.Name) or node.value.id != own:
            return found
        is_plain = not (frame.is_static or frame.has_decorator("classmethod"))
        family = [frame.parent, *self.flow.descendants(frame.parent)] if is_plain else []
        return frozenset(map(Instance, family))

    def _is_method(self, owner: Instance, name: str) -> bool:
        return self.flow.method(owner.cls, name) is not None

    def _declared(self, cls: Scope, name: str) -> list[ast.AST]:
        """The values that a class gives an attribute for all of its instances."""
        for each in [cls, *self.flow.ancestors(cls)]:
            if name in each.writes:
                return each.writes[name]
        return []

    def _of_module(self, node: ast.Attribute, world: World) -> Outcome:
        found: list[Outcome] = []
        for value in self.program.values(node.value):
            scope = (
                value.root if isinstance(value, ModuleValue) else value.scope if isinstance(value, ClassValue) else None
            )
            if scope is None or node.attr not in scope.writes:
                return ANYTHING
            found.extend(self._bound(scope, node.attr, w, world, ()) for w in self._tracer.writes(scope, node.attr))
        found.extend(ANYTHING for _ in self._matching(node))
        return either(found)

    def _matching(self, node: ast.Attribute) -> list[ast.Attribute]:
        """The assignments that may put something into an attribute."""
        owners = self._owners(node)
        classes = {v.cls for v in owners if isinstance(v, Instance)}
        found = []
        for write in self.program.attribute_writes.get(node.attr, ()):
            holders = self._owners(write)
            own = {v.cls for v in holders if isinstance(v, Instance)}
            family = {a for c in own for a in (c, *self.flow.ancestors(c), *self.flow.descendants(c))}
            if holders & owners or classes & family or not owners or not holders:
                found.append(write)
        return found


def implied(test: ast.expr, holds: bool) -> Iterator[tuple[ast.expr, bool]]:
    """The conditions that hold, or do not, where all of one does: `a`, and not `b`, of `a and not b`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from implied(test.operand, not holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds:
        for value in test.values:
            yield from implied(value, holds)
    else:
        yield test, holds


def _asked_by(name: str) -> Asks | None:
    """The question that a library's name answers when it is called or read."""
    row = table.function(name)
    return None if row is None else row.asks


def _root(node: ast.expr) -> ast.Name | None:
    """The variable that an attribute is reached from: `args` of `args.train.steps`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _by_name(scope: Scope) -> tuple[str, str]:
    return (scope.module, scope.qualified_name)


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function, without those of the functions and classes inside it."""
    queue: list[ast.AST] = [*function.body]
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            queue.extend(ast.iter_child_nodes(node))


_HANDLERS: dict[type, Callable[[Conditions, Any, World, Calls], Outcome]] = {
    ast.Constant: Conditions._constant,
    ast.Name: Conditions._name,
    ast.Attribute: Conditions._attribute,
    ast.Subscript: Conditions._subscript,
    ast.Call: Conditions._call,
    ast.BoolOp: Conditions._boolean,
    ast.UnaryOp: Conditions._unary,
    ast.Compare: Conditions._compare,
    ast.BinOp: Conditions._binary,
    ast.IfExp: Conditions._conditional,
    ast.NamedExpr: Conditions._walrus,
    ast.JoinedStr: Conditions._joined,
    **dict.fromkeys((ast.Tuple, ast.List, ast.Set), Conditions._literal),
    **dict.fromkeys((ast.Dict, ast.Lambda, *COMPREHENSIONS), Conditions._container),
}
