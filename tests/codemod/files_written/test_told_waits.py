"""Facts about waits that the rules put before what reads a file, where the accelerator does not reach the read."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from accelify.codemod.files_written.path_uses import ToldWaits
from accelify.codemod.rewrite import Options, rewrite_together

KEEPING = """\
import os
import pickle
import torch


def keep(model, config):
    model.eval()
    with torch.no_grad():
        model(torch.zeros(1, 8))
{saved}

def again(config):
    found = torch.load(config.best)
    return found
"""
OPENED = """\
    if os.path.isfile(config.best):
        os.remove(config.best)
    output = open(config.best, mode="wb")
    torch.save(model, output)
    output.close()
"""
WITH = """\
    with open(config.best, "wb") as f:
        torch.save({"model": model.state_dict()}, f)
"""
TRAIN = """\
import torch
from keeping import again, keep
from settings import Config


def train(model, data, config):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for x in data:
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        keep(model, config)
    net = again(config)
    net.eval()
    return net


if __name__ == "__main__":
    train(torch.nn.Linear(8, 1), torch.randn(9, 4, 8), Config())
"""
SETTINGS = """\
from configparser import ConfigParser


class Config:
    def __init__(self):
        self._config = ConfigParser()
        self._config.read("settings.ini")

    @property
    def best(self):
        return self._config.get("save", "best")
"""
ASKS = "    if accelify.runtime.PartialState().is_main_process:\n"


def rewritten(folder: Path, keeping: str) -> dict[str, str]:
    (folder / "settings.py").write_text(SETTINGS)
    (folder / "keeping.py").write_text(keeping)
    (folder / "train.py").write_text(TRAIN)
    return {r.path: r.after.decode() for r in rewrite_together(("train.py",), Options())}


def test_the_waits_have_a_class() -> None:
    assert ToldWaits.__slots__


@pytest.mark.parametrize("saved", [OPENED, WITH, '    torch.save(model, open(config.best, "wb"))\n'])
def test_one_process_opens_what_is_loaded_where_its_function_is_called(
    saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = rewritten(tmp_path, KEEPING.replace("{saved}", saved))
    assert ASKS + indent(saved, "    ") in results["keeping.py"]
    assert "    accelerator.wait_for_everyone()\n    net = again(config)" in results["train.py"]


def test_all_write_what_is_loaded_where_no_wait_is_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keeping = KEEPING.replace("{saved}", WITH).replace(
        "torch.load(config.best)", "pickle.load(open(config.best, 'rb'))"
    )
    results = rewritten(tmp_path, keeping)
    assert ASKS not in results["keeping.py"]
    assert WITH in results["keeping.py"]


COPIED = """\
import shutil
from os.path import dirname, isfile, join
import torch


def keep(state, is_best, path):
    torch.save(state, path)
    if is_best:
        shutil.copy(path, join(dirname(path), "best.pt"))


def load(path):
{load}
"""
TRAINED = """\
import argparse
from os.path import join
import torch
from torch import nn
from torch.utils.data import DataLoader
from keeping import keep, load


def main(args):
    loader = DataLoader(torch.randn(16, 4), batch_size=4)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.resume:
        model.load_state_dict(load(args.resume))
    for epoch in range(3):
        for x in loader:
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        keep(model.state_dict(), epoch == 1, join(args.logs, "last.pt"))
    model.load_state_dict(load(join(args.logs, "{loaded}")))


parser = argparse.ArgumentParser()
parser.add_argument("--logs", default=".")
parser.add_argument("--resume", default="")
main(parser.parse_args())
"""
ASKED = "    if isfile(path):\n        return torch.load(path)\n    raise ValueError(path)"


@pytest.mark.parametrize(
    ("load", "loaded", "waits"),
    [
        ("    return torch.load(path)", "best.pt", True),
        ("    return torch.load(str(path), weights_only=True)", "best.pt", True),
        (ASKED, "best.pt", True),
        ("    return torch.load(path)", "pretrained.pt", False),
    ],
)
def test_all_wait_for_a_copy_of_a_save_where_its_load_is_called(
    load: str, loaded: str, waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keeping.py").write_text(COPIED.format(load=load))
    (tmp_path / "train.py").write_text(TRAINED.format(loaded=loaded))
    results = {r.path: r.after.decode() for r in rewrite_together(("train.py",), Options())}
    assert ASKS.replace("main_process:", "main_process and is_best:") in results["keeping.py"]
    wait = f'    accelerator.wait_for_everyone()\n    model.load_state_dict(load(join(args.logs, "{loaded}")))'
    assert (wait in results["train.py"]) is waits
    assert results["train.py"].count("wait_for_everyone") == waits
