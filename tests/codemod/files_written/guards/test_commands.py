"""Facts about commands: which of them one process runs for all, with a wait, and which are run for their output."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files_written.guards.commands import Commands
from accelify.codemod.libraries import names
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


START = "p = subprocess.Popen(['make'], stdout=subprocess.PIPE)\n"
RUN = "r = subprocess.run(['make'], capture_output=True)\n"


def is_run_for_its_output(lines: str) -> bool:
    facts = training(imports=IMPORTS, end=f"{lines}\n")
    calls = [c for c in facts.program.calls if any(map(names.runs_command, facts.program.called(c)))]
    (call,) = (c for c in calls if isinstance(c, ast.Call))
    return facts.script.written.commands.is_run_for_its_output(call)


@pytest.mark.parametrize(
    "lines",
    [
        f"{START}p.communicate()",
        f"{START}p.wait()\nif p.returncode:\n    raise OSError",
        f"{START}output, error = p.communicate()",
        f"{START}_, error = p.communicate()\nif error:\n    print(error)",
        f"output = 1\nprint(output)\n{START}output, error = p.communicate()\noutput = 2\nprint(output)",
        f"def pack():\n    {START}    out = p.communicate()\npack()",
        "subprocess.Popen(['make'], stdout=subprocess.PIPE).communicate()",
        "with subprocess.Popen(['make'], stdout=subprocess.DEVNULL) as p:\n    p.wait()",
        "subprocess.run(['make'], stdout=subprocess.DEVNULL, check=True)",
        f"{RUN}r.check_returncode()",
        f"{RUN}if r.returncode != 0:\n    raise OSError(r.stderr)",
        "subprocess.check_output(['make'])",
        "done = subprocess.getoutput('make')",
        "os.system('make')",
    ],
)
def test_what_a_command_prints_is_left_unread(lines: str) -> None:
    assert not is_run_for_its_output(lines)


@pytest.mark.parametrize(
    "lines",
    [
        f"{START}print(p.communicate())",
        f"{START}output, error = p.communicate()\nprint(output)",
        f"{START}found = p.communicate()[0]",
        f"{START}print(p.stdout.read())",
        f"{START}for line in p.stdout:\n    print(line)",
        f"{START}workers = [p]",
        f"{START}p.stdin.write(b'1')\nx = p.stdout.readline()",
        f"{START}def ask():\n    return p.stdout.readline()\nask()",
        "with subprocess.Popen(['make'], stdout=subprocess.PIPE) as p:\n    print(p.stdout.read())",
        f"{RUN}print(r.stdout)",
        "tag = subprocess.run(['git', 'describe'], capture_output=True).stdout",
        "print(subprocess.check_output(['git', 'rev-parse', 'HEAD']))",
        "tag = subprocess.getoutput('git describe')\nprint(tag)",
        "os.system('nvidia-smi')",
    ],
)
def test_what_a_command_prints_may_be_read(lines: str) -> None:
    assert is_run_for_its_output(lines)
