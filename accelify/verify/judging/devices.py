"""Would the rewritten script find all of its tensors on one GPU?"""

from __future__ import annotations

from accelify.verify.judging.evidence import Evidence
from accelify.verify.judging.words import DIFFERS, HOLDS, NATURE, NOTHING, counted, make_row
from accelify.verify.trace import Run
from accelify.verify.verdict import Row

# Errors that a GPU would raise, by the names of the pretend GPU's errors.
REFUSALS = ("WrongDevice: ", "NotOnTheHost: ")


def devices(evidence: Evidence) -> Row:
    """Whether each of several processes computes on a GPU of its own without mixing devices."""
    run, original = evidence.on_gpus, evidence.original_on_gpu
    assert run is not None
    error = run.error
    if evidence.are_real:
        return _on_real_gpus(run, original)
    if error is None and not run.hang:
        if (other := _on_other_gpu(run)) is not None:
            return other
        steps = counted(run.ranks[0].taken, "step")
        return make_row("devices", run, HOLDS, f"{steps}, in which no operation mixes devices; kernels are the CPU's")
    refused = _refusal(run)
    if refused is None:
        why = run.hang or (error.message if error is not None else "")
        return make_row("devices", run, NOTHING, f"cannot be emulated: {why}")
    at = error.at if error is not None else None
    if original is not None and _refusal(original) is not None:
        return make_row("devices", run, NATURE, f"the original fails on a GPU, too; {refused}", at)
    return make_row("devices", run, DIFFERS, refused, at)


def _on_other_gpu(run: Run) -> Row | None:
    """A rank that puts tensors into the memory of another one's GPU, as where a file is loaded onto `cuda:0`."""
    for trace in run.ranks:
        for nature in trace.natures:
            if nature.kind == "other GPU":
                words = (
                    f"rank {trace.rank} puts a tensor on {nature.what}, the GPU of another rank, whose memory it takes"
                )
                return make_row("devices", run, DIFFERS, words, nature.at)
    return None


def _on_real_gpus(run: Run, original: Run | None) -> Row:
    """Whether each process runs on a GPU as far as the original went."""
    error = run.error
    if error is None and not run.hang:
        return make_row("devices", run, HOLDS, f"{counted(run.ranks[0].taken, 'step')} on each GPU without an error")
    words, at = run.hang or "", None
    if error is not None:
        words, at = error.message or f"exit status {error.code}", error.at
    if original is not None and (original.error is not None or original.hang):
        return make_row("devices", run, NATURE, f"the original fails on a GPU, too; {words}", at)
    return make_row("devices", run, DIFFERS, words, at)


def _refusal(run: Run) -> str | None:
    """The error of the pretend GPU."""
    for trace in run.ranks:
        for name in REFUSALS:
            if name in trace.end.message:
                return trace.end.message.partition(name)[2]
    return None
