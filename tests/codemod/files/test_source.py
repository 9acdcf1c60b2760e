"""Bytes that come back as they were, and files that are replaced whole or not at all."""

from __future__ import annotations

import os
import pickle
import signal
import stat
from pathlib import Path

import pytest

from accelify.codemod.files import source
from accelify.codemod.files.source import Replacement, decode, encode, read, replace
from accelify.errors import CannotRead, CannotWrite


@pytest.mark.parametrize(
    ("data", "encoding", "bom"),
    [
        (b"", "utf-8", False),
        (b"x = 1\n", "utf-8", False),
        (b"x = 1\r\ny = 2\rz = 3\n", "utf-8", False),
        (b"x = 1", "utf-8", False),
        (b"if x:\n\ty = 1\n\x0c\n", "utf-8", False),
        ("s = 'é…'\n".encode(), "utf-8", False),
        (b"\xef\xbb\xbfx = 1\r\n", "utf-8", True),
        (b"\xef\xbb\xbf# coding: utf-8\nx = 1\n", "utf-8", True),
        (b"# -*- coding: latin-1 -*-\ns = '\xe9'\n", "iso8859-1", False),
        (b"#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\ns = '\x80'\n", "cp1252", False),
        (b"\n# coding: latin-1\ns = '\xe9'\n", "iso8859-1", False),
        (b"#\r# coding: latin-1\rs = '\xe9'\r", "iso8859-1", False),
        ("# coding: euc-jp\ns = '日本'\n".encode("euc-jp"), "euc_jp", False),
    ],
)
def test_bytes_come_back_as_they_were(data: bytes, encoding: str, bom: bool) -> None:
    decoded = decode(data, "train.py")
    assert (decoded.encoding, decoded.bom) == (encoding, bom)
    assert not decoded.text.startswith("\ufeff")
    assert encode(decoded.text, decoded) == data


def test_a_coding_comment_below_code_or_in_the_third_line_does_not_count() -> None:
    assert decode(b"x = 1\n# coding: latin-1\n", "train.py").encoding == "utf-8"
    assert decode(b"#\n#\n# coding: latin-1\n", "train.py").encoding == "utf-8"


@pytest.mark.parametrize(
    ("data", "line", "column", "reason"),
    [
        (b"# coding: klingon\n\xff", 1, 0, "unknown encoding: klingon"),
        (b"#!/usr/bin/python\n# coding: klingon\nx = '\xe4'", 2, 0, "unknown encoding: klingon"),
        (b"\xef\xbb\xbf# coding: latin-1\n", 1, 0, "coding comment that says latin-1"),
        (b"x = 1\ns = '\xe9'\n", 2, 5, "not valid utf-8"),
        (b"x = 1\r\ns = '\xe9'\r\n", 2, 5, "not valid utf-8"),
        (b"# coding: cp1252\ns = '\x81'\n", 2, 5, "not valid cp1252"),
        (b"\x7fELF\x02\x01\x01\x00\x00", 1, 7, "binary"),
        (b"x = 1\nimport torch\0\n", 2, 12, "binary"),
        ("import torch\n".encode("utf-16"), 1, 0, "UTF-16"),
        (b"# coding: rot13\nvzcbeg gbepu\n", 1, 0, "cannot be decoded"),
        (b"# coding: utf-7\ns = '+AOk-'\n", 1, 0, "cannot be written back"),
    ],
)
def test_what_is_not_text_names_its_place_and_reason(data: bytes, line: int, column: int, reason: str) -> None:
    with pytest.raises(CannotRead) as caught:
        decode(data, "train.py")
    assert (caught.value.path, caught.value.line, caught.value.column) == ("train.py", line, column)
    assert reason in caught.value.reason
    assert str(caught.value) == f"train.py:{line}:{column + 1}: {caught.value.reason}"
    assert "\n" not in str(caught.value)


def test_an_error_survives_the_way_back_from_a_worker() -> None:
    error = pickle.loads(pickle.dumps(CannotRead("train.py", 3, 0, "no")))
    assert str(error) == "train.py:3:1: no"


def test_reading_what_is_not_there_or_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CannotRead, match="no such file"):
        read(str(tmp_path / "gone.py"))
    with pytest.raises(CannotRead, match="not a regular file"):
        read(str(tmp_path))
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(CannotRead, match="not a regular file"):
        read(str(tmp_path / "pipe.py"))


def test_replace_keeps_mode_and_link_and_leaves_nothing_beside(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "train.py"
    target.write_bytes(b"old")
    target.chmod(0o751)
    link = tmp_path / "train.py"
    link.symlink_to(target)
    replace([Replacement(str(link), b"old", b"new")])
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o751
    assert [file.name for file in target.parent.iterdir()] == ["train.py"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
def test_replace_keeps_the_owner(tmp_path: Path) -> None:
    target = tmp_path / "train.py"
    target.write_bytes(b"old")
    os.chown(target, 1234, 2345)
    replace([Replacement(str(target), b"old", b"new")])
    assert (target.stat().st_uid, target.stat().st_gid) == (1234, 2345)


def test_a_reader_who_has_the_file_open_keeps_the_old_bytes_whole(tmp_path: Path) -> None:
    target = tmp_path / "train.py"
    target.write_bytes(b"old")
    with target.open("rb") as reader:
        replace([Replacement(str(target), b"old", b"a longer new text")])
        assert reader.read() == b"old"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path, list[Replacement]]:
    """Two files of one program, and their replacements."""
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_bytes(b"old 1")
    second.write_bytes(b"old 2")
    return first, second, [Replacement(str(first), b"old 1", b"new 1"), Replacement(str(second), b"old 2", b"new 2")]


def untouched(first: Path, names: int = 2) -> bool:
    return first.read_bytes() == b"old 1" and len(list(first.parent.iterdir())) == names


def test_a_file_changed_meanwhile_stays_and_so_does_its_partner(pair: tuple[Path, Path, list[Replacement]]) -> None:
    first, second, replacements = pair
    second.write_bytes(b"someone's work")
    with pytest.raises(CannotWrite, match=r"second\.py: changed by another program"):
        replace(replacements)
    assert untouched(first)
    assert second.read_bytes() == b"someone's work"


def test_a_read_only_file_stays_even_for_root_and_so_does_its_partner(
    pair: tuple[Path, Path, list[Replacement]],
) -> None:
    first, second, replacements = pair
    second.chmod(0o444)
    with pytest.raises(CannotWrite, match=r"second\.py: read-only"):
        replace(replacements)
    assert untouched(first)
    assert second.read_bytes() == b"old 2"


def test_a_file_that_vanished_is_not_made_again(pair: tuple[Path, Path, list[Replacement]]) -> None:
    first, second, replacements = pair
    second.unlink()
    with pytest.raises(CannotWrite, match=r"second\.py: cannot be written: no such file"):
        replace(replacements)
    assert untouched(first, names=1)


def test_a_full_disk_leaves_the_files_as_they_were(
    pair: tuple[Path, Path, list[Replacement]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, replacements = pair

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(source.os, "fsync", full)
    with pytest.raises(CannotWrite, match="no space left on device"):
        replace(replacements)
    assert untouched(first)
    assert second.read_bytes() == b"old 2"


def test_ctrl_c_in_the_middle_waits_until_every_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "one.py", tmp_path / "two.py"]
    for path in paths:
        path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", lambda handle: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        replace([Replacement(str(path), b"old", b"new") for path in paths])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"one.py": b"new", "two.py": b"new"}


@pytest.mark.parametrize("name", ["future_fstrings", "utf-8-unix", "klingon"])
def test_a_coding_that_a_package_or_an_editor_names_may_be_utf8(name: str) -> None:
    data = f"# coding: {name}\ns = 'é'\n".encode()
    assert encode(decode(data, "train.py").text, decode(data, "train.py")) == data
