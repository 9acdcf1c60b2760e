"""What meets on one device in the plain script meets on one in the rewritten script, too."""

from __future__ import annotations

from textwrap import dedent

import pytest

from accelify.codemod.devices.destinations import Where
from accelify.codemod.devices.lattice import BATCH, Place
from accelify.codemod.devices.mismatches import Operand
from tests.codemod.pairs import changed, migrated, run, script

MOVED = "x, y = x.to(device), y.to(device)"
PREDICTED = "guess = model(x).cpu()"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("right = guess == y", "right = guess == y.cpu()"),
        ("right = guess.eq(y).sum()", "right = guess.eq(y.cpu()).sum()"),
        ("error = nn.functional.l1_loss(guess, y)", "error = nn.functional.l1_loss(guess, y.cpu())"),
        ("error = (guess - y).abs().mean()", "error = (guess - y.cpu()).abs().mean()"),
        ("both = torch.cat([guess, y])", "both = torch.cat([guess, y.cpu()])"),
        ("noisy = y + torch.randn(y.shape)", "noisy = y.cpu() + torch.randn(y.shape)"),
        ("w = weights[y.long()]", "w = weights[y.long().cpu()]"),
        ("weights += y.sum(0)", "weights += y.sum(0).cpu()"),
        ("error = distance(guess, y)", "error = distance(guess, y.cpu())"),
    ],
)
def test_a_batch_that_the_script_kept_in_the_hosts_memory_is_read_there(old: str, new: str) -> None:
    before = "weights = torch.ones(3)\ndef distance(a, b):\n    return torch.dist(a, b) + (a - b).norm()"
    changed(f"-{old}", f"+{new}", before=before, batch=f"{PREDICTED}\n{old}")


@pytest.mark.parametrize(
    "kept",
    [
        "right = model(x) == y",
        "right = guess == y.cpu()",
        "right = model(x).cpu() == y.to('cpu')",
        "total = weights.to(device) + y.sum()",
        "scaled = model(x) * torch.tensor(0.5)",
        "shown = guess.numpy(), guess + 1, y.size(0) + weights",
    ],
)
def test_what_is_on_one_device_already_is_left(kept: str) -> None:
    moved = ["-x, y = x.to(device), y.to(device)"]
    changed(*moved, before="weights = torch.ones(1)", batch=f"{MOVED}\n{PREDICTED}\n{kept}")


def test_a_batch_that_is_changed_in_place_is_not_copied_for_it() -> None:
    after = migrated(script(before="mean = torch.zeros(4)", batch="x.sub_(mean)"))
    assert "x.sub_(mean)" in after
    assert "mean = torch.zeros(4, device=accelerator.device)\n" in after


def test_a_batch_that_came_back_goes_to_the_device_again() -> None:
    before = "mean = torch.zeros(4)"
    after = migrated(script(before=before, batch="x = x.sub(mean)\nx = x.to(device)"))
    assert "        x = x.cpu().sub(mean)\n        x = x.to(device)\n" in after


def test_parts_of_a_batch_are_tensors_where_they_are_used_as_such() -> None:
    old = "print((model(pair[0]).cpu() == pair[1]).sum())"
    batch = f"pair = (x, y)\npair[1].to(device)\n{old}"
    assert "model(pair[0]).cpu() == pair[1].cpu()" in migrated(script(batch=batch))


# An option that is read after the first random number cannot keep the accelerator on the CPU.
LATE = {"imports": "from options import parse", "model": "if args.gpu:\n    model.cuda()"}
OPTION = "start = torch.randn(1)\nargs = parse()\n"
FLAGGED = "if args.gpu:\n    x, y = x.cuda(), y.cuda()\n"


@pytest.mark.parametrize(
    "weight",
    [
        "weight = torch.ones(1)\nif args.gpu:\n    weight = weight.cuda()",
        "weight = torch.ones(1).cuda() if args.gpu else torch.ones(1)",
        "weight = torch.ones(1)\non_gpu = args.gpu and use_cuda\nif on_gpu:\n    weight = weight.cuda()",
    ],
)
def test_a_tensor_that_an_option_moved_follows_the_models(weight: str) -> None:
    after = migrated(script(**LATE, before=OPTION + weight, batch=f"{FLAGGED}x = x * weight"))
    made = next(line for line in after.splitlines() if line.startswith("weight = torch.ones"))
    assert made.endswith("torch.ones(1).to(accelerator.device)") or "torch.ones(1, device=accelerator.device)" in made


def test_a_tensor_that_an_option_moved_stays_where_the_option_still_decides() -> None:
    weight = "weight = torch.ones(1)\nif args.gpu:\n    weight = weight.cuda()"
    given = {"imports": "from options import args", "model": LATE["model"]}
    text = script(**given, before=weight, batch=f"{FLAGGED}x = x * weight")
    after = migrated(text.replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")', "None"))
    assert "accelerator = Accelerator(cpu=not args.gpu)\n" in after
    assert "weight = torch.ones(1)\n" in after


@pytest.mark.parametrize("test", ["torch.cuda.is_available()", "use_cuda", "device.type == 'cuda'"])
def test_a_tensor_that_goes_to_the_gpu_where_there_is_one_is_left(test: str) -> None:
    weight = f"weight = torch.ones(1)\nif {test}:\n    weight = weight.cuda()"
    after = migrated(script(before=weight, batch=f"{MOVED}\nx = x * weight"))
    assert "weight = torch.ones(1)\n" in after


def test_the_gradient_of_a_backward_pass_is_where_its_loss_is() -> None:
    one = "one = torch.ones(())\nif args.gpu:\n    one = one.cuda()"
    after = migrated(script(**LATE, before=OPTION + one, batch=FLAGGED, backward="loss.backward(one)"))
    assert "one = torch.ones((), device=accelerator.device)\n" in after


def test_labels_that_were_collected_in_the_hosts_memory_are_compared_there() -> None:
    text = """\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,))), batch_size=2)
        model = nn.Linear(4, 2).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        guesses, labels = [], []
        for x, y in loader:
            out = model(x.to(device))
            loss = nn.functional.cross_entropy(out, y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            guesses.append(out.argmax(1).cpu())
            labels.append(y)
        print((torch.cat(guesses) == torch.cat(labels)).float().mean())
        """
    assert "torch.cat(guesses) == torch.cat(labels).cpu()" in run(dedent(text)).after.decode()


def test_what_is_known_of_an_operand() -> None:
    batch = Operand(tuple((place, None) for place in BATCH))
    assert batch.is_own_batch
    assert batch.is_now(Where.ACCELERATOR)
    assert batch.was(Where.HOST)
    assert not Operand(((Place(Where.ACCELERATOR, Where.ACCELERATOR), None),)).is_own_batch
