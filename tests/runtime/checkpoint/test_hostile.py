"""What lies in a project's folders, whoever put it there, cannot hang a run, exhaust its memory, or block its saves."""

import json
import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from accelify.runtime.checkpoint.checkpoint import CannotLoad, CannotSave
from accelify.runtime.checkpoint.files import FolderWriter
from accelify.runtime.checkpoint.manifest import Manifest, _digest, _table, committed, read_manifest
from tests.interpreters import PYTHONPATH
from tests.runtime.checkpoint.test_checkpoint import Run

LIMIT = 6 << 30  # bytes of addresses; torch itself has some three


def _sparse(path):
    with path.open("wb") as file:
        file.truncate(10 << 30)


def _signed(folder, change):
    """A manifest of another's making, as somebody writes it who knows our format."""
    table = {"format": 2, "serial": 5, "about": {}, "files": {}}
    table = change(table) or table
    (folder / "manifest.json").write_text(json.dumps({**table, "sha256": _digest(table)}))


MANIFESTS = {
    "a pipe": lambda path: os.mkfifo(path),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a file with a hole of 10 GB": _sparse,
    "nested deeply": lambda path: path.write_text("[" * 1_000_000),
    "a number of 10,000 digits": lambda path: path.write_text('{"serial": ' + "9" * 10_000 + "}"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a folder": lambda path: path.mkdir(),
    "not readable as text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "a list": lambda path: path.write_text("[]"),
    "another program's": lambda path: path.write_text('{"name": "app", "icons": []}'),
    "a text as number": lambda path: _signed(path.parent, lambda table: table.update(serial="5")),
    "an endless number": lambda path: _signed(path.parent, lambda table: table.update(serial=10**400)),
    "no number": lambda path: _signed(path.parent, lambda table: table.update(serial=float("nan"))),
    "rows of other lengths": lambda path: _signed(path.parent, lambda table: table.update(files={"a": [1]})),
    "a name with a zero": lambda path: _signed(path.parent, lambda table: table.update(files={"a\0b": [1, ""]})),
}


@pytest.fixture
def bounded():
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", MANIFESTS)
def test_foreign_manifests_block_nothing(kind, tmp_path, bounded):
    home = tmp_path / "checkpoints"
    foreign = [tmp_path / "other", home / "other", home / ".previous-checkpoint_0", home / "checkpoint_3"]
    for folder in foreign:
        folder.mkdir(parents=True)
        MANIFESTS[kind](folder / "manifest.json")
    assert [Path(Run(tmp_path).save(float(value))).name for value in range(2)] == ["checkpoint_4", "checkpoint_5"]
    assert [found.folder.name for found in committed([tmp_path, home])] == ["checkpoint_5", "checkpoint_4"]
    assert Run(tmp_path).load() == 1.0
    for folder in foreign:
        if folder.exists():
            with pytest.raises(CannotLoad, match=r"manifest\.json"):
                Run(tmp_path).load(folder)
    # In its place a checkpoint can be written, where it is not a folder that would have to be kept.
    if kind == "a folder":
        with pytest.raises(CannotSave, match=r"save_state to .*other: .*manifest\.json"):
            Run(tmp_path).save(7.0, foreign[0])
        return
    Run(tmp_path).save(7.0, foreign[0])
    assert Run(tmp_path).load(foreign[0]) == 7.0


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["model.safetensors", "states.json"])
@pytest.mark.parametrize("kind", ["a pipe", "a device", "a file with a hole of 10 GB", "a link to itself", "a folder"])
def test_foreign_files_in_a_checkpoint_are_damage(kind, name, tmp_path, bounded):
    folder = Path(Run(tmp_path).save(1.0))
    (folder / name).unlink()
    MANIFESTS[kind](folder / name)
    with pytest.raises(CannotLoad, match=name.replace(".", r"\.")):
        Run(tmp_path).load(folder)
    Run(tmp_path).save(2.0)
    assert Run(tmp_path).load() == 2.0


@pytest.mark.timeout(60)
def test_a_table_that_promises_too_much_is_refused(tmp_path, bounded):
    folder = Path(Run(tmp_path).save(1.0))
    table = json.loads((folder / "states.json").read_text())
    for change in (
        lambda: table["rng-rank0"]["tensors"].update(torch=["torch.uint8", [1 << 40], ""]),
        lambda: table.update(model={"state": json.loads("[" * 900 + "]" * 900), "tensors": {}}),
    ):
        change()
        manifest = read_manifest(folder)
        for name in ("states.json", "manifest.json"):
            (folder / name).unlink()
        with FolderWriter(folder) as writing:
            entry = writing.file("states.json", [json.dumps(table).encode()])
        rows = _table(Manifest(folder, manifest.serial, {**manifest.files, "states.json": entry}, manifest.about))
        (folder / "manifest.json").write_text(json.dumps({**rows, "sha256": _digest(rows)}))
        run = Run(tmp_path)
        weight = run.model.weight.tolist()
        with pytest.raises(CannotLoad):
            run.accelerator.load_state(folder)
        assert run.model.weight.tolist() == weight


@pytest.mark.timeout(60)
def test_a_pipe_of_the_scripts_own_stays_in_a_folder_that_is_saved_into(tmp_path):
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / "commands")
    Run(tmp_path).save(1.0, tmp_path / "out")
    assert (tmp_path / "out" / "commands").is_fifo()


FULL = """
    import resource, sys, torch
    from pathlib import Path
    from torch import nn
    from accelify.runtime import Accelerator
    from accelify.runtime.checkpoint.checkpoint import CannotSave

    accelerator, folder = Accelerator(cpu=True), Path(sys.argv[1])
    model = accelerator.prepare(nn.Linear(10, 10))
    saves = {
        "a.pt": lambda what: accelerator.save(what, folder / "a.pt"),
        "a.safetensors": lambda what: accelerator.save(what, folder / "a.safetensors", safe_serialization=True),
        "b.pt": lambda what: accelerator.save(what, open(folder / "b.pt", "wb")),
        "weights": lambda what: accelerator.save_model(model, folder / "weights"),
        "state": lambda what: accelerator.save_state(folder / "state"),
    }
    def listed():
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "b.pt"}
    for save in saves.values():
        save({"weight": torch.zeros(10)})
    before = listed()
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    model.more = nn.Linear(1000, 1000)
    for name, save in saves.items():
        try:
            save({"weight": torch.zeros(100_000)})
        except (OSError, CannotSave) as error:
            assert "File too large" in str(error) and str(folder / name) in str(error), error
        else:
            raise AssertionError(name)
    assert listed() == before
    print("all named")
"""


def test_a_disk_without_room_is_named_with_the_file(tmp_path):
    """By a limit on the size of files, which needs no mount and fails in the same calls."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "all named\n", done.stderr
