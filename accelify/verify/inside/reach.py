"""The events that a run has come to (end of an epoch, evaluation, checkpoint), and whether to go on for more."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from accelify.verify.inside.record import Recorder

EPOCH, EVALUATION, CHECKPOINTS, FILES = "the end of an epoch", "evaluation", "checkpoints", "files"
RESUME = "a resume"  # as a verdict calls what takes a checkpoint to come to
# Names that show that a script evaluates, and that it writes checkpoints.
_EVALUATES = re.compile(r"\.eval\(|\bno_grad\b|\binference_mode\b")
_SAVES = re.compile(r"\bsave\w*\(")
_WRITES = re.compile(
    r"""\bopen\([^)\n]*["'][wax]b?\+?["']|\b(?:to_csv|savefig|savetxt|write_text|imwrite)\(|\bnp\.savez?\("""
)
# A script that continues a training loads an optimizer's state, or the state of all prepared objects.
_RESUMES = re.compile(r"\b\w*opt\w*(?:\[[^\]\n]*\])?\.load_state_dict\(|\.load_state\(", re.IGNORECASE)
# Files that are checkpoints, whoever writes them.
SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
LINES = (".csv", ".tsv", ".jsonl", ".log", ".txt")

Key = tuple[int, int]


class Reach:
    """The events that this run has come to. `seconds`: how long to go on for the rest once its steps are taken.

    until: what a step has to follow to be far enough, and nothing else.
    """

    def __init__(self, recorder: Recorder, seconds: float, until: str | None = None) -> None:
        self._recorder = recorder
        self._seconds = seconds
        self._until = until
        self._seen: set[str] = set()
        self._since: float | None = None  # when the steps were taken
        self._wanted: tuple[str, ...] = ()
        self._passes = 0
        self._under_way: Key | None = None  # the pass over a loader that gave the last batch
        self._training: set[Key] = set()
        self._has_resumed = False

    def came_to(self, what: str) -> None:
        """Something was reached; before the first backward pass nothing is."""
        if self._passes:
            self._seen.add(what)

    def wrote(self, path: str) -> None:
        """A file of the project's was opened for writing; one that lines are added to may be so before the training."""
        if path.endswith(SUFFIXES):
            self.came_to(CHECKPOINTS)
        elif path.endswith(LINES):
            self._seen.add(FILES)
        else:
            self.came_to(FILES)

    def took_batch(self, key: Key) -> None:
        """A pass over a loader gave a batch."""
        self._under_way = key

    def ended_pass(self, key: Key) -> None:
        """A pass over a loader is over: an epoch's, or an evaluation's."""
        self.came_to(EPOCH if key in self._training else EVALUATION)

    def loaded(self) -> None:
        """An optimizer was given a state."""
        self._has_resumed = True

    def learned(self) -> None:
        """There was a backward pass, from the last batch."""
        self._passes += 1
        if self._passes == 1 and self._has_resumed:
            self._recorder.write("resumed")
        elif self._passes == 1 and self._is_written(_RESUMES):
            self._recorder.write("unreached", what=RESUME)
        if self._under_way is not None:
            self._training.add(self._under_way)

    def is_far_enough(self, steps: int) -> bool:
        """Whether to stop now that as many steps were taken as were asked for; records what was not reached."""
        if self._until is not None:
            return self._until in self._seen
        if self._since is None:
            self._since = time.monotonic()
            self._wanted = tuple(self._all())
        unreached = [what for what in self._wanted if what not in self._seen]
        if unreached and time.monotonic() - self._since < self._seconds:
            return False
        self._recorder.write("stopped", steps=steps, unreached=unreached)
        return True

    def _all(self) -> list[str]:
        """The events that can be reached in this script."""
        is_unknown = not self._own_files()
        found = [EPOCH] if self._training else []
        found += [EVALUATION] if is_unknown or self._is_written(_EVALUATES) else []
        found += [FILES] if self._is_written(_WRITES) else []
        return found + ([CHECKPOINTS] if is_unknown or self._is_written(_SAVES) else [])

    def _is_written(self, words: re.Pattern[str]) -> bool:
        """Whether the user's own files have these words somewhere."""
        return any(words.search(_text(path)) for path in self._own_files())

    def _own_files(self) -> list[str]:
        """The files of the user's that were loaded: modules, and the script itself."""
        files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
        return sorted(file for file in files if self._recorder.owns(file))


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
