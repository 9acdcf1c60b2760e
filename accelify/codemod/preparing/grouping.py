"""Where objects are prepared: items that are ready at one place are prepared by one statement there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from accelify.codemod.edits.inserted import Inserted
from accelify.codemod.edits.values import Insert
from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods
from accelify.codemod.libraries.row import Effect
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Element
from accelify.codemod.training.loops.training import Training
from accelify.codemod.training.roles import stepped


@dataclass(frozen=True)
class Item:
    """An object to prepare under its name; `assigned` is whether the name may be given the result."""

    kind: str
    text: str
    frame: Scope
    statement: ast.stmt | None  # the one after which it may be prepared; None for the head of the function
    line: int
    assigned: bool = True
    anchor: str = ""  # the name whose binding the statement is, when it is another's
    without_optimizer: bool = False  # a model that also trains where the optimizer of the statement is not made
    among_others: bool = False  # whether its name is also given what is not to be prepared: it is where it is made


@dataclass(frozen=True, slots=True)
class Group:
    """Items that one statement prepares, after `anchor`, or at the head of `frame`."""

    frame: Scope
    anchor: ast.stmt | None
    items: tuple[Item, ...]


class Grouper:
    """Puts items into groups, each where all of its items are ready and none is used yet."""

    def __init__(self, program: Program, training: Training, bare_models: Sequence[Item] = ()) -> None:
        self.program = program
        self.training = training
        self.bare_models = bare_models
        self.groups: list[Group] = []
        self._targets: dict[Scope, dict[str, list[ast.expr]]] = {}
        self._stepped_in: set[Scope] = set()  # the functions in which optimizers are prepared

    def group(self, items: Sequence[Item]) -> list[Group]:
        """The statements that prepare some items."""
        self._stepped_in = {i.frame for i in items if i.kind == "optimizer"}
        blocks: dict[int, tuple[Scope, list[ast.stmt], list[tuple[int, Item]]]] = {}
        for item in (placed for given in items for placed in self._before_batches(given)):
            block, index = self._place(item)
            blocks.setdefault(id(block), (item.frame, block, []))[2].append((index, item))
        for frame, block, placed in blocks.values():
            self._group_block(frame, block, sorted(placed, key=lambda p: p[0]))
        return self.groups

    def _place(self, item: Item) -> tuple[list[ast.stmt], int]:
        """The block in which an item is ready, and the index of the statement after which it is."""
        if item.statement is None:
            return item.frame.body, -1
        statement = self._hoisted(item.statement, item)
        if item.without_optimizer:
            statement = self._bound_above(statement, item.text)
        block = self.program.block(statement)
        return block, block.index(statement)

    def _before_batches(self, item: Item) -> list[Item]:
        """A model right after it is made, if a loader's batch, which is on the device, meets it before that.

        Where the statement makes it anew, also the one that had its name before and that a batch meets; where only one
        branch above the statement has made it, there.
        """
        if item.kind != "model" or item.statement is None or item.without_optimizer:
            return [item]
        if not self._is_there_after(item.statement, item):
            branches = {self.program.statement(w) for w in self._writes(item.frame, item.text)}
            return [replace(item, statement=s, anchor="") for s in branches] or [item]
        block = self.program.block(item.statement)
        bound = {self.program.statement(w) for w in self._writes(item.frame, item.text)}
        end = block.index(item.statement)
        made = [i for i in range(end) if block[i] in bound]
        while made and self._is_read_in(item, block[made[-1]]):
            made.pop()  # `model = model.to(device)`
        since = block[made[-1] : end] if made else []
        earlier = replace(item, statement=block[made[-1]], anchor="") if made else item
        if item.statement in bound and not self._is_read_in(item, item.statement):
            return [earlier, item] if self._meets_batch(item, since) else [item]
        is_first = self._meets_batch(item, since) or self._leaves_gradients(item, since)
        return [earlier if is_first else item]

    @staticmethod
    def _is_read_in(item: Item, statement: ast.stmt) -> bool:
        return any(ast.unparse(n) == item.text for n in _read_in(statement))

    def _meets_batch(self, item: Item, statements: Sequence[ast.stmt]) -> bool:
        """Whether statements run a model on a loader's batch, and have not moved it before."""
        plain = [s for s in statements if not isinstance(s, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))]
        calls = [n for s in plain if item.kind == "model" for n in walk(s) if isinstance(n, ast.Call)]
        run = [c for c in calls if ast.unparse(c.func) == item.text and any(map(self._is_of_batch, c.args))]
        moved = [c for c in calls if isinstance(c.func, ast.Attribute) and methods.moves_to_device(c.func.attr)]
        moved = [
            c for c in moved if item.text in map(ast.unparse, _read_in(c)) or self.program.statement(c) is plain[0]
        ]
        return any(not any(self.program.before(m, r) for m in moved) for r in run)

    def _leaves_gradients(self, item: Item, statements: Sequence[ast.stmt]) -> bool:
        """Whether a backward pass comes before the optimizer that steps with its gradients is made."""
        assert item.statement is not None
        frame = self.program.frame(item.statement)
        inside = [b for b in self.training.backwards if any(self.program.inside(b, s) for s in statements)]
        passes = [b for b in inside if self.program.frame(b) is frame]
        flow = self.program.control_flow(item.statement)
        others = [*self.training.backwards, *self.training.steps]
        return any(flow.reaches(b, item.statement, without=[o for o in others if o is not b]) for b in passes)

    def _is_of_batch(self, given: ast.expr) -> bool:
        """Whether something may be (a part of) what a loader gives, where it is read."""
        names = [n for n in walk(given) if isinstance(n, ast.Name)]
        bound = [w for n in names for w in self.program.reaching(n, self._writes(self.program.frame(n), n.id))]
        statements = {self.program.statement(w) for w in bound}
        return any(isinstance(v, Element) for n in names for v in self.program.values(n)) and any(
            isinstance(s, (ast.For, ast.AsyncFor))
            or (isinstance(s, ast.Assign) and any(map(self.program.iterator, walk(s.value))))
            for s in statements
        )

    def _bound_above(self, statement: ast.stmt, text: str) -> ast.stmt:
        """The last statement before the conditions round another one after which a name is bound for certain."""
        around = [a for a in self.program.ancestors(statement) if isinstance(a, ast.If)]
        for outer in around:
            block = self.program.block(outer)
            for earlier in reversed(block[: block.index(outer)]):
                if self._binds([earlier], text):
                    return earlier
        return statement

    def initialised(self, item: Item) -> Item:
        """An item of no group, to be prepared once its weights are drawn."""
        if item.statement is None:
            return item
        block = self.program.block(item.statement)
        return replace(item, statement=block[self._past_initialisation(block, block.index(item.statement), [item])])

    # Where a name is bound for certain.

    def _hoisted(self, statement: ast.stmt, item: Item) -> ast.stmt:
        """The outermost statement after which a name is bound whichever way the script went, and not needed before."""
        text, found = item.anchor or item.text, statement
        while not item.among_others:
            outer = self._outer(found, item)
            if outer is None or not self._is_bound_after(outer, text, item) or not self._is_there_after(outer, item):
                return found
            if isinstance(outer, ast.Try) and self._is_needed_between(statement, outer, item):
                return found
            found = outer
        return found

    def _is_there_after(self, statement: ast.stmt, item: Item) -> bool:
        """Whether an item itself, which may be prepared where another name is bound, is there behind a statement."""
        return self.program.once(Inserted).is_bound(item.text, Insert(statement, "after", ""))

    def _outer(self, statement: ast.stmt, item: Item) -> ast.stmt | None:
        """The condition, context or `try` round a statement after which what it binds may be prepared instead."""
        parent = self.program.parent(statement)
        if isinstance(parent, ast.match_case):
            parent = self.program.parent(parent)
        if isinstance(parent, (ast.If, ast.Match, ast.With, ast.AsyncWith)):
            first = self._first_if(parent) if isinstance(parent, ast.If) else parent
            return None if self._is_needed_in(first, item) else first
        if isinstance(parent, ast.ExceptHandler):
            parent = self.program.parent(parent)
        bound = self._writes(self.program.frame(statement), item.anchor or item.text)
        is_in_handler = isinstance(parent, ast.Try) and any(
            self.program.inside(w, h) for h in parent.handlers for w in bound
        )
        return parent if isinstance(parent, ast.Try) and is_in_handler else None

    def _is_bound_after(self, statement: ast.stmt, text: str, item: Item) -> bool:
        """Whether a name is bound whenever what follows a statement runs, if it ever does, or fails without it.

        In a loop that trains, by the round itself: what was bound before has been prepared before.
        """
        writes = self._writes(self.program.frame(statement), text)
        loop = next((a for a in self.program.loops_round(statement) if self._uses(a, item)), None)
        if loop is not None:
            writes = [w for w in writes if self.program.inside(w, loop)]
        if self.program.control_flow(statement).is_covered_after(writes, statement):
            return True
        after = Insert(statement, "after", "")
        return (
            loop is None and text.isidentifier() and self.program.once(Inserted).is_bound(text, after, may_raise=False)
        )

    def _writes(self, frame: Scope, text: str) -> list[ast.expr]:
        """The targets of assignments in a function that are written like `text`."""
        if frame not in self._targets:
            found: dict[str, list[ast.expr]] = {}
            of_module = frame.kind == "module"
            for node in self.program.parsed(frame.node).nodes if of_module else walk(frame.node):
                is_target = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(
                    node.ctx, ast.Store
                )
                if is_target and self.program.frame(node) is frame:
                    assert isinstance(node, ast.expr)
                    found.setdefault(ast.unparse(node), []).append(node)
            self._targets[frame] = found
        return self._targets[frame].get(_unparsed(text), [])

    def _is_needed_between(self, statement: ast.stmt, outer: ast.stmt, item: Item) -> bool:
        """Whether something inside a statement needs an item after another statement in it has bound it."""
        return any(self._uses(s, item) and self.program.before(statement, s) for s in _simple_in(outer))

    def _is_needed_in(self, node: ast.stmt, item: Item) -> bool:
        """Whether a branch trains, or iterates over a loader that one of them binds: `batches = iter(make())`."""
        plain = [s for s in walk(node) if isinstance(s, (ast.Assign, ast.Expr)) and not self._binds([s], item.text)]
        headers = [s.iter for s in walk(node) if isinstance(s, (ast.For, ast.AsyncFor))]
        return any(self._uses(s, item) for s in [*plain, *headers])

    def _is_elif(self, node: ast.If) -> bool:
        parent = self.program.parent(node)
        return isinstance(parent, ast.If) and parent.orelse == [node]

    def _first_if(self, node: ast.If) -> ast.If:
        while self._is_elif(node):
            parent = self.program.parent(node)
            assert isinstance(parent, ast.If)
            node = parent
        return node

    def _binds_in_branches(self, node: ast.If, text: str) -> bool:
        branches = [node.body, node.orelse]
        binding = [branch for branch in branches if branch and self._binds(branch, text)]
        leaves = self.program.control_flow(node).leaves
        return bool(binding) and all(branch in binding or leaves(branch) for branch in branches)

    def _binds(self, block: Iterable[ast.stmt], text: str) -> bool:
        text = _unparsed(text)
        for statement in block:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
                    if any(ast.unparse(p) == text for p in parts):
                        return True
            elif (isinstance(statement, ast.If) and self._binds_in_branches(statement, text)) or (
                isinstance(statement, ast.With) and self._binds(statement.body, text)
            ):
                return True
        return False

    # One block.

    def _group_block(self, frame: Scope, block: list[ast.stmt], placed: list[tuple[int, Item]]) -> None:
        current: list[Item] = []
        end = -1
        for index, item in placed:
            between = block[end + 1 : index + 1]
            if any(
                self._meets_batch(i, between)
                or any(self._uses(s, i) or self._gives_another(s, i.text) for s in between)
                for i in current
            ):
                self._close(frame, block, end, current)
                current = []
            current.append(item)
            end = max(end, index)
        if current:
            self._close(frame, block, end, current)

    def _close(self, frame: Scope, block: list[ast.stmt], end: int, items: list[Item]) -> None:
        end = self._past_initialisation(block, end, [*items, *(i for i in self.bare_models if i.frame is frame)])
        order = {"loader": 0, "model": 1, "optimizer": 2}
        unique: dict[str, Item] = {}
        before = [g for g in self.groups if g.frame is frame and self._is_before(g, block)]
        earlier = {
            i.text
            for g in before
            for i in g.items
            if i.kind == "model" and not self._holds_another(i.text, g, block, end)
        }
        for item in sorted(items, key=lambda i: (order[i.kind], i.line, _column(i), i.text)):
            if not (item.kind == "model" and item.text in earlier):
                unique.setdefault(item.text, item)
        if unique:
            self.groups.append(Group(frame, block[end] if end >= 0 else None, tuple(unique.values())))

    def _holds_another(self, text: str, group: Group, block: list[ast.stmt], end: int) -> bool:
        """Whether a name got another model after a group prepared the one that it held."""
        begin = block.index(group.anchor) + 1 if group.anchor in block else 0
        return any(self._gives_another(statement, text) for statement in block[begin : end + 1])

    def _gives_another(self, statement: ast.stmt, text: str) -> bool:
        """Whether a statement gives a name a value that is not made of the one that it held."""
        is_bound = isinstance(statement, ast.Assign) and self._binds([statement], text)
        return is_bound and not any(ast.unparse(n) == text for n in walk(statement.value))  # type: ignore[attr-defined]  # an assignment

    def _is_before(self, group: Group, block: list[ast.stmt]) -> bool:
        """Whether a group that is made already is on every way to a block: it stands there, or in one round it."""
        if group.anchor is None:
            return True
        around = self.program.block(group.anchor)
        return any(s in around for s in [block[0], *self.program.ancestors(block[0])])

    def _past_initialisation(self, block: list[ast.stmt], end: int, items: list[Item]) -> int:
        """The last statement, before any that needs the items, that draws weights of the models anew."""
        texts = {i.text for i in items if i.kind == "model"}
        for index in range(end + 1, len(block) if end >= 0 and texts else 0):
            if any(self._uses(block[index], item) for item in items):
                break
            if self._draws_weights(block[index], texts):
                end = index
        return end

    def _draws_weights(self, statement: ast.stmt, models: set[str]) -> bool:
        """Whether a statement draws weights of some models anew: `net.apply(init)`, `net.reset_parameters()`."""
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return False
        parts = list(walk(statement))
        calls = [n for n in parts if isinstance(n, ast.Call)]
        owners = {text.rpartition(".")[0] for text in models}  # `self`, of `self.net`
        if any(self._runs_on_parts(c, owners) for c in calls):
            return True
        if not any(isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) in models for n in parts):
            return False
        run = self.program.run_through(calls)
        inner = [c for f in run for c in self.program.calls_in(f)]
        return any(self._fills_at_random(c, models) for c in [*calls, *inner])

    def _fills_at_random(self, call: ast.Call, models: set[str]) -> bool:
        rows = self.program.once(Effects).kinds.called(call) or ()
        if any(Effect.DRAWS_TORCH in row.effects and row.mutates for row in rows):
            return True
        return self._runs_on_parts(call, models)

    def _runs_on_parts(self, call: ast.Call, models: set[str]) -> bool:
        """`net.apply(init)`"""
        rows = self.program.once(Effects).kinds.called(call) or ()
        is_run = any(Effect.CALLS in row.effects and row.returns == "self" for row in rows)
        return is_run and isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in models

    def _uses(self, statement: ast.AST, item: Item) -> bool:
        """Whether a statement needs an item prepared: it reads a loader, or it trains."""
        if item.kind == "loader":
            base = item.text.split("[")[0]
            members = {
                n.value for n in walk(statement) if isinstance(n, ast.Attribute)
            }  # `loader.dataset` needs nothing
            return any(
                isinstance(n, (ast.Name, ast.Attribute))
                and isinstance(n.ctx, ast.Load)
                and n not in members
                and ast.unparse(n) == base
                for n in walk(statement)
            )
        if trains(self.program, self.training, statement):
            return True
        if item.kind == "model" and self._makes_an_optimizer(statement, item.frame):
            return True
        steps = [s for s in self.training.steps if item.kind == "optimizer" and self.program.inside(s, statement)]
        return any(self.program.frame(s) is item.frame and ast.unparse(stepped(s)) == item.text for s in steps)

    def _makes_an_optimizer(self, statement: ast.AST, frame: Scope) -> bool:
        """Whether a statement calls another function that makes an optimizer, and prepares it."""
        return bool(self._stepped_in & _called_in(self.program, statement) - {frame})


def trains(program: Program, training: Training, statement: ast.AST) -> bool:
    """Whether a statement has a backward pass, or calls what has one."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return False
    if any(n in training.backwards for n in walk(statement) if isinstance(n, ast.Call)):
        return True
    return not training.frames.isdisjoint(_called_in(program, statement))


def any_trains(program: Program, training: Training, block: Sequence[ast.stmt]) -> bool:
    """Whether one of some statements does so."""
    return any(trains(program, training, statement) for statement in block)


def _called_in(program: Program, statement: ast.AST) -> set[Scope]:
    """The functions that the calls in a statement may run."""
    calls = (n for n in walk(statement) if isinstance(n, ast.Call))
    return {function for call in calls for function in program.flow.callees.get(call, ())}


@cache
def _unparsed(text: str) -> str:
    """An expression as `ast` writes it."""
    return ast.unparse(ast.parse(text, mode="eval"))


def _read_in(statement: ast.AST) -> Iterator[ast.expr]:
    """The variables that a statement reads."""
    for node in walk(statement):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            yield node


def _simple_in(statement: ast.stmt) -> list[ast.AST]:
    """The statements in another one that hold no others, and what its loops go over."""
    inside = [n for n in walk(statement) if isinstance(n, ast.stmt)]
    simple = [s for s in inside if not any(isinstance(c, ast.stmt) for c in ast.iter_child_nodes(s))]
    return [*simple, *(s.iter for s in inside if isinstance(s, (ast.For, ast.AsyncFor)))]


def _column(item: Item) -> int:
    """Where in its statement an item gets its name; -1 where it does not."""
    named = [n for n in walk(item.statement or ast.Pass()) if isinstance(n, (ast.Name, ast.Attribute))]
    return min((n.col_offset for n in named if ast.unparse(n) == item.text), default=-1)
