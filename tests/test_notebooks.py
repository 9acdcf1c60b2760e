"""Notebooks on the command line and in a real kernel: rewritten in place, and run as before, cell by cell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelify.codemod.result import Status
from accelify.codemod.rewrite import Options, rewrite_together
from tests import forked
from tests.codemod.notebooks import CELLS, content, sources, written
from tests.kernels import execute, nbformat

ACCELERATE = Path(__file__).parents[1] / "fixtures" / "notebooks" / "accelerate"
LAYERS = "from torch import nn\n\n\ndef to_device(x, device):\n    return x.to(device)\n"
STEPS = """\
def train_epoch(model, loader, optimizer, device):
    model.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def accelify(*arguments: str) -> subprocess.CompletedProcess[str]:
    if arguments[0] == "rewrite":
        return forked.accelify(*arguments)
    return subprocess.run([sys.executable, "-m", "accelify", *arguments], capture_output=True, text=True)


def printed(path: Path) -> list[str]:
    """The lines that the code cells of a notebook print when a kernel runs them, but for the times they took."""
    notebook = nbformat.read(path, as_version=4)
    execute(notebook, path.parent)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    lines = [line for output in outputs if output.get("name") == "stdout" for line in output["text"].splitlines()]
    return [line for line in lines if "time" not in line.lower()]


def test_a_migrated_notebook_runs_as_before_and_in_several_processes_as_its_note_says(here: Path) -> None:
    cells = [cell.replace("%matplotlib inline\n", "%cd .\n") for cell in CELLS]
    book = here / "book.ipynb"
    book.write_bytes(written(content(*cells, "!echo {len(data)} rows")))
    before = printed(book)
    done = accelify("rewrite", "book.ipynb")
    assert done.returncode == 0, done.stderr
    assert "book.ipynb:cell 5, line 6  " in done.stdout
    assert "move the code of the cells 2 to 5 into a function `train`" in done.stdout
    after = printed(book)
    assert after == before
    assert after[-1] == "16 rows"
    assert any(line.startswith("loss ") for line in after)
    migrated = [line for cell in sources(book.read_bytes())[1:5] for line in cell.split("\n") if line[:1] != "%"]
    function = "\n    ".join(["def train():", *migrated, "return accelerator.num_processes"])
    launch = (
        "from accelify.runtime import notebook_launcher\nprint(notebook_launcher(train, num_processes=2, cpu=True))"
    )
    book.write_bytes(written(content(function, launch)))
    assert printed(book)[-1] == "2"


def test_a_notebook_on_accelerate_moves_to_accelify(here: Path) -> None:
    """Its cells print what they printed before (`make soak`)."""
    book, before = here / "book.ipynb", (ACCELERATE / "before.ipynb").read_bytes()
    book.write_bytes(before)
    (result,) = rewrite_together(("book.ipynb",), Options())
    assert result.status is Status.MIGRATED
    assert result.after == (ACCELERATE / "after.ipynb").read_bytes()
    if os.environ.get("ACCELIFY_TEST_KERNELS"):
        old = [line for line in printed(book) if line.startswith("epoch")]
        book.write_bytes(result.after)
        assert [line for line in printed(book) if line.startswith("epoch")] == old != []


def test_a_folder_s_notebooks_change_with_the_scripts_that_they_import(here: Path) -> None:
    loop = "from steps import train_epoch\ntrain_epoch(model, loader, optimizer, device)"
    Path("steps.py").write_text(STEPS)
    Path("book.ipynb").write_bytes(written(content(*CELLS[:4], loop)))
    Path("plain.ipynb").write_bytes(written(content("nothing = 1")))
    done = accelify("rewrite", "--output-format", "json", ".")
    assert done.returncode == 0, done.stdout
    files = {file["path"]: file for file in json.loads(done.stdout)["files"]}
    assert {path: file["status"] for path, file in files.items()} == {
        "book.ipynb": "migrated",
        "plain.ipynb": "unchanged",
        "steps.py": "migrated",
    }
    assert all(("cell" in change) == (path == "book.ipynb") for path in files for change in files[path]["changes"])
    assert "def train_epoch(model, loader, optimizer, accelerator):" in Path("steps.py").read_text()
    assert sources(Path("book.ipynb").read_bytes())[-1].endswith("train_epoch(model, loader, optimizer, accelerator)")


def test_a_script_that_a_notebook_sets_up_is_migrated_with_it(here: Path) -> None:
    loop = "from steps import train_epoch\ntrain_epoch(model, loader, optimizer, device)"
    Path("steps.py").write_text(STEPS)
    for number in range(5):  # with more, the script is migrated by itself
        Path(f"book{number}.ipynb").write_bytes(written(content(*CELLS[:4], loop)))
        (result, *books) = rewrite_together(("steps.py",), Options())
        assert result.status is Status.MIGRATED
        assert [book.path for book in books] == [f"book{n}.ipynb" for n in range(number + 1 if number < 4 else 0)]
        assert (b"device" not in result.after) == bool(books)


def test_check_diff_and_stdin_write_nothing(here: Path) -> None:
    data = written(content(*CELLS))
    Path("book.ipynb").write_bytes(data)
    assert accelify("rewrite", "--check", "book.ipynb").returncode == 1
    diff = accelify("rewrite", "--diff", "book.ipynb")
    assert "+++ b/book.ipynb:cell 5" in diff.stdout
    assert Path("book.ipynb").read_bytes() == data
    command = [sys.executable, "-m", "accelify", "rewrite", "-", "--stdin-filename", "book.ipynb"]
    done = subprocess.run(command, input=data, capture_output=True)
    accelify("rewrite", "book.ipynb")
    assert done.stdout == Path("book.ipynb").read_bytes() != data


def test_verify_proves_a_notebook_cell_by_cell(here: Path) -> None:
    shown = CELLS[4] + '\ndisplay(model)\nif "PASSED" in get_ipython().getoutput("check"):\n    print(1)'
    data = written(content(*CELLS[:4], shown, "!echo {len(data)} rows\nfiles = !ls"))
    Path("book.ipynb").write_bytes(data)
    done = accelify("verify", "--full", "book.ipynb")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "book.ipynb: proven" in done.stdout
    assert Path("book.ipynb").read_bytes() == data


def test_verify_names_the_cell_where_a_notebook_fails(here: Path) -> None:
    Path("book.ipynb").write_bytes(written(content(*CELLS[:4], CELLS[4].replace("mse_loss(", "mse_loss(missing * "))))
    done = accelify("verify", "book.ipynb")
    assert done.returncode == 2
    assert 'book.ipynb:cell 5", line 4, in <module>\n    loss = nn.functional.mse_loss(missing' in done.stderr
    assert "magics and !commands are not run" in done.stderr
