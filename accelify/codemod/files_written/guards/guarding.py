"""Which statements may one process alone run? Those that write, with what only they need.

They may if they do nothing that the processes must do together, and bind only names that no other statement reads.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from accelify.codemod.files.nodes import walk
from accelify.codemod.files_written.caches import Caches
from accelify.codemod.files_written.guards.asking import Asking
from accelify.codemod.files_written.guards.cached_code import CachedCode
from accelify.codemod.files_written.guards.computed_first import ComputedFirst
from accelify.codemod.files_written.guards.locks import Locks
from accelify.codemod.files_written.guards.substitutes import Substitutes
from accelify.codemod.files_written.guards.writers import Writers
from accelify.codemod.files_written.one_process import Effect, OneProcess, opened_round
from accelify.codemod.files_written.path_uses import PathUses, ToldWaits
from accelify.codemod.files_written.paths import Files
from accelify.codemod.libraries import vocabulary
from accelify.codemod.libraries.row import Effect as Does
from accelify.codemod.libraries.row import Role, Trait
from accelify.codemod.semantics.call_conditions import with_functions
from accelify.codemod.semantics.scopes import Scope, code, method_of_call, names_in, names_read_in, names_written_in
from accelify.codemod.semantics.values import Constant, Made, template

_DEPTH = 2
_BLOCKS = ("body", "orelse", "finalbody")
Run = tuple[ast.stmt, ...]


class Guarding:
    """Find the runs of statements that are to go under `if accelerator.is_main_process:`."""

    def __init__(
        self,
        alone: OneProcess,
        stored: Files,
        caches: Caches,
        own: Mapping[ast.Call, frozenset[ast.Call]],
        left_out: Iterable[ast.stmt],
        run_by_all: Collection[Scope],
        asking: Asking,
        locks: Locks,
    ) -> None:
        self.program = alone.program
        self.alone = alone
        self.stored = stored
        self.files = alone.files
        self.uses = PathUses(alone, stored)
        self.waits = ToldWaits(alone, stored, self.uses)
        self.cached = CachedCode(alone, caches, own, run_by_all)
        self._writers = Writers(alone, asking)
        self._substitutes = Substitutes(alone, stored, self.uses, asking)
        self.first = ComputedFirst(alone)
        self.locks = locks
        self.asking = asking  # where the library can be asked which process runs some code
        self.own = own  # the calls that write to a file of one rank's own, with those by which they do not
        self.decided = set[ast.stmt]()  # what writes a file by which all processes have decided to come there
        self._refused = set(left_out) | set(self._reaching_own())  # and what turns out not to be guarded safely

    def _reaching_own(self) -> Iterator[ast.stmt]:
        """The statements that write to files of each rank's own, by whatever they call."""
        for call in self.program.calls if self.own else ():
            writes = [use.call for use in self.alone.effects.of_call(call).files_written]
            if any(call not in self.own.get(w, {call}) for w in writes):
                yield self.program.statement(call)

    # Findings.

    @cached_property
    def runs(self) -> list[Run]:
        """The runs, each of statements that follow each other in one block."""
        if not any(self.alone.writes(c) for c in self.program.calls):
            return []
        writes = (c for c in self.program.calls if c not in self.own and not self.cached.holds(c))
        saved = [c for c in writes if self.alone.becomes_a_save(c) or self.alone.writes(c)]
        self.alone.looked_at = frozenset(self.uses.looked_at(saved))
        while True:
            runs = [run for block in self._blocks() for run in self._runs(block)]
            covered = self._nodes(runs)
            wrong = {s for run in runs for top in run for s in self._at_fault(top, covered)}
            wrong = wrong or set(self._with_what_all_open(covered)) or set(self._opened_for_all(covered))
            self.decided |= set(self._decided_by_file(runs, covered))
            wrong = wrong or set(self._read_without_wait(covered)) or self.decided - self._refused
            wrong = wrong or set(self._removed_for_all(covered))
            if not wrong:
                return self._needed(runs)
            self._refused |= wrong

    def _needed(self, runs: list[Run]) -> list[Run]:
        """The runs but those in functions of which others hold every call: what is guarded there is guarded already."""
        for function in {self.program.frame(run[0]): None for run in runs}:
            others = [run for run in runs if self.program.frame(run[0]) is not function]
            calls = self.program.flow.callers.get(function, ())
            if calls and function.node in with_functions(self.program, self._nodes(others)):
                runs = others
        return runs

    @cached_property
    def covered(self) -> set[ast.AST]:
        """All that only the main process runs: what is in the runs, and the functions that nothing else calls."""
        return with_functions(self.program, self._nodes(self.runs))

    @cached_property
    def run_alone(self) -> set[Scope]:
        """The functions that the main process also runs alone, whoever else does."""
        return self.program.run_through(n for n in self.covered if isinstance(n, ast.Call))

    @cached_property
    def unguarded(self) -> list[ast.Call]:
        """The calls that write on every process."""
        return self._unguarded(self.covered)

    @cached_property
    def unknown(self) -> list[ast.Call]:
        """The calls of code that is not known, and that may write on every process, by their names and arguments."""
        calls = (c for c in self.program.calls if c in self.alone.effects.of_call(c).unknown)
        return [
            call
            for call in calls
            if call not in self.covered
            and call not in self.own
            and not self.cached.holds(call)
            and self.program.is_run(call)
            and self._may_write(call)
        ]

    def _may_write(self, call: ast.Call) -> bool:
        """Whether an unknown call is named for writing, or for pictures and gets the name of a file."""
        name, given = code(call.func).rpartition(".")[2], [*call.args, *(k.value for k in call.keywords)]
        if any(self.alone.effects.kinds.of(g) == {"buffer"} for g in given):
            return False  # into the memory of the process
        if vocabulary.may_write(name):
            return True
        is_statement = isinstance(self.program.parent(call), ast.Expr)
        return is_statement and vocabulary.may_plot(name) and any(vocabulary.is_file_name(template(g)) for g in given)

    @cached_property
    def handed_on(self) -> list[ast.Call]:
        """The writers that are made on every process, though only the main process uses them, wherever they go."""
        return self._handed_on(self.covered)

    @cached_property
    def log_files(self) -> dict[ast.Call, str]:
        """The log handlers that write, each with one that does nothing, which the other processes may have instead."""
        return dict(self._substitutes.handlers(self.unguarded))

    @cached_property
    def files_of_main(self) -> dict[ast.Call, ast.expr]:
        """The calls that open what the other processes may write to nowhere instead, each with its path."""
        return dict(self._substitutes.files([c for c in self.unguarded if c not in self.handed_on]))

    def is_of_main(self, call: ast.Call) -> bool:
        """Whether what a call of every process writes goes to a file that the main process alone has open."""
        if call in self.log_files or call in self.files_of_main:
            return True
        opened = set(self.files_of_main)
        kept = {c for c in self.unguarded if opened and self.alone.opens_to_write(c)} - opened
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        given = (*owner, *call.args, *(k.value for k in call.keywords)) if opened else ()
        is_written = any(self._writes_to(node, opened) for node in given)
        return is_written and not any(self._writes_to(node, kept) for node in given)

    def asks_for_writer(self, run: Run) -> bool:
        """Whether a run is under the question for a writer that only the main process has: `if writer is not None:`."""
        question = run[0]
        if len(run) > 1 or not isinstance(question, ast.If) or question.orelse:
            return False
        test = question.test
        asked = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        return any(self._is_none_on_others(node) for node in asked)

    def _is_none_on_others(self, test: ast.expr) -> bool:
        """Whether a test is about an object that only the main process has."""
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and len(test.ops) == 1:
            test = test.left
        held = self.program.values(test)
        made = [v for v in held if isinstance(v, Made)]
        others = [v for v in held if not isinstance(v, Made)]
        is_nothing = all(isinstance(v, Constant) and not v.value for v in others)
        return bool(made) and is_nothing and all(v.node in self.handed_on for v in made)

    def _unguarded(self, covered: set[ast.AST]) -> list[ast.Call]:
        by_caller: frozenset[ast.Call] = frozenset().union(*self.own.values())
        return [
            call
            for call in self.program.calls
            if call not in covered
            and self.program.is_run(call)
            and (self.alone.writes(call) or call in by_caller)
            and not self.alone.becomes_a_save(call)
            and not self.cached.holds(call)
            and call not in self.own
        ]

    def _handed_on(self, covered: set[ast.AST]) -> list[ast.Call]:
        return self._writers.of_main(self._unguarded(covered), covered)

    def _with_what_all_open(self, covered: set[ast.AST]) -> Iterator[ast.stmt]:
        """The statements that write to a file which every process opens, and so empties: all of them, or none."""
        everywhere = with_functions(self.program, covered)
        kept = {*self.own}.union(self._unguarded(everywhere)).difference(self._handed_on(everywhere))
        opened = {call for call in kept if self.alone.opens_to_write(call)}
        if not opened:
            return
        found = [n for n in everywhere if isinstance(n, (ast.Name, ast.Attribute)) and self._writes_to(n, opened)]
        yield from map(self.program.statement, found)
        functions = {self.program.frame(node) for node in found}
        for call in (n for n in covered if functions and isinstance(n, ast.Call)):
            if not functions.isdisjoint(self.program.run_through([call])):
                yield self.program.statement(call)  # `log.close()` of an object that all have made

    def _opened_for_all(self, covered: set[ast.AST]) -> Iterator[ast.stmt]:
        """The statements that open what a whole module writes through, while all processes go on to write, and fail."""
        everywhere = with_functions(self.program, covered)
        for call in (c for c in self.program.calls if c in covered):
            rows = self.alone.effects.kinds.called(call) or ()
            modules = {n.rpartition(".")[0] for n in self.program.called(call)}
            if any(row.has(Trait.OPENS) and row.returns is None for row in rows) and any(
                modules & {n.rpartition(".")[0] for n in self.program.called(other)}
                for other in self._unguarded(everywhere)
                if other is not call
            ):
                yield self.program.statement(call)

    def _removed_for_all(self, covered: set[ast.AST]) -> Iterator[ast.stmt]:
        """The statements that remove a file which all processes write: each for itself, or none."""
        found = [c for c in covered if isinstance(c, ast.Call) and self._removes(c)]
        kept = self._unguarded(with_functions(self.program, covered)) if found else []
        written = {self.uses.place_of(p) for c in kept if not self._removes(c) for p in self.uses.written(c)}
        for call in found:
            if not written.isdisjoint(map(self.uses.place_of, self.uses.written(call))):
                yield self.program.statement(call)

    def _removes(self, call: ast.Call) -> bool:
        return any(row.has(Trait.REMOVES) for row in self.alone.effects.kinds.called(call) or ())

    def _decided_by_file(self, runs: list[Run], covered: set[ast.AST]) -> Iterator[ast.stmt]:
        """What is written where all processes ask for a file that they write there: one may find what another wrote.

        `if acc > float(open(best).read()): copy(...); notify(); open(best, "w").write(acc)`
        """
        for run in (run for run in runs if not self.cached.holds(run[0])):
            for around in (a for a in self.program.ancestors(run[0]) if isinstance(a, (ast.If, ast.While))):
                asked = [
                    p for c in self._calls_behind(around.test, _DEPTH) if c not in covered for p in self.uses.read(c)
                ]
                calls = (n for n in walk(around) if isinstance(n, ast.Call)) if asked else ()
                written = [p for c in calls if self.alone.writes(c) for p in self.uses.written(c)]
                if any(self.uses.place_of(p) in map(self.uses.place_of, written) for p in asked):
                    yield from run

    def _calls_behind(self, node: ast.AST, depth: int) -> Iterator[ast.Call]:
        """The calls in an expression, and those that give the variables in it."""
        parts = list(walk(node))
        yield from (n for n in parts if isinstance(n, ast.Call))
        for name in (n for n in parts if isinstance(n, ast.Name) and depth):
            owner = self.program.scope(name).owner(name.id)
            for write in owner.writes.get(name.id, ()) if owner is not None else ():
                statement = self.program.statement(write)
                if isinstance(statement, ast.With):
                    yield from (i.context_expr for i in statement.items if isinstance(i.context_expr, ast.Call))
                elif (value := getattr(statement, "value", None)) is not None:
                    yield from self._calls_behind(value, depth - 1)

    def _read_without_wait(self, covered: set[ast.AST]) -> Iterator[ast.stmt]:
        """The statements that write, where only the library can be asked, what others read where nobody can wait."""
        calls = [c for c in covered if isinstance(c, ast.Call) and not self.cached.holds(c)]
        asking = [c for c in calls if self.alone.writes(c) and self.alone.accelerator(c) is None and not self._logs(c)]
        asking = [c for c in asking if not self._copies_a_save(c)]
        written = [(c, p) for c in asking for p in self.uses.written(c)]
        covered = with_functions(self.program, covered) if written else covered
        for read in self.program.calls if written else ():
            waits = self.alone.is_reached(read)
            for path in self.uses.read(read) if read not in covered and not waits else ():
                is_one = [(w, made) for w, made in written if self._may_be_of(read, path, w, made)]
                found = [(w, made) for w, made in is_one if self.stored.is_before(w, read)]
                if found and not self.asking.clocks.is_own(path):
                    yield from (
                        self.program.statement(w) for w, made in found if not self.waits.are_between(w, made, read)
                    )

    def _copies_a_save(self, call: ast.Call) -> bool:
        """Whether a call reads what its function has saved before: no process but the one that saved it finds it."""
        beside = self.program.calls_in(self.program.frame(call))
        saves = [c for c in beside if self.alone.becomes_a_save(c) and self.program.before(c, call)]
        saved = {self.uses.place_of(path) for save in saves for path in self.uses.written(save)}
        return not saved.isdisjoint(map(self.uses.place_of, self.uses.read(call)))

    def _may_be_of(self, read: ast.Call, path: ast.expr, write: ast.Call, made: ast.expr) -> bool:
        """Whether a path that is read may be that of what a call writes; of a log, only where the paths tell so."""
        rows = self.alone.effects.kinds.called(write) or ()
        is_log = bool(rows) and all(row.role is Role.LOGGER or row.has(Trait.OPENS_LOG) for row in rows)
        if self._opens_log(write) and self.uses.asks_for_folder(read, path):
            return False
        return self.stored.is_told_as_one(path, made) if is_log else self.stored.may_be_one(path, made)

    def _opens_log(self, call: ast.Call) -> bool:
        rows = self.alone.effects.kinds.called(call) or ()
        return bool(rows) and all(row.has(Trait.OPENS_LOG) for row in rows)

    def _logs(self, call: ast.Call) -> bool:
        rows = self.alone.effects.kinds.called(call) or ()
        return bool(rows) and all(Does.LOGS in row.effects for row in rows)

    def _writes_to(self, node: ast.expr, opened: set[ast.Call], depth: int = _DEPTH) -> bool:
        """Whether an expression is one of some open files, or writes to one of them: `csv.writer(file)`."""
        around = opened_round(self.program, node)
        given = self._last_given(node) if around is None else [around]
        made = [v.node for e in given for v in self.program.values(e) if isinstance(v, Made)]
        if any(m in opened for m in made):
            return True
        calls = [m for m in made if isinstance(m, ast.Call) and self.alone.effect(m) is Effect.DRAWS] if depth else []
        return any(self._writes_to(a, opened, depth - 1) for c in calls for a in c.args)

    def _last_given(self, node: ast.expr) -> list[ast.expr]:
        """What a variable may have been given last where it is read, or is given; the node itself where none can tell.

        `with open(a) as f: ...; f.close(); f = open(b)` uses one name for two files.
        """
        owner = self.program.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        if not isinstance(node, ast.Name) or owner is None:
            return [node]
        is_read = isinstance(node.ctx, ast.Load)
        bound = self.program.reaching(node, owner.writes.get(node.id, ())) if is_read else [node]
        given = [self._given_by(self.program.parent(w), w) for w in bound]
        return [e for e in given if e is not None] if given and None not in given else [node]

    @staticmethod
    def _given_by(parent: ast.AST | None, bound: ast.AST) -> ast.expr | None:
        if isinstance(parent, ast.Assign) and bound in parent.targets:
            return parent.value
        return parent.context_expr if isinstance(parent, ast.withitem) else None

    # Runs.

    def _blocks(self) -> Iterator[list[ast.stmt]]:
        for path in sorted(self.files.union(self.asking.paths)):
            stack: list[ast.AST] = [self.program.flow.parsed_of[path].tree]
            while stack:
                node = stack.pop()
                if node in self.cached.found and not self.cached.is_written_anew(node):
                    continue
                for name in _BLOCKS:
                    block = getattr(node, name, None)
                    if isinstance(block, list) and block:
                        yield block
                        stack.extend(s for s in block if not self.alone.may(s, self._refused))
                stack.extend(getattr(node, "handlers", ()))

    def _runs(self, block: list[ast.stmt]) -> Iterator[Run]:
        current: list[ast.stmt] = []
        for statement in block:
            if self.program.parsed(statement).begins_cell(statement):
                yield from self._trimmed(current)
                current = []
            if self.cached.is_for_one(statement) and self._may_be_run(statement) and self._is_known(statement):
                current.append(statement)
                continue
            yield from self._trimmed(current)
            current = []
        yield from self._trimmed(current)

    def _is_known(self, statement: ast.stmt) -> bool:
        """Whether the process is known at a statement and, unless this writes nothing but logs, can wait there."""
        if self.alone.accelerator(statement) or self.asking.holds(statement):
            return True
        return self.asking.tells_rank(statement) and self._writes_only_logs(statement)

    def _writes_only_logs(self, statement: ast.stmt) -> bool:
        """Whether a statement writes nothing but logs that it opens; functions of the script may write anything."""
        calls = [n for n in walk(statement) if isinstance(n, ast.Call)]
        is_own = any(self.program.flow.callees.get(call) for call in calls)
        return not is_own and all(self._opens_log(call) for call in calls if self.alone.writes(call))

    def _may_be_run(self, statement: ast.stmt) -> bool:
        """Whether one process alone may run a statement, but for what all may compute first."""
        is_parted = statement not in self._refused and bool(self.first.calls(statement))
        return is_parted or self.alone.may(statement, self._refused)

    def _nodes(self, runs: Iterable[Run]) -> set[ast.AST]:
        """All that is in some runs, but for what all processes compute first."""
        statements = [statement for run in runs for statement in run]
        computed = (n for s in statements for call in self.first.calls(s) for n in walk(call))
        return {n for s in statements for n in walk(s)}.difference(computed)

    def _trimmed(self, statements: list[ast.stmt]) -> Iterator[Run]:
        """The runs without what does not belong to their writing at either end."""
        for part in self._without_reading(statements):
            yield from self._without_ends(part)

    def _without_reading(self, statements: list[ast.stmt]) -> list[list[ast.stmt]]:
        """The parts between the statements that read a file behind the last that writes, which all processes may do."""
        calls = [[n for n in walk(s) if isinstance(n, ast.Call)] for s in statements]
        end = max((i + 1 for i, made in enumerate(calls) if any(map(self.alone.writes, made))), default=0)
        parts = [statements[:end]]
        for statement, made in zip(statements[end:], calls[end:], strict=True):
            if any(map(self.alone.filled, made)):
                parts.append([])
            else:
                parts[-1].append(statement)
        return parts

    def _without_ends(self, statements: list[ast.stmt]) -> Iterator[Run]:
        """The run of some statements that write; a plot may be drawn by all processes."""
        if not any(self.alone.does(s) is Effect.WRITES for s in statements):
            return
        statements = self._without_plots(statements)
        while self.alone.does(statements[-1]) is Effect.NOTHING and not self._is_after(statements[-1], statements[:-1]):
            statements = statements[:-1]
        while self.alone.does(statements[0]) is Effect.NOTHING and not self._is_for(statements[0], statements[1:]):
            statements = statements[1:]
        yield tuple(statements)

    def _without_plots(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The statements from the last plot before the first that writes to the first plot after the last.

        All of them where each round of a loop ends by showing a figure, as no other process would let go of its own.
        """
        doing = [s for s in statements if self.alone.does(s) is not Effect.NOTHING]
        if self._shows_anew(doing[-1]):
            return statements
        plots = [i for i, s in enumerate(statements) if self.alone.only_plots(s)]
        others = [i for i, s in enumerate(statements) if i not in plots and self.alone.does(s) is not Effect.NOTHING]
        start = max((i + 1 for i in plots if i < others[0]), default=0)
        end = min((i for i in plots if i > others[-1]), default=len(statements))
        before = names_written_in(*statements[:start])
        kept = [n for s in statements[start:end] for n in walk(s) if isinstance(n, ast.Name)]
        is_filled = any(n.id in before and self.alone.is_addition(n) for n in kept)
        return statements[:end] if is_filled else statements[start:end]

    def _shows_anew(self, statement: ast.stmt) -> bool:
        """Whether a statement shows a figure in each round of a loop."""
        return bool(self.program.loops_round(statement)) and Does.SHOWS in self.alone.effects.of(statement).effects

    def _is_after(self, statement: ast.stmt, before: list[ast.stmt]) -> bool:
        """Whether a statement only reads what those before it have found out about a file: `print(size)`."""
        found = [s for s in before if any(c in self.alone.looked_at for c in walk(s))]
        return bool(names_read_in(statement) & names_written_in(*found))

    def _is_for(self, statement: ast.stmt, following: list[ast.stmt]) -> bool:
        """Whether a statement makes something for those that follow it."""
        if isinstance(statement, ast.AugAssign):
            return False
        opened = statement.items if isinstance(statement, ast.With) else []  # `f` of `with open(path) as f` ends there
        targets = [i.optional_vars for i in opened if i.optional_vars is not None]
        return bool((names_written_in(statement) - names_in(*targets)) & names_in(*following))

    # Names.

    def _at_fault(self, statement: ast.stmt, covered: set[ast.AST]) -> Iterator[ast.stmt]:
        """The statements that bind what is read outside of the runs, set up an object, or close what all have drawn."""
        for node in walk(statement):
            if isinstance(node, ast.Name) and (isinstance(node.ctx, ast.Store) or self.alone.is_addition(node)):
                if self._is_read_elsewhere(node, covered):
                    yield self.program.statement(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                reads = self.program.attribute_reads.get(node.attr, [])
                if any(r not in covered and self._may_read(r, node) for r in reads):
                    yield self.program.statement(node)
            elif isinstance(node, ast.Call) and (
                sets_up(node) or self._closes_figures_of_all(node, covered) or self._moves_handlers(node)
            ):
                yield self.program.statement(node)

    def _may_read(self, read: ast.Attribute, given: ast.Attribute) -> bool:
        """Whether a read may see what a place gives an attribute; what other files give it, nothing tells."""
        is_beside = self.program.path(read) == self.program.path(given)
        return not is_beside or bool(self.program.reaching(read, [given]))

    def _moves_handlers(self, call: ast.Call) -> bool:
        """Whether a call adds or removes one of a log's handlers, which code elsewhere counts: `logger.handlers[0]`."""
        if not any(row.has(Trait.SETS_UP_LOG) for row in self.alone.effects.kinds.called(call) or ()):
            return False
        reads = self.program.attribute_reads.get("handlers", [])
        return any(isinstance(self.program.parent(read), ast.Subscript) for read in reads)

    def _closes_figures_of_all(self, call: ast.Call, covered: set[ast.AST]) -> bool:
        """Whether a call closes a figure that all processes may have drawn, which would stay open in the others."""
        called = self.alone.effects.kinds.called
        if not any(row.has(Trait.CLOSES) for row in called(call) or ()):
            return False
        drawn = (c for c in self.program.calls if c not in covered and c is not call)
        return any(
            self.stored.is_before(c, call)
            for c in drawn
            if any(Does.PLOTS in row.effects and not row.has(Trait.CLOSES) for row in called(c) or ())
        )

    def _is_read_elsewhere(self, node: ast.Name, covered: set[ast.AST]) -> bool:
        scope = self.program.scope(node)
        owner = scope.owner(node.id) or scope
        if owner.kind == "comprehension":
            return False  # nothing outside of it does
        if not self._is_the_scripts_own(owner, node.id, self.alone.is_addition(node)):
            return True
        reads: list[ast.AST] = [n for n in self._reads(owner, node.id) if self._may_reach(node, n)]
        reads += [
            w
            for s in self._scopes(owner, node.id)
            for w in s.writes.get(node.id, ())
            if isinstance(self.program.parent(w), (ast.AugAssign, ast.Delete))
        ]
        others = [(place.scope, place.name) for place in self.alone.also_added_to(node)]
        if any(holder is None or not self._is_the_scripts_own(holder, name, True) for holder, name in others):
            return True
        reads += [n for holder, name in others if holder is not None for n in self._reads(holder, name)]
        return any(n not in covered for n in reads)

    def _is_the_scripts_own(self, owner: Scope, name: str, is_added_to: bool) -> bool:
        """Whether all that reads a variable is to be seen; what a parameter holds is somebody else's."""
        if owner.kind not in ("module", "function"):
            return False
        if is_added_to and any(isinstance(w, ast.arg) for w in owner.writes.get(name, ())):
            return False
        is_seen = owner.root.module in self.files and name not in self.program.imported_from.get(owner, ())
        return owner.kind != "module" or is_seen

    @staticmethod
    def _scopes(owner: Scope, name: str) -> list[Scope]:
        return [s for s in owner.walk() if s.owner(name) is owner]

    def _reads(self, owner: Scope, name: str) -> list[ast.expr]:
        return [n for s in self._scopes(owner, name) for n in s.reads.get(name, ())]

    def _may_reach(self, bound: ast.Name, read: ast.expr) -> bool:
        """Whether a read may see what a name is bound to, or added to, at a place."""
        if isinstance(bound.ctx, ast.Store):
            return bool(self.program.reaching(read, [bound]))
        opened = opened_round(self.program, read)
        return opened is None or opened is getattr(self.program.parent(bound), "context_expr", None)


def sets_up(call: ast.Call) -> bool:
    """Whether a call runs a base class's constructor, without which the object would be half made."""
    return method_of_call(call) == "__init__"
