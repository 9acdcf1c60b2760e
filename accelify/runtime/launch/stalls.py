"""Ranks of this machine that make no progress, seen from outside: they are reported, and never ended for it.

A rank that is stopped (SIGSTOP, a debugger) has a state that says so. One that waits for what does not come (a lock, a
collective that another rank does not reach) uses no processor time, whatever it waits for; so the ranks are asked for
their stacks once one of them has used none for long. It costs the ranks nothing. Linux only: elsewhere it is silent.

Source: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from accelify.runtime.launch import stacks
from accelify.runtime.launch.stacks import Stack

# Units: seconds
INTERVAL = 1.0  # how often ranks are looked at
STOPPED = 10.0  # for how long a rank has to be stopped; a profiler stops it for milliseconds
GAP = 15.0  # when the launcher was stopped itself, it has not seen what the ranks did meanwhile

# A rank that only waits looks now and then whether it still has to: so much processor time in a second is none.
IDLE = 0.02
SHOWN = 12  # calls of a stack


@dataclass(frozen=True, slots=True)
class Rank:
    """A rank that runs here."""

    rank: int
    pid: int
    stack: Path  # where it writes its stack when asked


@dataclass(slots=True)
class _Seen:
    """The observations of a rank: since when it has used so little CPU, and since when it is stopped."""

    since: float
    used: float
    stopped: float | None = None
    is_reported: bool = False


@dataclass
class Watch:
    """Looks at the ranks as often as it is called, and reports those that make no progress for `seconds`; 0: none."""

    seconds: float
    report: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _seen: dict[int, _Seen] = field(default_factory=dict)
    _looked: float = float("-inf")
    _told: dict[str, float] = field(default_factory=dict)  # for how long the ranks had been idle, by where they were

    def look(self, ranks: Mapping[int, Rank]) -> None:
        """Look at the ranks that run, by process id."""
        now = self.clock()
        if not self.seconds or now - self._looked < INTERVAL:
            return
        if now - self._looked > GAP:
            self._seen.clear()
        self._looked = now
        self._seen = {pid: seen for pid, seen in self._seen.items() if pid in ranks}
        for pid in ranks:
            self._note(pid, now)
        stopped = [pid for pid, seen in self._seen.items() if seen.stopped is not None]
        for pid in stopped:
            self._report_stopped(ranks[pid], now)
        idle = [now - seen.since for seen in self._seen.values()]
        if idle and not stopped and max(idle) >= self.seconds:
            self._report_idle(ranks, max(idle))

    def _note(self, pid: int, now: float) -> None:
        state, used = _state(pid), _time_used(pid)
        if state is None:
            self._seen.pop(pid, None)
            return
        seen = self._seen.setdefault(pid, _Seen(now, used))
        if state == "R" or not 0 <= used - seen.used <= IDLE * (now - seen.since) + 0.1:
            seen.since, seen.used = now, used
        if state not in "Tt":
            seen.stopped, seen.is_reported = None, False
        elif seen.stopped is None:
            seen.stopped = now

    def _report_stopped(self, rank: Rank, now: float) -> None:
        seen = self._seen[rank.pid]
        if seen.is_reported or seen.stopped is None or now - seen.stopped < min(STOPPED, self.seconds):
            return
        seen.is_reported = True
        self.report(
            f"accelify: rank {rank.rank} has been stopped for {now - seen.stopped:.0f} s, by a signal such as SIGSTOP "
            f"or by a debugger; `kill -CONT {rank.pid}` lets it go on"
        )

    def _report_idle(self, ranks: Mapping[int, Rank], idle: float) -> None:
        found = stacks.ask((rank.pid, rank.stack) for rank in ranks.values())
        where = {ranks[pid].rank: stack for pid, stack in found.items() if stack.frames}
        key = repr(sorted((rank, str(stack.own)) for rank, stack in where.items()))
        for pid, seen in self._seen.items():
            with suppress(OSError):
                seen.used = max(seen.used, _time_used(pid))  # to write its stack was no progress
        if idle < 2 * self._told.get(key, 0.0):
            return
        self._told[key] = idle
        unknown = sorted(rank.rank for pid, rank in ranks.items() if not (pid in found and found[pid].frames))
        self.report(describe(where, unknown, idle))


def describe(where: Mapping[int, Stack], unknown: list[int], idle: float) -> str:
    """The report on ranks of which one has done nothing for so long: first who waits for others, then who does not."""
    waiting = {rank: stack for rank, stack in sorted(where.items()) if stack.waits}
    others = {rank: stack for rank, stack in sorted(where.items()) if not stack.waits}
    lines = [f"accelify: no progress for {idle:.0f} s; nothing is ended, the ranks are"]
    lines += [f"accelify:   rank {rank} waiting for other ranks at {stack.own}" for rank, stack in waiting.items()]
    for rank, stack in others.items():
        lines.append(f"accelify:   rank {rank} at {stack.own}")
        lines += [f"    {frame}" for frame in stack.frames[:SHOWN]]
    lines += [f"accelify:   rank {rank}: it cannot say where" for rank in unknown]
    return "\n".join(lines)


def _state(pid: int) -> str | None:
    """R, S, D, T and so on; None for a process that has ended or of which the system says nothing."""
    fields = _stat(pid)
    return None if not fields or fields[0] in "ZX" else fields[0]


def _time_used(pid: int) -> float:
    """The processor time in seconds of a process and of all that it has started and that still run."""
    total, pids = 0, [pid]
    while pids:
        process = pids.pop()
        fields = _stat(process)
        total += sum(map(int, fields[11:13])) if fields else 0
        with suppress(OSError):
            for thread in Path(f"/proc/{process}/task").iterdir():
                with suppress(OSError):
                    pids += map(int, (thread / "children").read_text().split())
    return float(total / os.sysconf("SC_CLK_TCK"))


def _stat(pid: int) -> list[str]:
    """The fields of a process from its state on; none when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
