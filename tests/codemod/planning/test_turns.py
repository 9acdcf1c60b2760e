"""What all processes would have to come to has no place where one of them goes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.options import Options
from accelify.codemod.rewrite import rewrite_together

DATA = """\
import glob
import os
import time
import numpy as np
import torch
from torchvision.datasets import MNIST


def named(path):
    return path + "/" + time.strftime("%Y%m%d")


def read(path, download=True):
    rows = MNIST(path, download={download}).data
    {body}
    return rows
"""
TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from data import named, read


def main():
    rows = read("saved")
    {other}
    loader = DataLoader(TensorDataset(rows, rows), batch_size=8)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
"""
FOLDER = "os.mkdir(named(path))"
FIRST = "with accelerator.main_process_first():\n        rows = read("


def migrated(tmp_path: Path, body: str, other: str = "", download: str = "True") -> tuple[str, str, str]:
    """The training script, the module of its data, and the messages of all notes."""
    (tmp_path / "data.py").write_text(DATA.format(body=body, download=download))
    (tmp_path / "train.py").write_text(TRAIN.format(other=other))
    found = {Path(r.path).name: r for r in rewrite_together((str(tmp_path / "train.py"),), Options())}
    texts = [found[name].after.decode() if name in found else "" for name in ("train.py", "data.py")]
    return texts[0], texts[1], "\n".join(n.message for r in found.values() for n in r.notes)


@pytest.mark.parametrize(
    "body",
    [
        FOLDER,
        "os.makedirs(f'{path}/{time.time()}')",
        "n = len(os.listdir(path))\n    os.mkdir(f'{path}/{n}')",
    ],
)
def test_nothing_is_broadcast_where_one_process_goes_first(tmp_path: Path, body: str) -> None:
    train, data, notes = migrated(tmp_path, body)
    assert FIRST in train
    assert "broadcast" not in data
    assert "import accelify" not in data or "accelify.runtime." in data
    assert "one after the other" in notes
    assert "exist_ok=True" in data


def test_nothing_is_waited_for_where_one_process_goes_first(tmp_path: Path) -> None:
    train, data, _ = migrated(tmp_path, "torch.save(rows, path + '/rows.pt')\n    rows = torch.load(path + '/rows.pt')")
    assert FIRST in train
    assert "wait_for_everyone" not in train + data


def test_a_name_that_all_agree_on_elsewhere_is_still_broadcast(tmp_path: Path) -> None:
    _, data, notes = migrated(tmp_path, FOLDER, download="False")
    assert "broadcast_object_list([time.strftime(" in data
    assert "one after the other" not in notes


def test_no_process_goes_first_where_it_would_wait_in_a_function_of_others(tmp_path: Path) -> None:
    train, data, notes = migrated(tmp_path, FOLDER, "folder = named('logs')\n    import os; os.makedirs(folder)")
    assert "broadcast_object_list([time.strftime(" in data
    assert "main_process_first" not in train
    assert "the processes wait for each other in this" in notes
