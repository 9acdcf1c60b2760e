"""What becomes of checkpoints of a model that `DataParallel` wrapped."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.result import FileResult
from accelify.codemod.rewrite import Options, rewrite_together
from tests.codemod.pairs import run
from tests.codemod.training_scripts import script

WRAP = "model = nn.DataParallel(model)"
BUILD = """\
def build(net):
    if torch.cuda.device_count() > 1:
        net = nn.DataParallel(net)
    return net
"""
SAVER = (
    "class Keeper:\n    def __init__(self, model):\n        self.model = nn.DataParallel(model)\n    def save(self):\n"
)
SAVER += "        torch.save(self.model.state_dict(), 'net.pt')\nkeeper = Keeper(model)\nmodel = keeper.model"


def told(result: FileResult) -> list[str]:
    """The lines whose keys are said to change."""
    lines = result.after.decode().splitlines()
    return [lines[n.line - 1].strip() for n in result.notes if "no longer have the prefix `module.`" in n.message]


@pytest.mark.parametrize(
    "slots",
    [
        {"model": WRAP, "end": "torch.save(model.state_dict(), 'net.pt')"},
        {"model": WRAP, "end": "state = {'epoch': 1, 'net': model.state_dict()}\ntorch.save(state, 'net.pt')"},
        {"model": f"if torch.cuda.device_count() > 1:\n    {WRAP}", "end": "torch.save(model.state_dict(), 'net.pt')"},
        {"model": SAVER, "end": "keeper.save()"},
        {
            "before": "rows = torch.randn(8, 2, 4)\ndef wrap(net):\n    return nn.DataParallel(net, [0])",
            "model": "model = wrap(model)",
            "end": "torch.save({'net': model.state_dict()}, 'net.pt')",
        },
        {
            "before": f"{BUILD}def get():\n    return build(nn.Linear(4, 1)), 3\nrows = torch.randn(8, 2, 4)",
            "model": "model, n = get()",
            "end": "torch.save(model.state_dict(), 'net.pt')",
        },
    ],
)
def test_the_keys_of_a_wrapped_model_change(slots: dict[str, str]) -> None:
    (line,) = told(run(script(**{"before": "rows = torch.randn(8, 2, 4)", **slots})))
    assert "state_dict()" in line


ROWS = "rows = torch.randn(8, 2, 4)\n"
TAKEN_OUT = (
    "    if isinstance(net, nn.DataParallel):\n        net = net.module\n    torch.save(net.state_dict(), 'n.pt')\n"
)
WHOLE = "is not any more: code that loads it and takes its `.module`"


@pytest.mark.parametrize(
    ("wrapped", "saved", "is_told"),
    [
        (WRAP, "torch.save(model, 'net.pt')", True),
        (WRAP, "torch.save({'net': model, 'epoch': 1}, 'net.pt')", True),
        (WRAP, "state = {'net': model}\ntorch.save(obj=state, f='net.pt')", True),
        (f"{BUILD}model = build(model)", "torch.save(model, 'net.pt')", True),
        (SAVER.replace("self.model.state_dict()", "self.model"), "keeper.save()", True),
        (WRAP, "torch.save(model.module, 'net.pt')", False),
        (WRAP, "raw = model.module\ntorch.save(raw, 'net.pt')", False),
        (f"raw = model\n{WRAP}", "torch.save(raw, 'net.pt')", False),
        (WRAP, "torch.save(optimizer, 'net.pt')", False),
    ],
)
def test_a_wrapped_model_is_saved_without_its_wrapper(wrapped: str, saved: str, is_told: bool) -> None:
    result = run(script(before="rows = torch.randn(8, 2, 4)", model=wrapped, end=saved))
    assert [WHOLE in n.message for n in result.notes if "DataParallel`, and" in n.message] == [True] * is_told


@pytest.mark.parametrize(
    "slots",
    [
        {"end": "torch.save(model.state_dict(), 'net.pt')"},
        {"model": WRAP, "end": "torch.save(model.module.state_dict(), 'net.pt')"},
        {"model": WRAP, "end": "torch.save(optimizer.state_dict(), 'optimizer.pt')"},
        {"model": WRAP, "end": "model.load_state_dict(model.state_dict())"},
        {"model": WRAP, "end": "raw = model.module\ntorch.save(raw.state_dict(), 'net.pt')"},
        {"model": WRAP, "end": "raw = model.module if many else model\ntorch.save(raw.state_dict(), 'net.pt')"},
        {"before": f"{ROWS}def save(net):\n{TAKEN_OUT}", "model": WRAP, "end": "save(model)"},
        {
            "model": WRAP,
            "end": "if hasattr(model, 'module'): model = model.module\ntorch.save(model.state_dict(), 'n.pt')",
        },
    ],
)
def test_the_others_stay_as_they_are(slots: dict[str, str]) -> None:
    assert told(run(script(**{"before": ROWS, **slots}))) == []


PACK = "rows = torch.randn(8, 2, 4)\ndef pack(net, n):\n    return {'net': net.state_dict(), 'n': n}"
STATIC = """\
class Files:
    @staticmethod
    def write(path, net):
        torch.save(net.state_dict(), path)
    def write_both(self, net):
        self.write('a.pt', net)
        self.write('b.pt', net)
rows = torch.randn(8, 2, 4)"""


REGISTRY = """\
rows = torch.randn(8, 2, 4)
class Registry:
    def __init__(self, **modules):
        self.modules = modules
    def register(self, **modules):
        self.modules.update(modules)
    def save(self, path):
        state = {}
        for name, module in self.modules.items():
            state[name] = module.state_dict()
        torch.save(state, path)"""
LOOP = """\
rows = torch.randn(8, 2, 4)
def save(path, models):
    torch.save({k: m.state_dict() for k, m in models.items()}, path)"""


@pytest.mark.parametrize(
    ("before", "end"),
    [
        (REGISTRY, "registry = Registry()\nregistry.register(net={0}, optimizer=optimizer)\nregistry.save('a.pt')"),
        (REGISTRY, "Registry(net={0}).save('a.pt')"),
        (LOOP, "save('a.pt', {{'net': {0}, 'optimizer': optimizer}})"),
        (LOOP, "models = dict(net={0})\nsave('a.pt', models)"),
        ("rows = 1", "nets = [{0}]\ntorch.save([n.state_dict() for n in nets], 'a.pt')"),
    ],
)
def test_a_loop_over_models_saves_other_keys(before: str, end: str) -> None:
    assert told(run(script(before=before, model=WRAP, end=end.format("model.module")))) == []
    (line,) = told(run(script(before=before, model=WRAP, end=end.format("model"))))
    assert "state_dict()" in line


@pytest.mark.parametrize(
    ("before", "end"),
    [
        (PACK, "torch.save(pack({0}, 3), 'net.pt')"),
        (PACK, "raw = {0}\ntorch.save(pack(n=3, net=raw), 'net.pt')"),
        (STATIC, "Files.write('net.pt', {0})"),
        (STATIC, "Files().write_both({0})"),
    ],
)
def test_a_function_saves_the_keys_of_what_it_is_given(before: str, end: str) -> None:
    assert told(run(script(before=before, model=WRAP, end=end.format("model.module")))) == []
    (line,) = told(run(script(before=before, model=WRAP, end=end.format("model"))))
    assert "state_dict()" in line


def test_files_that_load_such_keys_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrapped = "net = torch.nn.DataParallel(net)\nnet.load_state_dict(torch.load('net.pt'))\n"
    Path("test.py").write_text(f"import torch\n{wrapped}")
    Path("plain.py").write_text("import torch\nnet.load_state_dict(torch.load('net.pt'))\n")
    end = "torch.save(model.state_dict(), 'net.pt')"
    Path("train.py").write_text(script(before="rows = torch.randn(8, 2, 4)", model=WRAP, end=end))
    (result,) = rewrite_together(("train.py",), Options())
    (note,) = (n for n in result.notes if "no longer have the prefix" in n.message)
    assert note.message.endswith("unlike test.py:3")


BARE = """\
import torch
net = torch.nn.Linear(4, 1)
net.load_state_dict(torch.load('net.pt'))
if many:
    net = torch.nn.DataParallel(net)
"""


@pytest.mark.parametrize(
    ("reader", "told"),
    [
        (BARE, None),
        (BARE.replace("net.load", "other.load"), None),
        ("for k, v in s.items():\n    new[k[7:]] = v\nnet.load_state_dict(new)\n", ", unlike use.py:2"),
        (BARE + "net.load_state_dict(torch.load('net.pt'))\n", ", unlike use.py:6"),
        (
            "from torch import nn\nclass A:\n    def f(self):\n        self.net = nn.DataParallel(self.net)\n"
            "        self.net.load_state_dict(torch.load('net.pt'))\n",
            ", unlike use.py:5",
        ),
        ("from torch import nn\nnn.DataParallel(net).load_state_dict(weights)\n", ", unlike use.py:2"),
    ],
)
def test_a_model_that_is_bare_when_it_is_loaded_has_these_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, told: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("use.py").write_text(reader)
    end = "torch.save(model.state_dict(), 'net.pt')"
    Path("train.py").write_text(script(before="rows = torch.randn(8, 2, 4)", model=WRAP, end=end))
    (result,) = rewrite_together(("train.py",), Options())
    notes = [n.message for n in result.notes if "keys saved here" in n.message]
    assert [note.partition("load them into a model without a wrapper")[2] for note in notes] == [told] * bool(told)


TAUGHT = """\
import torch
from torch import nn

def load(path, net):
    net.load_state_dict(torch.load(path)["state_dict"])

rows = [(torch.randn(4), torch.randn(1))] * 8
student, teacher = nn.Linear(4, 1), nn.Linear(4, 1)
{wrapped}
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(rows, batch_size=2):
    with torch.no_grad():
        target = teacher(x)
    optimizer.zero_grad()
    (student(x) - target).pow(2).mean().backward()
    optimizer.step()
"""
BOTH = "student = nn.DataParallel(student); teacher = nn.DataParallel(teacher)"


@pytest.mark.parametrize(
    ("wrapped", "is_said"),
    [
        ("teacher = nn.DataParallel(teacher); load('a.pt', teacher)", True),
        ("teacher = nn.DataParallel(teacher).cuda(); teacher.load_state_dict(torch.load('a.pt'))", True),
        (f"{BOTH}; load('a.pt', student); load('b.pt', teacher)", True),
        ("teacher.load_state_dict(torch.load('a.pt')); teacher = nn.DataParallel(teacher)", False),
        ("student = nn.DataParallel(student); load('a.pt', student)", False),
        (f"{BOTH}; student.load_state_dict(torch.load('a.pt'))", False),
    ],
)
def test_a_teacher_s_checkpoint_has_the_prefix_still(wrapped: str, is_said: bool) -> None:
    result = run(TAUGHT.format(wrapped=wrapped))
    lines = [n.line for n in result.notes if "strip it before loading" in n.message]
    after = result.after.decode().splitlines()
    assert len(lines) == is_said
    assert all("load_state_dict" in after[line - 1] for line in lines)


MATCHING = """\
def load_matching(net, saved):
    own = net.state_dict()
    {taken}
    net.load_state_dict(own)
"""
LOAD = "model = nn.DataParallel(model)\nload_matching(model, torch.load('a.pt')['net'])"


@pytest.mark.parametrize(
    ("taken", "model", "is_said"),
    [
        ("own.update({k: v for k, v in saved.items() if k in own})", LOAD, True),
        ("found = {k: v for k, v in saved.items() if k in own.keys()}; own.update(found)", LOAD, True),
        ("for k in own:\n        if k in saved:\n            own[k] = saved[k]", LOAD, True),
        ("own.update({k: v for k, v in saved.items() if k in own})", LOAD.partition("\n")[2], False),
        ("own.update(saved)", LOAD, False),
        ("for k in own:\n        if 'bias' in k:\n            own[k] = own[k] * 0", LOAD, False),
    ],
)
def test_a_load_of_the_keys_that_match_takes_nothing(taken: str, model: str, is_said: bool) -> None:
    before = "rows = torch.randn(8, 2, 4)\n" + MATCHING.format(taken=taken)
    result = run(script(before=before, model=model))
    lines = [n.line for n in result.notes if "only keys that match are taken" in n.message]
    after = result.after.decode().splitlines()
    assert ["load_state_dict" in after[line - 1] for line in lines] == [True] * is_said


KEEPER = """\
class Keeper:
    def __init__(self, model):
        self.model = model
        self.load()
        self.model = nn.DataParallel(self.model)
    def load(self):
        self.model.load_state_dict(torch.load('a.pt'))
keeper = Keeper(model)
model = keeper.model
"""
LOADED = "def fill(net, path):\n    net.load_state_dict(torch.load(path)['net'], strict=False)\n"


@pytest.mark.parametrize(
    ("slots", "said"),
    [
        ({"model": f"{WRAP}\nmodel.load_state_dict(torch.load('a.pt'), strict=False)"}, "no error is raised"),
        ({"before": LOADED, "model": f"{WRAP}\nfill(model, 'a.pt')"}, "no error is raised"),
        ({"before": LOADED.replace(", strict=False", ""), "model": f"{WRAP}\nfill(model, 'a.pt')"}, ""),
        ({"model": f"{WRAP}\nmodel.load_state_dict(torch.load('a.pt'), False)"}, "no error is raised"),
        ({"model": f"model.load_state_dict(torch.load('a.pt'), strict=False)\n{WRAP}"}, ""),
        ({"before": "rows = torch.randn(8, 2, 4)", "model": KEEPER}, ""),
        ({"model": "outer = nn.DataParallel(model)\nmodel.load_state_dict(torch.load('a.pt'), strict=False)"}, ""),
    ],
)
def test_what_was_saved_of_a_wrapped_model_is_not_skipped_in_silence(slots: dict[str, str], said: str) -> None:
    notes = [n.message for n in run(script(**slots)).notes if "in each key" in n.message]
    assert [said in n for n in notes] == [True] * bool(said), notes


@pytest.mark.parametrize(
    ("end", "key"),
    [
        ("state = torch.load('a.pt')\nprint({k[7:]: v for k, v in state.items()})", "k"),
        ("print({k[len('module.'):]: v for k, v in torch.load('a.pt')['net'].items()})", "k"),
        ("for name in torch.load('a.pt'):\n    print(name[7:])", "name"),
        ("print({k[7:]: v for k, v in vars(model).items()})", None),
        ("for name, v in torch.load('a.pt').items():\n    if 'module' in name: print(name[7:])", None),
        ("print({k[8:]: v for k, v in torch.load('a.pt').items()})", None),
    ],
)
def test_what_takes_the_prefix_off_leaves_keys_without_it_alone(end: str, key: str | None) -> None:
    after = run(script(model=WRAP, end=end)).after.decode()
    assert (f'{key}.removeprefix("module.")' in after) is (key is not None), after


PART = """\
import torch.nn as nn
class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
class Net(nn.Module):
    def __init__(self, gpus=1):
        super().__init__()
        {built}
        del self.net.head
        self.out = nn.Linear(4, 1)
    def forward(self, x):
        return self.out(self.net.body(x))
"""


@pytest.mark.parametrize(
    "built",
    [
        "net = Backbone()\n        if gpus:\n            net = nn.DataParallel(net)\n        self.net = net.module",
        "self.net = nn.DataParallel(Backbone())\n        self.net = self.net.module",
        "wrapped = nn.DataParallel(Backbone()) if gpus else Backbone()\n        self.net = wrapped.module",
    ],
)
def test_a_part_that_stays_wrapped_keeps_its_module(
    built: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(PART.format(built=built))
    model = f"from net import Net\nmodel = Net()\nif torch.cuda.device_count() > 1:\n    {WRAP}"
    Path("train.py").write_text(script(before="rows = torch.randn(8, 2, 4)", model=model))
    (result,) = (r for r in rewrite_together(("train.py",), Options()) if r.before != r.after)
    assert result.path == "train.py"


OWN = """\
class Normalized(nn.Module):
    {own}
    def forward(self, x):
        return self.module(x)
class Scaled(Normalized):
    def norm(self):
        return self.module.weight.norm()
model = nn.Sequential({made}(nn.Linear(4, 2)))
if torch.cuda.device_count() > 1:
    model = nn.DataParallel(model)
"""


@pytest.mark.parametrize("made", ["Normalized", "Scaled"])
@pytest.mark.parametrize(
    "own",
    [
        "def __init__(self, module):\n        super().__init__()\n        self.module = module",
        "def __init__(self, layer):\n        super().__init__()\n        self.layer = layer\n"
        "    @property\n    def module(self):\n        return self.layer",
    ],
)
def test_a_network_with_a_module_of_its_own_keeps_it(own: str, made: str) -> None:
    result = run(script(model=OWN.format(own=own, made=made), end="print(model.module[0].norm())"))
    after = result.after.decode()
    assert "return self.module(x)" in after
    assert "return self.module.weight.norm()" in after
    assert "print(model[0].norm())" in after


@pytest.mark.parametrize(
    ("name", "count"),
    [("model.__class__.__name__", 1), ("type(model).__name__", 1), ("type(model.module).__name__", 0)],
)
def test_the_name_of_the_wrapper_is_another_one(name: str, count: int) -> None:
    end = f"torch.save(model.module.state_dict(), {name} + '.pt')"
    result = run(script(before="rows = torch.randn(8, 2, 4)", model=WRAP, end=end))
    assert [n.line for n in result.notes if "name of the wrapper" in n.message] == [19] * count
    for said in (f"print({name})", f"if loss > 9:\n    raise ValueError('no loss of {{}}'.format({name}))"):
        shown = run(script(before="rows = torch.randn(8, 2, 4)", model=WRAP, end=said))
        assert not [n for n in shown.notes if "name of the wrapper" in n.message]


@pytest.mark.parametrize(
    ("use", "is_noted"),
    [
        ('if name.find("Conv") != -1:\n        pass', False),
        ('if "Norm" in name or name.lower().startswith("lin"):\n        pass', False),
        ('return 1 if name == "Linear" else 2', False),
        ('torch.save(m.module.state_dict(), name + ".pt")', True),
        ('if os.path.exists(name + ".pt"):\n        pass', True),
        ('if "a" in open(name).read():\n        pass', True),
        ("return name", True),
    ],
)
@pytest.mark.parametrize("name", ["m.__class__.__name__", "type(m).__name__"])
def test_a_class_name_that_is_only_asked_for_is_not_noted(name: str, use: str, is_noted: bool) -> None:
    before = f"import os\nrows = torch.randn(8, 2, 4)\ndef look(m):\n    name = {name}\n    {use}"
    result = run(script(before=before, model=f"{WRAP}\nlook(model)"))
    assert any("name of the wrapper" in n.message for n in result.notes) is is_noted


KEEPING = "import torch\ndef keep(net):\n    torch.save(net.module.state_dict(), 'net.pt')\n"
OTHER = "import torch\nfrom keeping import keep\nkeep({}(torch.nn.Linear(4, 1)))\n"


@pytest.mark.parametrize(("wrapper", "count"), [("torch.nn.DataParallel", 1), ("Holder", 0)])
def test_scripts_that_hand_wrapped_models_to_what_changed_are_named(
    wrapper: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = script(
        imports="from keeping import keep", before="rows = torch.randn(8, 2, 4)", model=WRAP, end="keep(model)"
    )
    for name, each in {"train": text, "keeping": KEEPING, "other": OTHER.format(wrapper)}.items():
        Path(f"{name}.py").write_text(each)
    results = rewrite_together(("train.py",), Options())
    assert b"net.state_dict()" in next(r.after for r in results if r.path == "keeping.py")
    assert sum("other.py calls `keep` as before" in n.message for r in results for n in r.notes) == count


NETWORK = """\
rows = torch.randn(8, 2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = {features}
        self.head = nn.Linear(4, 1)
    def forward(self, x): return self.head(self.features(x))
"""
LOADED = "model.load_state_dict(torch.load('net.pt'))"
OF_PART = "model.features = nn.DataParallel(model.features)"


@pytest.mark.parametrize(
    ("features", "model", "loads"),
    [
        ("nn.Linear(4, 4)", f"model = Net()\n{OF_PART}\n{LOADED}", True),
        ("nn.Linear(4, 4)", f"model = Net()\n{LOADED}\n{OF_PART}", False),
        ("nn.DataParallel(nn.Linear(4, 4))", f"model = Net()\n{LOADED}", True),
        ("nn.Linear(4, 4)", f"model = Net()\nif torch.cuda.device_count() > 1:\n    {OF_PART}\n{LOADED}", True),
    ],
)
def test_the_keys_of_a_wrapped_part_change(features: str, model: str, loads: bool) -> None:
    end = "torch.save(model.state_dict(), 'net.pt')"
    result = run(script(before=NETWORK.format(features=features), model=model, end=end))
    assert "DataParallel" not in result.after.decode()
    told = [n.message.partition(":")[0] for n in result.notes if "`features`" in n.message]
    assert [m for m in told if "are saved here" in m]
    assert bool([m for m in told if m.startswith("in checkpoints")]) is loads
    assert len(told) == 1 + loads


def test_the_keys_of_another_model_s_part_stay() -> None:
    other = "model, other = Net(), Net()\nother.features = nn.DataParallel(other.features)"
    end = f"torch.save(model.state_dict(), 'net.pt')\n{LOADED}"
    result = run(script(before=NETWORK.format(features="nn.Linear(4, 4)"), model=other, end=end))
    assert not [n.message for n in result.notes if "`features`" in n.message]


@pytest.mark.parametrize(
    "first",
    ["next(model.children())", "list(model.children())[0]", "[*model.children()][0]", "model._modules['module']"],
)
def test_the_first_part_of_a_wrapper_is_the_model(first: str) -> None:
    assert "print(model.weight)" in run(script(model=WRAP, end=f"print({first}.weight)")).after.decode()
    part = f"print(list({first}.children())[0].weight)"
    assert "print(list(model.children())[0].weight)" in run(script(model=WRAP, end=part)).after.decode()
    sometimes = f"if torch.cuda.device_count() > 1:\n    {WRAP}"
    assert f"print({first}.weight)" in run(script(model=sometimes, end=f"print({first}.weight)")).after.decode()


FROZEN = "from torch import nn\nclass Frozen(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
FROZEN += "        self.body = nn.DataParallel(nn.Linear(4, 4){given})\n"
FROZEN += "    def forward(self, x):\n        return self.body(x)\n"


@pytest.mark.parametrize(
    ("given", "used", "is_told"),
    [
        ("", "frozen = Frozen()", True),
        (", device_ids=[0]", "frozen = Frozen()", False),
        ("", "frozen = nn.Tanh()", False),
    ],
)
def test_a_wrapper_inside_a_frozen_network_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, used: str, is_told: bool
) -> None:
    """Each of N processes would divide its batches between all GPUs."""
    monkeypatch.chdir(tmp_path)
    Path("frozen.py").write_text(FROZEN.format(given=given))
    text = script(imports="from frozen import Frozen", before=used, batch="x = frozen(x)")
    Path("train.py").write_text(text)
    results = rewrite_together(("train.py",), Options())
    assert any(n.message.startswith("this stays: on N GPUs") for r in results for n in r.notes) is is_told


@pytest.mark.parametrize(
    "end",
    [
        "torch.save(model.module.state_dict(), 'net.pt')",
        "try:\n    state = model.module.state_dict()\nexcept AttributeError:\n    state = model.state_dict()\n"
        "torch.save(state, 'net.pt')",
        "if hasattr(model, 'module'):\n    state = model.module.state_dict()\nelse:\n    state = model.state_dict()\n"
        "torch.save(state, 'net.pt')",
    ],
)
def test_what_is_saved_of_the_wrapped_model_never_had_a_prefix(end: str) -> None:
    load = "if torch.cuda.device_count() > 2:\n    model.load_state_dict(torch.load('net.pt'))"
    result = run(script(model=WRAP, set_up=load, end=end))
    assert not [n for n in result.notes if "prefix" in n.message]


@pytest.mark.parametrize(
    ("call", "plain"),
    [
        ("nn.parallel.data_parallel(model, x, device_ids=[0, 1])", "model(x)"),
        (
            "nn.parallel.data_parallel(inputs=torch.cat([x, x], 1)[:, :4], module=model)",
            "model(torch.cat([x, x], 1)[:, :4])",
        ),
        ("nn.parallel.data_parallel(nn.Sequential(model), (x,), range(2), 0)", "nn.Sequential(model)(x)"),
        ("nn.parallel.data_parallel(model, given(x), [0, 1])", None),  # maybe a tuple
        ("nn.parallel.data_parallel(model, x, [0, 1], None, 0, {'a': 1})", None),
    ],
)
def test_a_batch_that_is_divided_between_gpus_is_given_to_the_model(call: str, plain: str | None) -> None:
    text = script(before=f"from helper import given\n{ROWS}")
    result = run(text.replace("model(x)", call))
    assert plain is None or f"mse_loss({plain}, y)" in result.after.decode()
    assert (b"data_parallel" in result.after) is (plain is None)
    assert any("divides a batch between GPUs" in n.message for n in result.notes) is (plain is None)


LOADED = """\
def start():
    whole = nn.Sequential(nn.Linear(4, 4))
    whole = nn.DataParallel(whole)
    whole.load_state_dict(torch.load('old.pt'), strict=False)
    return whole.module[0]
first = start()
"""


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        (("", ""), True),
        (("nn.DataParallel(whole)", "torch.nn.parallel.DataParallel(module=whole, device_ids=[0])"), True),
        (("    return whole.module[0]", "    inner = whole.module\n    return inner[0]"), True),
        (("    whole = nn.DataP", "    held = whole\n    whole = nn.DataP"), True),
        (("    return", "    whole(torch.ones(2, 4))\n    return"), False),  # it computes
        (("    return whole.module[0]", "    return whole"), False),
        (("    whole.load_state_dict(torch.load('old.pt'), strict=False)\n", ""), False),
    ],
)
def test_a_wrapper_that_only_loads_what_a_wrapped_model_saved_stays(change: tuple[str, str], stays: bool) -> None:
    wraps = "model = nn.DataParallel(nn.Sequential(first, model))"
    result = run(script(before=LOADED.replace(*change), model=wraps))
    start, _, rest = result.after.decode().partition("first = ")
    assert ("DataParallel(" in start) is stays
    assert (".module" in start) is stays
    assert "DataParallel(" not in rest
    assert not stays or not any("`strict` is off" in n.message or "this stays" in n.message for n in result.notes)
