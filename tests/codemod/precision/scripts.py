"""Training scripts in mixed precision, in a few lines."""

from __future__ import annotations

from accelify.codemod.precision.precision import Precision
from accelify.codemod.precision.switches import Switches
from accelify.codemod.preparing.settings import Settings
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import training

SCALED = """\
with torch.autocast("cuda", enabled=use_amp):
    loss = nn.functional.mse_loss(model(x), y)
optimizer.zero_grad()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
"""


def scaled(step: str = SCALED, set_up: str = "scaler = torch.amp.GradScaler(enabled=use_amp)\n", **slots: str) -> Facts:
    """A script that scales its losses; `use_amp` is one of its settings."""
    before = slots.pop("before", "use_amp = True\n")
    return training(step=step, set_up=set_up, before=before, **slots)


def settings(facts: Facts) -> Settings:
    script = facts.script
    return Settings(script.program, script.roles, script.tracer, script.reach)


def switches(facts: Facts) -> Switches:
    found = Switches(facts.program, settings(facts), [], lambda node: node in facts.script.training.backwards)
    found.scalers = [c for c in facts.program.calls if any("GradScaler" in n for n in facts.program.called(c))]
    return found


def precision(facts: Facts) -> Precision:
    """The mixed precision that a script arranges."""
    found = facts.script.precision
    assert found is not None
    return found
