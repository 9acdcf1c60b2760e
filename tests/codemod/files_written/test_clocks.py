"""Facts about what reads the time, or what else differs between processes, into a path."""

from __future__ import annotations

import pytest

from accelify.codemod.files_written.clocks import Clocks
from tests.codemod.facts import Facts, texts

BEFORE = """\
import argparse, getpass, os, socket, time, uuid
from datetime import datetime
stamp = datetime.now().strftime("%H")
def name():
    return f"run-{time.time()}"
def plain():
    def inner():
        return time.time()
    return "run"
def join(folder):
    return os.path.join(folder, "a")
parser = argparse.ArgumentParser()
parser.add_argument("--out-dir", default=str(uuid.uuid4()))
parser.add_argument("--seed", default=3)
args = parser.parse_args()
"""


def behind(path: str) -> list[str]:
    facts = Facts(f"{BEFORE}use({path})\n")
    return texts(Clocks(facts.program, facts.tracer).behind(facts.call("use(").args[0]))


@pytest.mark.parametrize(
    ("path", "calls"),
    [
        ("f'a-{time.time()}'", ["time.time()"]),
        ("f'/tmp/{getpass.getuser()}'", []),
        ("os.getlogin() + '/' + os.environ['HOME']", []),
        ("socket.gethostname()", ["socket.gethostname()"]),
        ("stamp", ["datetime.now().strftime('%H')"]),
        ("'a/' + stamp", ["datetime.now().strftime('%H')"]),
        ("name()", ["time.time()"]),
        ("join(stamp)", ["datetime.now().strftime('%H')"]),
        ("args.out_dir", ["uuid.uuid4()"]),
        ("os.getpid()", ["os.getpid()"]),
        ("'a.pt'", []),
        ("args.seed", []),
        ("plain()", []),
        ("unknown(x)", []),
    ],
)
def test_what_is_behind_a_path(path: str, calls: list[str]) -> None:
    assert behind(path) == calls
