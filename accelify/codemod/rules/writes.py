"""Write files, plots and logs from one process only.

    writer.add_scalar("loss", loss.item(), step)    ->    if accelerator.is_main_process:
                                                              writer.add_scalar("loss", loss.item(), step)

Why: files that N processes write at once are a mixture, figures are shown and events counted N times. Writers, open
files, images, plots and tables are guarded where that is safe: where the guarded statements do nothing that the
processes must do together, draw no random numbers, change nothing, and bind nothing that is read elsewhere. What is
made only to be written goes with it; a forward pass for it is run by all before. A process that reads such a file later
waits before it looks for the file; behind the write, where the file is read for items of a loader, or by one process
alone, too. Where a script makes a file only if it is missing, and waits for it there, or stops because it is there, all
processes have looked before one of them makes it.
Left alone: prints, of which the launcher shows process 0's; scripts that distribute themselves, which say already what
each process writes; and what cannot be guarded, each with a note.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import partial
from itertools import chain, count
from keyword import iskeyword

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Bind, Change, Edit, Insert, Remark, Replace, Wrap
from accelify.codemod.files_written.guards.guarding import sets_up
from accelify.codemod.files_written.loads import leads_to, lists_files, waits_as_well
from accelify.codemod.files_written.meetings import MAY_NOT_BE_DONE, unmet
from accelify.codemod.files_written.refusals import Refusals, path_of
from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Trait
from accelify.codemod.libraries.vocabulary import is_for_images, only_looks
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.effects.library_calls import command
from accelify.codemod.semantics.scopes import Scope, names_in

_BETWEEN_WORDS = re.compile(r"[\s<>|;&'\"=]+")
NAME = "writes"
OPTIONAL = True


def find(script: Script) -> Iterator[Change | Remark]:
    """A guard for each run of statements that write, waits where others read it, and notes on what is left."""
    if script.is_by_hand:
        return
    for run in script.written.guarding.runs:
        accelerator = script.state(run[0])
        if not script.written.guarding.asks_for_writer(run):
            header = Wrap(run, f"if {accelerator}.is_main_process:")
            guard: tuple[Edit, ...] = (
                *_computed_first(script, run),
                header,
                *script.library_import(run[0], accelerator),
            )
            reason = "only the main process writes this"
            yield Change(NAME, script.path(run[0]), run[0].lineno, reason, guard)
        if script.written.guarding.cached.holds(run[0]):
            continue  # the others wait where one process makes the cache
        commands = list(filter(script.written.commands.touches_files, _calls(run)))
        waits = []
        if _fetches(script, run):
            waits.append(("after", run[-1], "the other processes wait until the main process has downloaded it"))
        elif commands and _is_followed(script, commands[-1]):
            waits.append(("after", run[-1], "the other processes wait until the main process is done with these files"))
        if script.written.meetings.are_read_before(run) or _is_after_reading(script, commands):
            before = script.written.meetings.before_removal(run)
            waits.append(("before", before, "waits until all processes have read this file"))
        for where, statement, reason in waits:
            edit = Insert(statement, where, f"{accelerator}.wait_for_everyone()")
            fetched = _rows(script, run, Trait.DOWNLOADS) if where == "after" else []
            edits = (edit, *dict.fromkeys(e for call in fetched for e in script.written.meetings.before(call)))
            yield Change(NAME, script.path(statement), statement.lineno, reason, edits)
        for edits in dict.fromkeys(_refused(script, run)):
            reason = "no process writes the file that another one is still to look for"
            yield Change(NAME, script.path(run[0]), run[0].lineno, reason, edits)
    for backward in script.training.backwards:
        if edits := script.written.meetings.before(backward):
            reason = "no process makes what another one is still to look for"
            yield Change(NAME, script.path(backward), backward.lineno, reason, edits)
    yield from _handed_on(script)
    done: list[ast.stmt] = []
    yield from _waits_behind(script)
    yield from _waits(script, done)
    yield from _waits_to_list(script, done)
    yield from _waits_to_import(script, done)
    yield from _left(script)
    yield from _of_items(script)
    yield from _unknown(script)
    yield from _blocking(script)


def _computed_first(script: Script, run: tuple[ast.stmt, ...]) -> Iterator[Bind]:
    """New variables for what all processes compute in some statements before one of them writes it."""
    for statement in run:
        taken = set[str]()
        for call in script.written.guarding.first.calls(statement):
            root = script.program.frame(statement).root
            taken.update(name for scope in root.walk() for name in scope.writes)
            wanted = _named_for(script, call)
            name = next(n for n in chain([wanted], (f"{wanted}_{i}" for i in count(2))) if n not in taken)
            taken.add(name)
            yield Bind(call, name)


def _named_for(script: Script, call: ast.Call) -> str:
    """A name for what a call gives: its key, `images`, or `output` of a model."""
    holder = script.program.parent(call)
    keys = dict(zip(holder.values, holder.keys, strict=True)) if isinstance(holder, ast.Dict) else {}
    key = keys.get(call)
    if (
        isinstance(key, ast.Constant)
        and isinstance(key.value, str)
        and key.value.isidentifier()
        and not iskeyword(key.value)
    ):
        return key.value
    statement = script.program.statement(call)
    writes = statement.value.func if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else call
    is_model = any(script.roles.is_model(v) for v in script.program.values(call.func))
    return "images" if is_for_images(ast.unparse(writes)) else "output" if is_model else "value"


def _of_items(script: Script) -> Iterator[Remark]:
    """Files of the items of a sharded loop: for an even number of rounds, some items come twice, or not at all."""
    for call in sorted(script.written.guarding.own, key=script.program.position):
        loops = list(filter(script.prepared.is_sharded_sequence, script.program.loops_round(call)))
        if loops and script.path(call) in script.files:
            message = (
                "where N processes do not divide the number of items, `shard` begins anew with the first ones, whose "
                "files are written once more at the end (without a length, it leaves out the last ones): write them "
                "in a loop of their own if that matters"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW, once=True)


def _rows(script: Script, run: tuple[ast.stmt, ...], trait: Trait) -> list[ast.Call]:
    """The calls in some statements whose rows have a trait."""
    return _rows_of(script, _calls(run), trait)


def _calls(run: tuple[ast.stmt, ...]) -> list[ast.Call]:
    return [n for s in run for n in ast.walk(s) if isinstance(n, ast.Call)]


def _is_followed(script: Script, command: ast.Call) -> bool:
    """Whether a process reads or writes files after a command, or loads data and trains."""
    later = (c for c in script.program.calls if c is not command and script.effects.of_call(c).uses_files)
    return any(script.written.stored.is_before(command, c) for c in (*later, *script.training.backwards))


def _is_after_reading(script: Script, commands: list[ast.Call]) -> bool:
    """Whether every process looks for a file before some commands, which may make it, or reads one that they remove."""
    removing = any(use.is_gone for c in commands for use in script.effects.of_call(c).files_written)
    read = [c for c in script.program.calls if c not in script.written.guarding.covered]
    read = [c for c in read if script.effects.of_call(c).files_read]
    looking = read if removing else [*_rows_of(script, read, Trait.LOOKS), *_rows_of(script, read, Trait.LISTS)]
    return bool(commands) and any(script.written.stored.is_before(c, commands[0]) for c in looking)


def _rows_of(script: Script, calls: list[ast.Call], trait: Trait) -> list[ast.Call]:
    return [c for c in calls if any(row.has(trait) for row in script.effects.kinds.called(c) or ())]


def _fetches(script: Script, run: tuple[ast.stmt, ...]) -> bool:
    return bool(_rows(script, run, Trait.DOWNLOADS))


def _refused(script: Script, run: tuple[ast.stmt, ...]) -> Iterator[tuple[Edit, ...]]:
    """The waits before one process writes a file, where the script stops because it is there."""
    stored, meetings = script.written.stored, script.written.meetings
    for call in (n for s in run for n in ast.walk(s) if isinstance(n, ast.Call)):
        if any(stored.is_before(backward, call) for backward in script.training.backwards):
            continue  # for which the processes have waited for each other
        for path in _made_at(script, call):
            refusals = Refusals(stored, partial(_path_of, call, path))
            waits = (w for refusal in refusals.before(call) if refusal.stops for w in refusal.waits)
            yield from filter(None, map(meetings.at, waits))


def _path_of(write: ast.Call, path: ast.expr, call: ast.Call) -> ast.expr:
    return path if call is write else path_of(call)


def _paths(script: Script, call: ast.Call) -> list[ast.expr]:
    return [p for use in script.effects.of_call(call).files_written for p in use.paths]


def _made_at(script: Script, call: ast.Call) -> list[ast.expr]:
    """The paths of the files that are there after a call."""
    return [p for use in script.effects.of_call(call).files_written if not use.is_gone for p in use.paths]


def _written_alone(script: Script) -> list[tuple[ast.Call, ast.expr]]:
    """What one process alone writes, with the paths; not what it fetches, for which the processes have waited."""
    guarding = script.written.guarding
    fetched = {node for run in guarding.runs if _fetches(script, run) for s in run for node in ast.walk(s)}
    alone = guarding.covered - fetched
    writes = [
        c for c in script.program.calls if c in alone and guarding.alone.writes(c) and not guarding.cached.holds(c)
    ]
    writes += [save.call for save in script.written.saves if save.saver is not None and save.call not in alone]
    return [(call, path) for call in writes for path in _paths(script, call)]


def _waits_behind(script: Script) -> Iterator[Change | Remark]:
    """Not each process reads a file equally often, as an item of a loader: all have waited since it was written."""
    guarding, stored, meetings = script.written.guarding, script.written.stored, script.written.meetings
    apart = [c for c in script.program.calls if not meetings.are_together(c) and c not in guarding.covered]
    written = _written_alone(script) if apart else []
    edits = set[tuple[Edit, ...]]()
    for call in apart if written else ():
        read = [p for p in _read_by(script, call) if not script.written.clocks.is_own(p)]
        made = [
            w for w, path in written if any(stored.are_alike(p, path) and stored.is_told_as_one(p, path) for p in read)
        ]
        ends = [call] if script.program.frame(call) not in meetings.items else [call, *script.training.backwards]
        before = [w for w in made if any(stored.is_before(w, end) for end in ends)]
        for each in meetings.between(NAME, call, dict.fromkeys(before), "read", script.state(call)):
            if isinstance(each, Remark) or each.edits not in edits:
                yield each
            edits |= {each.edits} if isinstance(each, Change) else set()


def _waits_to_list(script: Script, done: list[ast.stmt]) -> Iterator[Change | Remark]:
    """No process lists a folder before the one that writes its files is done: it would find other files."""
    guarding, stored = script.written.guarding, script.written.stored
    written = _written_alone(script)
    for call in sorted(script.program.calls if written else (), key=script.program.position):
        if (
            not script.written.meetings.are_together(call)
            or call in guarding.covered
            or guarding.cached.holds(call)
            or not lists_files(script.effects, call)
        ):
            continue
        folders = _read_by(script, call)
        before = [w for w, path in written if any(stored.is_told_to_hold(folder, path) for folder in folders)]
        for meeting in dict.fromkeys(m for write in before for m in stored.meetings(write, call)):
            yield from _wait(script, meeting, before, done)


def _wait(script: Script, node: ast.AST, writes: list[ast.Call], done: list[ast.stmt]) -> Iterator[Change | Remark]:
    """A wait before a statement, unless the processes have waited since the last file was written.

    Not where an exception is handled: one process alone may come there, while the others wait somewhere else.
    """
    meetings, accelerator = script.written.meetings, script.accelerator(node)
    statement = meetings.before_rounds(meetings.before_questions(node, node, writes), writes)
    is_handler = any(isinstance(a, ast.ExceptHandler) for a in script.program.ancestors(node))
    if accelerator is None or script.path(node) not in script.files or is_handler:
        return
    if statement is None:
        yield Remark(NAME, script.path(node), node, unmet(accelerator), Tier.REVIEW)
        return
    if any(_has_waited(script, before, statement) for before in done):
        return
    done.append(statement)
    others = tuple(s for s in waits_as_well(script.effects, statement) if s is not statement)
    edit = Insert(statement, "before", f"{accelerator}.wait_for_everyone()", unless_before=others)
    edits = (edit, *(meetings.before(node) if isinstance(node, ast.Call) else ()))
    yield Change(NAME, script.path(node), statement.lineno, MAY_NOT_BE_DONE, edits)


def _waits(script: Script, done: list[ast.stmt]) -> Iterator[Change | Remark]:
    """No process reads a file before the one that writes it is done."""
    guarding = script.written.guarding
    covered = (c for c in script.program.calls if c in guarding.covered and not guarding.cached.holds(c))
    paths = [(call, path) for call in covered if guarding.alone.writes(call) for path in _paths(script, call)]
    written = defaultdict[ast.Call, set[tuple[object, str]]](set)
    for write, path in paths:
        written[write].add((_place(script, path), ast.unparse(path)))
    stored, commands = script.written.stored, [c for c in script.program.calls if _is_command(script, c)]
    for call in sorted(script.program.calls, key=script.program.position):
        if not script.written.meetings.are_together(call):
            continue
        is_alone = call in script.written.guarding.covered or script.written.guarding.cached.holds(call)
        read = [] if is_alone else [p for p in _read_by(script, call) if not script.written.clocks.is_own(p)]
        is_written = bool(read) and call in script.written.guarding.alone.looked_at
        called = script.program.called(call)
        if "torch.load" in called:  # rule `checkpoints` sees to what is saved
            asked = {(_place(script, path), ast.unparse(path)) for path in read}
            is_written = any(asked & where and stored.is_before(w, call) for w, where in written.items())
        if not is_alone and _is_command(script, call):
            is_written = any(_is_given(script, call, p) and stored.is_before(w, call) for w, p in paths)
        is_content = not script.effects.kinds.of(call) <= {"number", "string"}  # not only what there is of a file
        made_by = [c for c in commands if c is not call and any(_is_given(script, c, path) for path in read)]
        is_written = is_written or any(stored.is_before(c, call) for c in made_by)
        if not is_written and not (is_content and any(_is_named(script, call, path, paths) for path in read)):
            continue
        places = _places_to_wait(script, call, read, paths)
        waits = [w for place in places for w in _wait_for(script, place, read, paths, done)]
        if waits and _is_of_a_batch(script, call, [w for w, path in paths if _is_same(script, path, read)]):
            message = (
                "all processes read a file that one process made from its own batch: give each process its own file"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.REVIEW)
        yield from waits


def _is_given(script: Script, command: ast.Call, path: ast.expr) -> bool:
    """Whether a command has the name of a file in it."""
    stored, nodes = script.written.stored, [n for given in command.args[:1] for n in ast.walk(given)]
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    words = {word.rpartition("/")[2] for text in texts for word in _BETWEEN_WORDS.split(text)}
    named = [n for n in nodes if isinstance(n, (ast.Name, ast.Attribute))]
    is_named = any(_is_same(script, n, [path]) or stored.are_alike(n, path) for n in named)
    return is_named or bool(words & stored.names(path))


def _wait_for(
    script: Script, call: ast.Call, read: list[ast.expr], paths: list[tuple[ast.Call, ast.expr]], done: list[ast.stmt]
) -> Iterator[Change | Remark]:
    """A wait before a statement or, where that writes the file itself, behind what does: `open(write(path))`."""
    found = [w for w, made in paths if any(script.written.stored.may_be_one(path, made) for path in read)]
    within = script.written.meetings.within(call, found)
    yield from script.written.meetings.between(NAME, call, within, "read", script.state(call))
    for read_by in script.written.meetings.outside_rounds(call) if not within else ():
        yield from _wait(script, read_by, found, done)


def _is_command(script: Script, call: ast.Call) -> bool:
    return any(map(names.runs_command, script.program.called(call)))


def _places_to_wait(
    script: Script, read: ast.Call, paths: list[ast.expr], written: list[tuple[ast.Call, ast.expr]]
) -> list[ast.Call]:
    """The calls before which to wait: where the accelerator does not reach what reads a file, those that lead there."""
    if script.accelerator(read) is not None:
        return [read]
    stored, is_command = script.written.stored, _is_command(script, read)
    before = [w for w, made in written if any(stored.are_alike(path, made) for path in paths)]
    before += [w for w, made in written if is_command and _is_given(script, read, made)]
    return list(dict.fromkeys(m for write in before for m in stored.meetings(write, read)))


def _is_same(script: Script, path: ast.expr, others: list[ast.expr]) -> bool:
    place = script.written.guarding.uses.place_of
    return any(place(path) == place(other) for other in others)


def _is_of_a_batch(script: Script, read: ast.Call, writes: list[ast.Call]) -> bool:
    """Whether a round of a loop reads what it wrote, and each process iterates over a shard of its own there."""
    shared = set(script.program.loops_round(read)).intersection(script.metrics.shared_loops)
    return any(shared.intersection(script.program.loops_round(write)) for write in writes)


def _is_named(script: Script, read: ast.Call, path: ast.expr, written: list[tuple[ast.Call, ast.expr]]) -> bool:
    """Whether a call may read a file that was written before: under the same name, or below a path of the same begin.

    A loop reads data sets, as a rule, and would wait in each round for nothing.
    """
    stored = script.written.stored
    around = list(script.program.ancestors(read))
    is_once = not any(isinstance(a, (ast.For, ast.While, ast.comprehension)) for a in around)
    is_once = is_once and script.accelerator(read) is not None and not lists_files(script.effects, read)
    may_be = [(w, made) for w, made in written if is_once and made in _made_at(script, w)]
    found = [w for w, made in written if stored.are_alike(path, made) and stored.is_told_as_one(path, made)]
    found += [w for w, made in may_be if stored.is_told_as_one(path, made)]
    return any(stored.is_before(write, read) for write in found)


def _read_by(script: Script, call: ast.Call) -> list[ast.expr]:
    """The paths that a call may read, in this process or in another that it starts."""
    if not script.program.flow.callees.get(call) and (read := script.effects.of_call(call).files_read):
        return [path for use in read for path in use.paths]
    called = script.program.called(call)
    if any(map(names.runs_command, called)):
        return [n for a in call.args[:1] for n in ast.walk(a) if isinstance(n, (ast.Name, ast.Attribute))]
    if call in script.effects.of_call(call).unknown:  # which may read any file whose name it gets
        given = [n for a in (*call.args, *(k.value for k in call.keywords)) for n in ast.walk(a)]
        return [n for n in given if isinstance(n, ast.expr) and script.written.stored.names(n)]
    return []


def _waits_to_import(script: Script, done: list[ast.stmt]) -> Iterator[Change | Remark]:
    """No process imports a module before the one that writes its file is done."""
    guarding, stored = script.written.guarding, script.written.stored
    writes = [c for c in script.program.calls if c in guarding.covered and guarding.alone.writes(c)]
    made = {w: {name for path in _made_at(script, w) for name in stored.names(path)} for w in writes}
    sources = {w: names for w, found in made.items() if (names := {n for n in found if n.endswith(".py")})}
    for node, modules in _imports(script) if sources else ():
        files = {f"{module.rpartition('.')[2]}.py" for module in modules}
        before = [w for w, names in sources.items() if names & files]
        calls = script.program.calls_in(script.program.frame(node)) if before else []
        leading = (c for c in calls if any(c is w or leads_to(stored, c, w) for w in before))
        if node not in guarding.covered and any(script.program.reaches(c, node) for c in leading):
            yield from _wait(script, node, before, done)


def _imports(script: Script) -> Iterator[tuple[ast.AST, list[str]]]:
    """The places where modules are imported, with their names."""
    for parsed in script.program.files:
        for node in parsed.nodes:
            if isinstance(node, ast.Import):
                yield node, [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                yield node, [node.module or "", *(alias.name for alias in node.names)]
    for call in _rows_of(script, script.program.calls, Trait.IMPORTS):
        yield call, [str(n.value) for a in call.args[:1] for n in ast.walk(a) if isinstance(n, ast.Constant)]


def _has_waited(script: Script, before: ast.stmt, statement: ast.stmt) -> bool:
    """Whether nothing is written between a wait and a later statement of its block."""
    return before in waits_as_well(script.effects, statement)


def _place(script: Script, argument: ast.expr) -> object:
    """Where the text of an argument means the same: everywhere, or in one function."""
    local = bool(names_in(argument)) and not isinstance(argument, ast.Attribute)
    return script.program.frame(argument) if local else None


def _handed_on(script: Script) -> Iterator[Change]:
    """A writer that is passed on is made by the process that writes; the others pass on nothing."""
    for call in script.written.guarding.handed_on:
        state = script.state(call)
        edit = Replace(call, partial(only_main, accelerator=state), (call,), (state.split(".")[0],))
        edits: tuple[Edit, ...] = (edit, *script.library_import(call, state))
        yield Change(NAME, script.path(call), call.lineno, "only the main process writes with it", edits)


def only_main(call: cst.CSTNode, accelerator: str) -> cst.BaseExpression:
    """`Writer() if accelerator.is_main_process else None`."""
    assert isinstance(call, cst.BaseExpression)
    return snippets.expression(f"{{call}} if {accelerator}.is_main_process else None", call=call)


def _written_by(script: Script, call: ast.Call) -> str:
    """The name of what writes: a class whose base's constructor is run, or the function or method that is called."""
    owner = script.program.frame(call).parent
    return owner.name if sets_up(call) and owner is not None else ast.unparse(call.func).rpartition(".")[2]


def _left(script: Script) -> Iterator[Remark]:
    """One note for each function that writes on every process."""
    left: dict[tuple[Scope, bool], list[ast.Call]] = {}
    temporary, training = _temporary(script), script.run.trained
    opened = {save.call for save in script.written.saves if save.is_open}
    for call in script.written.guarding.unguarded:
        if not _is_run_by(training, script, call) or _may_only_end(script, call):
            continue  # a script beside runs it, in one process; or nothing tells that it writes
        is_run = bool(_rows_of(script, [call], Trait.BEGINS_RUN))  # of which the rule `experiments` has its own note
        if is_run or "tracker" in script.program.once(Kinds).of(call):
            continue  # it only connects to a server: what is shown there is guarded by itself, or has its own note
        is_path = script.program.names_only(call.func, "torch.save") and call not in opened
        if not is_path and call not in script.written.guarding.handed_on:
            frame = script.program.frame(call)
            places = map(script.written.guarding.uses.place_of, _paths(script, call))
            left.setdefault((frame, not temporary[frame].isdisjoint(places)), []).append(call)
    for call in script.program.calls:
        frame = script.program.frame(call)
        is_run = frame in script.run.run or (script.path(call) in script.files and frame in script.program.reachable)
        if (
            is_run
            and call not in script.written.guarding.covered
            and not script.written.guarding.cached.holds(call)
            and any(map(names.runs_command, script.program.called(call)))
            and not _is_run_for_its_output(script, call)
        ):
            left.setdefault((frame, False), []).append(call)
    for (_, is_temporary), calls in left.items():
        first = min(calls, key=script.program.position)
        spelled = dict.fromkeys(f"`{_written_by(script, c)}`" for c in calls)
        named = ", ".join(spelled)
        is_command = [any(map(names.runs_command, script.program.called(c))) for c in calls]
        does = (
            "runs this command" if all(is_command) else "writes this, or runs it" if any(is_command) else "writes this"
        )
        message = (
            f"{{}}: every process {does}; to write once, guard it with `if {script.place(first)}.is_main_process:`"
        )
        if sets_up(first):
            state = script.state(first)
            message = f"{{}}: every process makes one, which writes; make and use it where `{state}.is_main_process`"
        if all("environment" in script.program.once(Kinds).of(c) for c in calls):  # which each process needs
            message = f"{{}}: every process writes this: put `{script.place(first)}.process_index` into the path"
        elif is_temporary:
            place = script.place(first)
            message = (
                f"{{}}: every process writes, reads and removes this file, which another may still need: put "
                f"`{place}.process_index` into its path, so that each has a file of its own"
            )
        elif any(script.program.inside(c, s) for c in calls for s in script.written.guarding.decided):
            message = (
                f"{{}}: every process reads this file and writes it, where another one may have written it between: "
                f"do both, with the condition round it, where `{script.place(first)}.is_main_process`"
            )
        elif any(is_command) or any(_is_read_later(script, c) for c in calls):
            is_read = "another process reads what it makes" if any(is_command) else "this is read again"
            named += f" (call `{script.state(first)}.wait_for_everyone()` before {is_read})"
        elif asked := dict.fromkeys(_asked_of_all(script, calls)):
            named += f" (but evaluate {', '.join(asked)} before that, in all processes)"
        elif kept := dict.fromkeys(name for c in calls for name in _kept(script, c, calls)):
            named += f" (make {', '.join(kept)} `None` in the other processes, and check for `None` where it is used)"
        tier = Tier.REVIEW if is_temporary else Tier.ADVICE
        yield Remark(NAME, script.path(first), first, message, tier, about=named)


def _may_only_end(script: Script, call: ast.Call) -> bool:
    """Whether a method is given nothing, and not all objects of unknown kind write by it: `connection.close()`."""
    rows = script.effects.kinds.called(call) or ()
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_unknown = owner is not None and script.effects.kinds.of(owner) == {UNKNOWN}
    is_given = bool(call.args or call.keywords)
    return is_unknown and not is_given and any(not row.effects for row in rows)


def _is_run_by(training: Collection[Scope], script: Script, call: ast.Call) -> bool:
    """Whether the processes that train may run a call: those of functions, or by importing its file."""
    frame = script.program.frame(call)
    is_imported = frame.kind != "function" and script.path(call) not in {p.path for p in script.program.named}
    return frame in training or is_imported


def _temporary(script: Script) -> dict[Scope, set[object]]:
    """The places of the files that each function writes, and removes after that; none that it moves, and no folders."""
    place_of, found = script.written.guarding.uses.place_of, defaultdict[Scope, set[object]](set)
    for removal in _rows_of(script, list(script.program.calls), Trait.REMOVES):
        frame = script.program.frame(removal)
        before = [c for c in script.program.calls_in(frame) if script.program.before(c, removal)]
        written = {place_of(p) for c in before for p in _made_at(script, c)}
        if not any(_rows_of(script, [removal], trait) for trait in (Trait.REMOVES_FOLDERS, Trait.COPIES_FILE)):
            found[frame] |= written.intersection(map(place_of, _paths(script, removal)))
    return found


def _unknown(script: Script) -> Iterator[Remark]:
    """One note for each function that may write on every process, by code that is not known."""
    left: dict[object, list[ast.Call]] = {}
    for call in script.written.guarding.unknown:
        left.setdefault(script.program.frame(call), []).append(call)
    for calls in left.values():
        first = min(calls, key=script.program.position)
        named = ", ".join(dict.fromkeys(f"`{ast.unparse(c.func).rpartition('.')[2]}`" for c in calls))
        state = script.state(first)
        message = (
            f"{{}}: if this writes files, every process does: guard it with `if {state}.is_main_process:`, and call "
            f"`{state}.wait_for_everyone()` before another process reads them"
        )
        yield Remark(NAME, script.path(first), first, message, Tier.ADVICE, about=named)


def _blocking(script: Script) -> Iterator[Remark]:
    """Windows that only process 0 shows, before steps for which the others wait until one has closed them.

    A notebook shows figures in the page, and goes on.
    """
    is_in_page = any(parsed.decoded.notebook is not None for parsed in script.program.named)
    if is_in_page or _rows_of(script, script.program.calls, Trait.UNBLOCKS):
        return
    shown = [c for c in script.program.calls if c in script.written.guarding.covered and _waits_for_user(c)]
    for call in _rows_of(script, shown, Trait.BLOCKS):
        if any(script.written.stored.is_before(call, backward) for backward in script.training.backwards):
            message = (
                "only process 0 shows this: the others wait at the next step until its window is closed, and fail when "
                "the timeout of collectives is over: save the figure instead"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.ADVICE)


def _waits_for_user(call: ast.Call) -> bool:
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "block")]
    return not any(isinstance(g, ast.Constant) and g.value is False for g in given)


def _is_run_for_its_output(script: Script, call: ast.Call) -> bool:
    """`subprocess.check_output(["git", "rev-parse", "HEAD"])`, which asks a program and changes nothing."""
    is_read = any(k.arg in ("capture_output", "stdout") for k in call.keywords)
    return is_read or only_looks(command(call)) or any(map(names.reads_command, script.program.called(call)))


def _is_read_later(script: Script, written: ast.Call) -> bool:
    """Whether a file that every process writes may be read afterwards, by the same names."""
    stored, paths = script.written.stored, _paths(script, written)
    for call in script.program.calls:
        read = _read_by(script, call) if call is not written else []
        if any(stored.are_alike(a, b) for a in paths for b in read) and stored.is_before(written, call):
            return True
    return False


def _kept(script: Script, call: ast.Call, calls: list[ast.Call]) -> Iterator[str]:
    """The variables that are given what a call makes, and that other statements read than those of some calls."""
    statement, guarded = script.program.statement(call), {script.program.statement(c) for c in calls}
    for target in statement.targets if isinstance(statement, ast.Assign) and statement.value is call else ():
        owner = script.program.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
        if isinstance(target, ast.Name) and owner is not None:
            reads = {script.program.statement(read) for read in owner.reads.get(target.id, ())}
            yield from [f"`{target.id}`"] if reads - guarded else []


def _asked_of_all(script: Script, calls: list[ast.Call]) -> Iterator[str]:
    """The values in the statements of some calls that metrics add up over the processes first."""
    for call in calls:
        for node in ast.walk(script.program.statement(call)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr == "compute" and script.roles.adds_up_itself(node.func.value):
                yield f"`{ast.unparse(node)}`"
