"""Where do the processes have to wait for each other, so that all find the same files?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from accelify.codemod.edits.values import Change, Edit, Insert, Remark
from accelify.codemod.files.nodes import walk
from accelify.codemod.files_written.existence_checks import ExistenceChecks
from accelify.codemod.files_written.guards.guarding import Guarding, Run
from accelify.codemod.files_written.loads import leads_to, lists_files
from accelify.codemod.libraries import methods
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.decisions import FileQuestions
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.preparing.placing import Access
from accelify.codemod.result import Tier
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.visits.ways import Gate, Ways
from accelify.codemod.training.certainty import asks_for_one

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MAY_NOT_BE_DONE = "waits until the main process has written this file"


def unmet(speaker: str) -> str:
    """The note on a file that one process may read too early, at a place to which each comes as often as it likes."""
    return (
        "the main process may not have written this file yet, and each process comes here as often as it finds files: "
        f"call `{speaker}.wait_for_everyone()` before the loop round this"
    )


@dataclass(frozen=True, slots=True)
class Meetings:
    """The waits that are needed, each with the import that it needs.

    saver: what can wait at a place: the accelerator, or the library where that does not reach; None if neither can.
    items: the functions that run while a loader makes its items, as often as there are some, or in a worker.
    """

    checks: ExistenceChecks
    guarding: Guarding
    access: Access
    saver: Callable[[ast.Call], str | None]
    ranks: Ranks
    items: Collection[Scope] = ()

    def before(self, call: ast.Call) -> tuple[Edit, ...]:
        """The waits under the conditions round a call, before one process makes the file that these ask for."""
        found: list[Edit] = []
        tops = {run[0] for run in self.guarding.runs}
        for question, first in self.checks.round(call):
            if first in self.guarding.covered and first not in tops:
                continue  # one process alone asks
            speaker = self.saver(question)
            if speaker is not None:
                found.append(Insert(first, "before", f"{speaker}.wait_for_everyone()"))
                found += self._import(question, speaker)
        return tuple(found)

    def are_read_before(self, run: Run) -> bool:
        """Whether one process removes, moves or writes anew, by some statements, a file that all may still be reading.

        Or it removes one from a folder that they may still be listing: each would find other files.
        """
        guarding, program = self.guarding, self.guarding.program
        inner = {n for s in run for n in walk(s)}
        calls = [n for n in inner if isinstance(n, ast.Call)]
        written = {guarding.uses.place_of(p): c for c in calls if guarding.alone.writes(c) for p in self._written(c)}
        removed = {c: paths for c in calls if (paths := self._removed(c))}
        own = [c for c in removed if not program.flow.callees.get(c)]
        gone = {guarding.uses.place_of(p): c for c in own for p in removed[c]}
        for read in program.calls if written or removed else ():
            is_alone = read in inner or read in guarding.covered or guarding.cached.holds(read)
            if is_alone or program.flow.callees.get(read):
                continue
            paths = self.checks.effects.of_call(read).paths_read
            for place in map(guarding.uses.place_of, paths):
                if place in gone and program.reaches(read, gone[place]):
                    return True
                if place in written and self._is_written_again(read, written[place]):
                    return True
            is_listing = bool(removed) and self._has(read, Trait.LISTS)
            for removal, taken in removed.items():
                is_told = self._is_held(paths, taken) if is_listing else removal in own and self._is_held(taken, paths)
                if is_told and self._comes_to(read, removal):
                    return True
        return False

    def before_removal(self, run: Run) -> ast.stmt:
        """Where all wait before one process removes what they may be reading: once for a loop over the files found."""
        first = run[0]
        loops = [n for n in self.guarding.program.loops_round(first) if isinstance(n, ast.For) and self._is_own(n)]
        found = loops[-1] if loops else first
        lists = isinstance(found, ast.For) and any(
            isinstance(n, ast.Call) and self._has(n, Trait.LISTS) for n in walk(found.iter)
        )
        return first if lists else found

    def _has(self, call: ast.Call, *traits: Trait) -> bool:
        rows = self.checks.effects.kinds.called(call) or ()
        return any(row.has(trait) for row in rows for trait in traits)

    def _written(self, call: ast.Call) -> list[ast.expr]:
        return self.checks.effects.of_call(call).paths_written

    def _removed(self, call: ast.Call) -> list[ast.expr]:
        """The paths that a call removes, itself or by a function."""
        written = self.checks.effects.of_call(call).files_written
        return [p for use in written if use.is_gone for p in use.paths]

    def _is_written_again(self, read: ast.Call, write: ast.Call) -> bool:
        """Whether a round reads a file, and then writes it: a log to which it adds."""
        program = self.guarding.program
        is_beside = program.frame(read) is program.frame(write)
        is_beside = is_beside and program.loops_round(read) == program.loops_round(write)
        is_question = self._has(read, Trait.LOOKS, Trait.LISTS)
        return is_beside and not is_question and program.before(read, write) and program.reaches(read, write)

    def _is_held(self, folders: list[ast.expr], paths: list[ast.expr]) -> bool:
        """Whether a file is one of some others, or in one of some folders, by what is known of both."""
        stored = self.checks.stored
        return any(stored.is_told_to_hold(folder, path) for folder in folders for path in paths)

    def _comes_to(self, read: ast.Call, removal: ast.Call) -> bool:
        """Whether a process that reads comes to what another one removes with no step of the training between."""
        program, stored = self.guarding.program, self.checks.stored
        for meeting in stored.meetings(read, removal):
            beside = program.calls_in(program.frame(meeting))
            steps = [c for c in beside if any(c is b or leads_to(stored, c, b) for b in self.checks.backwards)]
            for call in (c for c in beside if c is read or leads_to(stored, c, read)):
                is_met = any(program.before(call, s) and program.before(s, meeting) for s in steps)
                if program.before(call, meeting) and not is_met:
                    return True
        return False

    def at(self, call: ast.Call) -> tuple[Edit, ...]:
        """The wait before the statement of a call, or what is guarded with it; none where not all may come there."""
        speaker, program = self.saver(call), self.guarding.program
        guarded = (run[0] for run in self.guarding.runs if any(program.inside(call, s) for s in run))
        top = next(guarded, None)
        statement = top or program.statement(call)
        is_alone = top is None and call in self.guarding.covered
        if speaker is None or is_alone or not self._is_run_by_all(statement):
            return ()
        return (Insert(statement, "before", f"{speaker}.wait_for_everyone()"), *self._import(call, speaker))

    def outside_rounds(self, call: ast.Call) -> list[ast.Call]:
        """A call, or those of its function where such a loop as below is round one of them."""
        program, frame = self.guarding.program, self.guarding.program.frame(call)
        callers = [c for c in program.calls_of(frame) if frame.is_function]
        return callers if any(self._is_own(loop) for c in callers for loop in program.loops_round(c)) else [call]

    def before_questions(self, read: ast.AST, path: ast.AST, writes: Collection[ast.Call]) -> ast.stmt:
        """The statement before which to wait for some writes: a read's, or an earlier one that looks for the file.

        All processes come there: it is none under a condition that asks for a file, nor behind one at which those that
        find none leave. It does not come before one of the writes. `path` is what the read is given.
        """
        program = self.guarding.program
        statement = program.statement(read)
        found = self._asked_above(statement, path, writes) or statement
        for around in program.ancestors(statement):
            if not isinstance(around, (ast.If, ast.With, ast.Try)) or self._are_above(found, writes):
                break
            if isinstance(around, ast.With) and any(_opens(i.context_expr) for i in around.items):
                found = around
            is_asked = isinstance(around, ast.If) and any(map(_asks_for_a_file, walk(around.test)))
            if isinstance(around, ast.If) and is_asked and program.block(around) != [found]:
                found = around
            if isinstance(around, ast.If) and (asking := self._asked_above(around, around.test, writes)):
                found = asking
        return self.guarding.locks.taking(found)

    def _are_above(self, statement: ast.stmt, writes: Collection[ast.Call]) -> bool:
        """Whether what stands above a statement in its block writes."""
        block = self.guarding.program.block(statement)
        return self.are_in(block[: block.index(statement)], writes)

    def are_in(self, statements: Iterable[ast.stmt], writes: Collection[ast.Call]) -> bool:
        """Whether one of some writes happens in some statements."""
        calls = (n for s in statements for n in walk(s) if isinstance(n, ast.Call))
        return any(c is w or leads_to(self.checks.stored, c, w) for c in calls for w in writes)

    def _asked_above(self, statement: ast.stmt, asking: ast.AST, writes: Collection[ast.Call]) -> ast.stmt | None:
        """The statement above another, or itself, that looks for the files that a part of it asks for, once written."""
        block, effects = self.guarding.program.block(statement), self.checks.effects
        above = [s for s in block[: block.index(statement)] if not isinstance(s, _DEFINITIONS)]
        above = above[max((i for i, s in enumerate(above, 1) if self.are_in([s], writes)), default=0) :]
        given, wanted = set[ast.stmt](), [asking]
        while wanted:
            behind = (a for s in self.giving(wanted.pop()) for a in (s, *self.guarding.program.ancestors(s)))
            found = {a for a in behind if a in above} - given
            given |= found
            wanted += found
        asked = (s for s in above if (s in given and self.checks.questions(s)) or self._leaves(s, writes))
        return next(asked, None) or (statement if lists_files(effects, asking) else None)

    def _leaves(self, statement: ast.stmt, writes: Collection[ast.Call]) -> bool:
        """Whether a process that does not find what is written leaves: `if not os.path.exists(path): return []`.

        Or ends, by `sys.exit()`, or fails: `assert os.path.exists(path)`.
        """
        if not isinstance(statement, (ast.If, ast.Assert)):
            return False
        leaves = self.guarding.program.leaves
        if isinstance(statement, ast.If) and not (leaves(statement.body) or leaves(statement.orelse)):
            return False
        made = [p for w in writes for p in self._written(w)]
        asked = self.checks.asked(self.checks.questions(statement.test))
        return any(self.checks.stored.may_be_one(a, m) for a in asked for m in made)

    def giving(self, node: ast.AST) -> Iterator[ast.stmt]:
        """The statements that give the names which some code reads their values."""
        reads = (n for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
        definitions = (d for read in reads for d in self.ranks.chains.definitions(read))
        return (self.guarding.program.statement(d.node) for d in definitions)

    def before_rounds(self, statement: ast.stmt, writes: Collection[ast.Call]) -> ast.stmt | None:
        """Where all processes wait equally often for some writes: before a statement, or a loop round it.

        None where such a loop, which each process runs as often as it finds files, writes them itself.
        """
        loops = self.guarding.program.loops_round(statement)
        own = [n for n in loops if isinstance(n, ast.stmt) and self._is_own(n)]
        calls = [n for loop in own[-1:] for n in walk(loop) if isinstance(n, ast.Call)]
        is_within = any(c is w or leads_to(self.checks.stored, c, w) for c in calls for w in writes)
        if is_within or statement in self.guarding.locks.held:
            return None
        return own[-1] if own else statement

    def _is_own(self, loop: ast.AST) -> bool:
        """Whether each process finds out for itself how many rounds a loop has: `for name in os.listdir(folder)`."""
        asked = loop.test if isinstance(loop, ast.While) else getattr(loop, "iter", None)
        return asked is not None and FileQuestions(self.ranks.chains, (Trait.LOOKS, Trait.LISTS)).are_in(asked)

    def are_together(self, read: ast.Call) -> bool:
        """Whether all processes come to a call equally often: not where it makes an item, or one alone may run it."""
        frame = self.guarding.program.frame(read)
        return frame not in self.items and frame not in self.guarding.run_alone

    def within(self, read: ast.Call, writes: Iterable[ast.Call]) -> list[ast.Call]:
        """The calls that write a file while the statement which reads it is run: `torch.load(save(path))`."""
        program = self.guarding.program
        statement = program.statement(read)
        calls = [c for c in program.calls_in(program.frame(read)) if program.statement(c) is statement]
        return [w for w in writes if any(c is w or leads_to(self.checks.stored, c, w) for c in calls if c is not read)]

    def after(self, write: ast.Call, read: ast.Call) -> tuple[Edit, ...]:
        """The wait behind what one process writes, for what reads it; none where not all processes may come there."""
        program, speaker = self.guarding.program, self.saver(write)
        runs = (run for run in self.guarding.runs if any(program.inside(write, s) for s in run))
        statement = self._beyond(next(runs, (self._opening(write),))[-1], read)
        if speaker is None or isinstance(statement, ast.Return) or not self._is_run_by_all(statement):
            return ()
        return (Insert(statement, "after", f"{speaker}.wait_for_everyone()"), *self._import(write, speaker))

    def between(
        self, rule: str, read: ast.Call, writes: Iterable[ast.Call], reads: str, speaker: str
    ) -> Iterator[Change | Remark]:
        """A wait behind each write in a statement that reads it, or a note; `reads` is the word for what it does."""
        program = self.guarding.program
        for write in writes:
            if edits := self.after(write, read):
                yield Change(rule, program.path(write), write.lineno, MAY_NOT_BE_DONE, edits)
            else:
                message = (
                    f"the other processes {reads} this file here before process 0 has written it: call "
                    f"`{speaker}.wait_for_everyone()` between the two"
                )
                yield Remark(rule, program.path(read), read, message, Tier.REVIEW)

    def _opening(self, write: ast.Call) -> ast.stmt:
        """The statement of a call that writes, or the `with open(path) as f:` round it, which ends the file."""
        statement = self.guarding.program.statement(write)
        around = self.guarding.program.parent(statement)
        return around if isinstance(around, ast.With) else statement

    def _beyond(self, statement: ast.stmt, read: ast.Call) -> ast.stmt:
        """The outermost loop round a statement in which nothing reads, nor is done together; else the statement."""
        alone, stored, found = self.guarding.alone, self.checks.stored, statement
        for loop in self.guarding.program.loops_round(statement):
            inner = list(walk(loop))
            calls = [n for n in inner if isinstance(n, ast.Call)]
            sources = [n.iter for n in inner if isinstance(n, (ast.For, ast.AsyncFor, ast.comprehension))]
            is_read = any(c is read or leads_to(stored, c, read) or alone.runs_together(c) for c in calls)
            if is_read or any(map(alone.hands_out_data, sources)):
                break
            found = loop
        return found

    def _is_run_by_all(self, statement: ast.stmt) -> bool:
        """Whether all processes come to a statement, and equally often."""
        ranks, locks = self.ranks, self.guarding.locks

        def is_open(gate: Gate) -> bool:
            asked = (*(c.test for c in gate.choices), *(n.iter for n in gate.loops if n not in ranks.rounds))
            return not any(asks_for_one(t) or ranks.is_own(t) for t in asked)

        def is_entered(node: ast.AST) -> bool | None:
            return False if node is not statement and node in self.guarding.covered else None

        return statement not in locks.held and self.guarding.program.once(Ways).are_open(statement, is_open, is_entered)

    def _import(self, call: ast.Call, speaker: str) -> Iterator[Edit]:
        if self.access.at(call) is None:
            yield self.access.import_edit(self.guarding.program.frame(call).root, f"import {speaker}")


def _opens(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "open"


def _asks_for_a_file(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and methods.looks_for_a_file(node.attr)
