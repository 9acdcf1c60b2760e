"""All runs of one proof, and what in them explains a difference."""

from __future__ import annotations

from dataclasses import dataclass, replace

from accelify.verify.scratch import OwnValue
from accelify.verify.trace import Pass, Print, Run, Trace

OWN_RANDOM_NUMBERS = "each rank draws random numbers of its own"


@dataclass(frozen=True, slots=True)
class Evidence:
    """All runs of one proof. `baseline` is the original as `many` is to be compared with.

    launched: several processes as `accelify launch` starts them.
    """

    original: Run
    one: Run
    baseline: Run
    many: Run
    notes: tuple[str, ...] = ()
    made_comparable: tuple[str, ...] = ()
    cannot_split: str | None = None  # what went wrong when each batch was divided among the ranks
    launched: Run | None = None
    on_gpus: Run | None = None  # the rewritten script on pretend GPUs
    are_real: bool = False  # or on GPUs of this machine's
    original_on_gpu: Run | None = None
    again: Run | None = None  # the original once more, where what it prints or writes may differ from run to run
    operations: tuple[Run, Run] | None = None  # of the original and of one process, where their losses differ
    operations_of_ranks: Run | None = None  # where only those of several processes do
    perturbed: tuple[Run, ...] = ()  # the original as in `baseline`, moved by rounding: where numbers differ
    resumed: Evidence | None = None  # the same from a checkpoint on; of several processes only where it `has_many`
    resumed_by: str = ""  # how it was given one
    has_many: bool = True
    own_values: tuple[OwnValue, ...] = ()  # which the notes of the rewrite name
    mixes_rows: str | None = None  # why parts of a batch give other losses than the whole one, where that is shown
    compared: Evidence | None = None  # beside the launched run: what was compared, in which samples are looked into

    @property
    def dtype(self) -> str:
        """In what the runs that are compared compute."""
        losses = self.baseline.ranks[0].backwards
        return losses[0].dtype if losses else "float32"

    @property
    def as_launched(self) -> Evidence:
        """The launched run in the place of the one that was made comparable."""
        assert self.launched is not None
        return replace(
            self,
            baseline=self.original,
            many=self.launched,
            made_comparable=(),
            cannot_split=None,
            mixes_rows=None,
            compared=self,
        )


def why_by_nature(evidence: Evidence) -> str | None:
    """Why the losses over several processes differ although nothing is wrong."""
    many = evidence.many
    if evidence.cannot_split:
        return (
            f"the script does not run on parts of a batch ({evidence.cannot_split}), so that a step's batch is larger"
        )
    seeds = [sorted({(stream, value) for stream, value, _ in trace.seeds}) for trace in many.ranks]
    # Rank 0 keeps the original's stream, so the others tell whether anything was drawn from one of their own.
    draws = any(nature.kind == "own draw" for trace in many.ranks[1:] for nature in trace.natures)
    if draws and any(seed != seeds[0] for seed in seeds[1:]):
        where = next((at for _, _, at in many.ranks[-1].seeds[::-1] if at), None)
        return f"{OWN_RANDOM_NUMBERS} ({where or 'seeded by rank'})"
    if many.ranks[0].shards:
        times = f"so a step's batch is {many.world} times the original's"
        return f"each rank takes whole elements of its own, {times} ({many.ranks[0].shards[0]})"
    drawn = [nature for nature in many.ranks[0].natures if nature.kind == "draw"]
    if drawn:
        return f"random numbers are drawn in the training step ({drawn[0].what} at {drawn[0].at})"
    bare = [each for each in many.ranks[0].natures if each.kind == "BatchNorm" and each.what]
    return f"BatchNorm {bare[0].what} ({bare[0].at})" if bare else evidence.mixes_rows


def note_on_line(evidence: Evidence, line: Print) -> str | None:
    """The note of the rewrite that says that a printed line shows a value of one process's own."""
    return next((own.note for own in evidence.own_values if own.at in line.stack), None)


def note_on_file(evidence: Evidence, opened: str | None) -> str | None:
    """The note that says so of what is saved in the function that opens a file."""
    return next((own.note for own in evidence.own_values if own.is_in_function_of(opened)), None)


def notes_on_same_data(evidence: Evidence) -> list[str]:
    """The notes of the rewrite that say that all ranks compute on the same data."""
    return [n for n in evidence.notes if "every process has the same data" in n]


def batch_sizes(trace: Trace) -> set[int]:
    """How many samples the batches have that feed the training."""
    return {len(batch) for passed in trace.passes if passed.trains for batch in passed.batches if batch}


def draws_batches(evidence: Evidence) -> str | None:
    """Why each rank has batches of its own, where loaders are asked for some batches and never to the end of a pass."""
    passes = list(training_passes(evidence.baseline.ranks[0]).values())
    is_asked = len(passes) > 1 and not any(passed.is_over for passed in passes)
    nature = why_by_nature(evidence) or ""
    return nature if is_asked and nature.startswith(OWN_RANDOM_NUMBERS) else None


def training_passes(trace: Trace) -> dict[tuple[int, int], Pass]:
    """The passes over loaders that feed the training, by data set and number."""
    return {(each.dataset, each.number): each for each in trace.passes if each.trains}
