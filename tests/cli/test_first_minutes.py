"""What a new user meets: mistyped commands, files that are no Python, files that need no migration, completion."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import PLAIN, accelify, rewrite, write


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rewrit", "train.py"], "No such command 'rewrit'; did you mean 'rewrite'?"),
        (["lanch"], "did you mean 'launch'?"),
        (["train.py"], "to migrate it, say `accelify rewrite train.py`"),
        (["."], "to migrate it, say `accelify rewrite .`"),
        (["zzz"], "No such command 'zzz'."),
        (["rewrite"], "name a script, a notebook or a folder"),
    ],
)
def test_a_mistake_gets_a_way_out(arguments: list[str], said: str) -> None:
    done = accelify(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_mistyped_option_gets_the_nearest() -> None:
    done = rewrite("--chek", "train.py")
    assert done.returncode == 2
    assert "--check" in done.stderr


@pytest.mark.parametrize("text", ["def f(:\n", 'print "x"\n', "import os\nx = (\n"])
def test_a_file_that_does_not_parse_is_an_error_without_torch_too(text: str) -> None:
    write("util.py", text)
    done = rewrite("util.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("util.py:")
    write("train.py", PLAIN)
    for _ in ("computed", "kept"):
        met = rewrite("--check", ".")
        assert met.returncode == 2
        assert (met.stderr, "train.py: would be migrated" in met.stdout) == (done.stderr, True)
    assert rewrite("-", stdin=text).returncode == 2


def test_a_notebook_without_torch_must_be_one() -> None:
    write("book.ipynb", "{}")
    assert rewrite("book.ipynb").returncode == 2


LOOP = "loss.backward()\noptimizer.step()\n"
WRITTEN = {
    f"from accelify.runtime import Accelerator\n{LOOP}": "migrated already: start it with `accelify launch train.py`",
    "import pytorch_lightning as pl\npl.Trainer()\n": "trained by Lightning, which starts the processes itself",
    "import lightning\nimport torch\nlightning.Trainer()\n": "trained by Lightning",
    "from transformers import Seq2SeqTrainer\n": "trained by a Trainer, which needs no migration: "
    "start it with `torchrun --nproc-per-node=N train.py`",
    "from fastai.vision.all import *\n": "trained by fastai",
    "import torch\nfrom torchnet.engine import Engine\nEngine().train()\n": "trained by a loop inside of torchnet",
    "import torch\nimport torchnet as tnt\ntnt.engine.Engine()\n": "trained by a loop inside of torchnet",
    "import torch\nprint(torch.ones(2))\n": "nothing to migrate",
}


@pytest.mark.parametrize("text", WRITTEN)
def test_what_needs_no_migration_is_named_with_the_next_step(text: str) -> None:
    write("train.py", text)
    done = rewrite("train.py")
    assert done.returncode == 0
    assert done.stdout.startswith(f"train.py: unchanged, {WRITTEN[text]}")
    (file,) = json.loads(rewrite("train.py", "--output-format=json").stdout)["files"]
    assert (file["because"] or "nothing to migrate").startswith(WRITTEN[text])


def test_a_loop_beside_an_import_of_a_trainer_is_migrated() -> None:
    write("train.py", "from transformers import Trainer\n" + PLAIN)
    assert "train.py: would be migrated" in rewrite("--check", "train.py").stdout


def test_why_says_so_too() -> None:
    write("train.py", f"import lightning\nlightning.Trainer()\n{LOOP}")
    assert accelify("why", "train.py:2").stdout.startswith("nothing changes: this file is trained by Lightning")


@pytest.mark.parametrize(("shell", "rc"), [("bash", ".bashrc"), ("zsh", ".zshrc")])
def test_completion_is_installed_once(shell: str, rc: str, here: Path) -> None:
    write(rc, "alias x=y")
    for _ in range(2):
        done = accelify("completion", "--install", HOME=str(here), XDG_CONFIG_HOME="", SHELL=f"/usr/bin/{shell}")
        assert done.returncode == 0
    lines = (here / rc).read_text().splitlines()
    script = here / ".config" / "accelify" / f"completion.{shell}"
    assert lines == ["alias x=y", f'source "{script}"  # completion of accelify']
    assert script.read_text() == accelify("completion", shell).stdout
    if shell == "bash":
        subprocess.run(["bash", "-n", str(script)], check=True)


def test_completion_for_fish_and_for_an_unknown_shell(here: Path) -> None:
    assert accelify("completion", "fish", "--install", HOME=str(here), XDG_CONFIG_HOME=str(here)).returncode == 0
    assert (here / "fish" / "completions" / "accelify.fish").exists()
    done = accelify("completion", SHELL="/bin/tcsh")
    assert done.returncode == 2
    assert "accelify completion bash|zsh|fish" in done.stderr


def test_completion_completes() -> None:
    done = accelify(_ACCELIFY_COMPLETE="bash_complete", COMP_WORDS="accelify rewrite --ch", COMP_CWORD="2")
    assert "plain,--check" in done.stdout
    done = accelify(_ACCELIFY_COMPLETE="bash_complete", COMP_WORDS="accelify explain batch", COMP_CWORD="2")
    assert done.stdout == "plain,batch_size\n"
