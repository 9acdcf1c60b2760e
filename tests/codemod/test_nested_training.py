"""Optimizers over what each batch makes for itself: they stay as they are within a training, or nothing is migrated."""

from __future__ import annotations

import re
from textwrap import indent

import pytest

from tests.codemod.pairs import left_alone, migrated

HEAD = """\
import copy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 4)), batch_size=2)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
OUTER = """\
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x + delta.detach()), y)
    loss.backward()
    optimizer.step()
"""
ATTACK = """\
delta = torch.zeros_like(x, requires_grad=True)
inner = torch.optim.SGD([delta], lr=0.1)
for _ in range(3):
    inner.zero_grad()
    (-nn.functional.mse_loss(model(x + delta), y)).backward()
    inner.step()
"""
PREPARED = "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)\n"


def outcome(text: str) -> str:
    """What comes out, where the weights alone are prepared and have the only pass through the accelerator."""
    after = migrated(text)
    assert PREPARED in after
    assert "accelerator.backward(loss)" in after
    assert (after.count("accelerator.prepare("), after.count("accelerator.backward(")) == (1, 1)
    return after


def test_a_perturbation_of_the_batch_keeps_its_optimizer() -> None:
    assert "(-nn.functional.mse_loss(model(x + delta), y)).backward()" in outcome(
        f"{HEAD}for x, y in loader:\n{indent(ATTACK, '    ')}{OUTER}"
    )


@pytest.mark.parametrize(
    "made",
    [
        "delta = x.clone().requires_grad_(True)",
        "delta = torch.rand_like(x)\n    delta.requires_grad_()",
        "delta = torch.autograd.Variable((0.001 * torch.randn_like(x)).data, requires_grad=True)",
    ],
)
def test_within_a_function(made: str) -> None:
    attack = indent(ATTACK.split("\n", 1)[1], "    ")
    text = f"{HEAD}def perturbed(model, x, y):\n    {made}\n{attack}    return delta\n"
    outcome(f"{text}for x, y in loader:\n    delta = perturbed(model, x, y)\n{OUTER}")


@pytest.mark.parametrize("given", ["", ", norm='l_2'", ", norm=NORM"])
def test_within_a_branch_that_the_call_may_not_choose(given: str) -> None:
    attack = indent(ATTACK, "        ")
    text = f"{HEAD}NORM = 'l_inf'\ndef perturbed(model, x, y, norm='l_inf'):\n    delta = 0.1 * torch.sign(x)\n"
    text += f"    if norm == 'l_2':\n{attack}    return delta\n"
    outcome(f"{text}for x, y in loader:\n    delta = perturbed(model, x, y{given})\n{OUTER}")


def test_within_a_method() -> None:
    attack = indent(ATTACK.replace("model(", "self.model("), "        ")
    text = f"class Attack:\n    def __init__(self, model): self.model = model\n    def run(self, x, y):\n{attack}"
    text = f"{HEAD}{text}        return delta\nattack = Attack(model)\n"
    outcome(f"{text}for x, y in loader:\n    delta = attack.run(x, y)\n{OUTER}")


def test_a_network_that_each_batch_makes() -> None:
    inner = ATTACK.replace("delta = torch.zeros_like(x, requires_grad=True)", "probe = copy.deepcopy(model)")
    inner = inner.replace("[delta]", "probe.parameters()").replace("model(x + delta)", "probe(x)")
    outcome(f"{HEAD}for x, y in loader:\n{indent(inner, '    ')}    delta = probe(x)\n{OUTER}")


def test_a_perturbation_of_all_batches_is_prepared() -> None:
    delta, inner, *loop = ATTACK.splitlines(keepends=True)
    delta = delta.replace("zeros_like(x, ", "zeros(4, ")
    text = migrated(f"{HEAD}{delta}{inner}for x, y in loader:\n{indent(''.join(loop), '    ')}{OUTER}")
    assert "accelerator.prepare(loader, model, optimizer, inner)" in text


def test_an_optimizer_made_for_each_epoch_is_prepared() -> None:
    text = """\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        model = nn.Linear(4, 4)
        def train():
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for (x,) in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        for epoch in range(2):
            train()
        """
    assert "optimizer = accelerator.prepare(optimizer)" in migrated(text)


def test_where_nothing_else_is_trained_there_is_nothing_to_share() -> None:
    head = HEAD.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "")
    left_alone(f"{head}for x, y in loader:\n{indent(ATTACK, '    ')}    print(delta)\n", "created anew for each batch")


def test_gradients_for_another_model_that_are_set_by_hand() -> None:
    by_hand = "    for p in model.parameters():\n        p.grad = delta.mean()\n    optimizer.step()\n"
    left_alone(f"{HEAD}for x, y in loader:\n{indent(ATTACK, '    ')}{by_hand}", "created anew for each batch")


def test_one_backward_pass_for_both() -> None:
    both = ATTACK.replace("inner.step()", "inner.step()\n    optimizer.step()")
    left_alone(
        f"{HEAD}for x, y in loader:\n{indent(both, '    ')}", "and parameters that are created anew for each batch"
    )


ADAPT = """\
def adapt(model, x, y):
    head = nn.Linear(4, 4)
    inner = torch.optim.SGD(head.parameters(), lr=0.1)
    for i in range(0, len(x), 4):
        inner.zero_grad()
        nn.functional.mse_loss(head(model(x[i:i + 4]).detach()), y[i:i + 4]).backward()
        inner.step()
    return head
"""
TRAINING = f"for x, y in loader:\n{OUTER.replace(' + delta.detach()', '')}"


@pytest.mark.parametrize(
    "calls",
    [
        "",
        "for _ in range(9):\n    rows = torch.randperm(8)[:4]\n    adapt(model, inputs[rows], targets[rows])\n",
        "def score(tasks):\n    x, y = random.choice(tasks)\n    return adapt(model, x, y)(x)\n"
        "print([score(tasks) for _ in range(9)])\n",
    ],
)
def test_what_a_call_trains_for_the_data_that_it_is_given(calls: str) -> None:
    text = f"import random\n{HEAD}{ADAPT}{TRAINING}{calls}"
    after = outcome(text)
    assert "y[i:i + 4]).backward()" in after
    assert "shard" not in after
    assert "seed_by_rank" not in after


def test_where_a_call_is_a_stage_of_the_training() -> None:
    text = f"{HEAD}{ADAPT}{TRAINING}adapt(model, inputs, targets)\n"
    assert "    head, inner = accelerator.prepare(head, inner)\n" in migrated(text)


def test_where_only_calls_on_data_drawn_for_them_train() -> None:
    drawn = ADAPT.replace("i in range(0, len(x), 4):", "_ in range(9):\n        i = random.randrange(len(x))")
    head = HEAD.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "")
    calls = "for _ in range(9):\n    rows = torch.randperm(8)[:4]\n    adapt(model, inputs[rows], targets[rows])\n"
    after = migrated(f"import random\n{head}{drawn}{calls}")
    assert "shard" not in after
    assert "seed_by_rank" not in after


# Rounds that train networks of their own, or weights that they put back: gradients of several are not averaged.

TASKS = """\
import copy
import random
import torch
from torch import nn
class Task:
    def __init__(self):
        self.x, self.y = torch.randn(8, 4), torch.randn(8, 4)
tasks, others = [Task() for _ in range(8)], [Task() for _ in range(6)]
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def fit(net, x, y, optimizer):
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LASTING = "for epoch in range(2):\n    for task in tasks:\n        fit(net, task.x, task.y, optimizer)\n"
OWN = """\
    own = copy.deepcopy(net)
    inner = torch.optim.SGD(own.parameters(), lr=0.1)
    for _ in range(5):
        fit(own, task.x, task.y, inner)
"""
CLASS = """\
class Learner:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    def learn(self, task):
        loss = nn.functional.mse_loss(self.net(task.x), task.y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
base = Learner(nn.Linear(4, 4))
for epoch in range(2):
    for task in tasks:
        base.learn(task)
for task in others:
    own = Learner(copy.deepcopy(base.net))
    own.learn(task)
"""
FUNCTION = f"def adapted(net, task):\n{OWN}    return own(task.x).mean().item()\n"
LOADED = OWN.replace("copy.deepcopy(net)", "nn.Linear(4, 4)\n    own.load_state_dict(net.state_dict())")
RESET = """\
    net.load_state_dict(saved)
    inner = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        fit(net, task.x, task.y, inner)
"""


@pytest.mark.parametrize(
    "adaptation",
    [
        f"{LASTING}for task in others:\n{OWN}",
        f"{LASTING}for i in range(len(others)):\n    task = others[i]\n{LOADED}",
        f"{FUNCTION}{LASTING}for task in others:\n    print(adapted(net, task))\n",
        f"{FUNCTION}for epoch in range(2):\n    for task in tasks:\n        fit(net, task.x, task.y, optimizer)\n"
        "    for task in others:\n        print(adapted(net, task))\n",
        CLASS,
        f"{LASTING}saved = copy.deepcopy(net.state_dict())\nfor task in others:\n{RESET}",
    ],
)
def test_items_that_the_step_of_a_training_adapts_to(adaptation: str) -> None:
    after = migrated(TASKS + adaptation)
    assert "for task in accelerator.shard(tasks):" in after
    assert after.count("shard(") == 1


@pytest.mark.parametrize(
    "rounds",
    [
        f"saved = copy.deepcopy(net.state_dict())\nfor task in tasks:\n{RESET}",
        "for task in tasks:\n    before = copy.deepcopy(net.state_dict())\n    for _ in range(5):\n"
        "        fit(net, task.x, task.y, optimizer)\n    after = net.state_dict()\n"
        "    net.load_state_dict({k: 0.9 * before[k] + 0.1 * after[k] for k in before})\n",
        "def begin(layer):\n    if isinstance(layer, nn.Linear): layer.reset_parameters()\n"
        f"for task in tasks:\n{RESET.replace('load_state_dict(saved)', 'apply(begin)')}",
        "def begin(model):\n    nn.init.normal_(model.weight)\n"
        f"for task in tasks:\n{RESET.replace('net.load_state_dict(saved)', 'begin(net)')}",
        "def restore(model):\n    model.load_state_dict(torch.load('first.pt'))\n"
        f"for task in tasks:\n{RESET.replace('net.load_state_dict(saved)', 'restore(net)')}",
    ],
)
def test_rounds_that_put_weights_back(rounds: str) -> None:
    assert "shard(" not in migrated(TASKS + rounds)


@pytest.mark.parametrize(
    "line",
    [
        "if worse(net): net.load_state_dict(saved)",
        "other.load_state_dict(net.state_dict())",
        "saved = copy.deepcopy(net.state_dict())",
    ],
)
def test_rounds_that_go_on_with_the_weights_are_sharded(line: str) -> None:
    other = "other = nn.Linear(4, 4)\nsaved = net.state_dict()\n"
    rounds = f"for task in tasks:\n    {line}\n    fit(net, task.x, task.y, optimizer)\n"
    assert "for task in accelerator.shard(tasks):" in migrated(TASKS + other + rounds)


STEPS = OWN.replace("fit(own, task.x, task.y, inner)", "rows = torch.randint(8, (4,))\n{}")
STEPS = STEPS.format("        fit(own, task.x[rows], task.y[rows], inner)")


@pytest.mark.parametrize(
    ("drawn", "is_by_rank"),
    [
        ("task = random.choice(tasks)", False),
        ("task = tasks[torch.randint(8, ())]", False),
        ("torch.manual_seed(k); task = random.choice(tasks)", True),
        ("task = tasks[0]", True),
    ],
)
def test_rounds_that_draw_what_they_train_on(drawn: str, is_by_rank: bool) -> None:
    after = migrated(f"{TASKS}for k in range(9):\n    {drawn}\n{STEPS}")
    assert ("seed_by_rank" in after) is is_by_rank


@pytest.mark.parametrize(
    ("chosen", "is_by_rank"),
    [("random.sample(tasks, 4)", False), ("np.random.permutation(tasks)", False), ("tasks", True)],
)
def test_loops_that_draw_over_which_rounds_start_over(chosen: str, is_by_rank: bool) -> None:
    inner = indent(f"for task in {chosen}:\n{STEPS}", "    ")
    after = migrated(f"import numpy as np\n{TASKS}for communication in range(9):\n{inner}")
    assert ("seed_by_rank" in after) is is_by_rank


@pytest.mark.parametrize(
    "adaptation",
    [f"for task in others:\n{STEPS}", f"def adapted(net, task):\n{STEPS}[adapted(net, t) for t in others]\n"],
)
def test_draws_of_an_adaptation_beside_the_training_are_the_same_on_all_processes(adaptation: str) -> None:
    after = migrated(TASKS + LASTING + adaptation)
    assert "for task in accelerator.shard(tasks):" in after
    assert "seed_by_rank" not in after


@pytest.mark.parametrize(
    "inside",
    [
        OWN.replace("task.x, task.y", "x, y"),
        RESET.replace("task.x, task.y", "x, y"),
    ],
)
def test_batches_that_are_adapted_to(inside: str) -> None:
    loaders = "batches = DataLoader(data, batch_size=4)\nsaved = net.state_dict()\n"
    text = f"from torch.utils.data import DataLoader\n{TASKS}{loaders}{LASTING}for x, y in batches:\n{inside}"
    after = migrated(text)
    assert "prepare(batches" not in after
    assert "for task in accelerator.shard(tasks):" in after


COPIES = """\
fast = nn.Linear(4, 1)
inner = torch.optim.SGD(fast.parameters(), lr=0.1)
def adapt(x, y):
    {reset}
    for _ in range(3):
        loss = nn.functional.mse_loss(fast(x), y)
        inner.zero_grad()
        loss.backward()
        inner.step()
    {end}
for x, y in loader:
    for row, target in zip(x, y):
        adapt(row, target)
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FROM_MODEL = "fast.load_state_dict(model.state_dict())"


@pytest.mark.parametrize(
    ("reset", "end", "is_prepared"),
    [
        (FROM_MODEL, "pass", False),
        ("fast.load_state_dict(copy.deepcopy(model.state_dict()))", "pass", False),
        ("pass", "pass", True),
        ("pass", FROM_MODEL, True),  # after its training
        (f"if len(x) > 2: {FROM_MODEL}", "pass", True),
        ("fast.load_state_dict(torch.load('fast.pt'))", "pass", True),
    ],
)
def test_a_copy_that_begins_each_task_with_another_network_s_weights(reset: str, end: str, is_prepared: bool) -> None:
    after = migrated(f"{HEAD}{COPIES.format(reset=reset, end=end)}")
    assert after.count("accelerator.backward(") == 1 + is_prepared
    assert bool(re.search(r"^[^=]*\binner\b[^=]*= accelerator.prepare", after, re.MULTILINE)) is is_prepared
    assert re.search(r"^[^=]*\boptimizer\b[^=]*= accelerator.prepare", after, re.MULTILINE)


INTO_WEIGHTS = """\
fast = nn.Linear(4, 1)
inner = torch.optim.SGD(fast.parameters(), lr=0.1)
def learned(x):
    fast.load_state_dict(model.state_dict())
    loss = -fast(x).mean()
    inner.zero_grad()
    loss.backward()
    inner.step()
    return {{n: p - q for (n, p), q in zip(fast.named_parameters(), model.parameters())}}
for x, y in loader:
    diff = learned(x)
    with torch.no_grad():
        for (n, p), q in zip(model.named_parameters(), fast.parameters()):
            {change}
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("change", "is_prepared"),
    [
        ("p.add_(0.1 * diff[n])", True),
        ("p += diff[n]", True),
        ("p.data = q.data.clone()", True),
        ("p.data.copy_(q.data)", True),
        ("p.clamp_(-1, 1)", False),
        ("print(n, (p - q).norm())", False),
    ],
)
def test_a_copy_whose_weights_change_the_network_is_prepared(change: str, is_prepared: bool) -> None:
    after = migrated(f"{HEAD}{INTO_WEIGHTS.format(change=change)}")
    assert after.count("accelerator.backward(") == 1 + is_prepared
    assert bool(re.search(r"^[^=]*\binner\b[^=]*= accelerator.prepare", after, re.MULTILINE)) is is_prepared
