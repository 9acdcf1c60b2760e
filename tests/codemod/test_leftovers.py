"""What is left of a line once its moves are gone reads as if nobody had ever moved anything."""

from __future__ import annotations

import textwrap

import pytest

from tests.codemod.pairs import changed, migrated, run, script

UNPACKED = [
    "a, b = [t.to(device) for t in batch]",
    "a, b = tuple(t.to(device) for t in batch)",
    "a, b = map(lambda t: t.to(device), batch)",
    "a, b = list(map(lambda t: t.to(device), batch))",
]


@pytest.mark.parametrize(
    ("line", "comes_out"),
    [
        ("w, y = w.to(device), y.to(device)", "w = w.to(device)"),
        ("y, w = y.cuda(), w.cuda()", "w = w.to(accelerator.device)"),
        ("(y, w, z) = (y.cuda(), w.cuda(), w)", "(w, z) = (w.to(accelerator.device), w)"),
    ],
)
def test_of_several_moves_at_once_only_those_that_are_needed_stay(line: str, comes_out: str) -> None:
    batch = f"w = torch.ones(1)\nx = x.to(device)\n{line}"
    assert f"        {comes_out}\n" in run(script(model="model.to(device)", batch=batch)).after.decode()


LOOP = "for batch in loader:\n    {line}\n    {use}"
MOVED = {"model": "model.to(device)", "batch": "x, y = x.to(device), y.to(device)"}
GONE = [f"-{line}" for line in MOVED.values()]


@pytest.mark.parametrize("line", UNPACKED)
def test_a_batch_that_is_taken_apart_is_taken_apart(line: str) -> None:
    changed(*GONE, f"-{line}", "+a, b = batch", end=LOOP.format(line=line, use="print(a, b)"), **MOVED)


@pytest.mark.parametrize("kind", ["tuple", "list"])
def test_a_container_that_is_only_indexed_stays_what_it_was(kind: str) -> None:
    line = f"batch = {kind}(t.to(device) for t in batch)"
    changed(*GONE, f"-{line}", end=LOOP.format(line=line, use="x = batch[0]"), **MOVED)


def test_a_container_whose_kind_is_asked_for_is_made() -> None:
    line = "batch = tuple(t.to(device) for t in batch)"
    changed(*GONE, f"-{line}", "+batch = tuple(batch)", end=LOOP.format(line=line, use="print(batch)"), **MOVED)


@pytest.mark.parametrize("built", ["t.to(device) for t in batch if len(t)", "t.to(device, torch.half) for t in batch"])
def test_a_container_that_is_built_for_more_stays(built: str) -> None:
    result = run(script(end=LOOP.format(line=f"a = [{built}]", use="print(a)")))
    assert built.partition(" for ")[2] in result.after.decode()


def test_a_choice_without_effect_goes() -> None:
    changed("-model.cuda() if use_cuda else None", model="model.cuda() if use_cuda else None")


def test_what_is_left_is_done_otherwise() -> None:
    choice = "if use_cuda:\n    x = x.cuda()\nelse:\n    print(x)"
    moved = {"model": "model.to(device)", "batch": choice}
    changed("-model.to(device)", "-if use_cuda:", "-x = x.cuda()", "-else:", "+if not use_cuda:", **moved)


# Devices.


@pytest.mark.parametrize("test", ["device == 'cuda'", "'cuda' in device", "device != 'cpu'", "CUDA == device"])
def test_a_device_that_is_compared_with_text_stays_text(test: str) -> None:
    text = script(prepared=f"CUDA = 'cuda'\nif {test}:\n    print(1)", batch="x, y = x.to(device), y.to(device)")
    plain = text.replace(
        'torch.device("cuda" if torch.cuda.is_available() else "cpu")', "'cuda' if use_cuda else 'cpu'"
    )
    lines = plain.split("\n")
    at = next(k for k, line in enumerate(lines) if line.startswith("use_cuda"))
    lines[at - 1 : at + 1] = [lines[at], lines[at - 1]]
    assert "device = accelerator.device.type\n" in run("\n".join(lines)).after.decode()


@pytest.mark.parametrize(
    "read",
    [
        "with torch.autocast(device_type=device, enabled=bool(epoch)):\n    print(x)",
        "with torch.amp.autocast(device, enabled=bool(epoch)):\n    print(x)",
        "print(device.startswith('cuda'))",
        "print({'cuda': 1, 'cpu': 2}[device])",
        "print(device in ('cuda', 'mps'))",
        "from torchsummary import summary\nsummary(model, (4,), device=device)",
        "from kept import Kept\nkept = Kept()\nkept.place(device)",
        "import json\nprint(json.dumps({'device': device, 'rate': 0.1}))",
        "print(open('runs/' + device).read())",
        "print(int(device[5:]))",
        "print(device.split(':'))",
    ],
)
def test_a_device_that_must_be_text_stays_text(read: str) -> None:
    text = script(batch=f"x, y = x.to(device), y.to(device)\n{read}")
    plain = text.replace(
        'torch.device("cuda" if torch.cuda.is_available() else "cpu")', "'cuda' if use_cuda else 'cpu'"
    )
    plain = plain.replace("use_cuda = torch.cuda.is_available()\n", "")
    plain = plain.replace("device =", "use_cuda = torch.cuda.is_available()\ndevice =", 1)
    text = "str(accelerator.device)" if "split" in read or "[5" in read else "accelerator.device.type"
    assert f"device = {text}\n" in run(plain).after.decode()


@pytest.mark.parametrize(
    "read",
    [
        "print(f'on {device}', device, str(device))",
        "noise = torch.rand(3, device=device)\nprint(noise.to(device))",
        "import logging\nlogging.info(device)",
        "def seen(x, where):\n    return x.to(where)\nprint(seen(torch.ones(1), device))",
    ],
)
def test_a_device_that_may_be_no_text_is_none_afterwards(read: str) -> None:
    choice = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    text = script(batch=f"x, y = x.to(device), y.to(device)\n{read}").replace(choice, choice[13:-1])
    assert "device = accelerator.device\n" in run(text).after.decode()


def test_an_option_that_a_library_may_read_as_text_stays_text() -> None:
    option = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--device', default='cuda')\n"
    before = f"from torchsummary import summary\n{option}args = parser.parse_args()"
    text = script(before=before, prepared="summary(model, (4,), device=args.device)")
    assert "\nsummary(model, (4,), device=accelerator.device.type)\n" in run(text).after.decode()


@pytest.mark.parametrize("read", ["'cuda' in device", "device == 'cpu'", "device.startswith('cuda')"])
def test_an_option_that_is_read_as_text_stays_text(read: str) -> None:
    option = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--device', default='cpu')\n"
    text = script(prepared=f"if {read}:\n    print(args)", batch="x, y = x.to(device), y.to(device)")
    plain = text.replace("import torch\n", f"import torch\n{option}args = parser.parse_args()\n", 1)
    plain = plain.replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")', "args.device")
    assert "device = accelerator.device.type\n" in run(plain).after.decode()


def test_a_device_of_which_a_text_is_only_made_is_none_afterwards() -> None:
    choice = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    text = script(batch="x, y = x.to(device), y.to(device)").replace(choice, '"cuda:{}".format(0)')
    assert "accelerator.device.type" not in run(text).after.decode()


def test_a_device_that_is_no_text_is_none_afterwards() -> None:
    after = run(script(prepared="if device == 'cuda':\n    print(1)")).after.decode()
    assert "device = accelerator.device\n" in after


def test_a_numbered_gpu_is_the_process_s_own_where_the_accelerator_does_not_reach() -> None:
    text = script(batch="x, y = x.to(device), y.to(device)").replace('"cuda" if', '"cuda:0" if')
    lines = text.split("\n")
    start = next(k for k, line in enumerate(lines) if line.startswith("loader ="))
    inside = "\n".join([*lines[:start], "def main():", *["    " + line for line in lines[start:]], "", "main()"])
    after = run(inside).after.decode()
    assert 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")' in after
    assert "accelerator = Accelerator()" in after


CPU = {'torch.device("cuda" if torch.cuda.is_available() else "cpu")': 'torch.device("cpu")'}
HOLDER = "class Holder:\n    def __init__(self, device):\n        self.device = device\nheld = Holder(device).device"


def on_the_cpu(**slots: str) -> str:
    text = script(batch="x = x.to(device)\nz = torch.ones(1).to(device)", **slots)
    for chosen, plain in CPU.items():
        text = text.replace(chosen, plain)
    return text


@pytest.mark.parametrize("before", ["", HOLDER])
def test_the_cpu_for_training_becomes_the_process_s_own_device(before: str) -> None:
    assert "device = accelerator.device\n" in run(on_the_cpu(before=before)).after.decode()


CHOICE = """\
if use_cuda:
    device = torch.device('cuda')
{more}
else:
    device = torch.device('cpu')
    print('no GPU')
"""


@pytest.mark.parametrize(
    ("more", "left"),
    [
        ("    print('a GPU')", "if use_cuda:\n    print('a GPU')\nelse:\n    print('no GPU')\n"),
        ("", "if not use_cuda:\n    print('no GPU')\n"),
    ],
)
def test_a_device_that_is_chosen_beside_other_things_is_chosen_once(more: str, left: str) -> None:
    text = script(before=CHOICE.format(more=more).replace("\n\n", "\n"), batch="z = torch.ones(1, device=device)")
    after = run(text.replace('device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n', "")).after
    assert f"device = accelerator.device\n{left}" in after.decode()


@pytest.mark.parametrize(
    ("setting", "value", "kept"),
    [
        ("args.device", "'cuda:' + str(args.gpu)", ".type"),
        ("cfg.MODEL.DEVICE", "'cuda'", ".type"),
        ("args.device", "torch.device('cuda:' + str(args.gpu))", ""),
    ],
)
def test_a_setting_that_is_text_stays_text(setting: str, value: str, kept: str) -> None:
    before = f"args, cfg = get_args()\n{setting} = {value}"
    text = script(before=before, batch=f"z = torch.ones(1, device={setting})")
    assert f"{setting} = accelerator.device{kept}\n" in run(text).after.decode()


@pytest.mark.parametrize(
    "keeps",
    [
        "settings['device'] = device",
        "settings = dict(device=device)",
        "settings = {'device': device}",
        "args.device = device",
        "setattr(args, 'device', device)",
    ],
)
def test_text_that_is_kept_among_settings_stays_text(keeps: str) -> None:
    text = script(before=f"args, settings = get_args()\n{keeps}", batch="z = torch.ones(1, device=device)")
    text = text.replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")', '"cuda"')
    assert "device = accelerator.device.type\n" in run(text).after.decode()
    assert "device = accelerator.device\n" in run(text.replace(f"{keeps}\n", "")).after.decode()


def test_an_option_that_is_given_to_anything_but_pytorch_stays_text() -> None:
    before = (
        "import argparse, json\nparser = argparse.ArgumentParser()\nparser.add_argument('--device', default='cuda')"
    )
    dump = "args = parser.parse_args()\njson.dump(dict(device=args.device), open('a', 'w'))"
    after = run(script(before=f"{before}\n{dump}", batch="z = torch.ones(1, device=args.device)")).after.decode()
    assert "dict(device=accelerator.device.type)" in after
    assert "torch.ones(1, device=accelerator.device)" in after


def test_the_cpu_where_the_accelerator_does_not_reach_is_reported() -> None:
    lines = on_the_cpu().split("\n")
    start = next(k for k, line in enumerate(lines) if line.startswith("loader ="))
    result = run("\n".join([*lines[:start], "def main():", *["    " + line for line in lines[start:]], "", "main()"]))
    assert "    accelerator = Accelerator()\n    device = accelerator.device\n" in result.after.decode()
    assert any("no longer keeps the training on the CPU" in n.message for n in result.notes)


# Notes.


@pytest.mark.parametrize(
    ("lines", "is_reported"),
    [
        ("total = 0\nfor part in (x, y):\n    total += part.sum().item()", False),
        ("if use_cuda:\n    total = 0\ntotal += x.sum().item()", True),
    ],
)
def test_a_sum_that_each_batch_begins_anew_is_no_share(lines: str, is_reported: bool) -> None:
    result = run(script(prepared="total = 0", batch=lines, end="print(total)"))
    assert any("covers this process's shard" in n.message for n in result.notes) is is_reported


def test_what_a_loop_shards_is_not_carried_from_batch_to_batch() -> None:
    mixed = "def mix(x, y):\n    return x.flip(0), y.flip(0)"
    result = run(script(before=mixed, batch="x, y = mix(x, y)"))
    assert not any("is carried from one batch" in n.message for n in result.notes)


# Batches.

TWO_LOOPS = """\
for data in loader:
    x, y = data
    x = x.to(device)
    loss = model(x).sum()
for data in torch.randn(4, 2, 4):
    x, y = data
    x = x.to(device)
    print(x)
"""


def test_a_batch_is_told_from_what_another_loop_gives_the_same_name() -> None:
    result = run(script(batch="x, y = x.to(device), y.to(device)\nx = x * 2\nprint(x)", end=TWO_LOOPS))
    after = result.after.decode()
    assert "x, y = x.to(device), y.to(device)" not in after
    assert "    x, y = data\n    loss = model(x).sum()\n" in after
    assert "    x, y = data\n    x = x.to(device)\n    print(x)\n" in after


def test_a_batch_that_a_function_of_ones_own_mixes_came_from_the_loader() -> None:
    mixed = "def mix(x, y):\n    return torch.cat([x, x]), y"
    after = run(script(before=mixed, batch="x = x.to(device)\nif use_cuda:\n    x, y = mix(x, y)")).after.decode()
    assert "x.to(device)" not in after


def test_what_an_inner_loop_puts_in_a_batch_s_place_is_moved() -> None:
    inner = "for part in range(2):\n    x = x.to(device)\n    x = torch.cat([x, torch.randn(1, 4)])"
    assert "x = x.to(device)" in run(script(batch=inner)).after.decode()


def test_a_loader_of_any_branch_of_a_condition_is_prepared() -> None:
    again = "loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size={})"
    text = script(batch="x, y = x.to(device), y.to(device)")
    one = next(line for line in text.split("\n") if line.startswith("loader ="))
    both = f"if use_cuda:\n    {again.format(4)}\nelse:\n    {again.format(2)}"
    assert "x.to(device)" not in run(text.replace(one, both)).after.decode()


@pytest.mark.parametrize("comment", ["", "# what it is"])
def test_a_block_does_not_begin_with_the_blank_line_below_what_went(comment: str) -> None:
    lines = f"x, y = x.to(device), y.to(device)\n\n{comment}\nprint(x)" if comment else "x = x.to(device)\n\nprint(x)"
    after = run(script(batch=lines)).after.decode()
    above = f"        {comment}\n" if comment else ""
    assert f"    for x, y in loader:\n{above}        print(x)\n" in after


def messages(text: str) -> list[str]:
    return [note.message for note in run(text).notes]


def test_a_sum_over_the_batch_is_not_told_of_data_that_all_processes_share() -> None:
    text = """\
import torch
from torch import nn

x, y = torch.randn(8, 4), torch.randn(8, 1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    loss = (model(x) - y).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    told = messages(text)
    assert any("has the same data here" in m for m in told)
    assert not any("a sum over the batch" in m for m in told)


TRAINER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, most):
        self.loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.most, self.steps, self.last = most, 0, 0.0

    def fit(self):
        self.waited = self.read()
        for epoch in range(3):
            for i, (x, y) in enumerate(self.loader):
                loss = nn.functional.mse_loss(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.steps += 1
                {note}
                if {test}:
                    break


Trainer(5).fit()
"""


@pytest.mark.parametrize(
    ("test", "is_reported"),
    [
        ("self.steps >= self.most", False),
        ("epoch * len(self.loader) + i > self.most", False),
        ("done > self.most", False),
        ("loss < 0.1", True),
        ("self.last < 0.1", True),
        ("x.shape[0] < 2", False),
    ],
)
def test_what_counts_steps_is_decided_alike(test: str, is_reported: bool) -> None:
    note = "done = epoch * len(self.loader) + i; self.last = loss.item()"
    after = run(TRAINER.format(test=test, note=note)).after.decode()
    assert ("broadcast_object_list" in after) == is_reported


@pytest.mark.parametrize(
    ("loop", "is_reported"),
    [
        ("for x, y in tqdm(loader, total=len(loader.dataset) // 2):", True),
        ("for x, y in tqdm(loader, total=steps):", True),
        ("for x, y in tqdm(loader, total=len(loader)):", False),
        ("for x, y in tqdm(loader):", False),
    ],
)
def test_a_bar_that_counts_the_steps_of_one_process_is_reported(loop: str, is_reported: bool) -> None:
    text = script(imports="from tqdm import tqdm", prepared="steps = len(loader.dataset) // 2")
    told = [m for m in messages(text.replace("for x, y in loader:", loop)) if "its shard of the steps" in m]
    assert len(told) == is_reported


def test_a_block_without_gradients_that_only_moved_goes() -> None:
    moves = "with torch.no_grad():\n    if use_cuda:\n        x = x.cuda()\n        y = y.cuda()"
    assert "no_grad" not in run(script(model="model.to(device)", batch=moves)).after.decode()


def test_wrappers_that_one_line_puts_round_several_models_go_with_their_condition() -> None:
    wrap = "other = nn.Linear(4, 1)\nif torch.cuda.device_count() > 1:\n"
    wrap += "    model, other = nn.DataParallel(model), nn.DataParallel(other)"
    after = run(script(model=wrap)).after.decode()
    assert "model, other" not in after
    assert "device_count" not in after


@pytest.mark.parametrize(
    ("lines", "is_reported"),
    [
        ("loss = nn.functional.mse_loss(model(x), labels[i])", True),
        ("y = labels[i * 2:(i + 1) * 2]\nloss = nn.functional.mse_loss(model(x), y.float())", True),
        ("y = rows[i]\nloss = nn.functional.mse_loss(model(x), y)", False),
        ("rate = labels[i]\nloss = nn.functional.mse_loss(model(x), y)\nprint(rate)", False),
    ],
)
def test_what_a_loop_picks_by_the_number_of_its_batch_is_reported(lines: str, is_reported: bool) -> None:
    text = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
labels = torch.randn(8, 1)
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(loader):
    rows = [y] * 9
{textwrap.indent(lines, "    ")}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert is_reported == any("counts this process's batches" in note.message for note in run(text).notes)


@pytest.mark.parametrize("line", ["exec(open('overrides.py').read())", "config = dict(globals())", "eval('device')"])
def test_a_variable_that_may_be_read_by_its_name_stays(line: str) -> None:
    text = (
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\ndevice = 'cuda'\n"
        f"{line}\nmodel = nn.Linear(4, 1).to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for x, y in DataLoader(data):\n    nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()\n"
        "    optimizer.step()\n"
    )
    assert b"device = 'cuda'\n" in run(text).after


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("sizes = eval(input())", False),
        ("def sized(text): return eval(text)\nsizes = sized('[4, 1]')", False),
        ("sizes = eval(options.sizes, {'__builtins__': {}})", False),
        ("def where(): return eval('str(device)')", True),
        ("texts = ['device']\nplaces = [eval(text) for text in texts]", True),
        ("place = eval(f'device.{kind}')", True),
    ],
)
def test_a_variable_that_no_evaluated_text_names_goes(line: str, stays: bool) -> None:
    text = (
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
        f"device = torch.device('cuda')\n{line}\nmodel = nn.Linear(4, 1).to(device)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for x, y in DataLoader(data):\n    nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()\n"
        "    optimizer.step()\n"
    )
    assert (b"device = " in run(text).after) is stays


CHOSEN = """\
import logging
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger()

{chooses}

def main():
    device = choose()
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        (model(x) - y).pow(2).mean().backward()
        optimizer.step()

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    "chooses",
    [
        "def choose():\n    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        "    print(f'on {device}')\n    return device",
        "def choose():\n    if torch.cuda.is_available():\n        log.info('a GPU')\n        return 'cuda'\n"
        "    log.info('no GPU')\n    return 'cpu'",
        "def choose(seed=1):\n    torch.manual_seed(seed)\n    return torch.device('cuda:0')",
    ],
)
def test_a_function_that_does_more_than_choose_a_device_is_still_called(chooses: str) -> None:
    text = migrated(CHOSEN.format(chooses=chooses))
    assert "\n    choose()\n" in text
    assert "device = accelerator.device" not in text
    assert ".to(device)" not in text
    assert "Accelerator()" in text


GPUS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

def devices(wanted):
    found = torch.cuda.device_count()
    print(found)
    return torch.device("cuda:0" if found else "cpu"), list(range(min(wanted, found)))

class Trainer:
    def __init__(self, model, wanted):
        {gives}
        self.model = nn.DataParallel(model, device_ids=gpus).to(self.device)
        self.loader = DataLoader(torch.randn(8, 4), 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x in self.loader:
            loss = self.model(x.to(self.device)).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

Trainer(nn.Linear(4, 1), 2).fit()
"""


@pytest.mark.parametrize(
    "gives",
    [
        "self.device, gpus = devices(wanted)",
        "[gpus, self.device] = devices(wanted)[::-1]",
        "(self.device, gpus), self.wanted = devices(wanted), wanted",
    ],
)
def test_one_of_several_names_that_get_their_values_together_may_stay(gives: str) -> None:
    text = run(GPUS.format(gives=gives)).after.decode()
    assert f"        {gives}\n        self.model = model\n" in text
    assert "DataParallel" not in text


def test_a_name_that_gets_its_value_alone_goes() -> None:
    text = run(GPUS.format(gives="self.device = devices(wanted)[0]\n        gpus = [0, 1]")).after.decode()
    assert "gpus = " not in text


@pytest.mark.parametrize(
    "tried",
    [
        "try:\n    from fancy import Parallel\nexcept ImportError:\n    from plain import Parallel\n",
        "try:\n    from fancy import Parallel\nexcept ImportError:\n    Parallel = nn.DataParallel\n",
    ],
)
def test_an_import_that_is_tried_stays(tried: str) -> None:
    wrap = (
        "model = nn.DataParallel(model)\nif isinstance(model, nn.DataParallel):\n    model = Parallel(model.module)\n"
    )
    text = run(script(before=tried, model=wrap)).after.decode()
    assert "    from fancy import Parallel\nexcept ImportError:\n" in text
    assert "Parallel(model" not in text


def test_an_import_that_is_not_tried_goes() -> None:
    wrap = (
        "model = nn.DataParallel(model)\nif isinstance(model, nn.DataParallel):\n    model = Parallel(model.module)\n"
    )
    text = run(script(before="from fancy import Parallel\n", model=wrap)).after.decode()
    assert "Parallel" not in text
