"""What runs before what in a file, what always runs, and where can a statement be put so that it runs in between?

Every node of the file stands for the point of the graph that evaluates it; a compound statement for the point where it
begins. Within one point the order is Python's order of evaluation. "Has run" means: has come to its end without an
exception.

A body runs after its `def` or `lambda` has, any number of times. So where two nodes belong to different functions,
questions that ask what *may* happen say yes, unless one function holds the other and its definition comes too late, and
those that ask what *must* happen say no.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelify.codemod.files.nodes import walk
from accelify.codemod.semantics.flow_graph import (
    Frame,
    Graph,
    Loop,
    Surroundings,
    build,
    ends_process,
    suppresses,
)

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """Where a node stands in the text, for sorting and for messages; it does not say what runs first."""

    path: str
    line: int
    column: int


def position(node: ast.AST, path: str = "") -> Position:
    """Where a node stands in the text."""
    return Position(path, getattr(node, "lineno", 1), getattr(node, "col_offset", 0))


@dataclass(frozen=True, slots=True)
class Choice:
    """A condition, and what is run or left out by it, or run once more.

    node: the statement or expression whose condition it is; of `a and b` and of `match`, there are several in one.
    """

    node: ast.stmt | ast.expr
    test: ast.expr
    parts: tuple[ast.AST, ...]

    def nodes(self) -> Iterator[ast.AST]:
        """All that the condition decides about."""
        return (n for part in self.parts for n in walk(part))


def choices(node: ast.AST) -> Iterator[Choice]:
    """The conditions that a statement or an expression asks, each with what it decides about."""
    if isinstance(node, (ast.If, ast.While)):
        yield Choice(node, node.test, (*node.body, *node.orelse))
    elif isinstance(node, ast.IfExp):
        yield Choice(node, node.test, (node.body, node.orelse))
    elif isinstance(node, ast.BoolOp):
        for i, operand in enumerate(node.values[:-1], start=1):
            yield Choice(node, operand, (*node.values[i:],))
    elif isinstance(node, ast.Match):
        yield Choice(node, node.subject, (*node.cases,))
        for i, case in enumerate(node.cases):
            if case.guard is not None:
                yield Choice(node, case.guard, (*case.body, *node.cases[i + 1 :]))
    elif isinstance(node, _COMPREHENSIONS):
        made = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        for i, generator in enumerate(node.generators):
            for j, test in enumerate(generator.ifs, start=1):
                yield Choice(node, test, (*generator.ifs[j:], *node.generators[i + 1 :], *made))


@dataclass(frozen=True, slots=True)
class _Site:
    """A node's graph, and its points in it: several for what stands in a `finally`."""

    graph: Graph
    points: tuple[int, ...]
    root: ast.AST  # the node that these points evaluate


class ControlFlow:
    """The graphs of one file; each is built when it is first asked about."""

    def __init__(
        self,
        tree: ast.Module,
        parents: Mapping[ast.AST, ast.AST],
        *,
        ends: Callable[[ast.Call], bool] = ends_process,
        keeps_exceptions: Callable[[ast.expr], bool] = suppresses,
    ) -> None:
        self.tree = tree
        self.parents = parents
        self._surroundings = Surroundings(ends, keeps_exceptions)
        self._graphs: dict[ast.AST, Graph] = {}
        self._sites: dict[ast.AST, _Site] = {}
        self._reached: dict[tuple[Graph, str, tuple[int, ...], tuple[int, ...]], bytearray] = {}
        self._loops: dict[ast.AST, tuple[Loop, ...]] = {}
        self._order: dict[ast.AST, dict[ast.AST, int]] = {}

    # Graphs and points.

    def graph(self, frame: Frame) -> Graph:
        """The graph of a module, function or lambda."""
        if frame not in self._graphs:
            self._graphs[frame] = build(frame, self._surroundings)
        return self._graphs[frame]

    def frame(self, node: ast.AST) -> Frame:
        """The module, function or lambda in whose graph a node is evaluated."""
        return self._site(node).graph.frame

    def points(self, node: ast.AST) -> tuple[Graph, tuple[int, ...]]:
        """The graph and the points at which a node is evaluated."""
        site = self._site(node)
        return site.graph, site.points

    def _points_in(self, graph: Graph, nodes: Iterable[ast.AST]) -> list[int]:
        """The points of those nodes that a graph holds; the others are in another function, or in another file."""
        sites = [self._site(n) for n in nodes if n in self.parents or n is self.tree]
        return [p for site in sites if site.graph is graph for p in site.points]

    def _site(self, node: ast.AST) -> _Site:
        if node not in self._sites:
            self._sites[node] = self._find(node)
        return self._sites[node]

    def _find(self, node: ast.AST) -> _Site:
        if isinstance(node, ast.Module):
            return _Site(self.graph(node), (Graph.ENTRY,), node)
        chain, frame = [node], self.parents.get(node)
        while frame is not None and not _holds(frame, chain[-1]):
            chain.append(frame)
            frame = self.parents.get(frame)
        assert isinstance(frame, (ast.Module, *_FUNCTIONS, ast.Lambda)), node
        graph = self.graph(frame)
        root = next((n for n in chain if n in graph.points_of), frame)
        return _Site(graph, tuple(graph.points_of.get(root, (Graph.ENTRY,))), root)

    def _reach(
        self, graph: Graph, sources: Sequence[int], without: Sequence[int] = (), *, implicit: bool = True
    ) -> bytearray:
        key = (graph, "implicit" if implicit else "explicit", tuple(sources), tuple(sorted(without)))
        if key not in self._reached:
            self._reached[key] = graph.reach(sources, without, implicit=implicit)
        return self._reached[key]

    def _reached_from(self, graph: Graph, targets: Sequence[int], without: Sequence[int]) -> bytearray:
        key = (graph, "backwards", tuple(targets), tuple(sorted(without)))
        if key not in self._reached:
            self._reached[key] = graph.reached_from(targets, without)
        return self._reached[key]

    # The order in which code runs.

    def reaches(self, a: ast.AST, b: ast.AST, *, without: Iterable[ast.AST] = ()) -> bool:
        """Whether `b` can run after `a` has, in the same call of their function, on a path without some nodes."""
        first, second = self._site(a), self._site(b)
        if first.graph is not second.graph:
            return self._reaches_between(a, b)
        closed = self._points_in(first.graph, without)
        if self._is_ordered(a, b):
            return True
        reached = self._reach(first.graph, first.points, [p for p in closed if p not in second.points])
        return any(reached[p] for p in second.points)

    def before(self, a: ast.AST, b: ast.AST) -> bool:
        """Whether `b` can run after `a` without another round of a loop that holds both."""
        first, second = self._site(a), self._site(b)
        if first.graph is not second.graph:
            return self._reaches_between(a, b)
        if first.root is second.root:
            return self._is_ordered(a, b)
        reached = self._reached_from(first.graph, second.points, self._shared_heads(a, b, first.graph))
        return any(reached[p] for p in first.points)

    def _shared_heads(self, a: ast.AST, b: ast.AST, graph: Graph) -> list[int]:
        """Where another round begins of the loops that hold two nodes."""
        around = self.loops_round(b)
        return [p for loop in self.loops_round(a) if loop in around for p in graph.heads[loop]]

    def is_after(self, node: ast.AST, statement: ast.AST) -> bool:
        """Whether a node can run once a whole statement is done, without another round of a loop that holds both."""
        if self.inside(node, statement):
            return False
        first, second = self._site(statement), self._site(node)
        if first.graph is not second.graph:
            return self._reaches_between(statement, node)
        reached = self._reach(first.graph, first.points, self._shared_heads(statement, node, first.graph))
        return any(reached[p] for p in second.points)

    def dominates(self, a: ast.AST, b: ast.AST) -> bool:
        """Whether `a` has run whenever `b` does; what stands in a branch, or in what may be skipped, does not."""
        first, second = self._site(a), self._site(b)
        if first.graph is not second.graph:
            return self._dominates_inner(a, b)
        if first.root is second.root:
            return a is b or (self._is_ordered(a, b) and not self.is_conditional(a))
        return not self.is_conditional(a) and self.is_covered([a], b)

    def is_covered(self, nodes: Iterable[ast.AST], b: ast.AST) -> bool:
        """Whether one of some nodes has run whenever `b` does: an assignment in each branch above it, for example."""
        second = self._site(b)
        graph = second.graph
        passed = self._points_in(graph, nodes)
        if len(passed) == 1:
            return all(passed[0] != p and graph.dominates(passed[0], p) for p in second.points)
        reached = self._reach(graph, [Graph.ENTRY], passed)
        alive = [p for p in second.points if graph.is_reachable(p)]
        return Graph.ENTRY in passed or (bool(alive) and not any(reached[p] or p in passed for p in alive))

    def is_covered_after(self, nodes: Iterable[ast.AST], statement: ast.stmt) -> bool:
        """Whether one of some nodes has run whenever a statement is done and the next one follows."""
        graph = self._site(statement).graph
        passed = self._points_in(graph, nodes)
        reached = self._reach(graph, [Graph.ENTRY], passed)
        last = graph.completing.get(statement, [])
        return bool(last) and all(p in passed or not reached[p] for p in last)

    def post_dominates(self, b: ast.AST, a: ast.AST) -> bool:
        """Whether `b` runs on every path on from `a`, unless an exception is raised or the process ends."""
        first, second = self._site(a), self._site(b)
        if first.graph is not second.graph or self.is_conditional(b):
            return False
        if first.root is second.root:
            return a is b or self._is_ordered(a, b)
        return not self._gets_out(first.graph, first.points, second.points)

    def gets_out(self, node: ast.AST, nodes: Iterable[ast.AST]) -> bool:
        """Whether a path leads on from a node, or from the start of a function, out of it without some nodes."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            graph = self.graph(node)
            return self._gets_out(graph, [Graph.ENTRY], self._points_in(graph, nodes))
        graph, sources = self.points(node)
        return self._gets_out(graph, sources, self._points_in(graph, nodes))

    def _gets_out(self, graph: Graph, sources: Sequence[int], without: Sequence[int]) -> bool:
        """Whether a path leads out of a function, past some points; if nothing leads out, round its loops."""
        past = self._reach(graph, sources, without, implicit=False)
        every = self._reach(graph, sources, implicit=False)
        if every[Graph.END]:
            return bool(past[Graph.END])
        if every[Graph.RAISED]:
            return bool(past[Graph.RAISED])
        heads = {p for points in graph.heads.values() for p in points}
        return any(
            past[p] and h in graph.normal[p] and graph.dominates(h, p) for h in heads for p in graph.predecessors[h]
        )

    # Different functions.

    def _lifted(self, node: ast.AST, graph: Graph) -> ast.AST | None:
        """The definition in a graph's frame that holds a node, or None."""
        while True:
            site = self._site(node)
            if site.graph is graph:
                return node
            if isinstance(site.graph.frame, ast.Module):
                return None
            node = site.graph.frame

    def _reaches_between(self, a: ast.AST, b: ast.AST) -> bool:
        outer = self._lifted(a, self._site(b).graph)
        return outer is None or outer is b or self.reaches(outer, b)

    def _dominates_inner(self, a: ast.AST, b: ast.AST) -> bool:
        definition = self._lifted(b, self._site(a).graph)
        return definition is not None and definition is not a and self.dominates(a, definition)

    # Order inside one point.

    def inside(self, node: ast.AST, outer: ast.AST) -> bool:
        """Whether a node is (in) another."""
        current: ast.AST | None = node
        while current is not None and current is not outer:
            current = self.parents.get(current)
        return current is outer

    def _is_ordered(self, a: ast.AST, b: ast.AST) -> bool:
        """Whether `a` is evaluated before `b` by the same point."""
        root = self._site(a).root
        if root is not self._site(b).root or isinstance(root, (ast.Module, *_FUNCTIONS, ast.Lambda)):
            return False
        if root not in self._order:
            graph, points = self.points(root)
            listed = (node for part in graph.points[points[0]].parts for node in evaluation_order(part))
            self._order[root] = {node: index for index, node in enumerate(listed)}
        order = self._order[root]
        return a in order and b in order and order[a] < order[b]

    def is_conditional(self, node: ast.AST) -> bool:
        """Whether an expression's own statement may skip it: `x and node`, `[node for ...]`."""
        root, child = self._site(node).root, node
        while child is not root:
            parent = self.parents.get(child)
            if parent is None or isinstance(parent, (ast.stmt, ast.Module)):
                return False
            if isinstance(parent, ast.IfExp) and child is not parent.test:
                return True
            if isinstance(parent, ast.BoolOp) and child is not parent.values[0]:
                return True
            if isinstance(parent, ast.Compare) and child in parent.comparators[1:]:
                return True
            if isinstance(parent, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                if child is not parent.generators[0]:
                    return True
            elif isinstance(parent, ast.comprehension) and child is not parent.iter:
                return True
            child = parent
        return False

    # Loops.

    def loops_round(self, node: ast.AST) -> tuple[Loop, ...]:
        """The loops of its function whose rounds evaluate a node, from the inside out; not for an `else`."""
        if node not in self._loops:
            self._loops[node] = self._find_loops(node)
        return self._loops[node]

    def _find_loops(self, node: ast.AST) -> tuple[Loop, ...]:
        found: list[Loop] = []
        child, parent = node, self.parents.get(node)
        while parent is not None and not _holds(parent, child):
            if isinstance(parent, _LOOPS) and _in_rounds(parent, child):
                found.append(parent)
            child, parent = parent, self.parents.get(parent)
        return tuple(found)

    def exits(self, loop: Loop) -> tuple[ast.AST, ...]:
        """How a loop is left: by itself once its items or its condition run out, by `break`, `return`, `raise`."""
        graph = self._site(loop).graph
        held = [p for p, point in enumerate(graph.points) if p > Graph.RAISED and self._in_loop(point.node, loop)]
        inside = {*held, *graph.heads[loop]}
        found = [
            loop if point in graph.heads[loop] else graph.points[point].node
            for point in sorted(inside)
            if graph.is_reachable(point) and any(f not in inside for f in graph.normal[point])
        ]
        return tuple(dict.fromkeys(found))

    def repeats(self, loop: Loop) -> bool:
        """Whether a round of a loop can be followed by another, and does not always end in `break`."""
        graph = self._site(loop).graph
        return any(
            self._in_loop(graph.points[p].node, loop) and graph.is_reachable(p)
            for head in graph.heads[loop]
            for p in graph.predecessors[head]
            if p > Graph.RAISED
        )

    def _in_loop(self, node: ast.AST, loop: Loop) -> bool:
        return loop in self.loops_round(node)

    # Ways out.

    def completes(self, statement: ast.stmt) -> bool:
        """Whether what follows a statement in its block can run after it."""
        return statement in self._site(statement).graph.completing

    def leaves(self, block: Sequence[ast.stmt]) -> bool:
        """Whether every path through a block returns, raises, breaks or continues."""
        return bool(block) and not self.completes(block[-1])

    def is_reachable(self, node: ast.AST) -> bool:
        """Whether any path from the start of its function leads to a node."""
        site = self._site(node)
        return any(site.graph.is_reachable(p) for p in site.points)

    # Placing.


def _holds(frame: ast.AST, child: ast.AST) -> bool:
    """Whether a child of a node runs in that node's own graph."""
    if isinstance(frame, ast.Module):
        return True
    if isinstance(frame, _FUNCTIONS):
        return isinstance(child, ast.stmt)
    if isinstance(frame, ast.Lambda):
        return child is frame.body
    return False


def _in_rounds(loop: Loop, child: ast.AST) -> bool:
    if child is (loop.test if isinstance(loop, ast.While) else loop.target):
        return True
    return isinstance(child, ast.stmt) and child in loop.body


def evaluation_order(root: ast.AST) -> Iterator[ast.AST]:
    """The nodes that evaluating one gets done with, in order; functions and lambdas inside are one node each."""
    stack: list[tuple[ast.AST, bool]] = [(root, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            yield node
            continue
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(_evaluated(node)))


def _evaluated(node: ast.AST) -> list[ast.AST]:
    """The expressions that are evaluated for a node, in order."""
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [*([node.value] if node.value is not None else []), *targets]
    if isinstance(node, ast.IfExp):
        return [node.test, node.body, node.orelse]
    if isinstance(node, ast.Dict):
        return [part for pair in zip(node.keys, node.values, strict=True) for part in pair if part is not None]
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return [*node.generators, node.elt]
    if isinstance(node, ast.DictComp):
        return [*node.generators, node.key, node.value]
    if isinstance(node, ast.comprehension):
        return [node.iter, node.target, *node.ifs]
    if isinstance(node, (ast.Lambda, ast.Name, ast.Constant)):
        return []
    return [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr_context)]
