"""The README shows what accelify does, so it has to do what the README shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def rewritten(folder: Path, *options: str) -> str:
    """What is printed for the script that the diff in the README changes."""
    headers, hunk = re.split(r"^@@.*\n", blocks("diff")[0], flags=re.MULTILINE)
    assert headers == "--- a/train.py\n+++ b/train.py\n"
    before = "".join(line[1:] for line in hunk.splitlines(keepends=True) if not line.startswith("+"))
    (folder / "train.py").write_text(before)
    command = [sys.executable, "-m", "accelify", "rewrite", *options, "train.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_diff_in_the_first_screen_is_what_comes_out(tmp_path: Path) -> None:
    assert rewritten(tmp_path, "--diff") == blocks("diff")[0]


def test_the_notes_in_the_first_screen_are_what_is_said(tmp_path: Path) -> None:
    _, shown = next(block for block in blocks("console") if "batch_size" in block).split("\n", 1)
    assert " ".join(shown.split()) in " ".join(rewritten(tmp_path).split())


def test_every_option_that_is_named_exists() -> None:
    known: set[str] = set()
    for name in ("rewrite", "launch", "verify", "completion"):
        command = [sys.executable, "-m", "accelify", name, "--help"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        known |= set(re.findall(r"--[a-z][a-z-]+", shown))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README))
    assert len(named) > 8
    assert named - {"--epochs"} <= known  # an example of a script's own


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", README))
    assert {"venv", "test"} <= named
    assert [target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
