"""Starts the runs: each in a fresh copy of the project, bounded in time, with the stacks of what hangs."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelify.verify import gpus
from accelify.verify.forking import Server
from accelify.verify.scratch import CannotVerify, Project, copy_project
from accelify.verify.trace import Run, Trace, read_trace

# How often a run is looked at. Units: seconds.
INTERVAL = 0.05
# How long the stacks of a hanging rank may take to be written. Units: seconds.
STACKS = 10.0
# The largest file whose contents are compared. Units: bytes.
LARGEST = 2**22

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run. steps: optimizer steps, None to let it end. Units: seconds.

    reach: how long the original goes on after its steps, until it has evaluated, written a checkpoint and ended an
    epoch; the other runs take as many steps as it took.

    silence: how long ranks of several may show no sign of progress, or longer where one process alone is long silent;
    the run in one process may take it all.
    """

    steps: int | None = 20
    seconds: float = 600.0
    reach: float = 0.0
    silence: float = 60.0


# How far a proof goes where nobody says.
DRIVEN = Limits(reach=10.0)


@dataclass(frozen=True, slots=True)
class Order:
    """One run: of which script in which project, and how.

    changed: what is put over files of the project. launched: ranks draw, and take batches, as `accelify launch` has
    them. bare: nothing is watched. device: `cpu`, `pretend` GPUs, or `cuda`. whole: data sets, by number, whose batches
    ranks take whole, as launched, though others are divided. part: the rank whose rows of each batch one process is to
    take, and of how many ranks. operations: those of the first step are recorded. perturbed: a seed, with which
    parameters are moved by rounding. until: what is to be reached before the steps count.
    """

    label: str
    project: Project
    changed: tuple[tuple[Path, bytes], ...] = ()
    arguments: tuple[str, ...] = ()
    processes: int = 1
    split: bool = False
    comparable: bool = False
    summed: bool = False
    undivided: bool = False
    float64: bool = False
    bare: bool = False
    launched: bool = False
    device: str = "cpu"
    operations: bool = False
    whole: tuple[int, ...] = ()
    part: tuple[int, int] | None = None
    perturbed: int | None = None
    until: str | None = None
    module: str | None = None
    synthetic: int = 0
    seed: int = 0


class Runner:
    """Runs orders one after the other, each in a folder of its own below `folder`."""

    def __init__(self, server: Server, folder: Path, progress: Progress, protected: Sequence[Path] = ()) -> None:
        self._server = server
        self._folder = Path(os.path.realpath(folder))
        self._progress = progress
        self._protected = [str(path) for path in protected]
        self._count = 0
        self._longest = 0.0  # for how long a process alone showed no sign of progress

    def run(self, order: Order, limits: Limits) -> Run:
        """Run an order."""
        self._count += 1
        place = self._folder / f"run{self._count}"
        root = place / "project"
        for name in ("own/meeting", "temporary"):
            (place / name).mkdir(parents=True)
        copy_project(order.project, root)
        for file, content in order.changed:
            (root / file).unlink(missing_ok=True)  # it might be a link
            (root / file).write_bytes(content)
        with self._store(place) if order.processes > 1 else nullcontext() as port:
            names = [self._server.name() for _ in range(order.processes)]
            for rank, name in enumerate(names):
                self._server.start(name, self._told(order, limits, place, rank, port))
            begun = time.monotonic()
            hang = self._watch(order, limits, place, names)
            stacks = self._end(names, place) if hang else ()
        ranks = tuple(read_trace(place / "own" / f"trace.{rank}", rank) for rank in range(order.processes))
        contents = _contents(root, ranks)
        return Run(order.label, ranks, time.monotonic() - begun, hang, stacks, contents, root)

    @contextmanager
    def _store(self, place: Path) -> Iterator[int]:
        """The port of a store through which ranks meet: open before any of them starts, so that nobody takes it."""
        file = place / "own" / "port"
        name = self._server.name()
        self._server.start(name, {"log": str(place / "own" / "log.store"), "port": str(file), "variables": {}})
        while not file.exists():
            self._server.wait(INTERVAL)
            if self._server.has_ended(name):
                raise CannotVerify(f"the ranks have no place to meet:\n{(place / 'own' / 'log.store').read_text()}")
        try:
            yield int(file.read_text())
        finally:
            self._server.kill(name)

    def log(self, rank: int = 0) -> str:
        """The end of the output of a rank of the last run."""
        path = self._folder / f"run{self._count}" / "own" / f"log.{rank}"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def _told(self, order: Order, limits: Limits, place: Path, rank: int, port: int | None) -> dict[str, Any]:
        from accelify.runtime.world.environment import Environment

        variables = {"TMPDIR": str(place / "temporary")}
        if order.device != "cpu":
            variables["ACCELIFY_CPU"] = "0"
        if order.device == "cuda":
            variables |= {"CUDA_VISIBLE_DEVICES": gpus.visible(order.processes), "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        if order.processes > 1:
            here = Environment(
                launcher="torchrun",
                rank=rank,
                world_size=order.processes,
                local_rank=rank,
                local_world_size=order.processes,
                address="127.0.0.1",
                port=port,
                cpu=order.device == "cpu",
            )
            variables |= {**here.write(), "TORCHELASTIC_USE_AGENT_STORE": "True"}  # rank 0 opens none of its own
        root = place / "project"
        return {
            "script": str(root / order.project.script),
            "shown": os.path.relpath(root / order.project.script, root / order.project.folder),
            "arguments": list(order.arguments),
            "folder": str(root / order.project.folder),
            "root": str(root),
            "own": str(place / "own"),
            "trace": str(place / "own" / f"trace.{rank}"),
            "stacks": str(place / "own" / f"stacks.{rank}"),
            "log": str(place / "own" / f"log.{rank}"),
            "meeting": str(place / "own" / "meeting"),
            "temporary": os.path.realpath(tempfile.gettempdir()),
            "variables": variables,
            "protected": self._protected,
            "rank": rank,
            "world": order.processes,
            "steps": limits.steps,
            "reach": limits.reach,
            "split": order.split,
            "comparable": order.comparable,
            "summed": order.summed,
            "undivided": order.undivided,
            "float64": order.float64,
            "bare": order.bare,
            "launched": order.launched,
            "device": order.device,
            "operations": order.operations,
            "whole": order.whole,
            "part": order.part,
            "perturbed": order.perturbed,
            "until": order.until,
            "module": order.module,
            "synthetic": order.synthetic,
            "seed": order.seed,
        }

    def _watch(self, order: Order, limits: Limits, place: Path, names: list[str]) -> str | None:
        """Wait until all ranks have ended; the reason when they do not."""
        begun = moved = time.monotonic()
        silence = max(limits.silence, 2 * len(names) * self._longest)  # ranks may have to share what one process had
        sizes: list[int] = []
        steps = shown = 0
        traces = [place / "own" / f"trace.{rank}" for rank in range(len(names))]
        read = 0
        while not all(self._server.has_ended(name) for name in names):
            self._server.wait(INTERVAL)
            now = time.monotonic()
            latest = [path.stat().st_size if path.exists() else -1 for path in traces]
            if latest != sizes:
                sizes, moved = latest, now
            elif len(names) == 1 and sizes != [-1]:  # it has begun: torch is imported
                self._longest = max(self._longest, now - moved)
            if latest[0] > read:
                steps += _count_steps(traces[0], read, latest[0])
                read = latest[0]
            if steps != shown or now - begun < 2 * INTERVAL:
                shown = steps
                self._progress(f"{order.label}: step {steps}" + (f" of {limits.steps}" if limits.steps else ""))
            if now - begun > limits.seconds:
                return f"no end after {limits.seconds:g} s"
            if len(names) > 1 and now - moved > silence:
                return f"no sign of life for {silence:.3g} s"
        return None

    def _end(self, names: list[str], place: Path) -> tuple[str | None, ...]:
        """End ranks that hang, after they have said where they stand; None of those that had ended before."""
        hanging = [not self._server.has_ended(name) for name in names]
        # The signal that makes a rank write its stacks ends it when they are written. All are halted first: none
        # goes on to see that another has gone.
        for number in (signal.SIGSTOP, signal.SIGUSR1, signal.SIGCONT):
            for name in names:
                self._server.signal(name, number)
        deadline = time.monotonic() + STACKS
        while not all(self._server.has_ended(name) for name in names):
            self._server.wait(INTERVAL)
            if time.monotonic() > deadline:
                for name in names:
                    self._server.kill(name)
        front = f"{place / 'project'}{os.sep}"
        files = [place / "own" / f"stacks.{rank}" for rank in range(len(names))]
        return tuple(
            shorten_stack(file.read_text(errors="replace").replace(front, "") if file.exists() else "")
            if hung
            else None
            for hung, file in zip(hanging, files, strict=True)
        )


def _contents(root: Path, ranks: Sequence[Trace]) -> dict[str, bytes]:
    """The contents of the project's files that the ranks wrote, except for large ones."""
    names = dict.fromkeys(write.path for trace in ranks for write in trace.writes if write.how != "mkdir")
    found = {name: root / name for name in names if not name.startswith("/")}
    return {
        name: path.read_bytes() for name, path in found.items() if path.is_file() and path.stat().st_size <= LARGEST
    }


def shorten_stack(text: str) -> str:
    """The main thread's stack, innermost call last, without the frames of verify itself."""
    threads = re.split(r"(?m)^(?=(?:Current thread|Thread) )", text)
    main = next((part for part in threads if "child.py" in part), threads[-1])
    frames = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', main)
    kept = [frame for frame in frames if "accelify/verify/" not in frame[0] and "importlib" not in frame[0]]
    kept = [(re.sub(r".*/site-packages/", "", path), line, name) for path, line, name in kept]
    lines = (f"{path}{', line ' if '.ipynb:cell ' in path else ':'}{line} in {name}" for path, line, name in kept)
    return "\n".join(reversed(list(lines)))


def _count_steps(path: Path, start: int, end: int) -> int:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(end - start).count(b'{"e": "step"')
