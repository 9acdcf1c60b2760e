"""Facts about commands that only touch files: which of them one process runs for all, with a wait."""

from __future__ import annotations

import pytest

from accelify.codemod.files_written.guards.commands import Commands
from tests.codemod.facts import texts
from tests.codemod.pairs import run, script
from tests.codemod.training_scripts import training

IMPORTS = "import glob, os, subprocess\nfrom names import folder"
WAIT = "accelerator.wait_for_everyone()\n"


def test_which_commands_only_touch_files() -> None:
    facts = training(imports=IMPORTS, end="os.system('rm a.txt')\nos.system('sort a.txt > b.txt')\nprint(1)\n")
    commands = facts.script.written.commands
    assert isinstance(commands, Commands)
    assert texts(filter(commands.touches_files, facts.program.calls)) == ["os.system('rm a.txt')"]


def rewritten(lines: str) -> str:
    return run(script(imports=IMPORTS, prepared=lines)).after.decode()


@pytest.mark.parametrize(
    "line",
    [
        "os.system('rm -rf runs && mkdir runs')",
        "subprocess.call(['mkdir', '-p', folder])",
        "subprocess.run(f'cp a.txt {folder}', shell=True)",
        "os.system('touch ' + folder)",
    ],
)
def test_one_process_runs_it_and_the_others_wait(line: str) -> None:
    assert f"if accelerator.is_main_process:\n    {line}\n{WAIT}" in rewritten(line)


@pytest.mark.parametrize(
    "line",
    [
        "for f in glob.glob('*.pt'):\n    os.system('rm ' + f)",
        "if os.path.exists('runs'):\n    os.system('rm -rf runs')",
        "os.system('rm -rf runs; python make.py')",
        "os.system('sort a.txt > b.txt')",
        "subprocess.Popen(['rm', '-rf', 'runs'])",
    ],
)
def test_other_commands_stay_as_they_are(line: str) -> None:
    assert f"\n{line}\n" in rewritten(line)


def test_all_look_before_one_makes_what_they_look_for() -> None:
    made = rewritten("print(os.path.exists('runs'))\nos.system('mkdir -p runs')")
    assert f"{WAIT}if accelerator.is_main_process:\n    os.system('mkdir -p runs')" in made
    made = rewritten("print(open('a.txt').read())\nos.system('mkdir -p runs')")
    assert f"{WAIT}if accelerator.is_main_process:\n    os.system('mkdir -p runs')" not in made
