"""Files that several processes open for writing: which are noted, and what rank 0 says of them."""

import logging
import os
import sys
from pathlib import Path

import pytest
import torch
from torch.distributed import HashStore

from accelify.runtime.world import files_written
from accelify.runtime.world.files_written import NOTED_OF_A_LINE, FilesWritten, describe, leave_notes
from tests.runtime.processes import launch

HELPER = """
import logging
logging.getLogger("helper").addHandler(logging.FileHandler("helper.log"))
"""
SHARED = """
open("early", "w").close()
import os, pathlib, shutil, tempfile, threading
import torch
from accelify.runtime import Accelerator
from accelify.runtime.world import files_written
import helper
files_written.SHOWN = 20
open("before", "w").close()
accelerator = Accelerator()
rank = accelerator.process_index
with open("appended", "a") as file: file.write("x")
pathlib.Path("text").write_text("x")
torch.save({}, "saved")
pathlib.Path(f"part-{rank}").write_text("x")
os.replace(f"part-{rank}", "renamed")
shutil.copyfile("train.py", "copied")
def write():
    open("threaded", "w").close()
thread = threading.Thread(target=write)
thread.start()
thread.join()
with accelerator.main_process_first():
    open("in turn", "w").close()
pathlib.Path("out").mkdir(exist_ok=True)
os.chdir("out")
open("elsewhere", "w").close()
os.chdir("..")
"""
PLACES = {
    "helper.log": ("helper.py", "FileHandler"),
    "before": ("train.py", '"before"'),
    "appended": ("train.py", '"appended"'),
    "text": ("train.py", '"text"'),
    "saved": ("train.py", '"saved"'),
    "renamed": ("train.py", '"renamed"'),
    "copied": ("train.py", '"copied"'),
    "threaded": ("train.py", '"threaded"'),
    "in turn": ("train.py", '"in turn"'),
    "out/elsewhere": ("train.py", '"elsewhere"'),
}
RIGHT = """
import fcntl
if accelerator.is_main_process:
    open("guarded", "w").close()
with accelerator.main_process_first():
    os.path.exists("first") or open("first", "w").close()
open(f"own-{rank}", "w").close()
open("train.py").close()
with tempfile.NamedTemporaryFile(dir="."):
    open(os.path.join(tempfile.gettempdir(), "fixed"), "w").close()
for folder in (os.path.expanduser("~/.cache"), os.environ["TORCH_HOME"]):
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, "weights"), "w").close()
with open("lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
open("gone", "w").close()
accelerator.wait_for_everyone()
rank or os.unlink("gone")
try:
    open("new", "x").close()
except FileExistsError:
    pass
class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, at):
        open("of a worker", "w").close()
        return at
list(torch.utils.data.DataLoader(Data(), num_workers=1, collate_fn=list))
model = accelerator.prepare(torch.nn.Linear(1, 1))
accelerator.save_state("state")
accelerator.save(model.state_dict(), "whole")
"""


def test_rank_0_warns_of_the_files_that_several_ranks_opened(tmp_path, monkeypatch):
    for name, folder in (("TMPDIR", "temporary"), ("HOME", "home"), ("TORCH_HOME", "hub")):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(name, str(tmp_path / folder))
    texts = {"helper.py": HELPER, "train.py": SHARED + RIGHT}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    shared = {str(tmp_path / path): [_at(texts, *place)] * 2 for path, place in PLACES.items()}
    monkeypatch.setattr(files_written, "SHOWN", 20)
    assert launch(["train.py"], 2, cwd=tmp_path) == [(0, f"{describe(shared)}\n"), (0, "")]
    assert (tmp_path / "of a worker").exists()


def _at(texts, name, word):
    line = next(number for number, line in enumerate(texts[name].splitlines(), 1) if word in line)
    return f"{name}:{line}"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Files of this process, which works in a folder of its own; nothing is heard of by itself."""
    monkeypatch.chdir(tmp_path)
    hooks = []
    monkeypatch.setattr(sys, "addaudithook", hooks.append)
    writer = torch.serialization._open_zipfile_writer_file
    monkeypatch.setattr(writer, "__init__", writer.__init__)
    files = FilesWritten()
    files.start()
    (files.hear,) = hooks
    monkeypatch.setattr(files_written, "FILES", files)
    return files


def names(files):
    return [Path(path).name for path in files.noted()]


def test_only_what_may_be_created_is_noted(files, tmp_path):
    for name, flags in {"a": os.O_CREAT, "b": os.O_RDWR, "c": os.O_CREAT | os.O_EXCL, "d": os.O_RDONLY}.items():
        files.hear("open", (name, None, flags | os.O_WRONLY))
    files.hear("open", (3, "w", os.O_CREAT))
    files.hear("os.rename", ("x", b"e", -1, -1))
    files.hear("os.rename", ("x", "f", -1, 5))
    files.hear("os.remove", ("g", -1))
    files.hear("open", (tmp_path / "h", "w", os.O_CREAT))
    assert names(files) == ["a", "e", "h"]


def test_files_of_the_system_and_of_installed_libraries_are_not_noted(files):
    for path in ("/dev/null", "/proc/self/x", "__pycache__/a.cpython-311.pyc", f"{Path(torch.__file__).parent}/x"):
        files.note(path)
    assert names(files) == []


def test_a_folder_in_which_the_script_works_is_never_a_temporary_one(tmp_path, monkeypatch, files):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    files._process = -1
    files.start()
    for path in ("a", "../b"):
        files.note(path)
    assert names(files) == ["a"]


@pytest.mark.parametrize("arguments", [(), (object(), None, os.O_CREAT), ("a", "w", None), ("\0", "w", os.O_CREAT)])
def test_an_odd_event_stops_nothing(files, arguments):
    files.hear("open", arguments)
    files.hear("fcntl.flock", (-1, 2))


def test_a_line_that_writes_many_files_is_noted_for_the_first(files):
    for number in range(2 * NOTED_OF_A_LINE):
        files.note(str(number))
    files.note("another")
    assert names(files) == [*map(str, range(NOTED_OF_A_LINE)), "another"]


def test_a_forked_process_has_notes_of_its_own(files, monkeypatch):
    files.note("a")
    monkeypatch.setattr(os, "getpid", lambda: -7)
    files.note("b")
    assert names(files) == ["a"]
    files.start()
    files.note("c")
    assert names(files) == ["c"]


def warned(caplog, files, others):
    """What rank 0 says beside ranks that have left these notes."""
    store = HashStore()
    with caplog.at_level(logging.WARNING):
        for rank, (host, noted) in enumerate(others, start=1):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(files_written.socket, "gethostname", lambda host=host: host)
                patch.setattr(files, "noted", lambda noted=noted: noted)
                leave_notes(store, rank)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files_written.socket, "gethostname", lambda: "here")
            files_written.warn_of_shared_files(store, len(others) + 1)
    return caplog.text


def test_only_processes_of_one_machine_share_files(files, caplog, tmp_path):
    for name in "ab":
        files.note(name)
        Path(name).touch()
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    text = warned(caplog, files, [("there", {a: "x:1"}), ("here", {b: "x:2"}), ("here", {b: "x:3"})])
    assert f"{b}, opened at {Path(__file__)}" in text
    assert "and x:2 and x:3 by 3 processes\n" in text
    assert a not in text


def test_where_rank_0_has_written_nothing_it_asks_nobody(files):
    files_written.warn_of_shared_files(None, 2)


def test_a_rank_that_has_not_ended_is_not_waited_for_long(files, monkeypatch, caplog):
    monkeypatch.setattr(files_written, "PATIENCE", 0.0)
    files.note("a")
    files_written.warn_of_shared_files(HashStore(), 3)
    assert caplog.text == ""


def test_at_most_five_files_are_listed():
    text = describe({f"/run/{number}": ["train.py:7", "train.py:7"] for number in range(8)})
    assert text.splitlines()[1:-1] == [
        *(f"  /run/{number}, opened at train.py:7 by 2 processes" for number in range(5)),
        "  and 3 more",
    ]
    assert "`if accelerator.is_main_process:`" in text
