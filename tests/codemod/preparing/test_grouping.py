"""Where `prepare` stands: after all that it needs, before the first use, on every way to the loop."""

from __future__ import annotations

import ast
from textwrap import indent

import pytest

from accelify.codemod.preparing.grouping import Item
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated
from tests.codemod.training_scripts import training

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
"""
BUILD = """\
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
TRAIN = """\
for x, y in loader:
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PREPARE = "model, optimizer = accelerator.prepare(model, optimizer)"


def function(body: str) -> str:
    """A script whose training function has a loader, and then some more lines."""
    lines = "loader = DataLoader(data, batch_size=size)\n" + body
    return f"{HEAD}\n\ndef run(size):\n{indent(lines, '    ')}\n\nrun(4)\n"


def is_before_the_loop(text: str) -> bool:
    return text.index(PREPARE) < text.index("for x, y in loader")


def in_try(handler: str, end: str = "    return loss.item()\n") -> str:
    return f"try:\n{indent(BUILD + TRAIN, '    ')}{end}except RuntimeError as e:\n{indent(handler, '    ')}"


LEAVES = "model = optimizer = None\nif 'out of memory' in str(e):\n    return float('inf')\nelse:\n    raise\n"
RETURNS = "model, optimizer = None, None\nreturn None\n"
GOES_ON = "model = optimizer = None\nprint('no memory')\n"


@pytest.mark.parametrize("handler", [LEAVES, RETURNS, GOES_ON])
def test_what_a_try_trains_is_prepared_in_it(handler: str) -> None:
    assert is_before_the_loop(migrated(function(in_try(handler))))


def test_a_handler_that_builds_another_is_followed_by_prepare() -> None:
    build = f"try:\n{indent(BUILD, '    ')}except RuntimeError:\n{indent(BUILD, '    ')}"
    after = migrated(function(build + TRAIN))
    assert after.count(".prepare(") == 1
    assert after.index("except") < after.index(".prepare(") < after.index("for x, y in loader")


@pytest.mark.parametrize("condition", ["size > 2", "torch.cuda.is_available()", "size in (1, 2)"])
def test_each_branch_that_trains_prepares_its_own(condition: str) -> None:
    branch = indent(BUILD + TRAIN, "    ")
    after = migrated(function(f"if {condition}:\n{branch}else:\n{branch}"))
    assert after.count(PREPARE) == 2
    first, second = after.split("else:")
    assert is_before_the_loop(first)
    assert is_before_the_loop(second)


@pytest.mark.parametrize("end", ["raise ValueError(size)", "return None", "raise SystemExit"])
def test_one_prepare_where_branches_only_build(end: str) -> None:
    branch = indent(BUILD, "    ")
    choice = f"if size == 1:\n{branch}elif size == 4:\n{branch}else:\n    {end}\n"
    after = migrated(function(choice + TRAIN))
    assert after.count(".prepare(") == 1
    assert after.index(end) < after.index(".prepare(")


CHOSEN = """\
model = nn.Linear(4, 1)
if size == 1:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
elif size == 4:
    optimizer = torch.optim.Adam(model.parameters())
"""


@pytest.mark.parametrize(
    "between",
    ["", "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n", "best = 0\nprint(size, optimizer)\n"],
)
def test_one_prepare_where_the_script_needs_one_of_the_branches(between: str) -> None:
    after = migrated(function(CHOSEN + between + TRAIN))
    assert after.count(".prepare(") == 1
    assert after.index("Adam(") < after.index("    loader, model, optimizer = accelerator.prepare(")


@pytest.mark.parametrize(
    "between",
    [
        "if size not in (1, 4):\n    raise ValueError(size)\n",
        "if size not in (1, 4):\n    return model\n",
        "if size not in (1, 4):\n    raise SystemExit(size)\n",
    ],
)
def test_a_prepare_in_each_branch_where_the_script_may_leave_first(between: str) -> None:
    after = migrated(function(CHOSEN + between + TRAIN))
    assert after.count("        model, optimizer = accelerator.prepare(model, optimizer)\n") == 2


ADAM = "optimizer = torch.optim.Adam(model.parameters())\n"
BY_HAND = """
def run_epoch(model, lr):
    for x, y in zip(*data.tensors):
        model.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        if name == "adam":
            optimizer.step()
        else:
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-lr)


for epoch in range(2):
    run_epoch(model, 0.1)
"""
INDIRECT = (
    BY_HAND.replace("\nfor", "\ndef train():\n    run_epoch(model, 0.1)\n\n\nfor").removesuffix(
        "run_epoch(model, 0.1)\n"
    )
    + "train()\n"
)


@pytest.mark.parametrize(
    "chosen",
    [
        f"if name == 'adam':\n    {ADAM}",
        f"if name == 'adam':\n    {ADAM}else:\n    print('by hand')\n",
        f"if name == 'sgd':\n    print('by hand')\nelif name == 'adam':\n    {ADAM}",
    ],
)
@pytest.mark.parametrize("train", [BY_HAND, INDIRECT])
def test_an_optimizer_that_the_loop_may_do_without_is_prepared_where_it_is_made(chosen: str, train: str) -> None:
    after = migrated(f"{HEAD}name = input()\nmodel = nn.Linear(4, 1)\n{chosen}{train}")
    assert "\nmodel = accelerator.prepare(model)\n" in after
    assert f"    {ADAM}    optimizer = accelerator.prepare(optimizer)\n" in after
    assert after.count(".prepare(") == 2


def test_an_optimizer_of_both_branches_is_prepared_once_behind_them() -> None:
    chosen = f"if name == 'adam':\n    {ADAM}else:\n    {ADAM.replace('Adam', 'SGD')}"
    after = migrated(f"{HEAD}name = input()\nmodel = nn.Linear(4, 1)\n{chosen}{BY_HAND}")
    assert after.count(f"\n{PREPARE}\n") == after.count(".prepare(") == 1


def test_one_prepare_where_each_round_of_the_loop_needs_the_optimizer() -> None:
    loop = BY_HAND.split("        if name")[0] + "        optimizer.step()\n\n\nrun_epoch(model, 0.1)\n"
    after = migrated(f"{HEAD}name = input()\nmodel = nn.Linear(4, 1)\nif name == 'adam':\n    {ADAM}{loop}")
    assert after.count(f"\n{PREPARE}\n") == after.count(".prepare(") == 1


# Facts, without a rewrite.


def groups(**slots: str) -> list[tuple[str, list[str]]]:
    """After which statement each group is prepared, and what."""
    found = training(**slots).script.preparation.groups
    assert all(isinstance(i, Item) for group in found for i in group.items)
    return [(ast.unparse(g.anchor) if g.anchor else "", [i.text for i in g.items]) for g in found]


@pytest.mark.parametrize(
    "choice",
    [
        "match size:\n    case 4:\n        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    case _:\n"
        "        optimizer = torch.optim.Adam(model.parameters())\n",
        "match size:\n    case 4:\n        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    case _:\n"
        "        raise ValueError(size)\n",
        "with open('log') as log:\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n",
    ],
)
def test_one_prepare_below_cases_and_contexts(choice: str) -> None:
    text = migrated(function(f"model = nn.Linear(4, 1)\n{choice}{TRAIN}"))
    assert text.count(".prepare(") == 1
    assert "    loader, model, optimizer = accelerator.prepare(" in text


def test_what_is_ready_together_is_prepared_together() -> None:
    ((anchor, items),) = groups()
    assert anchor == "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    assert items == ["loader", "model", "optimizer"]


def test_what_is_read_before_the_others_are_ready_is_prepared_first() -> None:
    found = groups(model="steps = len(loader)\n")
    assert [items for _, items in found] == [["loader"], ["model", "optimizer"]]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("x, y = next(iter(loader))\nprint(model(x).shape)\n", [["loader", "model"], ["optimizer"]]),
        ("model = model.float()\nfor x, y in loader: break\nmodel(x[:1])\n", [["loader", "model"], ["optimizer"]]),
        ("x, y = next(iter(loader))\nprint(x.shape)\n", [["loader"], ["model", "optimizer"]]),
        ("def shown():\n    for x, y in loader:\n        model(x)\n", [["loader"], ["model", "optimizer"]]),
    ],
)
def test_a_model_is_prepared_before_it_runs_on_a_batch(model: str, expected: list[list[str]]) -> None:
    assert [items for _, items in groups(model=model)] == expected


def test_what_is_made_later_is_prepared_later() -> None:
    found = groups(set_up="print(model)\nother = DataLoader(rows)\n", end="for z in other: model(z)\n")
    assert all("other" not in items or "other" in anchor for anchor, items in found)


ANEW = """\
model = nn.Linear(4, 1)
loader = DataLoader(data, batch_size=4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(9):
    {condition}:
        optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize("condition", ["if epoch == 5", "if epoch and epoch % 3 == 0", "if model(data[0][0]) > 2"])
def test_what_a_round_makes_anew_is_prepared_where_it_is(condition: str) -> None:
    after = migrated(HEAD + ANEW.format(condition=condition))
    again = [line for line in after.split("\n") if "optimizer = accelerator.prepare(optimizer)" in line]
    assert [line.startswith(" " * 8) for line in again] == [True]


DEMO = """\
x, y = torch.ones(2, 4), torch.ones(2, 1)
model = nn.Linear(4, 1)
nn.functional.mse_loss(model(x), y).backward()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.step()
"""


def test_a_model_is_prepared_before_a_backward_pass_whose_optimizer_comes_later() -> None:
    again = migrated(f"{HEAD}{DEMO}{BUILD}loader = DataLoader(data)\n{TRAIN}")
    lines = [line for line in again.splitlines() if "prepare(" in line or ".step" in line]
    assert lines == [
        "model = accelerator.prepare(model)",
        "optimizer = accelerator.prepare(optimizer)",
        "optimizer.step()",
        "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)",
        "    optimizer.step()",
    ]
    once = migrated(f"{HEAD}{DEMO}loader = DataLoader(data)\n{TRAIN}")
    assert once.count("accelerator.prepare(model)") == 1
    assert once.count("accelerator.prepare(optimizer)") == 1


OTHER = """import torch

def learn(net, loader):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        ((net(x) - y) ** 2).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("more", ["import other\n", "from other import learn\nlearn(nn.Linear(4, 1), loader)\n"])
def test_passes_and_steps_of_another_file_come_between_none_of_this_one(more: str) -> None:
    main = f"{HEAD}loader = DataLoader(data)\n{DEMO}{more}{TRAIN}"
    script = Facts({"main.py": main, "other.py": OTHER}).script
    groups = [(g.anchor, [i.text for i in g.items]) for g in script.preparation.groups]
    anchors = {tuple(names): ast.unparse(anchor) for anchor, names in groups if anchor is not None}
    assert anchors["loader", "model"] == "model = nn.Linear(4, 1)"


TWICE = """\
def build():
    net = nn.Sequential(nn.Linear(4, 1), nn.BatchNorm1d(1))
    return net, torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=4)
{first}
{between}
model, optimizer = build()
"""
STEP = """\
def step(model, x, y, optimizer):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("first", ["model, optimizer = build()", "model, _ = build()", "model = build()[0]"])
@pytest.mark.parametrize(
    ("between", "looked_at"),
    [("print(model)", 0), (STEP, 0), ("x, y = next(iter(loader))\nprint(model(x).shape)", 1)],
)
def test_a_model_made_twice_under_one_name_is_prepared_where_it_is_trained(
    first: str, between: str, looked_at: int
) -> None:
    """And the first one, too, where a batch meets it."""
    train = "for x, y in loader:\n    step(model, x, y, optimizer)\n" if "def step" in between else TRAIN
    after = migrated(HEAD + TWICE.format(first=first, between=between) + train)
    shown, trained = after.split("model, optimizer = build()\n")[-2:]
    assert shown.count("model = accelerator.prepare(") == looked_at
    assert trained.startswith(("model, optimizer = accelerator", "loader, model, optimizer = accelerator")), after


@pytest.mark.parametrize("opened", ["with open('log') as log:", "with torch.autograd.detect_anomaly():", "if size:"])
def test_a_loader_is_prepared_where_its_loop_follows(opened: str) -> None:
    body = indent(f"loader = DataLoader(data, batch_size=size)\n{BUILD}{TRAIN}", "    ")
    text = migrated(f"{HEAD}def run(size):\n    print(size)\n" + indent(f"{opened}\n{body}", "    ") + "run(4)\n")
    assert text.index("prepare(loader, model, optimizer)") < text.index("for x, y in loader")


def test_a_loader_is_prepared_in_the_try_whose_loop_goes_over_it() -> None:
    body = indent(f"loader = DataLoader(data, batch_size=size)\n{TRAIN}", "    ")
    tries = f"{BUILD}try:\n{body}except RuntimeError:\n    loader = DataLoader(data, batch_size=1)\n{TRAIN}"
    text = migrated(f"{HEAD}def run(size):\n    print(size)\n" + indent(tries, "    ") + "run(4)\n")
    assert text.index("loader = accelerator.prepare(loader)") < text.index("for x, y in loader")


@pytest.mark.parametrize("drawn", ["self.apply(draw)", "self.net.apply(draw)", "self.apply(draw)\n        print(self)"])
def test_a_model_is_prepared_below_the_last_draw_of_its_weights(drawn: str) -> None:
    after = migrated(f"""\
import torch
from torch import nn
def draw(part):
    if isinstance(part, nn.Linear): nn.init.normal_(part.weight)
class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        {drawn}
    def step(self, x):
        self.optimizer.zero_grad()
        self.net(x).mean().backward()
        self.optimizer.step()
trainer = Trainer().cuda()
for x in torch.utils.data.DataLoader(torch.randn(8, 4)):
    trainer.step(x.cuda())
""")
    assert after.index("apply(draw)") < after.index("accelerator.prepare(self.net")
