"""The facts of files that rules read: what is written, by which process, and what is read again."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from accelify.codemod.files.exemptions import exemption
from accelify.codemod.files_written.caches import Caches
from accelify.codemod.files_written.clocks import Clocks
from accelify.codemod.files_written.existence_checks import ExistenceChecks
from accelify.codemod.files_written.going_first import GoingFirst
from accelify.codemod.files_written.guards.asking import Asking
from accelify.codemod.files_written.guards.commands import Commands
from accelify.codemod.files_written.guards.guarding import Guarding
from accelify.codemod.files_written.guards.locks import Locks
from accelify.codemod.files_written.loader_data import LoaderData
from accelify.codemod.files_written.meetings import Meetings
from accelify.codemod.files_written.one_process import OneProcess
from accelify.codemod.files_written.own_paths import OwnPaths
from accelify.codemod.files_written.paths import Files
from accelify.codemod.files_written.unread_code import UnreadCall, UnreadCode
from accelify.codemod.libraries.row import Trait
from accelify.codemod.metrics.ranks.rank import Ranks
from accelify.codemod.options import Options, Runtime
from accelify.codemod.preparing.placing import Access
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.scopes import Scope
from accelify.codemod.training.facts import Run
from accelify.codemod.training.roles import Roles


@dataclass(frozen=True, slots=True)
class Save:
    """A call of `torch.save`.

    saver: what has the `save` there: the accelerator, or the library where that does not reach; None where neither can,
    and for a file that is open already, to which those write that have opened it. is_open: whether it is.
    """

    call: ast.Call
    saver: str | None
    is_open: bool


@dataclass(frozen=True, slots=True)
class Written:
    """The table.

    guarding: what one process alone is to write; a script that distributes
    itself has decided that by itself. stored: which files are written, and read after that. saves: the calls of
    `torch.save`. saver: what has the `save` for a place: the accelerator, or the library where that does not reach;
    None where neither can. clocks: the calls that read the time into a path, or what else differs between processes.
    commands: those that only touch files, and those that are run for what they print. meetings: the waits after which
    all processes find the same files.
    made_unknown: the calls that make data sets by code that may download, or process files. by_items: those that write,
    while a loader makes its items, to a file of one name for all of these. unread: those that write by code
    of the project that a name of run time picks.
    """

    guarding: Guarding
    stored: Files
    saves: tuple[Save, ...]
    saver: Callable[[ast.Call], str | None]
    clocks: Clocks
    commands: Commands
    meetings: Meetings
    made_unknown: frozenset[ast.Call]
    by_items: frozenset[ast.Call]
    unread: tuple[UnreadCall, ...]


def written_of(
    roles: Roles,
    ranks: Ranks,
    files: frozenset[str],
    access: Access,
    run: Run,
    options: Options,
    backwards: Collection[ast.Call],
    together: Collection[ast.AST] | None,
    passes: Collection[ast.AST],
) -> Written:
    """The table of some files; `together` is what the processes do together, None in a script that says so itself.

    passes: the prepared loaders, where code goes over them.
    """
    by_hand, runtime = together is None, options.runtime
    program, effects, tracer = ranks.program, ranks.chains.effects, ranks.chains.tracer
    one = OneProcess(program, roles, effects, set(files), access.at)
    own_paths = OwnPaths(one, ranks)
    written = () if by_hand else filter(own_paths.is_written, program.calls)
    own = {call: own_paths.common_calls(call) for call in written}
    data, clocks, locks = LoaderData(program, roles), Clocks(program, tracer), Locks(program)
    own.update((c, frozenset()) for c in program.calls if not by_hand and _removes_its_own(effects, clocks, c))
    own.update((c, frozenset()) for c in program.calls if not by_hand and program.frame(c) in data.items)
    own.update((c, frozenset()) for c in program.calls if not by_hand and c in locks.held)
    saver, stored = _Saver(program, access, run, runtime, by_hand).of, Files(program, tracer)
    reached = run.run | run.trained
    saves = tuple(
        Save(call, None if (is_open := one.writes_to_open_file(call)) else saver(call), is_open)
        for call in program.calls
        if program.names_only(call.func, "torch.save")
        and call not in own
        and (program.path(call) in files or program.frame(call) in reached)
        and effects.of_call(call).files_written
    )
    saved = frozenset(save.call for save in saves if save.saver is not None)
    alone = OneProcess(
        program, roles, effects, set() if by_hand else set(files), access.at, saved, {w for w in own if own[w]}
    )
    name = runtime.module.split(".")[0]
    asked = frozenset() if by_hand else reached - run.beside
    alone_asked = (
        asked | (_on_import(program) - run.beside) if not by_hand and runtime.has("Environment") else frozenset()
    )
    free, free_alone = (frozenset(f for f in s if name not in f.root.writes) for s in (asked, alone_asked))
    asking = Asking(program, access, run, free, free_alone, clocks)
    checks = ExistenceChecks(effects, stored)
    going = GoingFirst(alone, checks, together or (), () if by_hand else passes, asking.holds, ranks.is_own)
    caches = Caches(going, stored, locks.held)
    commands = Commands(ranks)
    left_out = [*_left_out(program, files, options), *commands.left_out()]
    guarding = Guarding(alone, stored, caches, own, left_out, data.run_by_library, asking, locks)
    meetings = Meetings(ExistenceChecks(effects, stored, backwards), guarding, access, saver, ranks, data.items)
    made = frozenset[ast.Call]() if by_hand else data.calls
    items = () if by_hand else (c for c in program.calls if program.frame(c) in data.items and c not in locks.held)
    shared = frozenset(c for c in items if alone.writes(c) and own_paths.is_for_all_items(c))
    unread = () if by_hand or not options.follow else UnreadCode(program).calls()
    return Written(guarding, stored, saves, saver, clocks, commands, meetings, made, shared, tuple(unread))


def _removes_its_own(effects: Effects, clocks: Clocks, call: ast.Call) -> bool:
    """Whether a call removes a temporary file or folder, which each process has made for itself."""
    is_removal = any(row.has(Trait.REMOVES) for row in effects.kinds.called(call) or ())
    paths = effects.of_call(call).paths_written if is_removal else []
    return bool(paths) and all(map(clocks.is_own, paths))


def _on_import(program: Program) -> set[Scope]:
    """The modules of scripts and of what they import, and the functions that run as these are imported.

    Not a notebook's cells: its kernel is not one of the processes, which have what it has opened.
    """
    parsed = (p for p in program.files if p.decoded.notebook is None)
    return {program.flow.bindings[p.path].root for p in parsed} | program.run_on_import


def _left_out(program: Program, files: frozenset[str], options: Options) -> Iterator[ast.stmt]:
    """The statements that the user does not want to be guarded."""
    for parsed in map(program.flow.parsed_of.__getitem__, files):
        for node in parsed.nodes:
            if isinstance(node, ast.stmt) and exemption(parsed, "writes", node.lineno, options.selection):
                yield node


@dataclass(frozen=True, slots=True)
class _Saver:
    program: Program
    access: Access
    run: Run
    runtime: Runtime
    by_hand: bool

    def of(self, call: ast.Call) -> str | None:
        """The object whose `save` writes at a place: the accelerator, or the library."""
        frame = self.program.frame(call)
        accelerator = self.access.at(call)
        if accelerator is not None or self.access.reach.expression(frame) is not None:
            return accelerator
        library = self.runtime.functions
        is_past = frame.kind == "module" and not self._is_past_training(call)
        return None if is_past or self.by_hand or library.split(".")[0] in frame.root.writes else library

    def _is_past_training(self, call: ast.Call) -> bool:
        """Whether a module trains above a call: `trainer.fit()` and then `torch.save(trainer.model, path)`."""
        frame = self.program.frame(call)
        calls = self.program.calls_in(frame) if frame.kind == "module" else []
        above = [c for c in calls if self.program.before(c, call)]
        return any(callee in self.run.leading for c in above for callee in self.program.flow.callees.get(c, ()))
