"""`accelify check`, as the command calls it: files, folders, stdin, what cannot be parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod import batch
from accelify.codemod.check import CheckOptions
from accelify.codemod.checks import pages
from accelify.codemod.files import project
from accelify.codemod.result import Status

SCRIPT = """\
import torch
import torch.distributed as dist
from shared import net
dist.init_process_group("gloo")
torch.save(net, "net.pt")
"""


def test_a_script_on_stdin() -> None:
    (result,) = batch.check_stdin("train.py", SCRIPT.encode(), CheckOptions()).results()
    assert [(note.rule, note.line) for note in result.notes] == [("every_rank_writes", 5)]
    (result,) = batch.check_stdin("train.py", b"import torch\n(", CheckOptions()).results()
    assert result.status is Status.ERROR


def test_a_file_in_a_folder_that_does_not_parse(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import torch\nprint 'x'\n")
    (tmp_path / "other.py").write_text("print 'x'\n")  # which has nothing to do with training
    (tmp_path / "plain.py").write_text("import torch\n")
    found = {Path(r.path).name: r.status for r in batch.check_paths([str(tmp_path)], CheckOptions(), 1).results()}
    assert found == {"broken.py": Status.ERROR, "other.py": Status.UNCHANGED, "plain.py": Status.UNCHANGED}


def test_what_scripts_import_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared.py").write_text("import torch\nnet = torch.nn.Linear(1, 1)\nrank = 0\n")
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(SCRIPT)
    parse, parsed = project.parse, []
    monkeypatch.setattr(project, "parse", lambda path, data: (parsed.append(Path(path).name), parse(path, data))[1])
    results = batch.check_paths([str(tmp_path)], CheckOptions(), 1).results()
    assert sorted(parsed) == ["a.py", "b.py", "c.py", "shared.py"]
    assert [len(r.notes) for r in results] == [1, 1, 1, 0]


def test_comments_that_do_nothing() -> None:
    comments = ["ignore[every_rank_write]", "ignoer", "ignore[checkpoints]", "ignore[every_rank_writes]", "ignore"]
    text = "".join(f"x = {number}  # accelify: {comment}\n" for number, comment in enumerate(comments))
    (result,) = batch.check_stdin("train.py", ("import torch\n" + text).encode(), CheckOptions()).results()
    assert [(note.rule, note.line) for note in result.notes] == [("unknown_comment", 2), ("unknown_comment", 3)]
    assert "did you mean 'every_rank_writes'?" in result.notes[0].message
    (result,) = batch.check_stdin("train.py", f"# accelify: skip-file\n{text}".encode(), CheckOptions()).results()
    assert result.notes == ()


def test_each_page_has_a_bad_and_a_good_example() -> None:
    parts = ("->", "Why: ", "Left alone: ")
    assert [(name, part) for name, page in pages().items() for part in parts if part not in page] == []
