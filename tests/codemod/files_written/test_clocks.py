"""Facts about what reads the time, or what else differs between processes, into a path."""

from __future__ import annotations

import ast

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
def given(file=f"run-{stamp}", *, last=os.getpid()):
    return file
def of_two(file=f"run-{stamp}", *, last=os.getpid()):
    return last
def saved(seconds):
    return "run"
class Run:
    @property
    def folder(self):
        return f"run-{time.time()}"
    @property
    def root(self):
        return "out"
class Trainer:
    def __init__(self, run: Run):
        self.run = run
    def fit(self):
        return os.path.join(self.run.folder, "a.pt")
def evaluate(rows):
    start = time.time()
    found = "-".join(rows)
    return found, time.time() - start
def choose(rows):
    if rows:
        return "a", time.time()
    return rows
label, took = evaluate(["a"])
(shorter, _), _ = evaluate(["a"]), time.time()
beside, stamped = "a", stamp
whole = evaluate(["a"])
either, _ = choose([])
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
        ("given()", ["datetime.now().strftime('%H')"]),
        ("of_two('a.pt')", ["os.getpid()"]),
        ("saved(time.time())", []),  # it does not return what it is given
        ("os.path.join(saved(stamp), f'{saved(stamp)}.pt')", []),
        ("Run().folder", ["time.time()"]),
        ("Trainer(Run()).fit()", ["time.time()"]),
        ("Run().root", []),
        ("label", []),  # and not what is returned beside it
        ("shorter", ["time.time()", "time.time()"]),  # nested: all of it may be
        ("beside", []),
        ("took", ["time.time()", "time.time()"]),
        ("whole[0]", ["time.time()", "time.time()"]),
        ("either", ["time.time()"]),
        ("stamped", ["datetime.now().strftime('%H')"]),
    ],
)
def test_what_is_behind_a_path(path: str, calls: list[str]) -> None:
    assert behind(path) == calls


@pytest.mark.parametrize(
    ("path", "drawn"),
    [
        ("'a' + ''.join(random.choice(name) for _ in x)", ["''.join((random.choice(name) for _ in x))"]),
        ("f'a-{random.randint(0, 9)}'", ["random.randint(0, 9)"]),
        ("''.join(letters[:3])", ["letters"]),
        ("rng.choice(name)", []),
        ("stamp", []),
    ],
)
def test_what_is_drawn_for_a_path(path: str, drawn: list[str]) -> None:
    letters = "letters = list(x)\nrandom.shuffle(letters)\nrng = random.Random(0)\n"
    facts = Facts(f"import random\n{BEFORE}{letters}use({path})\n")
    assert texts(Clocks(facts.program, facts.tracer).drawn(facts.call("use(").args[0])) == drawn


@pytest.mark.parametrize(
    ("path", "calls"),
    [
        ("f'run{len(os.listdir(out))}'", {"os.listdir(out)": "len(os.listdir(out))"}),
        (
            "str(max(int(n) for n in os.listdir(out)))",
            {"os.listdir(out)": "str(max((int(n) for n in os.listdir(out))))"},
        ),
        ("os.path.join(out, 'b' if os.path.exists(out) else 'a')", {"os.path.exists(out)": "os.path.exists(out)"}),
        ("f'{len(list(Path(out).iterdir()))}'", {"Path(out).iterdir()": "len(list(Path(out).iterdir()))"}),
        ("Path(out).iterdir()", {}),  # nothing that could be sent
        (
            "str(max([int(p.stem) for p in Path(out).glob('*')]))",
            {"Path(out).glob('*')": "str(max([int(p.stem) for p in Path(out).glob('*')]))"},
        ),
        (
            "[int(p.stem) for p in Path(out).glob('*')][-1]",
            {"Path(out).glob('*')": "[int(p.stem) for p in Path(out).glob('*')]"},
        ),
        ("[load(p) for p in os.listdir(out)][-1]", {"os.listdir(out)": "os.listdir(out)"}),
        ("'run'", {}),
    ],
)
def test_what_is_worked_out_from_the_files_there_are(path: str, calls: dict[str, str]) -> None:
    facts = Facts(f"import os\nfrom pathlib import Path\nuse({path})\n")
    found = Clocks(facts.program, facts.tracer).counted(facts.call("use(").args[0])
    assert {ast.unparse(asked): ast.unparse(outer) for asked, outer in found.items()} == calls


SETTINGS = """\
import time
from datetime import datetime
NOW = datetime.now()
OUT = f"runs/{NOW:%H}"
PLAIN = "runs/1"
class Config:
    out: str = "runs/" + time.strftime("%H")
    plain: str = "runs/1"
    def __init__(self):
        self.log = f"logs/{time.time()}"
        self.seed = 3
config = Config()
"""


@pytest.mark.parametrize(
    ("imported", "path", "calls"),
    [
        ("import settings", "settings.OUT", ["datetime.now()"]),
        ("import settings as s", "s.OUT", ["datetime.now()"]),
        ("from settings import OUT", "OUT", ["datetime.now()"]),
        ("from settings import *", "'a/' + OUT", ["datetime.now()"]),
        ("from settings import OUT as out", "out", ["datetime.now()"]),
        ("from settings import Config", "Config.out", ["time.strftime('%H')"]),
        ("from settings import config", "config.out", ["time.strftime('%H')"]),
        ("from settings import config", "config.log", ["time.time()"]),
        ("import settings", "settings.config.log", ["time.time()"]),
        ("import settings", "settings.PLAIN", []),
        ("from settings import PLAIN", "PLAIN", []),
        ("from settings import config", "config.plain", []),
        ("from settings import config", "config.seed", []),
    ],
)
def test_what_another_module_names_for_the_time(imported: str, path: str, calls: list[str]) -> None:
    facts = Facts({"main.py": f"{imported}\nuse({path})\n", "settings.py": SETTINGS})
    assert texts(Clocks(facts.program, facts.tracer).behind(facts.call("use(").args[0])) == calls
