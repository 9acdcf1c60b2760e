"""A save that fails on one rank fails on all, with the same words, and leaves what was there."""

import os
import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

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
    place, cause = home / "checkpoint_1", "[Errno 28] No space left on device"
    assert set(words) == {f"save_state to {place}: rank {last}: {cause}. What was there before still is"}
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


def a_load_that_fails_on_one_rank_changes_nothing_on_any(accelerator):
    made, one, _ = _project(accelerator)
    model, numbers = next(iter(made._training.models)), made.prepare(DataLoader(range(12), batch_size=2, shuffle=True))
    optimizer = made.prepare(torch.optim.Adam(model.parameters()))
    made.save_state()
    for _ in zip(range(2), numbers, strict=False):
        made.backward(model(torch.ones(1, 2)).sum())
        optimizer.step()
    one.value = 7

    def everything():
        drawn, place = torch.rand(1).item(), made._streams.undo()
        place()
        return repr([model.state_dict(), optimizer.state_dict(), one.value, drawn, numbers.iteration])

    keep = made._streams.undo()
    before = everything()
    keep()
    one.fails = not made.is_main_process
    words = (
        r"load_state from .*checkpoint_0: rank 1: registered object 0 \(Sometimes\): RuntimeError: does not fit here"
    )
    with pytest.raises(CannotLoad, match=words):
        made.load_state()
    assert everything() == before
    one.fails = False
    made.load_state()
    assert one.value == 0
    assert [len(batch) for batch in numbers] == [2] * 3
    with pytest.raises(CannotLoad, match="no checkpoint"):
        made.load_state("/nowhere")


class _Failing:
    """Lets the n-th call that changes the disk fail, and counts them."""

    def __init__(self, number):
        self.left = number

    def __enter__(self):
        self.before = {name: getattr(os, name) for name in ("write", "fsync", "rename", "mkdir", "unlink", "rmdir")}
        for name, function in self.before.items():
            setattr(os, name, self.failing(function))
        return self

    def failing(self, function):
        def call(*arguments, **options):
            self.left -= 1
            if self.left == 0:
                raise OSError(5, "Input/output error")
            return function(*arguments, **options)

        return call

    def __exit__(self, *_):
        for name, function in self.before.items():
            setattr(os, name, function)


def an_error_at_any_write_rename_or_fsync_loses_nothing(accelerator):
    """What it says on all ranks is so: written, and then it is loaded; or not, and then the one before is."""
    made, one, _ = _project(accelerator, total_limit=1)
    one.value, number, failed = 0, 0, True
    made.save_state()
    while failed:
        number, before = number + 1, one.value
        one.value = number
        with _Failing(number if made.is_main_process else -1) as failing, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made.save_state()
            except CannotSave as error:
                said = str(error)
            else:
                said = "written"
        assert said == "written" or "Input/output error" in said
        assert len(set(accelerator.gather_object(said))) == 1
        failed = accelerator.gather_object(failing.left <= 0)[0]
        made.load_state()
        assert one.value == (number if said == "written" else before), (number, said)
    assert number > 15


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
