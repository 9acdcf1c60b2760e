"""When a script that names a GPU keeps its own moves: what has come there now need not meet all its like."""

from __future__ import annotations

import pytest

from tests.codemod.pairs import run

KEPT = "Accelerator(device_placement=False)"
SCRIPT = """\
import argparse
import torch
import vendor
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

{before}
loader = DataLoader(TensorDataset(torch.rand(48, 2), torch.rand(48, 2)), batch_size=8)
model = nn.Linear(2, 2){move}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    {batch}
    optimizer.zero_grad()
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
{after}
"""
DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
MOVED = "x, y = x.to(device), y.to(device)"
NOISE = "vendor.noise(x.size())"


def rewritten(before: str = DEVICE, move: str = ".to(device)", batch: str = MOVED, after: str = "") -> str:
    return run(SCRIPT.format(before=before, move=move, batch=batch, after=after)).after.decode()


@pytest.mark.parametrize(
    "batch",
    [
        f"x = x + {NOISE}\n    {MOVED}",
        f"noise = {NOISE}\n    x = (x * 255 + noise) / 256\n    {MOVED}",
        f"x = spread(x)\n    {MOVED}",
    ],
)
def test_a_batch_meets_what_may_be_anywhere_before_the_script_moves_it(batch: str) -> None:
    spread = f"def spread(x):\n    noise = {NOISE}\n    return x + noise"
    assert KEPT in rewritten(before=f"{DEVICE}\n{spread}", batch=batch)


@pytest.mark.parametrize("batch", [MOVED, f"{MOVED}\n    x = x + {NOISE}.to(device)", f"{MOVED}\n    x = x * 2 + 1"])
def test_where_the_script_moves_its_batches_first_nothing_changes(batch: str) -> None:
    assert KEPT not in rewritten(batch=batch)


def test_an_option_that_the_accelerator_asks_decides_for_all() -> None:
    options = "parser = argparse.ArgumentParser()"
    options += '\nparser.add_argument("--device", default="cuda")\nargs = parser.parse_args()'
    after = rewritten(before=options, move=".to(args.device)", batch="x, y = x.to(args.device), y.to(args.device)")
    assert 'Accelerator(cpu=args.device.startswith("cpu"))' in after


@pytest.mark.parametrize(
    "joined", ["torch.cat((seen, y))", "torch.cat([seen, y], dim=0)", "torch.cat(tensors=(seen, y))"]
)
def test_a_function_that_gets_two_loaders_may_join_what_has_come_with_what_has_not(joined: str) -> None:
    score = f"def score(held):\n    seen = torch.Tensor()\n    for x, y in held:\n        seen = {joined}\n"
    plain = "score(DataLoader(TensorDataset(torch.rand(8, 2), torch.rand(8, 2)), batch_size=8))"
    after = f"{score}        y = model(x.to(device)) - y.to(device)\n    return seen\nscore(loader)\n"
    assert KEPT in rewritten(after=after + plain)


WEIGHTS = "torch.ones(8, 2)"
UNUSED = "def place(model, device):\n    model.to(device)\n    return model"


@pytest.mark.parametrize(
    ("before", "batch", "after"),
    [
        (DEVICE, f"{MOVED}\n    y = y + {WEIGHTS}.to(next(model.parameters()).device)", ""),
        (
            f"{DEVICE}\ndef beside(x, y):\n    if x.device != y.device:\n        y = y.to(x.device)\n    return x + y",
            f"{MOVED}\n    y = beside(x, y)",
            "print(beside(torch.ones(2).to(device), torch.ones(2)))",
        ),
        (f"{DEVICE}\n{UNUSED}", MOVED, ""),
    ],
)
def test_moves_to_where_another_tensor_is_and_moves_that_nothing_runs_mix_nothing(
    before: str, batch: str, after: str
) -> None:
    text = SCRIPT.format(before=before, move=".to(device)", batch=batch, after=after)
    result = run(text)
    assert "accelerator = Accelerator()\n" in result.after.decode()
    assert not any("is set elsewhere" in note.message for note in result.notes)


def test_a_move_of_a_function_that_others_may_call_is_reported() -> None:
    text = SCRIPT.format(before=f"{DEVICE}\n{UNUSED}\nvendor.add(place)", move=".to(device)", batch=MOVED, after="")
    assert any("is set elsewhere" in note.message for note in run(text).notes)
