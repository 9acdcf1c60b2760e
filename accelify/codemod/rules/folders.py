"""Let several processes make the same folder.

    os.makedirs(path)                          ->    os.makedirs(path, exist_ok=True)
    n = len(os.listdir(out))                   ->    n = accelerator.broadcast_object_list([len(os.listdir(out))])[0]
    path.mkdir(parents=True, exist_ok=False)   ->    path.mkdir(parents=True, exist_ok=True)
    out = time.ctime()                         ->    out = accelerator.broadcast_object_list([time.ctime()])[0]
    out = next_free("runs")                    ->    out = accelerator.broadcast_object_list([next_free("runs")])[0]
    shutil.rmtree(path)                        ->    if accelerator.is_main_process:
                                                         shutil.rmtree(path)
                                                     accelerator.wait_for_everyone()

Why: two processes may both find that the folder is missing; the second to make it would fail. And a folder that is
named for the time is another one for each process whose clock says something else; one that is named for the number
of folders there are, once a process has made it; and one that is drawn at random, where each process draws its own
data: so all take the first one's. So they do where a function of the script looks for a name that is free; one that
creates the folder, too, is called in process 0 alone. One that a later process deletes may hold what another has
written already. Where the script stops because its folder is there, or counts on to a free number, all have looked
before one of them creates it.
Left alone: calls that say themselves what to do. Where the script did not check first, the change is marked for review:
a folder that is left from an earlier run is no error any more. Clocks that the accelerator does not reach, or that not
every process may come to, are noted.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import libcst as cst

from accelify.codemod.edits import snippets
from accelify.codemod.edits.values import Attempt, Change, Edit, Found, Insert, Remark, Replace, Wrap
from accelify.codemod.files_written.refusals import (
    Refusal,
    Refusals,
    deletion,
    handlers_round,
    looks,
    path_of,
)
from accelify.codemod.libraries import names
from accelify.codemod.libraries.row import Effect, Trait
from accelify.codemod.preparing.placing import comes_before_selection
from accelify.codemod.result import Tier
from accelify.codemod.script import Script
from accelify.codemod.semantics.effects.kinds import UNKNOWN
from accelify.codemod.semantics.scopes import Scope, code, method_of_call
from accelify.codemod.semantics.visits.ways import Gate, Ways
from accelify.codemod.training.certainty import asks_for_one

NAME = "folders"
OPTIONAL = True
_NAMES = frozenset({"string", "path", "number"})
_MAKING_FOLDERS = frozenset({"tensorboard", "tracker"})
_FOUND = "a later process finds what another has created, and takes the next name: use one for all processes"
_DRAWN = (
    "this name is drawn at random, and each process draws another one: use one for all processes",
    "all processes use what process 0 draws, so that they share one folder",
)
_TEMPORARY = (
    "each process makes a temporary folder or file of its own here, but what only process 0 writes is in its own "
    "alone: use one for all processes"
)


def find(script: Script) -> Iterator[Found]:
    """A change for each folder that is made, also in files that change for nothing else."""
    refusals = Refusals(script.written.stored, path_of)
    refused = list(_refused(script, refusals))
    settled = {r.statement for r, _ in refused}.difference(r.statement for r, edits in refused if not edits)
    waiting = {script.program.statement(wait) for refusal, _ in refused for wait in refusal.waits}
    deleting = set[ast.stmt]()
    clocks: dict[ast.expr, None] = {}
    counts: dict[ast.expr, None] = {}
    drawn: dict[ast.expr, None] = {}
    for call in script.program.calls:
        if not script.program.is_run(call):
            continue
        is_deleted = not _is_under_lock(script, call) and any(
            row.has(Trait.REMOVES_FOLDERS) for row in script.effects.kinds.called(call) or ()
        )
        if is_deleted and call not in script.written.guarding.covered and not _is_temporary(script, call):
            found = _deleted(script, call, settled, waiting)
            if isinstance(found, Change):
                deleting.add(script.program.statement(call))
            yield found
        if _makes_a_folder(script, call):
            clocks.update(dict.fromkeys(_differing(script, path_of(call))))
            drawn.update(dict.fromkeys(_drawn_apart(script, path_of(call))))
            counts.update(dict.fromkeys(_counted(script, path_of(call))))
        for read in _read_by_all(script, call):
            clocks.update(dict.fromkeys(_differing(script, read)))
        if not _fails_the_second_time(script, call) or script.written.guarding.cached.goes_first(call):
            continue
        path = script.path(call)
        message = "fails in every process but the first: pass `exist_ok=True`"
        left = Remark(NAME, path, call, message, Tier.REVIEW)
        is_checked = _is_checked(script, call) or any(refusal.waits for refusal in refusals.before(call))
        tier = Tier.SAFE if is_checked else Tier.REVIEW
        reason = "another process may create it first" + (
            "" if is_checked else ", so an existing folder is no longer an error"
        )
        keeps = (call.func, *call.args, *(k.value for k in call.keywords if k.arg != "exist_ok"))
        edits: list[Edit] = [Replace(call, made_anyway, keeps=keeps)]
        if isinstance(call.func, ast.Name) and "os.mkdir" in script.program.called(call):  # which has no `exist_ok`
            imported = _import_of(script, call.func)
            if imported is None:
                yield left
                continue
            edits = [Replace(call, made_by_makedirs, keeps[1:], ("makedirs",)), imported]
        change = Change(NAME, path, call.lineno, reason, tuple(edits), tier)
        yield Attempt((change,), otherwise=(left,))
    counting = list(_counting(script, refusals))
    chosen = {f: calls for f in map(script.program.frame, counting) if (calls := _choosing(script, f))}
    counting = [c for c in counting if script.program.statement(c) not in settled]
    refused = [(r, e) for r, e in refused if script.program.frame(r.statement) not in chosen]
    yield from _waits(script, refused, deleting)
    yield from _next_free(script, counting, chosen)
    for clock in clocks:
        yield _one_name(script, clock, _differs_by_clock(script, clock), settled)
    for each in dict.fromkeys((*drawn, *_saved_and_read(script))):
        yield _one_name(script, each, _DRAWN, settled)
    for count in (c for c in counts if script.program.frame(c) not in chosen):
        reason = "all processes go by the files that process 0 finds, and share one folder"
        yield _one_name(script, count, (_FOUND, reason), settled)


def _differing(script: Script, path: ast.expr) -> Iterator[ast.expr]:
    """What differs between processes in a path, but for the user's answers, which `decisions` gives to all.

    Nor a temporary folder of the process that makes first what the others then find.
    """
    made_first = script.written.guarding.cached.found
    for each in script.written.clocks.behind(path):
        if each in made_first and script.written.clocks.is_temporary(each):
            continue
        called = (name for n in ast.walk(each) if isinstance(n, ast.Call) for name in script.program.called(n))
        if not any(map(names.asks_the_user, called)):
            yield each


def _counted(script: Script, folder: ast.expr) -> Iterator[ast.expr]:
    """What is worked out from the files there are, where one is named for it that another process may have made."""
    stored = script.written.stored
    for asked, count in script.written.clocks.counted(folder).items():
        if any(stored.is_told_to_be_in(folder, path) for path in script.effects.of_call(asked).paths_read):
            yield count


def _drawn_apart(script: Script, path: ast.expr) -> Iterator[ast.expr]:
    """What a path is drawn from after the processes were given random numbers of their own, for their data."""
    is_apart = any(d.kind == "random" for d in script.training.data) and not script.metrics.draws_alike
    places = [place.statement for place in script.seeds.places] if is_apart and not script.seeds.is_by_rank else []
    for each in script.written.clocks.drawn(path) if places else ():
        if any(script.program.may_follow(each, place) for place in places):
            yield each


def _saved_and_read(script: Script) -> Iterator[ast.expr]:
    """What is drawn into the name of a file that the script saves, and that every process reads again."""
    reachable = [c for c in script.program.calls if script.program.frame(c) in script.program.reachable]
    saved = (
        path
        for call in reachable
        if not script.program.flow.callees.get(call)
        for path in script.effects.of_call(call).paths_written
    )
    drawn = {each for path in saved for each in _drawn_apart(script, path)}
    for call in reachable if drawn else ():
        yield from (e for path in _read_by_all(script, call) for e in _drawn_apart(script, path) if e in drawn)


def _differs_by_clock(script: Script, clock: ast.expr) -> tuple[str, str]:
    """What is wrong with a name that differs between processes, and what becomes of it."""
    if script.written.clocks.is_temporary(clock):
        return (_TEMPORARY, "")
    if Effect.READS_CLOCK not in script.effects.of(clock).effects:
        return _DRAWN
    return (
        "this name has the time in it, which differs between processes: use one for all processes",
        "all processes use the clock of process 0, so that they share one folder",
    )


def _is_under_lock(script: Script, call: ast.Call) -> bool:
    return call in script.written.guarding.locks.held  # where the script sees to it itself


def _deleted(
    script: Script, call: ast.Call, settled: Collection[ast.stmt], waiting: Collection[ast.stmt]
) -> Change | Remark:
    """One process deletes a folder, and the others wait for it; a note where not all of them come there.

    settled: the statements that ask for files before any process makes them. waiting: those that make them then.
    """
    path, statement, state = script.path(call), deletion(script.program, call), script.state(call)
    written = script.written
    edits: tuple[Edit, ...]
    is_own = not call.args or any(True for _ in written.clocks.behind(call.args[0]))
    is_used = any(written.stored.is_before(backward, call) for backward in script.training.backwards)
    is_taken = script.accelerator(call) is None and state.split(".")[0] in script.program.frame(call).root.writes
    is_met = not is_used or not script.run.ends_apart
    is_for_all = not (script.is_by_hand or is_own or is_taken)
    if statement is not None and is_for_all and written.guarding.cached.goes_first(call):
        edits = (Wrap((statement,), f"if {state}.is_main_process:"), *script.library_import(call, state))
        return Change(NAME, path, call.lineno, "the main process, which is the first, deletes the folder", edits)
    if (
        statement is None
        or not (is_met and is_for_all)
        or not _is_run_by_all(script, statement, settled)
        or _is_made_at_once(script, statement, waiting)
    ):
        message = (
            "every process deletes this folder, possibly after another has started to write to it: guard it with "
            f"`if {state}.is_main_process:`, and call `{state}.wait_for_everyone()` afterwards"
        )
        return Remark(NAME, path, call, message, Tier.REVIEW)
    wait = Insert(statement, "after", f"{state}.wait_for_everyone()")
    alone = Wrap((statement,), f"if {state}.is_main_process:")
    edits = (alone, wait, *script.library_import(call, state))
    is_asked = not _is_run_by_all(script, statement)  # all have looked before one deletes it
    if is_used or is_asked or written.meetings.are_read_before((statement,)):
        edits = (Insert(statement, "before", f"{state}.wait_for_everyone()"), *edits)
    return Change(NAME, path, call.lineno, "the main process deletes the folder, and the others wait", edits)


def _is_made_at_once(script: Script, deletes: ast.stmt, waiting: Collection[ast.stmt]) -> bool:
    """Whether a process that finds no folder makes some before all have looked, so that a later one deletes it."""
    child: ast.AST = deletes
    for around in script.program.ancestors(deletes):
        if isinstance(around, ast.If) and any(map(looks, ast.walk(around.test))):
            for statement in around.body if child in around.orelse else around.orelse:
                if statement in waiting:
                    break
                if any(isinstance(n, ast.Call) and _makes_a_folder(script, n) for n in ast.walk(statement)):
                    return True
        child = around
    return False


def _is_temporary(script: Script, deleted: ast.Call) -> bool:
    """Whether a process deletes the temporary folder that it has made for itself."""
    made = script.written.clocks.behind(deleted.args[0]) if deleted.args else []
    return bool(made) and all(map(script.written.clocks.is_temporary, made))


def _import_of(script: Script, name: ast.Name) -> Insert | None:
    """`from os import makedirs` beside the import of `mkdir`; None where that is another one, or the name is taken."""
    owner = script.program.scope(name).owner(name.id)
    statements = {script.program.statement(w) for w in (owner.writes[name.id] if owner is not None else ())}
    only = statements.pop() if len(statements) == 1 else None
    is_os = isinstance(only, ast.ImportFrom) and only.module == "os" and any(a.asname is None for a in only.names)
    is_free = all("makedirs" not in s.writes for s in script.program.frame(name).root.walk())
    return Insert(only, "after", "from os import makedirs") if only is not None and is_os and is_free else None


def _makes_a_folder(script: Script, call: ast.Call) -> bool:
    """Whether every process makes a folder by a call."""
    is_made = any(map(names.makes_folder, script.program.called(call))) and bool(call.args)
    is_path = method_of_call(call) == "mkdir" and not script.program.called(call)
    own = script.program.flow.callees.get(call)
    return (is_made or (is_path and not own)) and call not in script.written.guarding.covered


def _read_by_all(script: Script, call: ast.Call) -> list[ast.expr]:
    """The paths of the files whose contents every process reads by a library's call."""
    if call in script.written.guarding.covered or script.program.flow.callees.get(call):
        return []
    if any(row.has(Trait.LOOKS) or row.has(Trait.REMOVES) for row in script.effects.kinds.called(call) or ()):
        return []
    return script.effects.of_call(call).paths_read


def _fails_the_second_time(script: Script, call: ast.Call) -> bool:
    """Whether a call makes a folder and fails where there is one, also for the next to take a lock."""
    if _is_under_lock(script, call) and list(script.program.branches_round(call)):
        return False
    exist_ok = next((k.value for k in call.keywords if k.arg == "exist_ok"), None)
    if isinstance(exist_ok, ast.Constant) and exist_ok.value is True:
        return False
    if any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return False
    called = script.program.called(call)
    if any(map(names.makes_folder, called)):
        positions = 3 if "os.makedirs" in called else 4
        return 0 < len(call.args) < positions and next(handlers_round(script.program, call), None) is None
    # `pathlib` alone has a `mkdir` that need not be told where
    is_path = method_of_call(call) == "mkdir" and not call.args
    return (
        is_path
        and not called
        and not script.program.flow.callees.get(call)
        and next(handlers_round(script.program, call), None) is None
    )


def _is_checked(script: Script, call: ast.Call) -> bool:
    """Whether a folder is made only where it was found missing."""
    for ancestor in script.program.ancestors(call):
        if isinstance(ancestor, ast.If) and any(map(looks, ast.walk(ancestor.test))):
            return True
        if isinstance(ancestor, (ast.FunctionDef, ast.ClassDef)):
            return False
    return False


def _refused(script: Script, refusals: Refusals) -> Iterator[tuple[Refusal, list[tuple[Edit, ...]]]]:
    """Where the script stops, or goes another way, because a folder is there, with the waits before it is made."""
    for call in script.program.calls:
        if not script.program.is_run(call) or not _makes_a_folder(script, call):
            continue
        if script.written.guarding.cached.goes_first(call) or call in script.written.guarding.own:
            continue
        for refusal in refusals.before(call):
            edits = [script.written.meetings.at(wait) for wait in refusal.waits]
            is_met = all(edits) and (refusal.stops or _is_found_by_all(script, call, refusal.waits))
            yield refusal, edits if is_met else []


def _waits(
    script: Script, refused: Iterable[tuple[Refusal, list[tuple[Edit, ...]]]], deleting: Collection[ast.stmt]
) -> Iterator[Change | Remark]:
    """The waits before a folder is made that other processes may be looking for, or a note.

    deleting: the statements that delete a folder, before and after which all wait already.
    """
    noted = set[ast.stmt]()
    met = set[tuple[ast.stmt, ast.stmt]]()
    for refusal, edits in refused:
        for wait, some in zip(refusal.waits, edits, strict=False):
            block = script.program.block(script.program.statement(wait))
            above = block[: block.index(script.program.statement(wait))]
            if any(s in deleting and script.program.inside(s, refusal.statement) for s in above):
                continue
            if any((refusal.statement, s) in met for s in above):
                continue  # as all have looked
            met.add((refusal.statement, script.program.statement(wait)))
            reason = "no process creates the folder that another one is still to look for"
            yield Change(NAME, script.path(wait), wait.lineno, reason, some)
        if not edits and refusal.statement not in noted:
            noted.add(refusal.statement)
            does = "stops here: check in the main process only"
            if not refusal.stops:
                does = "does something else here: look in one process, and broadcast what it finds"
            message = f"a later process finds the folder that another has just created, and {does}"
            yield Remark(NAME, script.path(refusal.statement), refusal.statement, message, Tier.REVIEW)


def _is_found_by_all(script: Script, make: ast.Call, waits: Collection[ast.Call]) -> bool:
    """Whether all processes come to some places, and none has made the folder before, by a writer of its own."""
    stored, ranks = script.written.stored, script.metrics.ranks
    for wait in waits:
        is_round = not ranks.rounds.isdisjoint(script.program.loops_round(wait))
        if is_round or ranks.running.loop_that_runs(script.program.frame(wait)) is not None:
            return False
    alone = (c for c in script.program.calls if c in script.written.guarding.covered)
    opened = [c for c in alone if script.effects.kinds.of(c) & _MAKING_FOLDERS and stored.is_before(c, make)]
    given = [g for c in opened for g in (*c.args, *(k.value for k in c.keywords))]
    return not any(stored.starts(g) and stored.may_hold(path_of(make), g) for g in given)


def _counting(script: Script, refusals: Refusals) -> Iterator[ast.Call]:
    """The calls by which the script counts up to a name that is free: `while os.path.exists(folder): ...`."""
    for call in script.program.calls:
        if script.program.frame(call) not in script.program.reachable or call in script.written.guarding.covered:
            continue
        is_question = refusals.asks(call) and refusals.counts_on(call)
        is_tried = _makes_a_folder(script, call) and refusals.counts_failures(call)
        if is_question or is_tried:
            yield call


def _choosing(script: Script, function: Scope) -> list[ast.Call]:
    """The calls of a function that gives a free name, and does nothing else but to create the folder."""
    summary = script.effects.of_function(function) if function.is_function else None
    written = summary.files_written if summary is not None else frozenset()
    only_gives = summary is not None and replace(summary, leaves=frozenset(), files_written=frozenset()).only_reads
    calls = script.program.calls_of(function) if only_gives and all(use.is_folder for use in written) else []
    kinds = [script.effects.kinds.of(call) for call in calls]
    is_sent = all(each & _NAMES and each <= _NAMES | {UNKNOWN} for each in kinds) and all(
        _may_agree(script, c, ()) for c in calls
    )
    return calls if is_sent else []


def _next_free(
    script: Script, counting: Collection[ast.Call], chosen: Mapping[Scope, list[ast.Call]]
) -> Iterator[Change | Remark]:
    """One name for all where the script looks for one that is free: what process 0 finds, or a note."""
    reason = "all processes use the name that process 0 finds free"
    for function, calls in chosen.items():
        is_alone = bool(script.effects.of_function(function).files_written)
        for call in calls:
            yield _one_name(script, call, (_FOUND, reason), (), is_alone=is_alone)
    for call in script.program.calls:
        is_library = code(call.func).rpartition(".")[2] == "increment_path" and script.path(call) in script.files
        is_library = is_library and not script.program.flow.callees.get(call) and script.program.is_run(call)
        if is_library and call not in script.written.guarding.covered:
            yield _one_name(script, call, (_FOUND, reason), (), is_alone=True)
        elif call in counting and script.program.frame(call) not in chosen:
            yield Remark(NAME, script.path(call), call, _FOUND, Tier.REVIEW)


def _one_name(
    script: Script,
    clock: ast.expr,
    about: tuple[str, str],
    settled: Collection[ast.stmt],
    *,
    is_alone: bool = False,
) -> Change | Remark:
    """A folder that is named for the time is one for each process whose clock says something else.

    settled: the statements that ask for files before any process makes them. is_alone: only process 0 may work it out.
    """
    message, reason = about
    path, root = script.path(clock), script.program.frame(clock).root
    speaker = script.accelerator(clock) or script.options.runtime.functions
    name = speaker.split(".")[0]
    is_function = script.accelerator(clock) is None
    if not _may_agree(script, clock, settled) or (is_function and name in root.writes):
        if script.options.runtime.has("broadcast_object_list"):
            message += f", as in `name = {speaker}.broadcast_object_list([name])[0]`"
        return Remark(NAME, path, clock, message, Tier.REVIEW)
    template = f"{{value}} if {script.state(clock)}.is_main_process else None" if is_alone else "{value}"
    spoken = Replace(clock, partial(snippets.agreed, speaker=speaker, template=template), (clock,), (name,))
    return Change(NAME, path, clock.lineno, reason, (spoken, *script.library_import(clock, speaker)))


def _may_agree(script: Script, clock: ast.expr, settled: Collection[ast.stmt]) -> bool:
    """Whether all processes come to a call, once, and can speak to each other there."""
    can_speak = script.options.runtime.has("broadcast_object_list") and not script.is_by_hand
    clocks = script.written.clocks
    can_be_sent = not clocks.is_temporary(clock) and not clocks.is_iterator(clock)
    if script.accelerator(clock) is None and comes_before_selection(script.access, clock):
        return False
    return can_speak and can_be_sent and _is_run_by_all(script, clock, settled)


def _is_run_by_all(script: Script, node: ast.AST, settled: Collection[ast.stmt] = ()) -> bool:
    """Whether a node is not under a condition, or in a loop, that may not be the same for all processes."""
    program, rounds = script.program, script.metrics.ranks.rounds

    def is_open(gate: Gate) -> bool:
        if gate.node in script.written.guarding.covered or gate.may_fail or any(n in rounds for n in gate.loops):
            return False
        asked = (*(c.test for c in gate.choices), *(n.iter for n in gate.loops))
        return all(_is_alike(script, test, settled) for test in asked)

    def is_entered(node: ast.AST) -> bool | None:
        frame = program.frame(node)
        if frame in script.reach.homes:
            return script.accelerator(node) is not None
        if frame.kind == "module":
            return script.run.starts(program, node)
        return None if frame.kind == "class" or program.calls_of(frame) else False

    return program.once(Ways).are_open(node, is_open, is_entered)


def _is_alike(script: Script, test: ast.expr, settled: Collection[ast.stmt]) -> bool:
    """Whether a condition is the same for all processes: nothing of one of them, and no call that may say anything."""
    rows = [script.effects.kinds.called(n) or () for n in ast.walk(test) if isinstance(n, ast.Call)]
    is_settled = script.program.statement(test) in settled
    are_known = (each and all(r.is_pure or (is_settled and r.has(Trait.LOOKS)) for r in each) for each in rows)
    return all(are_known) and not asks_for_one(test) and not script.metrics.ranks.is_own(test)


def made_anyway(call: cst.CSTNode) -> cst.BaseExpression:
    """`os.makedirs(path, exist_ok=True)`."""
    assert isinstance(call, cst.Call)
    function = call.func
    if isinstance(function, cst.Attribute) and call.args and call.args[0].keyword is None:
        function = function.with_changes(attr=cst.Name("makedirs"))
    listed = [a.with_changes(value=cst.Name("True")) if _is_exist_ok(a) else a for a in call.args]
    made = call.with_changes(func=function, args=listed)
    return made if any(map(_is_exist_ok, call.args)) else snippets.with_keyword(made, "exist_ok", cst.Name("True"))


def made_by_makedirs(call: cst.CSTNode) -> cst.BaseExpression:
    """`makedirs(path, exist_ok=True)` for `mkdir(path)`."""
    assert isinstance(call, cst.Call)
    return made_anyway(call.with_changes(func=cst.Name("makedirs")))


def _is_exist_ok(argument: cst.Arg) -> bool:
    return argument.keyword is not None and argument.keyword.value == "exist_ok"
