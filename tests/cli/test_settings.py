"""Settings come from pyproject.toml and from the command line; a mistake in either is one line with a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.options import ACCELERATE
from accelify.codemod.rules import pages
from accelify.settings import REWRITE, BadSetting, nearest_file, read_file, settings
from tests.cli.running import PLAIN, WRITES, rewrite, write


def configured(text: str, folder: str = ".") -> Path:
    return write(f"{folder}/pyproject.toml", f"[tool.accelify.rewrite]\n{text}\n")


MISTAKES = {
    'selct = ["writes"]': "unknown key 'selct' in [tool.accelify.rewrite]; did you mean 'select'?",
    "zzz = 1": "unknown key 'zzz' in [tool.accelify.rewrite].",
    "keep_global_batch = true": "did you mean 'keep-global-batch'?",
    'select = ["writs"]': "select: there is no rule 'writs'; did you mean 'writes'?",
    'select = "writes"': 'select: must be a list of rules, such as ["writes"], not "writes"',
    "ignore = [1]": "ignore: must be a list of rules",
    'follow = "no"': 'follow: must be true or false, not "no"',
    'runtime = "deepspeed"': 'runtime: must be one of "accelify", "accelerate", not "deepspeed"',
    "exclude = 3": "exclude: must be a list of patterns",
    'per-file-ignores = ["writes"]': "per-file-ignores: must be a table",
    'per-file-ignores = {"a" = ["x"]}': "per-file-ignores: there is no rule 'x'",
    "follow = yes": "is not TOML",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_in_the_file_names_the_file_and_the_way_out(text: str) -> None:
    path = configured(text)
    with pytest.raises(BadSetting) as raised:
        read_file(path)
    assert str(raised.value).startswith("pyproject.toml: ")
    assert MISTAKES[text] in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.accelify.rewrit]\nfollow = true", "unknown key 'rewrit' in [tool.accelify]; did you mean 'rewrite'?"),
        ("[tool.accelify]\nfollow = true", "settings stand in [tool.accelify.rewrite]"),
        ("[tool]\naccelify = 1", "settings stand in [tool.accelify.rewrite]"),
        ("[tool.accelify]\nrewrite = 1", "is no table"),
    ],
)
def test_a_table_of_another_name_is_a_mistake(text: str, said: str) -> None:
    with pytest.raises(BadSetting, match="pyproject") as raised:
        read_file(write("pyproject.toml", text))
    assert said in str(raised.value)


def test_a_mistake_ends_the_command_with_2_and_one_line() -> None:
    write("train.py", PLAIN)
    configured('selct = ["writes"]')
    done = rewrite("train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "did you mean 'select'?" in done.stderr
    assert Path("train.py").read_text() == PLAIN
    done = rewrite("--isolated", "--select", "backwards", "train.py")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--select: there is no rule 'backwards'; did you mean 'backward'?" in done.stderr
    assert rewrite("--isolated", "--per-file-ignores", "writes", "train.py").stderr.startswith(
        "accelify: --per-file-ignores: 'writes' is no PATTERN:RULE"
    )


def test_the_nearest_file_with_the_table_counts_up_to_the_repository(here: Path) -> None:
    outer = configured("follow = false")
    (here / "sub" / "deep").mkdir(parents=True)
    write("sub/pyproject.toml", "[tool.ruff]\n[tool.accelify.launch]\nnum_processes = 2\n")
    assert nearest_file(["sub/deep/train.py"]) == here / outer
    inner = configured("follow = true", "sub/deep")
    assert nearest_file(["sub/deep/train.py"]) == here / inner
    assert nearest_file(["sub/deep/train.py", "other.py"]) == here / outer
    (here / "sub" / ".git").mkdir()
    assert nearest_file(["sub/gone/train.py"]) is None


def test_the_command_line_wins_and_lists_that_take_away_add_up(here: Path) -> None:
    configured('runtime = "accelerate"\nselect = ["backward"]\nignore = ["writes"]\nextend-exclude = ["old"]')
    read = settings({}, ["."])
    assert read.options().runtime is ACCELERATE
    assert read.options().selection.select == {"backward"}
    asked = settings({"runtime": "accelify", "select": ("ALL",), "ignore": ("folders",)}, ["."])
    assert asked.options().runtime.name == "accelify"
    assert asked.options().selection.select is None
    assert asked.options().selection.ignore == {"writes", "folders"}
    lines = [line.split() for line in asked.lines()]
    assert ["ignore", "=", '["writes"]', "#", str(here / "pyproject.toml")] in lines
    assert ["ignore", "=", '["folders"]', "#", "command", "line"] in lines
    assert ["follow", "=", "true", "#", "default"] in lines
    assert {line[0] for line in lines} == set(REWRITE.keys)
    assert settings({}, ["."], isolated=True).options().runtime.name == "accelify"
    assert REWRITE.rules_of_files_from(["a/*:writes,b:folders", "b:writes"]) == (
        ("a/*", ("writes",)),
        ("b", ("folders", "writes")),
    )


def test_show_settings_says_where_each_comes_from_and_what_it_prints_can_be_read_again() -> None:
    path = configured('ignore = ["writes"]\nper-file-ignores = {"old/*" = ["folders"]}')
    done = rewrite("--show-settings", "--no-follow")
    assert done.returncode == 0
    assert f'ignore            = ["writes"]  # {path.resolve()}\n' in done.stdout
    assert "follow            = false  # command line\n" in done.stdout
    path.write_text("[tool.accelify.rewrite]\n" + done.stdout)
    assert read_file(path)["per-file-ignores"] == (("old/*", ("folders",)),)


def test_a_file_that_is_named_must_be_there_and_have_settings() -> None:
    write("train.py", PLAIN)
    write("our.toml", '[tool.accelify.rewrite]\nruntime = "accelerate"\n')
    assert "import Accelerator" in rewrite("--config", "our.toml", "--diff", "train.py").stdout
    assert 'runtime           = "accelerate"' in rewrite("--config", "our.toml", "--show-settings").stdout
    assert rewrite("--config", "gone.toml", "train.py").returncode == 2


def test_folders_are_searched_as_the_settings_say() -> None:
    names = ["train.py", "build/a.py", "old/b.py", "src/old/c.py", "src/gen/d.py"]
    for name in names:
        write(name, PLAIN)

    def found(*arguments: str) -> list[str]:
        done = rewrite("--check", ".", *arguments)
        return [name for name in names if f"{name}: would" in done.stdout]

    assert found() == [name for name in names if name != "build/a.py"]
    configured('extend-exclude = ["old", "src/gen"]')
    assert found() == ["train.py"]
    assert found("--exclude", "nothing", "--isolated") == names
    assert "old/b.py: would" in rewrite("--check", "old/b.py").stdout
    assert rewrite("--check", "old/b.py", "--force-exclude").stdout == "Nothing to do.\n"
    assert rewrite("-", "--stdin-filename", "old/b.py", "--force-exclude", stdin=PLAIN).stdout == PLAIN


def test_an_ignored_rule_is_left_out_and_one_that_is_needed_declines_the_file() -> None:
    write("train.py", WRITES)
    assert "is_main_process" in rewrite("--diff", "train.py").stdout
    assert "batch_size" in rewrite("--diff", "train.py").stderr
    configured('ignore = ["writes"]\nper-file-ignores = {"train.*" = ["batch_size"]}')
    done = rewrite("--diff", "train.py")
    assert "accelerator.backward" in done.stdout
    assert "is_main_process" not in done.stdout
    assert "batch_size" not in done.stderr
    assert "writes" not in done.stderr
    done = rewrite("--ignore", "backward", "train.py")
    assert done.returncode == 1
    assert "train.py:17  backward  `ignore` in the settings leaves out a change that the migration needs" in done.stdout
    assert Path("train.py").read_text() == WRITES


def test_select_makes_only_what_is_selected() -> None:
    write("train.py", WRITES)
    needed = sorted(set(pages()) - {"writes", "batch_size", "unused"})
    done = rewrite("--diff", "train.py", "--select", ",".join(needed))
    assert "accelerator.backward" in done.stdout
    assert "is_main_process" not in done.stdout
    assert "`select` in the settings" in rewrite("--diff", "train.py", "--select", "backward").stderr


def test_a_file_that_is_excluded_is_not_changed_for_another_one() -> None:
    head, loop = PLAIN.split("for epoch")
    parameters = "(model, loader, optimizer, criterion, device)"
    body = f"for epoch{loop}".rstrip().replace("\n", "\n    ")
    write("main.py", f"from lib import fit\n\n{head}fit{parameters}\n")
    write("lib.py", f"def fit{parameters}:\n    {body}\n")
    assert "lib.py: would be migrated" in rewrite("--check", "main.py").stdout
    configured('extend-exclude = ["lib.py"]')
    done = rewrite("main.py")
    assert "main.py: declined" in done.stdout
    assert "`exclude` in the settings" in done.stdout
    assert "lib.py: would be migrated" in rewrite("--check", "main.py", "lib.py").stdout
