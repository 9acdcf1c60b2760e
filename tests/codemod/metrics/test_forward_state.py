"""Facts about what a forward pass changes from a rank's own batch."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.forward_state import (
    agree_by_broadcast,
    carried_states,
    forward_states,
    hook_states,
    hook_totals,
    is_by_operation,
    late_evaluations,
    refreshing_passes,
    rescaled_rows,
)
from tests.codemod.facts import Facts, texts
from tests.codemod.pairs import run

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(1, 1)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("mean", torch.zeros(1))
        self.steps, self.seen = 0, None
    def keep(self, x):
        {changed}
    def forward(self, x):
        if self.training:
            self.keep(x)
        return self.lin(x) * self.mean
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(rows, 4):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ("self.mean = 0.9 * self.mean + 0.1 * x.mean()", ["mean"]),
        ("self.mean.mul_(0.9).add_(x.mean())", ["mean"]),
        ("self.mean[0] = x.detach().mean()", ["mean"]),
        ("self.scale.data.copy_(x.std())", ["scale"]),
        ("self.lin.weight.data = x.mean().view(1, 1)", ["lin"]),
        ("self.mean += x.sum()", ["mean"]),
        ("self.mean.zero_()", []),
        ("self.lin.weight.data.clamp_(0, 1)", []),
        ("self.seen = x", []),
        ("self.steps += 1", []),
        ("mean = x.mean()", []),
    ],
)
def test_states_that_a_forward_pass_learns(changed: str, names: list[str]) -> None:
    script = Facts(SCRIPT.format(changed=changed)).script
    assert [name for _, name in forward_states(script.metrics)] == names


OPERATION = """\
class Keep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kept):
        ctx.save_for_backward(x, kept)
        return x
    @staticmethod
    def backward(ctx, gradient):
        x, kept = ctx.saved_tensors
        {changed}
        return gradient, None
class Net(nn.Module):"""


@pytest.mark.parametrize(
    ("changed", "given", "names"),
    [
        ("kept.mul_(0.9).add_(x.mean())", "x, self.mean", ["mean"]),
        ("kept[0] = x[0]", "x, self.scale.data", ["scale"]),
        ("kept[0] = x[0]", "x, self.mean.clone()", []),
        ("kept = kept * 2", "x, self.mean", []),
        ("kept.zero_()", "rows.mean(), self.mean", []),
    ],
)
def test_states_that_an_operation_learns(changed: str, given: str, names: list[str]) -> None:
    text = SCRIPT.replace("class Net(nn.Module):", OPERATION)
    metrics = Facts(text.format(changed=changed).replace("self.keep(x)", f"Keep.apply({given})")).script.metrics
    found = list(forward_states(metrics))
    assert [name for _, name in found] == names
    assert all(is_by_operation(metrics.measured.program, node) for node, _ in found)
    assert agree_by_broadcast(metrics, [node for node, _ in found], weights=False) is (names != ["scale"])


MODES = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows, graph
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(1, 1)
        self.register_buffer("edges", torch.zeros(1))
    def loss(self, x):
        return (self.lin(x) * self.edges).mean()
    def update(self, nodes):
        self.edges.data = self.lin(nodes).mean(0)
    def forward(self, *given, mode):
        if mode == "train":
            return self.loss(*given)
        if mode == "update":
            return self.update(*given)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(rows, 4):
    optimizer.zero_grad()
    model(x, mode="train").backward()
    optimizer.step()
    {update}
"""


@pytest.mark.parametrize(
    ("update", "names"),
    [
        ("model(graph, mode='update')", []),
        ("model(graph.nodes, mode='update')", []),
        ("model(x, mode='update')", ["edges"]),
        ("model(graph * x.mean(), mode='update')", ["edges"]),
        ("model(x, mode=graph.mode)", ["edges"]),
    ],
)
def test_a_mode_of_a_pass_is_given_what_its_own_calls_give(update: str, names: list[str]) -> None:
    script = Facts(MODES.format(update=update)).script
    assert [name for _, name in forward_states(script.metrics)] == names


CODES = """\
import torch
from torch.utils.data import DataLoader
model = torch.nn.Sequential({made}, torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in {over}:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
LOADER = "DataLoader(torch.arange(8), 4)"


@pytest.mark.parametrize(
    ("made", "over", "is_found"),
    [
        ("torch.nn.Embedding(8, 2, max_norm=1.0)", LOADER, True),
        ("torch.nn.Embedding(8, 2, None, bound)", LOADER, True),
        ("torch.nn.EmbeddingBag(8, 2, max_norm=bound)", LOADER, True),
        ("torch.nn.Embedding(8, 2, max_norm=None)", LOADER, False),
        ("torch.nn.Embedding(8, 2, padding_idx=0)", LOADER, False),
        ("torch.nn.Embedding(8, 2, max_norm=1.0)", "[torch.arange(8)]", False),  # of which all ranks have all
    ],
)
def test_rows_that_each_rank_rescales_for_its_own_batch(made: str, over: str, is_found: bool) -> None:
    script = Facts(CODES.format(made=made, over=over)).script
    assert texts(rescaled_rows(script.metrics)) == ([made] if is_found else [])


def test_what_is_changed_before_the_training_is_not_of_a_batch() -> None:
    text = SCRIPT.format(changed="pass").replace("optimizer =", "model.mean = rows.mean()\noptimizer =")
    assert not list(forward_states(Facts(text).script.metrics))


@pytest.mark.parametrize(
    ("changed", "run", "agree"),
    [
        ("self.mean = 0.9 * self.mean + 0.1 * x.mean()", "pass", (True, True)),
        ("self.mean.mul_(0.9).add_(x.mean())", "pass", (True, True)),
        ("self.scale.data.copy_(x.std())", "pass", (True, False)),  # a weight, which no library need broadcast
        # Of a module that is not prepared, too.
        ("self.mean = 0.9 * self.mean + 0.1 * x.mean()", "loss_of(x)", (False, False)),
    ],
)
def test_states_that_all_ranks_get_from_rank_0(changed: str, run: str, agree: tuple[bool, bool]) -> None:
    loss = "class Loss(nn.Module):\n    def forward(self, x):\n        return model.keep(x)\nloss_of = Loss()\n"
    made = loss if "loss_of" in run else ""
    text = SCRIPT.format(changed=changed).replace("optimizer =", f"{made}optimizer =", 1)
    metrics = Facts(text.replace("    optimizer.step()", f"    optimizer.step()\n    {run}")).script.metrics
    nodes = [node for node, _ in forward_states(metrics)]
    assert tuple(agree_by_broadcast(metrics, nodes, weights=weights) for weights in (True, False)) == agree


HOOKED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows
class Scaled(torch.optim.Optimizer):
    def __init__(self, model):
        super().__init__(model.parameters(), {{}})
        self.steps, self.inputs = 0, {{}}
        for module in model.modules():
            module.{registers}
    def keep(self, module, args, *rest):
        self.put(module, args[0])
    def hook(self):
        def kept(module, args, out):
            self.keep(module, args)
        return kept
    def put(self, module, x):
        {kept}
    def factor(self, module):
        return self.inputs[module] + self.steps
    def step(self):
        for module in {taken}:
            module.weight.data -= self.factor(module) * module.weight.grad
model = nn.Linear(1, 1)
optimizer = Scaled(model)
for x in DataLoader(rows, 4):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
KEEPS = "self.inputs[module] = x.t() @ x"


@pytest.mark.parametrize(
    ("registers", "kept", "names"),
    [
        ("register_forward_pre_hook(self.keep)", KEEPS, ["inputs"]),
        ("register_forward_hook(self.keep)", "self.inputs[module].mul_(0.9).add_(x.mean())", ["inputs"]),
        ("register_full_backward_hook(self.keep)", KEEPS, ["inputs"]),
        ("register_forward_hook(hook=self.hook())", KEEPS, ["inputs"]),
        ("register_forward_hook(self.keep)", "self.steps += 1", []),
        ("register_forward_hook(self.keep)", "self.inputs = {}", []),
        ("register_forward_hook(self.keep)", "self.shown = x", []),
        ("apply(self.keep)", KEEPS, []),
    ],
)
def test_what_hooks_keep_for_a_step(registers: str, kept: str, names: list[str]) -> None:
    script = Facts(HOOKED.format(registers=registers, kept=kept, taken="self.inputs")).script
    assert [name for _, name in hook_states(script.metrics)] == names


def test_what_hooks_keep_of_batches_that_each_rank_draws() -> None:
    text = HOOKED.format(registers="register_forward_hook(self.keep)", kept=KEEPS, taken="self.inputs")
    text = text.replace("for x in DataLoader(rows, 4):", "for i in range(99):\n    x = torch.randn(4, 1)")
    assert [name for _, name in hook_states(Facts(text).script.metrics)] == ["inputs"]


RANKED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows
class Ranks:
    def __init__(self):
        self.ranks, self.count = {{"first": torch.zeros(3)}}, 0
    def forward(self, x):
        out = model[0](x)
        out.{registers}(self.add)
        return model[1](out)
    def add(self, gradient, *rest):
        {adds}
    def worst(self):
        return {taken}
model = nn.Sequential(nn.Linear(1, 3), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
ranks = Ranks()
for x in DataLoader(rows, 4):
    optimizer.zero_grad()
    ranks.forward(x).mean().backward()
    optimizer.step()
model[0].weight.data[ranks.worst()] = 0
"""
ADDS = 'self.ranks["first"] += gradient.abs().mean(0)'
TAKEN = 'self.ranks["first"].argmin()'


@pytest.mark.parametrize(
    ("registers", "adds", "taken", "names"),
    [
        ("register_hook", ADDS, TAKEN, ["ranks"]),
        ("register_hook", "self.count += gradient.abs().mean()", "int(self.count)", ["count"]),
        ("register_post_accumulate_grad_hook", ADDS, TAKEN, ["ranks"]),
        ("register_hook", "self.count += 1", "self.count", []),
        ("register_hook", ADDS, "0", []),
        ("map_", ADDS, TAKEN, []),
    ],
)
def test_what_hooks_add_up_for_other_code(registers: str, adds: str, taken: str, names: list[str]) -> None:
    script = Facts(RANKED.format(registers=registers, adds=adds, taken=taken)).script
    assert [name for _, name in hook_totals(script.metrics)] == names


def test_what_hooks_keep_to_be_shown_is_not_for_a_step() -> None:
    text = HOOKED.format(registers="register_forward_hook(self.keep)", kept=KEEPS, taken="[]")
    text = text.replace(".data -= self.factor(module) * module.weight.grad", "")
    assert not list(hook_states(Facts(text).script.metrics))


REFRESHED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows
loader, model = DataLoader(rows, 4), nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
averaged = torch.optim.swa_utils.AveragedModel(model)
def train(model, loader):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
def refresh(model, loader):
    for i, x in enumerate(loader):
        model(x)
train(model, loader)
"""


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("model.train()\nwith torch.no_grad():\n    for x in loader:\n        model(x)\n", ["model(x)"]),
        ("for i, x in enumerate(loader):\n    if i > 5: break\n    out = averaged(x)\n", ["averaged(x)"]),
        ("for k in range(3):\n    for x in loader:\n        _ = model(x)\n", ["_ = model(x)"]),
        ("model.eval()\nmodel.register_forward_hook(keep)\nfor x in loader:\n    model(x)\n", ["model(x)"]),
        ("model.eval()\nfor x in loader:\n    model(x)\n", []),
        ("for x in loader:\n    out = model(x)\n    print(out)\n", []),
        ("for x in DataLoader(rows):\n    model(x)\n", []),
        ("for x in loader:\n    print(x)\n", []),
    ],
)
def test_passes_for_what_they_change_alone(after: str, found: list[str]) -> None:
    facts = Facts(REFRESHED + after)
    calls = list(refreshing_passes(facts.script.metrics))
    assert [ast.unparse(c) for c in calls] == [text.removeprefix("_ = ") for text in found]


@pytest.mark.parametrize(
    ("hook", "run", "count"),
    [("", "model", 0), ("", "averaged", 1), ("model.register_forward_hook(keep)\n", "model", 1)],
)
def test_passes_for_buffers_that_agree_afterwards(hook: str, run: str, count: int) -> None:
    metrics = Facts(f"{REFRESHED}{hook}for x in loader:\n    {run}(x)\n").script.metrics
    assert len(list(refreshing_passes(metrics, buffers_agree=True))) == count
    assert len(list(refreshing_passes(metrics))) == 1


def test_a_function_that_refreshes_what_it_is_given() -> None:
    calls = list(refreshing_passes(Facts(f"{REFRESHED}refresh(averaged, loader)\n").script.metrics))
    assert [ast.unparse(c) for c in calls] == ["model(x)"]
    assert not list(refreshing_passes(Facts(f"{REFRESHED}refresh(averaged, DataLoader(rows))\n").script.metrics))


RECURRENT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.hidden, self.size = nn.GRU(3, 4), torch.zeros(1, 2, 4), 0
    def forward(self, x):
        {body}
        return out
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    model.hidden = torch.zeros(1, 2, 4)
    for x in DataLoader(rows, 4):
        {begin}
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("body", "begin", "names"),
    [
        ("out, h = self.rnn(x, self.hidden); self.hidden = h.detach()", "pass", ["hidden"]),
        ("out, self.hidden = self.rnn(x, self.hidden)", "model.hidden = model.hidden.detach()", ["hidden"]),
        ("out, self.hidden = self.rnn(x, None if x[0] > 0 else self.hidden)", "pass", ["hidden"]),
        ("out, self.hidden = self.rnn(x, self.hidden)", "model.hidden = torch.zeros(1, 2, 4)", []),
        ("self.hidden = first(x); out, self.hidden = self.rnn(x, self.hidden)", "pass", []),
        ("out, self.hidden = self.rnn(x)", "pass", []),
        ("out = self.rnn(x, self.hidden); self.hidden = self.hidden.type_as(x)", "pass", []),
        ("out = self.rnn(x, self.hidden); self.hidden = self.hidden.to(x.device)", "pass", []),
        ("out = self.rnn(x, self.hidden); self.hidden = self.hidden * x.mean()", "pass", ["hidden"]),
        ("out = self.rnn(x, torch.zeros(self.size + 1)); self.size = len(x)", "pass", []),
        ("if self.hidden is None: self.hidden = x.mean()\n        out = self.rnn(x)", "pass", []),
        *(
            (
                f"if self.hidden is None or {fits}: self.hidden = torch.triu(torch.ones(len(x), len(x)))\n"
                f"        out = self.rnn(x, self.hidden){then}",
                "pass",
                names,
            )
            for fits, then, names in [
                ("self.hidden.size(0) != len(x)", "", []),
                ("self.hidden.shape[0] != x.shape[0]", "", []),
                ("len(self.hidden) < x.size(0)", "", []),
                ("self.hidden.size(0) != len(x)", "; self.hidden = self.hidden * x.mean()", ["hidden"]),
            ]
        ),
    ],
)
def test_what_a_pass_leaves_to_the_next(body: str, begin: str, names: list[str]) -> None:
    script = Facts(RECURRENT.format(body=body, begin=begin)).script
    assert [name for _, name in carried_states(script.metrics)] == names


HELPERS = """\
    def join(self, x):
        hidden = torch.zeros(1, 2, 4) if self.hidden is None else self.hidden
        return torch.cat([hidden, x]), x.mean()
    def joined(self, x):
        return self.join(x)[0]
    def keep(self, x):
        self.hidden = x.mean()
    def kept(self, x):
        self.keep(x)
        return x
    def sized(self, x):
        return torch.zeros(self.hidden.shape) if self.hidden is not None else x
"""


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("self.hidden, out = self.join(x)", ["hidden"]),
        ("h = self.joined(x); out = self.rnn(h); self.hidden = h.detach()", ["hidden"]),
        ("out = self.rnn(x, self.hidden); self.keep(x)", ["hidden"]),
        ("out = self.joined(x); self.kept(out)", ["hidden"]),
        ("if self.training: self.keep(x)\n        out = self.joined(x)", ["hidden"]),
        ("self.keep(x); out = self.joined(x)", []),
        ("self.kept(x); out = self.rnn(x, self.hidden)", []),
        ("self.hidden = first(x); out = self.joined(x); self.hidden = out", []),
        ("out = self.sized(x); self.keep(out)", []),
        ("out = self.joined(x)", []),
    ],
)
def test_what_methods_of_a_module_leave_to_each_other(body: str, names: list[str]) -> None:
    text = RECURRENT.format(body=body, begin="pass").replace("model = Net()", f"{HELPERS}model = Net()")
    script = Facts(text).script
    assert [name for _, name in carried_states(script.metrics)] == names


BY_STEPS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
loader, test_loader = DataLoader(rows, batch_size=4), DataLoader(others)
model = nn.Sequential(nn.Linear(4, 8), nn.{norm}(8), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = []
def evaluate():
    model.eval()
    best.append(max(model(x).std().item() for x in test_loader))
    model.train()
def train_step(x):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
batches = iter(loader)
for step in range(12):
    x = next(batches)
    {before}
    train_step(x)
    {after}
    if step % 5 == 4:
        {evaluate}
"""
PASS = {"norm": "BatchNorm1d", "before": "pass", "after": "shown = model(x)", "evaluate": "evaluate()"}


@pytest.mark.parametrize(
    ("slots", "at"),
    [
        ({}, "evaluate()"),
        ({"after": "with torch.no_grad(): print(model(x).mean())"}, "evaluate()"),
        (
            {"evaluate": "model.eval()\n        for y in test_loader: best.append(model(y))\n        model.train()"},
            "for y in",
        ),
        ({"before": "shown = model(x)", "after": "pass"}, None),
        ({"norm": "LayerNorm"}, None),
        ({"after": "shown = model(torch.ones(2, 4))"}, None),
        ({"evaluate": "best.append(model(x))"}, None),
    ],
)
def test_an_evaluation_after_a_pass_that_changes_statistics(slots: dict[str, str], at: str | None) -> None:
    text = BY_STEPS.format(**{**PASS, **slots})
    found = [ast.unparse(statement) for statement, _ in late_evaluations(Facts(text).script.metrics)]
    assert (not found) if at is None else found[0].startswith(at)


def test_all_wait_before_such_an_evaluation() -> None:
    assert (
        "        accelerator.wait_for_everyone()\n        evaluate()\n" in run(BY_STEPS.format(**PASS)).after.decode()
    )


@pytest.mark.parametrize(
    "made",
    [
        "nn.Sequential(Net(), nn.ReLU())",
        "nn.Sequential(nn.Sequential(*[Net() for _ in range(2)]))",
        "Wide([Net()])",
    ],
)
def test_states_of_modules_in_containers(made: str) -> None:
    wide = (
        "class Wide(nn.Module):\n    def __init__(self, parts): super().__init__(); self.parts = nn.ModuleList(parts)\n"
    )
    wide += "    def forward(self, x):\n        for part in self.parts: x = part(x)\n        return x\n"
    text = SCRIPT.format(changed="self.mean = 0.9 * self.mean + 0.1 * x.mean()")
    script = Facts(text.replace("model = Net()", f"{wide}model = {made}")).script
    found = list(forward_states(script.metrics))
    assert [name for _, name in found] == ["mean"]
    assert agree_by_broadcast(script.metrics, [node for node, _ in found], weights=False)


@pytest.mark.parametrize(
    ("run", "found"),
    [
        ("for part in self.children(): x = part(x)", ["mean"]),
        ("for part in self._modules.values(): x = part(x)", ["mean"]),
        ("for part in [m for m in self.modules() if m is not self]: x = part(x)", ["mean"]),
        ("for part in self.children(): part.train()", []),
    ],
)
def test_states_of_the_parts_that_a_module_goes_over(run: str, found: list[str]) -> None:
    whole = "class Whole(nn.Module):\n    def __init__(self): super().__init__(); self.part = Net()\n"
    whole += f"    def forward(self, x):\n        {run}\n        return x\n"
    text = SCRIPT.format(changed="self.mean = 0.9 * self.mean + 0.1 * x.mean()")
    script = Facts(text.replace("model = Net()", f"{whole}model = Whole()")).script
    states = list(forward_states(script.metrics))
    assert [name for _, name in states] == found
    assert agree_by_broadcast(script.metrics, [node for node, _ in states], weights=False)


def test_a_module_that_no_pass_runs_learns_nothing() -> None:
    text = SCRIPT.format(changed="self.mean = 0.9 * self.mean + 0.1 * x.mean()")
    text = text.replace("model = Net()", "unused = nn.Sequential(Net())\nmodel = nn.Sequential(nn.Linear(1, 1))")
    assert not list(forward_states(Facts(text).script.metrics))
