"""Which loops train in one phase and evaluate in another, and what they go over then?"""

from __future__ import annotations

from accelify.codemod.training.phase_loaders import with_phases
from accelify.codemod.training.phases import Phases
from tests.codemod.facts import Facts, texts

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def run(loader, training):
    for x in loader:
        loss = model(x).sum()
        if training:
            loss.backward()
            optimizer.step()
train, valid = DataLoader(a), DataLoader(b)
run(train, True)
run(valid, False)
"""


def test_a_loop_is_told_when_it_trains_and_on_what() -> None:
    facts = Facts(SCRIPT)
    before = facts.training
    after = with_phases(facts.program, facts.tracer, before)
    (loop,) = after.phases
    assert not before.phases
    assert [texts(d.sources) for d in after.data] == [["train"]]
    found = Phases(facts.program, facts.tracer).loaders(after.phases[loop])
    assert found is not None
    assert [texts(listed) for listed in found] == [["train"], ["valid"]]
