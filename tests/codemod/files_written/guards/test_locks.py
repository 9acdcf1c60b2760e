"""Facts about file work under a lock between processes, which stays as it is: a wait in it would never end."""

from __future__ import annotations

import ast
import textwrap

import pytest

from accelify.codemod.files_written.guards.locks import Locks
from tests.codemod.pairs import run
from tests.codemod.training_scripts import script, training

IMPORTS = """\
import fcntl, os, shutil, tempfile, threading
import fasteners, portalocker
import numpy as np
from filelock import FileLock
from urllib.request import urlretrieve
"""
MAKE = """\
if os.path.exists(path):
    return path
with tempfile.NamedTemporaryFile(dir='.', delete=False) as made:
    made.write(b'abc')
os.replace(made.name, path)
"""

CACHE = "if not os.path.exists(path):\n    np.save(path, [1])\n"
FOLDER = """\
if not os.path.exists(path):
    shutil.rmtree(path + '.new', ignore_errors=True)
    os.mkdir(path + '.new')
    urlretrieve('http://x/y', path + '.new/y')
    os.rename(path + '.new', path)
"""


def under(head: str, made: str) -> str:
    """A function that makes a file, under the last line of its head."""
    made = textwrap.indent(made, "    ") if head.endswith(":") else made
    end = "finally:\n    lock.release()\nreturn path\n" if head.endswith("try:") else "return path\n"
    return "def get(path):\n" + textwrap.indent(f"{head}\n{made}{end}", "    ")


@pytest.mark.parametrize(
    "head",
    [
        "with FileLock(path + '.lock'):",
        "lock = FileLock(path + '.lock')\nwith lock.acquire(timeout=10):",
        "lock = fasteners.InterProcessLock(path + '.lock')\nwith lock:",
        "with portalocker.Lock(path + '.lock', timeout=60):",
        "lock = FileLock(path + '.lock')\nlock.acquire()\ntry:",
        "file = open(path + '.lock')\nfcntl.flock(file, fcntl.LOCK_EX)",
    ],
)
@pytest.mark.parametrize("made", [MAKE, CACHE, FOLDER])
def test_what_runs_under_a_lock_is_left_as_it_is(head: str, made: str) -> None:
    before = under(head, made)
    result = run(script(imports=IMPORTS, before=before, end="print(len(open(get('vocab.txt')).read()))"))
    assert before in result.after.decode()
    assert "wait_for_everyone" not in result.after.decode()
    assert "main_process" not in result.after.decode()
    assert not [n for n in result.notes if n.rule == "writes"]


def test_a_lock_of_one_process_sees_to_no_other() -> None:
    before = under("lock = threading.Lock()\nwith lock:", "np.save(path, [1])\n")
    after = run(script(imports=IMPORTS, before=before, end="print(np.load(get('a.npy')))")).after.decode()
    assert "    if accelerator.is_main_process:\n        lock = threading.Lock()\n        with lock:\n" in after


def test_all_wait_before_the_lock_under_which_they_read() -> None:
    end = "np.save('a.npy', [1])\nwith FileLock('a.lock'):\n    rows = np.load('a.npy')\nmodel.rows = rows"
    after = run(script(imports=IMPORTS, end=end)).after.decode()
    assert "accelerator.wait_for_everyone()\nwith FileLock('a.lock'):\n    rows = np.load('a.npy')" in after


def test_a_lock_is_held_until_it_is_given_back() -> None:
    end = "lock = FileLock('a')\nlock.acquire()\nprint(1)\nlock.release()\nprint(2)\nwith lock:\n    print(3)\nprint(4)"
    program = training(imports=IMPORTS, end=end).script.program
    held = Locks(program).held
    printed = [c for c in program.calls if ast.unparse(c.func) == "print" and isinstance(c.args[0], ast.Constant)]
    assert {c.args[0].value: c in held for c in printed if c.args[0].value in (1, 2, 3, 4)} == {  # type: ignore[attr-defined]
        1: True,
        2: False,
        3: True,
        4: False,
    }


def test_the_next_to_take_the_lock_finds_a_folder() -> None:
    after = run(script(imports=IMPORTS, end="with FileLock('a.lock'):\n    os.makedirs('a')")).after.decode()
    assert "    os.makedirs('a', exist_ok=True)" in after
