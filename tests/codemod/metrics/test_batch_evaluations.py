"""Facts about evaluation loops whose batches are sharded."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.batch_evaluations import ShardedEvaluation
from accelify.codemod.options import Options
from accelify.codemod.rewrite import rewrite_source
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import script

LOOP = """\
test_loader = DataLoader(rows, batch_size=2)
total, losses = 0.0, []
model.eval()
with torch.no_grad():
    for x, y in test_loader:
        total += nn.functional.mse_loss(model(x), y).item()
print(total / len(test_loader))
"""


def sharded(end: str) -> tuple[ShardedEvaluation, ...]:
    return Facts(script(end=end)).script.metrics.sharded


def test_a_sum_over_batches() -> None:
    (found,) = sharded(LOOP)
    assert found.sums == ("total",)
    assert (found.meters, found.lists) == ((), ())


def test_an_evaluation_that_does_more_is_left_whole() -> None:
    assert sharded(LOOP.replace("        total +=", "        unknown(x)\n        total +=")) == ()
    assert sharded(LOOP.replace("        total +=", "        total = 0.5 * total +")) == ()


KEPT_LOSS = """\
class Tester:
    def __init__(self, cfg):
        self.cfg = cfg
        self.ce = {made}
    def test(self, data):
        losses = []
        for x, y in data:
            loss = self.ce(model(x), y){moved}
            losses.append(loss.detach())
        return torch.stack(losses).mean()
model.eval()
tester = Tester(cfg)
print(tester.test(DataLoader(rows, batch_size=2)))
"""


@pytest.mark.parametrize("moved", [".to(DEVICE)", ".to(self.cfg.device)", ".cuda()"])
def test_a_loss_that_is_moved(moved: str) -> None:
    (found,) = sharded(KEPT_LOSS.format(made="nn.MSELoss()", moved=moved))
    assert [(each.name, each.per) for each in found.lists] == [("losses", "batch")]


def test_what_an_unknown_object_gives_may_be_changed_where_it_is_moved() -> None:
    assert sharded(KEPT_LOSS.format(made="unknown()", moved=".to(DEVICE)")) == ()


ADDED_UP = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
edge = DataLoader(rows, batch_size=2)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def boundary():
    total = 0.0
    for x, y in edge:
        total += {added}
    return total / len(edge)
for epoch in range(3):
    cost = 0.0
    for x, y in edge:
        cost += {added}
    {last}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(cost)
"""
LOSS = "nn.functional.mse_loss(model(x), y)"


@pytest.mark.parametrize(
    ("last", "added", "is_sharded"),
    [
        ("loss = cost", LOSS, False),
        ("loss = model(whole).mean() + 0.1 * cost", LOSS, False),
        ("cost = model(whole).mean() + cost\n    loss = cost / 2", LOSS, False),
        ("loss = model(whole).mean()", f"{LOSS}.item()", True),
    ],
)
def test_a_loop_that_adds_up_what_is_learned_from_is_left_whole(last: str, added: str, is_sharded: bool) -> None:
    facts = Facts(ADDED_UP.format(last=last, added=added))
    assert bool(facts.script.metrics.sharded) is is_sharded


def test_a_function_that_adds_up_what_is_learned_from_is_left_whole() -> None:
    text = ADDED_UP.format(last="loss = model(whole).mean() + boundary()", added=LOSS)
    assert [found.sums for found in Facts(text).script.metrics.sharded] == [("cost",)]


PHASES = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
loaders = {"src": DataLoader(a, batch_size=4), "val": DataLoader(b, batch_size=4)}
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for phase in ["src", "val"]:
    model.train(phase == "src")
    hits, losses = 0, []
    for x, y in loaders[phase]:
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        if phase == "src":
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        hits += (out.argmax(1) == y).sum().item()
        losses.append(loss.item())
    print(phase, hits / len(loaders[phase].dataset), sum(losses) / len(losses))
"""


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_phase_is_asked_with_the_quotes_of_the_script(quote: str) -> None:
    after = rewrite_source("train.py", PHASES.replace('"', quote).encode(), Options()).after.decode()
    assert f"loaders[phase] if phase == {quote}src{quote} else accelerator.shard(loaders[phase], even=False):" in after


@pytest.mark.parametrize("key", ["src", "train", "fit"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("if phase == {!r}:\n            opt", "if phase != 'val':\n            opt"),
        ("loaders[phase]:", "batches:"),
    ],
)
def test_a_phase_of_any_name(key: str, old: str, new: str) -> None:
    text = PHASES.replace("src", key).replace(old.format(key).replace("'", '"'), new)
    if "batches" in new:
        text = text.replace("    for x, y", "    batches = loaders[phase]\n    for x, y")
    metrics = Facts(text).script.metrics
    ((found),) = metrics.sharded
    assert (found.sums, [c.name for c in found.lists]) == (("hits",), ["losses"])
    assert [r.names for r in metrics.reductions] == [("hits",)]
    assert metrics.reports == ()


INDENTED = LOOP.replace("\n", "\n    ").rstrip(" ")


@pytest.mark.parametrize(
    "test",
    ["epoch % config.every == 0", "args.valid and epoch % args.every == 0", "best > epoch", "int(best) > 3"],
)
def test_a_condition_that_all_processes_answer_alike(test: str) -> None:
    before = "from configs import read\nbest, args, config = 0, read(1), read(2)\n"
    found = Facts(script(before=before, end_of_epoch=f"if {test}:\n    {INDENTED}")).script.metrics.sharded
    assert [f.sums for f in found] == [("total",)]


@pytest.mark.parametrize(
    "test", ["loss < 3", "f()", "args.rank == 0", "os.path.exists(p)", "time.time() > 3", "random.random() > 0.5"]
)
def test_a_condition_that_processes_may_answer_otherwise(test: str) -> None:
    text = script(imports="import os, random, time", end_of_epoch=f"if {test}:\n    {INDENTED}")
    assert Facts(text).script.metrics.sharded == ()


def test_a_function_that_trains_and_is_called_from_elsewhere() -> None:
    body = script(before="import hydra", end=LOOP).split("import hydra\n")
    text = body[0] + "import hydra\ndef main(c):\n    " + body[1].replace("\n", "\n    ") + "\nhydra.main()(main)()\n"
    assert [f.sums for f in Facts(text).script.metrics.sharded] == [("total",)]


HELPER = """\
import torch
from torch import nn
def evaluate(model, loader):
    total = 0.0
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(loader)
"""


def test_a_loop_in_another_file() -> None:
    end = "from helper import evaluate\nprint(evaluate(model, DataLoader(others, batch_size=3)))\n"
    facts = Facts({"main.py": script(end=end), "helper.py": HELPER})
    assert [f.sums for f in facts.script.metrics.sharded] == [("total",)]
    assert facts.script.files == {"main.py", "helper.py"}
    alone = Facts({"main.py": script(end=end.replace("model, ", "model, *") + "print(3)"), "helper.py": HELPER})
    assert alone.script.metrics.sharded == ()
    assert alone.script.files == {"main.py"}


@pytest.mark.parametrize(
    ("trained", "summand"),
    [
        ("criterion(model(x), y)", "criterion(model(x), y).item()"),
        ("wrapped(model(x), y)", "wrapped(model(x), y).item()"),
        ("wrapped(model(x), y)", "criterion(model(x), y).item()"),
        ("either(model(x), y)", "either(model(x), y).item()"),
        ("nn.functional.mse_loss(model(x), y) + unknown_loss(model(x))", "unknown_loss(model(x)).item()"),
    ],
)
def test_what_a_training_step_calls_too_gives_a_value(trained: str, summand: str) -> None:
    before = "from losses import make, unknown_loss\ncriterion = make()\n"
    before += "def wrapped(a, b):\n    return criterion(a, b)\neither = nn.MSELoss() if flag else wrapped"
    step = f"loss = {trained}\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()\n"
    evaluation = LOOP.replace("nn.functional.mse_loss(model(x), y).item()", summand)
    assert [f.sums for f in Facts(script(before=before, step=step, end=evaluation)).script.metrics.sharded] == [
        ("total",)
    ]
    assert Facts(script(before=before, end=evaluation)).script.metrics.sharded == ()


def test_what_a_training_step_calls_for_what_it_does() -> None:
    before = "from logs import write"
    step = "loss = model(x).sum()\nwrite(loss)\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()\n"
    evaluation = LOOP.replace("        total +=", "        write(x)\n        total +=")
    assert Facts(script(before=before, step=step, end=evaluation)).script.metrics.sharded == ()


_KEPT = """\
import collections
test_loader = DataLoader(rows, batch_size=2)
kept = BEGIN
model.eval()
with torch.no_grad():
    for x, y in test_loader:
        out = model(x)
        ROUND
print(READ)
"""


def kept(begin: str, in_round: str, read: str = "kept") -> list[tuple[str, str | None]]:
    text = _KEPT.replace("BEGIN", begin).replace("ROUND", in_round).replace("READ", read)
    return [(each.name, each.per) for found in sharded(text) for each in found.lists]


@pytest.mark.parametrize(
    "begin",
    ["{'a': [], 'b': []}", "{k: [] for k in 'ab'}", "collections.defaultdict(list)", "{'a': list(), 'n': 3}"],
)
@pytest.mark.parametrize(
    ("put", "per"),
    [
        ("kept['a'].append(out.sum().item())", "batch"),
        ("kept['a'].extend(out.max(1)[1].tolist())", "row"),
        ("kept['a'].extend(torch.max(out, dim=1)[1].cpu().numpy())", "row"),
    ],
)
def test_a_list_under_a_literal_key(begin: str, put: str, per: str) -> None:
    assert kept(begin, put) == [("kept['a']", per)]


@pytest.mark.parametrize(
    ("begin", "put"),
    [
        ("{'a': common, 'b': common}", "kept['a'].append(out.sum().item())"),
        ("dict.fromkeys('ab', [])", "kept['a'].append(out.sum().item())"),
        ("{'a': [], 'n': 0}", "kept['a'].append(out.sum().item()); kept['n'] += 1"),
        ("{'a': [], 'b': [0]}", "kept['b'].append(out.sum().item())"),
        ("{'a': []}", "kept[y[0]].append(out.sum().item())"),
        ("{'a': []}", "kept['a'].extend(out.argmax(1)[0].tolist())"),
        ("{'a': []}", "kept['a'].extend(out.max(0)[1].tolist())"),
    ],
)
def test_a_list_in_a_container_that_is_not_clear(begin: str, put: str) -> None:
    assert kept(begin, put) == []


def test_a_list_that_gets_one_element_by_an_addition() -> None:
    assert kept("[]", "kept += [out.sum().item()]") == [("kept", "batch")]
    assert kept("[]", "kept += [out.sum().item(), 1]", "sorted(kept)") == []


_METER = """\
class Meter:
    def __init__(self): self.sum = self.count = self.avg = self.last = 0
    def update(self, value, n=1):
        self.last = value
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count
"""


@pytest.mark.parametrize(
    ("begin", "read", "found"),
    [
        ("{'a': Meter()}", "kept['a'].avg", ["kept['a']"]),
        ("{k: Meter() for k in 'ab'}", "kept['a'].avg", ["kept['a']"]),
        ("{'a': Meter()}", "kept['a'].last", []),
        ("{'a': other}", "kept['a'].avg", []),
    ],
)
def test_a_meter_under_a_literal_key(begin: str, read: str, found: list[str]) -> None:
    text = _KEPT.replace("BEGIN", begin).replace("ROUND", "kept['a'].update(out.sum().item(), len(x))")
    end = f"{_METER}other = Meter()\n{text.replace('READ', read)}"
    assert [name for one in sharded(end) for name, _ in one.meters] == found
