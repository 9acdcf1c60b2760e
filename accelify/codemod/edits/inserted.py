"""Is all that inserted code reads bound on every way to where it runs, or read there by the script as well?"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from accelify.codemod.edits.values import Change, Insert, Obstacle
from accelify.codemod.semantics.flow_graph import Graph
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope, returned
from accelify.codemod.semantics.values import Instance

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Inserted:
    """The inserted statements of a plan, and what they read."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._nodes: dict[Scope, dict[str, list[ast.expr]]] = {}
        self._files: dict[str, dict[Scope, list[ast.expr]]] = {}

    def obstacles(self, changes: Sequence[Change]) -> Iterator[Obstacle]:
        """The inserted statements that may read what is not there, or not any more."""
        for change in changes:
            for edit in (e for e in change.edits if isinstance(e, Insert)):
                for text in _read_in(edit.code):
                    if not self.is_bound(text, edit):
                        message = (
                            f"the code that belongs here reads `{text}`, which is not assigned on every way to this "
                            "line: assign it in each branch, in this function"
                        )
                        yield Obstacle(change.rule, change.path, edit.node, message)

    def is_bound(self, text: str, edit: Insert, *, may_raise: bool = True) -> bool:
        """Whether a variable, attribute or element is bound wherever a statement is inserted, or read there anyway.

        may_raise: whether the script may raise an error of its own before it reads it.
        """
        text, frame = ast.unparse(ast.parse(text, mode="eval")), self.program.frame(edit.node)
        nodes = self._nodes_of(frame).get(text, [])
        reads = [n for n in nodes if isinstance(n.ctx, ast.Load)]  # type: ignore[attr-defined]  # a variable
        writes = [n for n in self._writes(frame, text, nodes) if not isinstance(getattr(n, "ctx", None), ast.Del)]
        lost = [n for n in nodes if isinstance(n.ctx, ast.Del)] + self._emptied(frame, text)  # type: ignore[attr-defined]
        if frame.kind == "class" or not [*writes, *lost] or any(isinstance(w, ast.arg) for w in writes):
            return True
        way = _Way(self.program, edit)
        if not way.may_miss([*reads, *writes], lost, from_start=self._is_made_here(text, frame, writes)):
            return True
        ends = [Graph.END] if may_raise else [Graph.END, Graph.RAISED]
        return way.is_met([*reads, *self._calls_that_read(frame, text)], [*writes, *lost], ends)

    def _nodes_of(self, frame: Scope) -> dict[str, list[ast.expr]]:
        """The variables, attributes and elements in a function, by their texts."""
        if frame not in self._nodes:
            found: dict[str, list[ast.expr]] = {}
            for node in self._nodes_by_frame(self.program.path(frame.node)).get(frame, ()):
                found.setdefault(ast.unparse(node), []).append(node)
            self._nodes[frame] = found
        return self._nodes[frame]

    def _nodes_by_frame(self, path: str) -> dict[Scope, list[ast.expr]]:
        if path not in self._files:
            found: dict[Scope, list[ast.expr]] = {}
            for node in self.program.flow.parsed_of[path].nodes:
                if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
                    found.setdefault(self.program.frame(node), []).append(node)
            self._files[path] = found
        return self._files[path]

    def _writes(self, frame: Scope, text: str, nodes: Sequence[ast.expr]) -> list[ast.AST]:
        if text.isidentifier():
            return list(frame.writes.get(text, ())) if frame.owner(text) is frame else []
        return [*(n for n in nodes if isinstance(n.ctx, ast.Store)), *self._filled(frame, text)]  # type: ignore[attr-defined]

    def _filled(self, frame: Scope, text: str) -> Iterator[ast.AST]:
        """Where the container of an element may get it under a name that is not known: `loaders[phase] = ...`."""
        for owner in self._nodes_of(frame).get(_container(text), ()):
            place = self.program.parent(owner)
            is_named = isinstance(place, ast.Subscript) and isinstance(place.slice, ast.Constant)
            if isinstance(owner.ctx, ast.Load) and not is_named:  # type: ignore[attr-defined]  # a variable
                yield owner

    def _is_made_here(self, text: str, frame: Scope, writes: Sequence[ast.AST]) -> bool:
        """Whether something is there in no call of a function before that call has made it."""
        if text.isidentifier():
            return True
        if not writes or not isinstance(writes[0], ast.Attribute):
            return False
        held = self.program.values(writes[0].value)
        if not held or not all(isinstance(v, Instance) for v in held):
            return False  # `args.device` of what a library parsed
        return all(self.program.frame(w) is frame for w in self.program.attribute_writes[writes[0].attr])

    def _emptied(self, frame: Scope, text: str) -> list[ast.expr]:
        """Where the container of an element is made anew, and perhaps without the element."""
        owner = self._nodes_of(frame).get(_container(text), ())
        return [n for n in owner if isinstance(n.ctx, ast.Store) and self._may_lack(n, text)]  # type: ignore[attr-defined]

    def _may_lack(self, target: ast.expr, text: str) -> bool:
        parent, key = self.program.parent(target), ast.parse(text, mode="eval").body.slice  # type: ignore[attr-defined]  # an element
        value = parent.value if isinstance(parent, (ast.Assign, ast.AnnAssign)) else None
        name = key.value if isinstance(key, ast.Constant) else None
        if isinstance(value, ast.Call):
            callees = [*self.program.flow.callees.get(value, ())]
            is_plain = "dict" in self.program.called(value) and not value.args
            is_without = is_plain and not any(k.arg in (None, name) for k in value.keywords)
            return is_without or any(self._may_return_without(c, ast.unparse(key)) for c in callees)
        keys = value.keys if isinstance(value, ast.Dict) else [None]
        return all(isinstance(k, ast.Constant) and k.value != name for k in keys)

    def _may_return_without(self, function: Scope, key: str) -> bool:
        """Whether a function may return a container that it has not put something into."""
        given = [r for r in returned([function]) if isinstance(r, ast.Name)]
        edits = [(f"{r.id}[{key}]", Insert(self.program.statement(r), "before", "")) for r in given]
        return any(not self.is_bound(*each) for each in edits)

    def _calls_that_read(self, frame: Scope, text: str) -> list[ast.AST]:
        """The calls in a function that run others which read a variable or an attribute in any case."""
        name = text.rpartition(".")[2]
        if not name.isidentifier():
            return []
        reads: Iterable[ast.AST] = self.program.attribute_reads.get(name, ())
        writes: Iterable[ast.AST] = self.program.attribute_writes.get(name, ())
        if text == name:
            scopes = [s for s in frame.walk() if s.owner(name) is frame]
            reads = [n for s in scopes for n in s.reads.get(name, ())]
            writes = [n for s in scopes for n in s.writes.get(name, ())]
        readers = _Readers(self.program, reads, writes)
        return [c for c in self.program.calls_in(frame) if readers.is_one(c)]


class _Readers:
    """The functions that read something, whichever way they go, before they bind it."""

    def __init__(self, program: Program, reads: Iterable[ast.AST], writes: Iterable[ast.AST]) -> None:
        self.program = program
        self.reads, self.writes = _by_frame(program, reads), _by_frame(program, writes)
        self._found: dict[Scope, bool] = {}

    def is_one(self, call: ast.Call) -> bool:
        """Whether each function that a call may run reads it."""
        callees = self.program.flow.callees.get(call, ())
        return bool(callees) and all(map(self._reads, callees))

    def _reads(self, function: Scope) -> bool:
        if function not in self._found:
            self._found[function] = False  # where it calls itself
            if function.body and not self.program.run_from([function]).isdisjoint(self.reads):
                way = _Way(self.program, Insert(function.body[0], "before", ""))
                calls = [c for c in self.program.calls_in(function) if self.is_one(c)]
                reads = [*self.reads.get(function, ()), *calls]
                self._found[function] = way.is_met(reads, self.writes.get(function, ()), [Graph.END])
        return self._found[function]


def _by_frame(program: Program, nodes: Iterable[ast.AST]) -> dict[Scope, list[ast.AST]]:
    found: dict[Scope, list[ast.AST]] = {}
    for node in nodes:
        found.setdefault(program.frame(node), []).append(node)
    return found


class _Way:
    """The paths to where a statement is inserted, and on from there."""

    def __init__(self, program: Program, edit: Insert) -> None:
        self.program = program
        self.node = edit.node
        self.flow = program.control_flow(edit.node)
        self.graph, begin = self.flow.points(edit.node)
        self.is_behind = edit.where == "after"
        self.points = list(self.graph.completing.get(edit.node, [])) if self.is_behind else list(begin)
        block = program.block(edit.node)
        following = block[block.index(edit.node) + 1 :][:1] if self.is_behind else [edit.node]
        self.onward = [p for statement in following for p in self.flow.points(statement)[1]]

    def may_miss(self, passed: Sequence[ast.AST], lost: Sequence[ast.AST], *, from_start: bool) -> bool:
        """Whether a path leads here from the start, or from where something is lost, that passes none of some nodes."""
        begin = [*self._points(lost), *([Graph.ENTRY] if from_start else [])]
        closed = self._closed(passed)
        if self.is_behind:
            reached = self.graph.reach(begin, closed)
            return any((reached[p] or p in begin) and p not in closed for p in self.points)
        reached = self.graph.reach(begin, closed.difference(self.points))
        return any(reached[p] for p in self.points)

    def is_met(self, reads: Sequence[ast.AST], writes: Sequence[ast.AST], ends: Sequence[int]) -> bool:
        """Whether every path on from here comes to one of the reads, before a write or an end."""
        closed = self._closed(reads)
        if self.onward and closed.issuperset(self.onward):
            return True
        reached = self.graph.reach(self.onward or self.points, closed, implicit=False)
        missed = [*ends, *(p for p in self._points(writes) if p not in closed)]
        return not any(reached[p] or p in self.onward for p in missed)

    def _closed(self, nodes: Sequence[ast.AST]) -> set[int]:
        """The points that evaluate some nodes in any case; of loops, too, which are taken to have a round."""
        plain = [n for n in nodes if not self.flow.is_conditional(n)]
        loops = [loop for n in plain for loop in self._loops_sure_of(n)]
        return {*self._points(plain), *(p for loop in loops for p in self.graph.heads.get(loop, ()))}

    def _loops_sure_of(self, node: ast.AST) -> Iterator[ast.AST]:
        """The loops each round of which evaluates a node, and that are not round the inserted statement."""
        for ancestor in self.program.ancestors(node):
            is_loop = isinstance(ancestor, _LOOPS)
            is_round = self.program.inside(self.node, ancestor) and self.node is not ancestor
            if is_loop and not is_round:
                yield ancestor
            elif is_loop or (isinstance(ancestor, ast.stmt) and _may_skip(ancestor)):
                return

    def _points(self, nodes: Sequence[ast.AST]) -> list[int]:
        sites = map(self.flow.points, nodes)
        return [p for graph, points in sites if graph is self.graph for p in points]


def _may_skip(statement: ast.stmt) -> bool:
    """Whether a statement that holds others may not run them: a condition, a `try`, a definition."""
    holds = any(isinstance(child, (ast.stmt, ast.ExceptHandler)) for child in ast.iter_child_nodes(statement))
    return holds and not isinstance(statement, (ast.With, ast.AsyncWith))


def _container(text: str) -> str:
    """What holds an element: `loaders` for `loaders['train']`; nothing for what is no element."""
    node = ast.parse(text, mode="eval").body
    return ast.unparse(node.value) if isinstance(node, ast.Subscript) else ""


def _read_in(code: str) -> list[str]:
    """The variables, attributes and elements that code reads."""
    try:
        tree = ast.parse(textwrap.dedent(code))
    except SyntaxError:
        return []
    nodes = [n for n in ast.walk(tree) if isinstance(n, (ast.Name, ast.Attribute, ast.Subscript))]
    return list(dict.fromkeys(ast.unparse(n) for n in nodes if isinstance(n.ctx, ast.Load)))
