"""Mistakes that migrations of real scripts had, each in at least three spellings.

Values that a loop updates have a table of their own, in `running_values`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from accelify.codemod.result import FileResult, Status
from tests import scripts
from tests.codemod.pairs import run, script


def after(text: str) -> str:
    result = run(text)
    assert result.status is Status.MIGRATED, result.notes
    return result.after.decode()


def noted(result: FileResult, *words: str) -> bool:
    """Whether one note has all these words."""
    return any(all(word in note.message for word in words) for note in result.notes)


def is_declined(text: str, *words: str) -> bool:
    result = run(text)
    return result.status is Status.DECLINED and noted(result, *words)


def in_order(text: str, *parts: str) -> bool:
    """Whether these parts stand in a text, one after the other."""
    place = 0
    for part in parts:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True


# Values of one process.


@pytest.mark.parametrize(
    "zero",
    [
        "from torch import zeros; total = zeros(1)",
        "import torch as T; total = T.zeros(1)",
        "total = float(0)",
        "total = -0.0",
        "total = torch.tensor(0.0)",
        "total = 0 * 1.0",
    ],
)
def test_a_sum_is_reduced_whatever_its_zero_is_called(zero: str) -> None:
    text = script(prepared=zero, backward="loss.backward(); total += loss.item()", end="print(total / len(loader))")
    result = run(text)
    assert "accelerator.reduce(total" in result.after.decode() or noted(result, "`total`")


@pytest.mark.parametrize(
    "step",
    [
        "if (i + 1) % 4 == 0:\n    optimizer.step(); optimizer.zero_grad(); steps += 1",
        "if i % 4 == 3:\n    optimizer.step(); optimizer.zero_grad(); steps = steps + 1",
        "if not (i + 1) % 4:\n    optimizer.step(); optimizer.zero_grad(); steps, last = steps + 1, i",
    ],
)
def test_a_counter_of_optimizer_steps_is_not_summed(step: str) -> None:
    text = script(
        prepared="steps = i = 0",
        backward=f"(loss / 4).backward()\n{step}\ni += 1",
        end="torch.save({'model': model.state_dict(), 'steps': steps}, 'last.pt')",
    ).replace("        optimizer.step()\nprint", "print")
    assert "reduce(steps" not in after(text)


@pytest.mark.parametrize(
    "loop",
    [
        "for step, rows in enumerate(batches(), 1):\n    train(rows)\n    if step == 4: scheduler.step(); validate()",
        "step = 0\nfor rows in batches():\n    train(rows)\n    step += 1\n"
        "    if step >= 4: scheduler.step(); validate()",
        "for step, rows in enumerate(batches()):\n    train(rows)\n    if step + 1 == 4: scheduler.step(); validate()",
    ],
)
def test_the_last_of_a_number_of_batches_is_met_or_noted(loop: str) -> None:
    text = f"""\
import torch
from torch import nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
data = torch.randn(8, 4)
def batches():
    for i in range(0, 8, 2): yield data[i : i + 2]
def validate(): print(model(data).mean().item())
def train(rows):
    loss = model(rows).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{loop}
"""
    result = run(text)
    assert "accelerator.shard" not in result.after.decode() or noted(result, "step")


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        ("memory = torch.zeros(8, 4)", "memory[i % 8] = x[0].detach()"),
        ("memory = {}", "memory[i] = x.mean(0).detach()"),
        ("memory = Memory()", "memory.update(x.mean(0).detach())"),
        ("memory = []", "memory.append(x.mean(0).detach())"),
    ],
)
def test_what_later_steps_read_is_said(made: str, kept: str) -> None:
    text = script(
        before="""\
        class Memory:
            def __init__(self): self.rows = []
            def update(self, row): self.rows.append(row)
            def __getitem__(self, i): return self.rows[i]
            def __len__(self): return len(self.rows)
        """,
        prepared=f"i = 0\n{made}",
        batch=f"if len(memory): x = x + memory[0]\n{kept}; i += 1",
    )
    result = run(text)
    assert "accelerator.prepare(loader" not in result.after.decode() or noted(result, "memory")


# Random numbers.


@pytest.mark.parametrize(
    ("before", "batch"),
    [
        ("", "x = x + torch.randn_like(x)"),
        ("torch.manual_seed(0)", "t = torch.randint(0, 10, (len(x),))\nx = x * t[:, None]"),
        ("import numpy as np; np.random.seed(0)", "keep = np.random.rand() < 0.5\nx = x * float(keep)"),
        ("import random; random.seed(1)", "if random.random() < 0.5: x = -x"),
        ("", "x = nn.functional.dropout(x)"),
        ("def noisy(x): return x + torch.empty_like(x).normal_()", "x = noisy(x)"),
    ],
)
def test_processes_draw_different_numbers_beside_the_batch(before: str, batch: str) -> None:
    text = after(script(before=before, batch=batch))
    # `prepare` gives each process numbers of its own; nothing may seed them alike afterwards.
    assert "accelerator.prepare(loader" in text
    assert not in_order(text, "accelerator.prepare(", "seed(")


# Where things are put.

WHOLE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
{before}
def run(size):
{body}
print(run(2))
"""
TRAINING = """\
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=size)
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in loader:
    loss = model(x.to(device)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def within(body: str, training: str = TRAINING, before: str = "") -> str:
    """A script whose function `run` trains where `body` says `TRAINING`."""
    lines = []
    for line in dedent(body).strip("\n").split("\n"):
        space = line[: len(line) - len(line.lstrip())]
        lines += [space + part for part in training.rstrip().split("\n")] if "TRAINING" in line else [line]
    return WHOLE.format(before=before, body="\n".join("    " + line for line in lines))


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    TRAINING\n    return loss.item()\nexcept RuntimeError as e:\n    print(e)\n    raise",
        "try:\n    TRAINING\nfinally:\n    print('done')\nreturn 1",
        "with open('log.txt', 'a') as log:\n    TRAINING\n    return 1",
        "if size > 1:\n    TRAINING\n    return loss.item()\nreturn None",
        "while True:\n    TRAINING\n    break\nreturn 1",
    ],
)
def test_prepare_stands_where_every_way_to_the_training_passes(body: str) -> None:
    assert in_order(after(within(body)), "torch.optim.SGD", "accelerator.prepare(", "for (x,) in loader")


@pytest.mark.parametrize(
    "retry",
    [
        "try:\n    TRAINING\n    return loss.item()\nexcept RuntimeError:\n    return run(size // 2)",
        "while size:\n    try:\n        TRAINING\n        break\n    except RuntimeError:\n        size //= 2",
        "for size in (8, 4, 2):\n    try:\n        TRAINING\n        return size\n    except RuntimeError as error:\n"
        "        if 'out of memory' in str(error): continue\n        raise",
    ],
)
def test_what_one_process_alone_may_try_again_is_said_or_declined(retry: str) -> None:
    result = run(within(retry))
    assert result.status is Status.DECLINED or noted(result, "process")


@pytest.mark.parametrize(
    ("before", "rows"),
    [
        ("def rows(n):\n    while True:\n        for batch in DataLoader(data, n): yield batch", "iter(rows(4))"),
        ("def rows(n):\n    loader = DataLoader(data, n)\n    while True:\n        yield from loader", "rows(4)"),
        (
            "def rows(n):\n    loader = DataLoader(data, n)\n    it = iter(loader)\n    while True:\n        try:\n"
            "            yield next(it)\n        except StopIteration:\n            it = iter(loader)",
            "rows(4)",
        ),
        (
            "class Rows:\n    def __init__(self, n): self.loader = DataLoader(data, n)\n    def __iter__(self):\n"
            "        while True:\n            for batch in self.loader: yield batch",
            "iter(Rows(4))",
        ),
    ],
)
def test_a_loader_that_a_generator_makes_is_prepared_there(before: str, rows: str) -> None:
    text = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(16, 4))
{before}
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
it = {rows}
for i in range(9):
    (x,) = next(it)
    loss = model(x.to(device)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    result = after(text)
    assert f"prepare({rows}" not in result  # a generator has no length, and no batches of its own
    assert any(f"prepare({made}" in result for made in ("DataLoader(", "loader", "Rows("))


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("", "model.trainable()"),
        ("", "[p for p in model.parameters() if p.requires_grad]"),
        ("", "filter(lambda p: p.requires_grad, model.parameters())"),
        ("", "[{'params': model[0].parameters()}, {'params': model[1].parameters(), 'lr': 1.0}]"),
        ("parameters = list(model.parameters())", "parameters"),
        ("parameters = []\nfor part in model: parameters += part.parameters()", "parameters"),
    ],
)
def test_a_model_is_prepared_however_its_parameters_reach_the_optimizer(model: str, parameters: str) -> None:
    text = script(
        before="class Net(nn.Sequential):\n    def trainable(self): return self[0].parameters()", model=model
    ).replace("nn.Linear(4, 1)", "Net(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))")
    text = text.replace("SGD(model.parameters()", f"SGD({parameters}")
    assert "model, optimizer = accelerator.prepare(" in after(text)


@pytest.mark.parametrize(
    "settings",
    [
        "use_cpu = False\nexec(open('overrides.py').read())",
        "import sys\nuse_cpu = False\nfor item in sys.argv[1:]: globals()[item] = True",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--cpu', action='store_true')\n"
        "use_cpu = p.parse_args().cpu",
    ],
)
def test_the_accelerator_comes_after_the_settings(settings: str) -> None:
    text = script(before=settings)
    text = text.replace('device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n', "")
    text = text.replace("model = nn", 'device = torch.device("cpu" if use_cpu else "cuda")\nmodel = nn')
    assert in_order(after(text), settings.split("\n")[-1], "Accelerator(cpu=use_cpu)", "DataLoader(")


@pytest.mark.parametrize(
    ("imported", "rows"),
    [
        ("from itertools import islice", "islice(loader, 3)"),
        ("import itertools as it", "it.islice(loader, 3)"),
        ("", "list(loader)[:3]"),
        ("", "enumerate(loader)"),
    ],
)
def test_the_loader_is_prepared_and_not_what_is_taken_from_it(imported: str, rows: str) -> None:
    text = script(imports=imported)
    text = text.replace(
        "for x, y in loader:", f"for x, y in {rows}:" if "enum" not in rows else f"for _, (x, y) in {rows}:"
    )
    assert f"prepare({rows}" not in after(text)
    assert "accelerator.prepare(loader" in after(text) or "loader = accelerator.prepare(" in after(text)


@pytest.mark.parametrize(
    "choice",
    [
        "if use_cuda: model = nn.Linear(4, 1)\nelse: model = nn.Linear(4, 1, bias=False)",
        "kind = 'b'\nif kind == 'a':\n    model = nn.Linear(4, 1)\nelif kind == 'b':\n    model = nn.Linear(4, 1)",
        "model = nn.Linear(4, 1) if use_cuda else nn.Linear(4, 1, bias=False)",
    ],
)
def test_one_prepare_below_the_branches(choice: str) -> None:
    text = after(
        script(model=choice).replace("model = nn.Linear(4, 1)\n", "", 1) if "kind" in choice else script(model=choice)
    )
    assert text.count("accelerator.prepare(") == 1


@pytest.mark.parametrize("unpacked", ["(b.to(device) for b in batch)", "[b.to(device) for b in batch]"])
def test_what_moves_a_batch_leaves_no_empty_comprehension(unpacked: str) -> None:
    text = script(batch=f"x, y = {unpacked}").replace("for x, y in loader", "for batch in loader")
    assert "b for b in batch" not in after(text)


# Other files that call what is rewritten.

ENGINE = """\
import torch
def {name}(loader, model, opt, {parameter}):
    for x, y in loader:
        x, y = x.to({used}), y.to({used})
        loss = (model(x) - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
CALLER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
{imported}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 1).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
{call}
"""


@pytest.mark.parametrize(
    ("parameter", "imported", "call"),
    [
        ("device", "import engine", "engine.train(loader, model, opt, device)"),
        ("device", "from engine import train", "train(loader, model, opt, device=device)"),
        ("device='cpu'", "from engine import train as fit", "for _ in range(2): fit(loader, model, opt, device)"),
        ("*, device", "from engine import *", "train(loader, model, opt, device=device)"),
    ],
)
def test_a_sibling_that_calls_the_same_function_still_runs(
    parameter: str, imported: str, call: str, tmp_path: Path
) -> None:
    caller = CALLER.format(imported=imported, call=call).encode()
    engine = ENGINE.format(name="train", parameter=parameter, used="device").encode()
    results, files = scripts.rewrite(tmp_path, {"train.py": caller, "engine.py": engine, "other.py": caller})
    assert results[0].status is Status.MIGRATED
    for name in ("train.py", "other.py"):
        assert takes(files["engine.py"].decode(), "train", call_of(files[name].decode(), "train", "fit"))


@pytest.mark.parametrize(
    ("other", "passed"),
    [
        ("tests/test_engine.py", "from engine import Engine\ndef test(): Engine(None, device='cpu')\n"),
        ("tool.py", "import engine\nif __name__ == '__main__': engine.Engine(None, 'cpu')\n"),
        ("use.py", "from package import Engine\nEngine(None, device='cpu')\n"),
        ("use.py", "from engine import Engine as E\nsettings = dict(device='cpu')\nE(None, **settings)\n"),
    ],
)
def test_a_parameter_that_others_pass_stays(other: str, passed: str, tmp_path: Path) -> None:
    engine = """\
    class Engine:
        def __init__(self, loader, device="cuda"):
            self.loader, self.device = loader, device
        def fit(self, model, opt):
            model.to(self.device)
            for x, y in self.loader:
                x, y = x.to(self.device), y.to(self.device)
                loss = (model(x) - y).pow(2).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
    """
    files = {
        "train.py": CALLER.format(
            imported="from engine import Engine", call="Engine(loader, device=device).fit(model, opt)"
        ).encode(),
        "engine.py": dedent(engine).encode(),
        "package/__init__.py": b"from engine import Engine\n",
        other: passed.encode(),
    }
    results, after_all = scripts.rewrite(tmp_path, files)
    assert results[0].status is Status.MIGRATED
    text = after_all["engine.py"].decode()
    assert "**" in passed or takes(text, "__init__", call_of(passed, "Engine", "E"), bound=True)
    assert "device" in text.split("def __init__(")[1].split(")")[0]


def takes(text: str, name: str, call: ast.Call, *, bound: bool = False) -> bool:
    """Whether a function of a text can be called so."""
    made = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name == name)
    made.body = [ast.Pass()]
    namespace: dict[str, Callable[..., object]] = {}
    exec(ast.unparse(made), namespace)
    given = [0, *call.args] if bound else call.args
    try:
        inspect.signature(namespace[name]).bind(*given, **{k.arg or "": 0 for k in call.keywords})
    except TypeError:
        return False
    return True


def call_of(text: str, *called: str) -> ast.Call:
    calls = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call))
    return next(c for c in calls if ast.unparse(c.func).rpartition(".")[2] in called)


# Devices.


@pytest.mark.parametrize(
    ("option", "moved"),
    [
        ("use_gpu = '--gpu' in sys.argv", "if use_gpu: w = w.cuda()"),
        ("use_gpu = len(sys.argv) > 1", "w = w.cuda() if use_gpu else w"),
        ("use_gpu = bool(sys.argv[1:])", "if use_gpu:\n    w = w.to('cuda')"),
    ],
)
def test_what_moves_under_a_flag_meets_what_always_moves(option: str, moved: str) -> None:
    text = script(
        imports="import sys",
        before=option,
        model="if use_gpu: model.cuda()",
        prepared=f"w = torch.ones(4)\n{moved}",
        batch="if use_gpu: x, y = x.cuda(), y.cuda()\nx = x * w",
    )
    result = after(text)
    assert "Accelerator(cpu=not use_gpu)" in result or "w.to(accelerator.device)" in result


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("def train(*, device='cpu'):\n    put(torch.device(device))", "train()"),
        ("def train(device='cuda:0'):\n    put(device)", "train()"),
        ("def train():\n    put(torch.device('cuda:0'))", "train()"),
        ("def train(where):\n    put(where)", "import sys\ntrain(sys.argv[1] if sys.argv[1:] else 'cuda:0')"),
    ],
)
def test_a_fixed_device_is_the_process_s_own_or_said(function: str, call: str) -> None:
    text = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def put(dev):
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    model = nn.Linear(4, 1).to(dev)
    w = torch.ones(4).to(dev)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.to(dev) * w), y.to(dev))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{function}
{call}
"""
    result = run(text)
    text = result.after.decode()
    assert result.status is Status.MIGRATED
    is_own = "accelerator.device" in text or "Accelerator(cpu=True)" in text
    assert is_own or noted(result, "device"), text


@pytest.mark.parametrize(
    "first",
    ["model.cuda()", "model = model.to('cuda')", "w = torch.zeros(1).cuda()", "w = torch.zeros(1, device='cuda')"],
)
def test_the_accelerator_comes_before_the_first_use_of_a_gpu(first: str) -> None:
    text = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
model = nn.Linear(4, 1)
{first}
def main(net):
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(net(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main(model)
"""
    result = run(text)
    left = [line for line in result.after.decode().split("\n") if "cuda" in line]
    assert not left or in_order(result.after.decode(), "= Accelerator(", left[0]) or noted(result, "GPU")


@pytest.mark.parametrize(
    "read",
    [
        "hits += (out.cpu().argmax(1) == y[:, 0]).sum().item()",
        "total += nn.functional.mse_loss(out.cpu(), y).item()",
        "hits += int((out.detach().cpu().round() == y).sum())",
        "kept = out.cpu()\nhits += (kept > y).sum().item()",
        "rows.append(np.abs(out.detach().cpu().numpy() - y.numpy()))",
    ],
)
def test_what_is_kept_on_the_cpu_on_purpose_meets_its_like(read: str) -> None:
    text = script(
        imports="import numpy as np",
        model="model.to(device)\nhits, total, rows = 0, 0.0, []",
        batch=f"out = model(x.to(device))\n{read}",
        backward="",
        end="print(hits, total, rows)",
    ).replace(
        "loss = nn.functional.mse_loss(model(x), y)", "loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))"
    )
    text = text.replace("        optimizer.step()", "        loss.backward()\n        optimizer.step()")
    result = after(text)
    assert "y.cpu()" in result or "mixed_devices" in result or "device_placement=False" in result


@pytest.mark.parametrize(
    ("parts", "run_parts"),
    [
        ("nn.ModuleList([nn.Embedding(9, 4), nn.Linear(4, 1)])", "embed, head = model\nout = head(embed(seqs))"),
        ("nn.ModuleList([nn.Embedding(9, 4), nn.Linear(4, 1)])", "out = model[1](model[0](seqs))"),
        ("nn.ModuleDict({'e': nn.Embedding(9, 4), 'h': nn.Linear(4, 1)})", "out = model['h'](model['e'](seqs))"),
        ("nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 1))", "out = seqs\nfor part in model: out = part(out)"),
    ],
)
def test_inputs_of_a_model_s_parts_are_moved(parts: str, run_parts: str) -> None:
    text = f"""\
import torch
from torch import nn
seqs = torch.stack([torch.arange(3), torch.arange(3)])
model = {parts}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    {run_parts.replace(chr(10), chr(10) + "    ")}
    loss = out.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    result = after(text)
    assert any(
        x in result for x in ("seqs.to(accelerator.device)", ".to(accelerator.device)", "mixed_devices", "cpu=True")
    )


@pytest.mark.parametrize(
    ("option", "used"),
    [
        ("'--no-cuda', action='store_true'", "use_cuda = not args.no_cuda and torch.cuda.is_available()"),
        ("'--no_cuda', action='store_true'", "use_cuda = torch.cuda.is_available()\nif args.no_cuda: use_cuda = False"),
        ("'--cpu', action='store_true'", "use_cuda = not args.cpu"),
        ("'--gpu', type=int, default=0", "use_cuda = args.gpu >= 0"),
        ("'--gpu', type=int, default=0", "use_cuda = args.gpu != -1 and torch.cuda.is_available()"),
        ("'--device', default='cuda'", "use_cuda = args.device != 'cpu'"),
    ],
)
@pytest.mark.parametrize("by", ["torch.device('cuda' if use_cuda else 'cpu')", "'cuda:0' if use_cuda else 'cpu'"])
def test_an_option_for_the_cpu_keeps_its_meaning_or_a_note_says_what_replaces_it(
    option: str, used: str, by: str
) -> None:
    text = f"""\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument({option})
args = parser.parse_args()
{used}
dev = {by}
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1).to(dev)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x.to(dev)), y.to(dev))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    result = run(text)
    assert "Accelerator(cpu=" in result.after.decode() or noted(result, "--cpu")


@pytest.mark.parametrize(
    "rank", ["dist.get_rank()", "int(os.environ['LOCAL_RANK'])", "int(os.environ.get('LOCAL_RANK', 0))"]
)
@pytest.mark.parametrize("made", ["device=rank", "device=f'cuda:{rank}'", "device=torch.device('cuda', rank)"])
def test_a_device_by_the_rank_is_the_accelerator_s(rank: str, made: str) -> None:
    text = f"""\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
dist.init_process_group("nccl")
rank = {rank}
torch.cuda.set_device(rank)
data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=2, sampler=sampler)
model = DDP(nn.Linear(4, 1).to(rank), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:
        w = torch.zeros(1, {made})
        loss = nn.functional.mse_loss(model(x.to(rank)) + w, y.to(rank))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    assert "torch.zeros(1, device=accelerator.device)" in after(text)


@pytest.mark.parametrize(
    "needs",
    [
        "assert isinstance(model, nn.DataParallel)",
        "if not isinstance(model, nn.DataParallel): raise TypeError",
        "check(model)",
    ],
)
def test_a_wrapper_that_is_asked_for_is_not_taken_off_in_silence(needs: str) -> None:
    text = script(
        before="def check(net):\n    if not isinstance(net, nn.DataParallel):\n        raise TypeError(net)",
        model=f"model = nn.DataParallel(model).to(device)\n{needs}",
    )
    result = run(text)
    text = result.after.decode()
    assert (
        result.status is Status.DECLINED
        or needs not in text
        or "= nn.DataParallel(" in text
        or noted(result, "DataParallel")
    )


# What a call does besides giving a value.


@pytest.mark.parametrize(
    "where",
    [
        "torch.manual_seed(1234)",
        "self.asked = torch.rand(1)",
        "print('which device?')",
        "open('device.txt', 'w').close()",
    ],
)
def test_a_call_that_does_more_than_to_name_a_device_stays(where: str) -> None:
    text = script(
        before=f"""\
class Cluster:
    def device(self):
        {where}
        return "cpu"
cluster = Cluster()
device = torch.device(cluster.device())
""",
        model="model.to(device)",
    ).replace("print(device, use_cuda)", "")
    assert "cluster.device()" in after(text)


SAVED = {
    "rename": "torch.save(state, 'm.tmp')\nos.replace('m.tmp', 'm.pt')",
    "rename of a path": "tmp = Path('m.tmp')\ntorch.save(state, tmp)\ntmp.replace('m.pt')",
    "size": "torch.save(state, 'm.pt')\nprint(os.path.getsize('m.pt'))",
    "copy": "torch.save(state, 'm.pt')\nshutil.copy('m.pt', 'best.pt')",
    "removal": "torch.save(state, 'm.pt')\nos.remove('m.pt')",
    "removal of the last": "if os.path.exists('m.pt'): os.remove('m.pt')\ntorch.save(state, 'm.pt')",
    "loading": "torch.save(state, 'm.pt')\nmodel.load_state_dict(torch.load('m.pt'))",
}


@pytest.mark.parametrize("saved", SAVED.values(), ids=SAVED)
def test_what_one_process_writes_is_there_for_the_others(saved: str) -> None:
    text = after(
        script(imports="import os, shutil\nfrom pathlib import Path", end=f"state = model.state_dict()\n{saved}")
    )
    lines = text[text.index("state = ") :].split("\n")[1:]
    waited = False
    for line in lines:
        inside = line.startswith(" ")
        waited = waited or "wait_for_everyone" in line
        if not inside and not waited and "is_main_process" not in line:
            assert not any(x in line for x in ("os.re", ".replace(", "getsize", "shutil", "torch.load")), text


@pytest.mark.parametrize(
    "writes",
    [
        "f = open('p.csv', 'w')\nw = csv.writer(f)\nw.writerow([1])\nf.close()",
        "with open('p.csv', 'w') as f:\n    csv.writer(f).writerow([1])",
        "f = open('p.txt', 'w')\nfor i in range(3): f.write(str(i))\nf.close()",
        "f = open('p.txt', 'w')\nprint(1, file=f)\nf.flush()\nf.close()",
    ],
)
def test_a_file_is_opened_written_and_closed_by_one_process(writes: str) -> None:
    text = after(script(imports="import csv", end=writes))
    end = text[text.index("print(device, use_cuda)") :].rstrip().split("\n")[1:]
    assert end[0].strip() == "if accelerator.is_main_process:", text
    assert all(line.startswith(" ") for line in end[1:]), text


@pytest.mark.parametrize(
    "plot",
    [
        "buffer = io.BytesIO()\nplt.savefig(buffer)\nimage = buffer.getvalue()\nprint(len(image))",
        "buffer = io.BytesIO()\ntorch.save(model.state_dict(), buffer)\nprint(len(buffer.getvalue()))",
        "out = io.StringIO()\nnp.savetxt(out, np.zeros(2))\nprint(out.getvalue())",
    ],
)
def test_what_is_written_into_memory_is_written_by_all(plot: str) -> None:
    text = after(script(imports="import io\nimport numpy as np\nimport matplotlib.pyplot as plt", end=plot))
    assert "is_main_process" not in text
    assert "accelerator.save(" not in text


@pytest.mark.parametrize("guard", ["if half:", "if torch.cuda.is_available() and half:", "if os.environ.get('HALF'):"])
def test_a_precision_that_is_chosen_stays_chosen(guard: str) -> None:
    text = script(
        imports="import os, sys",
        before="half = '--half' in sys.argv",
        batch=f"""\
        {guard}
            with torch.autocast('cuda'):
                loss = nn.functional.mse_loss(model(x), y)
        else:
            loss = nn.functional.mse_loss(model(x), y)
        """,
    ).replace("        loss = nn.functional.mse_loss(model(x), y)\n        optimizer", "        optimizer")
    text = after(text)
    assert "half" in text.split("half = ")[1] or "HALF" in text
    assert "autocast" not in text or in_order(text, guard, "autocast") or "mixed_precision=" in text


@pytest.mark.parametrize("shown", ["plt.savefig('a.png')", "plt.gcf().savefig('a.png')", "fig.savefig('a.png')"])
def test_only_what_writes_is_guarded(shown: str) -> None:
    drawn = "fig = plt.figure()\nplt.plot([1, 2])\nplt.title('a')\nplt.legend()\n"
    text = after(script(imports="import matplotlib.pyplot as plt", end=f"{drawn}{shown}\nplt.close()"))
    assert f"plt.legend()\nif accelerator.is_main_process:\n    {shown}\nplt.close()" in text


@pytest.mark.parametrize(
    "test", ["isinstance(model, nn.DataParallel)", "hasattr(model, 'module')", "type(model) is nn.DataParallel"]
)
def test_branches_for_a_wrapper_that_is_gone_go_with_it(test: str) -> None:
    text = script(
        model="if torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\nmodel.to(device)",
        end=f"if {test}:\n    state = model.module.state_dict()\nelse:\n    state = model.state_dict()\nprint(state)",
    )
    text = after(text)
    assert "DataParallel" not in text
    assert ".module" not in text


# Loops.


@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(0, 9, 2):\n    if i + 2 >= 9: continue\n    step(data[i : i + 2])",
        "for i in range(0, 9, 2):\n    rows = data[i : i + 2]\n    if len(rows) < 2: break\n    step(rows)",
        "i = 0\nwhile i + 2 <= 9:\n    step(data[i : i + 2])\n    i += 2",
    ],
)
def test_rounds_that_are_left_out_are_the_same_for_all(loop: str) -> None:
    result = run(_in_rounds(loop))
    _, is_sharded, rest = result.after.decode().partition("accelerator.shard(")
    assert not is_sharded or ("continue" not in rest and "break" not in rest)
    assert result.status is Status.MIGRATED or noted(result, "processes") or noted(result, "each process")


def test_rounds_that_one_process_leaves_out_by_its_rows_are_left_out_by_all() -> None:
    text = after(_in_rounds("for rows in torch.split(data, 2):\n    if len(rows) != 2: continue\n    step(rows)"))
    assert "accelerator.shard(torch.split(data, 2)" in text
    assert 'if accelerator.reduce(len(rows) != 2, "max"): continue' in text


def _in_rounds(loop: str) -> str:
    return f"""\
import torch
from torch import nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(9, 4)
def step(rows):
    loss = model(rows).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for epoch in range(2):
    {loop.replace(chr(10), chr(10) + "    ")}
"""


@pytest.mark.parametrize(
    "start",
    [
        "ps = [mp.Process(target=train, args=(model,)) for _ in range(2)]\nfor p in ps: p.start()",
        "ts = [threading.Thread(target=train, args=(model,)) for _ in range(2)]\nfor t in ts: t.start()",
        "with mp.Pool(2) as pool: pool.map(train, [model, model])",
        "class Worker(mp.Process):\n    def run(self): train(model)\nfor w in [Worker(), Worker()]: w.start()",
        "with ThreadPoolExecutor() as pool: list(pool.map(train, [model]))",
    ],
)
def test_training_in_processes_of_the_script_s_own_is_declined(start: str) -> None:
    text = f"""\
import threading
from concurrent.futures import ThreadPoolExecutor
import torch
import torch.multiprocessing as mp
from torch import nn
def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.randn(2, 4)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
if __name__ == "__main__":
    model = nn.Linear(4, 1)
    model.share_memory()
    {start.replace(chr(10), chr(10) + "    ")}
"""
    assert run(text).status is Status.DECLINED


@pytest.mark.parametrize(
    "state",
    [
        "h = torch.zeros(1, 2, 8)\nout, _ = rnn(x, h)",
        "h = rnn.start(2)\nout, _ = rnn(x, h)",
        "h = torch.zeros(1, BATCH, 8, device=x.device)\nout, _ = rnn(x, h)",
    ],
)
def test_batches_keep_their_size_where_a_state_has_it(state: str) -> None:
    text = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
BATCH = 2
class Net(nn.GRU):
    def start(self, n): return torch.zeros(1, n, 8)
loader = DataLoader(TensorDataset(torch.randn(9, 3, 4)), batch_size=2, drop_last=True)
rnn = Net(4, 8, batch_first=True)
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1)
for (x,) in loader:
    {state.replace(chr(10), chr(10) + "    ")}
    loss = out.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    text = after(text)
    assert "drop_last=True" in text
    assert "split_batches" not in text


SET_UP = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Trainer:
    def {method}(self):
        self.model = nn.Linear(4, 1)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
    def fit(self):
        for (x,) in self.loader:
            self.learn(x)
    def learn(self, x):
        self.opt.zero_grad()
        self.model(x).mean().backward()
        self.opt.step()
{run}
"""


@pytest.mark.parametrize("method", ["init", "setup", "build", "configure_everything"])
@pytest.mark.parametrize("start", ["t = Trainer()\nt.{method}()\nt.fit()", "(t := Trainer()).{method}()\nt.fit()"])
def test_a_class_that_is_set_up_by_another_method(method: str, start: str) -> None:
    text = after(SET_UP.format(method=method, run=start.format(method=method)))
    assert "accelerator.prepare(" in text
    assert "accelerator.backward(" in text


@pytest.mark.parametrize(
    ("imported", "call"),
    [
        ("from pix import Pix", "pix = Pix()\nfor x in rows: pix.optimize_parameters(x)"),
        ("import pix", "p = pix.Pix()\nfor x in rows:\n    p.optimize_parameters(x)"),
        ("from pix import make", "p = make()\nfor epoch in range(2):\n    for x in rows: p.optimize_parameters(x)"),
    ],
)
def test_a_model_that_trains_itself_is_trained_from_another_file(imported: str, call: str, tmp_path: Path) -> None:
    pix = """\
    import torch
    from torch import nn
    class Pix:
        def __init__(self):
            self.net = nn.Linear(4, 1)
            self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        def optimize_parameters(self, x):
            self.opt.zero_grad()
            self.net(x).mean().backward()
            self.opt.step()
    def make(): return Pix()
    """
    train = f"""\
import torch
from torch.utils.data import DataLoader
{imported}
rows = DataLoader(torch.randn(8, 4), batch_size=2)
{call}
"""
    results, files = scripts.rewrite(tmp_path, {"train.py": train.encode(), "pix.py": dedent(pix).encode()})
    assert results[0].status is Status.MIGRATED
    assert b"accelerator.backward(" in files["pix.py"]
    assert b"accelerator.prepare(" in files["train.py"]


# What is said.


@pytest.mark.parametrize("size", ["batch_size=2", "2", "batch_size=args.batch", "**settings"])
def test_what_a_batch_size_means_is_said_once(size: str) -> None:
    text = script(
        before="from types import SimpleNamespace\nargs, settings = SimpleNamespace(batch=2), dict(batch_size=2)",
        end="other = DataLoader(TensorDataset(torch.randn(4, 4)), batch_size=4)\nfor (x,) in other: print(model(x))",
    ).replace("torch.randn(8, 1)), batch_size=2)", f"torch.randn(8, 1)), {size})")
    result = run(text)
    said = [n for n in result.notes if n.rule == "batch_size"]
    assert len(said) == 1
    assert "--keep-global-batch" in said[0].message


@pytest.mark.parametrize(
    "wrapped",
    ["nn.DataParallel(model)", "torch.nn.DataParallel(model, [0, 1])", "nn.parallel.DataParallel(module=model)"],
)
def test_batches_that_were_divided_stay_divided(wrapped: str) -> None:
    result = run(script(model=f"model = {wrapped}.to(device)"))
    assert "split_batches=True" in result.after.decode()
    assert [n.rule for n in result.notes].count("batch_size") == 1


@pytest.mark.parametrize(
    "imported",
    [
        "from pytorch_lightning import seed_everything\nseed_everything(1)",
        "from lightning.pytorch.utilities import rank_zero_only",
        "from ignite.metrics import Accuracy\nAccuracy()",
        "from catalyst.utils import set_global_seed\nset_global_seed(1)",
        "from fastai.vision.all import untar_data",
        "from accelerate.utils import find_executable_batch_size",
    ],
)
def test_a_script_that_trains_by_hand_is_looked_at_whatever_it_imports(imported: str) -> None:
    result = run(script(imports=imported))
    assert result.status is not Status.UNCHANGED


@pytest.mark.parametrize("steps", ["num_training_steps", "t_total", "max_steps", "n"])
def test_a_schedule_in_steps_is_said_whatever_its_length_is_called(steps: str) -> None:
    text = script(
        prepared=f"{steps} = len(loader) * 2\n"
        f"scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: max(0.0, 1 - s / {steps}))",
        backward="loss.backward()",
    ).replace("        optimizer.step()", "        optimizer.step()\n        scheduler.step()")
    result = run(text)
    text = result.after.decode()
    # Either the loader is prepared first, and its length is that of a process, or a note tells.
    assert in_order(text, "accelerator.prepare(loader", f"{steps} = len(loader)") or noted(result, "steps")
