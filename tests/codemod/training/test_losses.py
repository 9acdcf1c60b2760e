"""Facts about losses: which a backward pass is of, and whether one is a sum over the rows of its batch."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.losses import (
    DividedMeans,
    Losses,
    is_by_function,
    is_for_inputs,
    losses_of,
    without_gradients,
)
from accelify.codemod.training.row_means import RowMeans
from tests.codemod.facts import Facts, texts

IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


@pytest.mark.parametrize(
    ("call", "losses"),
    [
        ("loss.backward()", ["loss"]),
        ("(a + b).backward(retain_graph=True)", ["a + b"]),
        ("torch.autograd.backward([a, b])", ["a", "b"]),
        ("torch.autograd.backward(tensors=(a,))", ["a"]),
        ("torch.autograd.backward([a], None, True)", ["a"]),
        ("torch.autograd.backward([a], [g])", []),
        ("torch.autograd.backward([a], [torch.ones_like(a).to(b)])", ["a"]),
        ("torch.autograd.backward(pair)", ["a", "b"]),
        ("torch.autograd.backward(pair, ones)", ["a", "b"]),
        ("torch.autograd.backward(pair, [torch.tensor(1.0).cuda() for _ in pair])", ["a", "b"]),
        ("torch.autograd.backward(pair, [torch.tensor(2.0) for _ in pair])", []),
        ("torch.autograd.backward(grown)", ["grown"]),
        ("torch.autograd.backward([t.mean() for t in (a, b)])", ["[t.mean() for t in (a, b)]"]),
        ("torch.autograd.backward(unknown)", []),
        ("torch.autograd.backward(one)", ["one"]),
        ("torch.autograd.backward(2 * one.sum(), retain_graph=True)", ["2 * one.sum()"]),
        ("torch.autograd.backward(grad_tensors=torch.ones(2), tensors=one)", ["one"]),
        ("torch.autograd.backward(one, unknown)", []),
        ("torch.autograd.backward([*a])", ["[*a]"]),
        ("torch.autograd.backward([a], inputs=b)", []),
    ],
)
def test_the_losses_of_a_backward_pass(call: str, losses: list[str]) -> None:
    lists = "pair = [a, b]\nones = [torch.ones(1).cuda() for _ in pair]\ngrown = []\ngrown.append(a)\n"
    facts = Facts(f"{IMPORTS}one = F.mse_loss(x, y)\n{lists}{call}\n")
    (node,) = [c for c in facts.program.calls if "backward" in texts([c.func])[0]]
    assert texts(losses_of(facts.program, node)) == losses
    assert is_by_function(facts.program, node) is call.startswith("torch.autograd")


@pytest.mark.parametrize(
    ("loss", "is_sum"),
    [
        ("F.mse_loss(x, y, reduction='sum')", True),
        ("F.mse_loss(x, y, size_average=False)", True),
        ("F.mse_loss(x, y, size_average=False, reduce=False)", False),
        ("F.mse_loss(x, y)", False),
        ("F.mse_loss(x, y, reduction='mean')", False),
        ("F.mse_loss(x, y, reduction='sum') / len(x)", False),
        ("F.mse_loss(x, y, reduction='sum') / 2", True),
        ("0.5 * F.mse_loss(x, y, reduction='sum')", True),
        ("F.mse_loss(x, y) + F.l1_loss(x, y, reduction='sum')", True),
        ("-F.mse_loss(x, y, reduction='sum')", True),
        ("(x - y).pow(2).sum()", True),
        ("(x - y).pow(2).mean()", False),
        ("F.mse_loss(x, y, reduction='sum').div_(2)", True),
        ("(x - y).pow(2).sum().mul(0.5)", True),
        ("F.mse_loss(x, y).add(F.l1_loss(x, y, reduction='sum'))", True),
        ("F.mse_loss(x, y, reduction='sum').div(len(x))", False),
        ("unknown(x)", False),
        ("other", False),
        ("3", False),
    ],
)
def test_whether_a_loss_is_a_sum(loss: str, is_sum: bool) -> None:
    facts = Facts(f"{IMPORTS}loss = {loss}\nuse(loss)\n")
    assert Losses(facts.program, facts.roles).is_sum(facts.call("use(loss)").args[0]) is is_sum


WHOLE = "class Whole(nn.Module):\n    def forward(self, x, y):\n        return F.mse_loss(x, y)\n"
SUM = "F.mse_loss(x, y, reduction='sum')"


@pytest.mark.parametrize(
    ("code", "is_sum"),
    [
        (f"n = len(x)\nloss = (1.0 / n) * {SUM}", False),
        (f"n = len(x)\nscale = 1 / n\nloss = F.mse_loss(x, y) + 6 * scale * {SUM}", False),
        (f"loss = {SUM}\nloss /= len(x)", False),
        (f"loss = {SUM}\nloss = loss / len(x)", False),
        (f"loss = {SUM}\nloss = loss.div(x.size(0))", False),
        (f"loss = {SUM}\nloss = loss * (1 / x.size(0))", False),
        (f"loss = {SUM}\nloss *= 1 / x.size(0)", False),
        (f"loss = {SUM}\nshown = loss / len(x)", True),
        (f"loss = {SUM}\nloss *= 0.5", True),
        (f"loss = {SUM} * (1 / 2)", True),
        (f"loss = 0\nfor part in parts:\n    loss += {SUM}", True),
        ("loss = x.mean(0).sum()", False),  # the columns of a mean over the rows
        ("divergence = 0.5 * (-1 - x + y.exp()).mean(dim=0)\nloss = divergence.sum()", False),
        ("loss = torch.sum(torch.mean(x, (0, 2)).abs())", False),
        ("loss = x.mean(1).sum()", True),
        ("c = x.T @ y\nc.div_(len(x))\nloss = torch.diagonal(c).add_(-1).pow_(2).sum()", False),
        ("loss = x.T.mm(x).div(len(x) - 1).pow(2).sum()", False),
        ("loss = (x.T @ y).pow(2).sum()", True),
        ("loss = F.mse_loss(x.mean(0), y.mean(0), reduction='sum')", False),
        ("loss = (x.mean(0) - y).pow(2).sum()", True),
        (f"loss = 0\nfor part in parts:\n    loss += {SUM}\nloss = loss / len(x)", False),
        (f"loss = {SUM}\nif mean:\n    loss /= len(x)", True),
        (f"mean = True\nloss = {SUM}\nif mean:\n    loss /= len(x)", False),
        (f"mean = False\nloss = {SUM}\nif mean:\n    loss /= len(x)", True),
        (f"mean = True\nloss = {SUM}\nif mean:\n    loss = loss / (x > 0).sum()\nloss = 2 * loss", False),
        (f"mean = True\nif mean:\n    loss = x.mean()\nloss = {SUM}", True),
        (f"def f(x, y, m=1):\n    z = {SUM}\n    if m:\n        z /= len(x)\n    return z\nloss = f(x, y)", False),
        (f"loss = {SUM}\nloss.div_(len(x))", False),
        (f"loss = {SUM}\nuse_it(loss)\nloss = F.mse_loss(x, y)", False),
        ("kld = torch.sum(y**2)\nkld /= len(x)\nloss = F.mse_loss(x, y) + 3 * kld.sum()", False),
        ("kld = torch.sum(y**2)\nkld = kld / len(x)\nloss = torch.sum(kld)", False),
        ("kld = y.pow(2).sum()\nloss = kld.sum()", True),
        ("kld = torch.sum(y**2, 1)\nkld /= 2\nloss = kld.sum()", True),
        ("loss = torch.sum(F.mse_loss(x, y))", False),
        ("loss = F.mse_loss(x, y, reduction='mean').sum()", False),
        ("criterion = nn.CrossEntropyLoss()\nloss = criterion(x, y)\nloss = loss.sum()", False),
        ("loss = sum(parts) + torch.sum(nn.BCELoss()(x, y) + 2 * F.l1_loss(x, y))", False),
        ("def f(x, y):\n    return F.mse_loss(x, y)\nloss = f(x, y).sum()", False),
        (f"loss = {SUM}.sum()", True),
        ("loss = nn.MSELoss(size_average=False)(x, y).sum()", True),
        ("loss = F.mse_loss(x, y, reduction='none').sum()", True),
        ("loss = nn.MSELoss(reduce=False)(x, y).sum()", True),
        ("loss = nn.MSELoss(**options)(x, y).sum()", True),
        ("def f(x, y):\n    return (x - y).pow(2)\nloss = f(x, y).sum()", True),
        ("def f(x, y):\n    return F.mse_loss(x, y, reduction='none')\nloss = torch.sum(f(x, y))", True),
        (f"{WHOLE}loss = nn.DataParallel(Whole())(x, y).sum()", True),
        (f"{WHOLE}loss = Whole()(x, y).sum()", False),
    ],
)
def test_what_divides_a_sum_before_it_is_used(code: str, is_sum: bool) -> None:
    facts = Facts(f"{IMPORTS}{code}\nuse(loss)\n")
    assert Losses(facts.program, facts.roles).is_sum(facts.call("use(loss)").args[0]) is is_sum


@pytest.mark.parametrize(
    ("code", "is_divided"),
    [
        ("loss = F.mse_loss(x, y) / len(x)", True),
        ("n, c = x.size()\nloss = nn.MSELoss()(x, y)\nloss /= n", True),
        ("n = x.shape[0]\nloss = F.l1_loss(x, y) + 0.5 * (x - y).pow(2).mean().div(float(n))", True),
        ("loss = (1.0 / x.size(0)) * torch.mean(x)", True),
        ("def f(x, y):\n    return nn.MSELoss(reduction='mean')(x, y) / x.size()[0]\nloss = -f(x, y)", True),
        ("loss = F.mse_loss(x, y)", False),
        ("loss = F.mse_loss(x, y) / 4", False),
        ("loss = F.mse_loss(x, y) / accumulation_steps", False),
        ("loss = F.mse_loss(x, y) / x.size(1)", False),
        ("c, n = x.size()\nloss = F.mse_loss(x, y) / n", False),
        (f"loss = {SUM} / len(x)", False),
        ("loss = nn.MSELoss(reduction='sum')(x, y) / x.size(0)", False),
        ("loss = nn.MSELoss(size_average=average)(x, y) / x.size(0)", False),
        ("losses = [F.mse_loss(x, y), x.mean()]\nloss = sum(losses) / len(losses)", False),
        ("loss = nn.Linear(2, 2).weight.pow(2).mean() / len(x)", False),
        ("loss = x.mean(0).sum() / len(x)", False),
    ],
)
def test_whether_a_mean_is_divided_by_its_rows_again(code: str, is_divided: bool) -> None:
    facts = Facts(f"{IMPORTS}{code}\nuse(loss)\n")
    assert DividedMeans(facts.program, facts.roles).has(facts.call("use(loss)").args[0]) is is_divided


@pytest.mark.parametrize(
    ("result", "taken", "is_sum"),
    [
        ("total, kld", "loss, _ = f(x, y)", True),
        ("total, kld", "_, loss = f(x, y)", False),
        ("total, kld", "loss = f(x, y)[0]", True),
        ("total, kld", "both = f(x, y)\nloss = both[-1]", False),
        ("[total / len(x), kld]", "(loss, _) = f(x, y)", False),
        ("{'loss': total, 'kld': kld}", "loss = f(x, y)['loss']", True),
        ("{'loss': total, 'kld': kld}", "out = f(x, y)\nloss = out['kld']", False),
    ],
)
def test_a_loss_that_a_function_returns_among_others(result: str, taken: str, is_sum: bool) -> None:
    text = f"def f(x, y):\n    kld = y.mean()\n    total = {SUM} + kld\n    return {result}\n"
    facts = Facts(f"{IMPORTS}{text}{taken}\nuse(loss)\n")
    assert Losses(facts.program, facts.roles).is_sum(facts.call("use(loss)").args[0]) is is_sum


def test_an_attribute_that_holds_the_loss() -> None:
    text = f"class T:\n    def step(self, x, y):\n        self.loss = {SUM}\n{{}}        use(self.loss)\n"
    for divided, is_sum in (("", True), ("        self.loss /= len(x)\n", False)):
        facts = Facts(f"{IMPORTS}{text.format(divided)}")
        assert Losses(facts.program, facts.roles).is_sum(facts.call("use(self.loss)").args[0]) is is_sum


def test_a_loss_that_a_function_returns() -> None:
    text = "def f(x):\n    return F.mse_loss(x, x, reduction='sum')\ndef g(x):\n    return F.mse_loss(x, x)\n"
    facts = Facts(f"{IMPORTS}{text}use(f(1), g(1))\n")
    losses = Losses(facts.program, facts.roles)
    assert [losses.is_sum(a) for a in facts.call("use(").args] == [True, False]


@pytest.mark.parametrize(
    ("init", "result", "is_sum"),
    [
        ("pass", "F.mse_loss(x, x, reduction='sum').div_(2)", True),
        ("self.inner = nn.MSELoss(reduction='sum')", "0.5 * self.inner(x, x)", True),
        ("self.inner = nn.MSELoss()", "self.inner(x, x)", False),
        ("pass", "F.mse_loss(x, x, reduction='sum').div_(len(x))", False),
    ],
)
@pytest.mark.parametrize("base", ["nn.Module", "nn.modules.loss._Loss", "nn.MSELoss"])
def test_a_loss_of_a_module_of_the_script_s_own(init: str, result: str, is_sum: bool, base: str) -> None:
    text = f"class Own({base}):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
    facts = Facts(f"{IMPORTS}{text}    def forward(self, x):\n        return {result}\nown = Own()\nuse(own(1))\n")
    assert Losses(facts.program, facts.roles).is_sum(facts.call("use(").args[0]) is is_sum


def test_what_a_function_inside_returns_is_no_loss() -> None:
    inner = "    def g():\n        return F.mse_loss(x, x, reduction='sum')\n"
    facts = Facts(f"{IMPORTS}def f(x):\n{inner}    return F.mse_loss(x, x)\nuse(f(1))\n")
    assert not Losses(facts.program, facts.roles).is_sum(facts.call("use(").args[0])


def test_recursion_ends() -> None:
    facts = Facts("def f(x):\n    return f(x)\na = f(1)\na = a + f(2)\nuse(a)\n")
    assert not Losses(facts.program, facts.roles).is_sum(facts.call("use(a)").args[0])


FOCAL = """\
from torch import nn
class Other(nn.Module):  # that nothing makes
    def __init__(self, mean=False, reduction="sum"):
        super().__init__()
        self.mean, self.reduction = mean, reduction
class Focal(nn.Module):
    def __init__(self, mean=True, reduction="mean"):
        super().__init__()
        self.mean, self.reduction = mean, reduction
    def forward(self, p, t):
        p = (p - t).abs()
        {body}
"""


@pytest.mark.parametrize(
    "body",
    [
        "if self.mean: return p.mean()\n        else: return p.sum()",
        "if not self.mean:\n            return p.sum()\n        return p.mean()",
        "loss = p.mean() if self.mean else p.sum()\n        return loss",
        "if self.reduction == 'sum':\n            p = p.sum()\n        else:\n            p = p.mean()\n"
        "        return p",
    ],
)
@pytest.mark.parametrize(("given", "is_sum"), [("", False), ("mean=False, reduction='sum'", True)])
def test_a_branch_that_the_options_of_a_loss_rule_out_adds_nothing_up(body: str, given: str, is_sum: bool) -> None:
    main = f"from losses import Focal\ncriterion = Focal({given})\nloss = criterion(x, y)\nuse(loss)\n"
    facts = Facts({"main.py": main, "losses.py": FOCAL.format(body=body)})
    assert Losses(facts.program, facts.roles).is_sum(facts.call("use(loss)").args[0]) is is_sum


REDUCED = """\
def reduced(x, kind="avg", add=False):
    {body}
def both(x, kind):
    return reduced(x, kind), 1
"""


@pytest.mark.parametrize(
    "body",
    [
        "if kind == 'sum': return x.sum()\n    else: return x.mean()",
        "if kind == 'sum':\n        x = x.sum()\n    elif kind == 'avg':\n        x = x.mean()\n    return x",
        "return x.sum() if kind == 'sum' else x.mean()",
        "if not (add or kind == 'sum'):\n        return x.mean()\n    return torch.sum(x)",
    ],
)
@pytest.mark.parametrize(
    ("loss", "is_sum"),
    [
        ("reduced(x)", False),
        ("reduced(x, 'sum')", True),
        ("both(x, 'avg')[0]", False),
        ("both(x, kind='sum')[0]", True),
    ],
)
def test_the_arguments_of_one_call_say_how_a_function_reduces(body: str, loss: str, is_sum: bool) -> None:
    text = f"{IMPORTS}{REDUCED.format(body=body)}show(reduced(x, kind='sum'), reduced(x))\nuse({loss})\n"
    facts = Facts(text)
    assert Losses(facts.program, facts.roles).is_sum(facts.call("use(").args[0]) is is_sum


ASCENT = """\
for x, y in loader:
    for k in range(5):
        {pass_}
    net.zero_grad()
    net(x).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("pass_", "is_it"),
    [
        ("net(x).sum().backward(); x.data.add_(x.grad)", True),
        ("net(x).sum().backward(); x = step(x, x.grad.data.sign())", True),
        ("net(x).sum().backward(); show(weight.grad)", False),
        ("net(x).sum().backward(); optimizer.step(); show(x.grad)", False),
        ("net(x).sum().backward()", False),
    ],
)
def test_a_backward_pass_that_only_the_input_needs(pass_: str, is_it: bool) -> None:
    made = "net = nn.Linear(2, 2)\noptimizer = torch.optim.SGD(net.parameters(), 1)\n"
    facts = Facts(f"{IMPORTS}{made}{ASCENT.format(pass_=pass_)}")
    backward, steps = (
        facts.call("net(x).sum().backward()"),
        [c for c in facts.program.calls if "step()" in texts([c])[0]],
    )
    assert is_for_inputs(facts.program, backward, steps, lambda node: texts([node]) == ["weight"]) is is_it


def test_a_sum_of_what_is_of_no_batch() -> None:
    facts = Facts(f"{IMPORTS}use((x.mean(0).log() * p).sum(), (x * p).sum(), p.pow(2).sum())\n")
    losses = Losses(facts.program, facts.roles, is_alike=lambda node: "x" not in texts([node])[0])
    assert [losses.is_sum(a) for a in facts.call("use(").args] == [False, True, False]


def test_code_without_gradients() -> None:
    facts = Facts(
        "import torch\nwith torch.no_grad():\n    a()\nwith other():\n    b()\n@torch.no_grad()\ndef f():\n    c()\n"
    )
    found = [without_gradients(facts.program, facts[c]) for c in ("a()", "b()", "c()")]
    assert found == [facts["with torch.no_grad"], None, facts.program.frame(facts["c()"]).node]


@pytest.mark.parametrize(
    ("penalty", "is_sum"),
    [
        ("weight.sum()", False),
        ("torch.sum(net.weight ** 2)", False),
        ("0.1 * net.weight.abs().sum()", False),
        ("(weight * x).sum()", True),
        ("torch.sum(x ** 2)", True),
    ],
)
def test_a_penalty_on_the_weights_is_of_no_batch(penalty: str, is_sum: bool) -> None:
    text = f"{IMPORTS}net, weight = nn.Linear(4, 4), nn.Parameter(torch.zeros(2))\nx, y = load()\n"
    facts = Facts(f"{text}loss = F.mse_loss(net(x), y) + {penalty}\nloss.backward()\n")
    (node,) = [c for c in facts.program.calls if "backward" in texts([c.func])[0]]
    (loss,) = losses_of(facts.program, node)
    assert Losses(facts.program, facts.roles).is_sum(loss) is is_sum


CRITERIA = """\
criteria, losses = {'a': nn.MSELoss(), 'b': nn.L1Loss()}, []
for name, criterion in criteria.items():
    losses.append(criterion(x, y))
"""
LOGS = "logs = []\nfor step in steps:\n    logs.append(policy(step).log_prob(x))\n"
TWO = "a, b = F.mse_loss(x, y), F.l1_loss(x, y)\n"


@pytest.mark.parametrize(
    ("before", "loss", "is_sum"),
    [
        (CRITERIA, "torch.sum(torch.stack(losses) * weights)", False),
        (f"{CRITERIA}both = torch.stack(losses)\n", "(both / scale).sum()", False),
        (TWO, "(torch.cat([a.view(1), b.unsqueeze(0)]) * weights).sum()", False),
        (TWO, "torch.stack((a, x.mean())).mul(weights).sum()", False),
        ("parts = torch.zeros(2, device=x.device)\nparts[0], parts[1] = a, b\n", "parts.sum()", False),
        ("parts = x.new()\nparts = torch.empty((2, 1))\nparts[0] = x.mean()\n", "torch.sum(parts)", False),
        ("parts = torch.zeros(len(x))\nparts[0] = x.mean()\n", "parts.sum()", True),
        ("parts = torch.zeros(2)\nif n: parts = x\n", "parts.sum()", True),
        (LOGS, "(torch.stack(logs) * rewards).sum()", True),
        (LOGS, "torch.cat(logs).sum()", True),
        ("", "(torch.stack([x - y, y]) * weights).sum()", True),
        ("", "(torch.stack([F.mse_loss(x, y, reduction='none')]) * weights).sum()", True),
    ],
)
def test_a_sum_of_several_losses_is_none_over_the_rows(before: str, loss: str, is_sum: bool) -> None:
    facts = Facts(f"{IMPORTS}{before}loss = {loss}\nuse(loss)\n")
    assert Losses(facts.program, facts.roles).is_sum(facts.call("use(loss)").args[0]) is is_sum


ROWS = "import torch\nx, y = load()\nn = x.shape[0]\n"
OFF = "def off_diagonal(m):\n    k, _ = m.shape\n    return m.flatten()[:-1].view(k - 1, k + 1)[:, 1:].flatten()\n"


@pytest.mark.parametrize(
    ("code", "is_mean"),
    [
        ("c = x.mean(0)", True),
        ("c = x.mean(1)", False),
        ("c = (-x).mean(dim=(0, 2)).abs() - 1", True),
        ("c = x.std(dim=0)", True),
        ("c = torch.cov(x.T)", True),
        ("c = (x.T @ y) / n", True),
        ("c = torch.mm(x.t(), y) / (n - 1)", True),
        ("c = x.t().mm(y).div(n)", True),
        ("c = torch.einsum('bi,bj->ij', x, y) / n", True),
        ("c = torch.einsum('bi,ci->bc', x, y) / n", False),
        ("c = (x @ y.T) / n", False),
        ("c = x.T @ y", False),
        ("c = x.T @ y\nc.div_(n)", True),
        ("c = x.T @ y\nshow(c.div(n))", False),
        ("c = x.T @ y / n\nc = torch.diagonal(c).add_(-1)", True),
        (f"{OFF}c = off_diagonal(x.T @ y / n)", True),
        (f"{OFF}c = off_diagonal(x)", False),
        ("_, d = x.shape\nc = (x.T @ y) / n\nc = c.flatten()[:-1].view(d - 1, d + 1)[:, 1:].flatten().pow_(2)", True),
        ("d = x.size(1)\nc = (x.T @ y / n).reshape(-1, d + 1)[:, 1:].reshape(d * (d - 1)).abs().sqrt()", True),
        ("_, d = x.shape\nc = x.flatten()[:-1].view(d - 1, d + 1)", False),
        ("c = x.mean(0) - y", False),
        ("c = x.mean(0)\nc = c[c > 0]", True),
        ("c = x.mean(0).expand_as(y)", False),
    ],
)
def test_whether_a_value_is_a_mean_over_the_rows(code: str, is_mean: bool) -> None:
    facts = Facts(f"{ROWS}{code}\nuse(c)\n")
    assert RowMeans(facts.program).is_mean(facts.call("use(c)").args[0]) is is_mean


@pytest.mark.parametrize(
    ("loss", "is_sum"),
    [
        ("(x - y).pow(2).sum() / size", True),
        ("(x - y).pow(2).sum().div(size)", True),
        ("(x - y).pow(2).sum() * (1.0 / size)", True),
        ("(x - y).pow(2).sum() / len(x)", False),
        ("(x - y).pow(2).mean() / size", False),
    ],
)
def test_what_is_the_same_for_any_batch_divides_no_sum(loss: str, is_sum: bool) -> None:
    facts = Facts(f"import torch\nx, y = load()\nsize = 8\nloss = {loss}\nuse(loss)\n")
    loss_node = facts.call("use(loss)").args[0]
    losses = Losses(facts.program, facts.roles, lambda divisor: ast.unparse(divisor) == "size")
    assert losses.is_sum(loss_node) is is_sum
    assert not Losses(facts.program, facts.roles).is_sum(loss_node)
