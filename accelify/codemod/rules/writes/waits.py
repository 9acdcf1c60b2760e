"""Waits of all processes for files that one of them writes."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from accelify.codemod.edits.values import Change, Edit, Insert, Remark
from accelify.codemod.files_written.facts import Written
from accelify.codemod.files_written.loads import leads_to, lists_files, waits_as_well
from accelify.codemod.files_written.meetings import MAY_NOT_BE_DONE, unmet
from accelify.codemod.files_written.own_paths import is_named_apart, named_apart
from accelify.codemod.libraries.row import Trait
from accelify.codemod.result import Tier
from accelify.codemod.rules.writes.uses import (
    NAME,
    calls_with,
    is_command,
    made_paths,
    read_paths,
    written_alone,
)
from accelify.codemod.script import Script
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import names_in

_BETWEEN_WORDS = re.compile(r"[\s<>|;&'\"=]+")


@dataclass
class Waits:
    """Where a script has to wait before it reads or lists what one process writes.

    _done: the statements before which the processes wait already, which is asked for once.
    """

    script: Script
    _done: list[ast.stmt] = field(default_factory=list)

    @property
    def program(self) -> Program:
        return self.script.program

    @property
    def written(self) -> Written:
        return self.script.written

    def of_items(self) -> Iterator[Change | Remark]:
        """Not each process reads a file equally often, as an item of a loader: all have waited since it was written."""
        guarding, stored, meetings = self.written.guarding, self.written.stored, self.written.meetings
        apart = [c for c in self.program.calls if not meetings.are_together(c) and c not in guarding.covered]
        written = written_alone(self.script) if apart else []
        edits = set[tuple[Edit, ...]]()
        for call in apart if written else ():
            read = [p for p in read_paths(self.script, call) if not self.written.clocks.is_own(p)]
            made = [
                w
                for w, path in written
                if any(stored.are_alike(p, path) and stored.is_told_as_one(p, path) for p in read)
            ]
            ends = [call] if self.program.frame(call) not in meetings.items else [call, *self.script.training.backwards]
            before = [w for w in made if any(stored.is_before(w, end) for end in ends)]
            for each in meetings.between(NAME, call, dict.fromkeys(before), "read", self.script.state(call)):
                if isinstance(each, Remark) or each.edits not in edits:
                    yield each
                edits |= {each.edits} if isinstance(each, Change) else set()

    def to_read(self) -> Iterator[Change | Remark]:
        """No process reads a file before the one that writes it is done."""
        guarding = self.written.guarding
        covered = (c for c in self.program.calls if c in guarding.covered and not guarding.cached.holds(c))
        alone = filter(guarding.alone.writes, covered)
        paths = [(call, path) for call in alone for path in self.script.effects.of_call(call).paths_written]
        written = defaultdict[ast.Call, set[tuple[object, str]]](set)
        for write, path in paths:
            written[write].add((self._place(path), ast.unparse(path)))
        stored, commands = (
            self.written.stored,
            [c for c in self.program.calls if is_command(self.script, c)],
        )
        for call in sorted(self.program.calls, key=self.program.position):
            if not self.written.meetings.are_together(call):
                continue
            is_alone = call in self.written.guarding.covered or self.written.guarding.cached.holds(call)
            read = [] if is_alone else [p for p in read_paths(self.script, call) if not self.written.clocks.is_own(p)]
            is_written = bool(read) and call in self.written.guarding.alone.looked_at
            called = self.program.called(call)
            if "torch.load" in called:  # rule `checkpoints` sees to what is saved
                asked = {(self._place(path), ast.unparse(path)) for path in read}
                is_written = any(asked & where and stored.is_before(w, call) for w, where in written.items())
            if not is_alone and is_command(self.script, call):
                is_written = any(self._is_given(call, p) and stored.is_before(w, call) for w, p in paths)
            is_content = not self.script.effects.kinds.of(call) <= {
                "number",
                "string",
            }  # not only what there is of a file
            made_by = [c for c in commands if c is not call and any(self._is_given(c, path) for path in read)]
            is_written = is_written or any(stored.is_before(c, call) for c in made_by)
            if not is_written and not (is_content and any(self._is_named(call, path, paths) for path in read)):
                continue
            for path in (p for p in read if is_named_apart(self.script.metrics.ranks, call, p)):
                speaker = self.script.accelerator(call) if self.script.can_agree else None
                yield Remark(NAME, self.script.path(call), call, named_apart(path, speaker), Tier.REVIEW)
            places = self._places_to_wait(call, read, paths)
            waits = [w for place in places for w in self._wait_for(place, read, paths)]
            if waits and self._is_of_a_batch(call, [w for w, path in paths if self._is_same(path, read)]):
                message = (
                    "all processes read a file that one process made from its own batch: give each process its own file"
                )
                yield Remark(NAME, self.script.path(call), call, message, Tier.REVIEW)
            yield from waits

    def to_load(self) -> Iterator[Change | Remark]:
        """No process has a function load a file before the one that writes it, such as a copy of a save, is done."""
        guarding, stored = self.written.guarding, self.written.stored
        loads = [c for c in self.program.calls if "torch.load" in self.program.called(c)]
        written = [(w, made) for w, made in written_alone(self.script) if w in guarding.covered] if loads else []
        for load in filter(self.written.meetings.are_together, loads if written else ()):
            read = (use for path in read_paths(self.script, load) for use in guarding.uses.by_callers(load, path))
            for call, path in read:
                if call is load or call in guarding.covered or self.script.accelerator(call) is None:
                    continue
                found = [w for w, made in written if stored.is_told_as_one(path, made) and stored.is_before(w, call)]
                if found:
                    yield from self._wait(call, found)

    def to_list(self) -> Iterator[Change | Remark]:
        """No process lists a folder before the one that writes its files is done: it would find other files."""
        guarding, stored = self.written.guarding, self.written.stored
        written = written_alone(self.script)
        for call in sorted(self.program.calls if written else (), key=self.program.position):
            if (
                not self.written.meetings.are_together(call)
                or call in guarding.covered
                or guarding.cached.holds(call)
                or not lists_files(self.script.effects, call)
            ):
                continue
            folders = read_paths(self.script, call)
            before = [w for w, path in written if any(stored.is_told_to_hold(folder, path) for folder in folders)]
            for meeting in dict.fromkeys(m for write in before for m in stored.meetings(write, call)):
                yield from self._wait(meeting, before)

    def to_import(self) -> Iterator[Change | Remark]:
        """No process imports a module before the one that writes its file is done."""
        guarding, stored = self.written.guarding, self.written.stored
        writes = [c for c in self.program.calls if c in guarding.covered and guarding.alone.writes(c)]
        made = {w: {name for path in made_paths(self.script, w) for name in stored.names(path)} for w in writes}
        sources = {w: names for w, found in made.items() if (names := {n for n in found if n.endswith(".py")})}
        for node, modules in self._imports() if sources else ():
            files = {f"{module.rpartition('.')[2]}.py" for module in modules}
            before = [w for w, names in sources.items() if names & files]
            calls = self.program.calls_in(self.program.frame(node)) if before else []
            leading = (c for c in calls if any(c is w or leads_to(stored, c, w) for w in before))
            if node not in guarding.covered and any(self.program.reaches(c, node) for c in leading):
                yield from self._wait(node, before)

    def _wait(self, node: ast.AST, writes: list[ast.Call]) -> Iterator[Change | Remark]:
        """A wait before a statement, unless the processes have waited since the last file was written.

        Not where an exception is handled: one process alone may come there, while the others wait somewhere else.
        """
        meetings, speaker = self.written.meetings, self.script.state(node)
        statement = meetings.before_rounds(meetings.before_questions(node, node, writes), writes)
        is_handler = any(isinstance(a, ast.ExceptHandler) for a in self.program.ancestors(node))
        is_run = self.script.path(node) in self.script.files or self.program.is_run(node)
        if not is_run or is_handler or (self.script.accelerator(node) is None and self.script.is_by_hand):
            return
        if statement is None:
            yield Remark(NAME, self.script.path(node), node, unmet(speaker), Tier.REVIEW)
            return
        if any(self._has_waited(before, statement) for before in self._done):
            return
        self._done.append(statement)
        others = tuple(s for s in waits_as_well(self.script.effects, statement) if s is not statement)
        edit = Insert(statement, "before", f"{speaker}.wait_for_everyone()", unless_before=others)
        imported = self.script.library_import(node, speaker)
        edits = (edit, *imported, *(meetings.before(node) if isinstance(node, ast.Call) else ()))
        yield Change(NAME, self.script.path(node), statement.lineno, MAY_NOT_BE_DONE, edits)

    def _wait_for(
        self, call: ast.Call, read: list[ast.expr], paths: list[tuple[ast.Call, ast.expr]]
    ) -> Iterator[Change | Remark]:
        """A wait before a statement or, where that writes the file itself, behind what does: `open(write(path))`."""
        found = [w for w, made in paths if any(self.written.stored.may_be_one(path, made) for path in read)]
        within = self.written.meetings.within(call, found)
        yield from self.written.meetings.between(NAME, call, within, "read", self.script.state(call))
        for read_by in self.written.meetings.outside_rounds(call) if not within else ():
            yield from self._wait(read_by, found)

    def _has_waited(self, before: ast.stmt, statement: ast.stmt) -> bool:
        """Whether nothing is written between a wait and a later statement of its block."""
        return before in waits_as_well(self.script.effects, statement)

    def _is_given(self, command: ast.Call, path: ast.expr) -> bool:
        """Whether a command has the name of a file in it."""
        stored, nodes = self.written.stored, [n for given in command.args[:1] for n in ast.walk(given)]
        texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        words = {word.rpartition("/")[2] for text in texts for word in _BETWEEN_WORDS.split(text)}
        named = [n for n in nodes if isinstance(n, (ast.Name, ast.Attribute))]
        is_named = any(self._is_same(n, [path]) or stored.are_alike(n, path) for n in named)
        return is_named or bool(words & stored.names(path))

    def _places_to_wait(
        self, read: ast.Call, paths: list[ast.expr], written: list[tuple[ast.Call, ast.expr]]
    ) -> list[ast.Call]:
        """The calls before which to wait: what reads a file, or what leads there from where the accelerator is."""
        if self.script.accelerator(read) is not None:
            return [read]
        stored, runs = self.written.stored, is_command(self.script, read)
        told = {place for path in paths for place in self._told(read, path)}
        before = [w for w, made in written if any(stored.are_alike(path, made) for path in paths)]
        before += [w for w, made in written if not told.isdisjoint(self._told(w, made))]
        before += [w for w, made in written if runs and self._is_given(read, made)]
        return list(dict.fromkeys(m for write in before for m in stored.meetings(write, read)))

    def _is_same(self, path: ast.expr, others: list[ast.expr]) -> bool:
        place = self.written.guarding.uses.place_of
        return any(place(path) == place(other) for other in others)

    def _told(self, call: ast.Call, path: ast.expr) -> Iterator[object]:
        """Keys of a path that a call uses, and of what its callers give for that: `config.folder` of `keep(folder)`."""
        uses = self.written.guarding.uses
        return (uses.place_of(given) for _, given in uses.by_callers(call, path))

    def _is_of_a_batch(self, read: ast.Call, writes: list[ast.Call]) -> bool:
        """Whether a round of a loop reads what it wrote, and each process iterates over a shard of its own there."""
        shared = set(self.program.loops_round(read)).intersection(self.script.metrics.shared_loops)
        return any(shared.intersection(self.program.loops_round(write)) for write in writes)

    def _is_named(self, read: ast.Call, path: ast.expr, written: list[tuple[ast.Call, ast.expr]]) -> bool:
        """Whether a call may read a file that was written before, under the same name or one that begins alike.

        A loop reads data sets, as a rule, and would wait in each round for nothing.
        """
        stored = self.written.stored
        around = list(self.program.ancestors(read))
        is_once = not any(isinstance(a, (ast.For, ast.While, ast.comprehension)) for a in around)
        is_once = is_once and self.script.accelerator(read) is not None and not lists_files(self.script.effects, read)
        may_be = [(w, made) for w, made in written if is_once and made in made_paths(self.script, w)]
        found = [w for w, made in written if stored.are_alike(path, made) and stored.is_told_as_one(path, made)]
        found += [w for w, made in may_be if stored.is_told_as_one(path, made)]
        return any(stored.is_before(write, read) for write in found)

    def _imports(self) -> Iterator[tuple[ast.AST, list[str]]]:
        """The places where modules are imported, with their names."""
        for parsed in self.program.files:
            for node in parsed.nodes:
                if isinstance(node, ast.Import):
                    yield node, [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    yield node, [node.module or "", *(alias.name for alias in node.names)]
        for call in calls_with(self.script, self.program.calls, Trait.IMPORTS):
            yield call, [str(n.value) for a in call.args[:1] for n in ast.walk(a) if isinstance(n, ast.Constant)]

    def _place(self, argument: ast.expr) -> object:
        """Where the text of an argument means the same: everywhere, or in one function."""
        local = bool(names_in(argument)) and not isinstance(argument, ast.Attribute)
        return self.program.frame(argument) if local else None
