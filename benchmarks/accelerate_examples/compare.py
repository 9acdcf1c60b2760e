"""Do Accelerate's own examples train the same on accelify, once `accelify rewrite` has moved them?

    git clone https://github.com/huggingface/accelerate build/accelerate
    python benchmarks/accelerate_examples/compare.py build/accelerate

Each example runs on Accelerate and, rewritten, on accelify, in one process and in two, on small data (`stand_ins/`).
Compared is what each process sees: every loss, the learning rates and weights after every step, every metric and print.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any  # values of a trace

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
# Examples, with the options that each is run with; those for DeepSpeed, FSDP and Megatron-LM are declined.
EXAMPLES: dict[str, Sequence[str]] = {
    "nlp_example.py": (),
    "complete_nlp_example.py": ("--checkpointing_steps", "epoch", "--output_dir", "checkpoints"),
    "cv_example.py": ("--data_dir", "pictures"),
    "complete_cv_example.py": (
        "--data_dir",
        "pictures",
        "--checkpointing_steps",
        "epoch",
        "--output_dir",
        "checkpoints",
    ),
    "by_feature/automatic_gradient_accumulation.py": (),
    "by_feature/checkpointing.py": ("--checkpointing_steps", "epoch", "--output_dir", "checkpoints"),
    "by_feature/cross_validation.py": (),
    "by_feature/ddp_comm_hook.py": (),
    "by_feature/early_stopping.py": (),
    "by_feature/gradient_accumulation.py": ("--gradient_accumulation_steps", "2"),
    "by_feature/gradient_accumulation_for_autoregressive_models.py": ("--gradient_accumulation_steps", "2"),
    "by_feature/local_sgd.py": ("--local_sgd_steps", "2"),
    "by_feature/memory.py": (),
    "by_feature/multi_process_metrics.py": (),
    "by_feature/profiler.py": ("--output_trace_dir", "traces"),
    "by_feature/tracking.py": ("--with_tracking", "--project_dir", "logs"),
}
# Rows of data for training and for evaluation where the usual ones end in an incomplete step: what an example makes of
# one differs from runtime to runtime. In the first every step would be one, in the second the last of an evaluation.
ROWS = {
    "by_feature/automatic_gradient_accumulation.py": "512,72",
    "by_feature/gradient_accumulation_for_autoregressive_models.py": "192,64",
}
# Lines that are put in before others, for a reason. Each fold's model is drawn from the random state that the fold
# before it left, and that is another one on several processes: in Accelerate that of a rank, here that of all ranks.
PUT_IN = {
    "by_feature/cross_validation.py": ("for i, (train_idxs, valid_idxs) in enumerate(folds):", "set_seed(seed + i)")
}
SECONDS = 600


@dataclass(frozen=True)
class Run:
    """What an example did: what each process recorded, and what the first one printed."""

    traces: tuple[list[Any], ...]
    printed: tuple[str, ...]


class Failed(Exception):
    """An example that ended with an error; the message is what it said last."""


def moved(path: Path) -> Path:
    """The example, as `accelify rewrite` leaves it in its place. Raises: Failed where it is declined."""
    done = _accelify("rewrite", str(path))
    if done.returncode or b"from accelify.runtime import" not in path.read_bytes():
        raise Failed(done.stdout + done.stderr)
    return path


def _accelify(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "accelify", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def laid_out(example: Path, name: str, folder: Path) -> Path:
    """The example in a folder of its own, with the line that is put in."""
    text = example.read_text()
    if name in PUT_IN:
        header, line = PUT_IN[name]
        text, count = re.subn(rf"^( *){re.escape(header)}\n", rf"\g<0>\1    {line}\n", text, flags=re.MULTILINE)
        assert count == 1, name
    folder.mkdir()
    path = folder / "example.py"
    path.write_text(text)
    return path


def run(script: Path, name: str, size: int, folder: Path) -> Run:
    """Run a script in so many processes, in its folder. Raises: Failed."""
    _pictures(folder / "pictures")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = [_start(script, name, rank, size, port, folder) for rank in range(size)]
    try:
        said = [process.communicate(timeout=SECONDS)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    if any(process.returncode for process in started):
        raise Failed("\n".join(text[-1500:] for text in said))
    traces = tuple(json.loads((folder / f"{rank}.json").read_text()) for rank in range(size))
    epochs = tuple(line for line in said[0].splitlines() if line.startswith(("epoch", "Average")))
    return Run(traces, epochs)


def _start(script: Path, name: str, rank: int, size: int, port: int, folder: Path) -> subprocess.Popen[str]:
    several = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    environment = {
        **os.environ,
        "PYTHONPATH": f"{HERE / 'stand_ins'}:{ROOT}",
        "ACCELERATE_USE_CPU": "true",
        "MASTER_ADDR": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        "TRACE_FOLDER": str(folder),
        "TRACE_ORDER": "same" if size > 1 else "",
        **({"TRACE_ROWS": ROWS[name]} if name in ROWS else {}),
        **({name: str(value) for name, value in several.items()} if size > 1 else {}),
    }
    command = [sys.executable, str(script), "--cpu", *EXAMPLES[name]]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _pictures(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(320):
        (folder / f"{('cat', 'dog', 'eel', 'fox')[number % 4]}_{number}.jpg").touch()


def differences(one: Run, other: Run) -> Iterator[str]:
    """What two runs differ in: the first place in each process, and in what was printed."""
    for rank, (ours, theirs) in enumerate(zip(one.traces, other.traces, strict=True)):
        if [kind for kind, _ in ours] != [kind for kind, _ in theirs]:
            yield f"rank {rank}: {_count(ours)} against {_count(theirs)}"
        for index, (left, right) in enumerate(zip(ours, theirs, strict=False)):
            if left[0] != right[0] or not _close(left[1], right[1]):
                yield f"rank {rank}, record {index} of {len(ours)}: {left} against {right}"
                break
    if one.printed != other.printed:
        yield f"printed: {one.printed} against {other.printed}"


def _count(trace: Sequence[Any]) -> dict[str, int]:
    kinds = [kind for kind, _ in trace]
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def _close(left: Any, right: Any) -> bool:
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_close, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_close(left[key], right[key]) for key in left)
    return bool(abs(left - right) <= 1e-6 * max(abs(left), abs(right)))


def compared(snapshot: Path, name: str, size: int) -> tuple[Run, list[str]]:
    """An example on accelify in so many processes, and in what it differs from itself on Accelerate. Raises: Failed."""
    example = snapshot / "examples" / name
    with TemporaryDirectory() as folder:
        theirs, ours = Path(folder, "theirs"), Path(folder, "ours")
        before = run(laid_out(example, name, theirs), name, size, theirs)
        after = run(moved(laid_out(example, name, ours)), name, size, ours)
    return after, list(differences(after, before))


def main(snapshot: str, *names: str) -> int:
    """Compare the examples, all or some; the exit status is the number of those that differ."""
    wrong = 0
    for name in names or EXAMPLES:
        for size in (1, 2):
            try:
                ran, found = compared(Path(snapshot), name, size)
                text = "; ".join(found) or f"the same: {_count(ran.traces[0])}"
            except (Failed, subprocess.TimeoutExpired) as error:
                found = [text := f"failed: {error}"]
            wrong += bool(found)
            print(f"{name} on {size}: {text}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
