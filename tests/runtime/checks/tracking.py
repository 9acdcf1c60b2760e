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
    assert (tracked.get_tracker("csv") is None) == (not accelerator.is_main_process)
    tracked.end_training()
    names = sorted(path.name for path in Path(own).iterdir())
    assert names == (["run.config.json", "run.csv", "run.jsonl"] if accelerator.is_main_process else [])
