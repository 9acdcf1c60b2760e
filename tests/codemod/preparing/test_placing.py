"""Where the accelerator is created: below what may set anything that it depends on."""

from __future__ import annotations

import ast
from textwrap import indent

import pytest

from accelify.codemod.preparing.placing import Access, body_start, trained_modules
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated, run
from tests.codemod.training_scripts import training

SCRIPT = """\
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

lr, path = 0.1, "configurator.py"
{settings}
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=lr)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "settings",
    [
        "exec(open(path).read())",
        "for line in sys.argv[1:]:\n    exec(line)",
        "with open(path) as f:\n    exec(f.read())",
    ],
)
def test_after_what_sets_the_settings_anew(settings: str) -> None:
    after = migrated(SCRIPT.format(settings=settings))
    assert after.index("exec(") < after.index("= Accelerator(") < after.index("loader = DataLoader")


@pytest.mark.parametrize(
    "settings",
    [
        "exec(open(path).read())",
        "for name in sys.argv[1:]: globals()[name] = True",
        "globals().update(dict.fromkeys(sys.argv[1:], True))",
    ],
)
def test_after_what_sets_the_option_that_the_device_depends_on(settings: str) -> None:
    text = SCRIPT.format(settings=f"use_cpu = False\n{settings}\ndevice = 'cpu' if use_cpu else 'cuda'")
    after = migrated(text.replace("nn.Linear(4, 1)", "nn.Linear(4, 1).to(device)"))
    assert after.index(settings) < after.index("= Accelerator(cpu=use_cpu)") < after.index("loader = DataLoader")


def test_after_the_imports_where_nothing_does() -> None:
    after = migrated(SCRIPT.format(settings="print(lr)"))
    assert after.index("= Accelerator(") < after.index("lr, path")


# Facts, without a rewrite.


def access(**slots: str) -> tuple[Access, Facts]:
    facts = training(**slots)
    return facts.script.access, facts


def test_where_the_accelerator_is_there() -> None:
    found, facts = access(imports="import early\n", end="def f():\n    late()\n")
    assert found.at(facts["late()"]) == "accelerator"
    assert found.at(facts["loss.backward()"]) == "accelerator"
    assert found.at(facts.statement("import early")) is None


def test_the_imports_above_the_first_use() -> None:
    found, facts = access(imports="import numpy\n")
    block = found.import_block(facts.scope("main.py"))
    assert ast.unparse(block[0]) == "import torch"
    assert ast.unparse(block[-1]) == "import numpy"


def test_where_an_import_goes() -> None:
    found, facts = access(imports="import zlib\nfrom zarr import z\n")
    edit = found.import_edit(facts.scope("main.py"), "from accelify.runtime import Accelerator")
    assert (ast.unparse(edit.node), edit.where) == ("from torch import nn", "before")


def test_the_first_statement_of_a_body() -> None:
    facts = Facts('"""Text."""\nfrom __future__ import annotations\na = 1\n')
    assert ast.unparse(body_start(facts.files[0].tree.body)) == "a = 1"
    only = Facts('"""Text."""\n')
    assert body_start(only.files[0].tree.body) is only.files[0].tree.body[0]


DATA = """\
from torch.utils.data import DataLoader, TensorDataset
{imports}
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
"""
TRAIN = """\
import torch
{imports}
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
IN_MAIN = (
    TRAIN.replace("\n", "\n    ")
    .replace("import torch\n    {imports}", "import torch\n{imports}\ndef main():")
    .rstrip()
    + "\nmain()\n"
)


@pytest.mark.parametrize(
    ("train", "imports", "of_data", "name"),
    [
        (TRAIN, "from data import loader", "import torch", "data"),
        (TRAIN, "from .data import loader", "import torch", ".data"),
        (TRAIN, "import torch.nn\nimport data\nfrom data import loader", "import torch", "data"),
        (IN_MAIN, "from data import loader", "import torch", "data"),
        (TRAIN, "from data import loader", "import torch, main", None),  # they import each other
    ],
)
def test_the_accelerator_of_a_module_that_is_imported(train: str, imports: str, of_data: str, name: str | None) -> None:
    files = {"main.py": train.format(imports=imports), "data.py": DATA.format(imports=of_data)}
    access = Facts(files).script.access
    assert {home.module for home in access.reach.homes} == {"main.py", "data.py"}
    assert [module for _, module in access.shared_by.values()] == ([name] if name else [])


@pytest.mark.parametrize("call", ["plot()", "shown = [plot() for _ in range(2)]", "def show():\n    plot()\nshow()"])
def test_it_is_not_there_in_a_function_that_runs_before(call: str) -> None:
    imports = f"def plot():\n    print(1)\n{call}\nimport random"
    found, facts = access(imports=imports)
    assert found.at(facts.call("print(1)")) is None


def test_it_is_there_in_a_function_that_runs_after() -> None:
    found, facts = access(imports="def plot():\n    print(1)\nimport random", end="plot()")
    assert found.at(facts.call("print(1)")) == "accelerator"


EARLY = """\
import torch
from torch import nn

table = torch.zeros(3)

def load():
    return torch.ones(4)

def train(data):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for row in data:
        model(row).sum().backward()
        optimizer.step()

def run():
    data = load()
    train(data)
    return torch.eye(2)

if __name__ == "__main__":
    run()
    torch.rand(2)
"""


@pytest.mark.parametrize(
    ("code", "is_early"),
    [
        ("torch.zeros(3)", True),
        ("torch.ones(4)", True),
        ("load()", True),
        ("nn.Linear(4, 1)", False),
        ("torch.eye(2)", False),
        ("torch.rand(2)", False),
    ],
)
def test_what_may_run_before_it_is_there(code: str, is_early: bool) -> None:
    facts = Facts(EARLY)
    early = facts.script.access.early
    assert [h.name for h in facts.script.reach.homes] == ["train"]
    assert early.holds(facts[code]) is is_early


TABLE = "import torch\nways = {'a': lambda: torch.rand(7)}\ndef ask():\n    return ways['a']()\n"


@pytest.mark.parametrize(
    ("loaded", "ran", "is_early"),
    [
        ("", "    print(ways['a']())", False),
        ("", "    print(ask())", False),
        ("ways['a']()", "", True),
        ("ask()", "    print(ask())", True),
    ],
)
def test_a_lambda_runs_where_it_is_called(loaded: str, ran: str, is_early: bool) -> None:
    code = EARLY.replace("    return torch.ones(4)", f"    {loaded or 'pass'}\n    return torch.ones(4)")
    code = code.replace("    return torch.eye(2)", f"{ran}\n    return torch.eye(2)")
    facts = Facts({"main.py": f"from table import ask, ways\n{code}", "table.py": TABLE})
    call = next(c for c in facts.program.calls if ast.unparse(c) == "torch.rand(7)")
    assert facts.script.access.early.holds(call) is is_early


SHARED = """\
import torch
from torch import nn
torch.rand(1)
{imported}
torch.rand(2)

def train(rows):
    torch.rand(3)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for row in rows:
        model(row.cuda()).sum().backward()
        optimizer.step()
        {used}(row)

def run():
    torch.rand(4)
    train(torch.utils.data.DataLoader(torch.ones(8, 4)))

if __name__ == "__main__":
    torch.rand(5)
    run()
"""
PLOTS = "import torch\n\ndef plot(x, mean=torch.ones(3).cuda()):\n    return x - mean\n"


@pytest.mark.parametrize(
    ("imported", "used"),
    [("from plots import plot", "plot"), ("import plots", "plots.plot"), ("import plots as p, os", "p.plot")],
)
def test_an_import_that_runs_another_module_creates_it(imported: str, used: str) -> None:
    facts = Facts({"main.py": SHARED.format(imported=imported, used=used), "plots.py": PLOTS})
    early = facts.script.access.early
    assert {home.root.module for home in facts.script.reach.homes} == {"main.py", "plots.py"}
    assert [n for n in range(1, 6) if early.holds(facts[f"torch.rand({n})"])] == [1]


def test_an_import_of_a_module_without_it_creates_nothing() -> None:
    plots = "def plot(x):\n    return x\n"
    facts = Facts({"main.py": SHARED.format(imported="from plots import plot", used="plot"), "plots.py": plots})
    early = facts.script.access.early
    assert [n for n in range(1, 6) if early.holds(facts[f"torch.rand({n})"])] == [1, 2, 5]


def test_what_runs_only_where_a_file_is_itself_run() -> None:
    model = "def load():\n    return 1\nif __name__ == '__main__':\n    print(load())\n"
    facts = Facts({"main.py": EARLY.replace("import torch\n", "import torch\nimport model\n"), "model.py": model})
    assert not facts.script.access.early.holds(facts["print(load())"])


@pytest.mark.parametrize(
    "chosen",
    [
        "os.environ['CUDA_VISIBLE_DEVICES'] = args.gpus",
        "if args.gpus:\n    os.environ.update(CUDA_VISIBLE_DEVICES=args.gpus)",
        "os.environ.setdefault('CUDA_VISIBLE_DEVICES', '0')",
    ],
)
@pytest.mark.parametrize("is_function", [False, True])
def test_the_accelerator_is_created_below_the_choice_of_gpus(chosen: str, is_function: bool) -> None:
    body = f"args = parser.parse_args()\n{chosen}\nmodel = torch.nn.Linear(4, 1).cuda()\n"
    body += "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    body += "for x in torch.utils.data.DataLoader(torch.randn(8, 4)):\n    optimizer.zero_grad()\n"
    body += "    model(x.cuda()).mean().backward()\n    optimizer.step()\n"
    text = f"def main():\n{indent(body, '    ')}\nmain()\n" if is_function else body
    head = (
        "import argparse\nimport os\nimport torch\nparser = argparse.ArgumentParser()\nparser.add_argument('--gpus')\n"
    )
    after = run(head + text).after.decode()
    assert after.index("CUDA_VISIBLE_DEVICES") < after.index("accelerator = Accelerator()")


@pytest.mark.parametrize(
    "written",
    [
        "with open('shapes.txt', 'w') as f:\n    f.write(str(x))",
        "json.dump(x, open('shapes.json', 'w'))",
        "plt.plot(x)\nplt.show()",
    ],
)
def test_the_library_is_imported_before_a_function_that_asks_it_runs(written: str) -> None:
    early = "import json\nfrom matplotlib import pyplot as plt\ndef show(x):\n"
    early += f"{indent(written, '    ')}\ndef again(x):\n    show(x)\nagain([1, 2])\n"
    after = migrated(early + SCRIPT.format(settings=""))
    assert after.index("\nimport accelify.runtime\n") < after.index("\nagain(")
    assert after.index("\nagain(") < after.index("\naccelerator = accelify.runtime.Accelerator(")


@pytest.mark.parametrize(
    ("early", "is_first"),
    [("open('x.txt', 'w').write('1')", True), ("os.remove('x.txt')", True), ("os.environ['A'] = '1'", False)],
)
def test_the_library_is_imported_before_a_file_is_written(early: str, is_first: bool) -> None:
    facts = Facts(f"import os\n{early}\n{SCRIPT.format(settings='')}")
    root = facts.program.frame(facts.files[0].tree)
    edit = facts.script.access.import_edit(root, "import accelify.runtime")
    assert (edit.node.lineno == 1) is is_first


def test_it_is_imported_beside_torch_where_that_is_early_enough() -> None:
    after = migrated(SCRIPT.format(settings="def show(x):\n    open('x.txt', 'w').write(x)\nshow('1')"))
    assert after.index("import torch") < after.index("accelify.runtime") < after.index("def show")


def test_finds_early_code_once_for_all_who_ask() -> None:
    text = "import torch\nm = torch.nn.Linear(1, 1)\no = torch.optim.SGD(m.parameters())\n"
    script = Facts(text + "for x in y: m(x).backward(); o.step()\n").script
    assert script.devices.early is script.access.early


LEARNER = """\
import torch
class Learner:
    def __init__(self):
        self.device = torch.device("cuda:0")
        self.model = torch.nn.Linear(1, 1).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters())
    def train(self, data):
        for x in data: self.model(x).backward(); self.optimizer.step()
"""
FINDER = """\
import torch
device = torch.device("cuda:0")
class Finder:
    def __init__(self):
        self.net = torch.nn.Linear(1, 1).to(device)
"""
VERIFY = "from finder import Finder\nfrom learner import Learner\nfinder = Finder()\nlearner = Learner()\n"


@pytest.mark.parametrize(
    ("train", "verify", "early"),
    [
        ("from learner import Learner\nLearner().train([])\n", VERIFY, []),
        ("import learner as l\ndef main():\n    l.Learner().train([])\nmain()\n", VERIFY, []),
        (
            "import learner, threading\nthreading.Thread(target=learner.Learner().train).start()\n",
            VERIFY,
            [],
        ),
        ("from learner import Learner\nLearner().train([])\n", VERIFY + "learner.train([])\n", ["finder.py"]),
        ("from learner import Learner\nLearner().train([])\n", "import train\n" + VERIFY, ["finder.py"]),
        ("from learner import Learner\nLearner()\n", VERIFY, ["finder.py"]),
    ],
)
def test_only_files_of_runs_that_train_move_something_early(train: str, verify: str, early: list[str]) -> None:
    facts = Facts({"train.py": train, "learner.py": LEARNER, "finder.py": FINDER, "verify.py": verify})
    facts.named[:] = facts.files
    found = {root.module for root in trained_modules(facts.program, facts.training)}
    assert found == {"train.py", "learner.py", *early, *(["verify.py"] if early else [])}
    assert {facts.program.path(move) for move in facts.script.devices.moved_early} == {*early}


PROBE = "def rate(model, loader, optimizer):\n    for x in loader: model(x).backward(); optimizer.step()\n"
TRAIN = "from learner import Learner\nLearner().train([])\n"


@pytest.mark.parametrize(
    ("files", "early"),
    [
        # Nothing calls `rate`: not even a module that imports its own trains by it.
        ({"probe.py": PROBE}, []),
        ({"probe.py": PROBE, "verify.py": "import probe\n" + VERIFY}, []),
        ({"learner.py": LEARNER + PROBE}, []),
        ({"train.py": PROBE + TRAIN}, []),
        # Something may call it that is not known.
        ({"probe.py": PROBE, "train.py": "import probe\nprint(probe.rate)\n" + TRAIN}, []),
        ({"probe.py": PROBE, "verify.py": "import probe\n" + VERIFY + "run(probe.rate)\n"}, ["finder.py"]),
        (
            {
                "probe.py": "class P:\n    " + PROBE.replace("\n", "\n    ").strip(),
                "finder.py": "import probe\n" + FINDER,
            },
            1,
        ),
        ({"verify.py": "from importlib import import_module as i\nt = i(input())\n" + VERIFY}, ["finder.py"]),
        ({"verify.py": "from importlib import import_module\nt = import_module('json')\n" + VERIFY}, []),
        ({"verify.py": "from importlib import import_module\nt = import_module('train')\n" + VERIFY}, ["finder.py"]),
    ],
)
def test_a_function_that_nothing_calls_trains_in_no_run(files: dict[str, str], early: list[str]) -> None:
    texts = {"train.py": TRAIN, "learner.py": LEARNER, "finder.py": FINDER, "verify.py": VERIFY, **files}
    facts = Facts(texts)
    facts.named[:] = facts.files
    found = {root.module for root in trained_modules(facts.program, facts.training)}
    assert ("finder.py" in found) is bool(early)
