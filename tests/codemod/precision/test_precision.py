"""Facts about mixed precision by `torch.amp`: which it is, and why it stays by hand."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.precision.precision import Precision
from tests.codemod.facts import texts
from tests.codemod.precision.scripts import SCALED, precision, scaled
from tests.codemod.training_scripts import training


def test_a_script_in_one_precision_has_none() -> None:
    assert training().script.precision is None


def test_the_common_whole_is_taken_over() -> None:
    found = precision(scaled())
    assert isinstance(found, Precision)
    assert found.is_taken_over, found.stays
    assert "fp16" in found.code
    assert texts(found.scalers) == ["torch.amp.GradScaler(enabled=use_amp)"]
    assert len(found.autocasts) == 1
    assert {u.func.attr for u in found.uses} == {"scale", "step", "update"}  # type: ignore[attr-defined]


def test_bfloat16_needs_no_scaler() -> None:
    step = SCALED.replace('"cuda", enabled=use_amp', '"cuda", dtype=torch.bfloat16').replace(
        "scaler.scale(loss)", "loss"
    )
    step = step.replace("scaler.step(optimizer)\nscaler.update()", "optimizer.step()")
    found = precision(scaled(step, ""))
    assert found.is_taken_over, found.stays
    assert '"bf16"' in found.code


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scaler.scale(loss).backward()", "total = scaler.scale(loss)\ntotal.backward()"),
        ("scaler.step(optimizer)", "got = scaler.step(optimizer)"),
        ("scaler.update()", "scaler.update(2.0)"),
        ("scaler.update()", "scaler.update()\nprint(scaler.get_scale())"),
        ("scaler.update()", "scaler.update()\nother(scaler)"),
        ("enabled=use_amp", "enabled=x.is_cuda"),
        ("enabled=use_amp", "enabled=False or other_setting()"),
    ],
)
def test_what_is_not_understood_stays(old: str, new: str) -> None:
    found = precision(scaled(SCALED.replace(old, new)))
    assert not found.is_taken_over
    assert found.stays is not None
    assert found.stays[1]


@pytest.mark.parametrize("scaled_by", ["given.scale(loss).backward()", "total = given.scale(loss)\ntotal.backward()"])
@pytest.mark.parametrize("made", ["from far import given", "given = make()", "given = other.scaler"])
def test_a_scaler_of_unknown_make_stays(scaled_by: str, made: str) -> None:
    step = SCALED.replace("scaler.scale(loss).backward()", scaled_by).replace("scaler.", "given.")
    found = precision(scaled(step, made))
    assert not found.is_taken_over
    assert found.stays is not None
    assert "`given.scale`" in found.stays[1]


def test_two_scalers_stay() -> None:
    found = precision(scaled(set_up="scaler = torch.amp.GradScaler()\nother = torch.amp.GradScaler()\n"))
    assert not found.is_taken_over


def test_a_scaler_without_autocast_stays() -> None:
    step = SCALED.replace('with torch.autocast("cuda", enabled=use_amp):\n    loss', "loss")
    assert not precision(scaled(step)).is_taken_over


def test_a_condition_whose_branches_differ_in_the_precision_alone() -> None:
    step = """\
optimizer.zero_grad()
if use_amp:
    with torch.autocast("cuda"):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
else:
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""
    found = precision(scaled(step, "scaler = torch.amp.GradScaler()\n"))
    assert found.is_taken_over, found.stays
    assert {ast.unparse(n.test): mixed for n, mixed in found.choices.items()} == {"use_amp": True}


CODE = """\
class Code(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(4))
    def forward(self, x):
        return x * self.scale
encode = Code()
def show(model, encode, x):
    return model(encode(x))
"""


@pytest.mark.parametrize(
    ("shown", "found"),
    [("print(show(model, encode, x))", ["model(encode(x))"]), ("print(model(x))", ["model(x)"]), ("encode(x)", [])],
)
def test_only_what_is_prepared_computes_in_another_precision_elsewhere(shown: str, found: list[str]) -> None:
    before = f"use_amp = True\n{CODE}"
    facts = scaled(SCALED.replace("model(x)", "model(encode(x))"), before=before, end=shown)
    assert texts(precision(facts).beside) == found


@pytest.mark.parametrize(
    "uses",
    [
        "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)",
        "for p in model.parameters(): p.grad.mul_(0.5)",
    ],
)
def test_gradients_that_are_used_without_a_scaler_are_not_scaled(uses: str) -> None:
    step = SCALED.replace("scaler.scale(loss)", "loss").replace(
        "scaler.step(optimizer)\nscaler.update()", "optimizer.step()"
    )
    unscaled = precision(scaled(step, ""))
    assert unscaled.is_taken_over, unscaled.stays
    found = precision(scaled(step.replace("optimizer.step()", f"{uses}\noptimizer.step()"), ""))
    assert found.stays is not None
    assert "without scaling" in found.stays[1]
