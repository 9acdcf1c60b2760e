"""Where does a script stop, ask, or do something else because a folder is there that it makes itself?

    if os.path.exists(out):            assert not out.exists()        try:
        raise FileExistsError(out)                                        os.mkdir(out)
    os.makedirs(out)                   out.mkdir()                    except FileExistsError:
                                                                          sys.exit("there already")
    if os.path.exists(out):            for i in count():
        resume = True                      if not os.path.exists(f"run{i}"):
    else:                                      break
        os.makedirs(out)               os.makedirs(f"run{i}")

A process that looks after another has made the folder stops, resumes alone, or counts one further. The answer is the
same for all where they wait for each other after they have looked.
"""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from accelify.codemod.files.nodes import walk
from accelify.codemod.files_written.existence_checks import ExistenceChecks
from accelify.codemod.files_written.paths import Files
from accelify.codemod.libraries import methods, names
from accelify.codemod.libraries.row import Effect, Trait
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.program import Program

_OWN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A statement that stops where a path is there, or does something else than where it is not.

    waits: the calls that make the folder, or lead there, before each of which all could wait; none where one call both
    looks and makes.
    """

    statement: ast.stmt
    waits: tuple[ast.Call, ...]
    stops: bool = True


@dataclass(frozen=True)
class Refusals:
    """Look at what is done where a folder is found; `path_of` is what a call makes."""

    stored: Files
    path_of: Callable[[ast.Call], ast.expr]

    def before(self, make: ast.Call) -> Iterator[Refusal]:
        """What stops, or does something else, where it finds the folder that a call makes."""
        if self._is_stopped_by(make):
            yield Refusal(self.stored.program.statement(make), ())
        for call in self._looks:
            stops = self._stops(call)
            meetings = self.stored.meetings(call, make) if stops or self._is_told(call, make) else ()
            if found := tuple(m for m in meetings if self._is_of(call, make, m)):
                yield Refusal(self.stored.program.statement(call), found, stops)

    @cached_property
    def _looks(self) -> list[ast.Call]:
        """The calls that look for files."""
        return [call for call in self.stored.program.calls if self.asks(call)]

    def asks(self, call: ast.Call) -> bool:
        """Whether a call looks for a file, or is searched for its name in a loop: `while name in os.listdir(out):`."""
        is_look = methods.looks_for_a_file(ast.unparse(call.func).rpartition(".")[2])
        return is_look or (self._searched(call) is not None and self.counts_on(call))

    def _searched(self, listing: ast.Call) -> ast.Compare | None:
        """The comparison that searches the names which a call lists."""
        program, around = self.stored.program, self.stored.program.parent(listing)
        if isinstance(around, ast.Call) and around.args == [listing]:  # `set(os.listdir(out))`
            around = program.parent(around)
        if isinstance(around, ast.Assign) and isinstance(target := around.targets[0], ast.Name):
            reads = program.reads_of(program.scope(target), target.id)  # `names = os.listdir(out)`
            found = (program.parent(r) for r in reads if program.reaching(r, [target]))
            around = next((f for f in found if isinstance(f, ast.Compare)), None)
        is_search = isinstance(around, ast.Compare) and isinstance(around.ops[0], (ast.In, ast.NotIn))
        rows = program.once(Kinds).called(listing) or ()
        is_list = any(row.has(Trait.LISTS) for row in rows)
        return around if isinstance(around, ast.Compare) and is_search and is_list else None

    def _is_of(self, look: ast.Call, make: ast.Call, meeting: ast.Call) -> bool:
        """Whether a call looks for what another makes; `meeting` is that one, or the call that leads to it."""
        program, asked, made = self.stored.program, self.path_of(look), self.path_of(make)
        function = program.frame(make)
        if meeting is not make and isinstance(made, ast.Name) and function in program.flow.callees.get(meeting, ()):
            made = self.stored.tracer.argument(meeting, function, made.id) or made
        if (search := self._searched(look)) is not None:
            return self.stored.are_alike(search.left, made)
        if self.counts_on(look):
            return self.stored.may_be_one(asked, made)
        if self._makes_parents(make) and self.stored.is_made_from(made, asked):
            return True
        return ast.unparse(asked) == ast.unparse(made) or self.stored.are_alike(asked, made)

    def _makes_parents(self, make: ast.Call) -> bool:
        """Whether a call makes the folders above, too: `os.makedirs(path)`, `path.mkdir(parents=True)`."""
        given = next((k.value for k in make.keywords if k.arg == "parents"), None)
        is_asked = given is not None and not (isinstance(given, ast.Constant) and not given.value)
        return is_asked or "os.makedirs" in self.stored.program.called(make)

    def _stops(self, look: ast.Call) -> bool:
        """Whether the script stops, or asks, where what is looked for is there."""
        statement = self.stored.program.statement(look)
        if isinstance(statement, ast.Assert):
            return not self._asks_for_presence(look)
        return isinstance(statement, ast.If) and self._refuses(self._branches(look, statement)[0])

    def _asks_for_presence(self, look: ast.Call) -> bool:
        """Whether a condition holds where what is looked for is there, and not where it is missing."""
        search = self._searched(look)
        above = self.stored.program.ancestors(search or look)
        around = itertools.takewhile(lambda a: not isinstance(a, ast.stmt), above)
        turns = [a.op for a in around if isinstance(a, ast.UnaryOp)]
        is_turned = search is not None and isinstance(search.ops[0], ast.NotIn)
        return (sum(isinstance(op, ast.Not) for op in turns) + is_turned) % 2 == 0

    def _branches(self, look: ast.Call, choice: ast.If) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """What is done where what is looked for is there, and where it is missing."""
        branches = (choice.body, choice.orelse)
        return branches if self._asks_for_presence(look) else branches[::-1]

    def counts_on(self, look: ast.Call) -> bool:
        """Whether a loop goes on as long as there is what is looked for, and does not wait for it to go."""
        program, asked = self.stored.program, self._searched(look) or look
        statement = program.statement(asked)
        if isinstance(statement, ast.While) and program.inside(asked, statement.test):
            loop: ast.AST | None = statement if self._asks_for_presence(look) else None
        else:
            loop = next(iter(program.loops_round(asked)), None)
            if not isinstance(statement, ast.If) or not program.inside(asked, statement.test):
                return False
            there, missing = self._branches(look, statement)
            ends = there and isinstance(there[-1], ast.Continue)
            block = program.block(statement)
            missing = block[block.index(statement) + 1 :] if ends else missing
            if not any(isinstance(s, (ast.Break, ast.Return)) for s in missing):
                return False
        search = self._searched(look)
        path = search.left if search is not None else path_of(look) if _has_path(look) else None
        named = {n.id for n in ast.walk(path) if isinstance(n, ast.Name)} if path is not None else set()
        written = (
            [n for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)] if loop else []
        )
        sleeps = loop is not None and any(isinstance(n, ast.Attribute) and n.attr == "sleep" for n in ast.walk(loop))
        return any(n.id in named for n in written) and not sleeps

    def counts_failures(self, make: ast.Call) -> bool:
        """Whether a loop makes the first folder that is not there: `except FileExistsError: i += 1`."""
        program = self.stored.program
        handlers = list(handlers_round(program, make)) if program.loops_round(make) else []
        ends = (ast.Break, ast.Return)
        beside = [s for h in handlers for s in getattr(program.parent(h), "body", [])]
        beside += [s for h in handlers for s in getattr(program.parent(h), "orelse", [])]
        leaves = any(isinstance(s, ends) for s in beside)
        return leaves and not any(isinstance(n, (*ends, ast.Raise)) for h in handlers for n in ast.walk(h))

    def _is_told(self, look: ast.Call, make: ast.Call) -> bool:
        """Whether the rest of the script knows which way was taken: one that writes files, or binds a name it reads."""
        statement = self.stored.program.statement(look)
        if self.counts_on(look):
            return True
        if isinstance(statement, ast.If) and self.stored.program.inside(look, statement.test):
            return self._differ(statement, make)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not isinstance(target, ast.Name) or not self._is_answer(look, statement):
            return False
        reads = self.stored.program.reads_of(self.stored.program.scope(target), target.id)
        asking = [self.stored.program.statement(r) for r in reads if self.stored.program.reaching(r, [target])]
        summary = self.stored.program.once(Effects).of
        return any(self._differ(s, make) if isinstance(s, ast.If) else not summary(s).shows_only for s in asking)

    def _is_answer(self, look: ast.Call, statement: ast.stmt) -> bool:
        """Whether a statement keeps what a call finds, as it is or turned round: `is_new = not os.path.exists(out)`."""
        around = itertools.takewhile(lambda a: a is not statement, self.stored.program.ancestors(look))
        return all(isinstance(a, (ast.UnaryOp, ast.BoolOp)) for a in around)

    def _differ(self, choice: ast.If, make: ast.Call) -> bool:
        """Whether the branches of a choice do more than to make the folder, or to report."""
        if self.stored.program.inside(make, choice) and self._refuses([*choice.body, *choice.orelse]):
            return True
        if any(deletion(self.stored.program, call) is not choice for call in self._deleting(choice)):
            return True
        effects = self.stored.program.once(Effects)
        if any(not use.is_folder for use in effects.of(*choice.body, *choice.orelse).files_written):
            return True
        checks = ExistenceChecks(effects, self.stored)
        return checks.are_seen_later(choice.body) or checks.are_seen_later(choice.orelse)

    def _deleting(self, choice: ast.If) -> list[ast.Call]:
        """The calls in the branches of a choice that delete a folder."""
        kinds, nodes = self.stored.program.once(Kinds), (n for s in (*choice.body, *choice.orelse) for n in _run_in(s))
        calls = [n for n in nodes if isinstance(n, ast.Call)]
        return [c for c in calls if any(row.has(Trait.REMOVES_FOLDERS) for row in kinds.called(c) or ())]

    def _refuses(self, statements: list[ast.stmt]) -> bool:
        return any(self._is_end(n) for s in statements for n in _run_in(s))

    def _is_end(self, node: ast.AST) -> bool:
        called = self.stored.program.called(node) if isinstance(node, ast.Call) else ()
        return isinstance(node, ast.Raise) or any(names.exits(n) or names.asks_the_user(n) for n in called)

    def _is_stopped_by(self, make: ast.Call) -> bool:
        """Whether the script stops where a call fails because the folder is there, as it does in a later process."""
        for handler in handlers_round(self.stored.program, make):
            # `except OSError as e: if e.errno != EEXIST: raise` asks itself what has failed
            is_asked = "FileExistsError" not in _caught_by(handler)
            if self._refuses([s for s in handler.body if not (is_asked and isinstance(s, ast.If))]):
                return True
        return False


def deletion(program: Program, call: ast.Call) -> ast.stmt | None:
    """The statement that deletes a folder, with the question whether it is there, where that only prints besides.

    None where the call is only a part of a statement.
    """
    statement = program.statement(call)
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        return None
    asking = program.parent(statement)
    if not isinstance(asking, ast.If) or not any(map(looks, ast.walk(asking.test))):
        return statement
    done = [s.value if isinstance(s, ast.Expr) else s for s in (*asking.body, *asking.orelse)]
    calls = [n for n in done if isinstance(n, ast.Call)]
    made = (n for n in calls if any(map(names.makes_folder, program.called(n))))
    return asking if set(done) <= {call, *made, *(n for n in calls if _only_prints(program, n))} else statement


def _only_prints(program: Program, call: ast.Call) -> bool:
    """Whether a call shows something, of which nothing in it is computed: `print("removed", folder)`."""
    rows = program.once(Kinds).called(call) or ()
    inner = [n for argument in (*call.args, *(k.value for k in call.keywords)) for n in walk(argument)]
    is_shown = bool(rows) and all(row.effects and row.effects <= {Effect.PRINTS, Effect.LOGS} for row in rows)
    return is_shown and not any(isinstance(n, (ast.Call, ast.NamedExpr, ast.Await)) for n in inner)


def looks(node: ast.AST) -> bool:
    """Whether something asks if a file or a folder is there."""
    last = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return methods.looks_for_a_file(last)


def path_of(call: ast.Call) -> ast.expr:
    """The path that a call is given, or whose method it is."""
    assert call.args or isinstance(call.func, ast.Attribute)
    return call.args[0] if call.args else call.func.value  # type: ignore[attr-defined]  # a method of the path


def _has_path(call: ast.Call) -> bool:
    return bool(call.args) or isinstance(call.func, ast.Attribute)


def handlers_round(program: Program, make: ast.Call) -> Iterator[ast.ExceptHandler]:
    """What a script does where a call fails because the folder is there, which no other process has made.

    None round a check that it is missing: `try: if not os.path.exists(out): os.makedirs(out)`.
    """
    child: ast.AST = make
    for ancestor in program.ancestors(make):
        if isinstance(ancestor, ast.If) and child in ancestor.body and _finds_missing(ancestor.test, make):
            return
        if isinstance(ancestor, ast.Try) and child in ancestor.body:
            yield from (h for h in ancestor.handlers if h.type is None or any(map(_is_for_it, _caught_by(h))))
        if isinstance(ancestor, _OWN):
            return
        child = ancestor


def _finds_missing(test: ast.expr, make: ast.Call) -> bool:
    """Whether a condition is that there is no folder yet where a call makes one: `not os.path.isdir(out)`."""
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and any(_finds_missing(each, make) for each in test.values)
    asked = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else None
    if not isinstance(asked, ast.Call) or not looks(asked.func) or not _has_path(asked):
        return False
    is_for_files = ast.unparse(asked.func).endswith("file")  # which a folder is not
    return not is_for_files and ast.unparse(path_of(asked)) == ast.unparse(path_of(make))


def _caught_by(handler: ast.ExceptHandler) -> set[str]:
    """The classes of exceptions, by their last names."""
    nodes = ast.walk(handler.type) if handler.type is not None else ()
    return {n.id if isinstance(n, ast.Name) else n.attr for n in nodes if isinstance(n, (ast.Name, ast.Attribute))}


def _is_for_it(name: str) -> bool:
    """Whether a class of exceptions covers `FileExistsError`."""
    caught = getattr(builtins, name, None)
    return isinstance(caught, type) and issubclass(FileExistsError, caught)


def _run_in(node: ast.AST) -> Iterator[ast.AST]:
    """What is run with a statement: not what is in the functions that it defines."""
    if not isinstance(node, _OWN):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _run_in(child)
