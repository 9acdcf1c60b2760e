"""The events of one run, read from the traces that its ranks wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any  # an event is JSON

# A tensor's norm and its products with vectors of random signs.
Sketch = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Backward:
    """One backward pass: the loss that it started from, before anything was divided by it."""

    loss: float
    dtype: str = "float32"
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Optimizer:
    """The parameters that an optimizer steps, as they were before its first step."""

    kind: str
    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    start: tuple[Sketch, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One optimizer step: its learning rates and gradients, and the parameters after it."""

    optimizer: int = 0
    at: str | None = None
    rates: tuple[float, ...] = ()
    gradients: tuple[Sketch | None, ...] = ()
    digests: tuple[str, ...] = ()
    sketches: tuple[Sketch, ...] = ()


@dataclass(slots=True)
class Pass:
    """One pass over a loader, known by its dataset's number: the indices of each batch, None where there are none."""

    dataset: int
    number: int
    name: str = "Dataset"
    length: int | None = None
    by_batch: bool = False
    prepared: bool = False  # by Hugging Face Accelerate, whose loaders give every process whole batches, too
    at: str | None = None
    batches: list[tuple[Any, ...] | None] = field(default_factory=list)
    is_over: bool = False
    backwards: int = 0  # backward passes that learn from its batches
    draws: bool = False  # whether random numbers were drawn between its first batch and its end

    @property
    def trains(self) -> bool:
        """Whether the training learns from it."""
        return self.backwards > 0


@dataclass(frozen=True, slots=True)
class Call:
    """A step of the training loop: `zero_grad`, `backward`, `clip_grad_norm_`, `step`, `scheduler.step`."""

    kind: str
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Print:
    """A line that was printed, and whether the script had evaluated since its last backward pass.

    passes: how many backward passes there had been. stack: the script's lines under way, `at` and its callers.
    """

    text: str
    at: str | None = None
    evaluation: bool = False
    passes: int = 0
    stack: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Write:
    """A file that was opened for writing, made by renaming (then with its source), or a folder that was made."""

    path: str
    how: str = "open"
    at: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor, number or other value in a checkpoint: its kind, and what stands for its value."""

    key: str
    kind: str
    value: str = ""
    sketch: Sketch = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The contents of one `torch.save`."""

    path: str | None
    at: str | None = None
    leaves: tuple[Leaf, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on tensors, and the arguments by which it is set, in words."""

    name: str
    at: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Draw:
    """Random numbers of a rank's own, and what stands for the state of the streams from which they were drawn."""

    what: str
    at: str | None
    state: str


@dataclass(frozen=True, slots=True)
class Nature:
    """Something by which runs over several processes differ: dropout, BatchNorm, augmentation, draw, own draw.

    Or a `plateau`: a schedule that follows a metric; or dropout or BatchNorm `in evaluation`, without
    gradients; or `autocast`.
    """

    kind: str
    at: str | None = None
    what: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """How a rank ended: `steps` (stopped by us), `exit` (by itself), `error`, or `lost` (it wrote no end)."""

    how: str = "lost"
    code: int | None = None
    message: str = ""
    at: str | None = None
    traceback: str = ""


@dataclass(slots=True)
class Trace:
    """Everything one rank did."""

    rank: int = 0
    backwards: list[Backward] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)  # up to the first backward pass, where asked for
    optimizers: dict[int, Optimizer] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    prints: list[Print] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    natures: list[Nature] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    seeds: list[tuple[str, str, str | None]] = field(default_factory=list)
    shards: list[str | None] = field(default_factory=list)
    states: list[str | None] = field(default_factory=list)  # of everything prepared, saved by `save_state`
    replaced: list[str] = field(default_factory=list)
    settings: list[tuple[int, dict[str, str]]] = field(default_factory=list)  # what changed, by backward pass
    samples: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # what stands for those first fetched
    buffers: list[tuple[str | None, dict[str, str]]] = field(default_factory=list)  # after each step
    options: list[tuple[str, bool]] = field(default_factory=list)  # that may take a checkpoint; whether by a value
    has_resumed: bool = False  # an optimizer was given a state before the first backward pass
    taken: int = 0  # steps of a run that is not watched
    stopped_after: int | None = None  # steps, where it was stopped by us
    unreached: tuple[str, ...] = ()  # what it had not come to by then
    end: End = field(default_factory=End)

    @property
    def losses(self) -> list[float]:
        """The losses in order."""
        return [each.loss for each in self.backwards]


@dataclass(frozen=True, slots=True)
class Run:
    """One run: a trace for each rank, and where each stood if the run hung. Units: seconds."""

    label: str
    ranks: tuple[Trace, ...]
    seconds: float = 0.0
    hang: str | None = None
    stacks: tuple[str | None, ...] = ()
    contents: dict[str, bytes] = field(default_factory=dict)  # of the files that it wrote
    root: Path | None = None  # the copy of the project that it ran in

    @property
    def world(self) -> int:
        """How many processes it had."""
        return len(self.ranks)

    @property
    def error(self) -> End | None:
        """The end of the first rank that failed; the one that failed by its own fault where that is known."""
        failed = [trace.end for trace in self.ranks if trace.end.how == "error" or trace.end.code]
        own = [end for end in failed if "peer" not in end.message and "onnection" not in end.message]
        return next(iter([*own, *failed]), None)


def read_trace(path: Path, rank: int) -> Trace:
    """The trace in a file; a last line that is cut off is left out."""
    trace = Trace(rank)
    reader = _Reader(trace)
    for event in _events(path):
        reader.take(event.pop("e"), event)
    return trace


def _events(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    yield from (json.loads(line) for line in lines if line.endswith(b"\n"))


class _Reader:
    """Puts events into a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._rates: dict[int, dict[str, Any]] = {}
        self._open: dict[tuple[int, int], Pass] = {}
        self._last: Pass | None = None
        # Events that are kept as they are.
        self._lists: dict[str, tuple[list[Any], Callable[..., Any]]] = {
            "backward": (trace.backwards, Backward),
            "call": (trace.calls, Call),
            "write": (trace.writes, Write),
            "nature": (trace.natures, Nature),
            "draw": (trace.draws, Draw),
        }

    def take(self, kind: str, event: dict[str, Any]) -> None:
        """One event."""
        trace = self._trace
        if kind in self._lists:
            events, made = self._lists[kind]
            events.append(made(**event))
        if kind == "backward":
            trace.calls.append(Call("backward", event["at"]))
            if self._last is not None:
                self._last.backwards += 1
        elif kind == "print":
            stack = tuple(event.pop("stack"))
            trace.prints.append(Print(**event, at=next(iter(stack), None), passes=len(trace.backwards), stack=stack))
        elif kind == "rates":
            self._rates[event["optimizer"]] = event
        elif kind == "step":
            self._step(event)
        elif kind == "optimizer":
            names, dtypes = tuple(event["names"]), tuple(event["dtypes"])
            known = Optimizer(event["kind"], names, dtypes, _sketches(event["sketches"]))
            trace.optimizers.setdefault(event["optimizer"], known)
        elif kind in ("pass", "batch", "pass end"):
            self._samples(kind, event)
        elif kind == "checkpoint":
            leaves = tuple(Leaf(key, what, value, tuple(sketch)) for key, what, value, sketch in event["leaves"])
            trace.checkpoints.append(Checkpoint(event["path"], event["at"], leaves))
        elif kind == "settings":
            trace.settings.append((len(trace.backwards), event["values"]))
        elif kind == "buffers":
            trace.buffers.append((event["at"], event["digests"]))
        elif kind == "operation":
            settings = tuple((key, value) for key, value in event["settings"])
            trace.operations.append(Operation(event["name"], event["at"], settings))
        elif kind == "taken":
            trace.taken += 1
        elif kind == "end":
            trace.end = End(**event)
        else:
            self._note(kind, event)

    def _note(self, kind: str, event: dict[str, Any]) -> None:
        """An event that adds a word or two."""
        trace = self._trace
        if kind == "seed":
            trace.seeds.append((event["stream"], event["value"], event["at"]))
        elif kind == "shard":
            trace.shards.append(event["at"])
        elif kind == "state":
            trace.states.append(event["at"])
        elif kind == "stopped":
            trace.stopped_after, trace.unreached = event["steps"], (*event["unreached"], *trace.unreached)
        elif kind == "unreached":
            trace.unreached = (event["what"],)
        elif kind == "sample":
            trace.samples.setdefault((event["name"], event["index"]), set()).add(event["digest"])
        elif kind == "resumed":
            trace.has_resumed = True
        elif kind == "options":
            trace.options = [(name, takes_value) for name, takes_value in event["options"]]
        elif kind == "replaced":
            trace.replaced.append(event["what"])

    def _step(self, event: dict[str, Any]) -> None:
        before = self._rates.pop(event["optimizer"], {})
        gradients = tuple(None if each is None else tuple(each) for each in before.get("gradients", ()))
        step = Step(
            event["optimizer"],
            event["at"],
            tuple(before.get("rates", ())),
            gradients,
            tuple(event["digests"]),
            _sketches(event["sketches"]),
        )
        self._trace.steps.append(step)
        self._trace.calls.append(Call("step", event["at"]))

    def _samples(self, kind: str, event: dict[str, Any]) -> None:
        key = event["dataset"], event["number"]
        if kind == "pass":
            self._open[key] = Pass(**event)
            self._trace.passes.append(self._open[key])
        elif kind == "batch":
            self._last = self._open[key]
            indices = event["indices"]
            self._last.batches.append(None if indices is None else tuple(indices))
        else:
            self._open[key].is_over, self._open[key].draws = True, event["draws"]


def _sketches(values: list[list[float]]) -> tuple[Sketch, ...]:
    return tuple(tuple(each) for each in values)
