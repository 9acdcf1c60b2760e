"""Which statements make or fetch a file only where it is missing? One process runs them first, the others find it.

if not os.path.exists(path):              try:
    make(path)                                rows = load(path)
                                          except OSError:
                                              rows = make(path)
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

from accelify.codemod.files_written.going_first import GoingFirst
from accelify.codemod.files_written.paths import Files
from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Effect, Trait
from accelify.codemod.semantics.call_conditions import with_functions
from accelify.codemod.semantics.conditions import implied
from accelify.codemod.semantics.effects.summary import FileUse, Summary
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Instance

_DEPTH = 3
_LEAVING = (ast.Return, ast.Raise)
_FOR_ALL = frozenset(
    {Effect.EXITS, Effect.WAITS, Effect.SIMULATES, Effect.READS_INPUT, Effect.CHANGES_LIBRARY}
)  # what one process cannot do for the others
Choice = ast.If | ast.Try


class Caches:
    """Look at conditions that ask whether a file is there."""

    def __init__(self, going: GoingFirst, stored: Files, held: Collection[ast.AST] = ()) -> None:
        self.program = going.program
        self.alone = going.alone
        self.effects = going.alone.effects
        self.going = going
        self.checks = going.checks
        self.stored = stored
        self.held = held  # under a lock between processes

    def find(self) -> Iterator[Choice]:
        """The outermost of them in the files that may change, where all processes come to it."""
        return (choice for choice in self._own if not self.going.reads_shard(choice))

    @cached_property
    def _own(self) -> tuple[Choice, ...]:
        nodes = (n for path in sorted(self.alone.files) for n in self.program.flow.parsed_of[path].parents)
        found = [n for n in nodes if isinstance(n, Choice) and self._is_cache(n)]
        return tuple(n for n in found if not any(n is not o and self.program.inside(n, o) for o in found))

    @cached_property
    def first(self) -> tuple[ast.stmt, ...]:
        """The outermost statements that one process runs before the others: these, or what calls their functions."""
        found = [*self.find(), *dict.fromkeys(s for _, statements in self._called for s in statements)]
        outer = [s for s in found if not any(s is not o and self.program.inside(s, o) for o in found)]
        run = {s: with_functions(self.program, set(ast.walk(s))) for s in outer}
        return tuple(s for s in outer if not any(s is not o and s in run[o] for o in outer))

    @cached_property
    def uncached(self) -> tuple[Choice, ...]:
        """Those which one process should run first, and that cannot be made to, in no function that it runs first."""
        found = [choice for choice, statements in self._called if not statements]
        nodes = {n for s in self.first for n in ast.walk(s)} if found else set()
        inside = with_functions(self.program, nodes)
        return tuple(choice for choice in found if choice not in inside)

    def parts(self, choice: Choice) -> list[ast.stmt]:
        """A choice with the code behind it that is run where the file is missing."""
        return [choice, *self._where_missing(choice)]

    @cached_property
    def of_shards(self) -> tuple[Choice, ...]:
        """Those in which all processes go over a prepared loader: none can go first."""
        return (*filter(self.going.reads_shard, self._own), *filter(self._is_of_shard, self.uncached))

    def _is_of_shard(self, choice: Choice) -> bool:
        """Whether a function, perhaps behind its choice, makes the file from a shard of a loader."""
        frame = self.program.frame(choice)
        return self.going.reads_shard(frame.node if frame.kind == "function" else choice)

    def are_written_anew(self, call: ast.Call, depth: int = _DEPTH) -> bool:
        """Whether a call writes or removes files that may be there: each process that comes later does so again."""
        frame, leaves = self.program.frame(call), False
        for node in (self.program.statement(call), *self.program.ancestors(self.program.statement(call))):
            if node is frame.node:
                break
            if isinstance(node, (ast.Try, ast.ExceptHandler)):
                return False
            above = (
                self.program.block(node)[: self.program.block(node).index(node)] if isinstance(node, ast.stmt) else ()
            )
            found = (s for s in above if isinstance(s, ast.If) and isinstance(s.body[-1], _LEAVING))
            leaves = leaves or any(self._says_missing(s.test, holds=False) for s in found)
        branches = self.program.branches_round(call)
        if leaves or any(self._says_missing(branch.test, holds=holds) for branch, holds in branches):
            return False
        calls = self.program.calls_of(frame) if depth and frame.kind == "function" else ()
        return not calls or any(self.are_written_anew(c, depth - 1) for c in calls)

    def _says_missing(self, test: ast.expr, *, holds: bool) -> bool:
        """Whether a file is missing where a condition holds, or does not, whatever else it asks."""
        for part, each in implied(test, holds):
            asked = part.values if isinstance(part, ast.BoolOp) else [part]
            if all(self.checks.is_missing(value, each) for value in asked):
                return True
        return False

    @cached_property
    def _called(self) -> list[tuple[Choice, tuple[ast.stmt, ...]]]:
        return list(self.callers())

    def callers(self) -> Iterator[tuple[Choice, tuple[ast.stmt, ...]]]:
        """The others, each with the statements that call its function; none where those cannot be run so."""
        for parsed in self.program.files if self.alone.files else ():
            for node in parsed.parents:
                if not isinstance(node, Choice) or self.program.frame(node).kind != "function":
                    continue
                if node not in self._own and self._is_made_in_function(node):
                    yield node, self.going.calling(self.program.frame(node))

    def _is_cache(self, choice: Choice) -> bool:
        if not self._asks(choice) or self.alone.accelerator(choice) is None or self._asking_above(choice):
            return False
        calls = [n for n in ast.walk(choice) if isinstance(n, ast.Call)]
        if not self.going.stands_alone(choice) or any(map(self._is_of_all, calls)):
            return False
        then, other = self.effects.of(*choice.body), self.effects.of(*_otherwise(choice))
        if isinstance(choice, ast.Try) and not self._is_same_file(other, then):
            return self._is_filled(choice, _otherwise(choice))
        made_here = all(self.program.inside(use.call, choice) for use in then.files_written | other.files_written)
        if made_here and (_makes(then, other) or _makes(other, then)):
            return True
        missing = self._where_missing(choice)
        is_own = all(self.program.inside(s, choice) for s in missing)
        return is_own and (self._has_fetched(missing) or self._is_filled(choice, missing))

    def _asks(self, choice: Choice) -> bool:
        """Whether a statement takes another way where a file is missing, and under no lock."""
        if self.held and any(n in self.held for n in ast.walk(choice)):
            return False
        if isinstance(choice, ast.If):
            return bool(self.checks.questions(choice.test)) and not self._is_refused(choice)
        return bool(choice.handlers) and (bool(self.effects.of(*choice.body).files_read) or _refuses_folder(choice))

    def _is_refused(self, choice: ast.If) -> bool:
        """Whether the script fails where the file is there, as it does for each process that comes later."""
        found = choice.body if self._where_missing(choice) is not choice.body else choice.orelse
        last = found[-1] if found else None
        is_exit = isinstance(last, ast.Expr) and Effect.EXITS in self.effects.of(last).effects
        return isinstance(last, ast.Raise) or is_exit

    def _asking_above(self, choice: Choice) -> list[ast.stmt]:
        """The statements before a choice that ask for it: whoever comes later to the choice does not ask again."""
        questions = self.checks.questions(choice.test) if isinstance(choice, ast.If) else []
        return [self.program.statement(q) for q in questions if not self.program.inside(q, choice)]

    def _is_made_in_function(self, choice: Choice) -> bool:
        """Whether a function makes or fetches here what is read, by the function or by the data set it belongs to."""
        frame = self.program.frame(choice)
        if frame not in self.program.reachable or not self._asks(choice) or self.going.meets([frame]):
            return False
        if isinstance(choice, ast.Try):
            return self._is_same_file(self.effects.of(*_otherwise(choice)), self.effects.of(*choice.body))
        return self._is_cache_of_function(choice) or self._fills(choice) or self._is_read_by_callers(choice)

    def _is_read_by_callers(self, choice: ast.If) -> bool:
        """Whether the file that is looked for, and made where it is missing, is read behind a call of the function."""
        made = self.effects.of(*self._where_missing(choice)).files_written
        asked = set(map(ast.unparse, self.checks.asked(self.checks.questions(choice.test))))
        made = frozenset(u for u in made if not u.is_folder and asked.intersection(map(ast.unparse, u.paths)))
        for statement in map(self.program.statement, self.program.calls_of(self.program.frame(choice)) if made else ()):
            block = self.program.block(statement)
            if self._meet(made, self.effects.of(*block[block.index(statement) + 1 :]).files_read):
                return True
        return False

    def _fills(self, choice: ast.If) -> bool:
        """Whether what runs where a file is missing fetches it, or makes it while a data set is being made."""
        missing = self._where_missing(choice)
        if self._has_fetched(missing):
            return True
        made = self.effects.of(*missing).files_written
        is_written = any(not use.is_folder for use in made)
        if is_written and self.program.frame(choice) in self._made_with_data:
            return True
        return any(use.is_folder for use in made) and self._is_filled(choice, missing)

    def _is_filled(self, choice: Choice, missing: list[ast.stmt]) -> bool:
        """Whether files are made where one is missing that a process which comes later takes for complete.

        All processes make the folder, or all the files: whoever comes later does nothing else than it does next time.
        """
        if isinstance(choice, ast.If):
            found = choice.orelse if missing is choice.body else choice.body
            asked = self.checks.asked(self.checks.questions(choice.test))
        else:
            missing, asked = self._tried(choice, missing)
            found = []
        made = self.effects.of(*missing).files_written
        paths = [p for use in made for p in use.paths]
        known = [p for p in paths if self.stored.starts(p)] or paths
        is_asked = any(self.stored.may_hold(folder, path) for folder in asked for path in known)
        is_by_all = any(use.is_folder or self.alone.accelerator(use.call) is None for use in made)
        if not is_asked or not is_by_all or all(use.is_folder for use in made):
            return False
        is_alike = all(map(self._does_nothing, found)) and not self._is_seen(choice, missing)
        return is_alike and self.going.all_come_to(choice)

    def _tried(self, choice: ast.Try, missing: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.expr]]:
        """What runs only where files are missing that code looks for in vain, or whose folder it makes; their paths."""
        if _refuses_folder(choice) and all(map(self._does_nothing, missing)):
            made = self.effects.of(*choice.body).files_written
            return choice.body, [p for use in made if use.is_folder for p in use.paths]
        asked = self.checks.asked([q for s in choice.body for q in self.checks.questions(s)])
        kept = [s for s in missing if not self._is_given_too(choice, s)]
        return kept, asked if self._only_looks(choice.body) else []

    def _only_looks(self, statements: list[ast.stmt]) -> bool:
        """Whether some statements do nothing but look at files, and give variables what they find."""
        summary = self.effects.of(*statements)
        is_more = summary.files_written or summary.unknown or summary.effects
        return not is_more and all(place.is_variable for place in summary.writes)

    def _is_given_too(self, choice: ast.Try, statement: ast.stmt) -> bool:
        """Whether a statement gives a variable a value that the body gives it, too, where nothing is missing."""
        given = {ast.unparse(t) for s in choice.body if isinstance(s, ast.Assign) for t in s.targets}
        return isinstance(statement, ast.Assign) and given.issuperset(map(ast.unparse, statement.targets))

    def _does_nothing(self, statement: ast.stmt) -> bool:
        """Whether a statement only leaves its function, or reports."""
        is_return = isinstance(statement, ast.Return) and statement.value is None
        return is_return or self.effects.of(statement).is_empty or self.effects.of(statement).shows_only

    def _is_seen(self, choice: Choice, statements: list[ast.stmt]) -> bool:
        """Whether it makes a difference, but for the files, that some statements have run."""
        own, summary = {n for s in statements for n in ast.walk(s)}, self.effects.of(*statements)
        left = [n for n in own if isinstance(n, ast.Return)]
        if summary.effects & _FOR_ALL or any(n.value is not None or self.program.inside(n, choice) for n in left):
            return True
        return self.checks.are_seen_later(statements)

    def _has_fetched(self, statements: list[ast.stmt]) -> bool:
        """Whether some statements fetch files, themselves or by functions."""
        calls = [n for s in statements for n in ast.walk(s) if isinstance(n, ast.Call)]
        run = self.program.run_through(calls)
        return any(map(self._fetches, [*calls, *(c for f in run for c in self.program.calls_in(f))]))

    def _where_missing(self, choice: Choice) -> list[ast.stmt]:
        """The statements that run only where the file that a condition looks for is missing."""
        if isinstance(choice, ast.Try):
            return _otherwise(choice)
        if any(self.checks.is_missing(part, holds) for part, holds in implied(choice.test, True)):
            return choice.body
        if choice.orelse or not isinstance(choice.body[-1], _LEAVING):
            return choice.orelse
        block = self.program.block(choice)
        return block[block.index(choice) + 1 :]

    @cached_property
    def _made_with_data(self) -> set[Scope]:
        """The functions that run when one of the project's own data sets is made."""
        values = {v for held in self.program.flow.values.values() for v in held if isinstance(v, Instance)}
        method = self.program.flow.method
        classes = [v.cls for v in values if method(v.cls, "__getitem__") or method(v.cls, "__iter__")]
        makers = [method(c, "__init__") for c in dict.fromkeys(classes)]
        return self.program.run_from(m for m in makers if m is not None)

    def _is_cache_of_function(self, choice: ast.If) -> bool:
        """Whether a function returns what it finds in a file, and else makes that file; or makes it and reads on."""
        block = self.program.block(choice)
        then, other = choice.body, choice.orelse or block[block.index(choice) + 1 :]
        if not other:
            return False
        one, rest, above = (self.effects.of(*code) for code in (then, other, self._asking_above(choice)))
        pairs = [(one, rest), (rest, one), (one, above), (rest, above)]
        return any(self._is_same_file(made, read) for made, read in pairs)

    def _is_same_file(self, made: Summary, read: Summary) -> bool:
        """Whether some code writes a file that other code reads, and does not write again."""
        return self._meet(made.files_written, read.files_read) and not self._meet(
            made.files_written, read.files_written
        )

    def _meet(self, some: Iterable[FileUse], others: Iterable[FileUse]) -> bool:
        """Whether one of some files, and no folder, may be one of others."""
        written = [p for use in some if not use.is_folder for p in use.paths]
        opened = [p for use in others for p in use.paths]
        texts = set(map(ast.unparse, written))
        return any(ast.unparse(p) in texts or any(self.stored.are_alike(p, w) for w in written) for p in opened)

    def _fetches(self, call: ast.Call) -> bool:
        is_command = any(map(names.runs_command, self.program.called(call)))
        return is_command or any(row.has(Trait.DOWNLOADS) for row in self.effects.kinds.called(call) or ())

    def _is_of_all(self, call: ast.Call) -> bool:
        """Whether a call trains, evaluates, or saves in a way of its own."""
        called = self.program.called(call)
        return "torch.save" in called or "torch.load" in called or self.alone.runs_together(call)


def _otherwise(choice: Choice) -> list[ast.stmt]:
    """What a statement does in place of its body."""
    return choice.orelse if isinstance(choice, ast.If) else [s for h in choice.handlers for s in h.body]


def _refuses_folder(choice: ast.Try) -> bool:
    """Whether code makes a folder unless it is there: `except FileExistsError:`."""
    return any(h.type is not None and ast.unparse(h.type) == "FileExistsError" for h in choice.handlers)


def _makes(one: Summary, other: Summary) -> bool:
    """Whether one branch writes a file, and the other reads one instead."""
    return any(not u.is_folder for u in one.files_written) and bool(other.files_read) and not other.writes_files
