"""Many files at once: what need not be parsed is not, what belongs together stays so, and what fails fails alone."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accelify.codemod.cache import Cache, packed, unpacked
from accelify.codemod.files import discover, source
from accelify.codemod.files.disk import Disk, Question
from accelify.codemod.libraries import vocabulary
from accelify.codemod.result import FileResult, Problem, Status, failed, joined
from accelify.errors import CannotRead, CannotWrite, FileError
from accelify.workers import Failure, Result, Task, available_cores, run_here, run_many

if TYPE_CHECKING:
    from accelify.codemod.check import CheckOptions
    from accelify.codemod.files.project import Project
    from accelify.codemod.rewrite import Options

# The results of files that are rewritten together: all of the migrated ones are written, or none is.
Program = tuple[FileResult, ...]
Paths = tuple[str, ...]
Asked = dict[Question, str]  # what was asked of the disk, and the answers
NO_CACHE = Cache(None)
_Checked = list[Program | Failure]

_SHARING = 16  # files that are checked one after the other, sharing what they import
_PARSED_AT_ONCE = 512  # files of which only that they are Python has to be known
_OBJECTS = 100_000  # so many new ones between two collections of the youngest


@dataclass(frozen=True, slots=True)
class Batch:
    """The outcome for every file; nothing is written yet.

    order: where each path stands in what the user named.
    only_named: every file was named by the user, none was found in a folder.
    tracebacks: those of errors that we did not foresee.
    """

    programs: tuple[Program, ...]
    order: dict[str, int]
    only_named: bool = True
    tracebacks: tuple[str, ...] = ()

    def results(self) -> list[FileResult]:
        """All of them, in the user's order; a file that was not named comes with the first one that it belongs to."""
        placed: list[tuple[int, FileResult]] = []
        for program in self.programs:
            first = min(self.order.get(result.path, len(self.order)) for result in program)
            placed += [(self.order.get(result.path, first), result) for result in program]
        return [result for _, result in sorted(placed, key=lambda item: item[0])]


def rewrite_paths(
    paths: Sequence[str],
    options: Options,
    jobs: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    exclusion: discover.Exclusion = discover.USUAL,
    cache: Cache = NO_CACHE,
) -> Batch:
    """Rewrite the files that the paths mean; `progress` is called with the number of programs done, and of all."""
    found = list(discover.find(paths, exclusion))
    looked = [_look(item, options.follow) for item in found]
    wanted = [item for item in looked if isinstance(item, str)]
    run = _Run(options, jobs or available_cores(), progress, cache)
    broken = run.broken([item.path for item, known in zip(found, looked, strict=True) if _is_unread(item, known)])
    looked = [broken.get(item.path, item) if isinstance(item, FileResult) else item for item in looked]
    met = [i.path for i, known in zip(found, looked, strict=True) if _is_unread(i, known) and i.path.endswith(".py")]
    grouped = run.groups(wanted, met) if wanted else []
    idle = set(wanted).difference(*grouped)
    looked = [_unchanged(item) if item in idle else item for item in looked]
    programs = run.rewrite(grouped)
    while overlapping := _overlapping(programs):
        merged = tuple(path for index in overlapping for path in programs[index][0])
        programs = [each for index, each in enumerate(programs) if index not in overlapping] + run.rewrite([merged])
    return _batch(found, _with_the_rest(_once([results for _, results in programs]), looked), run.tracebacks)


def check_paths(
    paths: Sequence[str],
    options: CheckOptions,
    jobs: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    exclusion: discover.Exclusion = discover.USUAL,
    *,
    fix: bool = False,
) -> Batch:
    """Check the files that the paths mean, or fix them; what files import is read, and named if met."""
    found = list(discover.find(paths, exclusion))
    looked = [_look_for_processes(item) for item in found]
    wanted = [item for item in looked if isinstance(item, str)]
    named = replace(options, selection=replace(options.selection, named=frozenset(wanted)))
    jobs = jobs or available_cores()
    size = min(_SHARING, -(-len(wanted) // jobs)) or 1
    groups = [tuple(wanted[at : at + size]) for at in range(0, len(wanted), size)]
    results = {r.path: r for r in looked if isinstance(r, FileResult)}
    tracebacks: list[str] = []
    known = {os.path.realpath(item.path): item.path for item in found}
    done = 0
    for index, outcome in _outcomes(_check, [(group, named, fix) for group in groups], jobs):
        done += len(groups[index])
        progress(done, len(wanted))
        for result in _results(groups[index], outcome, tracebacks):
            path = known.get(os.path.realpath(result.path))  # files that were not named are read, not checked
            if path is not None:
                result = replace(result, path=path)
                is_first = path not in results or result.error is not None
                results[path] = result if is_first else joined(results[path], result)
    return _batch(found, ((result,) for result in results.values()), tracebacks)


def check_stdin(path: str, data: bytes, options: CheckOptions, exclusion: discover.Exclusion = discover.USUAL) -> Batch:
    """Check a script that is no file; `path` is what to call it."""
    tracebacks: list[str] = []
    if exclusion.refuses(path):
        return Batch(programs=((_unchanged(path),),), order={path: 0})
    outcome = run_here(_check_source, (path, data, options))
    result = _given_up(path, outcome, tracebacks) if isinstance(outcome, Failure) else outcome
    return Batch(programs=((result,),), order={path: 0}, tracebacks=tuple(tracebacks))


def _results(paths: Paths, outcome: _Checked | Failure, tracebacks: list[str]) -> Iterator[FileResult]:
    """The results of files that were checked together."""
    each = [outcome] * len(paths) if isinstance(outcome, Failure) else outcome
    for path, found in zip(paths, each, strict=True):
        yield from (_given_up(path, found, tracebacks),) if isinstance(found, Failure) else found


def _batch(
    found: Sequence[discover.Found | CannotRead], programs: Iterable[Program], tracebacks: Iterable[str]
) -> Batch:
    return Batch(
        programs=tuple(programs),
        order={item.path: at for at, item in reversed([*enumerate(found)])},
        only_named=all(isinstance(item, CannotRead) or item.named for item in found),
        tracebacks=tuple(tracebacks),
    )


def _outcomes(
    work: Callable[[Task], Result], tasks: Sequence[Task], jobs: int
) -> Iterator[tuple[int, Result | Failure]]:
    """The outcomes of the tasks, each with its place, in the order in which they end."""
    if len(tasks) == 1:  # a process of its own would cost more than the work
        return iter([(0, run_here(work, tasks[0]))])
    return run_many(work, tasks, jobs)


def _look_for_processes(item: discover.Found | CannotRead) -> FileResult | str:
    """The path of a file that has to be checked, or the result of one that has not."""
    if isinstance(item, CannotRead):
        return failed(item)
    try:
        data = source.read(item.path)
    except CannotRead as error:
        return failed(error)
    if vocabulary.may_distribute(data):
        return item.path
    is_broken = source.may_train(data) and not source.is_notebook(item.path) and not source.parses(data)
    found = _parsed(item.path, data) if item.named or is_broken else _unchanged(item.path)
    because = f"runs in one process: `accelify rewrite {item.path}` migrates it" if source.may_train(data) else ""
    return found if found.error is not None else replace(found, because=because)


def _check(task: tuple[Paths, CheckOptions, bool]) -> _Checked:
    """Check files that share what they import: it is read and parsed once."""
    from accelify.codemod.files.project import Project

    paths, options, fix = task
    project = Project(disk=Disk())
    with _few_collections():
        return [run_here(_check_one, (path, options, fix, project)) for path in paths]


def _check_one(task: tuple[str, CheckOptions, bool, Project]) -> Program:
    from accelify.codemod.check import check_file, fix_file

    path, options, fix, project = task
    try:
        return (fix_file(path, options, project),) if fix else check_file(path, options, project)
    except FileError as error:
        return (failed(error),)


def _check_source(task: tuple[str, bytes, CheckOptions]) -> FileResult:
    from accelify.codemod.check import check_source

    try:
        return check_source(*task)
    except FileError as error:
        return failed(error)


def rewrite_stdin(path: str, data: bytes, options: Options, exclusion: discover.Exclusion = discover.USUAL) -> Batch:
    """Rewrite a script that is no file; `path` is what to call it."""
    tracebacks: list[str] = []
    if exclusion.refuses(path):
        return Batch(programs=((FileResult(path, Status.UNCHANGED, data, data),),), order={path: 0})
    outcome = run_here(_rewrite_source, (path, data, options))
    result = _given_up(path, outcome, tracebacks) if isinstance(outcome, Failure) else outcome
    return Batch(programs=((result,),), order={path: 0}, tracebacks=tuple(tracebacks))


def write(batch: Batch) -> Batch:
    """Write what was migrated, program by program; what could not be written becomes an error.

    What an earlier run that was killed has left beside any of the files goes.
    """
    source.remove_leftovers(result.path for result in batch.results())
    return replace(batch, programs=tuple(_written(program) for program in batch.programs))


def _written(program: Program) -> Program:
    changed = [result for result in program if result.status is Status.MIGRATED and result.after != result.before]
    try:
        source.replace([source.Replacement(result.path, result.before, result.after) for result in changed])
    except CannotWrite as error:
        return tuple(_unwritten(result, error) if result in changed else result for result in program)
    return program


def _unwritten(result: FileResult, error: CannotWrite) -> FileResult:
    if result.path == error.path:
        return failed(error)
    return failed(CannotWrite(result.path, reason=f"not changed, because it has to change together with {error}"))


def _look(item: discover.Found | CannotRead, follow: bool) -> FileResult | str:
    """The path of a file that has to be rewritten, or may import one that has, or the result of one that has not.

    Whether a file that was merely met in a folder is Python is found out later, of many at once.
    """
    if isinstance(item, CannotRead):
        return failed(item)
    try:
        data = source.read(item.path)
    except CannotRead as error:
        return failed(error)
    if source.may_train(data):
        return item.path
    found = _parsed(item.path, data) if item.named else _unchanged(item.path)
    may_lead = item.named and follow and b"import" in data and found.error is None and not found.because
    return item.path if may_lead else found


def _is_unread(item: discover.Found | CannotRead, known: FileResult | str) -> bool:
    """Whether a file was met in a folder and has nothing to rewrite, so that nobody has parsed it."""
    return isinstance(item, discover.Found) and not item.named and isinstance(known, FileResult) and not known.error


def _find_broken(paths: Paths) -> tuple[list[str], Asked]:
    """Those of some files that are no Python, and what the disk was asked for it."""
    disk = Disk()
    with _few_collections():
        return [path for path in paths if not _is_python(path, disk)], disk.asked


def _error_of(path: str) -> FileResult:
    """The error of a file that is no Python."""
    try:
        return _parsed(path, source.read(path))
    except CannotRead as error:
        return failed(error)


def _is_python(path: str, disk: Disk) -> bool:
    try:
        data = disk.read(path)
        if source.is_notebook(path):
            data = source.decode(data, path).text.encode()
    except FileError:
        return False
    return source.parses(data)


def _parsed(path: str, data: bytes) -> FileResult:
    """The result of a file that need not be rewritten: it is no Python, or a library trains what is in it."""
    outcome = run_here(_parse, (path, data))
    return _given_up(path, outcome, []) if isinstance(outcome, Failure) else outcome


def _parse(task: tuple[str, bytes]) -> FileResult:
    from accelify.codemod.files.parse import parse  # here, as most files are either rewritten or not named

    path, data = task
    try:
        return FileResult(path, Status.UNCHANGED, because=parse(path, data).next_step)
    except FileError as error:
        return failed(error)


def _find_groups(task: tuple[Sequence[str], bool, Sequence[str]]) -> tuple[list[Paths], Asked]:
    from accelify.codemod.files.project import groups  # parsing costs; a tree without torch does not pay for it

    disk = Disk()
    paths, follow, met = task
    return groups(paths, follow, disk, met), disk.asked


class _Run:
    """Rewrites groups of files here or on all cores, unless that was done before; keeps unforeseen tracebacks."""

    def __init__(self, options: Options, jobs: int, progress: Callable[[int, int], None], cache: Cache) -> None:
        self._options = options
        self._jobs = jobs
        self._progress = progress
        self._cache = cache
        self.tracebacks: list[str] = []

    def groups(self, wanted: Sequence[str], met: Sequence[str]) -> list[Paths]:
        """Which files must be rewritten together, with their entry scripts among the files met."""
        key = ("groups", wanted, self._options.follow, met)
        known = self._cache.get(*key)
        if known is not None:
            return [tuple(group) for group in known]
        outcome = run_here(_find_groups, (wanted, self._options.follow, met))
        if isinstance(outcome, Failure):
            return [(path,) for path in wanted]
        found, asked = outcome
        self._cache.put(found, asked, *key)
        return found

    def broken(self, paths: Sequence[str]) -> dict[str, FileResult]:
        """The errors of those files that are no Python."""
        parts = [tuple(paths[at : at + _PARSED_AT_ONCE]) for at in range(0, len(paths), _PARSED_AT_ONCE)]
        found = {part: known for part in parts if (known := self._cache.get("broken", part)) is not None}
        left = [part for part in parts if part not in found]
        for index, outcome in _outcomes(_find_broken, left, self._jobs):
            if not isinstance(outcome, Failure):
                found[left[index]] = outcome[0]
                self._cache.put(*outcome, "broken", left[index])
        return {path: _error_of(path) for part in found.values() for path in part}

    def rewrite(self, groups: Sequence[Paths]) -> list[tuple[Paths, Program]]:
        programs = {group: known for group in groups if (known := self._known(group)) is not None}
        left = [group for group in groups if group not in programs]
        tasks = [(group, self._options) for group in left]
        outcomes = _outcomes(_rewrite_program, tasks, self._jobs)
        for done, (index, outcome) in enumerate(outcomes, start=len(programs) + 1):
            self._progress(done, len(groups))
            group = left[index]
            if isinstance(outcome, Failure):
                programs[group] = tuple(_given_up(path, outcome, self.tracebacks) for path in group)
            else:
                programs[group], asked = outcome
                self._cache.put(packed(programs[group]), asked, "program", group, self._options)
        return [(group, programs[group]) for group in groups]

    def _known(self, group: Paths) -> Program | None:
        """The outcome of a group in an earlier run."""
        known = self._cache.get("program", group, self._options)
        try:
            return unpacked(known) if known is not None else None
        except (CannotRead, ValueError):
            return None


def _rewrite_program(task: tuple[Paths, Options]) -> tuple[Program, Asked]:
    from accelify.codemod.rewrite import rewrite_together

    paths, options = task
    disk = Disk()
    try:
        with _few_collections():
            results = rewrite_together(paths, options, disk)
    except FileError as error:
        others = [path for path in paths if path != error.path]
        reason = f"not changed, because it has to change together with {error}"
        results = (failed(error), *(failed(FileError(path, reason=reason)) for path in others))
    return tuple(_without_bytes(result) for result in results), disk.asked


@contextmanager
def _few_collections() -> Iterator[None]:
    """A program's trees live until it is done: the collector would go through them again and again for nothing."""
    usual = gc.get_threshold()
    gc.set_threshold(_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _rewrite_source(task: tuple[str, bytes, Options]) -> FileResult:
    from accelify.codemod.rewrite import rewrite_source

    path, data, options = task
    try:
        return rewrite_source(path, data, options)
    except FileError as error:
        return failed(error)


def _without_bytes(result: FileResult) -> FileResult:
    """Only the bytes that will be written are worth their memory."""
    return result if result.status is Status.MIGRATED else replace(result, before=b"", after=b"")


def _overlapping(programs: Sequence[tuple[Paths, Program]]) -> list[int]:
    """Programs that both speak of one file of which at least one changes it: they have to be rewritten together."""
    speakers: dict[str, list[int]] = {}
    changed: set[str] = set()
    for index, (_, results) in enumerate(programs):
        for result in results:
            real = os.path.realpath(result.path)
            speakers.setdefault(real, []).append(index)
            if result.status is Status.MIGRATED:
                changed.add(real)
    return next((indexes for real, indexes in speakers.items() if len(indexes) > 1 and real in changed), [])


def _once(programs: Sequence[Program]) -> list[Program]:
    """The programs, with one result for each file that several of them use and none changes."""
    unchanged: dict[str, FileResult] = {}
    for result in (result for program in programs for result in program if result.status is Status.UNCHANGED):
        real = os.path.realpath(result.path)
        unchanged[real] = joined(unchanged[real], result) if real in unchanged else result

    def left(program: Program) -> Iterator[FileResult]:
        for result in program:
            if result.status is not Status.UNCHANGED:
                yield result
            elif (joint := unchanged.pop(os.path.realpath(result.path), None)) is not None:
                yield joint

    return [found for program in programs if (found := tuple(left(program)))]


def _with_the_rest(programs: Sequence[Program], looked: Sequence[FileResult | str]) -> Iterator[Program]:
    """The programs, and the results of files that needed no rewriting, unless a program has them too."""
    yield from programs
    real = {os.path.realpath(result.path) for program in programs for result in program}
    for item in looked:
        if isinstance(item, FileResult) and (item.error or not real or os.path.realpath(item.path) not in real):
            yield (item,)


def _unchanged(path: str) -> FileResult:
    return FileResult(path, Status.UNCHANGED)


def _given_up(path: str, failure: Failure, tracebacks: list[str]) -> FileResult:
    if failure.traceback and failure.traceback not in tracebacks:
        tracebacks.append(failure.traceback)
    return FileResult(path, Status.ERROR, error=Problem(None, None, failure.reason))
