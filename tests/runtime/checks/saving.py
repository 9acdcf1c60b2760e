"""A save that fails on one rank fails on all, with the same words, and leaves what was there."""

import os
import tempfile
from pathlib import Path

import pytest
import torch
from torch import nn

from accelify.runtime import Accelerator, ProjectConfiguration
from accelify.runtime.checkpoint.checkpoint import CannotLoad, CannotSave


class Sometimes:
    def __init__(self):
        self.fails = False
        self.value = 0

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        if self.fails:
            raise RuntimeError("does not fit here")
        self.value = state["value"]


def _project(accelerator, **options):
    folder = accelerator.gather_object(tempfile.mkdtemp())[0]
    made = Accelerator(project_config=ProjectConfiguration(project_dir=folder, **options))
    one = Sometimes()
    made.prepare(nn.Linear(2, 2))
    made.register_for_checkpointing(one)
    return made, one, Path(folder, "checkpoints")


def a_save_that_fails_on_one_rank(accelerator):
    made, one, home = _project(accelerator, total_limit=1)
    one.value = 1
    made.save_state()
    last = accelerator.num_processes - 1

    def broken(models, weights, folder):
        if made.process_index == last:
            raise OSError(28, "No space left on device")

    handle = made.register_save_state_pre_hook(broken)
    with pytest.raises(CannotSave) as caught:
        made.save_state()
    words = accelerator.gather_object(str(caught.value))
    assert set(words) == {f"rank {last}: OSError: [Errno 28] No space left on device"}
    accelerator.wait_for_everyone()
    assert os.listdir(home) == ["checkpoint_0"]  # noqa: PTH208
    accelerator.wait_for_everyone()  # before anybody begins the next
    handle.remove()
    one.value = 2
    assert Path(made.save_state()).name == "checkpoint_1"
    one.value = 3
    made.load_state()
    assert one.value == 2
    assert os.listdir(home) == ["checkpoint_1"]  # noqa: PTH208


def a_load_that_fails_on_one_rank(accelerator):
    made, one, _ = _project(accelerator)
    made.save_state()
    one.fails = not made.is_main_process
    with pytest.raises(CannotLoad, match="rank 1: RuntimeError: does not fit here"):
        made.load_state()
    with pytest.raises(CannotLoad, match="no checkpoint"):
        made.load_state("/nowhere")


def each_rank_gets_its_own_random_numbers_back(accelerator):
    made, _, _ = _project(accelerator)
    torch.manual_seed(100 + made.process_index)
    made.save_state()
    drawn = accelerator.gather_object(torch.rand(1).item())
    torch.manual_seed(0)
    made.load_state()
    assert accelerator.gather_object(torch.rand(1).item()) == drawn
    assert drawn[0] != drawn[1]


def files_of_every_rank_are_in_the_manifest(accelerator):
    made, _, home = _project(accelerator)
    made.register_save_state_pre_hook(
        lambda models, weights, folder: Path(folder, f"own-{made.process_index}").write_text("x")
    )
    made.save_state()
    names = {path.name for path in (home / "checkpoint_0").iterdir()}
    assert names == {"own-0", "own-1", "model.safetensors", "states.json", "manifest.json"}
    if made.is_main_process:
        (home / "checkpoint_0" / "own-1").write_text("y")
    made.wait_for_everyone()
    with pytest.raises(CannotLoad, match="own-1 is not as it was written"):
        made.load_state()


def one_model_is_written_in_parts_by_process_0(accelerator):
    folder = Path(accelerator.gather_object(tempfile.mkdtemp())[0])
    accelerator.save_model(nn.Linear(4, 4), folder, max_shard_size=70)
    assert sorted(path.name for path in folder.iterdir()) == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ]
