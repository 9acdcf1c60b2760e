"""What is prepared: loaders that generators build, models whose parameters take a roundabout way."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.preparing.preparing import Preparation
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated, run
from tests.codemod.training_scripts import script, training

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
STEP = """\
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
DRAWN = """\
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = {batches}
for i in range(10):
    x, y = next(batches)
    x, y = x.to(device), y.to(device)
"""
GENERATORS = [
    (
        "def feed(size):\n    loader = DataLoader(data, batch_size=size)\n    while True:\n        for b in loader:\n"
        "            yield b\n",
        "iter(feed(4))",
        "loader = accelerator.prepare(loader)",
    ),
    (
        "def feed(size):\n    while True:\n        yield from DataLoader(data, batch_size=size)\n",
        "feed(4)",
        "yield from accelerator.prepare(DataLoader(data, batch_size=size))",
    ),
    (
        "class Feed:\n    def __init__(self, size):\n        self.loader = DataLoader(data, batch_size=size)\n\n"
        "    def forever(self):\n        while True:\n            for b in self.loader:\n                yield b\n",
        "Feed(4).forever()",
        "self.loader = accelerator.prepare(self.loader)",
    ),
]


ASKED = """\
loader = DataLoader(data, batch_size=4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = {batches}
for i in range(10):
    x, y = next(batches)
"""


@pytest.mark.parametrize(
    ("generator", "batches"),
    [
        (
            "def cycle(of):\n    it = iter(of)\n    while True:\n        try:\n            x, y = next(it)\n"
            "        except StopIteration:\n            it = iter(of)\n            x, y = next(it)\n"
            "        yield x, y\n",
            "cycle(loader)",
        ),
        ("def cycle(of):\n    while True:\n        for x, y in of:\n            yield x, y\n", "iter(cycle(loader))"),
        ("def rows():\n    for batch in loader:\n        yield batch[0] * 2, batch[1]\n", "rows()"),
    ],
)
def test_a_loader_is_prepared_from_whose_batches_a_generator_makes_its_own(generator: str, batches: str) -> None:
    result = run(f"{HEAD}\n\n{generator}\n\n{ASKED.format(batches=batches)}{STEP}")
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in result.after.decode()
    assert {note.rule for note in result.notes} == {"batch_size"}


@pytest.mark.parametrize(("generator", "batches", "prepared"), GENERATORS)
def test_a_loader_that_a_generator_builds_is_prepared_there(generator: str, batches: str, prepared: str) -> None:
    after = migrated(f"{HEAD}\n\n{generator}\n\n{DRAWN.format(batches=batches)}{STEP}")
    assert prepared in after
    assert f"batches = {batches}\n" in after
    is_seen = batches == "iter(feed(4))"  # elsewhere nothing says that the generator moves what it yields
    assert ("x, y = x.to(device), y.to(device)" in after) is not is_seen


FOLDS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset
def folds(rows):
    for fold in range(4):
        kept = DataLoader(Subset(rows, range(fold, 8)), batch_size=2)
        yield {given}
class Trainer:
    def __init__(self, model):
        self.model = model.cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def epoch(self, loader):
        for x, y in loader:
            x, y = x.cuda(), y.cuda()
            loss = nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
    def train(self, rows):
        for {target} in folds(rows):
            self.epoch(loader)
        {other}
Trainer(nn.Linear(4, 1)).train(rows)
"""


@pytest.mark.parametrize(
    ("given", "target", "prepared"),
    [
        ("kept", "loader", "kept = accelerator.prepare(kept)"),
        ("DataLoader(rows, batch_size=2)", "loader", "yield accelerator.prepare(DataLoader(rows, batch_size=2))"),
        ("fold, kept", "fold, loader", "kept = accelerator.prepare(kept)"),
    ],
)
@pytest.mark.parametrize("other", ["pass", "self.epoch(DataLoader(rows, batch_size=2))"])
def test_loaders_that_a_generator_yields_are_prepared(given: str, target: str, prepared: str, other: str) -> None:
    after = migrated(FOLDS.format(given=given, target=target, other=other))
    assert prepared.replace("accelerator", "self.accelerator") in after or prepared in after
    assert other == "pass" or "accelerator.prepare(DataLoader(rows, batch_size=2))" in after
    assert "x.cuda()" not in after


NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)

    def trainable(self):
        return {result}

    def forward(self, x):
        return self.b(self.a(x))


loader = DataLoader(data, batch_size=2)
model = Net()
{optimizer}
for x, y in loader:
    x, y = x.to(device), y.to(device)
"""
LEARNED = "[p for p in self.parameters() if p.requires_grad]"
GROUPS = '[{"params": self.a.parameters(), "lr": 0.1}, {"params": self.b.parameters()}]'
SGD = "optimizer = torch.optim.SGD({}, lr=0.1)"
LOOP = "learned = []\nfor part in (model.a, model.b):\n    learned += list(part.parameters())\n"


@pytest.mark.parametrize(
    ("result", "optimizer"),
    [
        (LEARNED, SGD.format("model.trainable()")),
        (GROUPS, SGD.format("model.trainable()")),
        ("filter(lambda p: p.requires_grad, self.parameters())", SGD.format("list(model.trainable())")),
        (LEARNED, SGD.format("filter(lambda p: p.requires_grad, model.parameters())")),
        (LEARNED, LOOP + SGD.format("learned")),
    ],
)
def test_a_model_is_known_by_its_parameters(result: str, optimizer: str) -> None:
    after = migrated(HEAD + "\n\n" + NET.format(result=result, optimizer=optimizer) + STEP)
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in after


# Facts, without a rewrite.


def preparation(**slots: str) -> Preparation:
    return training(**slots).script.preparation


def test_what_is_prepared() -> None:
    found = preparation()
    assert {(i.kind, i.text) for i in found.items} == {
        ("loader", "loader"),
        ("model", "model"),
        ("optimizer", "optimizer"),
    }
    assert found.has_model
    assert found.trains_something
    assert not found.obstacles
    assert not found.sharded


def test_batches_of_the_script_s_own_are_sharded() -> None:
    found = Facts(script().replace("for x, y in loader:", "for x, y in batches():")).script.preparation
    assert [kind.kind for kind, _ in found.sharded] == ["sequence"]


def test_models_that_no_optimizer_steps_are_not_prepared() -> None:
    found = preparation(before="other = nn.Linear(1, 1)\n")
    assert "other" not in {i.text for i in found.items}


FROZEN = """\
def evaluated(net):
    return net.eval()
encoder = nn.Sequential(nn.Linear(4, 4), nn.{layer}(4))
for weight in encoder.parameters():
    weight.requires_grad = False
"""


@pytest.mark.parametrize(
    ("layer", "modes", "is_prepared"),
    [
        ("BatchNorm1d", ("encoder.train()", "encoder.eval()"), True),
        ("BatchNorm1d", ("encoder.train(True)", "encoder.train(False)\nencoder.eval()"), True),
        ("BatchNorm1d", ("encoder.eval()", "encoder.eval()"), False),
        ("BatchNorm1d", ("encoder.train()", "torch.save(encoder.state_dict(), 'encoder.pth')"), True),
        ("BatchNorm1d", ("encoder.train()", "print(encoder)"), False),
        ("LayerNorm", ("encoder.train()", "encoder.eval()"), False),
        ("BatchNorm1d", ("pass", "encoder.eval()"), True),
        ("BatchNorm1d", ("pass", "shown = evaluated(encoder)"), True),
        ("BatchNorm1d", ("pass", "torch.save(encoder.state_dict(), 'encoder.pth')"), True),
        ("BatchNorm1d", ("evaluated(encoder)", "torch.save(encoder.state_dict(), 'encoder.pth')"), False),
        ("BatchNorm1d", ("pass", "print(encoder)"), False),
        ("LayerNorm", ("pass", "encoder.eval()"), False),
    ],
)
def test_a_frozen_model_whose_statistics_change_is_prepared(
    layer: str, modes: tuple[str, str], is_prepared: bool
) -> None:
    step = (
        "loss = nn.functional.mse_loss(model(encoder(x)), y)\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()"
    )
    facts = training(before=FROZEN.format(layer=layer), epoch=modes[0], step=step, end=f"{modes[1]}\nencoder(rows)")
    assert ("encoder" in [i.text for i in facts.script.preparation.items]) is is_prepared


TEACHER = """\
def build():
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
def shown(net):
    net.eval()
    print(net(data[0][0][None]))
{made}
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for epoch in range(2):
    student.train(); {mode}
    for x, y in DataLoader(data, batch_size=2):
        loss = nn.functional.mse_loss(student(x), teacher(x).detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    shown(teacher); shown(student)
"""


@pytest.mark.parametrize(
    "made",
    [
        "student, teacher = build(), build()",
        "student = build()\nteacher = build()\nteacher.load_state_dict(student.state_dict())",
        "from copy import deepcopy\nstudent = build()\nteacher = deepcopy(student)",
    ],
)
def test_a_teacher_made_as_its_student_is_prepared_where_its_statistics_change(made: str) -> None:
    after = migrated(HEAD + TEACHER.format(made=made, mode="teacher.train()"))
    (prepared,) = [line for line in after.splitlines() if ".prepare(student" in line or ".prepare(teacher" in line]
    assert sorted(prepared.split(" = ")[0].split(", ")) == ["optimizer", "student", "teacher"]
    after = migrated(HEAD + TEACHER.format(made=made, mode="teacher.eval()"))
    assert "student, optimizer = accelerator.prepare(student, optimizer)" in after


def test_another_name_of_a_prepared_model_is_not_prepared() -> None:
    after = migrated(HEAD + TEACHER.format(made="student = build()\nteacher = student", mode="teacher.train()"))
    assert "student, optimizer = accelerator.prepare(student, optimizer)" in after


AVERAGED = """\
from torch.optim.swa_utils import AveragedModel, update_bn
model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
average = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=2)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    average.update_parameters(model)
{call}
"""


@pytest.mark.parametrize(
    ("call", "is_prepared"),
    [
        ("update_bn(loader, average)", True),
        ("torch.optim.swa_utils.update_bn(model=average, loader=loader, device='cpu')", True),
        ("net = average\nupdate_bn(loader, net)", True),
        ("update_bn(DataLoader(data), average)", False),
        ("average.eval()", False),
    ],
)
def test_an_average_whose_statistics_come_from_a_prepared_loader_is_prepared(call: str, is_prepared: bool) -> None:
    found = Facts(HEAD + AVERAGED.format(call=call)).script.preparation.items
    assert ("average" in [item.text for item in found]) is is_prepared


def test_a_loader_without_a_name_is_wrapped() -> None:
    found = Facts(script().replace("for x, y in loader:", "for x, y in DataLoader(rows):")).script.preparation
    assert [(kind, ast.unparse(node)) for kind, node in found.wrapped] == [("loader", "DataLoader(rows)")]


SEVERAL = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn, self.out = nn.BatchNorm1d(4), nn.Linear(4, 1)
    def forward(self, x):
        return self.out(self.bn(x))
{models}
for x, y in DataLoader(data, batch_size=2):
    x, y = x.to(device), y.to(device)
    loss = {loss}
    loss.backward()
    {step}
"""


@pytest.mark.parametrize(
    ("models", "loss", "step", "prepared"),
    [
        (
            "nets = [nn.Linear(4, 1) for _ in range(3)]\n"
            "o = torch.optim.SGD([p for n in nets for p in n.parameters()])",
            "sum((n(x) - y).mean() for n in nets)",
            "o.step()",
            ["[accelerator.prepare(nn.Linear(4, 1)) for _ in range(3)]"],
        ),
        (
            "nets = {'a': nn.Linear(4, 1), 'b': nn.Linear(4, 1)}\ngiven = []\nfor n in nets.values():\n"
            "    given += list(n.parameters())\no = torch.optim.SGD(given)",
            "sum((n(x) - y).mean() for n in nets.values())",
            "o.step()",
            ["{'a': accelerator.prepare(nn.Linear(4, 1)), 'b': accelerator.prepare(nn.Linear(4, 1))}"],
        ),
        (
            "g, d = Net(), nn.Linear(1, 1)\n"
            "os = {'g': torch.optim.SGD(g.parameters()), 'd': torch.optim.SGD(d.parameters())}",
            "(d(g(x)) - y).mean()",
            "os['g'].step(); os['d'].step()",
            ["g, d = accelerator.prepare(g, d)"],
        ),
        (
            "nets, target = [Net() for _ in range(2)], Net()\nos = [torch.optim.SGD(n.parameters()) for n in nets]",
            "sum((n(x) - target(x)).mean() for n in nets)",
            "[o.step() for o in os]",
            ["[accelerator.prepare(Net()) for _ in range(2)], accelerator.prepare(Net())"],
        ),
    ],
)
def test_models_in_containers(models: str, loss: str, step: str, prepared: list[str]) -> None:
    text = migrated(HEAD + SEVERAL.format(models=models, loss=loss, step=step))
    assert all(line in text for line in prepared), text
    assert "prepare(n, " not in text
    assert ", n, " not in text


GIVEN = """\
def rows(batches):
    for b in batches:
        yield b
def endless(batches):
    while True:
        for b in batches:
            yield b
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train_loader, test_loader = DataLoader(data), DataLoader(data)
{0}
"""
TRAINED = [
    "for x, y in rows(train_loader):\n" + STEP + "for x, y in rows(test_loader):\n    print(model(x))\n",
    "given = rows(train_loader)\nfor x, y in given:\n" + STEP + "print([model(x) for x, _ in rows(test_loader)])\n",
    "feed, other = endless(train_loader), endless(test_loader)\nfor i in range(3):\n    x, y = next(feed)\n"
    + STEP
    + "print(next(other))\n",
]


@pytest.mark.parametrize("trained", TRAINED)
def test_of_the_loaders_that_a_generator_is_given_the_one_that_is_trained_on(trained: str) -> None:
    items = Facts(HEAD + GIVEN.format(trained)).script.preparation.items
    assert [i.text for i in items if i.kind == "loader"] == ["train_loader"]


MIXED = """\
def endless(batches):
    while True:
        yield from batches
def again(batches):
    while True:
        for b in batches:
            yield b
def make(data):
    return endless(DataLoader(data))
def make_again(data):
    return again(DataLoader(data))
def make_with_length(data):
    return endless(DataLoader(data)), 3
def make_either(data):
    if large:
        first = DataLoader(data)
        return endless(first)
    return endless(DataLoader(data))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
first = DataLoader(data)
{0}
for i in range(3):
    x, y = next(feed)
"""
BRANCHES = "if large:\n    feed = endless(first)\nelse:\n    {0}"
INSIDE = "    return {}(accelerator.prepare(DataLoader(data)))"


@pytest.mark.parametrize(
    ("feed", "prepared"),
    [
        (BRANCHES.format("feed = make(data)"), INSIDE.format("endless")),
        (BRANCHES.format("batches = make(data)\n    feed = batches"), INSIDE.format("endless")),
        (BRANCHES.format("feed = make_again(data)"), INSIDE.format("again")),
        (BRANCHES.format("feed, n = make_with_length(data)"), f"{INSIDE.format('endless')}, 3"),
        ("feed = endless(first) if large else make(data)", INSIDE.format("endless")),
        (BRANCHES.format("feed = iter(DataLoader(data))"), "    feed = iter(accelerator.prepare(DataLoader(data)))"),
        (BRANCHES.format("feed = endless(DataLoader(data))"), "endless(accelerator.prepare(DataLoader(data)))"),
    ],
)
def test_each_loader_of_a_loop_is_prepared_also_inside_what_makes_a_generator(feed: str, prepared: str) -> None:
    text = migrated(HEAD + MIXED.format(feed) + STEP)
    assert prepared in text
    assert "accelerator.prepare(first" in text


def test_all_loaders_that_a_helper_may_make_a_generator_of_are_prepared() -> None:
    text = migrated(HEAD + MIXED.format("feed = make_either(data)") + STEP)
    assert "        first = accelerator.prepare(first)\n        return endless(first)\n" in text
    assert INSIDE.format("endless") in text


@pytest.mark.parametrize("other", ["other = make_again(data)", "other = iter(DataLoader(data))"])
def test_of_several_generators_the_one_that_is_not_trained_on_is_left(other: str) -> None:
    made = BRANCHES.format("feed = make(data)")
    text = migrated(HEAD + MIXED.format(f"{made}\n{other}") + STEP + "print(next(other))\n")
    assert INSIDE.format("endless") in text
    assert text.count("accelerator.prepare(DataLoader(data))") == 1, text


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("net = Net()\ntrain(loader, net, SGD(net.parameters()))\n", "net = Net()"),
        ("net = Net()\nwith ctx():\n    train(loader, net, SGD(net.parameters()))\n", "net = Net()"),
        ("net = Net()\nif x:\n    net.a = 1\n    train(loader, net, SGD(net.parameters()))\n", "net.a = 1"),
    ],
)
def test_a_model_is_prepared_before_the_call_that_makes_its_optimizer_and_trains(body: str, after: str) -> None:
    """After that call, the model would have been trained unprepared: on the CPU, and by each process alone."""
    head = (
        "from torch.optim import SGD\nfrom torch.nn import Linear as Net\nfrom torch.utils.data import DataLoader\n"
        "def train(loader, net, opt):\n    for x in loader:\n        opt.zero_grad()\n        net(x).sum().backward()\n"
        "        opt.step()\n"
    )
    found = Facts(f"{head}loader = DataLoader(rows)\n{body}").script.preparation
    (group,) = (g for g in found.groups if any(i.kind == "model" for i in g.items))
    assert group.anchor is not None
    assert ast.unparse(group.anchor) == after


def test_a_part_of_a_model_that_is_prepared_is_not_prepared_beside_it() -> None:
    model = "model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))\nif x:\n    model[1] = nn.Linear(4, 2)"
    groups = "[{'params': model[1].parameters(), 'lr': 1.0}] if x else model.parameters()"
    optimizer = f"{model}\noptimizer = torch.optim.SGD({groups}, lr=0.1)"
    found = Facts(script().replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", optimizer))
    assert [i.text for i in found.script.preparation.items if i.kind == "model"] == ["model"]


WRAPPER = """\
class Wrapper(torch.optim.Optimizer):
    def __init__(self, {parameters}):
        {made}

    def {step}(self):
        self.inner.step()

model = nn.Linear(4, 1).to(device)
{optimizer}
for x, y in DataLoader(data, batch_size=2):
    x, y = x.to(device), y.to(device)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.{step}()
"""
OF_BASE = "super().__init__(parameters, {}); self.inner = torch.optim.SGD(self.param_groups, lr=0.1)"


@pytest.mark.parametrize(
    ("parameters", "made", "optimizer"),
    [
        ("inner", "self.inner = inner", "base = torch.optim.SGD(model.parameters())\noptimizer = Wrapper(base)"),
        ("inner", "self.inner = inner", "optimizer = Wrapper(torch.optim.SGD(model.parameters()))"),
        ("parameters", OF_BASE, "optimizer = Wrapper(model.parameters())"),
    ],
)
def test_of_an_optimizer_that_wraps_another_the_outer_one_is_prepared(
    parameters: str, made: str, optimizer: str
) -> None:
    after = migrated(HEAD + WRAPPER.format(parameters=parameters, made=made, optimizer=optimizer, step="step"))
    assert "\nmodel, optimizer = accelerator.prepare(model, optimizer)\n" in after
    assert after.count("prepare(") == 2  # and the loader


def test_an_optimizer_that_a_wrapper_steps_by_another_name_is_prepared_with_the_wrapper_s_models() -> None:
    optimizer = "optimizer = Wrapper(model.parameters())"
    after = migrated(
        HEAD + WRAPPER.format(parameters="parameters", made=OF_BASE, optimizer=optimizer, step="second_step")
    )
    assert "self.inner = accelerator.prepare(self.inner)" in after
    assert "\nmodel = accelerator.prepare(model)\n" in after


AMONG = """\
import torch
from sklearn.svm import SVC
from torch import nn
from xgboost import XGBClassifier
x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
{models}
    if isinstance(model, nn.Module):
        optimizer = torch.optim.Adam(model.parameters())
        for epoch in range(2):
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    else:
        model.fit(x.numpy(), y.numpy())
"""
BESIDE = "        model, optimizer = accelerator.prepare(model, optimizer)"


@pytest.mark.parametrize(
    ("models", "prepared"),
    [
        (
            "for model in [nn.Linear(4, 2), SVC()]:",
            "for model in [accelerator.prepare(nn.Linear(4, 2)), SVC()]:",
        ),
        (
            "net, other = nn.Linear(4, 2), XGBClassifier()\nfor model in (net, other):",
            "        net, optimizer = accelerator.prepare(net, optimizer)",
        ),
        (
            "models = {'net': nn.Linear(4, 2), 'svm': SVC()}\nfor name in models:\n    model = models[name]",
            BESIDE,
        ),
        (
            "def make(name): return nn.Linear(4, 2) if name == 'net' else SVC()\n"
            "for name in ['net', 'svm']:\n    model = make(name)",
            BESIDE,
        ),
        ("def fit(model):", BESIDE),
    ],
)
def test_what_learns_from_arrays_beside_networks_is_not_prepared(models: str, prepared: str) -> None:
    calls = "for each in [nn.Linear(4, 2), SVC()]:\n    fit(each)\n" if models.startswith("def fit") else ""
    after = migrated(AMONG.format(models=models) + calls)
    assert prepared in after.splitlines()
    assert after.count("prepare(") == 1 + ("Linear(4, 2))," in prepared)


OF_A_LIBRARY = """\
from somewhere import build
model = build(){then}
model.to(device)
optimizer = {optimizer}
for epoch in range(2):
    model.train()
    for x, y in DataLoader(data, batch_size=4):
        x, y = x.to(device), y.to(device)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    print(model(data[0][0].to(device)))
"""


@pytest.mark.parametrize(
    "given",
    [
        "model.fc.parameters()",
        "model.classifier[6].parameters()",
        "model.get_classifier().parameters()",
        "getattr(model, 'fc').parameters()",
        "filter(lambda p: p.requires_grad, model.fc.parameters())",
        "[p for n, p in model.fc.named_parameters() if 'bias' not in n]",
        "[{'params': model.fc.parameters()}, {'params': model.body.parameters(), 'lr': 0.1}]",
        "[model.fc.weight, model.fc.bias]",
        "model.trainable()",
    ],
)
def test_a_network_of_unknown_make_is_prepared_whole_though_only_a_part_is_trained(given: str) -> None:
    """Its statistics follow each process's own batches otherwise."""
    after = migrated(HEAD + OF_A_LIBRARY.format(then="", optimizer=f"torch.optim.SGD({given}, lr=0.01)"))
    assert "\nmodel, optimizer = accelerator.prepare(model, optimizer)\n" in after, after


@pytest.mark.parametrize("then", ["\nhead = model.fc", "\nhead = nn.Linear(4, 1)\nmodel.fc = head"])
def test_a_network_of_unknown_make_is_prepared_beside_its_part_with_a_name(then: str) -> None:
    after = migrated(HEAD + OF_A_LIBRARY.format(then=then, optimizer="torch.optim.SGD(head.parameters(), lr=0.01)"))
    assert "\nmodel, head, optimizer = accelerator.prepare(model, head, optimizer)\n" in after, after


HANDED = """\
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
first = torch.optim.SGD(model[0].parameters(), lr=0.1)
second = torch.optim.SGD(model[1].parameters(), lr=0.1)
def run(optimizers):
    for x, y in DataLoader(data, batch_size=2):
        for o in optimizers:
            o.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        for o in optimizers:
            o.step()
{calls}
"""


@pytest.mark.parametrize(
    "calls",
    [
        "run([first, second])",
        "run([first])\nrun([second])",
        "run((first, second))",
        "both = [first, second]\nrun(both)",
    ],
)
def test_optimizers_that_a_list_gets_later_are_prepared_by_their_names(calls: str) -> None:
    after = migrated(HEAD + HANDED.format(calls=calls))
    assert "\nmodel, first, second = accelerator.prepare(model, first, second)\n" in after, after


OWN = """\
import sys
class Own:
    def draw(self):
        return torch.randn(2, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
is_own = len(sys.argv) > 1
{made}
for epoch in range(2):
    x = {source}.draw() if is_own else next(iter({source}))[0]
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOADER = "DataLoader(data, batch_size=2)"


@pytest.mark.parametrize(
    ("made", "prepared"),
    [
        (f"if is_own:\n    s = Own()\nelse:\n    s = {LOADER}", f"s = {LOADER}\n    s = accelerator.prepare(s)"),
        (f"s = Own()\nif not is_own:\n    s = {LOADER}", f"s = {LOADER}\n    s = accelerator.prepare(s)"),
        (f"s = Own() if is_own else {LOADER}", f"s = Own() if is_own else accelerator.prepare({LOADER})"),
        (
            f"def make():\n    if is_own:\n        return Own()\n    return {LOADER}\ns = make()",
            f"return accelerator.prepare({LOADER})",
        ),
    ],
)
def test_what_is_a_loader_at_times_is_prepared_where_it_is_made(made: str, prepared: str) -> None:
    after = migrated(HEAD + OWN.format(made=made, source="s"))
    assert prepared in after
    assert after.count("accelerator.prepare(") == 2
    assert "model, optimizer = accelerator.prepare(model, optimizer)" in after


def test_an_agent_that_gives_its_parts_parameters_is_not_prepared_itself() -> None:
    agent = """\
class Agent:
    def __init__(self):
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 1)
    def parameters(self):
        return [*self.body.parameters(), *self.head.parameters()]
    def __call__(self, x):
        return self.head(self.body(x))
loader = DataLoader(data, batch_size=2)
model = Agent()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
"""
    after = migrated(HEAD + agent + STEP)
    assert "loader, optimizer = accelerator.prepare(loader, optimizer)" in after
    assert after.count("accelerator.prepare(nn.Linear") == 2


def test_tensors_that_had_a_model_s_name_before_it_are_trained_whole() -> None:
    text = """\
class Tensors:
    def __init__(self):
        self.w = torch.zeros(4, 1, requires_grad=True)
    def __call__(self, x):
        return x @ self.w
def batches():
    for i in range(0, 8, 2):
        yield data[i : i + 2]
model = Tensors()
for x, y in batches():
    nn.functional.mse_loss(model(x), y).backward()
    with torch.no_grad():
        model.w -= 0.1 * model.w.grad
        model.w.grad.zero_()
model = nn.Linear(4, 1)
for x, y in batches():
    nn.functional.mse_loss(model(x), y).backward()
    for p in model.parameters():
        p.data -= 0.1 * p.grad
    model.zero_grad()
"""
    after = migrated(HEAD + text)
    assert "model = Tensors()\nfor x, y in batches():" in after
    assert "model = nn.Linear(4, 1)\nmodel = accelerator.prepare(model)\n" in after
    assert "for x, y in accelerator.shard(batches()):\n" in after


@pytest.mark.parametrize("record", ["class State(NamedTuple):", "@dataclass(frozen=True)\nclass State:"])
def test_a_field_that_cannot_be_assigned_is_prepared_in_place(record: str) -> None:
    text = f"""\
from dataclasses import dataclass
from typing import NamedTuple
{record}
    model: nn.Module
    loader: DataLoader
state = State(nn.Linear(4, 1), DataLoader(data, batch_size=2))
optimizer = torch.optim.SGD(state.model.parameters(), lr=0.1)
for x, y in state.loader:
{STEP.replace("model(x", "state.model(x")}"""
    after = migrated(HEAD + text)
    assert "state = State(nn.Linear(4, 1), accelerator.prepare(DataLoader(data, batch_size=2)))" in after
    assert "accelerator.prepare(state.model)\n" in after
    assert "optimizer = accelerator.prepare(optimizer)" in after
    assert "state.model = " not in after


ON_ONE_LINE = """\
import torch
def train(data, model, optimizer):
    for x in data.split(8):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
def main():
    model = torch.nn.Linear(4, 1)
    {line}
main()
"""


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("model = model.cuda(); train(data, model, torch.optim.SGD(model.parameters()))", "train("),
        ("model.cuda(); optimizer = torch.optim.SGD(model.parameters()); train(data, model, optimizer)", "train("),
        ("optimizer = torch.optim.SGD(model.parameters()); model.cuda(); train(data, model, optimizer)", "train("),
        ("model.cuda(); optimizer = torch.optim.SGD(model.parameters())\n    train(data, model, optimizer)", "train("),
    ],
)
def test_what_a_line_makes_and_trains_is_prepared_between(line: str, first: str) -> None:
    after = migrated(ON_ONE_LINE.format(line=f"data = torch.randn(64, 4).cuda()\n    {line}")).partition("def main")[2]
    assert "accelerator.prepare(" in after.partition(first)[0]
    assert "prepare(model" not in after.partition(first)[2]


BOUND_AGAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, items):
        self.rows = []
        for item in items:
            self.rows.append(torch.tensor(item))


model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train():
    for batch in rows:
        loss = model(batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
{bound}
    for _ in range(3):
        train()
"""
IN_AN_OBJECT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, path):
{bound}
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self):
        for batch in self.rows:
            loss = self.model(batch).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


Trainer("rows.pt").run()
"""


@pytest.mark.parametrize(
    ("text", "bound", "loaders"),
    [
        (BOUND_AGAIN, ["rows = torch.load('rows.pt')", "rows = DataLoader(Rows(rows))"], [2]),
        (BOUND_AGAIN, ["held, rows = split(torch.load('rows.pt'))", "rows = DataLoader(Rows(rows[4:]))"], [2]),
        (BOUND_AGAIN, ["rows = [[1.0]]", "rows = Rows(rows)", "rows = DataLoader(rows)"], [3]),
        (BOUND_AGAIN, ["with open('rows') as f: rows = f.read()", "rows = DataLoader(Rows(rows))"], [2]),
        (BOUND_AGAIN, ["rows = DataLoader(Rows([[1.0]]))", "train()", "rows = DataLoader(Rows([[2.0]]))"], [1, 3]),
        (IN_AN_OBJECT, ["self.rows = torch.load(path)", "self.rows = DataLoader(self.rows)"], [2]),
        (IN_AN_OBJECT, ["self.rows = [[1.0]]", "self.rows += [[2.0]]", "self.rows = DataLoader(self.rows)"], [3]),
    ],
)
def test_a_name_of_data_that_a_loader_gets_next(text: str, bound: list[str], loaders: list[int]) -> None:
    indent = " " * (4 if text is BOUND_AGAIN else 8)
    text = text.format(bound="\n".join(indent + line for line in bound))
    facts = Facts(text)
    assert facts.verdict.script is not None
    items = [i for i in facts.verdict.script.preparation.items if i.kind == "loader"]
    first = text.split("\n").index(indent + bound[0])
    assert [i.statement.lineno - first for i in items if i.statement is not None] == loaders
    assert "self.rows" not in " ".join(n.message for n in run(text).notes)
