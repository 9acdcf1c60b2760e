"""Data that is not here: stand-ins for torchvision and Hugging Face, played by small packages beside the script."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.verify.prove import Request, prove
from accelify.verify.runs import Server
from tests.verify.conftest import LIMITS, differing

VISION = """\
class MNIST:
    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        assert not download, "verify must not download"
        raise RuntimeError("Dataset not found. You can use download=True to download it")

FashionMNIST = KMNIST = QMNIST = EMNIST = CIFAR10 = CIFAR100 = SVHN = STL10 = ImageFolder = MNIST
"""

SCRIPT = """\
import torch
from torchvision import datasets
from torch.utils.data import DataLoader

def change(image):
    return torch.tensor(list(image.getdata()), dtype=torch.float32) / 255

train = datasets.MNIST("data", train=True, download=True, transform=change)
test = datasets.MNIST("data", train=False, transform=change)
print(len(train), len(test), len(train.classes))
torch.manual_seed(0)
model = torch.nn.Linear(784, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(train, batch_size=16, shuffle=True):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    pytest.importorskip("PIL")
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("")
    (tmp_path / "torchvision" / "datasets.py").write_text(VISION)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def test_a_dataset_that_is_not_here_is_replaced_and_named(server: Server, project: Path) -> None:
    request = Request(project / "train.py", limits=LIMITS, folder=project, synthetic=64)
    verdict = prove(request, lambda words: None, server)
    assert differing(verdict) == []
    assert verdict.steps == 4
    assert verdict.replaced == (
        "torchvision.datasets.MNIST (training): 64 made-up images",
        "torchvision.datasets.MNIST (held out): 32 made-up images",
    )


def test_without_being_asked_nothing_is_replaced(server: Server, project: Path) -> None:
    verdict = prove(Request(project / "train.py", limits=LIMITS, folder=project), lambda words: None, server)
    assert "verify must not download" in (verdict.error or "")
