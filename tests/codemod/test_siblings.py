"""Several scripts that train with classes of one family: they change together, or are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options, rewrite_together
from tests import scripts

TRAINER = """\
import torch
from torch import nn

class Trainer:
    def __init__(self, model, loader=None):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.loader = loader
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self, x, y):
        loss = nn.functional.mse_loss(self.model(x.to(self.device)), y.to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

"""
OWN = """\
class {name}({base}):
    def __init__(self, model, loader=None):
        {parent}model, loader)

"""
SUPER, BY_NAME = "super().__init__(", "Trainer.__init__(self, "
PRETRAIN = """\
    def pretrain(self, loader):
        for x, y in loader:
            self.step(x, y)

"""
FINETUNE = """\
    def train(self):
        for x, y in self.loader:
            self.step(x, y)

"""
SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from {module} import {name}

def main():
    loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=8, shuffle=True)
    trainer = {name}({given})
    for epoch in range(3):
        trainer.{call}

main()
"""
FIRST = SCRIPT.format(module="trainer", name="Pretrainer", given="nn.Linear(4, 1)", call="pretrain(loader)")
SECOND = SCRIPT.format(module="trainer", name="Finetuner", given="nn.Linear(4, 1), loader", call="train()")
PRETRAINER = OWN.format(name="Pretrainer", base="Trainer", parent=SUPER) + PRETRAIN
FINETUNER = OWN.format(name="Finetuner", base="Trainer", parent=SUPER) + FINETUNE


def rewritten(root: Path, *named: str, **texts: str) -> dict[str, FileResult]:
    scripts.write(root, {f"{name}.py": text.encode() for name, text in texts.items()})
    with scripts.inside(root):
        return {r.path: r for r in rewrite_together(tuple(f"{name}.py" for name in named), Options())}


@pytest.mark.parametrize(
    "classes",
    [
        PRETRAINER + FINETUNER,
        PRETRAINER.replace(SUPER, BY_NAME) + FINETUNER.replace(SUPER, BY_NAME),
        PRETRAINER
        + OWN.format(name="Middle", base="Trainer", parent=SUPER)
        + FINETUNER.replace("(Trainer)", "(Middle)"),
        f"class Pretrainer(Trainer):\n{PRETRAIN}{FINETUNER}",
        f"{PRETRAINER}class Finetuner(Trainer):\n{FINETUNE}",
    ],
)
@pytest.mark.parametrize("named", [("first", "second"), ("second", "first"), ("first",)])
def test_scripts_that_make_other_classes_of_a_family(tmp_path: Path, classes: str, named: tuple[str, ...]) -> None:
    found = rewritten(tmp_path, *named, trainer=TRAINER + classes, first=FIRST, second=SECOND)
    assert {path: r.status for path, r in found.items()} == dict.fromkeys(
        ("trainer.py", "first.py", "second.py"), Status.MIGRATED
    )
    for script in ("first.py", "second.py"):
        assert b"def main():\n    accelerator = Accelerator()\n" in found[script].after
        assert b"accelerator=accelerator)\n" in found[script].after


def test_a_class_of_the_family_that_only_a_file_of_its_own_holds(tmp_path: Path) -> None:
    own = f"from trainer import Trainer\n\n{FINETUNER}"
    second = SECOND.replace("from trainer", "from own")
    found = rewritten(tmp_path, "first", "second", trainer=TRAINER + PRETRAINER, own=own, first=FIRST, second=second)
    assert {r.status for r in found.values()} == {Status.MIGRATED}
    assert b"super().__init__(model, loader, accelerator=accelerator)" in found["own.py"].after


FOREIGN = "import accelerate\n{imports}\nprint(accelerate.Accelerator())\n{made}(None).train()\n"


@pytest.mark.parametrize(
    ("imports", "made", "named"),
    [
        ("from trainer import Finetuner", "Finetuner", "Finetuner"),
        ("import trainer as t", "t.Finetuner", "Finetuner"),
        ("from trainer import Trainer\nclass Own(Trainer):\n    def train(self): pass\n", "Own", "Trainer"),
    ],
)
def test_a_script_that_cannot_change_and_makes_an_heir_is_named(
    tmp_path: Path, imports: str, made: str, named: str
) -> None:
    classes = f"class Pretrainer(Trainer):\n{PRETRAIN}class Finetuner(Trainer):\n{FINETUNE}"
    second = FOREIGN.format(imports=imports, made=made)
    found = rewritten(tmp_path, "first", trainer=TRAINER + classes, first=FIRST, second=second)
    assert [(n.line, n.message) for n in found["trainer.py"].notes] == [
        (5, f"second.py calls `{named}` as before: if that trains, migrate it too")
    ]


def test_a_class_that_other_scripts_make_or_inherit_from_keeps_nothing(tmp_path: Path) -> None:
    trainer = TRAINER.replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")', "device")
    trainer = trainer.replace("loader=None", "device").replace("        self.loader = loader\n", "")
    trainer = trainer.replace("        self.optimizer = torch.optim.Adam(self.model.parameters())\n", "")
    trainer = (
        trainer.replace("model.to(self.device)", "model")
        .replace("x, y):", "optimizer, x, y):")
        .replace("self.optimizer", "optimizer")
    )
    fit = "    def fit(self, optimizer, loader):\n        for x, y in loader:\n            self.step(optimizer, x, y)\n"
    first = FIRST.replace("Pretrainer", "Fitter").replace("nn.Linear(4, 1))", 'nn.Linear(4, 1), torch.device("cpu"))')
    first = first.replace("pretrain(loader)", "fit(torch.optim.Adam(trainer.model.parameters()), loader)")
    second = FOREIGN.format(imports="from trainer import Fitter", made="Fitter")
    found = rewritten(tmp_path, "first", trainer=f"{trainer}class Fitter(Trainer):\n{fit}", first=first, second=second)
    assert b"self, model, device):\n" in found["trainer.py"].after
    assert b"self.accelerator" not in found["trainer.py"].after
    (note,) = found["trainer.py"].notes
    assert note.message == "second.py calls `Fitter` as before: if that trains, migrate it too"


def test_data_that_only_another_script_would_give_are_not_called_the_same(tmp_path: Path) -> None:
    classes = f"class Pretrainer(Trainer):\n{PRETRAIN}class Finetuner(Trainer):\n{FINETUNE}"
    found = rewritten(tmp_path, "first", trainer=TRAINER + classes, first=FIRST)
    assert not found["trainer.py"].notes


@pytest.mark.parametrize("named", ["train_a", "train_b"])
def test_the_size_of_a_batch_is_told_in_the_script_that_was_named(tmp_path: Path, named: str) -> None:
    fit = "def fit(model, optimizer, x, y):\n    loss = (model(x) - y).pow(2).mean()\n    optimizer.zero_grad()\n"
    fit += "    loss.backward()\n    optimizer.step()\n"
    data = "from torch.utils.data import DataLoader\ndef make(rows):\n    return DataLoader(rows, batch_size=8)\n"
    text = "import torch\nfrom torch import nn\nfrom data import make\nfrom engine import fit\n"
    text += "rows = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\nloader = make(rows)\n"
    text += "model = nn.Linear(4, 1)\noptimizer = torch.optim.Adam(model.parameters())\n"
    text += "for x, y in loader:\n    fit(model, optimizer, x, y)\n"
    found = rewritten(tmp_path, named, train_a=text, train_b=text, engine=fit, data=data)
    assert {path for path, result in found.items() if any(n.rule == "batch_size" for n in result.notes)} == {
        f"{named}.py"
    }


BASE = """\
import torch

class Trainer:
    def __init__(self, loader):
        self.loader, self.model = loader, self.build()
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def fit(self):
        for x, y in self.loader:
            loss = torch.nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
HEIR = "class Own(Trainer):\n    def build(self):\n        return torch.nn.Linear(4, 1)\n"
ROWS = "torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randn(8, 1))"
OWN_SCRIPT = f"import torch\n{{imports}}\n\n{HEIR}\nOwn(torch.utils.data.DataLoader({ROWS}, batch_size=2)).fit()\n"
FIRST_HEIR = OWN_SCRIPT.format(imports="from trainer import Trainer")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (FIRST_HEIR, "second.py calls `Trainer` as before: if that trains, migrate it too"),
        (
            "import trainer as t\nfor loader in ([], []):\n    t.Trainer(loader).fit()\n",
            "second.py calls `Trainer` as before: if that trains, migrate it too",
        ),
        (
            OWN_SCRIPT.format(imports="import torch.distributed as dist\nfrom trainer import Trainer")
            + "dist.init_process_group('nccl')\n",
            "second.py distributes its training itself: keep a copy of `Trainer` as it was before for that",
        ),
        ("from trainer import Trainer\nprint(Trainer.__name__)\n", None),
    ],
)
def test_heirs_that_other_scripts_train_are_named(tmp_path: Path, second: str, message: str | None) -> None:
    found = rewritten(tmp_path, "first", trainer=BASE, first=FIRST_HEIR, second=second)
    assert found["trainer.py"].status is Status.MIGRATED
    notes = [n.message for n in found["trainer.py"].notes if n.rule == "callers"]
    assert notes == ([message] if message else [])


def test_heirs_that_are_rewritten_together_are_not_named(tmp_path: Path) -> None:
    found = rewritten(tmp_path, "first", "second", trainer=BASE, first=FIRST_HEIR, second=FIRST_HEIR)
    assert not [n for r in found.values() for n in r.notes if n.rule == "callers"]


def test_a_script_that_distributes_itself_is_told_to_keep_what_it_calls(tmp_path: Path) -> None:
    second = FOREIGN.format(
        imports="from torch.distributed import init_process_group\nfrom trainer import Finetuner", made="Finetuner"
    )
    classes = f"class Pretrainer(Trainer):\n{PRETRAIN}class Finetuner(Trainer):\n{FINETUNE}"
    found = rewritten(tmp_path, "first", trainer=TRAINER + classes, first=FIRST, second=second)
    assert [n.message for n in found["trainer.py"].notes if n.rule == "callers"] == [
        "second.py distributes its training itself: keep a copy of `Finetuner` as it was before for that"
    ]
