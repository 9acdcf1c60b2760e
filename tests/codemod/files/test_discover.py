"""A folder means the user's own Python files, in one order; a named file is always taken."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from accelify.codemod.files.discover import Found, find
from accelify.errors import CannotRead

pytestmark = pytest.mark.slow


def make(root: Path, *files: str) -> None:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import torch\n")


def ignore(folder: Path, *patterns: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("\n".join(patterns) + "\n")


def names(*paths: str) -> list[str]:
    return [item.path for item in find(paths) if isinstance(item, Found)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to stand in, which is no repository."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_paths_are_as_the_user_would_write_them_and_in_order(here: Path) -> None:
    make(here, "b/z.py", "b/a.py", "b/a/c.py", "a.py", "b/a.txt", "b/notes.ipynb")
    assert names(".") == ["a.py", "b/a/c.py", "b/a.py", "b/notes.ipynb", "b/z.py"]
    assert names("b") == ["b/a/c.py", "b/a.py", "b/notes.ipynb", "b/z.py"]
    assert names("./b/", "a.py") == ["b/a/c.py", "b/a.py", "b/notes.ipynb", "b/z.py", "a.py"]
    assert names(str(here / "b")) == [str(here / "b" / name) for name in ("a/c.py", "a.py", "notes.ipynb", "z.py")]


def test_other_peoples_code_is_skipped(here: Path) -> None:
    make(here, "train.py", ".hidden/x.py", "__pycache__/x.py", "node_modules/p/x.py", "build/x.py", "dist/x.py")
    make(here, "lib/site-packages/x.py", "env/lib/x.py", "conda/lib/x.py")
    make(here, "env/pyvenv.cfg", "conda/conda-meta/history")
    assert names(".") == ["train.py"]


def test_a_file_or_folder_that_is_named_is_taken_whatever_it_is_called(here: Path) -> None:
    make(here, ".hidden/x.py", "build/x.py", "env/x.py", "env/pyvenv.cfg", "script", "ignored/x.py")
    (here / ".git").mkdir()
    ignore(here, "ignored/", "script")
    assert names(".hidden/x.py", "build", "env", "script", "ignored") == [
        ".hidden/x.py",
        "build/x.py",
        "env/x.py",
        "script",
        "ignored/x.py",
    ]
    assert list(find(["script"])) == [Found("script", named=True)]
    assert list(find(["build"])) == [Found("build/x.py", named=False)]


def test_a_file_named_twice_is_taken_once(here: Path) -> None:
    make(here, "a/x.py", "a/y.py")
    (here / "link.py").symlink_to("a/x.py")
    assert names("link.py", "a", "a/y.py", str(here / "a" / "y.py")) == ["link.py", "a/y.py"]


def test_ignore_files_mean_what_git_says(here: Path) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    files = ["keep.py", "data/x.py", "a/gen_x.py", "a/b/gen_y.py", "a/b/keep_gen.py", "a/only/x.py", "only/x.py"]
    files += ["a/b/special.py", "deep/out/x.py", "deep/out/y.py", "docs/x.py", "docs/y.py", "secret.py"]
    make(here, *files)
    ignore(here, "# a comment", "gen_*.py", "/only/", "deep/**/x.py", "data", "docs/*", "!docs/y.py", "special.py")
    ignore(here / "a" / "b", "!gen_y.py", "!special.py")
    ignore(here / "deep", "*.py", "!y.py")
    (here / ".git" / "info").mkdir(exist_ok=True)
    (here / ".git" / "info" / "exclude").write_text("secret.py\n")
    git = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard", "*.py"], check=True, capture_output=True, text=True
    )
    expected = git.stdout.split()
    assert sorted(names(".")) == sorted(expected)
    assert 0 < len(expected) < len(files)
    assert sorted(names("a")) == sorted(name for name in expected if name.startswith("a/"))  # rules from above count
    assert sorted(names("a/b", "deep")) == sorted(name for name in expected if name.startswith(("a/b/", "deep/")))


def test_rules_above_the_repository_do_not_count(here: Path) -> None:
    ignore(here, "*.py")
    (here / "project" / ".git").mkdir(parents=True)
    make(here, "project/train.py")
    assert names("project") == ["project/train.py"]


def test_links_are_not_followed_on_a_walk_so_a_loop_ends(here: Path) -> None:
    make(here, "project/train.py", "elsewhere/other.py")
    (here / "project" / "loop").symlink_to(here / "project", target_is_directory=True)
    (here / "project" / "away").symlink_to(here / "elsewhere", target_is_directory=True)
    (here / "project" / "away.py").symlink_to(here / "elsewhere" / "other.py")
    (here / "project" / "self.py").symlink_to("self.py")
    os.mkfifo(here / "project" / "pipe.py")
    assert names("project") == ["project/train.py"]
    assert names("project/away", "project/away.py") == ["project/away/other.py"]
    assert names("project/self.py") == ["project/self.py"]


def test_folders_nested_deeper_than_calls_may_be(here: Path) -> None:
    for _ in range(1500):
        Path("d").mkdir()
        os.chdir("d")
    make(Path(), "train.py")
    try:
        os.chdir(here)
        assert names("d") == ["d/" * 1500 + "train.py"]
    finally:
        subprocess.run(["rm", "-rf", "d"], check=True)


def test_a_folder_without_python_files_is_said(here: Path) -> None:
    make(here, "empty/readme.txt", "full/x.py")
    found = list(find(["empty", "full"]))
    assert isinstance(found[0], CannotRead)
    assert str(found[0]) == "empty: a folder without Python files"
    assert found[1:] == [Found("full/x.py", named=False)]
