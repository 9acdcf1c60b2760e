"""What a script means over many processes: kept, told in a note, or the script is declined; never silently changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options
from tests import scripts
from tests.codemod.pairs import run, script


def told(result: FileResult, *words: str) -> bool:
    """Whether the script is declined, or a note says so."""
    return result.status is Status.DECLINED or any(any(w in n.message for w in words) for n in result.notes)


def is_decided_by_one(result: FileResult) -> bool:
    """Whether all processes decide as one does."""
    return any("decide as process 0 does" in change.reason for change in result.changes)


# Every process takes the same steps.


@pytest.mark.parametrize(
    "skip",
    [
        "if (y > 0).sum() == 0:\n    continue",
        "if model(x).abs().max() > 5:\n    continue",
        "if model(x).mean().item() > 5:\n    break",
    ],
)
def test_a_step_that_depends_on_the_batch_is_taken_by_all_or_none(skip: str) -> None:
    result = run(script(batch=skip))
    assert told(result, "leave out a step where the batch of one of them") or is_decided_by_one(result)


def test_a_backward_that_depends_on_the_loss_is_decided_by_one() -> None:
    assert is_decided_by_one(run(script(backward="if loss.item() > 0.1:\n    loss.backward()")))


@pytest.mark.parametrize(
    "condition", ["if epoch > 5:\n    break", "if len(loader) > 100:\n    continue", "if use_cuda:\n    continue"]
)
def test_a_step_that_depends_on_what_all_processes_share_is_fine(condition: str) -> None:
    result = run(script(batch=condition))
    assert result.status is Status.MIGRATED
    assert not told(result, "number of steps", "wait for each other")


def test_a_progress_bar_in_a_with_statement_shows_a_prepared_loader() -> None:
    text = script(imports="from tqdm import tqdm")
    shown = text.replace("    for x, y in loader:\n", "    with tqdm(loader) as bar:\n     for x, y in bar:\n")
    after = run(shown).after.decode()
    assert "\nloader, model, optimizer = accelerator.prepare(loader, model, optimizer)\n" in after
    assert "bar = " not in after


# Metrics.

EVALUATE = """\
def accuracy(data):
    right = 0
    for x, y in data:
        right += (model(x).argmax(1) == y).sum().item()
    return right / len(data.dataset)
"""


VALID = "valid = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8)))"


def test_a_loader_that_only_evaluates_is_not_prepared() -> None:
    sharded = run(script(before=VALID, prepared=EVALUATE, end="accuracy(valid)"))
    assert f"{VALID}\n" in sharded.after.decode()
    assert "accelerator.shard(data, even=False)" in sharded.after.decode()
    whole = run(
        script(before=VALID, prepared=EVALUATE.replace("return right", "return x, right"), end="accuracy(valid)")
    )
    assert f"{VALID}\n" in whole.after.decode()
    assert "    for x, y in data:\n" in whole.after.decode()
    assert not told(whole, "shard only")


def test_a_loader_that_trains_and_evaluates_is_told_where_its_batches_are_counted() -> None:
    both = "accuracy(loader)\naccuracy(valid)"
    result = run(script(before=VALID, prepared=EVALUATE, end=both))
    assert "accelerator.shard(data, even=False)" in result.after.decode()
    assert not told(result, "shard only", "shard of")
    result = run(script(before=VALID, prepared=EVALUATE.replace("len(data.dataset)", "len(data)"), end=both))
    assert told(result, "shard only", "shard of")


CUT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
def collate(rows):
    return [torch.stack(rows[i * 2 : i * 2 + 2]) for i in range(len(rows) // 2)]
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.randn(64, 4), batch_size=4, collate_fn=collate)
for epoch in range(2):
    for groups in loader:
        for group in groups:
            optimizer.zero_grad()
            model(group).mean().backward()
            optimizer.step()
"""


def test_a_loop_whose_rounds_are_sharded_evaluates_nothing() -> None:
    result = run(CUT)
    assert "in accelerator.shard(groups)" in result.after.decode()
    assert not told(result, "is not sharded")


def test_a_loader_that_trains_and_is_then_gone_over_is_reduced() -> None:
    after = run(script(prepared=EVALUATE, end="accuracy(loader)")).after.decode()
    assert '    right = accelerator.reduce(right, "sum")\n    return right / len(data.dataset)' in after


def test_a_list_of_phases_prepares_the_loader_that_trains() -> None:
    text = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)))
valid = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for phase, data in [("train", loader), ("valid", valid)]:
    total = 0
    for x, y in data:
        loss = nn.functional.mse_loss(model(x), y)
        if phase == "train":
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item()
    print(phase, total / len(data))
"""
    result = run(text)
    after = result.after.decode()
    assert "\nloader, model, optimizer = accelerator.prepare(loader, model, optimizer)\n" in after
    assert '    total = accelerator.reduce(total, "mean" if phase == "train" else "sum")\n    print(phase' in after
    assert '    for x, y in data if phase == "train" else accelerator.shard(data, even=False):\n' in after


def test_a_sum_that_goes_on_through_the_epochs_is_reported() -> None:
    text = script(prepared="total = 0", end="print(total / len(loader.dataset))")
    text = text.replace(
        "        optimizer.step()\n", "        optimizer.step()\n        total += loss.item()\n    print(total)\n"
    )
    assert told(run(text), "shard only")


# Data without a loader.

NO_LOADER = """\
import torch
from torch import nn

data = torch.randn(40, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in {steps}:
    loss = model(data[{index}]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{end}
"""


def test_slices_are_dealt_out() -> None:
    result = run(NO_LOADER.format(steps="range(0, 40, 8)", index="i:i + 8", end=""))
    assert "for i in accelerator.shard(range(0, 40, 8)):" in result.after.decode()
    assert told(result, "learns from N items")


def test_a_full_batch_is_reported() -> None:
    result = run(NO_LOADER.format(steps="range(10)", index=":", end=""))
    assert "shard" not in result.after.decode()
    assert told(result, "every process has the same data")


def test_a_counter_that_decides_is_not_dealt_out_silently() -> None:
    end = "    if i % 16 == 8:\n        torch.save(model.state_dict(), 'model.pt')\n"
    result = run(NO_LOADER.format(steps="range(0, 40, 8)", index="i:i + 8", end=end))
    assert told(result, "`i`", "counter") or "accelerator.shard(range(" not in result.after.decode()


# Devices.


def test_a_choice_of_device_that_is_gone_is_reported() -> None:
    parser = """\
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda")
        args = parser.parse_args()
        """
    result = run(
        script(before=parser, model="model.to(args.device)", batch="x, y = x.to(args.device), y.to(args.device)")
    )
    assert told(result, "args.device", "--device")


@pytest.mark.parametrize("line", ["torch.cuda.set_device(0)", "os.environ['CUDA_VISIBLE_DEVICES'] = '0'"])
def test_a_gpu_that_is_set_by_hand_is_removed_or_told(line: str) -> None:
    result = run(script(imports="import os", before=line, end="print(os)"))
    assert line not in result.after.decode() or told(result, "GPU")


def test_a_device_chosen_in_a_file_without_a_loop_follows(tmp_path: Path) -> None:
    results, after = scripts.rewrite(
        tmp_path, scripts.read(scripts.FIXTURES / "scripts" / "trainer_with_a_base", "before")
    )
    notes = [note for result in results if result.path == "base.py" for note in result.notes]
    if b"cuda:0" in after["base.py"] and not notes:
        pytest.xfail("base.py keeps `torch.device('cuda:0')`: every process moves the model there, and no note says so")
    assert b"cuda:0" not in after["base.py"] or notes


# Files.


def test_a_folder_is_made_once() -> None:
    result = run(script(imports="import os", before="os.makedirs('out')"))
    after = result.after.decode()
    assert "os.makedirs('out', exist_ok=True)" in after or "is_main_process" in after or told(result, "os.makedirs")


def test_a_checkpoint_is_saved_once_and_read_when_it_is_there() -> None:
    result = run(script(end="torch.save(model.state_dict(), 'a.pt')\nmodel.load_state_dict(torch.load('a.pt'))"))
    after = result.after.decode()
    assert "accelerator.save(model.state_dict(), 'a.pt')\naccelerator.wait_for_everyone()\n" in after


# Where the accelerator lives.


def test_a_step_behind_partial_is_followed_or_declined() -> None:
    text = """\
from functools import partial
import torch
from torch import nn
from torch.utils.data import DataLoader


def step(model, optimizer, batch):
    loss = model(batch).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


loader = DataLoader(torch.randn(8, 4))
model = nn.Linear(4, 1)
run = partial(step, model, torch.optim.SGD(model.parameters(), lr=0.1))
for batch in loader:
    run(batch)
"""
    result = run(text)
    assert result.status is Status.DECLINED or "\naccelerator = Accelerator()\n" in result.after.decode()


def test_globals_that_a_function_fills_are_prepared_there() -> None:
    text = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

model = None
optimizer = None


def setup():
    global model, optimizer
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x):
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


if __name__ == "__main__":
    setup()
    for x in DataLoader(torch.randn(8, 4)):
        step(x)
"""
    assert "model = None\noptimizer = None\n\n" in run(text).after.decode()


# Losses.

LOSS = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss({criterion})


def loss_of(out, y):
    return {function}


for x, y in loader:
    optimizer.zero_grad()
    out = model(x)
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
SUMS = [
    {"loss": "criterion(out, y)", "criterion": "reduction='sum'"},
    {"loss": "criterion(out, y) / 2", "criterion": "size_average=False"},
    {"loss": "F.mse_loss(out, y, reduction='sum')"},
    {"loss": "((out - y) ** 2).sum()"},
    {"loss": "F.l1_loss(out, y, reduction='sum') - 0.5 * torch.sum(out ** 2)"},
    {"loss": "loss_of(out, y)", "function": "F.l1_loss(out, y, reduction='sum')"},
]
MEANS = [
    {"loss": "criterion(out, y)"},
    {"loss": "F.mse_loss(out, y)"},
    {"loss": "((out - y) ** 2).sum() / len(x)"},
    {"loss": "((out - y) ** 2).sum(1).mean()"},
    {"loss": "loss_of(out, y)", "function": "F.l1_loss(out, y)"},
]


@pytest.mark.parametrize("parts", SUMS)
def test_a_loss_that_is_a_sum_is_reported(parts: dict[str, str]) -> None:
    text = LOSS.format(**{"criterion": "", "function": "None", **parts})
    assert told(run(text), "as large as for one batch")
    assert told(run(text, Options(keep_global_batch=True)), "1/N of the gradient")


@pytest.mark.parametrize(
    ("loss", "term"),
    [
        ("F.mse_loss(out, y) - 0.5 * torch.sum(out ** 2)", "(`0.5 * torch.sum(out ** 2)`)"),
        ("2 * loss_of(out, y) + out.mean() + (out ** 2).mean()", "(`2 * loss_of(out, y)`)"),
        ("criterion(out, y)\n    loss += torch.sum(out ** 2)", "(`loss`)"),
    ],
)
def test_a_sum_that_is_added_to_means_is_reported_where_batches_are_divided(loss: str, term: str) -> None:
    text = LOSS.format(criterion="", function="F.l1_loss(out, y, reduction='sum')", loss=loss)
    assert not told(run(text), "num_processes`")
    assert told(run(text, Options(keep_global_batch=True)), f"a sum over the batch is added to means here {term}")


@pytest.mark.parametrize(
    "parts",
    [
        {"loss": "F.mse_loss(out, y) / len(x)"},
        {"loss": "loss_of(out, y)", "function": "((out - y) ** 2).mean() / out.size(0)"},
    ],
)
def test_a_mean_that_is_divided_by_its_rows_is_reported_where_batches_are(parts: dict[str, str]) -> None:
    text = LOSS.format(**{"criterion": "", "function": "None", **parts})
    assert not told(run(text), "gradient")
    assert told(run(text, Options(keep_global_batch=True)), "N times the gradient")


@pytest.mark.parametrize("parts", MEANS)
def test_a_loss_that_is_a_mean_is_not(parts: dict[str, str]) -> None:
    assert not told(run(LOSS.format(**{"criterion": "", "function": "None", **parts})), "a sum over the batch")


# Options that choose the device.

OPTION = """\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("--cuda", action="store_true")
    {parse}
    {device}
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    print(args)


main()
"""
PARSE = "args = parser.parse_args()"
CHOICES = {
    'device = torch.device("cuda" if not args.no_cuda and torch.cuda.is_available() else "cpu")': "cpu=args.no_cuda",
    'device = torch.device("cuda") if args.cuda else torch.device("cpu")': "cpu=not args.cuda",
    'use = torch.cuda.is_available() and not args.no_cuda\n    device = "cuda:0" if use else "cpu"': "cpu=args.no_cuda",
    'args.gpu = args.cuda and torch.cuda.is_available()\n    device = "cuda" if args.gpu else "cpu"': (
        "cpu=not args.cuda"
    ),
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")': "",
}


@pytest.mark.parametrize("device", CHOICES)
def test_an_option_that_keeps_a_script_on_the_cpu_keeps_it_there(device: str) -> None:
    result = run(OPTION.format(parse=PARSE, device=device))
    assert f"    accelerator = Accelerator({CHOICES[device]})\n" in result.after.decode()
    assert not told(result, "no longer selects")


@pytest.mark.parametrize("parse", [f"start = nn.Linear(1, 1)\n    {PARSE}", f"noise = torch.randn(4)\n    {PARSE}"])
def test_an_option_that_is_known_too_late_is_reported(parse: str) -> None:
    result = run(OPTION.format(parse=parse, device=next(iter(CHOICES))))
    assert "    accelerator = Accelerator()\n" in result.after.decode()
    assert told(result, "no longer selects")
