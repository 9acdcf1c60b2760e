"""Every recipe of docs/launch.md, run as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interpreters import ROOT
from tests.launch.conftest import PATIENCE, Shell

PAGE = (ROOT / "docs" / "launch.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CONSOLE = [line for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]

SELF_CHECK = "accelify test --cpu --num-processes 2"


def recipes(prompt: str) -> list[str]:
    return [line.removeprefix(prompt) for line in CONSOLE if line.startswith(prompt)]


@pytest.fixture
def page(shell: Shell) -> Shell:
    """A folder with the page's script, and `accelify` and `python` as an activated environment has them."""
    for block in PYTHON:
        if name := re.match(r"# (\w+\.py)\n", block):
            shell.script(block, name[1])
    binaries = shell.folder / "bin"
    binaries.mkdir()
    for name, command in (("accelify", "-m accelify "), ("python", "")):
        path = binaries / name
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {command}"$@"\n')
        path.chmod(0o755)
    return shell


def start(shell: Shell, line: str, *prefix: str, **variables: str) -> subprocess.Popen[str]:
    path = f"{shell.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        [*prefix, "sh", "-c", line],
        cwd=shell.folder,
        env=shell.environment(PATH=path, **variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def succeeds(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    return out


def test_every_line_has_a_test() -> None:
    prompts = {line.partition("$")[0] for line in CONSOLE}
    assert prompts == {"", "machine 0", "machine 1", "slurm", "mpi"}


def test_on_one_machine(page: Shell) -> None:
    for line in (line for line in recipes("$ ") if line != SELF_CHECK):
        if line.startswith("accelify launch") and "--num-processes 2" in line:
            launched = page.launch(*shlex.split(line)[2:])
            assert launched.returncode == 0, launched
            assert "--dry-run" in line or launched.stdout == "done on 2\n"
            continue
        out = succeeds(start(page, line))
        if line.startswith("accelify launch"):
            assert out == "done on 1\n"


def test_the_self_check(page: Shell) -> None:
    assert SELF_CHECK in recipes("$ ")
    out = succeeds(start(page, SELF_CHECK))
    names = [line.split("  ")[0] for line in out.splitlines()]
    assert names == ["process group", "collectives", "data", "training", "checkpoint"]
    assert out.count(" ok ") == 5
    assert "2 processes on cpu" in out
    assert "from the middle of an epoch, the same weights bit for bit" in out
    assert page.logs() == []


def test_on_two_machines(page: Shell, networks: tuple[str, str]) -> None:
    agents = [
        start(page, line, "ip", "netns", "exec", network)
        for rank, network in enumerate(networks)
        for line in recipes(f"machine {rank}$ ")
    ]
    assert [succeeds(agent) for agent in agents] == ["done on 4\n", ""]


def test_under_slurm(page: Shell, cluster: str) -> None:
    for line in recipes("slurm$ "):
        out = succeeds(start(page, line, SLURM_CONF=cluster, MASTER_ADDR="127.0.0.1"))
        assert re.fullmatch(r"done on \d\n", out)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun: apt-get install openmpi-bin")
def test_under_mpi(page: Shell) -> None:
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    for line in recipes("mpi$ "):
        assert succeeds(start(page, line, OMPI_MCA_rmaps_base_oversubscribe="1", **root)) == "done on 2\n"


def test_in_a_notebook(shell: Shell) -> None:
    from tests.kernels import execute, nbformat

    (source,) = (block for block in PYTHON if block.startswith("# notebook cell"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    execute(notebook, shell.folder, env=shell.environment())
    outputs = notebook.cells[0].outputs
    assert "".join(each.text for each in outputs if each.get("name") == "stdout") == "trained on 2\n"
    assert outputs[-1].data["text/plain"] == "2"


def test_the_page_names_every_key() -> None:
    from accelify.runtime.launch.config import KEYS

    table = PAGE.partition("| key |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z_]+)`", table)) - {"auto"} == set(KEYS)
    assert Path(ROOT / "docs" / "launch.md").exists()
