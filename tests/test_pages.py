"""What the README and the pages of docs/ show is what happens: commands are run, and outputs compared.

In an output, `...` stands for anything, and white space does not count. A block of commands that shows no output is
run in a copy of the page's folder. docs/launch.md has a test of its own, tests/launch/test_docs.py, which starts all
that it shows.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from accelify.cli import main
from accelify.codemod import checks, rules
from tests.interpreters import PYTHONPATH, ROOT

PAGES = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if path.name != "launch.md"]
GENERATED = {"rules.md", "checks.md", "commands.md", "names.md"}  # by docs/generated.py, when the site is built
FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# What is not run here, and why that is enough.
NOT_RUN = {
    "pip": "installs",
    "make": "its targets are looked up below",
    "pre-commit": "tests/test_pre_commit.py runs the hooks",
    "sbatch": "the script that it takes is checked below",
    "squeue": "needs a cluster",
    "srun": "needs a cluster; tests/launch/test_docs.py runs it where there is one",
    "tail": "shows a file of the cluster's",
}
# Options of other programs and of scripts.
FOREIGN = {
    *("--epochs", "--cuda", "--device", "--resume"),
    *("--all-files", "--me", "--no-deps", "--nproc-per-node", "--update-fixtures"),
    *("--job-name", "--nodes", "--ntasks-per-node", "--gpus-per-node", "--gpus-per-task", "--cpus-per-task", "--time"),
    *("--signal", "--requeue", "--output", "--kill-on-bad-exit"),
}

# The files of docs/output.md, which the page describes; docs/declined.md shows the second one.
OTHERS = {
    "draw.py": """import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for step in range(100):
    batch = torch.randn(8, 4).to(device)
    loss = model(batch).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print("last loss", loss.item())
""",
    "by_hand.py": """import torch
import torch.distributed as dist

dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.distributed.rpc.init_rpc("worker")
for batch in torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=8):
    loss = model(batch.cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "python2.py": 'import torch\nprint "hello"\n',
}


@dataclass(frozen=True)
class Block:
    """A fenced part of a page."""

    language: str
    title: str
    text: str


def blocks(path: Path, language: str) -> list[Block]:
    found = (Block(*match.groups("")) for match in FENCE.finditer(path.read_text(encoding="utf-8")))
    return [block for block in found if block.language == language]


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Each command of a block, with what it is said to print."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def plain_script() -> str:
    """The script that the diff in the README changes."""
    headers, hunk = re.split(r"^@@.*\n", blocks(ROOT / "README.md", "diff")[0].text, flags=re.MULTILINE)
    assert headers == "--- a/train.py\n+++ b/train.py\n"
    return "".join(line[1:] for line in hunk.splitlines(keepends=True) if not line.startswith("+"))


def furnish(folder: Path, page: Path) -> None:
    """The files that a page's commands name: those it shows, and the README's script under the names used for it."""
    script = plain_script()
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": script}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    for name in ("train.py", "before.py", "old.py", "new.py"):
        (folder / name).write_text(script)
    (folder / "train.ipynb").write_text(json.dumps(notebook))
    for name, text in OTHERS.items() if page.name == "output.md" else ():
        (folder / name).write_text(text)
    if page.name == "declined.md":
        (folder / "train.py").write_text(OTHERS["by_hand.py"])
    for language in ("python", "text", "toml"):
        for block in blocks(page, language):
            if block.title:
                (folder / block.title).write_text(block.text)


def matches(shown: str, printed: str) -> bool:
    pattern = re.escape(" ".join(shown.split())).replace(r"\.\.\.", ".*?")
    return re.fullmatch(pattern, " ".join(printed.split())) is not None


def run(words: list[str], folder: Path, *, is_compared: bool) -> str:
    """What a command prints; launches and comparisons that show nothing are not started, only their options read."""
    program, *arguments = words
    if program in NOT_RUN:
        return ""
    assert program == "accelify", f"say how to test `{' '.join(words)}`"
    if arguments[0] in ("launch", "verify", "test") and is_compared:
        environment = os.environ | {"PYTHONPATH": PYTHONPATH}
        command = [sys.executable, "-m", "accelify", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    if arguments[0] in ("verify", "test"):
        command = main.get_command(click.Context(main), arguments[0])
        assert command is not None
        command.make_context(arguments[0], arguments[1:])
        return ""
    options = ["--dry-run"] if arguments[0] == "launch" else []
    result = CliRunner().invoke(main, [arguments[0], *options, *arguments[1:]])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert is_compared or result.exit_code < 2, result.output
    return result.output


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_of_a_page_print_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    furnish(folder, page)
    for number, block in enumerate(blocks(page, "console")):
        is_compared = any(output for _, output in commands(block))
        here = folder if is_compared else shutil.copytree(folder, tmp_path / str(number))
        monkeypatch.chdir(here)
        for command, output in commands(block):
            printed = run(shlex.split(command, comments=True), here, is_compared=bool(output))
            assert not output or matches(output, printed), f"$ {command}\n{printed}"


def test_the_diff_in_the_first_screen_is_what_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    furnish(tmp_path, ROOT / "README.md")
    result = CliRunner().invoke(main, ["rewrite", "--diff", "train.py"])
    assert result.stdout == blocks(ROOT / "README.md", "diff")[0].text


@pytest.mark.parametrize("name", ["rewrite", "verify"])
def test_a_picture_shows_what_is_printed(name: str, tmp_path: Path) -> None:
    """docs/screenshots.py makes both anew: the pictures, and the texts beside them."""
    screenshots = runpy.run_path(str(ROOT / "docs" / "screenshots.py"))
    (tmp_path / "train.py").write_text(screenshots["script"]())
    printed = screenshots["printed"](screenshots[name.upper()], tmp_path)
    assert screenshots["lasting"](printed) == (ROOT / "docs" / "images" / f"{name}.txt").read_text()


def test_the_other_diff_is_what_becomes_of_its_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shown,) = (block.text for page in PAGES[1:] for block in blocks(page, "diff"))
    before = "".join(line[1:] for line in shown.splitlines(keepends=True) if line.startswith("-"))
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(f"{before}\nset_seed(0)\naccelerator = Accelerator()\n")
    said = CliRunner().invoke(main, ["rewrite", "--diff", "train.py"]).stdout
    assert shown in said


def test_the_json_that_is_shown_is_valid() -> None:
    ((page, shown),) = ((page, block.text) for page in PAGES for block in blocks(page, "json"))
    assert page.name == "output.md"
    jsonschema.validate(json.loads(shown), json.loads((ROOT / "accelify" / "report" / "schema.json").read_text()))


def test_no_output_is_shown_that_nothing_compares() -> None:
    """Output stands under its command, in a `console` block; the other languages have a test below or above."""
    checked = {"console", "python", "yaml", "toml", "bash", "diff", "json"}
    for page in PAGES:
        others = [match[1] for match in FENCE.finditer(page.read_text(encoding="utf-8")) if match[1] not in checked]
        assert others == (["text"] if page.name == "notebooks.md" else []), name_of(page)  # which is a cell


def test_what_is_shown_is_no_wider_than_its_column() -> None:
    """At 1,300 pixels, with docs/stylesheets/wide.css; output is wrapped, and so may be wider."""
    pages = [*rules.pages().values(), *checks.pages().values()]
    lines = [line[4:] for page in pages for line in page.splitlines() if line.startswith("    ")]
    for path in PAGES:
        for match in FENCE.finditer(path.read_text(encoding="utf-8")):
            lines += match[3].splitlines() if match[1] != "console" else []
    assert [line for line in lines if len(line) > 117] == []


def test_the_quickstart_changes_the_same_script() -> None:
    assert plain_script() in {b.text for b in blocks(ROOT / "docs" / "quickstart.md", "python")}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_shows_can_be_read(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "python"):
        compile(block.text, block.title or name_of(page), "exec")
    for block in blocks(page, "yaml"):
        yaml.safe_load(block.text)
    for block in blocks(page, "toml"):
        (tmp_path / "settings.toml").write_text(block.text)
        shown = CliRunner().invoke(main, ["rewrite", "--config", "settings.toml", "--show-settings", "."])
        assert shown.exit_code == 0, shown.output
    for block in blocks(page, "bash"):
        subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
        furnish(tmp_path, page)
        for line in re.findall(r"accelify launch (.*)", block.text):
            launched = CliRunner().invoke(main, ["launch", "--dry-run", *shlex.split(line)])
            assert launched.exit_code == 0, launched.output


def options_of(command: click.Command, context: click.Context) -> set[str]:
    found = {option for each in command.get_params(context) for option in (*each.opts, *each.secondary_opts)}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found |= options_of(inner, click.Context(inner, parent=context))
    return found


def test_every_option_that_is_named_exists() -> None:
    known = options_of(main, click.Context(main))
    for page in PAGES:
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8")))
        assert named - known - FOREIGN == set(), name_of(page)


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        named = set(re.findall(r"(?:`|\$ |^    )make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert [target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_every_link_leads_to_a_file() -> None:
    """Anchors are checked where the site is built."""
    for page in [*PAGES, *ROOT.glob("*.md"), ROOT / "benchmarks" / "README.md"]:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in link and link not in GENERATED:
                assert (page.parent / link).exists(), f"{name_of(page)}: {link}"


def test_every_message_that_troubleshooting_quotes_exists() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = {words.strip(" .") for words in re.findall(r'^### "(.+?)"', page, re.MULTILINE)}
    said = [path.read_text(encoding="utf-8") for path in (ROOT / "accelify").rglob("*.py")]
    assert [words for words in quoted if not any(words in text for text in said)] == []


def test_every_page_is_in_the_navigation() -> None:
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        assert f" {page.relative_to(ROOT / 'docs').as_posix()}\n" in listed
