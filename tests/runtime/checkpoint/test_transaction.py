"""A load that fails changes nothing: no model, optimizer, schedule, loader, registered object or random number."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from accelify.runtime import Accelerator, Environment
from accelify.runtime.checkpoint.checkpoint import CannotLoad


class Average:
    """As a script keeps its weights' average: it loads in place, one tensor after the other."""

    def __init__(self):
        self.parts = [torch.zeros(2), torch.zeros(2)]
        self.refuses = False

    def state_dict(self):
        return {"parts": self.parts}

    def load_state_dict(self, state):
        self.parts[0].copy_(state["parts"][0])
        if self.refuses:
            raise KeyError("shadow")
        self.parts[1].copy_(state["parts"][1])


class Own(nn.Linear):
    """A model that loads its weights by code of its own."""

    refuses = False

    def _load_from_state_dict(self, *arguments):
        super()._load_from_state_dict(*arguments)
        if self.refuses:
            raise RuntimeError("made for another tokenizer")


class Run:
    def __init__(self, width=3, layers=2, second=Own, groups=1):
        torch.manual_seed(0)
        self.accelerator = Accelerator(cpu=True, environment=Environment())
        self.model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)), nn.BatchNorm1d(width))
        self.second, self.average = second(2, 2), Average()
        parameters = list(self.model.parameters())
        given = [{"params": parameters[group::groups]} for group in range(groups)]
        self.optimizer = torch.optim.Adam(given, lr=0.1)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)
        self.loader = DataLoader(range(12), batch_size=2, shuffle=True)
        prepare = self.accelerator.prepare
        *_, self.loader = prepare(self.model, self.second, self.optimizer, self.schedule, self.loader)
        self.accelerator.register_for_checkpointing(self.average)

    def train(self, steps):
        for _, batch in zip(range(steps), self.loader, strict=False):
            width = self.model[0].in_features
            self.accelerator.backward(self.model(torch.randn(len(batch), width)).square().sum())
            self.optimizer.step()
            self.schedule.step()
            self.average.parts[0] += 1
            self.average.parts[1] += 1
            with torch.no_grad():
                self.second.weight += 1
        return self

    def everything(self):
        drawn, state = torch.rand(1).item(), torch.get_rng_state()
        torch.set_rng_state(state)
        objects = (self.model, self.second, self.optimizer, self.schedule, self.average)
        states = copy.deepcopy([one.state_dict() for one in objects])
        return repr([states, self.loader.iteration, drawn])


@pytest.fixture
def folder(tmp_path):
    run = Run().train(3)  # by a name: models are saved that the script has kept
    run.accelerator.save_state(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


CASES = {
    "other shapes": ({"width": 4}, r"model 0 \(Sequential\): 0\.weight has the shape \[4, 4\], and was \[3, 3\]"),
    "a layer too many": ({"layers": 3}, r"model 0 \(Sequential\): the checkpoint has no 3\.weight, "),
    "a layer too few": (
        {"layers": 1},
        r"model 0 \(Sequential\): the checkpoint has no 1\.running.*; it has no 2\.weight, .* and more",
    ),
    "the second model's shapes": ({"second": lambda *_: nn.Linear(5, 2)}, r"model 1 \(Linear\): weight has the shape"),
    "other groups": ({"groups": 2}, r"optimizer 0 \(Adam\): it has groups of \[3, 3\] parameters, and had \[6\]"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_does_not_fit_is_found_before_anything_is_changed(case, folder):
    options, words = CASES[case]
    run = Run(**options).train(1)
    state = torch.get_rng_state()
    before = run.everything()
    torch.set_rng_state(state)
    with pytest.raises(CannotLoad, match=words) as caught:
        run.accelerator.load_state(folder)
    assert str(folder) in str(caught.value)
    assert run.everything() == before


@pytest.mark.parametrize("who", ["average", "second", "schedule", "loader"])
def test_what_fails_on_the_way_is_taken_back(who, folder, monkeypatch):
    run = Run().train(1)
    if who == "schedule":
        monkeypatch.setattr(run.schedule, "load_state_dict", lambda state: vars(run.schedule).clear() or 1 / 0)
    elif who == "loader":
        monkeypatch.setattr("accelify.runtime.data.streams.Streams.load_state", lambda *_: 1 / 0)
    else:
        getattr(run, who).refuses = True
    state = torch.get_rng_state()
    before = run.everything()
    torch.set_rng_state(state)
    with pytest.raises(CannotLoad, match="Nothing was changed"):
        run.accelerator.load_state(folder)
    assert run.everything() == before
    for one in (run.average, run.second):
        one.refuses = False
    monkeypatch.undo()
    loaded = []
    for one in (run, Run()):
        one.accelerator.load_state(folder)
        loaded.append([repr(one.model.state_dict()), *(batch.tolist() for batch in one.loader)])
    assert loaded[0] == loaded[1]


def test_models_of_which_a_part_is_asked_for(folder):
    other = Run(layers=3).train(1)
    other.accelerator._training.optimizers.clear()
    with pytest.raises(CannotLoad, match="1 optimizers, and 0"):
        other.accelerator.load_state(folder, strict=False)
