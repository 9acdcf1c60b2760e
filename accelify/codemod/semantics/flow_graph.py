"""The control-flow graph of one function, lambda or module: its points, and how execution passes between them.

A point is a simple statement, or the part of a compound one that is evaluated at once (a test, the iterable of a loop,
the target that a round binds, one item of a `with`). A class body runs where the class stands, in the graph around it.

- An exception leads from every statement of a `try` that may raise to a landing point, and from there to the handlers.
  It may strike before the statement has had an effect, or after: `successors` has both edges. Outside `try`, exceptions
  that nothing raises explicitly have no edges.
- `finally` is copied for each way in: through its end, by exception, `return`, `break`, `continue`. So a statement in
  it has several points, and no path enters by `return` and goes on behind the `try`.
- A `with` passes exceptions on, unless the caller says that the context manager keeps them (`contextlib.suppress`).
- `while True` has no exit but `break`. Other constant conditions count as conditions.
- Unreachable statements have points without edges.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from accelify.codemod.libraries import names

Loop = ast.For | ast.AsyncFor | ast.While
Frame = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_TRIES = (ast.Try, ast.TryStar) if hasattr(ast, "TryStar") else (ast.Try,)
_FINALLY_NESTED = 3  # deeper nests of `finally` in `finally` share one copy for all ways in
_HARMLESS = (
    ast.Constant,
    ast.Store,
    ast.Load,
    ast.Del,
    ast.Expr,
    ast.Return,
    ast.Assign,
    ast.Pass,
    ast.Break,
    ast.Continue,
)
_WAYS = ("raise", "return", "break", "continue")


@dataclass(frozen=True, slots=True)
class Point:
    """One step of execution: `parts` are evaluated at it; `role` says which part of a compound statement it is."""

    node: ast.AST
    role: str
    parts: tuple[ast.AST, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The facts about calls that the graph needs: which end the process, which context managers swallow exceptions."""

    ends: Callable[[ast.Call], bool]
    keeps_exceptions: Callable[[ast.expr], bool]


class Graph:
    """The points of one frame and the edges between them; points are numbered in the order of the text."""

    ENTRY, END, RAISED = 0, 1, 2

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.points: list[Point] = []
        self.normal: list[list[int]] = []  # successors, without implicit exceptions
        self.landing: list[int] = []  # where an exception of a point is caught, or -1
        self.points_of: dict[ast.AST, list[int]] = {}  # of statements: where they begin
        self.heads: dict[ast.AST, list[int]] = {}  # where a loop decides about another round
        self.class_ends: dict[ast.AST, list[int]] = {}
        self.completing: dict[ast.AST, list[int]] = {}  # of statements that have an end: their last points
        self.elifs: set[ast.AST] = set()

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """Edges backwards, exceptions included."""
        return _reversed(self.successors)

    @cached_property
    def successors(self) -> list[list[int]]:
        """Edges, exceptions included; from before a statement to its landing too, in case it raises without effect."""
        found = [list(dict.fromkeys(each)) for each in self.normal]
        for point, following in enumerate(self.normal):
            landings = {self.landing[point], *(self.landing[f] for f in following)} - {-1}
            found[point].extend(sorted(landings - set(found[point])))
        return found

    @cached_property
    def dominators(self) -> list[int]:
        """The immediate dominator of each point; -1 where it is unreachable."""
        return immediate_dominators(self.successors, self.ENTRY)

    @cached_property
    def _dominator_ranges(self) -> tuple[list[int], list[int]]:
        """Pre-order numbers in the dominator tree, and the last such number in each subtree."""
        children: list[list[int]] = [[] for _ in self.points]
        for point, parent in enumerate(self.dominators):
            if parent >= 0 and point != self.ENTRY:
                children[parent].append(point)
        first, last, stack, count = [0] * len(self.points), [-1] * len(self.points), [(self.ENTRY, False)], 0
        while stack:
            point, is_done = stack.pop()
            if is_done:
                last[point] = count - 1
                continue
            first[point], count = count, count + 1
            stack.append((point, True))
            stack.extend((child, False) for child in reversed(children[point]))
        return first, last

    def is_reachable(self, point: int) -> bool:
        """Whether any path from the entry leads to a point."""
        return self.dominators[point] >= 0

    def dominates(self, a: int, b: int) -> bool:
        """Whether every path to `b` has passed `a`."""
        first, last = self._dominator_ranges
        return self.is_reachable(b) and first[a] <= first[b] <= last[a]

    def reach(self, sources: Iterable[int], without: Iterable[int] = (), *, implicit: bool = True) -> bytearray:
        """The points that can run after some others, with 1 for each; no path goes through `without`."""
        return self._closure(self.successors if implicit else self.normal, sources, without)

    def reached_from(self, targets: Sequence[int], without: Iterable[int] = ()) -> bytearray:
        """The points after which some others can run, with 1 for each; no path goes through `without` in between."""
        closed = set(without)
        found = self._closure(self.predecessors, [t for t in targets if t not in closed], closed)
        for target in targets:
            for point in closed:
                found[point] |= any(found[f] or f == target for f in self.successors[point]) and target not in closed
        return found

    def _closure(self, edges: list[list[int]], sources: Iterable[int], without: Iterable[int]) -> bytearray:
        seen, closed = bytearray(len(self.points)), bytearray(len(self.points))
        for point in without:
            closed[point] = 1
        stack = list(sources)
        while stack:
            for following in edges[stack.pop()]:
                if not seen[following] and not closed[following]:
                    seen[following] = 1
                    stack.append(following)
        return seen

    def text(self) -> str:
        """The graph in lines, for tests and for reading: `3 if x -> 4, 6 ~> 8`; `~>` is where its exception lands."""
        lines = []
        for number, point in enumerate(self.points):
            following = ", ".join(map(str, self.normal[number]))
            caught = f" ~> {self.landing[number]}" if self.landing[number] >= 0 else ""
            lines.append(f"{number} {label(point)}" + (f" -> {following}" if following else "") + caught)
        return "\n".join(lines) + "\n"


def label(point: Point) -> str:
    """A point in a few words: its role, if it is a part of something, and its text."""
    text = ", ".join(ast.unparse(p) for p in point.parts)
    if point.role == "statement":
        return text
    return f"{point.role} {text}".strip() if point.role != "def" else f"def {getattr(point.node, 'name', '')}"


def build(frame: Frame, surroundings: Surroundings) -> Graph:
    """The graph of a module, function or lambda."""
    return _Builder(frame, surroundings).graph


# Building.


@dataclass(slots=True)
class _Enclosing:
    """A block that a jump leaves on its way out: a loop, the caught part of a `try`, or one with a `finally`."""

    kind: str  # "loop", "caught", "finally"
    point: int  # the loop's head, or where exceptions land
    jumps: dict[str, list[int]] = field(default_factory=dict)


class _Builder:
    """Add the statements of a frame one after another; the points from which the next one is reached are its `ways`."""

    def __init__(self, frame: Frame, surroundings: Surroundings) -> None:
        self.graph = Graph(frame)
        self.surroundings = surroundings
        self.enclosing: list[_Enclosing] = []
        self.copies = 0
        for role in ("entry", "end", "raised"):
            self.add(frame, role, ())
        entry = [Graph.ENTRY]
        if isinstance(frame, ast.Lambda):
            left = self.step(frame.body, "statement", (frame.body,), entry)
        else:
            left = self.block(frame.body, entry)
        self.link(left, Graph.END)

    # Points and edges.

    def add(self, node: ast.AST, role: str, parts: tuple[ast.AST, ...]) -> int:
        graph = self.graph
        graph.points.append(Point(node, role, parts))
        graph.normal.append([])
        graph.landing.append(-1)
        return len(graph.points) - 1

    def link(self, ways: Iterable[int], to: int) -> None:
        for way in ways:
            if to not in self.graph.normal[way]:
                self.graph.normal[way].append(to)

    def step(
        self, node: ast.AST, role: str, parts: tuple[ast.AST, ...], ways: Sequence[int], *, raises: bool | None = None
    ) -> list[int]:
        """Add a point; the way on from it, or none where nothing leads to it."""
        point = self.add(node, role, parts)
        if role not in ("next", "exit", "class end", "landing"):
            self.graph.points_of.setdefault(node, []).append(point)
        if not ways:
            return []
        self.link(ways, point)
        landing = next((e.point for e in reversed(self.enclosing) if e.kind != "loop"), -1)
        if landing >= 0 and (_may_raise(parts) if raises is None else raises):
            self.graph.landing[point] = landing
        return [point]

    def jump(self, way: str, ways: Sequence[int]) -> None:
        """Go out by `raise`, `return`, `break` or `continue`, as far as the next `finally`."""
        for around in reversed(self.enclosing):
            if around.kind == "finally":
                around.jumps.setdefault(way, []).extend(ways)
                return
            if (around.kind, way) in (("caught", "raise"), ("loop", "continue")):
                self.link(ways, around.point)
                return
            if around.kind == "loop" and way == "break":
                around.jumps.setdefault(way, []).extend(ways)
                return
        self.link(ways, Graph.RAISED if way == "raise" else Graph.END)

    def block(self, statements: Sequence[ast.stmt], ways: Sequence[int]) -> list[int]:
        left = list(ways)
        for statement in statements:
            left = self.statement(statement, left)
            if left:
                self.graph.completing.setdefault(statement, []).extend(left)
        return left

    # Statements.

    def statement(self, node: ast.stmt, ways: Sequence[int]) -> list[int]:
        if isinstance(node, ast.If):
            return self.choice(node, ways)
        if isinstance(node, ast.While):
            return self.while_loop(node, ways)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return self.for_loop(node, ways)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return self.with_block(node, ways)
        if isinstance(node, _TRIES):
            return self.attempt(node, ways)
        if isinstance(node, ast.Match):
            return self.match(node, ways)
        if isinstance(node, ast.ClassDef):
            return self.class_body(node, ways)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return self.step(node, "def", _evaluated_at_definition(node), ways)
        return self.simple(node, ways)

    def simple(self, node: ast.stmt, ways: Sequence[int]) -> list[int]:
        left = self.step(node, "statement", (node,), ways)
        way = {ast.Return: "return", ast.Raise: "raise", ast.Break: "break", ast.Continue: "continue"}.get(type(node))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and self.surroundings.ends(node.value):
            way = "raise"
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant) and not node.test.value:
            way = "raise"
        if way is None:
            return left
        self.jump(way, left)
        return []

    def choice(self, node: ast.If, ways: Sequence[int]) -> list[int]:
        """An `if` with all its `elif`, one after another: such chains can be longer than Python's stack."""
        out: list[int] = []
        begun: list[tuple[ast.If, int]] = []
        while True:
            tested = self.step(node, "if", (node.test,), ways)
            begun.append((node, len(out)))
            out += self.block(node.body, tested)
            if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
                node, ways = node.orelse[0], tested
                self.graph.elifs.add(node)
                continue
            out += self.block(node.orelse, tested)
            break
        for each, start in begun[1:]:
            if len(out) > start:
                self.graph.completing.setdefault(each, []).extend(out[start:])
        return out

    def while_loop(self, node: ast.While, ways: Sequence[int]) -> list[int]:
        tested = self.step(node.test, "while", (node.test,), self.step(node, "loop", (), ways))
        head = self.graph.points_of[node.test][-1]
        is_endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        return self.rounds(node, head, tested, [] if is_endless else tested)

    def for_loop(self, node: ast.For | ast.AsyncFor, ways: Sequence[int]) -> list[int]:
        following = self.step(node, "next", (), self.step(node, "for", (node.iter,), ways), raises=True)
        head = len(self.graph.points) - 1
        bound = self.step(
            node.target, "target", (node.target,), following, raises=not isinstance(node.target, ast.Name)
        )
        return self.rounds(node, head, bound, following)

    def rounds(self, node: Loop, head: int, into: list[int], out: list[int]) -> list[int]:
        """A loop's body, the way back to its head, and its `else`."""
        self.graph.heads.setdefault(node, []).append(head)
        around = _Enclosing("loop", head)
        self.enclosing.append(around)
        self.link(self.block(node.body, into), head)
        self.enclosing.pop()
        return self.block(node.orelse, out) + around.jumps.get("break", [])

    def with_block(self, node: ast.With | ast.AsyncWith, ways: Sequence[int]) -> list[int]:
        left = self.step(node, "with", (), ways)
        for item in node.items:
            left = self.step(item, "with item", (item,), left, raises=True)
        if not any(self.surroundings.keeps_exceptions(item.context_expr) for item in node.items):
            return self.step(node, "exit", (), self.block(node.body, left), raises=True)
        landing = self.landing(node)
        self.enclosing.append(_Enclosing("caught", landing))
        out = self.block(node.body, left)
        self.enclosing.pop()
        caught = [landing] if left else []
        self.jump("raise", caught)
        return self.step(node, "exit", (), [*out, *caught], raises=True)

    def landing(self, node: ast.AST) -> int:
        return self.add(node, "landing", ())

    def attempt(self, node: ast.Try, ways: Sequence[int]) -> list[int]:
        begun = self.step(node, "try", (), ways)
        if not node.finalbody:
            return self.caught(node, begun)
        around = _Enclosing("finally", self.landing(node))
        self.enclosing.append(around)
        left = self.caught(node, begun)
        self.enclosing.pop()
        if begun:
            around.jumps.setdefault("raise", []).append(around.point)
        return self.finish(node.finalbody, left, around.jumps)

    def caught(self, node: ast.Try, ways: Sequence[int]) -> list[int]:
        """The body of a `try`, its `else`, and its handlers."""
        if not node.handlers:
            return self.block(node.orelse, self.block(node.body, ways))
        landing = self.landing(node)
        self.enclosing.append(_Enclosing("caught", landing))
        left = self.block(node.body, ways)
        self.enclosing.pop()
        out = self.block(node.orelse, left)
        raised = [landing] if ways else []
        several = not isinstance(node, ast.Try)  # of `except*`, each handler may run
        for handler in node.handlers:
            into = self.step(
                handler, "except", (handler.type,) if handler.type else (), raised + out if several else raised
            )
            out += self.block(handler.body, into)
        if not any(_catches_everything(h) for h in node.handlers):
            self.jump("raise", raised)
        return out

    def finish(self, body: list[ast.stmt], left: list[int], jumps: dict[str, list[int]]) -> list[int]:
        """`finally`, for each way into it."""
        self.copies += 1
        if self.copies > _FINALLY_NESTED:
            every = self.block(body, list(dict.fromkeys([*left, *(p for each in jumps.values() for p in each)])))
            out = every if left else []
            for way in jumps:
                self.jump(way, every)
        else:
            entered = [way for way in _WAYS if jumps.get(way)]
            out = self.block(body, left) if left or not entered else []
            for way in entered:
                self.jump(way, self.block(body, list(dict.fromkeys(jumps[way]))))
        self.copies -= 1
        return out

    def match(self, node: ast.Match, ways: Sequence[int]) -> list[int]:
        left = self.step(node, "match", (node.subject,), ways)
        out: list[int] = []
        for case in node.cases:
            parts = (case.pattern, *([case.guard] if case.guard else []))
            left = self.step(case, "case", parts, left, raises=True)
            out += self.block(case.body, left)
            if case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
                left = []
        return out + left

    def class_body(self, node: ast.ClassDef, ways: Sequence[int]) -> list[int]:
        head = (*node.decorator_list, *node.bases, *(k.value for k in node.keywords))
        left = self.step(node, "class", head, ways)
        left = self.block(node.body, left)
        ended = self.step(node, "class end", (), left, raises=True)
        self.graph.class_ends.setdefault(node, []).append(len(self.graph.points) - 1)
        return ended


def ends_process(call: ast.Call) -> bool:
    """Whether a call is spelled like one of Python's own that end the process."""
    return names.exits(_dotted(call.func))


def suppresses(manager: ast.expr) -> bool:
    """Whether a context manager is spelled like `contextlib.suppress(...)`, which keeps exceptions."""
    return isinstance(manager, ast.Call) and _dotted(manager.func) in ("suppress", "contextlib.suppress")


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _may_raise(parts: tuple[ast.AST, ...]) -> bool:
    """Whether evaluating some nodes may raise: anything but storing constants."""
    for part in parts:
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                continue
            if not isinstance(node, (*_HARMLESS, ast.Global, ast.Nonlocal)):
                return True
    return False


def _evaluated_at_definition(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[ast.AST, ...]:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    annotations = [a.annotation for a in every if a is not None and a.annotation is not None]
    defaults = [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
    return (*node.decorator_list, *defaults, *annotations, *([node.returns] if node.returns else []))


def _catches_everything(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or (isinstance(handler.type, ast.Name) and handler.type.id == "BaseException")


# Dominators.


def _reversed(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in edges]
    for point, following in enumerate(edges):
        for each in following:
            found[each].append(point)
    return found


def immediate_dominators(edges: Sequence[Sequence[int]], root: int) -> list[int]:
    """The immediate dominator of each point, the root's own being itself; -1 for what is unreachable.

    Source: Lengauer and Tarjan, "A Fast Algorithm for Finding Dominators in a Flowgraph" (1979), the simple version.
    """
    order, parent = _depth_first(edges, root)
    number = {point: index for index, point in enumerate(order)}
    size = len(order)
    before: list[list[int]] = [[] for _ in range(size)]
    for index, point in enumerate(order):
        for following in edges[point]:
            before[number[following]].append(index)
    semi, best, forest, found = list(range(size)), list(range(size)), [-1] * size, [0] * size
    waiting: list[list[int]] = [[] for _ in range(size)]
    for index in range(size - 1, 0, -1):
        for each in before[index]:
            semi[index] = min(semi[index], semi[_lowest(each, forest, best, semi)])
        waiting[semi[index]].append(index)
        above = forest[index] = parent[index]
        for each in waiting[above]:
            low = _lowest(each, forest, best, semi)
            found[each] = low if semi[low] < semi[each] else above
        waiting[above].clear()
    for index in range(1, size):
        if found[index] != semi[index]:
            found[index] = found[found[index]]
    dominators = [-1] * len(edges)
    for index, point in enumerate(order):
        dominators[point] = order[found[index]]
    return dominators


def _depth_first(edges: Sequence[Sequence[int]], root: int) -> tuple[list[int], list[int]]:
    """The points in depth-first order, and for each the index of the one it was first reached from."""
    order: list[int] = []
    parent: list[int] = []
    seen = bytearray(len(edges))
    stack = [(root, 0)]
    while stack:
        point, above = stack.pop()
        if seen[point]:
            continue
        seen[point] = 1
        stack.extend((following, len(order)) for following in reversed(edges[point]) if not seen[following])
        order.append(point)
        parent.append(above)
    return order, parent


def _lowest(index: int, forest: list[int], best: list[int], semi: list[int]) -> int:
    """Of the points above one in the forest, that with the lowest semidominator; shortens the paths on the way."""
    path = []
    while forest[index] >= 0 and forest[forest[index]] >= 0:
        path.append(index)
        index = forest[index]
    for each in reversed(path):
        above = forest[each]
        if semi[best[above]] < semi[best[each]]:
            best[each] = best[above]
        forest[each] = forest[above]
    return best[path[0] if path else index]
