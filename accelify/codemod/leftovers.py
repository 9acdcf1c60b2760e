"""Remove what only the removed code used.

    import torch                                   ->    (nothing), when only `torch.device(...)` read it
    use_cuda = torch.cuda.is_available()           ->    (nothing), when only the removed moves read it
    if use_cuda: ...                               ->    (nothing), when nothing is left to do

Why: a migrated script should read as if it had been written so.
Left alone: names that nothing read before either, and values whose making has an effect. A change that would leave such
a name over is not made, if the script is right without it; else the name stays, with a note, as does a parameter of a
function that is passed on as a value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import libcst as cst

from accelify.codemod.edits.values import (
    AddParameter,
    Attempt,
    Change,
    DropArgument,
    DropNames,
    DropParameter,
    Edit,
    Found,
    Insert,
    Obstacle,
    Plan,
    Remark,
    Remove,
    Replace,
    Unwrap,
    Variable,
    When,
    Wrap,
)
from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods, names
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, names_read_in

NAME = "unused"
OPTIONAL = True
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Uses:
    """The uses of a program's variables.

    handed: parameters that may go. changes_nothing: whether a value may go unevaluated. given_in: the files beside
    the program that give a function's parameter something. stays: whether the user keeps what is in a line of a file.
    """

    program: Program
    tracer: Tracer
    handed: frozenset[Variable]
    changes_nothing: Callable[[ast.expr], bool]
    given_in: Callable[[Scope, str], Sequence[str]] = lambda function, name: ()
    stays: Callable[[str, int], bool] = lambda path, line: False


def settle(found: Sequence[Found], uses: Uses) -> Plan:
    """The plan that what the rules found comes to.

    An attempt that leaves a name over is given up; a name that no attempt is to blame for goes as a parameter or, where
    it is none or a call unpacks what it gives, stays with a note.
    """
    refused: set[Attempt] = set()
    spare: set[Variable] = set(uses.handed)
    while True:
        ledger = _decided(found, refused, replace(uses, handed=frozenset(spare)))
        left = list(ledger.left_over())
        stuck = {uses.program.statement(n) for n, _ in left}
        blamed = {a for a in ledger.attempts if any(_is_in(uses.program, e.node, stuck) for e in _edits_in(a))}
        own = {v for v in {v for _, v in left} - spare if any(p.arg == v[1] for p in v[0].parameters)}
        if own and blamed and all(a.takes_parameters for a in blamed):
            spare |= own
        elif blamed:
            refused |= blamed
        elif {variable for _, variable in left} <= spare:
            break
        else:
            spare |= {variable for _, variable in left}
    plan = ledger.plan()
    over = {variable for _, variable in left if not any(ledger.unpacked_for(*variable))}
    for scope, name in sorted(over, key=lambda v: (uses.program.position(v[0].node), v[1])):
        plan.kept.append((scope.name, name))
        message = f"nothing reads `{name}` any more: it stays, as what gives it its value may do more than that"
        plan.left_over.append(Remark(NAME, scope.module, scope.writes[name][0], message))
    plan.remarks += plan.left_over
    return plan


def tidied(found: Sequence[Found], uses: Uses) -> Plan:
    """The plan that what some rules found comes to, before others read what comes out: names may be left over."""
    return _decided(found, set(), uses).plan()


def _is_in(program: Program, node: ast.AST, statements: set[ast.stmt]) -> bool:
    return bool(statements) and (node in statements or any(a in statements for a in program.ancestors(node)))


def _edits_in(attempt: Attempt) -> Iterator[Edit]:
    return edits_of(one for one in attempt.found if isinstance(one, Change))


def _decided(found: Sequence[Found], refused: set[Attempt], uses: Uses) -> _Ledger:
    """Make all attempts that can be made: one that needs a variable to be unread may let the next be made."""
    waiting = [a for a in _attempts(found) if a.unread and a not in refused]
    refused = refused | set(waiting)
    while True:
        ledger = _Ledger(_resolved(found, refused), uses)
        ready = [a for a in waiting if all(map(ledger.is_unread, a.unread))]
        if not ready:
            return ledger
        waiting = [a for a in waiting if a not in ready]
        refused = refused - set(ready)


def _attempts(found: Iterable[Found]) -> Iterator[Attempt]:
    for one in found:
        if isinstance(one, Attempt):
            yield one
            yield from _attempts((*one.found, *one.otherwise))


def _resolved(found: Iterable[Found], refused: set[Attempt]) -> list[tuple[Change | Remark | Obstacle, Attempt | None]]:
    """The findings that are carried out, each with the attempt that it belongs to."""
    made: list[tuple[Change | Remark | Obstacle, Attempt | None]] = []
    for one in found:
        if not isinstance(one, Attempt):
            made.append((one, None))
        else:
            inner = _resolved(one.otherwise if one in refused else one.found, refused)
            made += [(leaf, one if of is None and one not in refused else of) for leaf, of in inner]
    return made


class _Ledger:
    """Some changes, with what becomes unused by them; computed from the names that they take away, each once."""

    def __init__(self, resolved: list[tuple[Change | Remark | Obstacle, Attempt | None]], uses: Uses) -> None:
        self.uses = uses
        self.program = uses.program
        self.resolved = resolved
        self.attempts = {a for _, a in resolved if a is not None}
        self.changes = self._without_doubles([c for c, _ in resolved if isinstance(c, Change)])
        self.made: list[Change] = []
        while True:
            self._trace()
            needed = list(self._needed())
            if needed == self.changes:
                break
            self.changes = needed

    # Code that is removed.

    @cached_property
    def read_whole(self) -> set[Scope]:
        """The functions and modules in which `exec`, `globals` or their like may read any variable."""
        return self._seen_by(names.reads_variables)

    @cached_property
    def read_by_text(self) -> set[Scope]:
        """The functions and modules in which `eval` may read variables that a text names."""
        return self._seen_by(names.reads_named)

    def _seen_by(self, reads: Callable[[str | None], bool]) -> set[Scope]:
        calls = (c for c in self.program.calls if any(map(reads, self.program.called(c))))
        return {scope for frame in map(self.program.frame, calls) for scope in (frame, frame.root)}

    @cached_property
    def words(self) -> set[str]:
        """The words in the program's texts; what an option says hardly names what nothing else uses."""
        nodes = (node for parsed in self.program.files for node in parsed.nodes)
        texts = (n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))
        return {word for text in texts for word in _WORD.findall(text)}

    def _trace(self) -> None:
        """Follow what the changes take away to all that only it used."""
        self.made = []
        self.gone: set[ast.AST] = set()
        self.removed: set[ast.AST] = set()
        self.dropped: set[tuple[ast.AST, str]] = set()
        self.touched: dict[Variable, None] = {}
        self.waiting: list[Variable] = []
        self.added = added_reads(self.program, self.changes)
        self.filled = {e.node for e in edits_of(self.changes) if isinstance(e, Insert)}
        self.rule_of: dict[ast.AST, str] = {}
        for change in self.changes:
            self._note(change)
        for statement in list(self.removed):
            self._look_round(statement)
        while self.waiting:
            scope, name = self.waiting.pop(0)
            for change in list(self._unused(scope, name)):
                self._make(change)

    def _make(self, change: Change) -> None:
        self.made.append(change)
        self._note(change)
        for edit in change.edits:
            if isinstance(edit, (Remove, DropNames)):
                self._look_round(edit.node)

    def _note(self, change: Change) -> None:
        for edit in change.edits:
            if isinstance(edit, Remove):
                self.removed.add(edit.node)
                self.rule_of[edit.node] = change.rule
            elif isinstance(edit, DropNames):
                self.dropped |= {(edit.node, name) for name in edit.names}
                if all((edit.node, a.asname or a.name.split(".")[0]) in self.dropped for a in edit.node.names):
                    self.removed.add(edit.node)
                    self.rule_of[edit.node] = change.rule
        for name in sorted(vanished([change]) - self.gone, key=_place):
            self.gone.add(name)
            assert isinstance(name, ast.Name)
            owner = self.program.scope(name).owner(name.id)
            if owner is not None:
                self.touched[owner, name.id] = None
                self.waiting.append((owner, name.id))

    def is_unread(self, variable: Variable) -> bool:
        """Whether nothing reads a variable any more or, where only the changes make it, none of them reads it."""
        scope, name = variable
        if scope.binds(name):
            return self.is_dead(variable)
        inner = set(scope.walk())
        return not any(name in read and self.program.scope(node) in inner for node, read in _added(self.changes))

    def is_dead(self, variable: Variable) -> bool:
        """Whether nothing of the user's code, and nothing new, reads a variable that something read."""
        reads = self.program.reads_of(*variable)
        return bool(reads) and all(r in self.gone for r in reads)

    def _unused(self, scope: Scope, name: str) -> Iterator[Change]:
        """The code that is removed with a variable."""
        is_handed = (scope, name) in self.uses.handed
        is_read = (scope, name) in self.added and not is_handed
        if scope.kind not in ("module", "function") or is_read or name in self._exported(scope):
            return
        if not scope.binds(name) or not self.is_dead((scope, name)):
            return
        if is_handed:
            yield from self._parameter(scope, name)
        for write in scope.writes[name]:
            yield from (c for c in self._binding(scope, name, write) if not self.uses.stays(c.path, c.line))

    def _exported(self, scope: Scope) -> set[str]:
        """Names that other files import from a module, that `__all__` lists or that `exec`, `eval` may read."""
        if scope in self.read_whole:
            return set(scope.writes)
        found = set(self.program.imported_from.get(scope, ())) if scope.kind == "module" else set()
        found |= self.words & scope.writes.keys() if scope in self.read_by_text else set()
        for statement in scope.body if scope.kind == "module" else ():
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
                texts = [n.value for n in ast.walk(statement.value) if isinstance(n, ast.Constant)]
                found.update(t for t in texts if isinstance(t, str))
        return found

    def _binding(self, scope: Scope, name: str, write: ast.AST) -> Iterator[Change]:
        """The statement that gives a variable a value, if it does nothing else."""
        statement, path = self.program.statement(write), self.program.path(write)
        reason = f"`{name}` is no longer used"
        if statement in self.removed or any(a in self.removed for a in self.program.ancestors(write)):
            return
        if isinstance(write, ast.alias) and isinstance(statement, (ast.Import, ast.ImportFrom)):
            if (statement, name) not in self.dropped and not self._is_tried(write):
                yield Change(NAME, path, statement.lineno, reason, (DropNames(statement, (name,)),))
            return
        is_alone = len(self.program.block(statement)) == 1
        whole: ast.stmt | None = None
        if isinstance(statement, ast.Assign) and isinstance(write, ast.Name):
            unread = all(self._is_unread(scope, bound) for bound in _bound(statement))
            if unread and self.uses.changes_nothing(statement.value):
                whole = self._choice(statement, name) if is_alone else statement
            elif unread and scope.kind == "function" and _only_calls(statement) and write not in self.gone:
                edit = Replace(statement, only_value, keeps=(statement.value,))
                yield Change(NAME, path, statement.lineno, reason, (edit,))
        elif (
            isinstance(statement, ast.AugAssign)
            and statement.target is write
            and self.uses.changes_nothing(statement.value)
        ):
            whole = statement
        if whole is not None:
            outer = self.program.parent(whole)
            if isinstance(outer, ast.If) and self._is_empty(outer, whole) and self.uses.changes_nothing(outer.test):
                whole = outer
            self.removed |= {statement, whole}
            yield Change(NAME, path, whole.lineno, reason, (Remove(whole),))

    def _is_unread(self, scope: Scope, name: str) -> bool:
        is_exported = name in self._exported(scope)
        is_added = any(s is scope and n == name for s, n in self.added)
        return not is_added and not is_exported and scope.binds(name) and self._all_gone(scope, name)

    def _all_gone(self, scope: Scope, name: str) -> bool:
        return all(r in self.gone for r in self.program.reads_of(scope, name))

    def _choice(self, statement: ast.stmt, name: str) -> ast.stmt | None:
        """The `if` with nothing in any of its branches but a value for a name."""
        choice: ast.AST | None = statement
        found = None
        while isinstance(choice := self.program.parent(choice or statement), ast.If) and _only_gives(
            self.uses, choice, name
        ):
            found = choice
        return found

    # Blocks with nothing left in them.

    def _look_round(self, statement: ast.AST) -> None:
        """An `if use_cuda:` that only held what goes; a loop over a batch, and `with torch.no_grad():`, too."""
        outer = self.program.parent(statement)
        if not isinstance(outer, (ast.If, ast.For, ast.With)) or outer in self.removed:
            return
        if not self._is_empty(outer, None) or not self._does_nothing_else(outer):
            return
        rules = {self.rule_of.get(s, NAME) for s in _held(outer)}
        where = {ast.If: "under this condition", ast.For: "in this loop"}.get(type(outer), "in this block")
        rule = NAME if len(rules) > 1 else rules.pop()
        self._make(Change(rule, self.program.path(outer), outer.lineno, f"nothing is left {where}", (Remove(outer),)))

    def _is_empty(self, outer: ast.If | ast.For | ast.With, besides: ast.stmt | None) -> bool:
        held = _held(outer)
        return all(s in self.removed or s is besides for s in held) and self.filled.isdisjoint(held)

    def _does_nothing_else(self, node: ast.If | ast.For | ast.With) -> bool:
        """Whether a condition, or iterating over something, does nothing by itself."""
        if isinstance(node, ast.If):
            return self.uses.changes_nothing(node.test)
        if isinstance(node, ast.With):
            calls = [i.context_expr for i in node.items]
            return all(isinstance(c, ast.Call) and any(map(names.sets_gradient, self.program.called(c))) for c in calls)
        functions = [n.func for n in ast.walk(node.iter) if isinstance(n, ast.Call)]
        named = all(map(_is_view, functions))
        return named and not any(self._is_read_below(n, node) for n in ast.walk(node.target) if isinstance(n, ast.Name))

    def _is_read_below(self, target: ast.Name, loop: ast.For) -> bool:
        """Whether something outside a loop reads what its target was given last."""
        frame = self.program.frame(loop)
        outside = [r for r in frame.reads.get(target.id, ()) if not self.program.inside(r, loop)]
        return any(target in self.program.reaching(r, frame.writes.get(target.id, [])) for r in outside)

    # Parameters.

    def _parameter(self, function: Scope, name: str) -> Iterator[Change]:
        """A parameter goes from its function, from every call of it, and from others that the same calls may go to."""
        flow = self.program.flow
        alike = {f for call in flow.callers.get(function, ()) for f in flow.callees[call]} | {function}
        if not all(self._can_lose(f, name) for f in alike):
            return
        edits: dict[str, list[Edit]] = {}
        for other in sorted(alike, key=lambda f: self.program.position(f.node)):
            edits.setdefault(other.module, []).append(DropParameter(other.node, name))  # type: ignore[arg-type]
        for call in flow.callers.get(function, ()):
            argument = self.uses.tracer.written(call, function, name)
            if argument is not None:
                edits.setdefault(self.program.path(call), []).append(DropArgument(call, argument))
        line = self.program.line(function.node)
        for path, listed in edits.items():
            yield Change(NAME, path, line, f"`{name}` is no longer used", tuple(listed))

    def _can_lose(self, function: Scope, name: str) -> bool:
        """Whether a function has a parameter that nothing reads any more, and that no other change concerns."""
        taken = _parameters_changed([*self.changes, *self.made])
        is_there = any(p.arg == name for p in function.parameters)
        is_given = any(self._unknown_givers(function, name)) or any(self.unpacked_for(function, name))
        is_free = not is_given and (function.node, name) not in taken
        return is_there and is_free and self._all_gone(function, name)

    # Changes that are not needed.

    def _without_doubles(self, changes: list[Change]) -> list[Change]:
        """The changes, but for those of what another takes out, and for lines that another puts in the same place."""
        removed = [(e.node, i) for i, c in enumerate(changes) for e in c.edits if isinstance(e, Remove)]
        first: dict[ast.AST, int] = {}
        for node, index in removed:
            first.setdefault(node, index)
        placed: set[tuple[ast.stmt, str, str]] = set()
        found = []
        for index, change in enumerate(changes):
            if all(self._is_taken(e, index, first) for e in change.edits):
                continue
            edits = tuple(e for e in change.edits if not (isinstance(e, Insert) and self._placed(e) in placed))
            placed.update(self._placed(e) for e in edits if isinstance(e, Insert))
            if edits:
                found.append(change if len(edits) == len(change.edits) else replace(change, edits=edits))
        return found

    def _placed(self, insert: Insert) -> tuple[ast.stmt, str, str]:
        """A new line with its place; what comes after one statement comes before the next."""
        block = self.program.block(insert.node)
        following = block[block.index(insert.node) + 1 :]
        if insert.where == "after" and following:
            return following[0], "before", insert.code
        return insert.node, insert.where, insert.code

    def _is_taken(self, edit: Edit, index: int, first: dict[ast.AST, int]) -> bool:
        """Whether the node of an edit goes by another change; of two that take out the same, the first does it."""
        if isinstance(edit, Insert):
            return False
        if isinstance(edit, Wrap) and not all(s in first for s in edit.statements):
            return any(a in first for a in self.program.ancestors(edit.node))
        own = first.get(edit.node)
        if own is not None and (own < index or not isinstance(edit, Remove)):
            return True
        return any(a in first and first[a] != index for a in self.program.ancestors(edit.node))

    def _needed(self) -> Iterator[Change]:
        """The changes that are not about the value of a variable that nothing reads any more, nor wait again."""
        waits = {(e.code, e.node) for e in edits_of(self.changes) if isinstance(e, Insert) and e.where == "before"}
        for change in self.changes:
            if change.gives is not None and change.gives not in self.added and self.is_dead(change.gives):
                continue
            edits = tuple(
                e
                for e in change.edits
                if not isinstance(e, Insert)
                or not (self._is_idle(e) or any((e.code, s) in waits for s in e.unless_before))
            )
            if len(edits) == len(change.edits):
                yield change
            elif edits:
                yield replace(change, rule=NAME, reason="its value is no longer used", edits=edits)

    def _is_idle(self, insert: Insert) -> bool:
        """Whether a new line only gives a value to a variable that nothing reads any more."""
        name, equals, _ = insert.code.partition(" = ")
        frame = self.program.frame(insert.node)
        scope = frame.owner(name) if equals and name.isidentifier() else None
        if scope is None or not (self.is_dead((scope, name)) or self._is_dead_in(frame, (scope, name))):
            return False
        others = [replace(c, edits=tuple(e for e in c.edits if e is not insert)) for c in self.changes]
        return (scope, name) not in added_reads(self.program, others)

    def _is_dead_in(self, frame: Scope, variable: Variable) -> bool:
        """Whether a function, which gets a variable of its own instead of its module's, reads it no more."""
        inner = set(frame.walk()) if frame.kind == "function" and variable[1] not in frame.writes else set()
        reads = [r for r in self.program.reads_of(*variable) if self.program.scope(r) in inner]
        return bool(reads) and all(r in self.gone for r in reads)

    # Code that is left.

    def left_over(self) -> Iterator[tuple[ast.Name, Variable]]:
        """The reads that go of local variables and parameters that stay, though nothing else reads them."""
        changes = [*self.changes, *self.made]
        added, renamed = added_reads(self.program, changes), _parameters_changed(changes)
        removed = taken_out(changes)
        for scope, name in self.touched:
            if scope.kind != "function" or not scope.binds(name) or (scope, name) in added:
                continue
            if not self.is_dead((scope, name)):
                continue
            writes = [w for w in scope.writes[name] if not (isinstance(w, ast.arg) and (scope.node, name) in renamed)]
            left = [w for w in writes if w not in removed and not self._may_stay(scope, name, w)]
            if left:
                yield from ((read, (scope, name)) for read in self.program.reads_of(scope, name))

    def _may_stay(self, scope: Scope, name: str, write: ast.AST) -> bool:
        """Whether a name is a counter, one of several bound together, `self`, or bound by an import that goes."""
        parent = self.program.parent(write)
        is_part = isinstance(parent, (ast.Tuple, ast.List)) and not all(
            isinstance(e, ast.Name) and self._all_gone(scope, e.id) for e in parent.elts
        )
        is_counter = isinstance(parent, (ast.For, ast.AsyncFor)) and parent.target is write
        is_instance = scope.is_method and bool(scope.parameters) and write is scope.parameters[0]
        is_dropped = isinstance(write, ast.alias) and (parent, name) in self.dropped
        is_given = isinstance(write, ast.arg) and any(self._unknown_givers(scope, name))
        return is_counter or is_part or is_instance or is_dropped or is_given or self._is_kept(write)

    def _is_lent(self, function: Scope) -> bool:
        """Whether a function is passed on as a value: nobody knows all that give its parameters something."""
        return function in self.program.flow.lost

    def _unknown_givers(self, function: Scope, name: str) -> Iterator[str]:
        """What may give a parameter something besides the calls of the program."""
        yield from self.uses.given_in(function, name)
        if self._is_lent(function):
            yield f"others that call `{function.name}`"

    def unpacked_for(self, function: Scope, name: str) -> Iterator[str]:
        """The calls that give a parameter something which cannot be taken out, `f(**options)`."""
        for call in sorted(self.program.flow.callers.get(function, ()), key=self.program.position):
            if self.uses.tracer.is_handed_over(call, function, name):
                yield f"the call of `{ast.unparse(call.func)}` in {self.program.path(call)}"

    def _is_kept(self, write: ast.AST) -> bool:
        """Whether the user wants the statement to stay that binds a name, or it tries an import."""
        is_wanted = self.uses.stays(self.program.path(write), self.program.statement(write).lineno)
        return is_wanted or self._is_tried(write)

    def _is_tried(self, write: ast.AST) -> bool:
        """`try: from fast import Wrapper`, of which it is not known what the script does where that fails."""
        inside = self.program.parent(self.program.statement(write))
        return isinstance(write, ast.alias) and isinstance(inside, (ast.Try, ast.ExceptHandler))

    def plan(self) -> Plan:
        """All of it, with the notes that go with it."""
        changes = list(self._apart([*self.changes, *self.made]))
        out, removed = taken_out(changes), {e.node for e in edits_of(changes) if isinstance(e, Remove)}
        changed = {c.path for c in changes}
        plan = Plan(changes, obstacles=[one for one, _ in self.resolved if isinstance(one, Obstacle)])
        plan.kept += [
            (s.name, n) for s, n in self.touched if self.is_dead((s, n)) and any(map(self._is_kept, s.writes[n]))
        ]
        dead = [(s, n) for s, n in self.touched if self.is_dead((s, n))]
        unread = {self.program.assigned(w)[0] for s, n in dead for w in s.writes[n]} - {None}
        said: set[tuple[str, str]] = set()
        plan.kept += [(s.name, n) for s, n in self.touched if n in self._exported(s) and self._all_gone(s, n)]
        remarks = [one for one, _ in self.resolved if isinstance(one, Remark)]
        for function, name, users in self._kept_for_others():
            plan.kept.append((function.name, name))
            parameter = next(p for p in function.parameters if p.arg == name)
            message = f"`{name}` is kept for {', '.join(users)}, but has no effect any more"
            remarks.append(Remark(NAME, function.module, parameter, message))
        for remark in sorted(remarks, key=lambda r: r.once):
            at = remark.of or remark.node
            is_gone = at in removed if isinstance(at, ast.stmt) else at in out or at in unread
            holds = {
                When.ALWAYS: True,
                When.KEPT: at not in out,
                When.GONE: is_gone,
                When.CHANGED: remark.path in changed,
                When.LEFT: at not in out and remark.path in changed,
            }
            key = (remark.path, remark.message)
            if holds[remark.when] and not (remark.once and key in said):
                said.add(key)
                plan.remarks.append(remark)
        return plan

    def _kept_for_others(self) -> Iterator[tuple[Scope, str, Sequence[str]]]:
        """The parameters that nothing reads any more, each with what may give it something besides the program."""
        gone = _parameters_changed([*self.changes, *self.made])
        for scope, name in self.touched:
            given = scope.parameters[1:] if scope.is_method and not scope.is_static else scope.parameters
            is_parameter = any(p.arg == name for p in given) and (scope.node, name) not in gone
            users = [*self._unknown_givers(scope, name), *self.unpacked_for(scope, name)] if is_parameter else []
            if users and self._all_gone(scope, name):
                yield scope, name, list(dict.fromkeys(users))

    def _apart(self, changes: list[Change]) -> Iterator[Change]:
        """Headers over several statements, without those that go, and not over lines that others put between them."""
        edits = list(edits_of(changes))
        before = {e.node for e in edits if isinstance(e, Insert) and e.where == "before"}
        after = {e.node for e in edits if isinstance(e, Insert) and e.where == "after"}
        for change in changes:
            wrap, *others = change.edits or (None,)
            if not isinstance(wrap, Wrap) or any(o.node in wrap.statements for o in others):
                yield change
                continue
            for part in _parts(wrap.statements, before, after, self.removed):
                line = change.line if part[0] is wrap.node else part[0].lineno
                yield replace(change, line=line, edits=(Wrap(part, wrap.header), *others))


def _parts(
    run: Sequence[ast.stmt], before: set[ast.stmt], after: set[ast.stmt], removed: set[ast.AST]
) -> Iterator[tuple[ast.stmt, ...]]:
    part: list[ast.stmt] = []
    for statement in run:
        if part and statement in before:
            yield tuple(part)
            part = []
        if statement not in removed:
            part.append(statement)
        if part and statement in after:
            yield tuple(part)
            part = []
    if part:
        yield tuple(part)


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _held(node: ast.If | ast.For | ast.With) -> list[ast.stmt]:
    return [*node.body, *getattr(node, "orelse", [])]


def _bound(statement: ast.Assign) -> list[str]:
    """The names that an assignment binds; one that none has for something else."""
    target = statement.targets[0] if len(statement.targets) == 1 else None
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return [part.id if isinstance(part, ast.Name) else "" for part in parts]


def _only_gives(uses: Uses, choice: ast.If, name: str) -> bool:
    return uses.changes_nothing(choice.test) and all(
        _only_gives(uses, s, name)
        if isinstance(s, ast.If)
        else isinstance(s, ast.Assign)
        and [ast.unparse(t) for t in s.targets] == [name]
        and uses.changes_nothing(s.value)
        for s in [*choice.body, *choice.orelse]
    )


def _parameters_changed(changes: Iterable[Change]) -> set[tuple[ast.AST, str | None]]:
    """The parameters that get another name, or go, each with its function."""
    edits = list(edits_of(changes))
    renamed = {(e.node, e.instead_of) for e in edits if isinstance(e, AddParameter)}
    return renamed | {(e.node, e.name) for e in edits if isinstance(e, DropParameter)}


def _only_calls(statement: ast.Assign) -> bool:
    """`device = choose()`, of which `choose()` may stay."""
    is_plain = len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)
    return is_plain and isinstance(statement.value, ast.Call)


def only_value(assign: cst.CSTNode) -> cst.Expr:
    """`choose()` for `device = choose()`."""
    assert isinstance(assign, cst.Assign)
    return cst.Expr(assign.value)


def edits_of(changes: Iterable[Change]) -> Iterator[Edit]:
    """All edits of some changes."""
    for change in changes:
        yield from change.edits


def vanished(changes: Iterable[Change]) -> set[ast.AST]:
    """The names that the user's code no longer reads or writes once some changes are made."""
    return {n for n in taken_out(changes) if isinstance(n, ast.Name)}


def taken_out(changes: Iterable[Change]) -> set[ast.AST]:
    """All nodes that the user's code no longer has once some changes are made."""
    out: set[ast.AST] = set()
    for edit in edits_of(changes):
        if isinstance(edit, Remove):
            out.update(walk(edit.node))
        elif isinstance(edit, DropArgument):
            out.update(walk(edit.argument))
        elif isinstance(edit, Unwrap):
            out.update(n for part in edit.gone for n in walk(part))
        elif isinstance(edit, Replace):
            kept = {n for k in edit.keeps for n in walk(k)}
            out.update(n for n in walk(edit.node) if n not in kept)
    return out


def added_reads(program: Program, changes: Iterable[Change]) -> set[tuple[Scope | None, str]]:
    """The names that new code reads, each with the scope whose it is there."""
    return {(program.scope(node).owner(name), name) for node, read in _added(changes) for name in read}


def _added(changes: Iterable[Change]) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """The nodes at which new code stands, each with the names that it reads."""
    for edit in edits_of(changes):
        if isinstance(edit, Replace):
            yield edit.node, frozenset(edit.reads)
        elif isinstance(edit, Insert):
            yield edit.node, names_read_in(ast.parse(edit.code))
        elif isinstance(edit, Wrap):
            yield edit.statements[0], names_read_in(ast.parse(f"{edit.header}\n    pass"))


def _is_view(function: ast.expr) -> bool:
    """Whether a call only iterates over what a container has, or counts it: `list`, `d.items`, `len`."""
    if isinstance(function, ast.Attribute):
        return methods.passes(function.attr) in ("keys", "items", "values")
    name = ast.unparse(function)
    return names.iteration(name) is not None or names.is_counter(name) or names.is_length(name)
