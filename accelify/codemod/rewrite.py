"""The pipeline: source -> parse -> analysis -> Script -> rules -> Plan -> apply -> gates -> Result. Read this first."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from accelify.codemod.edits.values import Facts, Obstacle, Plan, no_facts
from accelify.codemod.files.cells import placed
from accelify.codemod.files.disk import Disk
from accelify.codemod.files.parse import Parsed, encoded, parse, remedy
from accelify.codemod.files.project import IMPORTING, Project, absolute
from accelify.codemod.files.source import may_train
from accelify.codemod.libraries import methods, names, vocabulary
from accelify.codemod.options import Options
from accelify.codemod.planning import records
from accelify.codemod.result import FileResult, Note, Status, Tier, failed, joined, notes_in_order
from accelify.errors import CannotParse, FileError

if TYPE_CHECKING:
    from accelify.codemod.planning.launcher_pass import LauncherPass
    from accelify.codemod.semantics.program import Program

_MOST_CALLERS = 4
_BESIDE = (".spawn(", "Process(", "Thread(", "Pool", "Parallel(")
_STARTS = ("init_process_group", ".spawn(")
_OF_TRAINING = (".backward", "autograd.grad(")
_READS_BY_NAME = (*IMPORTING, "hydra")
_PICKS_BY_NAME = "|".join((*_READS_BY_NAME, r" eval\(", r"globals\(\)", r"""['"][\w.]+\.[A-Z]\w*['"]"""))

__all__ = ["Options", "edited", "rewrite_source", "rewrite_together"]


def rewrite_together(paths: tuple[str, ...], options: Options, disk: Disk | None = None) -> tuple[FileResult, ...]:
    """Rewrite files that belong to one program; other files of the project that had to change with them follow.

    disk: remembers what was asked of it, for whoever wants to know whether all of it is still so.
    """
    project = Project(disk=disk)
    results: dict[str, FileResult] = {}
    named: list[Parsed] = []
    options = replace(options, selection=replace(options.selection, named=frozenset(paths)))
    for path in paths:
        try:
            data = project.disk.read(path)
            if not may_train(data) and not (options.follow and _leads_to_training(path, data, project)):
                results[path] = FileResult(path, Status.UNCHANGED, data, data)
            elif (parsed := project.load(path)).suppressions.of_file is not None:
                results[path] = _skipped(parsed)
            else:
                named.append(parsed)
        except FileError as error:  # noqa: PERF203  # one bad file does not stop the rest
            results[path] = failed(error)
    for result in placed(_all(named, project, options), project.notebooks()):
        results[result.path] = _finished(result, options)
    order = {path: index for index, path in enumerate(paths)}
    return tuple(sorted(results.values(), key=lambda r: (order.get(r.path, len(order)), r.path)))


def _leads_to_training(path: str, data: bytes, project: Project) -> bool:
    """Whether a file without a training loop may run that of another: imported, perhaps by a name of run time."""
    if project.leads_to_training(path, _OF_TRAINING):
        return True
    is_here = any(word.encode() in data for word in _READS_BY_NAME)
    is_by_name = is_here or project.leads_to_training(path, _READS_BY_NAME)
    return is_by_name and bool(project.having(path, ".backward("))


def _all(named: Sequence[Parsed], project: Project, options: Options) -> list[FileResult]:
    """Rewrite files as one program or, where that cannot be, each of the programs among them by itself."""
    together = _rewrite(named, project, options)
    if len(named) == 1 or not any(r.status is Status.DECLINED for r in together):
        return together
    return (
        SeparatePrograms(named, project, options.follow, lambda p: _rewrite([p], project, options)).results()
        or together
    )


def rewrite_source(path: str, data: bytes, options: Options) -> FileResult:
    """Rewrite one file given as bytes; `path` only names it."""
    project = Project({path: data})
    try:
        named = [project.load(path)]
    except FileError as error:
        return failed(error)
    if named[0].suppressions.of_file is not None:
        return _skipped(named[0])
    results = placed(_rewrite(named, project, replace(options, follow=False)), project.notebooks())
    return _finished(next(r for r in results if r.path == path), options)


def _skipped(parsed: Parsed) -> FileResult:
    """The result of a file that a comment leaves alone."""
    comment = parsed.suppressions.of_file
    assert comment is not None
    because = f"left alone because of `{comment.text}` in line {comment.line}"
    return FileResult(parsed.path, Status.UNCHANGED, parsed.data, parsed.data, because=because)


def _finished(result: FileResult, options: Options) -> FileResult:
    """A result without the notes that the settings leave out, and with those apart that nobody has to read.

    Those of a declined file are its reasons.
    """
    if result.status is Status.DECLINED:
        return result
    notes = tuple(n for n in result.notes if options.selection.leaves_out(n.rule, result.path) is None)
    kept = tuple(n for n in notes if n.tier is Tier.INFO)
    return replace(result, notes=tuple(n for n in notes if n not in kept), kept=kept)


def _setting_up(named: Sequence[Parsed], project: Project, options: Options) -> list[Parsed]:
    """The scripts that import some files, and those that import them in turn while all of them still wait for others.

    An importer may only have a class that inherits from theirs, or a function that makes an object of it.
    """
    found = project.importers(named)
    while 0 < len(found) < _MOST_CALLERS and (further := project.importers([*named, *found])):
        together = [*named, *found]
        made = _plan(project.program(together, options.follow), project, together, options)
        if made is None or not made.waits or len(found) + len(further) > _MOST_CALLERS:
            break
        found += further
    return found


def _with_callers(
    named: Sequence[Parsed], callers: Sequence[Parsed], project: Project, options: Options
) -> list[FileResult]:
    """Rewrite files and the scripts that set up what they train as one program, or leave all of them alone."""
    listed = ", ".join(sorted(c.path for c in callers))
    if not options.follow:
        message = f"the model that this trains is set up in {listed}: name that file too, or leave out `--no-follow`"
        return _declined(named, [Obstacle("callers", p.path, p.tree, message) for p in named], project=project)
    if len(callers) > _MOST_CALLERS:
        message = (
            f"the model that this trains is set up in several files ({listed}): name those that are to be migrated too"
        )
        return _declined(named, [Obstacle("callers", p.path, p.tree, message) for p in named], project=project)
    results = _rewrite([*named, *callers], project, options, with_callers=False)
    if not any(r.status is Status.DECLINED for r in results):
        return results
    own = {p.path for p in named}
    note = Note(
        1,
        "callers",
        Tier.ADVICE,
        f"the model that this trains is set up in {listed}, which would have to change with it",
    )
    return [replace(r, notes=(*r.notes, note)) for r in results if r.path in own]


def _rewrite(
    named: Sequence[Parsed],
    project: Project,
    options: Options,
    with_callers: bool = True,
    may_start_processes: bool = True,
) -> list[FileResult]:
    """Rewrite the named files as one program, with the scripts that set up what they train, if others do.

    may_start_processes: whether the script may start its processes itself.
    """
    if not named:
        return []
    unchanged = _unchanged(named)
    files = project.program(named, options.follow)
    if any(p.is_migrated for p in named):
        return _from_accelerate(files, project, named, options) or unchanged
    if not _may_train(files):
        return _from_accelerate(files, project, named, options) or _trained_unread(files, project, named)
    first = _launcher_pass(files, project, named, options) if may_start_processes else None
    if isinstance(first, Plan):
        results = _rewrite(named, project, options, with_callers, may_start_processes=False)
        return _declined(named, first.obstacles, found=results, project=project)
    if first is not None:
        return first.results(_rewrite(first.named, first.project, options, with_callers, may_start_processes=False))
    made = _plan(files, project, named, options)
    if made is None:
        return _from_accelerate(files, project, named, options) or _trained_unread(files, project, named)
    if made.obstacles and project.has_picked(files):  # which may stand in code that the user does not pick
        results = _rewrite(named, project.without_picked(), options, with_callers, may_start_processes)
        if not any(r.status is Status.DECLINED for r in results):
            return results
    if made.is_trial and (trainers := [c.path for c in project.importers(named) if ".backward" in c.text]):
        message = (
            f"the main block of this file is only a quick test; the training is in {', '.join(trainers)}: name "
            "that file"
        )
        return [replace(u, notes=(Note(1, "callers", Tier.ADVICE, message),)) for u in unchanged]
    callers = _setting_up(named, project, options) if made.waits and with_callers else []
    if len(callers) > _MOST_CALLERS:  # a module that many notebooks try out need not wait for them
        callers = [c for c in callers if c.decoded.notebook is None]
    if callers and not (len(callers) > _MOST_CALLERS and made.stands_alone):
        return _with_callers(named, callers, project, options)
    obstacles = made.obstacles or (_started_elsewhere(named, project, options) if with_callers else ())
    if obstacles:
        return _declined(named, obstacles, made.evidence, project=project)
    results = _carried_out(made, files, project, named, options)
    if any(r.status is Status.DECLINED for r in results):
        return results
    return _with_outside_callers(results, made, files, named, project, options)


def _trained_unread(files: Sequence[Parsed], project: Project, named: Sequence[Parsed]) -> list[FileResult]:
    """The named files as they are, with the files that train and could not be read, or that only a name leads to."""
    notes = _in_broken_files(files, project)
    is_trained = any(".backward(" in parsed.text for parsed in files if parsed not in named)
    if not notes and (is_trained or any(re.search(_PICKS_BY_NAME, parsed.text) for parsed in files)):
        from accelify.codemod.semantics.program import Program  # few scripts need it
        from accelify.codemod.training.modes import only_evaluates

        program = Program(files, project, named)
        if not only_evaluates(program):
            notes = _imported_by_name(program) or _made_by_settings(program) or _picked_by_name(program)
    notes = notes or _given_own_gradients(files)
    others = [f for f in files if f.path in notes and f not in named]
    see = f"nothing to migrate was found: see the note in {' and '.join(f.path for f in others)}" if others else ""
    results = [replace(u, notes=notes.get(u.path, ())) for u in _unchanged([*named, *others])]
    return [r if r.notes else replace(r, because=r.because or see) for r in results]


def _in_broken_files(files: Sequence[Parsed], project: Project) -> dict[str, tuple[Note, ...]]:
    """The notes on imports of files that train and cannot be parsed, by the paths of those that import them."""
    found: dict[str, tuple[Note, ...]] = {}
    is_torch = any("torch" in parsed.text for parsed in files)
    for parsed in files:
        for node, error in project.unreadable(parsed):
            if project.disk.has(error.path, ".backward(") and (is_torch or project.disk.has(error.path, "torch")):
                message = f"this imports a file that trains and cannot be parsed ({error}): {remedy(error)}"
                note = Note(parsed.statement(node).lineno, "callers", Tier.ADVICE, message)
                found[parsed.path] = (*found.get(parsed.path, ()), note)
    return found


def _given_own_gradients(files: Sequence[Parsed]) -> dict[str, tuple[Note, ...]]:
    """The notes on optimizers that step by gradients which a file without backward passes computes itself."""
    notes: dict[str, tuple[Note, ...]] = {}
    message = (
        "the gradients of this training come from `torch.autograd.grad`, not from `backward`, so that nothing was "
        "migrated: each of N processes would train the same alone. Compute them with `backward`, and migrate again"
    )
    for parsed in files:
        is_so = all(sign in parsed.text for sign in (".grad =", "autograd", ".step("))
        assigned = (
            (n for n in parsed.nodes if isinstance(n, ast.Assign) and ast.unparse(n.value) != "None") if is_so else ()
        )
        lines = [n.lineno for n in assigned if getattr(n.targets[0], "attr", None) == "grad"]
        notes |= {parsed.path: (Note(min(lines), "backward", Tier.ADVICE, message),)} if lines else {}
    return notes


def _imported_by_name(program: Program) -> dict[str, tuple[Note, ...]]:
    """The notes on imports, by names made at run time, of files that train, by the paths of those that import them."""
    from accelify.codemod.semantics.provenance import imported_by_name

    notes: dict[str, tuple[Note, ...]] = {}
    for call, paths in imported_by_name(program, ".backward("):
        message = (
            f"the training is in {', '.join(sorted(paths))}, imported by a name that is made only at run time, so that "
            "it was not followed: name the file that you use as well"
        )
        note = Note(program.line(call), "callers", Tier.ADVICE, message)
        notes[program.path(call)] = (*notes.get(program.path(call), ()), note)
    return notes


def _made_by_settings(program: Program) -> dict[str, tuple[Note, ...]]:
    """The note on a call that may make what trains, by the path of its file."""
    from accelify.codemod.semantics.provenance import named_by_settings

    for call, paths in named_by_settings(program, ".backward("):
        listed = ", ".join(sorted(paths)[:_MOST_CALLERS]) + (", ..." if len(paths) > _MOST_CALLERS else "")
        is_import = any(map(names.runs_code, program.called(call)))
        does = "imports what is named only at run time" if is_import else "makes what a configuration names"
        message = (
            f"`{ast.unparse(call.func)}` {does}, so that its file was not read: if that trains, name its file as well "
            f"({listed})"
        )
        return {program.path(call): (Note(program.line(call), "callers", Tier.ADVICE, message),)}
    return {}


def _picked_by_name(program: Program) -> dict[str, tuple[Note, ...]]:
    """The note on a call of what `eval` picks, which may train, by the path of its file."""
    from accelify.codemod.semantics.provenance import chosen_among_variables

    for call, paths in chosen_among_variables(program, ".backward("):
        message = (
            "what is called here is picked by a name that is known only at run time: if it trains, name the file that "
            f"you use as well ({', '.join(sorted(paths))})"
        )
        return {program.path(call): (Note(program.line(call), "callers", Tier.ADVICE, message),)}
    return {}


def _may_train(files: Sequence[Parsed]) -> bool:
    """Whether something is trained, and by torch as far as anyone can see."""
    is_other = not any("torch" in f.text for f in files) and any(vocabulary.may_differentiate(f.text) for f in files)
    return not is_other and any(".backward" in f.text for f in files)


def _from_accelerate(
    files: Sequence[Parsed], project: Project, named: Sequence[Parsed], options: Options
) -> list[FileResult]:
    """The results for a program that uses Hugging Face Accelerate; none where there is nothing of it to change."""
    if not any(f.run_by == "accelerate" for f in files):
        return []
    from accelify.codemod.planning.accelerate_pass import plan_from_accelerate  # most files have nothing to do with it

    made = plan_from_accelerate(files, project, named, options)
    if made.obstacles:
        return _declined(named, made.obstacles, project=project)
    return _carried_out(made, files, project, named, options) if made.changes else []


def _carried_out(
    made: Plan, files: Sequence[Parsed], project: Project, named: Sequence[Parsed], options: Options
) -> list[FileResult]:
    """The results of a plan that nothing stands in the way of; declined where one does not pass a gate."""
    by_path = {p.path: p for p in files}
    results, failures = [], []
    lines: dict[str, Callable[[int], int]] = {}
    for path in sorted({c.path for c in made.changes}):
        outcome = edited(by_path[path], made)
        if isinstance(outcome, str):
            failures.append(Obstacle("gate", path, by_path[path].tree, outcome))
        else:
            result, lines[path] = outcome
            results.append(result)
    if not failures and _would_change_again(files, results, named, project, options):
        failures.append(Obstacle("gate", named[0].path, named[0].tree, "a second run would change the result again"))
    if failures:
        return _declined(named, failures, project=project)
    results = [replace(r, notes=notes_in_order(records.notes_of(made, r.path, lines))) for r in results]
    changed = {r.path for r in results}
    noted = {r.path: r for r in records.noted(made, changed, {p: f.data for p, f in by_path.items()}, lines)}
    for parsed in named:
        if parsed.path not in changed:
            left = _beside_what_changes(parsed, changed, project, options)
            noted[parsed.path] = joined(left, noted.get(parsed.path, left))
    return [*results, *noted.values()]


def _beside_what_changes(parsed: Parsed, changed: Collection[str], project: Project, options: Options) -> FileResult:
    """The result of a file that stays as it is, while what it imports may change."""
    imported = sorted({f.path for f in project.program([parsed], options.follow)}.intersection(changed))
    because = f"what changes is in the files that it imports: {', '.join(imported)}" if imported else parsed.next_step
    return FileResult(parsed.path, Status.UNCHANGED, parsed.data, parsed.data, because=because)


def _unchanged(named: Sequence[Parsed]) -> list[FileResult]:
    return [FileResult(p.path, Status.UNCHANGED, p.data, p.data, because=p.next_step) for p in named]


def _started_elsewhere(named: Sequence[Parsed], project: Project, options: Options) -> list[Obstacle]:
    """Scripts that import these files and run their training in processes or threads which they start."""
    importers = [i for i in project.importers(named) if any(sign in i.text for sign in _BESIDE)]
    plans = [(i.path, _plan(project.program([i], options.follow), project, [i], options)) for i in importers]
    found = sorted(path for path, made in plans if made and any(o.rule == "distributed" for o in made.obstacles))
    message = f"{' and '.join(found)}: trains with this file in separate processes or threads"
    return [Obstacle("distributed", named[0].path, named[0].tree, message)] if found else []


def _with_outside_callers(
    results: list[FileResult],
    made: Plan,
    files: Sequence[Parsed],
    named: Sequence[Parsed],
    project: Project,
    options: Options,
) -> list[FileResult]:
    """The results with those of files that call what changes as it was; else with notes on these files."""
    from accelify.codemod.planning.outside_callers import (
        as_called_before,
        outside_callers,
        passed_the_accelerator,
        trained_outside,
    )

    outside = outside_callers(made, files, project)
    others = list({parsed.path: parsed for called in outside for parsed in called.by}.values())
    if options.follow and 0 < len(others) <= _MOST_CALLERS:
        together = _rewrite([*named, *others], project, options, with_callers=False)
        migrated = {r.path for r in together if r.status is Status.MIGRATED}
        if migrated.issuperset([*(r.path for r in results if r.status is Status.MIGRATED), *(p.path for p in others)]):
            return together
    still = trained_outside(made, files, project, outside)
    if not outside:
        return _carried_out(as_called_before(made, (), still), files, project, named, options) if still else results
    asking = replace(options, called_outside=passed_the_accelerator(made, outside))
    again = _plan(files, project, named, asking) if asking.called_outside and options.runtime.has("current") else None
    if again is None or again.obstacles:
        return _carried_out(as_called_before(made, outside, still), files, project, named, options)
    still = trained_outside(again, files, project, outside)
    noted = as_called_before(again, outside_callers(again, files, project), [*outside, *still])
    return _carried_out(noted, files, project, named, asking)


def _launcher_pass(
    files: Sequence[Parsed], project: Project, named: Sequence[Parsed], options: Options
) -> LauncherPass | Plan | None:
    if not any(sign in f.text for f in files for sign in _STARTS):
        return None
    from accelify.codemod.planning.launcher_pass import hand_start_to_launcher  # few files that get here need it

    return hand_start_to_launcher(files, project, named, options)


def _would_change_again(
    files: Sequence[Parsed], results: Sequence[FileResult], named: Sequence[Parsed], project: Project, options: Options
) -> bool:
    """Whether a second run over the results would change something."""
    after = {r.path: r.after for r in results}
    project = Project({f.path: after.get(f.path, f.data) for f in files}, project.disk)
    again = [project.load(p.path) for p in named]
    if any(p.is_migrated for p in again):
        return False
    made = _plan(project.program(again, options.follow), project, again, options)
    return made is not None and bool(made.changes) and not made.obstacles


def _plan(files: Sequence[Parsed], project: Project, named: Sequence[Parsed], options: Options) -> Plan | None:
    from accelify.codemod.planning.plan import plan_for  # most files that get here have no training loop

    made = plan_for(files, project, named, options)
    if made is not None and any(r.loaded is not None for r in made.remarks):
        from accelify.codemod.planning.outside_callers import name_readers  # few scripts need it

        name_readers(made, named, project)
    return made


def _declined(
    named: Sequence[Parsed],
    obstacles: Sequence[Obstacle],
    evidence: Facts = no_facts,
    found: Sequence[FileResult] = (),
    *,
    project: Project,
) -> list[FileResult]:
    """Leave the named files alone; `found` are results with reasons that have been given before."""
    results = []
    for parsed in named:
        notes = [n for r in found if r.path == parsed.path and r.status is Status.DECLINED for n in r.notes]
        notes += records.reasons(obstacles, parsed.path, evidence, partial(project.import_line, parsed))
        data, told = parsed.data, notes_in_order(notes)
        results.append(FileResult(parsed.path, Status.DECLINED, data, data, notes=told))
    return results


def edited(parsed: Parsed, made: Plan) -> tuple[FileResult, Callable[[int], int]] | str:
    """The new file, with what gives the line that an old one has become; or the gate that it did not pass."""
    from accelify.codemod.edits import gates
    from accelify.codemod.edits.apply import apply
    from accelify.codemod.files.lines import line_after

    try:
        applied = apply(parsed, made.of(parsed.path))
        data = encoded(parsed, applied.text)
    except CannotParse as error:
        return error.reason
    trouble = (
        gates.compiles(parsed, applied.text)
        or gates.makes_every_edit(applied)
        or gates.means_the_plan(applied)
        or gates.keeps_the_rest(applied)
        or gates.keeps_comments(applied)
        or gates.binds_its_names(parsed, applied.text, made.kept)
        or gates.edits_cells_only(parsed, applied, data)
    )
    if trouble is not None:
        return records.fault(trouble)
    text = applied.text if parsed.decoded.notebook is None else parse(parsed.path, data).text
    changes = records.changes_in_order(records.changes_of(made, parsed.path, applied.dropped))
    return FileResult(parsed.path, Status.MIGRATED, parsed.data, data, changes), line_after(parsed.text, text)


Rewrite = Callable[[Parsed], list[FileResult]]


class SeparatePrograms:
    """The programs of some files: those that no other of them imports, each with what it imports."""

    def __init__(self, named: Sequence[Parsed], project: Project, follow: bool, rewrite: Rewrite) -> None:
        self._named = {absolute(p.path): p for p in named}
        self._programs = {
            key: {absolute(f.path) for f in project.program([p], follow)} for key, p in self._named.items()
        }
        self._rewrite = rewrite
        self._found: dict[str, FileResult] = {}

    def results(self) -> list[FileResult] | None:
        """The results for all files; None where one program would change a file that another needs as it was."""
        entries = [key for key in self._named if not self._importers(key)]
        for key in entries:
            if not self._take(key):
                return None
        for key in self._named:
            if key in self._found:
                continue
            left = [i for i in self._importers(key) if self._status(i) is Status.DECLINED]
            if left and ".backward" in self._named[key].text:
                self._found[key] = _left(self._named[key], self._named[left[0]].path)
            elif not self._take(key):
                return None
        return list(self._found.values()) if entries and self._fits() else None

    def _importers(self, key: str) -> list[str]:
        return [other for other, files in self._programs.items() if key in files and other != key]

    def _status(self, key: str) -> Status | None:
        return self._found[key].status if key in self._found else None

    def _take(self, key: str) -> bool:
        """Take in what becomes of one program; whether that goes with what became of the others."""
        for result in self._rewrite(self._named[key]):
            at = absolute(result.path)
            known = self._found.get(at)
            if at in self._named:
                result = replace(result, path=self._named[at].path)
            if known is None or known.status is Status.UNCHANGED:
                is_same = known is not None and result.status is Status.UNCHANGED
                self._found[at] = joined(result, known) if known and is_same else result
            elif result.status is Status.MIGRATED and known.after != result.after:
                return False
        return True

    def _fits(self) -> bool:
        """Whether every program can use what others have changed of its files."""
        changed = {at: result for at, result in self._found.items() if result.status is Status.MIGRATED}
        for key, files in self._programs.items():
            if self._status(key) is not Status.MIGRATED:
                for at in (files & changed.keys()) - {key}:
                    if _relied_on(at, changed[at].before) != _relied_on(at, changed[at].after):
                        return False
        return True


def _left(parsed: Parsed, importer: str) -> FileResult:
    note = Note(1, "callers", Tier.ADVICE, f"{importer} trains with this, and cannot be migrated")
    return FileResult(parsed.path, Status.DECLINED, parsed.data, parsed.data, notes=(note,))


def _relied_on(path: str, data: bytes) -> tuple[list[tuple[str, str]], int]:
    """What callers of a file rely on: how its functions are to be called, and that it moves what they give it."""
    nodes = list(ast.walk(parse(path, data).tree))
    functions = (n for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    called = (n.func.attr for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
    return [(function.name, ast.dump(function.args)) for function in functions], sum(map(methods.moves, called))
