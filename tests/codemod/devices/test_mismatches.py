"""What meets on one device in the plain script meets on one in the rewritten script, too."""

from __future__ import annotations

from textwrap import dedent

import pytest

from accelify.codemod.devices.destinations import Where
from accelify.codemod.devices.lattice import BATCH, Place
from accelify.codemod.devices.mismatches import Operand
from accelify.codemod.options import ACCELERATE
from accelify.codemod.rewrite import Options
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
    changed(f"-{old}", f"+{new}", before=before, batch=f"{PREDICTED}\n{old}", end="torch.ones(2, device=device)")


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


SIZED = """\
def widened(t, n=2):
    {made}
    return {joined}
"""
OTHERS = "print([widened(b) for _, b in DataLoader(data, batch_size=4)])"  # which nothing prepares


@pytest.mark.parametrize("others", ["", OTHERS])
@pytest.mark.parametrize(
    ("made", "joined", "there"),
    [
        ("pad = torch.zeros([t.shape[0], n])", "torch.cat([t, pad], dim=1)", "torch.zeros([t.shape[0], n]"),
        ("pad = torch.ones(t.size(0), n).float()", "torch.cat([t[:, :2], pad], dim=1)", "torch.ones(t.size(0), n"),
        ("pass", "torch.cat((torch.full((t.size(0), 1), 0.5), t), 1)", "torch.full((t.size(0), 1), 0.5"),
        ("t = t.float()\n    mask = torch.zeros(t.shape)", "t * mask", "torch.zeros(t.shape"),
        ("pad = torch.zeros(t.shape)\n    pad[:, n:] = 1", "(t + pad).to(device)", "torch.zeros(t.shape"),
    ],
)
def test_a_tensor_of_the_size_of_another_is_made_where_that_is(made: str, joined: str, there: str, others: str) -> None:
    before, batch = SIZED.format(made=made, joined=joined), "both = widened(y)"
    after = migrated(script(before=before, batch=batch, end=others))
    expected = SIZED.format(made=made, joined=joined).replace(there, f"{there}, device=t.device")
    assert expected in after
    assert ".cpu()" not in after
    assert (others or "both = widened(y)\n") in after


@pytest.mark.parametrize(
    "made",
    [
        "pad = torch.zeros(2, 1)",
        "pad = torch.randn(t.shape)",
        "pad = torch.empty(t.shape).normal_()",
        "pad = torch.empty(t.shape)\n    nn.init.normal_(pad)",
        "pad = torch.zeros(t.shape)\n    t = t[:1]",
        "pad = torch.zeros(t.shape).cpu()",
    ],
)
def test_a_tensor_that_cannot_be_made_there(made: str) -> None:
    before = SIZED.format(made=made, joined="torch.cat([t, pad])")
    after = migrated(script(before=before, batch="both = widened(y)"))
    assert before in after
    assert "both = widened(y.cpu())\n" in after


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


VALIDATION = "val_loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)\n"
WRAPPED = "model = nn.DataParallel(model).cuda()"


@pytest.mark.parametrize(
    ("end", "brought"),
    [
        (
            "for a, b in val_loader:\n    b = b.cuda()\n    print((model(a) - b).sum())",
            "a = a.to(accelerator.device)\n",
        ),
        (
            "with torch.no_grad():\n    print(model(torch.ones(2, 4)).sum())",
            "torch.ones(2, 4, device=accelerator.device)",
        ),
        ("for batch in val_loader:\n    print(model(batch[0]))", "model(batch[0].to(accelerator.device))"),
        (
            "def ask(network, rows):\n    return network(rows)\nfor a, b in val_loader:\n    print(ask(model, a))",
            "a = a.to(accelerator.device)\n",
        ),
    ],
)
@pytest.mark.parametrize("wrapped", [WRAPPED, "model.cuda()\nmodel = torch.nn.parallel.DataParallel(module=model)"])
def test_what_the_wrapper_brought_to_the_model_is_brought_there(end: str, brought: str, wrapped: str) -> None:
    assert brought in migrated(script(before=VALIDATION, model=wrapped, end=end))


def test_what_a_model_got_that_no_wrapper_was_put_round_is_taken_for_brought() -> None:
    end = "for a, b in val_loader:\n    print(model(a))"
    assert "a.to(" not in migrated(script(before=VALIDATION, model="model.cuda()", end=end))


def test_what_the_wrapper_brought_is_read_in_the_hosts_memory() -> None:
    end = "for a, b in val_loader:\n    print(model(a), a.numpy(), torch.FloatTensor(a))"
    after = migrated(script(before=VALIDATION, model=WRAPPED, end=end))
    assert "print(model(a), a.cpu().numpy(), torch.FloatTensor(a.cpu()))" in after


def test_batches_inside_a_wrapped_model_are_where_what_it_got_is() -> None:
    before = """\
        class Masked(nn.Linear):
            def forward(self, x, mask=None):
                return super().forward(x if mask is None else x * mask)
        """
    model = f"model = Masked(4, 1)\n{WRAPPED}"
    after = migrated(script(before=dedent(before), model=model, batch="print(model(x, mask=torch.ones(4)))"))
    assert "model(x, mask=torch.ones(4, device=accelerator.device))" in after


BOTH = "for which in (loader, val_loader):\n    "


@pytest.mark.parametrize(
    ("end", "read"),
    [
        (
            "def labels(data):\n    return [b.numpy() for a, b in data]\nprint(labels(loader), labels(val_loader))",
            "[b.cpu().numpy() for a, b in data]",
        ),
        (
            "def labels(data):\n    for batch in data:\n        print(torch.FloatTensor(batch[1]))\n"
            "labels(loader)\nlabels(val_loader)",
            "torch.FloatTensor(batch[1].cpu())",
        ),
        (f"{BOTH}for a, b in which:\n        print(b.numpy())", "b.cpu().numpy()"),
        (f"{BOTH}for a, b in which:\n        print(model(a.to(device)).cpu() == b)", "== b.cpu()"),
        (f"{BOTH}a, b = next(iter(which))\n    print(b.numpy())", "b.cpu().numpy()"),
    ],
)
def test_batches_of_a_loader_that_may_be_prepared_are_read_in_the_hosts_memory(end: str, read: str) -> None:
    assert read in migrated(script(before=VALIDATION, batch=MOVED, model="model.to(device)", end=end))


def test_batches_of_loaders_in_a_container_are_read_in_the_hosts_memory() -> None:
    text = """\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        data = TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,)))
        loaders = {"train": DataLoader(data, batch_size=2), "val": DataLoader(data, batch_size=2)}
        model = nn.Linear(4, 2).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(2):
            for phase in ["train", "val"]:
                for x, y in loaders[phase]:
                    labels = y.numpy()
                    out = model(x.to(device))
                    if phase == "train":
                        loss = nn.functional.cross_entropy(out, y.to(device))
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
        """
    assert "labels = y.cpu().numpy()" in run(dedent(text)).after.decode()


def test_what_is_known_of_an_operand() -> None:
    batch = Operand(tuple((place, None) for place in BATCH))
    assert batch.is_own_batch
    assert batch.is_now(Where.ACCELERATOR)
    assert batch.was(Where.HOST)
    assert not Operand(((Place(Where.ACCELERATOR, Where.ACCELERATOR), None),)).is_own_batch


@pytest.mark.parametrize("again", ["batches = iter(loader)", "batches = iter(tqdm(loader))"])
@pytest.mark.parametrize("one_hot", ["torch.zeros(2, 3).scatter_(1, y.long(), 1)", "torch.eye(3)[y.long()]"])
def test_batches_of_an_iterator_that_starts_anew_are_read_in_the_hosts_memory(again: str, one_hot: str) -> None:
    text = f"""\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        from tqdm import tqdm

        def train(loader, model, optimizer):
            batches = iter(loader)
            for step in range(8):
                try:
                    x, y = next(batches)
                except StopIteration:
                    {again}
                    x, y = next(batches)
                y = {one_hot}
                loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        data = TensorDataset(torch.randn(8, 4), torch.randint(0, 3, (8, 1)))
        model = nn.Linear(4, 3).cuda()
        train(DataLoader(data, batch_size=2), model, torch.optim.SGD(model.parameters(), lr=0.1))
    """
    assert "y.long().cpu()" in migrated(dedent(text))


TWO_WAYS = """\
if args.mode == "S":
    noise = torch.empty(4, 3).normal_(std=args.std)
if args.mode == "B":
    noise = torch.zeros(4, 3)
{met}
noise = noise.to(device)"""


@pytest.mark.parametrize(
    ("met", "read"),
    [
        ("noisy = x + noise", "noisy = x.cpu() + noise"),
        ("noisy = torch.add(x, noise)", "noisy = torch.add(x.cpu(), noise)"),
        ("noisy = noise.mul(x)", "noisy = noise.mul(x.cpu())"),
    ],
)
def test_what_would_have_stopped_the_plain_script_does_not_decide(met: str, read: str) -> None:
    after = migrated(script(batch=f"{TWO_WAYS.format(met=met)}\nx, y = x.to(device), y.to(device)"))
    assert read in after
    assert "noise = torch.zeros(4, 3)\n" in after


NET = """\
import torch
class Net(torch.nn.Module):
    def __init__(self, {parameter}):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)
        self.device = device
    def forward(self, x):
        start = torch.zeros(1, device=self.device)
        return self.fc(x) + start
def main():
    model = Net({given})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(rows):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
main()
"""


@pytest.mark.parametrize(
    ("parameter", "given"), [('device="cpu"', ""), ("device", '"cpu"'), ("device", "device='cpu'")]
)
def test_a_model_that_is_given_the_cpu_mixes_devices(parameter: str, given: str) -> None:
    text = NET.format(parameter=parameter, given=given)
    assert "Accelerator(mixed_devices=True)" in run(text).after.decode()
    notes = run(text, Options(runtime=ACCELERATE)).notes
    assert [n.line for n in notes if "may now be on different devices" in n.message] == [10]


def test_a_model_that_is_given_the_gpu_is_not_reported() -> None:
    notes = run(NET.format(parameter='device="cuda"', given="")).notes
    assert not any("may now be on different devices" in n.message for n in notes)


CELLS = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(4, 8, batch_first=True)
            self.out = nn.Linear(8, 1)

        def forward(self, x):
            h = torch.zeros(1, len(x), 8)
            return self.out(self.rnn(x, (h, h))[0][:, -1])

    loader = DataLoader(TensorDataset(torch.randn(8, 3, 4), torch.randn(8, 1)), batch_size=2)
    test_loader = DataLoader(TensorDataset(torch.randn(8, 3, 4), torch.randn(8, 1)), batch_size=2)
    {first} = {make}
    optimizer = torch.optim.SGD({first}.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss({first}(x), y).backward()
        optimizer.step()
    for x, y in test_loader:
        print(nn.functional.mse_loss({first}(x), y))
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    {second} = nn.Sequential(nn.Flatten(), nn.Linear(12, 1))
    {second}.to(device)
    optimizer = torch.optim.SGD({second}.parameters(), lr=0.1)
    error = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss({second}(x), y)
        loss.backward()
        optimizer.step()
        if torch.cuda.is_available():
            error += ({second}(x).cpu() - y.cpu()).abs().sum()
        else:
            error += ({second}(x) - y).abs().sum()
"""


@pytest.mark.parametrize(("first", "second"), [("model", "model"), ("small", "large")])
def test_a_model_that_the_script_never_moves_beside_one_that_it_does(first: str, second: str) -> None:
    """A notebook trains on the CPU in its first cells; `prepare` brings that model to the GPU, too."""
    after = migrated(CELLS.format(first=first, second=second, make="Net()"))
    assert "    h = torch.zeros(1, len(x), 8, device=x.device)\n" in after
    assert "for x, y in test_loader:\n    x, y = x.to(accelerator.device), y.to(accelerator.device)\n" in after
    assert after.count(".to(accelerator.device)") == 2


@pytest.mark.parametrize("make", ["Net().cuda()", "place(Net())"])
def test_a_model_that_something_may_move_is_where_the_others_are(make: str) -> None:
    text = CELLS.replace("    loader = ", "    from placing import place\n    loader = ", 1)
    after = migrated(text.format(first="small", second="large", make=make))
    assert "x, y = x.to(accelerator.device)" not in after


@pytest.mark.parametrize("model", ["nn.Linear(4, 1)", "Net()"])
@pytest.mark.parametrize(("data", "read"), [("other", "x"), ("loader", "x.cpu()")])
def test_a_new_model_under_the_name_of_the_trained_one_stays_on_the_cpu(model: str, data: str, read: str) -> None:
    net = (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(4, 1)\n"
    )
    net += "    def forward(self, x):\n        return self.a(x)\nother = DataLoader(rows)\ndevice = 'cuda'"
    after = migrated(
        script(
            before=net,
            model=f"model = {model}\nmodel.to(device)",
            batch="x, y = x.to(device), y.to(device)",
            end=f"model = {model}\nmodel.load_state_dict(torch.load('m.pt'))\n"
            f"for x, y in {data}:\n    print(model(x).numpy())",
        )
    )
    assert after.endswith(f"    print(model({read}).numpy())\n")
    assert "x.to(" not in after
