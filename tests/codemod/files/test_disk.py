"""The disk remembers what it was asked, and whoever asks again learns what has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.files.disk import Disk, digest
from accelify.errors import CannotRead


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def changed(disk: Disk) -> list[tuple[str, str]]:
    now = Disk()
    return [question for question, answer in disk.asked.items() if now.answer(question) != answer]


def asked() -> Disk:
    disk = Disk()
    Path("a.py").write_text("a")
    disk.read("a.py")
    with pytest.raises(CannotRead):
        disk.read("gone.py")
    assert disk.is_there(Path("a.py"))
    assert not disk.is_there(Path("b/__init__.py"))
    assert disk.files(Path(), ".py") == [Path("a.py")]
    assert disk.repository(Path()) == [Path("a.py")]
    assert changed(disk) == []
    return disk


def test_contents_are_asked_for() -> None:
    disk = asked()
    Path("a.py").write_text("b")
    assert changed(disk) == [("bytes", "a.py")]


def test_what_was_not_there_is_asked_for() -> None:
    disk = asked()
    Path("b").mkdir()
    Path("b/__init__.py").touch()
    assert changed(disk) == [("there", "b/__init__.py"), ("repository", ".")]
    Path("gone.py").write_text("")
    assert ("bytes", "gone.py") in changed(disk)
    assert ("files .py", ".") in changed(disk)


def test_a_link_that_leads_elsewhere_is_another_answer() -> None:
    for name in "ab":
        Path(name).mkdir()
        Path(name, "x.py").write_text("x")
    Path("link.py").symlink_to("a/x.py")
    disk = Disk()
    disk.read("link.py")
    Path("link.py").unlink()
    Path("link.py").symlink_to("b/x.py")
    assert changed(disk) == [("bytes", "link.py")]


def test_a_folder_that_is_called_like_a_script_is_none() -> None:
    Path("x.py").mkdir()
    assert Disk().files(Path(), ".py") == []


def test_where_parts_end_counts() -> None:
    assert digest([b"a", b"bc"]) != digest([b"ab", b"c"])


@pytest.mark.parametrize("text", ['"""x"""\rfrom lib import x\r', "from p import (  # x\n    a,\n    lib,\n)\n"])
def test_an_import_may_end_its_lines_in_any_way(text: str) -> None:
    Path("a.py").write_text(text, newline="")
    assert Disk().may_import("a.py", "lib")


def test_a_word_is_all_that_is_asked_for() -> None:
    Path("a.py").write_text("import lib\nx = 1\n")
    disk = Disk()
    assert disk.has("a.py", "lib")
    assert disk.may_import("a.py", "lib")
    assert not disk.may_import("a.py", "x")
    assert not disk.has("gone.py", "lib")
    Path("a.py").write_text("x = 2\nimport lib\n")
    assert changed(disk) == []
    Path("a.py").write_text("import other\n")
    assert changed(disk) == [("has lib", "a.py"), ("imports lib", "a.py")]
    assert disk.words_of_imports("a.py") == {"lib"}
    assert changed(disk)[-1] == ("words", "a.py")


@pytest.mark.parametrize(
    ("text", "word", "found"),
    [
        ("if True: import lib\n", "lib", True),
        ("from p import a, \\\n    lib\n", "lib", True),
        ("from p import (  # x\n    a,\n    lib,\n)\n", "lib", True),
        ('{"source": ["from p.lib import x\\n"]}', "lib", True),
        ("from . import x\n", ".", True),
        ("from p import x\nx.lib()\n", "lib", False),
        ("from p.library import x\n", "lib", False),
        ("from p import x\n", ".", False),
    ],
)
def test_the_words_that_may_stand_in_imports(text: str, word: str, found: bool) -> None:
    Path("a.py").write_text(text)
    disk = Disk()
    assert disk.may_name("a.py", ["other", word]) is found
    assert changed(disk) == []
    Path("a.py").write_text("" if found else f"from {word} import {word}\n")
    assert changed(disk) == [(f"names {','.join(sorted(['other', word]))}", "a.py")]
