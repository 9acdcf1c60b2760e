"""Which calls of a function get as far as a place in it, where that depends on what they give its parameters?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set

from accelify.codemod.semantics.conditions import Calls, Conditions, Process, World, implied, worlds_where
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope

Way = tuple[ast.AST, ...]  # a place, the call of its function that leads there, the call of that call's function
_TRAINING = sorted(worlds_where(trains=True), key=str)
_LEAVES = (ast.Return, ast.Raise)


class Ways:
    """Follow calls to a place; a call that says no to what the place stands under does not get there."""

    def __init__(self, program: Program, tracer: Tracer) -> None:
        self.program = program
        self.tracer = tracer
        self.conditions = program.once(Conditions)

    def begin(self, node: ast.AST) -> Way:
        """The way to a place; an empty one where all calls of its function get there."""
        return self._kept((node,))

    def through(self, call: ast.Call, way: Way) -> Way | None:
        """A way that goes on through a call of the function that it leads from; None if the call does not get there."""
        longer = (*way, call)
        return self._kept(longer) if self.is_open(longer) else None

    def _kept(self, way: Way) -> Way:
        """A way, if what is asked on it depends on the parameters of its function."""
        return way if way and any(True for _ in self._asked(way)) else ()

    def is_open(self, way: Way, worlds: Iterable[World] = _TRAINING) -> bool:
        """Whether a way is not closed by what its calls give, in some world; switches of the script's own may be on."""
        steps = [(node, _calls(way[at + 1 :])) for at, node in enumerate(way)]
        dead = self.conditions.is_dead
        return any(all(not dead(n, w, calls) or dead(n, w) for n, calls in steps) for w in worlds)

    def fails(self, call: ast.Call, place: ast.AST) -> bool:
        """Whether a call gives None to a parameter of which a method is called beside a place in its function."""
        callees = self.program.flow.callees.get(call, ())
        frame = self.program.frame(place)
        used = self._called_beside(place) & {p.arg for p in frame.parameters} if frame in callees else set()
        given = (self.tracer.given(call, frame, name) for name in sorted(used) if len(frame.writes[name]) == 1)
        return any(isinstance(g, ast.Constant) and g.value is None for g in given)

    def _called_beside(self, place: ast.AST) -> set[str]:
        """The names of which a method is called in the block of a place, and in those round it."""
        found: set[str] = set()
        child = place
        for ancestor in self.program.ancestors(place):
            body = getattr(ancestor, "body", ())
            beside = [c for c in body if isinstance(c, ast.Expr)] if isinstance(body, list) and child in body else []
            calls = [s.value for s in beside if isinstance(s.value, ast.Call)]
            found |= {ast.unparse(c.func.value) for c in calls if isinstance(c.func, ast.Attribute)}
            if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)):
                break
            child = ancestor
        return found

    def only_if(self, function: Scope, ways: Set[Way]) -> str | None:
        """When a function trains, where some of its calls have it do something else: `optimizer is not None`."""
        asked = {frozenset(self._asked(way)) for way in ways}
        calls = self.program.flow.callers.get(function, ())
        if len(asked) != 1 or all(self.through(c, w) is not None for c in calls for w in ways):
            return None
        told = asked.pop()
        return None if None in told else " and ".join(sorted(map(str, told))) or None

    def _asked(self, way: Way) -> Iterator[str | None]:
        """The conditions for taking a way, in terms of its function's parameters; None for a name that is set again."""
        for at, node in enumerate(way):
            for test, holds in self._tests(node):
                named = self._handed_down(test, way[at + 1 :])
                if named is not None:
                    yield _code(test, holds, named[0]) if named[1] else None

    def _tests(self, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
        """The conditions of plain names that hold, or do not, where a place in a function is reached."""
        child = node
        for ancestor in self.program.ancestors(node):
            for statement in self.conditions.leaving_before(ancestor).get(child, ()):
                leaves = isinstance(statement, ast.If) and isinstance(statement.body[-1], _LEAVES)
                if isinstance(statement, ast.If) and leaves and not statement.orelse:
                    yield from _parts(statement.test, False)
            if isinstance(ancestor, ast.If) and child is not ancestor.test:
                yield from _parts(ancestor.test, child in ancestor.body)
            if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                break
            child = ancestor

    def _handed_down(self, test: ast.expr, calls: Way) -> tuple[str, bool] | None:
        """The parameter, of the last function of a way, that a condition asks for, and whether nothing sets it again.

        None where the condition asks for no parameter. One of an outer function has no name in the terms of the inner.
        """
        name = _asked_for(test)
        frame = self.program.frame(test)
        if self._is_of_outer_function(frame, name):
            return name, False
        is_as_given = True
        for call in (*calls, None):
            writes = frame.writes.get(name, ())
            is_as_given = is_as_given and len(writes) == 1
            if call is None or not any(isinstance(w, ast.arg) for w in writes):
                break
            given = self.tracer.given(call, frame, name) if isinstance(call, ast.Call) else None
            if not isinstance(given, ast.Name):
                return None
            name, frame = given.id, self.program.frame(call)
        return (name, is_as_given) if any(isinstance(w, ast.arg) for w in frame.writes.get(name, ())) else None

    def _is_of_outer_function(self, frame: Scope, name: str) -> bool:
        """Whether an inner function sees a parameter of the function that makes it: `step = make(train=True)`."""
        owner = frame.owner(name)
        is_outer = owner is not None and owner is not frame and owner.kind == "function"
        return is_outer and owner is not None and any(isinstance(w, ast.arg) for w in owner.writes.get(name, ()))


def _calls(way: Way) -> Calls:
    return tuple(c for c in reversed(way) if isinstance(c, ast.Call))


def _parts(test: ast.expr, holds: bool) -> Iterator[tuple[ast.expr, bool]]:
    """The plain names that a condition decides, each with its truth, if the condition holds or not."""
    return ((part, so) for part, so in implied(test, holds) if _asked_for(part))


def _asked_for(test: ast.expr) -> str:
    """The name that a condition is about, if it is `name` or `name == constant`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant):
        test = test.left if isinstance(test.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) else test
    return test.id if isinstance(test, ast.Name) else ""


def _code(test: ast.expr, holds: bool, name: str) -> str:
    """The condition as code: `train`, `not evaluate`, `optimizer is not None`."""
    if not isinstance(test, ast.Compare):
        return name if holds else f"not {name}"
    is_same = isinstance(test.ops[0], (ast.Is, ast.Eq)) is holds
    words = ("is", "is not") if isinstance(test.ops[0], (ast.Is, ast.IsNot)) else ("==", "!=")
    operand = ast.unparse(test.comparators[0]).replace("'", '"')
    return f"{name} {words[not is_same]} {operand}"


def with_functions(program: Program, found: set[ast.AST]) -> set[ast.AST]:
    """Some code, with the functions that nothing else calls."""
    while True:
        more = [
            function
            for function, calls in program.flow.callers.items()
            if function.node not in found
            and any(call in found for call in calls)
            and all(call in found or not may_run(program, call) for call in calls)
        ]
        if not more:
            return found
        found = found.union(*(ast.walk(function.node) for function in more))


def may_run(program: Program, call: ast.Call) -> bool:
    """Whether a call is ever run: not one under `if __name__ == "__main__":` of a module that is imported."""
    conditions = program.once(Conditions)
    return any(conditions.runs(call, world) for world in worlds_where(Process.MAIN))
