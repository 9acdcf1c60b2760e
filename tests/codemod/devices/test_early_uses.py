"""Facts about what is done with a model between its move and where it is prepared."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.devices.early_uses import EarlyUses
from accelify.codemod.result import Status
from tests import scripts
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import training

IMPORTS = "import copy\nimport torch_ema\nfrom torch.multiprocessing import Process\n"
DEVICE = "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
EMA = """
class Ema:
    def __init__(self, mu):
        self.mu, self.shadow = mu, {}
    def register(self, name, value):
        self.shadow[name] = value.clone()
    def keep(self, values):
        self.shadow = [torch.zeros_like(v) for v in values]

loss_of = nn.PReLU()

class Averaged(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = copy.deepcopy(model)
"""


def is_needless(uses: str, move: str = "model.to(device)") -> bool:
    """Whether a model's move may go, though something is done with the model before it is prepared."""
    facts: Facts = training(imports=IMPORTS, before=DEVICE + EMA, model=f"{move}\n{uses}")
    (found,) = (m for m in facts.script.devices.moves if m.receiver.id == "model")
    return facts.script.devices.known.is_needless(found)


@pytest.mark.parametrize(
    "uses",
    [
        "shadow = {n: p.data.clone() for n, p in model.named_parameters()}",
        "first = [p.detach().clone() for p in model.parameters()]",
        "shadow = {}\nfor name, p in model.named_parameters():\n    if p.requires_grad:\n        shadow[name] = p.data",
        "sums = [torch.zeros_like(p) for p in model.parameters() if p.requires_grad]",
        "shadow = {k: v.clone() for k, v in model.state_dict().items()}",
        "shadow = copy.deepcopy(dict(model.named_parameters()))",
        "start = torch.cat([p.view(-1) for p in model.parameters()])",
        "norm = sum((p ** 2).sum() for p in model.parameters())",
        "ema = Ema(0.9)\nfor name, p in model.named_parameters():\n    ema.register(name, p.data)",
        "ema = Ema(0.9)\nema.keep(model.parameters())",
        "target = copy.deepcopy(model)",
        "ema = Averaged(model)",
        "ema = Averaged(model=model)",
        "shadow = torch_ema.ExponentialMovingAverage(model.parameters(), decay=0.9)",
        "first = model(torch.zeros(2, 4))",
        "where = next(model.parameters()).device",
        "model.share_memory()",
        "Process(target=watch, kwargs={'model': model}).start()",
        "print(model.log_prob(rows))",
        "print(model.body.encode(x=rows))",
    ],
)
def test_a_move_stays_where_weights_are_copied(uses: str) -> None:
    assert not is_needless(uses)
    assert not is_needless(uses, "model = model.to(device)")


@pytest.mark.parametrize(
    "uses",
    [
        "print(sum(p.numel() for p in model.parameters() if p.requires_grad))",
        "total = sum([p.nelement() for p in model.parameters()])",
        "for p in model.parameters():\n    p.requires_grad = False",
        "for name, p in model.named_parameters():\n    print(name, p.shape, p.requires_grad)",
        "for p in model.parameters():\n    p.data.zero_()",
        "chosen = [p for p in model.parameters() if p.requires_grad]\nother = torch.optim.SGD(chosen, lr=1)",
        "chosen = filter(lambda p: p.requires_grad, model.parameters())\nother = torch.optim.SGD(chosen, lr=1)",
        "chosen = list(model.parameters())\nother = torch.optim.SGD([{'params': chosen[:1]}, {'params': chosen[1:]}])",
        "both = list(model.parameters()) + list(loss_of.parameters())\nother = torch.optim.SGD(both, lr=1)",
        "model.load_state_dict(torch.load('m.pt'))",
        "model.train()\nprint(model)",
        "def close(m):\n    m.requires_grad_(False)\nmodel.apply(close)",
        "rows = torch.randn(4)",
        "model.freeze()\nmodel.resize(8)",
    ],
)
def test_a_move_goes_where_a_model_is_set_up(uses: str) -> None:
    assert is_needless(uses)


@pytest.mark.parametrize(
    "uses",
    [
        "for p in model.parameters():\n    if p.dim() > 1:\n        nn.init.xavier_uniform_(p)",
        "for p in model.parameters():\n    p.data.uniform_(-0.1, 0.1)",
        "def anew(m):\n    m.weight.data.normal_(0.0, 0.02)\nmodel.apply(anew)",
        "model.apply(lambda m: nn.init.normal_(m.weight))",
        "nn.init.kaiming_normal_(model.weight)",
        "model.weight.data.normal_(0, 0.02)",
        "model.reset_parameters()",
    ],
)
def test_a_move_stays_where_the_device_s_generator_draws_weights(uses: str) -> None:
    assert not is_needless(uses)


@pytest.mark.parametrize(
    ("move", "is_run"),
    [
        ("torch_ema.summary(model.cuda(), (8,))", True),
        ("torch_ema.summary(model.to(device).eval(), (8,))", True),
        ("info = torch_ema.summary((8,), of=[model.to(device)])", True),
        ("first = model.cuda()(torch.zeros(2, 4))", True),
        ("print(model.cuda())", False),
        ("print(model.to(device).eval())", False),
    ],
)
def test_a_move_stays_where_it_is_given_to_what_may_run_the_model(move: str, is_run: bool) -> None:
    assert is_needless("pass", move) is not is_run
    assert is_needless(move.replace(".cuda()", "").replace(".to(device)", ""), "model.to(device)") is not is_run


def test_what_stands_above_the_move_or_below_prepare_is_no_matter() -> None:
    shadow = "shadow = [p.clone() for p in model.parameters()]\n"
    facts = training(
        before=DEVICE,
        model=f"{shadow}model.to(device)",
        step=f"optimizer.zero_grad()\nloss = model(x).sum()\nloss.backward()\noptimizer.step()\n{shadow}",
    )
    (move,) = facts.script.devices.moves
    assert facts.script.devices.known.is_needless(move)


def test_only_what_stands_between_two_statements_counts() -> None:
    facts = Facts("import torch\nmodel = torch.nn.Linear(1, 1)\nmodel.cuda()\nmodel(x)\nend()\n")
    uses = EarlyUses(facts.program, facts.roles, frozenset())
    move, end = (facts.program.statement(facts.call(text)) for text in ("model.cuda()", "end()"))
    assert uses.is_used("model", move, end)
    assert not uses.is_used("model", move, move)


ENDS = """
import torch
from torch import nn
def score(net, rows):
    return net(rows)
def show():
    print(model(torch.zeros(1, 4)))
def main(args):
    global model
    model = nn.Linear(4, 1)
    model.cuda()
    if args.test:
        {branch}
    begin()
    model.train()
    model(torch.zeros(1, 4))
"""


@pytest.mark.parametrize(
    "branch",
    [
        "score(model, rows)\n        return",
        "show()\n        raise SystemExit",
        "for x in rows:\n            model(x)\n        return None",
        "return model",
        "return 0, model",
    ],
)
def test_a_use_on_a_path_that_ends_before_prepare_counts(branch: str) -> None:
    facts = Facts(ENDS.format(branch=branch))
    uses = EarlyUses(facts.program, facts.roles, frozenset())
    move, end = (facts.program.statement(facts.call(text)) for text in ("model.cuda()", "begin()"))
    assert uses.is_used("model", move, end)


@pytest.mark.parametrize("branch", ["print(model)\n        return", "return", "load()\n        raise SystemExit"])
def test_a_path_that_ends_without_a_use_does_not(branch: str) -> None:
    facts = Facts(ENDS.format(branch=branch))
    uses = EarlyUses(facts.program, facts.roles, frozenset())
    move, end = (facts.program.statement(facts.call(text)) for text in ("model.cuda()", "begin()"))
    assert not uses.is_used("model", move, end)


def test_a_move_on_a_path_that_never_comes_to_prepare_counts() -> None:
    branch = "if test:\n    model.cuda()\n    model(x)\n    exit()\n"
    facts = Facts(f"import torch\nmodel = torch.nn.Linear(1, 1)\n{branch}end()\nmodel(x)\n")
    uses = EarlyUses(facts.program, facts.roles, frozenset())
    move, end = (facts.program.statement(facts.call(text)) for text in ("model.cuda()", "end()"))
    assert uses.is_used("model", move, end)


TRAINS = """\
import torch

def fit(model, loader, device, steps=9):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = (model(x) - y).mean()
        total = torch.zeros(4, device=device)
        loss.backward()
        optimizer.step()
        print(total.sum())
"""
ROWS = """\
import torch

def generate(rows, device, days=288):
    return {rows}

def loaders(rows, device):
    return generate(rows, device)
"""
CHOOSES = """\
import torch
import rows as r
from trains import fit
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = r.loaders(rows, {device})
if __name__ == "__main__":
    fit(Net(), loader, device)
"""


@pytest.mark.parametrize("device", ["device", "device=device", "str(device)"])
@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ("torch.from_numpy(rows).to(device)", False),
        ("torch.from_numpy(rows).float().to(device=device)", False),
        ("torch.tensor(rows, device=device)", False),
        ("torch.from_numpy(rows).cuda()", True),
    ],
)
def test_a_device_that_is_passed_on_is_chosen_where_the_caller_has_it(
    rows: str, named: bool, device: str, tmp_path: Path
) -> None:
    """The accelerator is created above the move, and passed to the function with the move only if that names a GPU."""
    files = {
        scripts.MAIN: CHOOSES.format(device=device),
        "rows.py": ROWS.format(rows=rows),
        "trains.py": TRAINS,
    }
    results, after = scripts.rewrite(tmp_path, {k: v.encode() for k, v in files.items()})
    by_path = {r.path: r for r in results}
    assert by_path[scripts.MAIN].status is Status.MIGRATED, by_path[scripts.MAIN].notes
    text = after[scripts.MAIN].decode()
    assert text.index("= Accelerator(") < text.index("device = accelerator.device") < text.index("loaders(")
    assert ("accelerator" in after["rows.py"].decode()) is named
