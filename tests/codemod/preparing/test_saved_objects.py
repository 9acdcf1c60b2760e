"""Of which classes do files hold whole objects? They ask for the accelerator, and do not keep it."""

from __future__ import annotations

import pytest

from accelify.codemod.preparing.saved_objects import saved_whole
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated, run

CLASSES = """
import pickle
import joblib
import torch

class Part:
    def __init__(self):
        self.rate = 3

class Whole:
    def __init__(self):
        self.part, self.other = Part(), Other()

class Other:
    def __getstate__(self):
        return {}

whole, part = Whole(), Part()
"""


@pytest.mark.parametrize(
    ("save", "found"),
    [
        ("torch.save({'whole': whole, 'epoch': 3}, 'x')", {"Whole", "Part"}),
        ("state = [part]\ntorch.save(state, 'x')", {"Part"}),
        ("state = {}\nstate['part'] = part\njoblib.dump(state, 'x')", {"Part"}),
        ("def keep(state):\n    pickle.dump(state, open('x', 'wb'))\nkeep(dict(part=part))", {"Part"}),
        ("torch.save(part.rate, 'x')", set()),
        ("torch.save({'rate': part.rate}, 'x')", set()),
        ("print(whole)", set()),
    ],
)
def test_the_classes_of_saved_objects(save: str, found: set[str]) -> None:
    program = Facts(CLASSES + save).program
    assert {cls.name for classes in saved_whole(program).values() for cls in classes} == found


TRAINING = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Steps:
    def __init__(self, params):
        self.optimizer = torch.optim.SGD(params, lr=0.1)

    def step(self):
        self.optimizer.step()

class Trainer:
    def __init__(self, model, steps):
        self.model, self.steps = model, steps

    def fit(self, loader):
        for x, y in loader:
            loss = nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            self.steps.step()

def main():
    model = nn.Linear(4, 1)
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    steps = Steps(model.parameters())
    trainer = Trainer(model, steps)
    trainer.fit(loader)
    {save}

main()
"""


@pytest.mark.parametrize(
    ("save", "asking"),
    [
        ("torch.save({'model': model, 'steps': steps}, 'last.pt')", {"Steps"}),
        ("torch.save(trainer, 'last.pt')", {"Steps", "Trainer"}),
        ("torch.save(model.state_dict(), 'last.pt')", set()),
    ],
)
def test_what_is_saved_whole_does_not_keep_the_accelerator(save: str, asking: set[str]) -> None:
    reach = Facts(TRAINING.format(save=save)).script.reach
    assert {cls.name for cls in reach.asking} == asking
    after = migrated(TRAINING.format(save=save))
    assert after.count("Accelerator.current()") == len(asking)


ALONE = """
class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x, y in DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2):
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()

trainer = Trainer()
trainer.fit()
"""


@pytest.mark.parametrize(
    ("save", "is_noted"),
    [("torch.save(trainer, 'last.pt')", True), ("torch.save(trainer.model.state_dict(), 'last.pt')", False)],
)
def test_a_note_where_a_saved_object_makes_the_accelerator(save: str, is_noted: bool) -> None:
    head = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n"
    notes = [n.message for n in run(head + ALONE + save).notes if n.rule == "checkpoints"]
    assert any("`Trainer` keeps the accelerator" in note for note in notes) == is_noted
