"""Facts about what becomes of the tensors that a loader yields, and of the script's own moves of them."""

from __future__ import annotations

import pytest

from accelify.codemod.preparing.batch_objects import Batch, Batches
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated
from tests.codemod.training_scripts import STEP, training

IMPORTS = """\
import dataclasses
from collections import namedtuple
from dataclasses import dataclass
import torch
from torch.utils.data import DataLoader
from torch_geometric.loader import DataLoader as GraphLoader
from torchtext.data import BucketIterator
from elsewhere import Base, collate, settings
"""
OBJECT = "class Rows:\n    def __init__(self, rows):\n        self.x = torch.stack(rows)\n"
MOVING = f"{OBJECT}    def to(self, device):\n        return self\n"
LOADER = "loader = DataLoader(rows, batch_size=2, collate_fn={})"


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("loader = DataLoader(rows, batch_size=2)", Batch.MOVED),
        ("loader = DataLoader(rows, 2, True, collate_fn=None)", Batch.MOVED),
        ("loader = DataLoader(rows, batch_size=None)", Batch.UNKNOWN),
        ("loader = DataLoader(rows, **settings)", Batch.UNKNOWN),
        ("loader = GraphLoader(rows, batch_size=2)", Batch.MOVED),
        ("loader = BucketIterator(rows, batch_size=2)", Batch.UNKNOWN),
        (LOADER.format("collate"), Batch.UNKNOWN),
        (OBJECT + LOADER.format("Rows"), Batch.LEFT),
        (f"{OBJECT}loader = DataLoader(rows, 2, True, None, None, 0, Rows)", Batch.LEFT),
        (OBJECT + LOADER.format("lambda rows: Rows(rows)"), Batch.LEFT),
        (f"{OBJECT}def pack(rows):\n    batch = Rows(rows)\n    return batch\n" + LOADER.format("pack"), Batch.LEFT),
        (f"{OBJECT}def pack(rows):\n    return Rows(rows), 1\n" + LOADER.format("pack"), Batch.UNKNOWN),
        (MOVING + LOADER.format("Rows"), Batch.MOVED),
        (f"class Rows(Base):\n    pass\n{LOADER.format('Rows')}", Batch.UNKNOWN),
        (f"class Rows(dict):\n    pass\n{LOADER.format('Rows')}", Batch.MOVED),
        (f"@dataclass\nclass Rows:\n    x: object\n{LOADER.format('lambda rows: Rows(rows)')}", Batch.MOVED),
        (f"@dataclasses.dataclass(frozen=True)\nclass Rows:\n    x: object\n{LOADER.format('Rows')}", Batch.MOVED),
        ("class Pack:\n    def __call__(self, rows):\n        return torch.stack(rows), {'n': torch.ones(1)}\n"
         + LOADER.format("Pack()"), Batch.MOVED),
    ],
)  # fmt: skip
def test_what_becomes_of_a_batch(text: str, becomes: Batch) -> None:
    facts = Facts(f"{IMPORTS}{text}\nuse(loader)\n")
    (loader,) = facts.program.values(facts.call("use(").args[0])
    assert Batches(facts.program).of(loader) is becomes


@pytest.mark.parametrize(
    ("loader", "part", "is_left"),
    [
        ("DataLoader(rows, collate_fn=Rows)", "x.text", True),
        ("DataLoader(rows, collate_fn=Rows)", "x", True),
        ("DataLoader(rows, collate_fn=elsewhere)", "x.text", True),
        ("DataLoader(rows, collate_fn=elsewhere)", "x['text'].lengths[0]", True),
        ("DataLoader(rows, collate_fn=elsewhere)", "x", False),
        ("DataLoader(rows, collate_fn=elsewhere)", "x['text'].data.float()", False),
        ("DataLoader(rows)", "x.text", False),
    ],
)
def test_parts_of_batches_that_may_be_left(loader: str, part: str, is_left: bool) -> None:
    facts = training(imports=OBJECT, before=f"def elsewhere(rows):\n    return unknown(rows)\nother = {loader}\n",
                     end=f"for x in other:\n    use({part})\n")  # fmt: skip
    node = facts.call("use(").args[0]
    assert facts.script.prepared.may_be_left(node) is is_left


@pytest.mark.parametrize(
    ("moved", "stays"),
    [
        (
            "x, y = batch.x.cuda(), batch.y.cuda()",
            "x, y = batch.x.to(accelerator.device), batch.y.to(accelerator.device)",
        ),
        ("x = batch.x\nx = x.to('cuda')\ny = batch.y.to('cuda')", "x = x.to(accelerator.device)"),
        ("x, y = [t.to(device) for t in (batch.x, batch.y)]", "x, y = [t.to(device) for t in (batch.x, batch.y)]"),
    ],
)
@pytest.mark.parametrize("collate", ["Rows", "lambda rows: Rows(rows)", "elsewhere.collate"])
def test_moves_out_of_an_object_stay(moved: str, stays: str, collate: str) -> None:
    lines = "".join(f"    {line}\n" for line in f"{moved}\n{STEP}".splitlines())
    text = (
        "import elsewhere\nimport torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
        f"{OBJECT}        self.y = self.x\ndevice = torch.device('cuda')\n"
        f"loader = DataLoader([torch.ones(4)] * 8, batch_size=2, collate_fn={collate})\n"
        "model = nn.Linear(4, 1).to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"for batch in loader:\n{lines}"
    )
    assert f"    {stays}\n" in migrated(text)


def test_a_method_of_the_objects_own_is_no_move() -> None:
    text = (
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
        f"{OBJECT}    def cuda(self):\n        self.x = self.x.cuda()\n        return self\n"
        "loader = DataLoader([torch.ones(4)] * 8, batch_size=2, collate_fn=Rows)\n"
        "model = nn.Linear(4, 1).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for batch in loader:\n    batch = batch.cuda()\n    loss = model(batch.x).sum()\n"
        "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    )
    after = migrated(text)
    assert "    batch = batch.cuda()\n" in after
    assert "self.x = self.x.to(accelerator.device)" in after
