"""`accelify rewrite` as a user runs it: what it writes, prints and exits with, and what it says of bad input."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from accelify import __version__
from accelify.codemod import batch
from accelify.codemod.result import Status
from accelify.codemod.rewrite import Options
from tests import forked

CELLS = int(os.environ.get("ACCELIFY_TEST_CELLS", "1000"))  # `make soak`: 20,000, which take a minute
PLAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
loader = DataLoader(data, batch_size=8, shuffle=True)
criterion = nn.CrossEntropyLoss()

for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""
# Which process sends what to whom is its author's design: no rule takes that apart.
DECLINED = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(range(10)):
    dist.send(x, dst=(dist.get_rank() + 1) % 2)
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""
NO_LOOP = "import torch\n\nprint(torch.ones(3))\n"

PATIENCE = 300.0  # seconds: a bound for what would take hours; on an idle machine all of it takes less than a minute

Accelify = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to stand in, with no wish for colour."""
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def accelify(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command; nothing that it prints may be a traceback."""
    done = forked.accelify(*arguments, stdin=stdin)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def rewrite(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return accelify("rewrite", *arguments, stdin=stdin)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What PLAIN becomes."""
    path = tmp_path_factory.mktemp("migrated") / "train.py"
    path.write_text(PLAIN)
    assert rewrite(str(path)).returncode == 0
    after = path.read_text()
    assert "accelerator.backward(loss)" in after
    return after


def test_version_and_help(here: Path) -> None:
    assert accelify("--version").stdout == f"accelify {__version__}\n"
    assert "rewrite" in accelify("--help").stdout
    assert "--stdin-filename" in rewrite("--help").stdout


def test_it_migrates_in_place_says_so_and_a_second_run_has_nothing_to_do(here: Path, migrated: str) -> None:
    Path("train.py").write_text(PLAIN)
    done = rewrite("train.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("train.py").read_text() == migrated
    assert done.stdout.startswith("train.py: migrated (")
    assert re.search(r"^  train\.py:17 +backward +\S", done.stdout, re.MULTILINE)
    again = rewrite("train.py")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.startswith("train.py: unchanged")
    assert Path("train.py").read_text() == migrated


def test_diff_writes_nothing_and_git_applies_it(here: Path, migrated: str) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    for name in ("train.py", "with space.py"):
        Path(name).write_text(PLAIN)
    done = rewrite("--diff", "train.py", "with space.py")
    assert done.returncode == 0
    assert Path("train.py").read_text() == PLAIN
    assert "\033" not in done.stdout
    assert "train.py: would be migrated" in done.stderr
    subprocess.run(["git", "apply", "--check"], input=done.stdout, text=True, check=True)
    subprocess.run(["git", "apply"], input=done.stdout, text=True, check=True)
    assert Path("train.py").read_text() == Path("with space.py").read_text() == migrated


def test_check_writes_nothing_and_tells_by_its_status(here: Path, migrated: str) -> None:
    Path("train.py").write_text(PLAIN)
    done = rewrite("--check", "train.py")
    assert done.returncode == 1
    assert done.stdout.startswith("train.py: would be migrated")
    both = rewrite("--check", "--diff", "train.py")
    assert both.returncode == 1
    assert both.stdout.startswith("--- a/train.py\n+++ b/train.py\n")
    assert Path("train.py").read_text() == PLAIN
    Path("train.py").write_text(migrated)
    assert rewrite("--check", "train.py").returncode == 0


def test_the_exit_status_is_that_of_the_worst_file(here: Path) -> None:
    Path("plain.py").write_text(PLAIN)
    Path("declined.py").write_text(DECLINED)
    Path("none.py").write_text(NO_LOOP)
    Path("broken.py").write_text("import torch\ndef\n")
    assert rewrite("--diff", "plain.py", "none.py").returncode == 0
    assert rewrite("--diff", "none.py", "declined.py").returncode == 1
    assert rewrite("--diff", "declined.py", "broken.py").returncode == 2
    assert rewrite("--exit-zero", "--check", "plain.py", "declined.py", "broken.py").returncode == 0


def test_a_declined_file_is_as_it_was_with_its_reasons(here: Path) -> None:
    Path("train.py").write_text(DECLINED)
    done = rewrite("train.py")
    assert done.returncode == 1
    assert Path("train.py").read_text() == DECLINED
    assert done.stdout.startswith("train.py: declined")
    assert re.search(r"^  train\.py:\d+  \w+ +\S", done.stdout, re.MULTILINE)


def schema() -> Any:
    return json.loads(files("accelify.report").joinpath("schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("mode", [[], ["--diff"], ["--check"], ["--diff", "--check"]])
def test_json_is_all_that_stdout_gets_and_fits_the_schema(mode: list[str], here: Path) -> None:
    Path("plain.py").write_text(PLAIN)
    Path("declined.py").write_text(DECLINED)
    Path("none.py").write_text(NO_LOOP)
    Path("broken.py").write_text("import torch\nx = (\n")
    names = ["plain.py", "./declined.py", str(here / "none.py"), "broken.py", "gone.py"]
    done = rewrite(*names, *mode, "--output-format", "json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema())
    assert done.stderr == ""
    assert done.returncode == 2
    assert [file["path"] for file in document["files"]] == names
    statuses = ["migrated", "declined", "unchanged", "error", "error"]
    assert [file["status"] for file in document["files"]] == statuses
    assert 17 in [change["line"] for change in document["files"][0]["changes"] if change["rule"] == "backward"]
    assert document["files"][3]["error"]["line"] == 2
    assert document["files"][4]["error"]["line"] is None
    assert (Path("plain.py").read_text() == PLAIN) == bool(mode)


def test_stdin_is_rewritten_to_stdout(here: Path, migrated: str) -> None:
    done = rewrite("-", stdin=PLAIN)
    assert (done.returncode, done.stdout) == (0, migrated)
    assert done.stderr.startswith("-: migrated")
    done = rewrite("-", "--stdin-filename", "sub/train.py", "--diff", stdin=PLAIN)
    assert done.stdout.startswith("--- a/sub/train.py\n+++ b/sub/train.py\n")
    assert done.stderr.startswith("sub/train.py: would be migrated")
    done = rewrite("-", "--check", stdin=PLAIN)
    assert (done.returncode, done.stdout) == (1, "")
    done = rewrite("-", "--output-format=json", "--stdin-filename=train.py", stdin=PLAIN)
    assert json.loads(done.stdout)["files"][0]["path"] == "train.py"
    assert list(here.iterdir()) == []


def test_a_filter_passes_on_what_it_leaves_alone_and_nothing_that_it_cannot_read(here: Path) -> None:
    assert rewrite("-", stdin=NO_LOOP).stdout == NO_LOOP
    done = rewrite("-", stdin=DECLINED)
    assert (done.returncode, done.stdout) == (1, DECLINED)
    done = rewrite("-", stdin="import torch\ndef\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("-:2:")


def test_stdin_cannot_be_mixed_with_files(here: Path) -> None:
    done = rewrite("-", "train.py")
    assert done.returncode == 2
    assert "no other PATH" in done.stderr
    assert rewrite().returncode == 2


def variants() -> dict[str, Callable[[bytes], bytes]]:
    coded = b"# coding: latin-1\n# caf\xe9\n"
    return {
        "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
        "BOM": lambda data: b"\xef\xbb\xbf" + data,
        "BOM and CRLF": lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"),
        "coding comment": lambda data: coded + data,
        "UTF-8": lambda data: "# café ☕\n".encode() + data,
        "tabs": lambda data: data.replace(b"    ", b"\t"),
        "two spaces": lambda data: data.replace(b"    ", b"  "),
        "no final newline": lambda data: data.removesuffix(b"\n"),
        "form feed": lambda data: data.replace(b"\ncriterion", b"\n\x0c\ncriterion"),
        "trailing whitespace": lambda data: data.replace(b"zero_grad()\n", b"zero_grad()  \n"),
    }


@pytest.mark.parametrize("variant", variants())
def test_bytes_outside_the_change_are_kept(variant: str, here: Path, migrated: str) -> None:
    change = variants()[variant]
    Path("train.py").write_bytes(change(PLAIN.encode()))
    done = rewrite("train.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert Path("train.py").read_bytes() == change(migrated.encode())


def test_mode_and_link_are_kept_and_the_file_behind_the_link_is_edited(here: Path, migrated: str) -> None:
    Path("real").mkdir()
    Path("real/train.py").write_text(PLAIN)
    Path("real/train.py").chmod(0o755)
    Path("train.py").symlink_to("real/train.py")
    assert rewrite("train.py").returncode == 0
    assert Path("train.py").is_symlink()
    assert Path("real/train.py").read_text() == migrated
    assert stat.S_IMODE(Path("real/train.py").stat().st_mode) == 0o755
    assert [path.name for path in Path("real").iterdir()] == ["train.py"]


def test_a_folder_is_walked_as_git_sees_it(here: Path, migrated: str) -> None:
    taken = ["project/train.py", "project/sub/train.py"]
    left = [
        "project/ignored.py",
        "project/venv/x.py",
        "project/.hidden/x.py",
        "project/notes.txt",
        "project/build/x.py",
    ]
    for name in [*taken, *left]:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(PLAIN)
    Path("project/venv/pyvenv.cfg").touch()
    Path("project/.gitignore").write_text("ignored.py\n")
    done = rewrite("project")
    assert done.returncode == 0
    assert {Path(name).read_text() for name in taken} == {migrated}
    assert {Path(name).read_text() for name in left} == {PLAIN}
    assert done.stdout.splitlines()[-1] == "2 files migrated, 2 notes to review."


def test_the_output_does_not_depend_on_the_number_of_processes(here: Path) -> None:
    contents = [PLAIN, NO_LOOP, DECLINED, "x = 1\n", "import torch\ndef\n"]
    for number in range(12):
        Path(f"{11 - number:02}.py").write_text(contents[number % 5])
    runs = [rewrite("--diff", ".", "--jobs", jobs) for jobs in ("1", "2", "5")]
    assert len({(run.returncode, run.stdout, run.stderr) for run in runs}) == 1
    reported = re.findall(r"^(\d\d\.py)(?::\d+:\d+)?: ", runs[0].stderr, re.MULTILINE)
    assert reported == sorted(reported)
    assert len(reported) > 6
    assert len({run.stdout for run in [rewrite("--output-format=json", "--check", ".", f"-j{n}") for n in (1, 3)]}) == 1


def nested(depth: int) -> bytes:
    return b"import torch\nx = " + b"(" * depth + b"1" + b")" * depth + b"\n"


def long_sum(terms: int) -> bytes:
    return PLAIN.encode() + b"total = " + b" + ".join([b"loss"] * terms) + b"\n"


BAD = {
    "syntax error": (b"import torch\nfor x in\n", 2, "syntax"),
    "unclosed": (b"import torch\nx = (1,\n", 2, "never closed"),
    "indentation": (b"import torch\nif x:\npass\n", 3, "indented block"),
    "Python 2 print": (b'import torch\nprint "loss"\n', 2, "Python 2"),
    "Python 2 except": (b"import torch\ntry:\n    pass\nexcept E, e:\n    pass\n", 4, "Python 2"),
    "async keyword": (b"import torch\nx = 1\nx = x.cuda(async=True)\n", 3, "non_blocking"),
    "unknown encoding": (b"# coding: klingon\nimport torch  # \xff\n", 1, "unknown encoding: klingon"),
    "not in its encoding": (b"import torch\ns = '\xff'\n", 2, "not valid utf-8"),
    "binary": (b"import torch\n\x00\x01\x02", 2, "binary"),
    "UTF-16": ("import torch\n".encode("utf-16"), 1, "UTF-16"),
    "nested parentheses": (nested(2000), 2, "nested"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_one_line_and_costs_only_itself(kind: str, here: Path, migrated: str) -> None:
    data, line, reason = BAD[kind]
    Path("bad.py").write_bytes(data)
    Path("good.py").write_text(PLAIN)
    alone = rewrite("bad.py")
    assert (alone.returncode, alone.stdout) == (2, "")
    (said,) = alone.stderr.splitlines()
    assert re.match(rf"bad\.py:{line}:\d+: error: ", said), said
    assert reason in said
    together = rewrite("bad.py", "good.py")
    assert together.returncode == 2
    assert together.stderr == alone.stderr
    assert Path("good.py").read_text() == migrated
    assert Path("bad.py").read_bytes() == data


def notebook(*sources: object, **metadata: object) -> bytes:
    cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": []} for source in sources]
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}).encode()


HOSTILE = {
    "a source that is a number": ("a.ipynb", notebook(PLAIN, 5), "neither a text nor a list of lines"),
    "a source that is null": ("a.ipynb", notebook(None, "torch"), "neither a text nor a list of lines"),
    "lines that are numbers": ("a.ipynb", notebook([PLAIN, 5]), "neither a text nor a list of lines"),
    "a number of 10,000 digits": (
        "a.ipynb",
        notebook(PLAIN, n=0).replace(b'"n": 0', b'"n": ' + b"1" * 10_000),
        "a number of thousands of digits",
    ),
    "many training loops": ("a.ipynb", notebook(*[PLAIN] * 1000), "more than 300 backward passes"),
    "a form feed after blanks": ("a.py", PLAIN.replace("        loss.b", "        \f loss.b").encode(), "unindent"),
    "calls of calls": ("a.py", PLAIN.encode() + b"x" + b"()" * 5000, "nested too deeply"),
    "branches of branches": ("a.py", PLAIN.encode() + b"if x: y\n" + b"elif x: y\n" * 5000, "nested too deeply"),
    "a million numbers": ("a.py", PLAIN.encode() + b"x = [" + b"1, " * 1_000_000 + b"]\n", "more than 300,000 nodes"),
    "10 MB of parentheses": ("a.py", PLAIN.encode() + b"(" * 10_000_000, "too many nested parentheses"),
    "an encoding for names of hosts": ("a.py", b"# coding: idna\n" + PLAIN.encode(), "cannot be decoded as idna"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_input_is_one_line_and_valid_json(kind: str, here: Path) -> None:
    name, data, reason = HOSTILE[kind]
    Path(name).write_bytes(data)
    done = rewrite(name)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert reason in done.stderr
    (file,) = json.loads(rewrite(name, "--output-format=json").stdout)["files"]
    assert reason in file["error"]["message"]
    assert Path(name).read_bytes() == data


def test_a_line_of_10_mb_and_a_thousand_cells_are_rewritten(here: Path) -> None:
    Path("line.py").write_text(f"{PLAIN}x = '{'a' * 10_000_000}'\n")
    Path("cells.ipynb").write_bytes(notebook(PLAIN, *["x = 1\ny = x\n"] * CELLS))
    for name in ("line.py", "cells.ipynb"):
        assert rewrite(name).returncode == 0
        assert "accelerator.backward" in Path(name).read_text()


def test_form_feeds_where_python_takes_them(here: Path, migrated: str) -> None:
    Path("train.py").write_text(PLAIN.replace("import torch\n", " \fimport\ftorch\n", 1))
    assert rewrite("train.py").returncode == 0
    assert Path("train.py").read_text() == migrated.replace("import torch\n", " \fimport\ftorch\n", 1)


def test_a_sum_of_5000_terms_crashes_nothing(here: Path, migrated: str) -> None:
    Path("good.py").write_text(PLAIN)
    Path("sum.py").write_bytes(long_sum(5000).removeprefix(PLAIN.encode()) + b"# torch\n")
    done = rewrite("sum.py", "good.py")
    if sys.version_info[:2] == (3, 12):  # which cannot compile such a sum itself
        assert done.returncode == 2
        assert done.stderr.startswith("sum.py:")
        assert done.stderr.count("\n") == 1
    else:
        assert (done.returncode, done.stderr) == (0, "")
    assert Path("good.py").read_text() == migrated


def test_a_long_sum_in_a_training_script_crashes_nothing(here: Path, migrated: str) -> None:
    Path("long.py").write_bytes(long_sum(2000))  # LibCST's parser takes time in the square of the terms
    document = json.loads(rewrite("long.py", "--output-format=json").stdout)
    assert document["files"][0]["status"] in ("migrated", "declined")
    after = Path("long.py").read_bytes()
    assert after == (
        long_sum(2000)
        if document["files"][0]["status"] == "declined"
        else migrated.encode() + long_sum(2000)[len(PLAIN) :]
    )


def test_what_is_not_there_or_holds_no_python_is_one_line(here: Path, migrated: str) -> None:
    Path("good.py").write_text(PLAIN)
    Path("empty").mkdir()
    Path("loop.py").symlink_to("loop.py")
    Path("notes.ipynb").write_text('{"cells": ["import torch"]}')
    done = rewrite("gone.py", "empty", "loop.py", "notes.ipynb", "good.py")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["gone.py", "empty", "loop.py", "notes.ipynb"]
    assert [line.split(":")[1].strip() for line in lines] == ["error"] * 4
    assert "no such file" in lines[0]
    assert "without Python files" in lines[1]
    assert "symbolic links" in lines[2]
    assert "notebook" in lines[3]
    assert Path("good.py").read_text() == migrated


def test_a_read_only_file_is_left_alone_and_said(here: Path, migrated: str) -> None:
    for name in ("locked.py", "good.py"):
        Path(name).write_text(PLAIN)
    Path("locked.py").chmod(0o444)
    done = rewrite("locked.py", "good.py")
    assert done.returncode == 2
    assert done.stderr.startswith("locked.py: error: read-only")
    assert len(done.stderr.splitlines()) == 1
    assert Path("locked.py").read_text() == PLAIN
    assert Path("good.py").read_text() == migrated
    assert rewrite("locked.py", "--diff").returncode == 0  # looking is allowed


def test_a_folder_that_may_not_be_looked_into_is_one_line(here: Path, migrated: str) -> None:
    Path("secret").mkdir()
    for name in ("secret/train.py", "good.py"):
        Path(name).write_text(PLAIN)
    Path("secret").chmod(0)
    root = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if root and shutil.which("setpriv") is None:
        pytest.skip("root may look into any folder")
    command = [*root, sys.executable, "-m", "accelify", "rewrite", "secret", "secret/train.py", "good.py"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    Path("secret").chmod(0o700)
    assert done.returncode == 2
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["secret", "secret/train.py"]
    assert done.stderr.count("permission denied") == 2
    assert Path("good.py").read_text() == migrated


def test_a_full_disk_or_no_stdout_is_no_traceback(here: Path, migrated: str) -> None:
    for name in ("train.py", "other.py"):
        Path(name).write_text(PLAIN)
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "accelify", "rewrite", "--diff", "train.py"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "accelify: No space left on device\n")
    shell = f"{sys.executable} -m accelify rewrite other.py >&-"
    done = subprocess.run(shell, shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("other.py").read_text() == migrated


def test_a_file_that_changed_or_vanished_meanwhile_is_left_alone_and_said(here: Path, migrated: str) -> None:
    names = ["changed.py", "gone.py", "good.py"]
    for name in names:
        Path(name).write_text(PLAIN)
    rewritten = batch.rewrite_paths(names, Options(), jobs=1)
    Path("changed.py").write_text(PLAIN + "# someone's work\n")
    Path("gone.py").unlink()
    changed, gone, good = batch.write(rewritten).results()
    assert (changed.status, gone.status, good.status) == (Status.ERROR, Status.ERROR, Status.MIGRATED)
    assert changed.error is not None
    assert "changed by another program" in changed.error.message
    assert gone.error is not None
    assert "no such file" in gone.error.message
    assert Path("changed.py").read_text() == PLAIN + "# someone's work\n"
    assert not Path("gone.py").exists()
    assert Path("good.py").read_text() == migrated
    assert sorted(path.name for path in here.iterdir()) == ["changed.py", "good.py"]


KILLED = """
import os, signal, sys
from accelify.cli import main
from accelify import atomic
atomic.Staged.replace = lambda self: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


def test_what_a_killed_rewrite_leaves_goes_with_the_next_one(here: Path, migrated: str) -> None:
    for name in ("train.py", "other.py"):
        Path(name).write_text(PLAIN)
    Path(".train.py.notours.part").touch()
    command = [sys.executable, "-c", KILLED, "rewrite", "train.py"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    (left,) = here.glob(".train.py.????????.part")
    assert left.read_text() == migrated
    assert Path("train.py").read_text() == PLAIN
    rewrite("other.py")
    rewrite("train.py", "--diff")
    assert left.exists()  # neither is about this file, or may write
    Path("train.py").write_text(NO_LOOP)  # and even when there is nothing to write
    assert rewrite("train.py").returncode == 0
    assert not left.exists()
    assert Path(".train.py.notours.part").exists()


def test_files_without_torch_must_be_python_named_or_met(here: Path) -> None:
    Path("python2.py").write_text('print "hello"\n')
    Path("data.py").write_bytes(b"\x00\xff")
    named = rewrite("data.py", "python2.py")
    assert named.returncode == 2
    assert named.stderr.startswith(
        "data.py:1:1: error: a binary file: it holds a NUL byte\npython2.py:1:1: error: this"
    )
    met = rewrite(".")
    assert (met.returncode, met.stderr) == (2, named.stderr)


def test_the_global_batch_can_be_kept(here: Path) -> None:
    Path("train.py").write_text(PLAIN)
    assert rewrite("train.py", "--keep-global-batch").returncode == 0
    assert "Accelerator(split_batches=True)" in Path("train.py").read_text()


def on_terminal(*arguments: str, stream: str) -> tuple[str, str]:
    """Run with one of stdout and stderr on a terminal; returns what both got."""
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: child}
    process = subprocess.Popen([sys.executable, "-m", "accelify", *arguments], env=environment, text=True, **streams)
    os.close(child)
    shown = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # the last writer has gone
            break
        if not piece:
            break
        shown += piece
    os.close(parent)
    out, err = process.communicate()
    terminal = shown.decode().replace("\r\n", "\n")
    return (terminal, err) if stream == "stdout" else (out, terminal)


def test_a_diff_is_coloured_on_a_terminal(here: Path) -> None:
    Path("train.py").write_text(PLAIN)
    out, err = on_terminal("rewrite", "--diff", "train.py", stream="stdout")
    assert "\033[31m-        loss.backward()\033[0m\n" in out
    assert "\033[32m+        accelerator.backward(loss)\033[0m\n" in out
    assert "\033" not in err
    assert re.sub(r"\033\[[0-9;]*m", "", out) == rewrite("--diff", "train.py").stdout


def test_many_files_show_progress_on_a_terminal_only(here: Path) -> None:
    for number in range(4):
        Path(f"{number}.py").write_text(PLAIN)
    out, err = on_terminal("rewrite", "--check", ".", stream="stderr")
    assert "Rewriting" in err
    assert "4/4" in err
    assert "\033" not in out
    assert out == rewrite("--check", ".").stdout
    assert rewrite("--check", ".").stderr == ""
    _, err = on_terminal("rewrite", "--check", "1.py", stream="stderr")
    assert "Rewriting" not in err


@pytest.mark.parametrize("arguments", [("many", "-j2"), ("large.py",)])
def test_ctrl_c_ends_everything_with_130(arguments: tuple[str, ...], here: Path) -> None:
    Path("many").mkdir()
    Path("large.py").write_text(PLAIN * 200)
    for number in range(3):
        Path(f"many/{number}.py").write_text(PLAIN * 200)
    command = [sys.executable, "-m", "accelify", "rewrite", "--diff", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, start_new_session=True, text=True, **pipes)  # type: ignore[call-overload]
    deadline = time.monotonic() + PATIENCE
    while len(session(process.pid)) < 3 and len(list(Path(f"/proc/{process.pid}/task").iterdir())) < 2:
        assert process.poll() is None  # workers, or the thread with a deep stack, are still to come
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == 130
    while session(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def session(pid: int) -> list[str]:
    """The processes that were started from one, itself included."""
    return subprocess.run(
        ["ps", "-o", "pid=", "-s", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_no_traceback(unbuffered: str, here: Path) -> None:
    Path("long.py").write_text(NO_LOOP + "# as long as no pipe will hold\n" * 50_000)
    command = f"{sys.executable} -m accelify rewrite - <long.py 2>errors | head -c 1"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    shown = subprocess.run(command, shell=True, check=True, env=environment, stdout=subprocess.PIPE).stdout
    assert shown == b"i"
    assert not re.search("Traceback|BrokenPipe", Path("errors").read_text())
