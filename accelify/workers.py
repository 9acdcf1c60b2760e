"""Run one function over many inputs on all cores; an input that kills its process costs only itself."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar, cast

Task = TypeVar("Task")
Result = TypeVar("Result")

# Syntax trees are walked by recursion, some ten calls for each level. A stack is address space, not memory, until it is
# used; where even that is rationed, the second size is tried. A call that goes through C takes up to 2 kB of stack, so
# that the limit on calls is met before the stack ends.
STACK_SIZES = (512 * 2**20, 64 * 2**20)
BYTES_PER_CALL = 2560


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an input gave no result: one line for the user, and the traceback where Python has one."""

    reason: str
    traceback: str = ""


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_here(function: Callable[[Task], Result], task: Task) -> Result | Failure:
    """Run `function` in this process, on a stack deep enough for any source that Python itself accepts."""
    outcomes: list[Result | Failure] = []
    _on_deep_stack(lambda: outcomes.append(_attempt(function, task)))
    return outcomes[0]


def run_many(
    function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int
) -> Iterator[tuple[int, Result | Failure]]:
    """Run `function` over `tasks` in `jobs` processes; yields each task's index and outcome as it ends.

    `function` must be importable by name. A process that dies takes one task with it, and another takes its place.
    """
    waiting = deque(enumerate(tasks))
    busy: dict[Connection, tuple[_Worker[Task, Result], int]] = {}

    def hand_out(worker: _Worker[Task, Result]) -> None:
        index, task = waiting.popleft()
        worker.send(task)
        busy[worker.connection] = worker, index

    try:
        for _ in range(min(jobs, len(tasks))):
            hand_out(_Worker(function))
        while busy:
            for ready in wait(list(busy)):
                worker, index = busy.pop(cast(Connection, ready))
                outcome = worker.receive()
                if waiting:
                    hand_out(worker if worker.is_alive else _Worker(function))
                else:
                    worker.stop()
                yield index, outcome
    finally:
        for worker, _ in busy.values():
            worker.stop()


class _Worker(Generic[Task, Result]):
    """A process that answers one task at a time; spawned, so that it shares no state and no lock with this one."""

    def __init__(self, function: Callable[[Task], Result]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.is_alive = True
        self._process = context.Process(target=_serve, args=(theirs, function), daemon=True)
        self._process.start()
        theirs.close()  # so that the worker's death is an end of file here

    def send(self, task: Task) -> None:
        with suppress(OSError):  # dead already: `receive` will say so
            self.connection.send(task)

    def receive(self) -> Result | Failure:
        try:
            outcome: Result | Failure = self.connection.recv()
        except (EOFError, OSError):
            self.is_alive = False
            self._process.join()
            return Failure(f"accelify crashed on it ({_cause_of_death(self._process.exitcode)}); please report this")
        return outcome

    def stop(self) -> None:
        self._process.terminate()  # it holds nothing that could be lost
        self._process.join()
        self.connection.close()


def _serve(connection: Connection, function: Callable[[Task], Result]) -> None:
    """A worker's life: answer tasks until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who then stops us
    _on_deep_stack(lambda: _answer(connection, function))


def _answer(connection: Connection, function: Callable[[Task], Result]) -> None:
    with suppress(EOFError, OSError):
        while True:
            connection.send(_attempt(function, connection.recv()))


def _attempt(function: Callable[[Task], Result], task: Task) -> Result | Failure:
    try:
        return function(task)
    except RecursionError:
        return Failure("nested too deeply to be analysed")
    except MemoryError:
        return Failure("not enough memory to analyse it")
    except BaseException as error:  # a panic of the native parser is no Exception
        what = traceback.format_exception_only(type(error), error)[-1].partition("\n")[0]
        return Failure(f"accelify failed on it ({what}); please report this", traceback.format_exc())


def _on_deep_stack(body: Callable[[], None]) -> None:
    """Run `body` in a thread whose stack bears a recursion that the main thread's would not."""
    limit = sys.getrecursionlimit()
    try:
        _start_thread(body).join()
    finally:
        sys.setrecursionlimit(limit)


def _start_thread(body: Callable[[], None]) -> threading.Thread:
    usual = threading.stack_size()
    try:
        for size in STACK_SIZES:
            threading.stack_size(size)
            sys.setrecursionlimit(size // BYTES_PER_CALL)
            thread = threading.Thread(target=body, daemon=True)
            with suppress(RuntimeError):  # no room for such a stack
                thread.start()
                return thread
    finally:
        threading.stack_size(usual)
    raise MemoryError("no room for a thread")


def _cause_of_death(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"exit status {exit_code}"
    name = signal.Signals(-exit_code).name
    return f"{name}, perhaps out of memory" if name == "SIGKILL" else name
