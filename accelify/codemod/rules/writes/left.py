"""Notes on what every process writes, as it cannot be guarded."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import partial

from accelify.codemod.edits.values import Remark
from accelify.codemod.files_written.guards.guarding import sets_up
from accelify.codemod.files_written.unread_code import UnreadCall
from accelify.codemod.libraries.row import Trait
from accelify.codemod.result import Tier
from accelify.codemod.rules.writes.uses import NAME, calls_with, is_command, made_paths, read_paths
from accelify.codemod.script import Script
from accelify.codemod.semantics.call_conditions import may_run
from accelify.codemod.semantics.effects.kinds import UNKNOWN, Kinds
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.semantics.values import Value

_MOST_LINES = 6


def written_by_all(script: Script) -> Iterator[Remark]:
    """One note for each function that writes on every process, or runs commands there that may."""
    left: dict[tuple[Scope, bool], list[ast.Call]] = {}
    temporary = _temporary(script)
    training = script.run.trained | script.program.run_from(_uncalled(script))
    written = filter(partial(_is_written_by_all, script, training), script.written.guarding.unguarded)
    for call in (*written, *filter(script.program.is_run, script.written.by_items)):
        frame = script.program.frame(call)
        places = map(script.written.guarding.uses.place_of, script.effects.of_call(call).paths_written)
        left.setdefault((frame, not temporary[frame].isdisjoint(places)), []).append(call)
    for call in filter(partial(_is_command_of_all, script), script.program.calls):
        left.setdefault((script.program.frame(call), False), []).append(call)
    for (_, is_temporary), calls in left.items():
        first = min(calls, key=script.program.position)
        named = ", ".join(dict.fromkeys(f"`{_written_by(script, c)}`" for c in calls))
        if message := _for_each(script, calls, is_temporary):
            about = named
        else:
            message, about = _once(script, calls), named + _beside(script, calls)
        tier = Tier.REVIEW if is_temporary else Tier.ADVICE
        yield Remark(NAME, script.path(first), first, f"{{}}: every process {message}", tier, about=about)


def _uncalled(script: Script) -> Iterator[Scope]:
    """The methods of classes that only code elsewhere trains with: it may call any of them."""
    for trainer in (s for s in script.run.leading if s.kind == "class"):
        methods = [m for m in trainer.children if m.kind == "function"]
        if not any(script.program.flow.callers.get(m) for m in methods if m in script.run.leading):
            yield from methods


def _is_written_by_all(script: Script, training: Collection[Scope], call: ast.Call) -> bool:
    """Whether no other rule speaks of what a call writes, and all processes that train write it."""
    if not _is_run_by(training, script, call) or _may_only_end(script, call):
        return False  # a script beside runs it, in one process; or nothing tells that it writes
    is_run = bool(calls_with(script, [call], Trait.BEGINS_RUN))  # of which the rule `experiments` has its own note
    if is_run or "tracker" in script.program.once(Kinds).of(call):
        return False  # it only connects to a server: what is shown there is guarded by itself, or has its own note
    is_opened = any(save.is_open for save in script.written.saves if save.call is call)
    is_path = script.program.names_only(call.func, "torch.save") and not is_opened
    guarding = script.written.guarding
    return not is_path and call not in guarding.handed_on and not guarding.is_of_main(call)


def _is_command_of_all(script: Script, call: ast.Call) -> bool:
    """Whether all processes run a command for what it does."""
    frame = script.program.frame(call)
    is_run = frame in script.run.run or (script.path(call) in script.files and frame in script.program.reachable)
    return (
        is_run
        and call not in script.written.guarding.covered
        and not script.written.guarding.cached.holds(call)
        and call not in script.written.guarding.locks.held
        and is_command(script, call)
        and not script.written.commands.is_run_for_its_output(call)
    )


def _for_each(script: Script, calls: list[ast.Call], is_temporary: bool) -> str | None:
    """What to do with files that no guard sees to: a file for each process, or the questions round it guarded, too."""
    place = script.place(min(calls, key=script.program.position))
    if all("environment" in script.program.once(Kinds).of(c) for c in calls):  # which each process needs
        return f"writes this: put `{place}.process_index` into the path"
    if is_temporary:
        return (
            "writes, reads and removes this file, which another may still need: put "
            f"`{place}.process_index` into its path, so that each has a file of its own"
        )
    if any(script.program.inside(c, s) for c in calls for s in script.written.guarding.decided):
        return (
            "reads this file and writes it, where another one may have written it between: "
            f"do both, with the condition round it, where `{place}.is_main_process`"
        )
    return None


def _once(script: Script, calls: list[ast.Call]) -> str:
    """How to write in one process what every one does."""
    first, is_run = min(calls, key=script.program.position), [is_command(script, c) for c in calls]
    if sets_up(first):
        return f"makes one, which writes; make and use it where `{script.state(first)}.is_main_process`"
    does = "runs this command" if all(is_run) else "writes this, or runs it" if any(is_run) else "writes this"
    kept = dict.fromkeys(name for c in calls if is_command(script, c) for name in _kept(script, c, calls))
    guarded = f"guard it, and what uses {', '.join(kept)}," if kept else "guard it"
    return f"{does}; to write once, {guarded} with `if {script.place(first)}.is_main_process:`"


def _beside(script: Script, calls: list[ast.Call]) -> str:
    """What else a guard by hand has to see to, in brackets."""
    runs_command = any(is_command(script, c) for c in calls)
    if runs_command or any(_is_read_later(script, c) for c in calls):
        state = script.state(min(calls, key=script.program.position))
        is_read = "another process reads what it makes" if runs_command else "this is read again"
        return f" (call `{state}.wait_for_everyone()` before {is_read})"
    if asked := dict.fromkeys(_asked_of_all(script, calls)):
        return f" (but evaluate {', '.join(asked)} before that, in all processes)"
    if kept := dict.fromkeys(name for c in calls for name in _kept(script, c, calls)):
        return f" (make {', '.join(kept)} `None` in the other processes, and check for `None` where it is used)"
    return ""


def _written_by(script: Script, call: ast.Call) -> str:
    """The name of what writes: a class whose base's constructor is run, or the function or method that is called."""
    owner = script.program.frame(call).parent
    return owner.name if sets_up(call) and owner is not None else ast.unparse(call.func).rpartition(".")[2]


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
    is_on_import = frame.kind != "function" or frame in script.program.run_on_import
    return frame in training or (is_on_import and script.path(call) not in {p.path for p in script.program.named})


def _temporary(script: Script) -> dict[Scope, set[object]]:
    """The places of the files that each function writes, and removes after that; none that it moves, and no folders."""
    place_of, found = script.written.guarding.uses.place_of, defaultdict[Scope, set[object]](set)
    for removal in calls_with(script, list(script.program.calls), Trait.REMOVES):
        frame = script.program.frame(removal)
        before = [c for c in script.program.calls_in(frame) if script.program.before(c, removal)]
        written = {place_of(p) for c in before for p in made_paths(script, c)}
        if not any(calls_with(script, [removal], trait) for trait in (Trait.REMOVES_FOLDERS, Trait.COPIES_FILE)):
            found[frame] |= written.intersection(map(place_of, script.effects.of_call(removal).paths_written))
    return found


def _is_read_later(script: Script, written: ast.Call) -> bool:
    """Whether a file that every process writes may be read afterwards, by the same names."""
    stored, paths = script.written.stored, script.effects.of_call(written).paths_written
    for call in script.program.calls:
        read = read_paths(script, call) if call is not written else []
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


def of_unknown_code(script: Script) -> Iterator[Remark]:
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


def of_unread_code(script: Script) -> Iterator[Remark]:
    """One note for each function that runs code which was not read and writes: where, and how to write once there."""
    found: dict[tuple[Scope, ast.Call | ast.arg], list[UnreadCall]] = {}
    for unread in script.written.unread:
        frame, owner = script.program.frame(unread.call), unread.call.func.value  # type: ignore[attr-defined]  # a method
        is_guarded = unread.call in script.written.guarding.covered
        is_torchs = script.prepared.is_model(owner) or any(
            map(partial(_is_for_training, script), script.program.values(owner))
        )
        if frame in script.run.run | script.run.trained and not is_guarded and not is_torchs:
            found.setdefault((frame, unread.picked), []).append(unread)
    for (_, picked), calls in found.items():
        first = min((unread.call for unread in calls), key=script.program.position)
        lines = list(dict.fromkeys(line for unread in calls for line in unread.writes))
        listed = ", ".join(lines[:_MOST_LINES]) + (", ..." if len(lines) > _MOST_LINES else "")
        named = ", ".join(dict.fromkeys(f"`{ast.unparse(c.call.func).rpartition('.')[2]}`" for c in calls))
        by = (
            f"`{picked.arg}` ({{0}}) is given by a caller"
            if isinstance(picked, ast.arg)
            else f"`{ast.unparse(picked.func)}` in {{0}} picks this by a name of run time"
        )
        message = (
            f"{{}}: {by}, so that its code was not read. Every process writes what it may write ({listed}): guard that "
            f"with `if {script.options.runtime.module}.PartialState().is_main_process:`"
        )
        place = ((script.path(picked), picked),)
        yield Remark(NAME, script.path(first), first, message, Tier.ADVICE, about=named, lines=(place,))


def _is_for_training(script: Script, value: Value) -> bool:
    """Whether a value is of a kind that torch has, which writes no files."""
    roles = script.roles
    kinds = (roles.is_optimizer, roles.is_scheduler, roles.is_loader, roles.is_module, roles.is_loss)
    return any(is_kind(value) for is_kind in kinds)


def blocking(script: Script) -> Iterator[Remark]:
    """Windows that only process 0 shows, before steps for which the others wait until one has closed them.

    A notebook shows figures in the page, and goes on. A switch that no call sets, `visualize=False`, shows none.
    """
    is_in_page = any(parsed.decoded.notebook is not None for parsed in script.program.named)
    if is_in_page or calls_with(script, script.program.calls, Trait.UNBLOCKS):
        return
    shown = [c for c in script.program.calls if c in script.written.guarding.covered and _waits_for_user(c)]
    for call in calls_with(script, shown, Trait.BLOCKS):
        if may_run(script.program, call) and any(
            script.written.stored.is_before(call, backward) for backward in script.training.backwards
        ):
            message = (
                "only process 0 shows this: the others wait at the next step until its window is closed, and fail when "
                "the timeout of collectives is over: save the figure instead"
            )
            yield Remark(NAME, script.path(call), call, message, Tier.ADVICE)


def _waits_for_user(call: ast.Call) -> bool:
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "block")]
    return not any(isinstance(g, ast.Constant) and g.value is False for g in given)


def of_items(script: Script) -> Iterator[Remark]:
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
