"""A kept result is used only while everything that it was computed from is still so; a bad cache is no cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from accelify.codemod import batch, cache
from accelify.codemod.cache import Cache
from accelify.codemod.options import Options, Selection
from accelify.codemod.result import FileResult, Status
from tests.cli.running import DECLINED, PLAIN, write

pytestmark = pytest.mark.slow
HEAD, LOOP = PLAIN.split("for epoch")
PARAMETERS = "(model, loader, optimizer, criterion, device)"
MAIN = f"from lib import fit\n\n{HEAD}fit{PARAMETERS}\n"
BODY = f"for epoch{LOOP}".rstrip().replace("\n", "\n    ")
LIB = f"def fit{PARAMETERS}:\n    {BODY}\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a program of two files and one that is declined."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    write("main.py", MAIN)
    write("lib.py", LIB)
    write("sub/other.py", DECLINED)
    return tmp_path


class Counted:
    """Runs over the folder; `rewritten` are the programs that the last one did not find in the cache."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rewritten: list[tuple[str, ...]] = []
        inner = batch._rewrite_program
        monkeypatch.setattr(batch, "run_many", self._run_many)
        self._inner = inner

    def _run_many(self, function: object, tasks: list[tuple[tuple[str, ...], Options]], jobs: int) -> object:
        for index, task in enumerate(tasks):
            self.rewritten.append(task[0])
            yield index, self._inner(task)

    def run(self, *paths: str, options: Options | None = None, folder: str = "cache") -> list[FileResult]:
        self.rewritten = []
        found = batch.rewrite_paths(paths or (".",), options or Options(), 1, cache=Cache(Path(folder)))
        return found.results()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def fresh() -> list[FileResult]:
    return batch.rewrite_paths((".",), Options(), 1).results()


def test_a_second_run_computes_nothing_and_says_the_same(counted: Counted) -> None:
    first = counted.run()
    assert sorted(counted.rewritten) == [("lib.py", "main.py"), ("sub/other.py",)]
    assert [result.status for result in first] == [Status.MIGRATED, Status.MIGRATED, Status.DECLINED]
    assert counted.run() == first
    assert counted.rewritten == []
    assert fresh() == first


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("lib.py", LIB.replace("loss.backward()", "loss.backward()  # changed")),
        ("main.py", MAIN.replace("lr=0.1", "lr=0.2")),
        ("lib.py", "def fit(*a):\n    pass\n"),
        ("torch/__init__.py", "x = 1\n"),  # which was looked for and not there: another torch for all of them
        ("lib/__init__.py", "def fit(*a):\n    pass\n"),
        ("caller.py", MAIN.replace("lr=0.1", "lr=0.3")),  # found in the folder
    ],
)
def test_whatever_changes_is_seen(path: str, text: str, counted: Counted) -> None:
    counted.run()
    write(path, text)
    found = counted.run()
    assert found == fresh()
    assert counted.rewritten
    assert counted.run() == found
    assert len(counted.rewritten) <= 1  # of which no cache keeps what failed


def test_a_file_that_goes_is_seen(counted: Counted) -> None:
    counted.run()
    Path("lib.py").unlink()
    assert counted.run() == fresh()


def test_only_what_is_concerned_is_computed_again(counted: Counted) -> None:
    counted.run()
    write("sub/other.py", DECLINED + "# changed\n")
    found = counted.run()
    assert counted.rewritten == []  # one alone is run without other processes
    assert found == fresh()


def test_options_and_folder_count(counted: Counted, monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    counted.run()
    for options in (Options(keep_global_batch=True), Options(selection=Selection(ignore=frozenset({"writes"})))):
        counted.run(options=options)
        assert len(counted.rewritten) == 2
        counted.run(options=options)
        assert counted.rewritten == []
    monkeypatch.chdir(here / "sub")
    assert counted.run("../main.py", "../sub/other.py", folder="../cache")[0].path == "../main.py"


def test_the_name_of_an_entry_is_alike_in_every_process(here: Path) -> None:
    code = """if True:
        from pathlib import Path
        from accelify.codemod.cache import Cache
        from accelify.codemod.options import Options, Selection
        selection = Selection(ignore=frozenset(["writes", "folders", "data", "prepare"]))
        print(Cache(Path("cache"))._path((Options(selection=selection),)))"""
    found = set()
    for seed in "123":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1


def test_another_version_of_the_code_uses_nothing_of_this(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    counted.run()
    (folder,) = (path for path in Path("cache").iterdir() if path.is_dir())
    monkeypatch.setattr(cache, "_code", lambda: "other")
    counted.run()
    assert len(counted.rewritten) == 2
    assert not folder.exists()  # nothing grows for ever


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: b"\0", lambda data: data[: len(data) // 2]])
def test_a_broken_entry_is_none(damage: Callable[[bytes], bytes], counted: Counted) -> None:
    first = counted.run()
    for path in Path("cache").rglob("*.json"):
        path.write_bytes(damage(path.read_bytes()))
    assert counted.run() == first
    assert len(counted.rewritten) == 2


def test_an_entry_that_somebody_touched_is_none(counted: Counted) -> None:
    first = counted.run()
    for path in Path("cache").rglob("*.json"):
        path.write_bytes(path.read_bytes().replace(b"declined", b"migrated"))
    assert counted.run() == first


def test_the_folder_can_be_deleted_and_need_not_be_writable(counted: Counted, here: Path) -> None:
    first = counted.run()
    assert (here / "cache" / ".gitignore").read_text() == "*\n"
    assert (here / "cache" / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    shutil.rmtree("cache")
    assert counted.run() == first
    write("file", "")
    assert counted.run(folder="file/cache") == first
    assert Cache(None).get("x") is None


def test_a_file_that_changes_between_the_question_and_the_answer_is_not_overwritten() -> None:
    packed = cache.packed((FileResult("main.py", Status.MIGRATED, MAIN.encode(), b"new"),))
    assert cache.unpacked(packed)[0].after == b"new"
    write("main.py", MAIN + "# someone's work\n")
    with pytest.raises(ValueError, match="main"):
        cache.unpacked(packed)


def test_two_processes_at_once_do_not_disturb_each_other(here: Path) -> None:
    for number in range(6):
        write(f"{number}.py", PLAIN)
    command = [sys.executable, "-m", "accelify", "rewrite", "--check", ".", "-j", "1"]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = {run.communicate() for run in runs}
    assert len(said) == 1
    assert {run.returncode for run in runs} == {1}
    assert subprocess.run(command, capture_output=True, text=True).stdout == said.pop()[0]
    assert not list(here.rglob("*.part"))
