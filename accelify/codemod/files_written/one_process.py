"""What may one process alone run? What runs nothing that the processes do together, and changes nothing.

That is: no backward pass, no forward, no pass over a loader, no random numbers, no way out of a block. What a statement
binds is looked at elsewhere. A call that writes is one that leaves something behind outside the process: in a file, on
a screen, with a service.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from enum import Enum
from functools import cached_property

from accelify.codemod.files.nodes import walk
from accelify.codemod.libraries import methods
from accelify.codemod.libraries.row import DRAWS, SEEDS, Trait
from accelify.codemod.libraries.row import Effect as Does
from accelify.codemod.libraries.table import is_kind
from accelify.codemod.semantics.conditions import Conditions, Process, worlds_where
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.summary import FileUse, Leave, Place, Summary
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Generated, Made
from accelify.codemod.training.roles import Roles

# Effects that all processes must have alike, or together.
_OF_ALL = (
    DRAWS
    | SEEDS
    | {
        *(Does.WAITS, Does.STARTS, Does.EXITS, Does.SIMULATES, Does.READS_INPUT, Does.CHANGES_LIBRARY, Does.SLEEPS),
    }
)
_SEEN = frozenset({Does.WRITES_FILES, Does.SHOWS, Does.PLOTS, Does.ASKS_NETWORK, Does.PRINTS})
_FOR_WRITING = frozenset({"csv_writer", "handler"})


class Effect(Enum):
    """The effect of a call. DRAWS: only to a figure or another object that is made for being written."""

    NOTHING = 0
    DRAWS = 1
    WRITES = 2


class OneProcess:
    """Look at expressions and statements by the summaries of their effects."""

    def __init__(
        self,
        program: Program,
        roles: Roles,
        effects: Effects,
        files: set[str],
        accelerator: Callable[[ast.AST], str | None],
        saved: frozenset[ast.Call] = frozenset(),
        by_caller: Collection[ast.Call] = (),
    ) -> None:
        self.program = program
        self.roles = roles
        self.effects = effects
        self.files = files
        self.accelerator = accelerator
        self._saved = saved  # the calls that become a save of the accelerator, or of the library
        self._by_caller = by_caller  # what writes, and is guarded where its function is called
        self.looked_at: frozenset[ast.Call] = frozenset()  # calls that read what one process alone wrote
        self._known: dict[ast.Call, Effect | None] = {}
        self._together: dict[Scope, bool] = {}
        self._writes: dict[ast.Call, bool] = {}

    # Calls.

    def does(self, statement: ast.stmt) -> Effect:
        """The strongest effect that a statement has."""
        effects = [self.effect(n) for n in walk(statement) if isinstance(n, ast.Call)]
        return max((e for e in effects if e is not None), key=lambda e: e.value, default=Effect.NOTHING)

    def only_plots(self, statement: ast.stmt) -> bool:
        """Whether a statement draws into a figure, and writes nothing."""
        return self.does(statement) is Effect.DRAWS and Does.PLOTS in self.effects.of(statement).effects

    def is_reached(self, node: ast.AST) -> bool:
        """Whether the accelerator reaches a node of a changed file."""
        return self.program.path(node) in self.files and self.accelerator(node) is not None

    def effect(self, call: ast.Call) -> Effect | None:
        """The effect of a call; None where it is not known, or where every process must make the call."""
        if call not in self._known:
            self._known[call] = self._effect(call)
        return self._known[call]

    def _effect(self, call: ast.Call) -> Effect | None:
        summary = self.effects.of_call(call)
        summary = replace(summary, writes=frozenset()) if self.filled(call) else summary
        summary = replace(summary, files_written=self._written_by_all(call, summary))
        if self.becomes_a_save(call) or not self._is_ones_own(summary) or self.runs_together(call):
            return None
        written = [use.call for use in summary.files_written]
        frame = self.program.frame(call)
        inner = [w for w in written if self.program.frame(w) is not frame and w not in self._by_caller]
        is_guarded = any(map(self.is_reached, inner))
        if is_guarded or any(use.is_folder for use in summary.files_written):
            return None  # where it is written; a folder is for all processes
        if call not in written and any(map(self.becomes_a_save, written)):
            return None
        return Effect.WRITES if call in self.looked_at else self._strength(call, summary)

    def _written_by_all(self, call: ast.Call, summary: Summary) -> frozenset[FileUse]:
        """The files that a call writes but for those that a function writes where it asks for the main process."""
        frame, runs = self.program.frame(call), self.program.once(Conditions).runs
        return frozenset(
            use
            for use in summary.files_written
            if self.program.frame(use.call) is frame or any(runs(use.call, w) for w in worlds_where(Process.OTHER))
        )

    def writes(self, call: ast.Call) -> bool:
        """Whether a library's call writes, whoever may run it."""
        if call not in self._writes:
            is_own = bool(self.program.flow.callees.get(call))
            self._writes[call] = not is_own and self._strength(call, self.effects.of_call(call)) is Effect.WRITES
        return self._writes[call]

    def _strength(self, call: ast.Call, summary: Summary) -> Effect:
        kinds = self.effects.kinds.of(call)
        rows = self.effects.kinds.called(call) or ()
        is_seen_to = Does.ASKS_NETWORK in summary.effects and not any(row.has(Trait.DOWNLOADS) for row in rows)
        is_file = not is_seen_to and any(not use.is_folder for use in summary.files_written)
        is_handed = any(use.call is call for use in summary.files_written)  # `atexit.register(numpy.save, path, x)`
        may_plot = any(Does.SHOWS not in row.effects for row in rows)  # `ax.bar(...)`, where nothing tells what `ax` is
        is_shown = Does.SHOWS in summary.effects and not may_plot and not self._is_progress(call)
        if (is_handed or all(row.effects & _SEEN for row in rows)) and (is_file or is_shown or "tracker" in kinds):
            return Effect.WRITES  # whatever kind of object its method belongs to
        is_log = Does.LOGS in summary.effects and any(row.has(Trait.SETS_UP_LOG) for row in rows)
        is_drawn = Does.PLOTS in summary.effects or kinds & _FOR_WRITING or is_log
        return Effect.DRAWS if is_drawn else Effect.NOTHING

    def _is_progress(self, call: ast.Call) -> bool:
        owner = call.func.value if isinstance(call.func, ast.Attribute) else call
        return bool(self.effects.kinds.of(owner) & {"progress"}) or bool(self.effects.kinds.of(call) & {"progress"})

    @staticmethod
    def _is_ones_own(summary: Summary) -> bool:
        """Whether nothing happens that the others must see, or do at the same time."""
        is_left = summary.leaves - {Leave.RAISE}
        return not (summary.is_unknown or summary.writes or summary.effects & _OF_ALL or is_left)

    def runs_together(self, call: ast.Call) -> bool:
        """Whether a call runs a model, iterates over a loader, or asks a metric for what all processes have."""
        if self._is_of_all(call):
            return True
        for function in self.program.flow.callees.get(call, ()):
            if function not in self._together:
                self._together[function] = False
                inner = self.program.run_from([function])
                self._together[function] = not inner.isdisjoint(self._going_over) or any(
                    self._is_of_all(c) for f in inner for c in self.program.calls_in(f)
                )
            if self._together[function]:
                return True
        return False

    @cached_property
    def _going_over(self) -> set[Scope]:
        """The functions that iterate over a loader."""
        nodes = (n for parsed in self.program.files for n in parsed.parents)
        loops = (n for n in nodes if isinstance(n, (ast.For, ast.AsyncFor, ast.comprehension)))
        over = (n.iter for n in loops if any(map(self.roles.is_loader, self.program.values(n.iter))))
        return {self.program.frame(source) for source in over}

    def _is_of_all(self, call: ast.Call) -> bool:
        values = self.program.values(call.func)
        if any(self.roles.is_model(v) or self.roles.is_module(v) for v in values):
            return True
        rows = self.effects.kinds.called(call) or ()
        if any(row.has(Trait.REDUCES_ITSELF) for row in rows):
            return True
        given = [*call.args, *(k.value for k in call.keywords)]
        if any(row.passes is not None for row in rows) and any(map(self.hands_out_data, given)):
            return True
        is_model = isinstance(call.func, ast.Attribute) and any(
            self.roles.is_model(v) for v in self.program.values(call.func.value)
        )
        return is_model and any(row.mutates for row in rows)

    def hands_out_data(self, node: ast.expr) -> bool:
        """Whether iterating over an expression draws random numbers, or uses something up: a loader, a generator."""
        return any(isinstance(v, Generated) or self.roles.is_loader(v) for v in self.program.values(node))

    def becomes_a_save(self, call: ast.Call) -> bool:
        """Whether a call becomes `accelerator.save`, or the library's, which every process may call."""
        is_reached = self.accelerator(call) is not None and self.program.path(call) in self.files
        return (
            self.program.names_only(call.func, "torch.save")
            and (is_reached or call in self._saved)
            and not self.writes_to_open_file(call)
        )

    # Opened files.

    def writes_to_open_file(self, save: ast.Call) -> bool:
        """Whether a `torch.save` gets a file that has been opened, and so emptied, by every process that came there."""
        given = [*save.args[1:2], *(k.value for k in save.keywords if k.arg == "f")]
        return any(map(self.is_a_writer, given))

    def is_a_writer(self, node: ast.expr) -> bool:
        """Whether an expression gives a file that is open for writing."""
        opened = opened_round(self.program, node) or node
        made = [v.node for v in self.program.values(opened) if isinstance(v, Made)] or [opened]
        return all(isinstance(n, ast.Call) and self.opens_to_write(n) for n in made)

    def opens_to_write(self, call: ast.Call) -> bool:
        """Whether a call opens a file to be written to."""
        rows = self.effects.kinds.called(call) or ()
        return (
            any(r.has(Trait.OPENS) and r.returns in ("file", "handler") for r in rows)
            and self.effects.of_call(call).writes_files
        )

    # Statements.

    def may(self, statement: ast.stmt, refused: Collection[ast.stmt] = ()) -> bool:
        """Whether one process alone may run a statement, if nothing else reads what it binds."""
        if statement in refused:
            return False
        if isinstance(statement, ast.Pass):
            return True
        if isinstance(statement, ast.Expr):
            return isinstance(statement.value, ast.Call) and (
                self._only_adds(statement.value) or self.is_calm(statement.value)
            )
        if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            return self._may_assign(statement)
        if isinstance(statement, ast.If):
            return self.is_calm(statement.test) and all(
                self.may(s, refused) for s in [*statement.body, *statement.orelse]
            )
        if isinstance(statement, ast.For):
            return (
                not statement.orelse
                and _is_plain(statement.target)
                and self.is_calm(statement.iter)
                and not self.hands_out_data(statement.iter)
                and all(self.may(s, refused) for s in statement.body)
            )
        if isinstance(statement, ast.With):
            items = [(i.context_expr, i.optional_vars) for i in statement.items]
            return all(self.is_calm(e) and (v is None or _is_plain(v)) for e, v in items) and all(
                self.may(s, refused) for s in statement.body
            )
        if isinstance(statement, ast.Try):
            handled = [s for h in statement.handlers for s in h.body]
            parts = [*statement.body, *handled, *statement.orelse, *statement.finalbody]
            return all(self.may(s, refused) for s in parts)
        return False

    def _may_assign(self, statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if statement.value is None or not self.is_calm(statement.value):
            return False
        if self._is_put_into(statement):
            return True
        call = statement.value if isinstance(statement.value, ast.Call) else None
        makes = call is not None and call not in self.looked_at and self.effect(call) is Effect.WRITES
        return all(
            _is_plain(t) or (makes and isinstance(t, ast.Attribute) and isinstance(t.value, ast.Name)) for t in targets
        )

    def _is_put_into(self, statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
        """Whether a statement puts a value into what one variable alone holds: `history[epoch] = loss`."""
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        root: ast.expr = target
        while isinstance(root, (ast.Subscript, ast.Attribute)):
            root = root.value
        if not isinstance(target, ast.Subscript) or not isinstance(root, ast.Name) or not self.is_calm(target.slice):
            return False
        summary = self.effects.of(statement)
        is_its = {place.name for place in summary.writes} == {root.id}
        return is_its and self._is_ones_own(replace(summary, writes=frozenset()))

    def _only_adds(self, call: ast.Call) -> bool:
        """Whether a call adds to a list or a buffer of the script's own, which is then bound like a name."""
        function = call.func
        return bool(self.filled(call)) or (
            isinstance(function, ast.Attribute)
            and methods.extends(function.attr)
            and isinstance(function.value, ast.Name)
            and not self.program.flow.callees.get(call)
            and all(map(self.is_calm, call.args))
        )

    def filled(self, call: ast.Call) -> list[ast.Name]:
        """The buffers and files that are all that a library's call changes: `numpy.savez(buffer, x)`, `file.read()`."""
        given = [*call.args, *(k.value for k in call.keywords)]
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        found = [n for n in (*owner, *given) if isinstance(n, ast.Name) and self._is_file(n)]
        if not found or self.program.flow.callees.get(call) or self.becomes_a_save(call):
            return []
        summary = self.effects.of_call(call)
        is_all = {place.name for place in summary.writes} == {name.id for name in found}
        is_own = self._is_ones_own(replace(summary, writes=frozenset()))
        return found if is_all and is_own and all(map(self.is_calm, given)) else []

    def _is_file(self, node: ast.expr) -> bool:
        kinds = self.effects.kinds.of(node)
        return bool(kinds) and all(is_kind(k, "file") for k in kinds)

    def is_addition(self, node: ast.Name) -> bool:
        """Whether a name is there to be added to: `rows.append(x)`, `rows[k] = x`, `numpy.savez(buffer, x)`."""
        return self._added_to(node) is not None

    def also_added_to(self, node: ast.Name) -> Iterator[Place]:
        """The other variables that hold, or were asked for, what is added to: `args` of `options = vars(args)`."""
        added = self._added_to(node)
        owner = self.program.scope(node).owner(node.id)
        for place in self.effects.aliases.holding(added, ("*",)) if added is not None else ():
            if (place.scope, place.name) != (owner, node.id):
                yield place

    def _added_to(self, node: ast.Name) -> ast.expr | None:
        """The expression of a name that gives what is added to; None where nothing is."""
        part: ast.AST = node
        while isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)):
            if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
                return part.value
            around = self.program.parent(part)
            if getattr(around, "value", None) is not part or around is None:
                break
            part = around
        parent = self.program.parent(node)
        call = parent if isinstance(parent, ast.Call) else self.program.parent(parent) if parent is not None else None
        if not isinstance(call, ast.Call):
            return None
        is_method = isinstance(parent, ast.Attribute) and call.func is parent and methods.extends(parent.attr)
        return node if is_method or node in self.filled(call) else None

    def is_calm(self, node: ast.expr) -> bool:
        """Whether evaluating an expression changes nothing and needs no other process."""
        for part in walk(node):
            if isinstance(part, ast.Call) and self.effect(part) is None:
                return False
            if isinstance(part, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
                return False
            if isinstance(part, ast.comprehension) and self.hands_out_data(part.iter):
                return False
        filled = {n.id for c in walk(node) if isinstance(c, ast.Call) for n in self.filled(c)}
        summary = self.effects.of(node)
        changed = frozenset(place for place in summary.writes if place.name not in filled)
        return self._is_ones_own(replace(summary, writes=changed))


def opened_round(program: Program, node: ast.expr) -> ast.expr | None:
    """The call that a name stands for inside `with open(path) as name`."""
    if not isinstance(node, ast.Name):
        return None
    for around in program.ancestors(node):
        if isinstance(around, (ast.With, ast.AsyncWith)):
            for item in around.items:
                if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == node.id:
                    return item.context_expr
    return None


def _is_plain(target: ast.expr) -> bool:
    """Whether only names are bound."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(map(_is_plain, target.elts))
    return isinstance(target, ast.Name)
