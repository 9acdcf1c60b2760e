"""Data sets that one process downloads for all."""

from __future__ import annotations

import pytest

from tests.codemod.pairs import run
from tests.codemod.training_scripts import script


@pytest.mark.parametrize(
    ("imported", "made", "waits"),
    [
        ("from torch_geometric.datasets import Planetoid", "Planetoid('data', 'Cora')", True),
        ("from ogb.nodeproppred import PygNodePropPredDataset", "PygNodePropPredDataset(name='arxiv')", True),
        ("from sklearn.datasets import fetch_california_housing", "fetch_california_housing()", True),
        ("from torchvision.datasets import MNIST", "MNIST('data', download=True)", True),
        ("from torchvision.datasets import MNIST", "MNIST('data', download=False)", False),
        ("from torchvision.datasets import MNIST", "MNIST('data')", False),
        ("from torchtext.legacy import datasets", "datasets.UDPOS.splits([])", True),
        ("from torchtext.vocab import GloVe", "GloVe(name='6B')", True),
        ("import kagglehub", "kagglehub.dataset_download('a/b')", True),
        ("import torch.hub", "torch.hub.load('a/b', 'c')", True),
        ("from torchtext.data import Field", "Field().build_vocab([], vectors='glove.6B.100d')", True),
        ("from torchtext.legacy import data", "data.Field().build_vocab([], vectors=None)", False),
        ("from torchtext.data import Field", "Field().build_vocab([], max_size=9)", False),
        ("from sklearn.datasets import load_iris", "load_iris()", False),
    ],
)
def test_which_data_sets_are_fetched(imported: str, made: str, waits: bool) -> None:
    after = run(script(imports=imported, before=f"rows = {made}")).after.decode()
    assert (f"with accelerator.main_process_first():\n    rows = {made}" in after) is waits


OWN = """
class Gray:
    def __init__(self, download):
        self.rows = MNIST("data", download=download)
"""


@pytest.mark.parametrize("made", ["Gray(download=True)", "build(download=True)"])
def test_one_block_for_what_is_fetched_in_a_function(made: str) -> None:
    build = "def build(download):\n    return Gray(download=True).rows"
    before = f"{OWN}\n{build}\nrows = {made}"
    after = run(script(imports="from torchvision.datasets import MNIST", before=before)).after.decode()
    assert after.count("main_process_first") == 1
    assert "with accelerator.main_process_first():\n            self.rows = MNIST" in after


def test_vectors_for_a_field_that_a_function_is_given() -> None:
    build = "def build(field):\n    field.build_vocab([], vectors='glove.6B.100d')\nfield = Field()\nbuild(field)"
    after = run(script(imports="from torchtext.data import Field", before=build)).after.decode()
    assert "with accelerator.main_process_first():\n        field.build_vocab(" in after


def test_resources_are_downloaded_once() -> None:
    after = run(script(imports="import nltk", before="nltk.download('punkt')")).after.decode()
    assert "if accelerator.is_main_process:\n    nltk.download('punkt')\naccelerator.wait_for_everyone()\n" in after
