"""What a project may hold and still be copied, and what is said before anything runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelify.cli import main
from accelify.settings import settings
from accelify.verify.scratch import CannotVerify, Project, copy_project, rewrite_copy, take_new
from tests.cli.running import WRITES
from tests.verify.scripts import CLASSIFIER


def test_what_may_not_be_read_is_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    (project / "secret").mkdir(parents=True)
    for name in ("train.py", "key.py", "secret/data"):
        (project / name).write_text("1")
    unreadable = {str(project / "key.py"), str(project / "secret")}  # root, as which tests may run, reads all
    asked = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) not in unreadable and asked(path, mode))
    copy_project(Project(project, Path("train.py"), Path()), tmp_path / "copy")
    assert {p.name: p.is_symlink() for p in (tmp_path / "copy").iterdir()} == {
        "train.py": False,
        "key.py": True,
        "secret": True,
    }


def test_links_that_lead_nowhere_or_in_a_circle_are_left_out(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (project / "train.py").write_text("1")
    (project / "circle").symlink_to("circle")
    (project / "lost").symlink_to("nowhere")
    (project / "linked").symlink_to("data")
    copy_project(Project(project, Path("train.py"), Path()), tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["data", "linked", "train.py"]


def test_a_folder_is_not_a_script(tmp_path: Path) -> None:
    for name in (".", "sub"):
        (tmp_path / "sub").mkdir(exist_ok=True)
        with pytest.raises(CannotVerify, match="a folder: name the script in it"):
            Project.around(Path(name), tmp_path)


@pytest.mark.parametrize("pattern", ["sub/*.py", "!other/*"])
def test_what_is_verified_is_what_the_settings_of_the_project_make_of_it(pattern: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "train.py").write_text(WRITES)
    (folder / "pyproject.toml").write_text(
        f'[tool.accelify.rewrite]\nkeep-global-batch = true\nper-file-ignores = {{"{pattern}" = ["writes"]}}\n'
    )
    project = Project(folder, Path("sub/train.py"), Path())
    copy_project(project, tmp_path / "copy")
    options = settings({}, [str(folder / "sub/train.py")]).options()
    ((_, _, after),) = rewrite_copy(project, tmp_path / "copy", (), options).files
    assert b"split_batches=True" in after
    assert b"is_main_process" not in after


def test_a_runtime_that_is_not_ours_is_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text('[tool.accelify.rewrite]\nruntime = "accelerate"\n')
    done = CliRunner().invoke(main, ["verify", "train.py"])
    assert done.exit_code == 2
    assert "verify runs accelify's own runtime only" in done.output


def test_a_page_that_cannot_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit\n")
    command = [sys.executable, "-m", "accelify", "verify", "--html", "absent/page.html", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("absent is no folder to write into\n")
    assert "rewriting" not in done.stderr


def test_without_torch_one_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CLASSIFIER)
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    path = os.pathsep.join([str(tmp_path / "library"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "accelify", "verify", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 2
    reason = f"{sys.executable} cannot import what the runs need (No module named 'torch')"
    *progress, last = done.stderr.splitlines()
    assert last == f"train.py: could not run: {reason}: pip install 'accelify[runtime]' into it"
    assert all(line.startswith("accelify verify: ") for line in progress)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("train.py", "import torch\n\ndef f(:\n", "train.py:3:7: invalid syntax"),
        ("train.py", "x = (\n", "train.py:1:5: '(' was never closed"),
        ("train.py", 'import torch\nprint "hello"\n', "train.py:2:1: this is Python 2 ("),
        ("train.ipynb", '{"cells": [', "train.ipynb:1:"),
    ],
)
def test_a_script_that_cannot_be_parsed_is_said_with_its_line(
    name: str, text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    done = CliRunner().invoke(main, ["verify", name])
    assert done.exit_code == 2
    assert done.output.startswith(f"{name}: could not run: it cannot be parsed: {said}")  # before torch is imported


def test_the_other_files_are_parsed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("project").mkdir()
    Path("project/train.py").write_text(CLASSIFIER)
    Path("new.py").write_text("x = (\n")
    for option in ("--against", "--also"):
        done = CliRunner().invoke(main, ["verify", option, "new.py", "project/train.py"])
        assert done.output == (
            "project/train.py: could not run: it cannot be parsed: new.py:1:5: '(' was never closed\n"
        )


def test_a_migrated_script_is_looked_for_from_where_one_is(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text("1")
    (tmp_path / "new.py").write_text("2")
    project = Project(tmp_path / "project", Path("train.py"), Path())
    ((_, before, after),) = take_new(project, Path("new.py"), tmp_path).files
    assert (before, after) == (b"1", b"2")
