"""A checkpoint is complete or absent, is data only, and the newest that checks out is the one loaded."""

import collections
import errno
import json
import os
import pickle
import shutil
import subprocess
import threading
from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import load_file, load_model
from torch import nn

from accelify.runtime import Accelerator, Environment, ProjectConfiguration
from accelify.runtime.checkpoint.checkpoint import CannotLoad, CannotSave
from accelify.runtime.checkpoint.files import Entry, FolderWriter
from accelify.runtime.checkpoint.format import CannotEncode, Encoder, decode
from accelify.runtime.checkpoint.manifest import Manifest, _digest, _table, read_manifest, stage, verify
from accelify.runtime.checkpoint.weights import size_of


def names_in(folder):
    return sorted(path.name for path in Path(folder).iterdir())


class Number:
    def __init__(self, value=0):
        self.value = value

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


class Run:
    """A run as a script has it: something prepared, a number that tells which checkpoint was loaded."""

    def __init__(self, folder, limit=None, value=0):
        project = ProjectConfiguration(project_dir=str(folder), total_limit=limit)
        self.accelerator = Accelerator(cpu=True, environment=Environment(), project_config=project)
        self.model = nn.Linear(2, 2)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.accelerator.prepare(self.model, self.optimizer)
        self.accelerator.backward(self.model(torch.ones(1, 2)).sum())
        self.optimizer.step()
        self.number = Number(value)
        self.accelerator.register_for_checkpointing(self.number)

    def save(self, value, folder=None):
        self.number.value = value
        nn.init.constant_(self.model.weight, value)
        return self.accelerator.save_state(folder)

    def load(self, folder=None):
        self.accelerator.load_state(folder)
        assert self.model.weight.tolist() == [[self.number.value] * 2] * 2
        return self.number.value


class Died(BaseException):
    """What nobody catches, as SIGKILL."""


class Failing:
    """Lets the n-th call of these functions of `os` fail."""

    NAMES = ("open", "write", "fsync", "rename", "mkdir", "link", "unlink", "rmdir")

    def __init__(self, monkeypatch, number, error):
        self.left = number
        self.error = error
        for name in self.NAMES:
            monkeypatch.setattr(os, name, self.failing(getattr(os, name)))

    def failing(self, function):
        def call(*arguments, **options):
            self.left -= 1
            if self.left == 0:
                raise self.error
            return function(*arguments, **options)

        return call


@pytest.mark.parametrize("name", [None, "last"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Died()], ids=["full", "died"])
def test_a_failure_at_any_call_loses_nothing(name, error, tmp_path, monkeypatch):
    target = None if name is None else tmp_path / name
    Run(tmp_path, limit=1).save(1.0, target)
    number, failed = 0, True
    while failed:
        number += 1
        run = Run(tmp_path, limit=1)
        with monkeypatch.context() as patch:
            failing, said = Failing(patch, number, error), "written"
            try:
                run.save(2.0 * number, target)
            except (CannotSave, Died) as raised:
                said = str(raised)
            failed = failing.left <= 0
        if isinstance(error, OSError) and said != "written":
            assert failed
            assert error.strerror in said
            assert str(tmp_path / (name or "checkpoints")) in said
        before = 1.0 if number == 1 else 2.0 * (number - 1) + 0.5
        # What says nothing, as it was killed, may have come to the end.
        possible = [2.0 * number] if said == "written" else [before] if said else [before, 2.0 * number]
        assert Run(tmp_path).load(target) in possible, (number, said)
        Run(tmp_path, limit=1).save(2.0 * number + 0.5, target)
        assert Run(tmp_path).load(target) == 2.0 * number + 0.5
        parent = tmp_path if name else tmp_path / "checkpoints"
        assert len(list(parent.iterdir())) == 1, list(parent.iterdir())
    assert number > 15


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), Died()], ids=["failed", "died"])
def test_files_of_the_script_stay_in_a_folder_that_is_saved_into(error, tmp_path, monkeypatch):
    target = tmp_path / "out"
    (target / "plots" / "empty").mkdir(parents=True)
    (target / "log.txt").write_text("first")
    (target / "plots" / "loss.png").write_bytes(b"png")
    (target / "latest").symlink_to("plots")

    def is_kept():
        texts = (target / "log.txt").read_text(), (target / "latest" / "loss.png").read_bytes()
        return texts == ("first", b"png") and (target / "latest").is_symlink() and (target / "plots" / "empty").is_dir()

    run = Run(tmp_path)
    run.accelerator.register_save_state_pre_hook(
        lambda models, weights, folder: Path(folder, f"hook-{run.number.value}").touch()
    )
    failed, number = True, 0
    while failed:
        number += 1
        with monkeypatch.context() as patch:
            failing = Failing(patch, number, error)
            try:
                run.save(float(number), target)
            except (CannotSave, Died):
                assert failing.left <= 0
            failed = failing.left <= 0
        if target.exists():
            assert is_kept(), number
        run.save(0.5, target)
        assert is_kept(), number
        assert {name for name in names_in(target) if name.startswith("hook")} == {"hook-0.5"}
        assert Run(tmp_path).load(target) == 0.5
    (target / "log.txt").write_text("second")
    assert Run(tmp_path).load(target) == 0.5
    assert (target / "log.txt").stat().st_nlink == 1


def test_what_no_checkpoint_can_replace(tmp_path, monkeypatch):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(CannotSave, match="notes is a file"):
        Run(tmp_path).save(1.0, tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "mine"
    monkeypatch.chdir(tmp_path)
    Path("around").symlink_to(tmp_path.parent)
    for folder in (".", "..", Path("around", tmp_path.name)):
        with pytest.raises(CannotSave, match="the script runs in"):
            Run(tmp_path).save(1.0, folder)
    Path("elsewhere").mkdir()
    Path("link").symlink_to("elsewhere")
    assert Run(tmp_path).save(1.0, "link") == str(tmp_path / "elsewhere")
    assert Path("link").is_symlink()
    assert Run(tmp_path).load("link") == 1.0


def test_another_runs_unfinished_checkpoint_beside_is_left_alone(tmp_path):
    unfinished = stage(tmp_path / "a", is_ours=False)
    Run(tmp_path).save(1.0, tmp_path / "b")
    stage(tmp_path / "a-b", is_ours=False)
    assert unfinished.is_dir()
    stage(tmp_path / "a", is_ours=False)
    assert not unfinished.exists()


def test_a_full_disk(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs leave to mount")
    try:
        assert Run(tmp_path).save(1.0)
        (tmp_path / "filler").write_bytes(bytes(os.statvfs(tmp_path).f_bavail * 4096 - 12288))
        with pytest.raises(CannotSave, match="No space left"):
            Run(tmp_path).save(2.0)
        assert Run(tmp_path).load() == 1.0
        (tmp_path / "filler").unlink()
        Run(tmp_path).save(3.0)
        assert Run(tmp_path).load() == 3.0
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_flipped_bit_is_found_and_the_one_before_loaded(tmp_path):
    Run(tmp_path).save(1.0)
    folder = Run(tmp_path).save(2.0)
    names = names_in(folder)
    assert names == ["manifest.json", "model.safetensors", "optimizer.safetensors", "states.json"]
    for name in names:
        path = tmp_path / "checkpoints" / Path(folder).name / name
        content = path.read_bytes()
        for position in (0, len(content) // 2, len(content) - 2):
            flipped = bytearray(content)
            flipped[position] ^= 4
            path.write_bytes(flipped)
            with pytest.raises(CannotLoad, match="checkpoint_1"):
                Run(tmp_path).load(folder)
            if name != "manifest.json":
                with pytest.warns(UserWarning, match=f"{name}.*Going back to .*checkpoint_0"):
                    assert Run(tmp_path).load() == 1.0
        path.write_bytes(content)
    assert Run(tmp_path).load() == 2.0


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_put_into_a_checkpoint_does_not_run(tmp_path):
    folder = tmp_path / "checkpoint"
    Run(tmp_path).save(1.0, folder)
    evil = pickle.dumps(Evil(tmp_path / "ran"))
    for name in ("optimizer.bin", "random_states_0.pkl", "custom_checkpoint_0.pkl", "scheduler.bin", "rng-rank0.pkl"):
        (folder / name).write_bytes(evil)
    assert Run(tmp_path).load(folder) == 1.0
    # In the place of files that are read, by somebody who also writes a manifest that fits.
    for name in ("optimizer.safetensors", "model.safetensors", "states.json"):
        copy = tmp_path / f"with-{name}"
        shutil.copytree(folder, copy)
        manifest = read_manifest(copy)
        (copy / name).unlink()
        (copy / "manifest.json").unlink()
        with FolderWriter(copy) as writing:
            entry = writing.file(name, [evil])
        table = _table(Manifest(copy, 0, {**manifest.files, name: entry}, manifest.about))
        (copy / "manifest.json").write_text(json.dumps({**table, "sha256": _digest(table)}))
        assert verify(copy)
        with pytest.raises(CannotLoad):
            Run(tmp_path).load(copy)
    assert not (tmp_path / "ran").exists()


def test_a_manifest_cannot_name_files_outside(tmp_path):
    folder = tmp_path / "checkpoint"
    Run(tmp_path).save(1.0, folder)
    (tmp_path / "outside").write_bytes(b"x")
    manifest = read_manifest(folder)
    files = {**manifest.files, "../outside": Entry("../outside", 1, "0" * 64)}
    table = _table(Manifest(folder, 0, files, manifest.about))
    (folder / "manifest.json").write_text(json.dumps({**table, "sha256": _digest(table)}))
    with pytest.raises(CannotLoad, match="outside"):
        Run(tmp_path).load(folder)


def test_numbers_go_on_after_a_restart_and_the_newest_is_kept(tmp_path):
    first = Run(tmp_path, limit=2)
    for value in range(6):
        first.save(float(value))
    second = Run(tmp_path, limit=2)
    assert second.load() == 5.0
    for value in (6, 7, 8):
        second.save(float(value))
    assert names_in(tmp_path / "checkpoints") == ["checkpoint_7", "checkpoint_8"]
    assert Run(tmp_path).load() == 8.0


def test_what_an_old_checkpoint_held_on_the_disk_is_given_back(tmp_path):
    run = Run(tmp_path, limit=1)
    run.save(1.0)
    run.save(1.0, tmp_path / "last")

    def held():
        for thread in set(threading.enumerate()) - before:
            thread.join()
        descriptors = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return [path for path in descriptors if tmp_path in path.readlink().parents]

    before = set(threading.enumerate())
    run.save(2.0)
    run.save(2.0, tmp_path / "last")
    assert held() == []


def test_an_old_checkpoint_goes_where_open_files_keep_their_folder(tmp_path, monkeypatch):
    run, removed = Run(tmp_path, limit=1), []

    def rmtree(folder, *arguments, **options):
        removed.append(folder)
        if len(removed) % 2:
            raise OSError(errno.ENOTEMPTY, "Directory not empty")
        taken_away(folder, *arguments, **options)

    run.save(1.0)
    taken_away = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    run.save(2.0)
    assert len(removed) == 2
    assert names_in(tmp_path / "checkpoints") == ["checkpoint_1"]


def test_the_newest_counts_wherever_in_the_project_it_is(tmp_path):
    run = Run(tmp_path)
    run.save(1.0)
    run.save(2.0, tmp_path / "best")
    assert Run(tmp_path).load() == 2.0
    run.save(3.0)
    assert Run(tmp_path).load() == 3.0
    assert Run(tmp_path).load(tmp_path / "best") == 2.0


def test_nothing_to_load_says_so(tmp_path):
    with pytest.raises(CannotLoad, match="checkpoints has none"):
        Run(tmp_path).load()
    with pytest.raises(CannotLoad, match="no checkpoint"):
        Run(tmp_path).load(tmp_path / "typo")
    with pytest.raises(CannotSave, match="project_dir"):
        Accelerator(cpu=True, environment=Environment()).save_state()


def test_another_number_of_optimizers_is_refused(tmp_path):
    Run(tmp_path).save(1.0)
    other = Run(tmp_path)
    second = other.accelerator.prepare(torch.optim.SGD(other.model.parameters(), 0.1))
    assert second is not None
    with pytest.raises(CannotLoad, match="1 optimizers, and 2"):
        other.load()


def test_another_number_of_models_is_refused(tmp_path):
    run = Run(tmp_path)
    second = run.accelerator.prepare(nn.Linear(2, 2))
    assert second is not None
    run.save(1.0)
    with pytest.raises(CannotLoad, match="more models than the 1 given"):
        Run(tmp_path).load()
    other = Run(tmp_path)
    others = other.accelerator.prepare(nn.Linear(2, 2), nn.Linear(2, 2))
    assert others
    with pytest.raises(CannotLoad, match="has no model_2"):
        other.load()


def test_hooks_take_models_out_and_put_files_in(tmp_path):
    folder = tmp_path / "checkpoint"
    run = Run(tmp_path)

    def save(models, weights, output_dir):
        assert models == [run.model]
        weights.pop()
        Path(output_dir, "adapter").mkdir()
        Path(output_dir, "adapter", "weights.txt").write_text("own")

    handle = run.accelerator.register_save_state_pre_hook(save)
    run.save(1.0, folder)
    assert not (folder / "model.safetensors").exists()
    assert "adapter/weights.txt" in verify(folder).files
    other, seen = Run(tmp_path), []

    def load(models, input_dir):
        seen.append((models.pop(), input_dir))

    other.accelerator.register_load_state_pre_hook(load)
    weight = other.model.weight.tolist()
    other.accelerator.load_state(folder)
    assert seen == [(other.model, str(folder))]
    assert other.model.weight.tolist() == weight
    handle.remove()
    run.save(1.0, folder)
    assert (folder / "model.safetensors").exists()


def test_what_is_no_data_is_refused_with_its_place(tmp_path):
    run = Run(tmp_path, value={"inner": [1, object()]})
    with pytest.raises(CannotSave, match=r"custom-0: state\.value\.inner\.1: a builtins\.object"):
        run.accelerator.save_state(tmp_path / "checkpoint")
    assert names_in(tmp_path) == []
    with pytest.raises(ValueError, match="Item at index 0, `int` has no state_dict"):
        run.accelerator.register_for_checkpointing(3)


SHARED = torch.arange(3.0)
STATES = [
    {"plain": [1, 2.5, "text", None, True, 10**30], "nested": {"a": {"b": ()}}},
    {1: "one", (2, "b"): "pair", None: 0},
    {"~": "the tag itself"},
    [float("inf"), float("-inf"), -0.0, 1e-320],
    collections.OrderedDict(b=1, a=2),
    collections.Counter("hello"),
    collections.deque([1, 2], maxlen=3),
    {1, 2}, frozenset("a"), range(2, 9, 3), b"\x00\xff", 1 + 2j,
    torch.float16, torch.device("cuda", 1), torch.Size([2, 3]),
    numpy.float32(0.1), numpy.int64(7),
]  # fmt: skip


@pytest.mark.parametrize("state", STATES, ids=range(len(STATES)))
def test_states_come_back_as_they_were(state):
    encoder = Encoder()
    text = json.dumps(encoder.encode(state), allow_nan=False)
    back = decode(json.loads(text), encoder.tensors)
    assert back == state
    assert type(back) is type(state)
    assert repr(back) == repr(state)


@pytest.mark.parametrize(
    "tensor",
    [
        *(torch.ones(2, dtype=dtype) for dtype in (torch.bfloat16, torch.bool, torch.uint8, torch.uint32, torch.int64)),
        torch.tensor(3.5),
        torch.ones(2, dtype=torch.bfloat16)[::2],
        torch.empty(0, 3),
        torch.arange(6.0).reshape(2, 3).T,
        torch.tensor([1 + 2j], dtype=torch.complex64),
        torch.tensor([1 + 2j], dtype=torch.complex128),
        torch.ones(3).to(torch.float8_e4m3fn),
    ],
    ids=lambda tensor: f"{tensor.dtype} {list(tensor.shape)}",
)
def test_tensors_come_back_as_they_were(tensor, tmp_path):
    run = Run(tmp_path, value={"t": tensor, "again": tensor, "array": numpy.arange(4, dtype=numpy.uint32)})
    run.accelerator.save_state(tmp_path / "checkpoint")
    other = Run(tmp_path)
    other.accelerator.load_state(tmp_path / "checkpoint")
    back = other.number.value
    assert back["t"].dtype == tensor.dtype
    assert back["t"].tolist() == tensor.tolist()
    assert back["t"].shape == tensor.shape
    assert back["array"].dtype == numpy.uint32
    assert back["array"].tolist() == [0, 1, 2, 3]


def test_an_optimizer_that_sums_over_its_state_goes_on_bit_for_bit(tmp_path):
    """Where a tensor begins in memory decides how a kernel groups its sums."""
    data = torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(0))

    def run(first, last):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
        accelerator = Accelerator(cpu=True, environment=Environment())
        model, optimizer = accelerator.prepare(model, torch.optim.LBFGS(model.parameters(), lr=0.01))
        if first:
            accelerator.load_state(tmp_path / "checkpoint")
        for x in data[first:last]:

            def closure(x=x):
                optimizer.zero_grad()
                loss = (model(x) - 1).square().mean()
                accelerator.backward(loss)
                return loss

            optimizer.step(closure)
        if last == 3:
            accelerator.save_state(tmp_path / "checkpoint")
        return [parameter.tolist() for parameter in model.parameters()]

    run(0, 3)
    assert run(3, 6) == run(0, 6)


def test_sparse_tensors_are_refused():
    with pytest.raises(CannotEncode, match=r"weights: a torch\.Tensor"):
        Encoder().encode({"weights": torch.eye(2).to_sparse()})


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Embedding(4, 3)
        self.middle = nn.Linear(3, 3)
        self.last = nn.Linear(3, 4, bias=False)
        self.last.weight = self.first.weight


def test_save_model_in_parts(tmp_path):
    accelerator = Accelerator(cpu=True, environment=Environment())
    model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 10), nn.Linear(10, 10))
    accelerator.save_model(model, tmp_path, max_shard_size="900B")
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 3 * 440
    assert len(set(index["weight_map"].values())) == 2
    state = {}
    for name in set(index["weight_map"].values()):
        part = load_file(tmp_path / name)
        assert all(index["weight_map"][key] == name for key in part)
        state.update(part)
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    accelerator.save_model(model, tmp_path)
    assert names_in(tmp_path) == ["model.safetensors"]
    accelerator.save_model(model, tmp_path / "pickled", safe_serialization=False)
    assert torch.load(tmp_path / "pickled" / "pytorch_model.bin", weights_only=True).keys() == state.keys()


def test_save_model_with_tied_weights(tmp_path):
    model, other = Tied(), Tied()
    Accelerator(cpu=True, environment=Environment()).save_model(model, tmp_path)
    assert set(load_file(tmp_path / "model.safetensors")) == {"first.weight", "middle.weight", "middle.bias"}
    load_model(other, tmp_path / "model.safetensors")
    assert torch.equal(other.last.weight, model.last.weight)
    folder = tmp_path / "checkpoint"
    for one in (model, other):
        accelerator = Accelerator(cpu=True, environment=Environment())
        accelerator.prepare(one)
        if one is model:
            accelerator.save_state(folder)
        else:
            accelerator.load_state(folder)
    assert torch.equal(other.middle.weight, model.middle.weight)


def test_sizes():
    assert [size_of(text) for text in (5, "10GB", "1.5KiB", "3 MB", "7B")] == [5, 10**10, 1536, 3 * 10**6, 7]
    with pytest.raises(ValueError, match="5 apples"):
        size_of("5 apples")
