"""Files that are imported by names made at run time."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.files.project import absolute
from accelify.codemod.result import Status
from accelify.codemod.rewrite import Options, rewrite_together
from accelify.codemod.semantics.provenance import imported_by_name
from tests.codemod.facts import Facts

RUNNER = """\
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def run(loader):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()
class Runner: pass
"""
OPTIONS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument('--kind', default='runners.plain')
parser.add_argument('--other', '-o', choices=['runners.own', 'runners.plain'], required=True)
parser.add_argument('--number', default=3)
args = parser.parse_args()
"""
TABLE = "KINDS = {'plain': 'runners.plain', 'own': 'runners.own'}\n"


@pytest.mark.parametrize(
    ("load", "found"),
    [
        (f"{TABLE}importlib.import_module(KINDS[kind])", ["own", "plain"]),
        (f"{TABLE}importlib.import_module(KINDS.get(kind))", ["own", "plain"]),
        ("importlib.import_module('runners.' + kind)", ["own", "plain"]),
        ("__import__(f'runners.{kind}')", ["own", "plain"]),
        ("importlib.import_module('runners.plain')", ["plain"]),
        (f"{OPTIONS}importlib.import_module(args.kind)", ["plain"]),
        (f"{OPTIONS}name = args.kind\nimportlib.import_module(name)", ["plain"]),
        (f"{OPTIONS}importlib.import_module(args.other)", ["own", "plain"]),
        (f"{OPTIONS}importlib.import_module(args.number)", []),
        ("import light\nlight.import_class('runners.plain.Runner')", ["plain"]),
        ("import light\nlight.import_class('runners.plain.Other')", []),
        ("import light\nlight.open('runners.plain')", []),
        ("def read(name): pass\nread('runners.plain.Runner')", []),
        ("importlib.import_module('readers.' + kind)", []),
        ("importlib.import_module(kind)", []),
        ("KINDS = {'json': 'json'}\nimportlib.import_module(KINDS[kind])", []),
    ],
)
def test_the_files_that_an_import_may_be_of(load: str, found: list[str]) -> None:
    facts = Facts(f"import importlib, sys\nkind = sys.argv[1]\n{load}\n")
    texts = {"runners/plain.py": RUNNER, "runners/own.py": RUNNER, "readers/text.py": "import torch\n"}
    facts.project._given.update({absolute(path): text.encode() for path, text in texts.items()})
    listed = [Path(path).stem for _, paths in imported_by_name(facts.program, ".backward(") for path in paths]
    assert listed == found


@pytest.mark.parametrize(("kind", "is_said"), [("runners", True), ("readers", False)])
def test_a_script_that_trains_by_such_an_import_is_not_passed_over(
    kind: str, is_said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, text in (("runners", RUNNER), ("readers", "import torch\n")):
        Path(folder).mkdir()
        Path(folder, "plain.py").write_text(text)
    load = f"import importlib, sys, torch\nmodule = importlib.import_module('{kind}.' + sys.argv[1])\nmodule.run([])\n"
    Path("main.py").write_text(load)
    (result,) = rewrite_together(("main.py",), Options())
    assert result.status is Status.UNCHANGED
    assert [n.message.startswith("the training is in runners/plain.py") for n in result.notes] == [True] * is_said


TRAINER = """\
import torch
class Trainer:
    def fit(self, loader):
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            model(x).mean().backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("load", "is_said"),
    [
        (f"{OPTIONS}made = importlib.import_module(args.kind).Trainer()\nmade.fit([])\n", True),
        (f"{OPTIONS}made = getattr(importlib.import_module(args.kind), 'Trainer')()\nmade.fit([])\n", True),
        ("module = importlib.import_module('runners.' + sys.argv[1])\nmodule.Trainer().fit([])\n", True),
        ("module = __import__(f'runners.{sys.argv[1]}')\nmodule.Trainer().fit([])\n", True),
        ("module = importlib.import_module('json')\nmodule.dumps({})\n", False),
        ("module = importlib.import_module('readers.' + sys.argv[1])\nmodule.read()\n", False),
    ],
)
@pytest.mark.parametrize("also", ["", "import runners.plain\n"], ids=["not read", "read"])
def test_a_script_without_torch_that_trains_by_such_an_import(
    load: str, is_said: bool, also: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, text in (("runners", TRAINER), ("readers", "def read(): pass\n")):
        Path(folder).mkdir()
        Path(folder, "plain.py").write_text(text)
    Path("main.py").write_text(f"import importlib, sys\n{also}{load}")
    (result,) = rewrite_together(("main.py",), Options())
    assert result.status is Status.UNCHANGED
    assert ["runners/plain.py" in n.message for n in result.notes] == [True] * is_said


@pytest.mark.parametrize(
    ("load", "is_said"),
    [
        ("import hydra\nagent = hydra.utils.instantiate(config.agent)\n", True),
        ("from hydra.utils import instantiate as make\nagent = make(config.agent)\n", True),
        ("from hydra.utils import get_class\nagent = get_class(config.agent.name)()\n", True),
        ("import importlib\nagent = importlib.import_module(config['agent']).Agent()\n", True),
        ("import importlib\nagent = importlib.import_module(config.agent).Agent()\n", True),
        ("import importlib\nagent = importlib.import_module('json').dumps({})\n", False),
        ("from hydra.utils import get_original_cwd\nagent = get_original_cwd()\n", False),
        ("import hydra\nimport runners.plain\nagent = runners.plain.model\n", False),
    ],
)
def test_a_script_that_trains_what_a_configuration_names(
    load: str, is_said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("agents").mkdir()
    Path("agents", "plain.py").write_text(RUNNER)
    Path("main.py").write_text(f"import torch\n{load}print(torch.zeros(1))\nagent.update()\n")
    (result,) = rewrite_together(("main.py",), Options())
    assert result.status is Status.UNCHANGED
    assert [(n.line, "agents/plain.py" in n.message) for n in result.notes] == [(3, True)] * is_said


@pytest.mark.parametrize(
    ("text", "is_said"),
    [
        (RUNNER.replace("mean()", "mean(async=True)"), True),
        (f"{RUNNER}print 'done'\n", True),
        ("import torch\nprint 'done'\n", False),
        (RUNNER.replace(".backward()", ""), False),
    ],
)
def test_a_script_whose_training_is_in_a_file_that_cannot_be_parsed(
    text: str, is_said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runner.py").write_text(text)
    Path("main.py").write_text("import torch\nimport runner\nrunner.run(torch.zeros(8, 4))\n")
    (result,) = rewrite_together(("main.py",), Options())
    assert result.status is Status.UNCHANGED
    assert [(n.line, "runner.py:" in n.message) for n in result.notes] == [(2, True)] * is_said


@pytest.mark.parametrize(
    ("start", "line"),
    [
        ("import torch\nimport steps\nsteps.step([])\n", 2),
        ("import torch\n\nfrom steps import (\n    step,\n)\nstep([])\n", 3),
        ("import torch\nfrom between import steps\nsteps.step([])\n", 2),
    ],
)
def test_a_reason_in_another_file_stands_at_its_import(
    start: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("between.py").write_text("import steps\n")
    both = "loss = model(x).mean()\n        loss.backward()\n        torch.autograd.backward([loss])"
    steps = RUNNER.replace("model(x).mean().backward()", both).replace("torch.autograd.backward", "backward")
    Path("steps.py").write_text("from torch.autograd import backward\n" + steps.replace("def run", "def step"))
    Path("main.py").write_text(start)
    results = {r.path: r for r in rewrite_together(("main.py",), Options())}
    assert results["main.py"].status is Status.DECLINED
    assert [n.line for n in results["main.py"].notes if n.message.startswith("steps.py:")] == [line]


CHOSEN = """\
import torch
from torch import nn

class Plain:
    def train(self):
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in torch.utils.data.DataLoader(torch.randn(8, 4)):
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("call", "is_said"),
    [
        ("runner = eval(sys.argv[1])()\nrunner.train()", True),
        ("make = eval(sys.argv[1])\nrunner = make()\nrunner.train()", True),
        ("runner = globals().get(sys.argv[1])()\nrunner.train()", True),
        ("sizes = eval(sys.argv[1])\nprint(sizes)", False),
        ("sizes = globals()['Plain']\nprint(sizes)", False),
    ],
)
def test_a_script_that_trains_what_is_picked_by_its_name(
    call: str, is_said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runners.py").write_text(CHOSEN)
    Path("main.py").write_text(f"import sys\nfrom runners import *\n{call}\n")
    (result,) = rewrite_together(("main.py",), Options())
    assert result.status is Status.UNCHANGED
    assert ["(runners.py)" in n.message for n in result.notes] == [True] * is_said


REGISTRIES = {
    "a function": ("KINDS = {}\ndef add(cls):\n    KINDS[cls.__name__] = cls\n    return cls\n", "add"),
    "a function of a name": (
        "KINDS = {}\ndef add(name):\n    def keep(cls):\n        KINDS[name] = cls\n        return cls\n"
        "    return keep\n",
        "add('plain')",
    ),
    "a class": (
        "class Registry:\n"
        "    def __init__(self):\n        self._kinds = dict()\n"
        "    def _keep(self, cls):\n        self._kinds[cls.__name__] = cls\n"
        "    def register(self):\n"
        "        def keep(cls):\n            self._keep(cls)\n            return cls\n        return keep\n"
        "    def __getitem__(self, name):\n        return self._kinds[name]\n"
        "KINDS = Registry()\n",
        "KINDS.register()",
    ),
}


@pytest.mark.parametrize("kind", REGISTRIES)
def test_a_registry_in_another_file_is_looked_up(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    registry, decorator = REGISTRIES[kind]
    Path("registry.py").write_text(f"{registry}def build(name):\n    return KINDS[name]()\n")
    text = CHOSEN.replace("class Plain", f"@{decorator}\nclass Plain")
    Path("runners.py").write_text(f"from registry import *\n{text}")
    Path("main.py").write_text("import sys, runners\nfrom registry import build\nbuild(sys.argv[1]).train()\n")
    assert {r.path: r.status for r in rewrite_together(("main.py",), Options())} == {
        "main.py": Status.UNCHANGED,
        "runners.py": Status.MIGRATED,
    }


@pytest.mark.parametrize(
    ("has_idle", "created", "used"),
    [
        (True, "def build(name):\n    Accelerator()\n    return KINDS[name]()", "Accelerator.current()"),
        (False, "    accelerator = Accelerator()\n    return KINDS[name](accelerator)", "self.accelerator"),
    ],
)
def test_a_registry_of_several(
    has_idle: bool, created: str, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where only some train, these ask for the accelerator, which nothing reads where it is made."""
    monkeypatch.chdir(tmp_path)
    registry, decorator = REGISTRIES["a function"]
    Path("registry.py").write_text(f"{registry}def build(name):\n    return KINDS[name]()\n")
    _, training = CHOSEN.split("class Plain:\n")
    kept = "".join(f"@{decorator}\nclass {name}:\n{training}" for name in ("Plain", "Other"))
    idle = f"@{decorator}\nclass Idle:\n    def train(self):\n        print()\n"
    Path("runners.py").write_text(
        f"import torch\nfrom torch import nn\nfrom registry import *\n{kept}{idle * has_idle}"
    )
    Path("main.py").write_text("import sys, runners\nfrom registry import build\nbuild(sys.argv[1]).train()\n")
    results = {r.path: r.after.decode() for r in rewrite_together(("main.py",), Options())}
    assert created in results["registry.py"]
    assert results["runners.py"].count(f"{used}.backward(") == 2


@pytest.mark.parametrize(
    ("line", "after", "has_name"),
    [
        ("logging.basicConfig(filename='a.log')", "    if accelerator.is_main_process:\n        logging.basic", True),
        ("open('a.txt', 'a').write(name)", "    if accelerator.is_main_process:\n        open(", True),
        ("torch.save(name, 'a.pt')", "    accelerator.save(name, 'a.pt')", True),
        ("print(name)", "    print(name)", False),
    ],
)
def test_what_makes_the_accelerator_for_others_may_use_it_as_well(
    line: str, after: str, has_name: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets a name wherever another change reads it there."""
    monkeypatch.chdir(tmp_path)
    registry, decorator = REGISTRIES["a function"]
    Path("registry.py").write_text(
        f"import logging\nimport torch\n{registry}def build(name):\n    {line}\n    return KINDS[name]()\n"
    )
    _, training = CHOSEN.split("class Plain:\n")
    kept = "".join(f"@{decorator}\nclass {name}:\n{training}" for name in ("Plain", "Other"))
    idle = f"@{decorator}\nclass Idle:\n    def train(self):\n        print()\n"
    Path("runners.py").write_text(f"import torch\nfrom torch import nn\nfrom registry import *\n{kept}{idle}")
    Path("main.py").write_text("import sys, runners\nfrom registry import build\nbuild(sys.argv[1]).train()\n")
    results = {r.path: r.after.decode() for r in rewrite_together(("main.py",), Options())}
    made = "accelerator = Accelerator()" if has_name else "Accelerator()"
    assert f"def build(name):\n    {made}\n{after}" in results["registry.py"]
    assert "Accelerator.current().backward(" in results["runners.py"]


REGISTRY_BY_KIND = """\
KINDS = {}
def add(kind, name):
    def keep(made):
        KINDS.setdefault(kind, {})[name] = made
        return made
    return keep
def build(kind, name, **options):
    return KINDS[kind][name](**options)
"""


@pytest.mark.parametrize(
    "registry",
    [
        REGISTRY_BY_KIND,
        "from collections import defaultdict\n"
        + REGISTRY_BY_KIND.replace("{}", "defaultdict(dict)", 1).replace(".setdefault(kind, {})", "[kind]"),
    ],
)
@pytest.mark.parametrize(
    ("use", "is_said"),
    [
        ("runner = build('runner', sys.argv[1])\nrunner.train()", True),
        ("build('runner', sys.argv[1]).train()", True),
        ("layer = build('layer', sys.argv[1])\nprint(layer)", True),
        ("print(sys.argv)", False),
    ],
)
def test_a_registry_of_more_than_is_followed(
    registry: str, use: str, is_said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("registry.py").write_text(registry)
    layers = "".join(f"@add('layer', '{n}')\nclass Layer{n}: pass\n" for n in range(60))
    Path("layers.py").write_text(f"from registry import *\n{layers}")
    runner = CHOSEN.replace("class Plain", "@add('runner', 'plain')\nclass Plain")
    Path("runners.py").write_text(f"from registry import *\n{runner}")
    Path("main.py").write_text(f"import sys, layers, runners\nfrom registry import build\n{use}\n")
    results = rewrite_together(("main.py",), Options())
    said = ["(runners.py)" in n.message for r in results for n in r.notes if n.rule == "callers"]
    is_followed = Status.MIGRATED in {r.status for r in results}  # where its class is among those that are kept
    assert is_followed or said == [True] * is_said
    assert is_said or not is_followed


def test_a_script_that_trains_what_it_looks_up_among_its_globals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runners.py").write_text(CHOSEN)
    Path("main.py").write_text("import sys\nfrom runners import *\nglobals()[sys.argv[1]]().train()\n")
    results = {result.path: result for result in rewrite_together(("main.py",), Options())}
    assert results["runners.py"].status is Status.MIGRATED


LISTED = "import os\nNAMES = [f[:-3] for f in os.listdir(os.path.dirname(__file__)) if not f.startswith('_')]\n"


@pytest.mark.parametrize(
    "package",
    [
        f"{LISTED}for name in NAMES:\n    made = __import__('.'.join([__name__, name]), fromlist=[name])\n",
        f"import importlib\n{LISTED}MODULES = [importlib.import_module('.' + name, __name__) for name in NAMES]\n",
        "import importlib, pkgutil\nfor part in pkgutil.iter_modules(__path__):\n"
        "    globals()[part.name] = importlib.import_module(f'{__name__}.{part.name}')\n",
        "import importlib, os\nMODULE = importlib.import_module('runners.' + os.environ['KIND'])\n",
    ],
)
@pytest.mark.parametrize("trains", [True, False])
def test_a_package_that_imports_its_own_files_as_it_is_imported(
    package: str, trains: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runners").mkdir()
    Path("runners/__init__.py").write_text(package)
    Path("runners/plain.py").write_text(RUNNER if trains else "import torch\n")
    Path("main.py").write_text("import sys\nfrom runners import *\nrunner = globals()[sys.argv[1]]()\nrunner.fit()\n")
    said = [n.message for r in rewrite_together(("main.py",), Options()) for n in r.notes]
    assert ["runners/plain.py" in message for message in said] == [True] * trains


HOOKS = {
    "hooks/keep_hook.py": "import torch\nclass Hook:\n    def at_end(self, net):\n        torch.save(net, 'last.pt')\n",
    "hooks/log_hook.py": "class Hook:\n    def at_end(self, net):\n        open('log.txt', 'a').write('done')\n",
    "hooks/text.py": "class Hook:\n    def at_end(self, net):\n        open('text.txt', 'a').write('done')\n",
}
KEEP, LOG, TEXT = HOOKS


def results_with_hooks(pick: str, **more: str) -> dict[str, Status]:
    """What becomes of a script that trains with a hook which it picks, and of the hooks."""
    Path("hooks").mkdir()
    for path, text in (HOOKS | {f"hooks/{name}.py": text for name, text in more.items()}).items():
        Path(path).write_text(text)
    Path("hooks/__init__.py").write_text("")
    Path("main.py").write_text(
        f"import importlib, sys, torch\nfrom torch import nn\nname = sys.argv[1]\n{pick}\nhook = module.Hook()\n"
        "net = nn.Linear(4, 1)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for x in torch.utils.data.DataLoader(torch.randn(8, 4)):\n    optimizer.zero_grad()\n"
        "    net(x).mean().backward()\n    optimizer.step()\nhook.at_end(net)\n"
    )
    results = rewrite_together(("main.py",), Options())
    assert [r.status for r in results if r.path == "main.py"] == [Status.MIGRATED]
    return {r.path: r.status for r in results if r.path != "main.py"}


@pytest.mark.parametrize(
    ("pick", "paths"),
    [
        ("module = importlib.import_module('hooks.' + name)", [KEEP, LOG, TEXT]),
        ("module = importlib.import_module('.' + name, 'hooks')", [KEEP, LOG, TEXT]),
        ("module = importlib.import_module('.'.join(['hooks', name]))", [KEEP, LOG, TEXT]),
        ("module = importlib.import_module(f'hooks.{name}_hook')", [KEEP, LOG]),
        ("path = 'hooks.%s_hook' % name\nmodule = importlib.import_module(path)", [KEEP, LOG]),
        ("module = importlib.import_module('hooks.k{}'.format(name))", [KEEP]),
        ("module = importlib.import_module(name)", []),
    ],
)
def test_all_that_may_be_picked_is_read(
    pick: str, paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert results_with_hooks(pick) == dict.fromkeys(paths, Status.MIGRATED)


PICK = "module = importlib.import_module('hooks.' + name)"


def test_what_cannot_be_migrated_is_not_read_for_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = (
        "import torch\nimport torch.distributed as dist\nclass Hook:\n    def at_end(self, net):\n"
        "        dist.init_process_group('gloo', rank=0, world_size=1)\n"
        "        net = torch.nn.parallel.DistributedDataParallel(net)\n"
    )
    assert results_with_hooks(PICK, own=own) == {}


def test_a_trainer_is_not_read_for_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert results_with_hooks(PICK, runner=RUNNER) == {}


@pytest.mark.parametrize(
    "package",
    [
        f"{LISTED}for name in NAMES:\n    __import__('.'.join([__name__, name]), fromlist=[name])\n",
        f"import importlib\n{LISTED}MODULES = [importlib.import_module('.' + name, __package__) for name in NAMES]\n",
        "import importlib, pkgutil\nfor part in pkgutil.iter_modules(__path__):\n"
        "    importlib.import_module(f'{__name__}.{part.name}')\n",
    ],
)
def test_a_registry_that_a_package_fills_from_its_own_files(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hooks").mkdir()
    Path("registry.py").write_text("KINDS = {}\ndef add(cls):\n    KINDS[cls.__name__] = cls\n    return cls\n")
    Path("hooks/__init__.py").write_text(package)
    Path("hooks/text.py").write_text(f"from registry import add\n@add\n{HOOKS[TEXT]}")
    Path("main.py").write_text(
        f"import sys\nimport hooks\nfrom registry import KINDS\nhook = KINDS[sys.argv[1]]()\n{RUNNER}"
        "run(torch.utils.data.DataLoader(torch.randn(8, 4)))\nhook.at_end(model)\n"
    )
    results = {r.path: r.after.decode() for r in rewrite_together(("main.py",), Options())}
    assert results["main.py"].endswith("if accelerator.is_main_process:\n    hook.at_end(model)\n")
