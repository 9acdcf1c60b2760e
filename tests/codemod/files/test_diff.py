"""What we print as a diff, git takes, and applying it gives the new file to the byte."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from accelify.codemod.files.diff import unified_diff

pytestmark = pytest.mark.slow

PAIRS = {
    "plain": (b"a\nb\nc\n", b"a\nB\nc\n"),
    "CRLF": (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\nd\r\n"),
    "mixed": (b"a\r\nb\nc\rd\n", b"a\r\nB\nc\rd\n"),
    "no newline at the end": (b"a\nb", b"a\nB"),
    "newline gained": (b"a\nb", b"a\nb\n"),
    "newline lost": (b"a\nb\n", b"a\nb"),
    "last line kept without newline": (b"a\nb\nc", b"A\nb\nc"),
    "latin-1": (b"# coding: latin-1\ns = '\xe9'\nx\n", b"# coding: latin-1\ns = '\xe9'\ny\n"),
    "byte order mark": (b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfA\nb\n"),
    "form feed and other breaks": (b"a\x0cb\n\x0c\nc\x0b\x1c\xc2\x85d\n", b"a\x0cb\n\x0c\nC\x0b\x1c\xc2\x85d\n"),
    "from nothing": (b"", b"a\n"),
    "to nothing": (b"a\n", b""),
    "looks like a diff": (b"--- a\n+++ b\n@@ -1 +1 @@\n", b"--- a\n+++ c\n@@ -1 +1 @@\n\\ x\n"),
    "far apart": (b"a\n" + b"x\n" * 40 + b"b\n", b"A\n" + b"x\n" * 40 + b"B\n"),
}
NAMES = [
    "train.py",
    "a b.py",
    "sub/dir/train.py",
    "é.py",
    'quo"te.py',
    "back\\slash.py",
    "tab\tbed.py",
    "new\nline.py",
    "a/x.py",
]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository to stand in, which leaves line ends alone."""
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "config", "core.autocrlf", "false"], check=True)
    return tmp_path


def apply(patch: bytes) -> None:
    subprocess.run(["git", "apply", "--check"], input=patch, check=True)
    subprocess.run(["git", "apply"], input=patch, check=True)


@pytest.mark.parametrize(("before", "after"), PAIRS.values(), ids=PAIRS.keys())
def test_git_applies_it(before: bytes, after: bytes, repository: Path) -> None:
    path = repository / "train.py"
    path.write_bytes(before)
    apply(unified_diff("train.py", before, after))
    assert path.read_bytes() == after


@pytest.mark.parametrize("name", NAMES)
def test_git_finds_the_file(name: str, repository: Path) -> None:
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"a\n")
    apply(unified_diff(name, b"a\n", b"b\n"))
    assert path.read_bytes() == b"b\n"


def test_several_files_make_one_patch(repository: Path) -> None:
    for name in NAMES:
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"a")
    apply(b"".join(unified_diff(name, b"a", b"b") for name in NAMES))
    assert {(repository / name).read_bytes() for name in NAMES} == {b"b"}


def test_it_applies_from_where_we_are(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "sub").mkdir()
    path = repository / "sub" / "train.py"
    path.write_bytes(b"a\n")
    monkeypatch.chdir(repository / "sub")
    for name in ("train.py", "./train.py", "../sub/train.py", str(path)):
        patch = unified_diff(name, b"a\n", b"b\n")
        assert patch.startswith(b"--- a/train.py\n+++ b/train.py\n@@")
    apply(patch)
    assert path.read_bytes() == b"b\n"


def test_a_file_elsewhere_has_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    patch = unified_diff("../train.py", b"a\n", b"b\n")
    assert patch.splitlines()[0] == b"--- a" + bytes(tmp_path / "train.py")


def test_no_change_is_no_diff() -> None:
    assert unified_diff("train.py", b"a\n", b"a\n") == b""
