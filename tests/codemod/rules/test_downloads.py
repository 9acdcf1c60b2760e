"""Data sets that one process downloads for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codemod.pairs import run
from tests.codemod.test_importers import rewritten
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


@pytest.mark.parametrize(
    ("imported", "made", "is_fetched"),
    [
        ("from torchtext.data import Dataset", "Dataset(load('a.pkl'), fields=[])", False),
        ("from torchtext.legacy import data", "data.TabularDataset('a.tsv', format='tsv', fields=[])", False),
        ("from torchtext.datasets import TranslationDataset", "TranslationDataset('a', ('.de', '.en'), fields)", False),
        ("from torchtext.legacy import datasets", "datasets.SequenceTaggingDataset('a.tsv', fields)", False),
        ("from torchtext.datasets import IMDB", "IMDB('a', fields)", True),
    ],
)
def test_data_sets_of_torchtext_that_only_read_their_files(imported: str, made: str, is_fetched: bool) -> None:
    result = run(script(imports=imported, before=f"rows = {made}"))
    assert not any("download" in n.message for n in result.notes)
    assert ("main_process_first" in result.after.decode()) is is_fetched


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


_DISTRIBUTED = """
import argparse

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.datasets import MNIST

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
args = parser.parse_args()
torch.cuda.set_device(args.local_rank)
distributed.init_process_group("nccl")
MADE
loader = DataLoader(data, sampler=DistributedSampler(data), batch_size=8)
net = nn.parallel.DistributedDataParallel(nn.Linear(784, 10).cuda(), device_ids=[args.local_rank])
optimizer = torch.optim.Adam(net.parameters())
for x, y in loader:
    loss = nn.functional.cross_entropy(net(x.cuda().flatten(1)), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_WAITING = "if args.local_rank not in [-1, 0]:\n    distributed.barrier()\n{}\nif args.local_rank == 0:\n    {}"


_LOAD = """
def load(root):
    return MNIST(root, download=True)

SETS = {"mnist": load}
"""
_ALONE = """
def load_alone(rank):
    if rank not in [-1, 0]:
        distributed.barrier()
    data = MNIST("data", download=True)
    if rank == 0:
        distributed.barrier()
    return data

data = load_alone(args.local_rank)
"""


@pytest.mark.parametrize(
    ("made", "blocks"),
    [
        (_WAITING.format("data = MNIST('data', download=True)", "distributed.barrier()"), 0),
        (_LOAD + _WAITING.format("if args.local_rank < 9:\n    data = load('data')", "distributed.barrier()"), 0),
        (_LOAD + _WAITING.format("data = SETS['mnist']('data')", "distributed.barrier()"), 0),
        (_ALONE, 0),
        ("data = MNIST('data', download=True)\ndistributed.barrier()", 1),
        (_LOAD + "distributed.barrier()\ndata = load('data')", 1),
    ],
)
def test_what_other_processes_wait_for_already_is_left(made: str, blocks: int) -> None:
    after = run(_DISTRIBUTED.replace("MADE", made)).after.decode()
    assert "accelerator.wait_for_everyone()" in after
    assert after.count("main_process_first") == blocks


@pytest.mark.parametrize(
    ("before", "made"),
    [
        ("kinds = {'a': lambda path: MNIST(path, download=True)}", "rows = kinds['a']('data')"),
        ("build = lambda: list(x for x in MNIST('data', download=True))", "rows = [r for r in build()]"),
        (
            "build = lambda path: MNIST(path, download=True)\ndef make(path):\n    return build(path)",
            "rows = make('d')",
        ),
        ("build = partial(MNIST, download=True)", "rows = build('data')"),
    ],
)
def test_the_call_of_what_downloads_later(before: str, made: str) -> None:
    imports = "from functools import partial\nfrom torchvision.datasets import MNIST"
    after = run(script(imports=imports, before=f"{before}\n{made}")).after.decode()
    assert after.count("main_process_first") == 1
    assert before.partition("\n")[0] in after.splitlines()
    inner = made if "make" not in made else "return build(path)"
    assert inner in after.partition("main_process_first():\n")[2].splitlines()[0]


KINDS = """\
import sys
from torchvision import datasets
class Digits(datasets.MNIST):
    def __init__(self):
        super().__init__('data', download=True)
NAMES, CLASSES = {{'digits': 'Digits'}}, {{'digits': Digits}}
def kind_of(name):
    return {picked}
def rows_of(name):
    return kind_of(name)()
"""


@pytest.mark.parametrize(
    ("picked", "blocks"),
    [
        ("eval(NAMES[name])", 1),
        ("eval('Digits')", 1),
        ("globals()[NAMES[name]]", 1),
        ("CLASSES[name]", 1),
        ("eval('[1, 2].copy')", 0),
        ("eval('list')", 0),
    ],
)
def test_a_class_that_is_picked_by_its_name_downloads(tmp_path: Path, picked: str, blocks: int) -> None:
    main = script(imports="from kinds import rows_of", before="rows = rows_of('digits')")
    found = rewritten(tmp_path, "main.py", main=main, kinds=KINDS.format(picked=picked))
    block = "with accelerator.main_process_first():\n    rows = rows_of('digits')\n"
    assert found["main.py"].after.decode().count(block) == blocks


STORE = """\
class Rows:
    def __init__(self, cache):
        if not Path(cache).exists():
            self.fill(cache)
        self.store = lmdb.open(cache, readonly=True)

    def fill(self, cache):
        with lmdb.open(cache, {room}) as store:
            with store.begin(write=True) as rows:
                rows.put(b'1', b'2')


rows = Rows('.rows')"""


@pytest.mark.parametrize("room", ["map_size=10 ** 9", "10 ** 9, subdir=False"])
def test_a_store_that_is_filled_where_it_is_missing(room: str) -> None:
    text = script(imports="from pathlib import Path\nimport lmdb", before=STORE.format(room=room))
    assert "with accelerator.main_process_first():\n    rows = Rows('.rows')" in run(text).after.decode()


def test_a_store_that_is_only_read_is_opened_by_every_process() -> None:
    text = script(imports="from pathlib import Path\nimport lmdb", before=STORE.format(room="readonly=True"))
    result = run(text)
    assert "main_process_first" not in result.after.decode()
    assert not any("every process writes" in n.message for n in result.notes)
