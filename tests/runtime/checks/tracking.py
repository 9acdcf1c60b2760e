"""Process 0 alone writes; the same lines run on all."""

import tempfile
from pathlib import Path

from accelify.runtime import Accelerator


def only_process_0_writes(accelerator):
    folder = accelerator.gather_object(tempfile.mkdtemp())
    own = folder[accelerator.process_index]
    tracked = Accelerator(log_with=["jsonl", "csv"], project_dir=own)
    tracked.init_trackers("run", config={"lr": 1})
    tracked.log({"loss": 1.0}, step=0)
    assert [tracker.name for tracker in tracked.trackers] == (["jsonl", "csv"] if accelerator.is_main_process else [])
    # The script's own calls of a tracker need no `if`.
    tracked.get_tracker("csv").log({"loss": 2.0}, step=1)
    assert tracked.get_tracker("csv", unwrap=True) is not None
    tracked.end_training()
    names = sorted(path.name for path in Path(own).iterdir())
    assert names == (["run.config.json", "run.csv", "run.jsonl"] if accelerator.is_main_process else [])
