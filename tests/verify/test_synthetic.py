"""Data that is not here: stand-ins for torchvision and Hugging Face, played by small packages beside the script."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.verify.experiment import Request
from accelify.verify.forking import Server
from accelify.verify.prove import prove
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


FROM_FILES = """\
import glob
import os
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

class Pairs(Dataset):
    def __init__(self, root):
        self.root = root
        self.names = sorted(os.listdir(os.path.join(root, "images")))
        assert len(glob.glob(os.path.join(root, "more", "*.jpg"))) == len(self.names)
    def __len__(self):
        return len(self.names)
    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, "images", self.names[index])).convert("L").resize((4, 4))
        with open(os.path.join(self.root, "masks", self.names[index]), "rb") as file:
            mask = Image.open(file).resize((4, 4), 0)
            assert set(mask.getdata()) <= {0, 1}
        return [torch.tensor(list(part.getdata()), dtype=torch.float32) for part in (image, mask)]

assert len(open("corpus.txt").read().split()) > 1000
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
for x, y in DataLoader(Pairs("/not/here"), batch_size=16, shuffle=True):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""


def test_a_data_set_of_files_that_are_not_here_reads_made_up_ones(server: Server, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "train.py").write_text(FROM_FILES)
    request = Request(tmp_path / "train.py", limits=LIMITS, folder=tmp_path, synthetic=64)
    verdict = prove(request, lambda words: None, server)
    assert differing(verdict) == []
    assert verdict.steps == 4
    images = ("/not/here/images/*.png: made-up images", "/not/here/masks/*.png: made-up images")
    assert verdict.replaced == ("corpus.txt: made-up text", *images)


HUGGING_FACE = """\
class Dataset(list):
    @classmethod
    def from_dict(cls, columns):
        return cls(dict(zip(columns, row)) for row in zip(*columns.values()))

DatasetDict = dict

def load_dataset(path, *names, **options):
    raise ConnectionError("no network here")
"""

FROM_HUGGING_FACE = """\
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader

def change(rows):
    words = sorted({word for row in rows for word in row["text"].split()})
    x = torch.tensor([[float(len(row["text"])), row["text"].count("e")] for row in rows])
    return x, torch.tensor([row["label"] for row in rows])

train = load_dataset("somebody/reviews")["train"]
pictures = load_dataset("ylecun/mnist", split="train")
assert pictures[0]["image"].size == (28, 28)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for x, y in DataLoader(train, batch_size=16, shuffle=True, collate_fn=change):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


def test_hugging_face_data_that_is_not_here_is_made_up(server: Server, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "datasets.py").write_text(HUGGING_FACE)
    (tmp_path / "train.py").write_text(FROM_HUGGING_FACE)
    request = Request(tmp_path / "train.py", limits=LIMITS, folder=tmp_path, synthetic=64)
    verdict = prove(request, lambda words: None, server)
    assert differing(verdict) == []
    assert verdict.steps == 4
    assert verdict.replaced == (
        "datasets.load_dataset('somebody/reviews') (ConnectionError): made-up text",
        "datasets.load_dataset('ylecun/mnist') (ConnectionError): made-up images",
    )
