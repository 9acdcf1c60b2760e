"""The hooks as pre-commit runs them: the package installed into an environment of its own, which has no torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_cli import DECLINED, PLAIN

ROOT = Path(__file__).parent.parent
PACKAGE = ("accelify", "pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml")


def git(*arguments: str, cwd: Path) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.hooksPath=/dev/null"]
    subprocess.run(["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True)


def commit_all(folder: Path) -> None:
    git("init", "-q", cwd=folder)
    git("add", "--all", cwd=folder)
    git("commit", "-qm", "all", cwd=folder)


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that holds accelify as it is here."""
    folder = tmp_path_factory.mktemp("hooks")
    for name in PACKAGE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    commit_all(folder)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pre-commit keeps the environments that it builds."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A repository with a script to migrate, and files that no hook need touch."""
    (tmp_path / "train.py").write_text(PLAIN)
    (tmp_path / "other.py").write_text("x = 1\n")
    (tmp_path / "notes.txt").write_text(PLAIN)
    commit_all(tmp_path)
    return tmp_path


def configure(scratch: Path, hooks: Path, hook: str) -> None:
    """Have a repository run one hook; both tests name one revision, for which one environment is built."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=hooks, check=True, capture_output=True, text=True)
    (scratch / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {hooks}\n  rev: {head.stdout.strip()}\n  hooks:\n  - id: {hook}\n"
    )
    git("add", ".pre-commit-config.yaml", cwd=scratch)


def pre_commit(scratch: Path, store: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pre_commit", "run", "--all-files", "--verbose"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"PRE_COMMIT_HOME": str(store), "PYTHONPATH": ""}
    return subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.timeout(600)
def test_the_rewriting_hook_fails_once_and_then_passes(hooks: Path, store: Path, scratch: Path) -> None:
    configure(scratch, hooks, "accelify-rewrite")
    first = pre_commit(scratch, store)
    assert first.returncode == 1, first.stdout + first.stderr
    assert "files were modified by this hook" in first.stdout
    assert "train.py: migrated" in first.stdout
    assert "accelerator.backward(loss)" in (scratch / "train.py").read_text()
    assert (scratch / "notes.txt").read_text() == PLAIN
    git("commit", "-qam", "migrate", cwd=scratch)
    second = pre_commit(scratch, store)
    assert second.returncode == 0, second.stdout + second.stderr
    git("diff", "--exit-code", cwd=scratch)


@pytest.mark.timeout(600)
def test_the_checking_hook_fails_writes_nothing_and_needs_no_torch(hooks: Path, store: Path, scratch: Path) -> None:
    configure(scratch, hooks, "accelify-check")
    done = pre_commit(scratch, store)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "train.py: would be migrated" in done.stdout
    git("diff", "--exit-code", cwd=scratch)
    assert list(store.rglob("site-packages/libcst"))
    assert not list(store.rglob("site-packages/torch"))
    (scratch / "train.py").write_text(DECLINED)
    assert "train.py: declined" in pre_commit(scratch, store).stdout
    (scratch / "train.py").write_text("x = 1\n")
    assert pre_commit(scratch, store).returncode == 0
