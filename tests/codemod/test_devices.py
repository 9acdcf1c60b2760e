"""Which device the script chooses: GPUs by number, options that keep it on the CPU, moves to where something is."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from accelify.codemod.result import FileResult, Status, Tier
from accelify.codemod.rewrite import Options, rewrite_together
from tests.codemod.pairs import KEPT, changed, migrated, run, script

ARGS = "import argparse"
SETTINGS = "from options import args, pick, show\nimport json\nconfig = json.load(open('config.json'))"
PARSE = 'parser = argparse.ArgumentParser()\nparser.add_argument("--force_cpu")\nargs = parser.parse_args()'


def told(result: FileResult, words: str) -> int:
    """How often a note says something."""
    return sum(words in note.message for note in result.notes)


@pytest.mark.parametrize(
    "lines",
    [
        "torch.cuda.set_device(3)",
        "torch.cuda.set_device(args.gpu)",
        "if torch.cuda.is_available():\n    torch.cuda.set_device(args.gpu)",
    ],
)
def test_a_gpu_that_is_chosen_for_the_process_goes(lines: str) -> None:
    removed = [f"-{line.strip()}" for line in lines.split("\n")]
    result = changed(*removed, imports="from options import args", before=lines, end="print(args)")
    change = next(c for c in result.changes if "--gpu-ids" in c.reason)
    assert change.tier is Tier.REVIEW
    assert not told(result, "this one GPU")


OPTION = """\
parser = argparse.ArgumentParser()
parser.add_argument("--device", default=GPU, type=str)
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("default", "read", "created"),
    [
        ("'cuda:0'", "", "cpu=args.device.startswith('cpu')"),
        ("'cuda' if torch.cuda.is_available() else 'cpu'", "", "cpu=args.device.startswith('cpu')"),
        ("'cuda:0'", "print(torch.zeros(1, device=GPU))", ""),
    ],
)
def test_the_name_of_an_options_default_stays_text(default: str, read: str, created: str) -> None:
    text = script(
        imports="import argparse",
        before=f"GPU = {default}\n{OPTION}{read}",
        batch="x, y = x.to(args.device), y.to(args.device)",
    )
    after = migrated(
        text.replace('device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n', "").replace(
            "(device", "(args.device"
        )
    )
    assert f"Accelerator({created})" in after
    assert (f"GPU = {default}\n" in after) is bool(created)
    assert ("GPU = accelerator.device.type" in after) is not created


PICKS = """\
def pick(enabled, gpu=0):
    if enabled:
        print('a GPU')
        torch.cuda.set_device(gpu)
"""


@pytest.mark.parametrize(
    ("helper", "call", "left"),
    [
        (PICKS, "pick(True, args.gpu)", "pick(True)"),
        (PICKS, "pick(True, gpu=args.gpu)", "pick(True)"),
        ("def pick(gpu):\n    print(gpu)\n    torch.cuda.set_device(gpu)\n", "pick(args.gpu)", "pick(args.gpu)"),
        ("def pick():\n    print('a GPU')\n    torch.cuda.set_device(args.gpu)\n", "pick()", "pick()"),
    ],
)
def test_a_gpu_that_a_function_chooses_goes_with_its_parameter(helper: str, call: str, left: str) -> None:
    result = run(script(imports=f"from options import args\n{helper}", before=call, end="print(args)"))
    assert result.status is Status.MIGRATED
    text = result.after.decode()
    assert "set_device" not in text
    assert f"\n{left}\n" in text
    assert not told(result, "this one GPU")


def test_a_gpu_that_is_chosen_among_other_things_is_reported() -> None:
    both = "torch.cuda.set_device(1) if torch.cuda.is_available() else None"
    assert told(changed(before=both), "this one GPU") == 1


def test_a_gpu_that_one_branch_chooses_goes() -> None:
    both = "if torch.cuda.is_available():\n    torch.cuda.set_device(1)\nelse:\n    print('no GPU')"
    result = run(script(before=both))
    assert "if not torch.cuda.is_available():\n    print('no GPU')\n" in result.after.decode()
    assert not told(result, "this one GPU")


@pytest.mark.parametrize(
    "slots",
    [
        {"before": PARSE + '\nif args.force_cpu:\n    device = torch.device("cpu")'},
        {"before": PARSE + '\ndevice = torch.device("cpu" if args.force_cpu else "cuda")'},
    ],
)
def test_an_option_that_chose_the_cpu_is_reported_once(slots: dict[str, str]) -> None:
    result = run(script(imports=ARGS, **slots))
    assert result.status is Status.MIGRATED
    text = result.after.decode()
    assert told(result, "`args.force_cpu` no longer selects the device") == 1
    assert "force_cpu" not in text.split("parse_args()")[1]


def test_an_option_that_moves_or_does_not_goes_on_deciding() -> None:
    moved = {
        "model": "if not args.force_cpu:\n    model.cuda()",
        "batch": "if not args.force_cpu:\n    x, y = x.cuda(), y.cuda()",
    }
    result = run(script(imports=ARGS, before=PARSE, **moved))
    assert f"accelerator = {KEPT}\n" in result.after.decode()
    assert result.after.decode().count("if not args.force_cpu:") == 2
    assert not told(result, "no longer selects")


def test_a_move_that_is_right_in_every_process_needs_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("steps.py").write_text(
        "import torch\n\n"
        "def step(model, optimizer, x, y):\n"
        "    noise = torch.randn(1).to(x.device)\n"
        "    weight = torch.ones(1).to(next(model.parameters()).device)\n"
        "    optimizer.zero_grad()\n"
        "    ((model(x) + noise - y) * weight).pow(2).mean().backward()\n"
        "    optimizer.step()\n"
    )
    text = script(imports="from steps import step", backward="step(model, optimizer, x, y)")
    Path("train.py").write_text(text)
    results = rewrite_together(("train.py",), Options())
    assert {r.path: r.status for r in results} == {"train.py": Status.MIGRATED, "steps.py": Status.MIGRATED}
    assert not any(n.rule == "device_moves" for r in results for n in r.notes)
    Path("steps.py").write_text(
        Path("steps.py").read_text().replace("x.device", "place").replace("x, y):", "x, y, place):")
    )
    Path("train.py").write_text(text.replace("optimizer, x, y)", "optimizer, x, y, device)"))
    assert not any(n.rule == "device_moves" for r in rewrite_together(("train.py",), Options()) for n in r.notes)


def test_the_reason_says_what_is_on_the_device_already() -> None:
    result = run(
        dedent(
            """\
            import torch
            from torch.utils.data import DataLoader

            def check(model):
                print(model(((ids != 0) & torch.ones(5).bool()).to(device).float()))

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = torch.nn.Linear(5, 1).to(device)
            optimizer = torch.optim.Adam(model.parameters())
            for ids in DataLoader(torch.ones(16, 5), batch_size=4):
                ids = ids.to(device)
                model(ids).mean().backward()
                optimizer.step()
            check(model)
            """
        )
    )
    assert [c.reason for c in result.changes if c.rule == "device_moves"] == [
        "its tensors are on the device already",
        "`prepare` moves the model to the device",
        "the prepared loader yields batches on the device",
    ]


@pytest.mark.parametrize(
    ("chosen", "is_told"),
    [
        ('torch.device("cuda" if torch.cuda.is_available() else "cpu")', False),
        ('"cuda" if torch.cuda.is_available() else "cpu"', False),
        ('torch.device("cpu" if args.cpu else "cuda")', True),
        ("torch.device(args.place)", True),
    ],
)
def test_a_device_among_the_options_that_none_of_them_chose(chosen: str, is_told: bool) -> None:
    set_up = "parser = argparse.ArgumentParser()\nfor name in names:\n    parser.add_argument(name)\n"
    set_up += f"args = parser.parse_args()\nargs.device = {chosen}\nshow(args.device)"
    result = run(script(imports="import argparse", before=set_up, model="model.to(args.device)"))
    assert result.status is Status.MIGRATED
    assert any("args." in n.message for n in result.notes if n.rule == "devices") is is_told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("w = torch.ones(1).to(args.gpu)", "w = torch.ones(1).to(accelerator.device)"),
        ("w = torch.ones(1, device=args.gpu)", "w = torch.ones(1, device=accelerator.device)"),
        ("w = put(torch.ones(1), args.gpu)", "w = put(torch.ones(1), accelerator.device)"),
        ("w = torch.ones(1).to(config['train']['gpus'])", "w = torch.ones(1).to(accelerator.device)"),
    ],
)
def test_what_an_option_puts_on_one_gpu_goes_to_the_processs_own(old: str, new: str) -> None:
    before = "def put(x, where):\n    return x.to(where)"
    result = changed(f"-{old}", f"+{new}", imports=SETTINGS, before=before, batch=old, end="print(args, config)")
    assert told(result, "no longer selects the device") == 1


@pytest.mark.parametrize("move", ["w = w.to(gpu)", "w = w.to(device=gpu)"])
def test_a_move_to_a_gpu_by_its_number_goes_to_the_processs_own(move: str) -> None:
    new = move.replace("device=", "").replace("gpu", "accelerator.device")
    changed(f"-{move}", f"+{new}", before="gpu = 0", batch=f"w = torch.ones(1)\n{move}", end="print(gpu)")


ENTRY = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def main(args):
    rows = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
    loader, test_loader = DataLoader(rows, batch_size=2, shuffle=True), DataLoader(rows, batch_size=2)
    torch.cuda.set_device(args.gpu)
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.cuda(args.gpu)), y.cuda(args.gpu))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    evaluate(test_loader, model, args, args.gpu)

def evaluate(loader, model, args, gpu):
    for x, y in loader:
        {move}
        show(model(x))

def demo(model, args):
    return model.cuda(args.gpu)

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=0)
main(parser.parse_args())
"""


PASSED = {
    "x = x.cuda(args.gpu)": "x = x.to(accelerator.device)",
    "x = x.cuda(gpu, non_blocking=True)": "x = x.to(accelerator.device, non_blocking=True)",
    "x = x.cuda(device=gpu)": "x = x.to(accelerator.device)",
    "x = x.cuda(1)": "x = x.to(accelerator.device)",
    "x = x.to(0, non_blocking=True)": "x = x.to(accelerator.device, non_blocking=True)",
    "x = x.cuda()": "x = x.to(accelerator.device)",
    'x = x.to("cuda")': "x = x.to(accelerator.device)",
    "x = x.cuda() if torch.cuda.is_available() else x": "x = x.to(accelerator.device)",
}


@pytest.mark.parametrize("move", PASSED)
def test_a_function_that_moves_tensors_is_passed_the_accelerator_so_that_training_runs_on_a_cpu(move: str) -> None:
    after = run(ENTRY.format(move=move)).after.decode()
    assert f"        {PASSED[move]}\n        show(" in after
    assert "return model.cuda(args.gpu)" in after  # no training runs this


@pytest.mark.parametrize(
    ("move", "moved"),
    [
        ("x = x.cuda(1)", "x = x.cuda()"),
        ("x = x.to(0, non_blocking=True)", 'x = x.to("cuda", non_blocking=True)'),
        ("x = x.cuda()", "x = x.cuda()"),
    ],
)
def test_a_move_in_a_function_that_others_call_too_goes_to_the_processs_own_gpu(move: str, moved: str) -> None:
    lent = ENTRY.format(move=move).replace("parser =", "import vendor\nvendor.run(evaluate)\nparser =")
    assert f"        {moved}\n        show(" in run(lent).after.decode()


def test_a_move_in_a_model_does_not_bring_the_accelerator_there() -> None:
    net = "class Net(nn.Module):\n    def forward(self, x):\n        return self.layer(x.cuda())\n\n"
    text = ENTRY.format(move="pass").replace("nn.Linear(4, 1)", "Net()").replace("def demo", f"{net}def demo")
    assert net in run(text).after.decode()


@pytest.mark.parametrize("move", ["w = w.to(gpu_ids[0])", "w = w.cuda(device_ids[1])"])
def test_a_move_to_one_of_several_gpus_goes_to_the_processs_own(move: str) -> None:
    changed(f"-{move}", "+w = w.to(accelerator.device)", batch=f"w = torch.ones(1)\n{move}")


def test_a_move_to_one_gpu_where_the_accelerator_does_not_reach_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("parts.py").write_text(
        "import os\n\n\ndef put(net, gpu_ids):\n    os.makedirs('out')\n    return net.to(gpu_ids[0])\n"
    )
    Path("train.py").write_text(script(imports="from parts import put", end="put(torch.ones(1), [0, 1])"))
    results = rewrite_together(("train.py",), Options())
    assert sum(told(r, "not changed, because") for r in results) == 1, [n.message for r in results for n in r.notes]


def test_an_inner_model_moved_by_number_follows_its_process() -> None:
    trainer = "class Trainer:\n    def __init__(self, model, gpu):\n        self.model = model.to(gpu)"
    before = f"{trainer}\n        print(gpu)\nfirst = 0"
    made, old = "trainer = Trainer(model, first)", "self.model = model.to(gpu)"
    changed(f"-{old}", "+self.model = model.to(accelerator.device)", before=before, model=made)
    after = run(script(before=before.replace("        print(gpu)\n", ""), model=made)).after.decode()
    assert "    def __init__(self, model):\n        self.model = model.to(accelerator.device)" in after


@pytest.mark.parametrize(
    "kept",
    [
        "w = torch.ones(1).to(args.kind)",
        "w = torch.ones(1, device=args.device)",
        "w = torch.ones(1).to(config.device)",
        "w = show(args.gpu)",
        "w = name(args.gpu)",
    ],
)
def test_an_option_that_is_more_than_a_gpu_is_left(kept: str) -> None:
    before = "args.device = torch.device('cpu')\ndef name(where):\n    return str(where)"
    assert f"        {kept}\n" in run(script(imports=SETTINGS, before=before, batch=kept)).after.decode()


def test_the_cpu_beside_the_device_stays_the_cpu() -> None:
    before = 'cpu = torch.device("cpu")'
    created = "Accelerator(device_placement=False)"  # no code moves a model
    notes = changed(before=before, batch="y.to(cpu)", created=created).notes
    assert [n.rule for n in notes] == ["batch_size"]


def test_a_script_for_the_cpu_alone_gets_the_accelerators_device() -> None:
    text = script(before='device = torch.device("cpu")').replace(
        'torch.device("cuda" if torch.cuda.is_available() else "cpu")', "None"
    )
    assert 'torch.device("cpu")' not in run(text).after.decode()


def test_the_cpu_chosen_for_something_beside_training_stays() -> None:
    move = {"batch": "x, y = x.to(device), y.to(device)", "model": "model.to(device)"}
    below = 'device = torch.device("cpu")\nmodel.to(device)'
    assert below in run(script(**move, end=below)).after.decode()
    inside = 'def look(net):\n    device = torch.device("cpu")\n    return net.to(device)\n\nlook(nn.Linear(4, 1))'
    assert inside.partition("\n\n")[0] in run(script(**move, end=inside)).after.decode()
    trained = 'device = torch.device("cpu")'
    text = run(script(before=trained, **move)).after.decode()
    assert trained not in text
    assert text.count("device = accelerator.device") >= 1


GPU_MODE = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Trainer:
    def __init__(self, args):
        self.gpu_mode = args.gpu_mode
        self.loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        if self.gpu_mode:
            self.model.cuda()
            self.loss = nn.MSELoss().cuda()
        else:
            self.loss = nn.{other}()
        for (x,) in self.loader:
            if self.gpu_mode:
                x = x.cuda()
            self.optimizer.zero_grad()
            self.loss(self.model(x), x[:, :1]).backward()
            self.optimizer.step()
parser = argparse.ArgumentParser()
parser.add_argument("--gpu_mode", type=bool, default=True)
Trainer(parser.parse_args())
"""


def test_an_option_that_is_kept_under_another_name_still_chooses_the_cpu_or_is_reported() -> None:
    result = run(GPU_MODE.format(other="MSELoss"))
    assert "self.accelerator = Accelerator(cpu=not self.gpu_mode)" in result.after.decode()
    assert not told(result, "no longer selects")
    result = run(GPU_MODE.format(other="L1Loss"))
    assert f"self.accelerator = {KEPT}" in result.after.decode()
    assert not told(result, "no longer selects")


@pytest.mark.parametrize("made", ['"cuda:" + str(gpu)', '"cuda:{}".format(gpu)', 'f"cuda:{gpu}"', '"cuda:%d" % gpu'])
def test_a_gpu_whose_number_is_filled_in_where_the_accelerator_does_not_reach_is_the_processs_own(made: str) -> None:
    main = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
gpu = 1
device = torch.device({made} if torch.cuda.is_available() else "cpu")
def evaluate(model):
    print(model(torch.ones(1, 4).to(device)))
def main():
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    evaluate(model)
main()
"""
    after = run(main).after.decode()
    assert 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n' in after
    assert "gpu" not in after


@pytest.mark.parametrize(
    ("imports", "options", "filled"),
    [
        ("import sys, gflags", 'FLAGS = gflags.FLAGS\ngflags.DEFINE_bool("cuda", True, "a GPU")', "FLAGS(sys.argv)"),
        ("from config import FLAGS", "", 'FLAGS.merge_from_file("config.yaml")'),
    ],
)
def test_options_that_are_filled_in_by_a_call_are_read_after_it(imports: str, options: str, filled: str) -> None:
    moved = {"model": "if FLAGS.cuda:\n    model.cuda()", "batch": "if FLAGS.cuda:\n    x, y = x.cuda(), y.cuda()"}
    text = script(imports=imports, before=f"{options}\n{filled}", **moved).replace(
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nuse_cuda = torch.cuda.is_available()\n',
        "",
    )
    lines = run(text.replace("print(device, use_cuda)\n", "")).after.decode().splitlines()
    assert lines.index("accelerator = Accelerator(cpu=not FLAGS.cuda)") > lines.index(filled)


def test_flags_that_nothing_fills_in_here_are_not_read() -> None:
    imports = 'from absl import flags\nflags.DEFINE_bool("cuda", True, "a GPU")\nFLAGS = flags.FLAGS'
    result = run(script(imports=imports, model="if FLAGS.cuda:\n    model.cuda()"))
    assert f"accelerator = {KEPT}" in result.after.decode()


FUNCTION = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def train({parameter}):
    {chosen}
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    model = nn.Linear(4, 1).to(place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weight = torch.ones(1, device=place)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.to(place)) * weight, y.to(place))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{called}
"""
PARSED = 'parser = argparse.ArgumentParser()\nparser.add_argument("--device", default="cuda:0")\n'


@pytest.mark.parametrize(
    ("parameter", "chosen", "called"),
    [
        ("place='cpu'", "pass", "train()"),
        ("*, place='cuda:0'", "pass", "train()"),
        ("place", "pass", "train('cuda:1')"),
        ("*, device='cpu'", "place = torch.device(device)", "train()"),
    ],
)
def test_a_parameter_that_names_one_device_for_all_processes_goes(parameter: str, chosen: str, called: str) -> None:
    after = run(FUNCTION.format(parameter=parameter, chosen=chosen, called=called)).after.decode()
    assert "def train():\n" in after
    assert "\ntrain()\n" in after
    assert "device=accelerator.device)" in after or "place = accelerator.device\n" in after


def test_a_parameter_that_an_option_is_given_for_keeps_it_on_the_cpu() -> None:
    called = f"{PARSED}args = parser.parse_args()\ntrain(args.device)"
    after = run(FUNCTION.format(parameter="place", chosen="pass", called=called)).after.decode()
    assert 'accelerator = Accelerator(cpu=str(place).startswith("cpu"))\n' in after
    assert "device=place" not in after


@pytest.mark.parametrize("parameter", ["place='cuda'", "place=None"])
def test_a_parameter_that_may_be_the_processs_own_device_does_no_harm(parameter: str) -> None:
    result = run(FUNCTION.format(parameter=parameter, chosen="pass", called="train()"))
    assert result.status is Status.MIGRATED
    assert "cuda:0" not in result.after.decode()


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (
            "use = not args.no_cuda and torch.cuda.is_available()\ndevice = torch.device('cuda' if use else 'cpu')",
            "--cpu",
        ),
        ("use = not args.no_cuda\nif use:\n    device = 'cuda'\nelse:\n    device = 'cpu'", "--cpu"),
        ("args.cuda = not args.no_cuda\ndevice = torch.device('cuda' if args.cuda else 'cpu')", "--cpu"),
        ("device = torch.device('cuda', args.no_cuda)", "--gpu-ids"),
        ("number = args.no_cuda\ndevice = f'cuda:{number}'", "--gpu-ids"),
        ("device = 'cuda:%d' % args.no_cuda", "--gpu-ids"),
    ],
)
def test_an_option_behind_a_variable_is_told_with_what_replaces_it(chosen: str, words: str) -> None:
    before = f"start = torch.randn(1)\nargs = parse()\n{chosen}"
    result = run(script(imports="from options import parse", before=before, batch="x, y = x.to(device), y.to(device)"))
    said = [n.message for n in result.notes if "`args.no_cuda` no longer selects" in n.message]
    assert len(said) == 1, result.notes
    assert words in said[0]


def test_an_option_that_still_keeps_the_script_on_the_cpu_is_not_told() -> None:
    chosen = "use = not args.no_cuda\ndevice = torch.device('cuda' if use else 'cpu')"
    text = script(imports="from options import args", before=chosen).replace(
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n', "", 1
    )
    result = run(text)
    assert "Accelerator(cpu=args.no_cuda)" in result.after.decode()
    assert not told(result, "no longer selects")


VALIDATION = """\
val_loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
start = torch.ones(4)
"""
MOVED = {
    "model": "if use_cuda:\n    model.cuda()",
    "before": VALIDATION,
    "batch": "if use_cuda:\n    x, y = x.cuda(), y.cuda()",
}


SHOWN = "    print(model(a))"
STARTED = "start = start.to(accelerator.device)"


@pytest.mark.parametrize(
    ("end", "without"),
    [
        (
            f"for a, b in val_loader:\n    if use_cuda:\n        a = a.cuda()\n{SHOWN}",
            "    a = a.to(accelerator.device)",
        ),
        (f"for a, b in val_loader:\n    if use_cuda: a = a.cuda()\n{SHOWN}", "    a = a.to(accelerator.device)"),
        (
            "for a in val_loader:\n    if torch.cuda.is_available():\n        # both\n"
            "        a = [t.to('cuda') for t in a]\n    print(model(a[0]))",
            "    # both\n    a = [t.to(accelerator.device) for t in a]",
        ),
        ("start = start.cuda() if use_cuda else start\nprint(start)", STARTED),
        ("if use_cuda:\n    start = start.cuda()\nprint(start)", STARTED),
        ("if use_cuda:\n    start = start.to(device)\nprint(start)", "start = start.to(device)"),
    ],
)
def test_moves_go_to_the_accelerators_device_under_no_condition(end: str, without: str) -> None:
    assert f"\n{without}\n" in migrated(script(**MOVED, end=end))


@pytest.mark.parametrize(
    "end",
    [
        "if use_cuda:\n    start = start.to(accelerator.device)\n    print('a GPU')\nprint(start)",
        "if use_cuda:\n    other = start.to(accelerator.device)\nelse:\n    other = start * 2\nprint(other)",
        "other = start.to(accelerator.device) if use_cuda else start * 2\nprint(other)",
        "if use_cuda and ask():\n    start = start.to(accelerator.device)\nprint(start)",
    ],
)
def test_a_condition_that_decides_more_stays(end: str) -> None:
    after = migrated(
        script(**MOVED, imports="from elsewhere import ask", end=end.replace(".to(accelerator.device)", ".cuda()"))
    )
    assert end in after


@pytest.mark.parametrize(
    "end",
    [
        "state = first(True)\nif use_cuda:\n    state = state.to(accelerator.device)\nprint(state)",
        "state = first(True)\nif use_cuda:\n"
        "    start, state = start.to(accelerator.device), state.to(accelerator.device)",
        "state = first(False)\nstate = state.to(accelerator.device) if use_cuda else state\nprint(state)",
        "state = None\nif args.n:\n    state = first(True)[0]\nif use_cuda:\n    state = state.to(accelerator.device)",
        "for state in [[start], start]:\n    if use_cuda:\n        state = state.to(accelerator.device)",
    ],
)
def test_a_condition_stays_where_what_is_moved_may_be_a_tuple(end: str) -> None:
    before = f"{VALIDATION}def first(two):\n    if two:\n        return (start, start)\n    return start\n"
    text = script(**{**MOVED, "before": before}, imports="from options import args", end=end)
    assert end in migrated(text.replace(".to(accelerator.device)", ".cuda()"))


def test_a_condition_goes_where_what_is_moved_is_a_tensor_by_then() -> None:
    end = "state = [start, start]\nstate = torch.stack(state)\nif use_cuda:\n    state = state.cuda()\nprint(state)"
    assert "\nstate = state.to(accelerator.device)\n" in migrated(script(**MOVED, end=end))


@pytest.mark.parametrize(
    "lines",
    [
        "kind = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor\nprint(model(kind(2, 4)))",
        "if use_cuda:\n    kind = torch.cuda.LongTensor\nelse:\n    kind = torch.LongTensor\nprint(kind(3))",
        "if use_cuda:\n    start = start.cuda()\n    print('a GPU')\nprint(start)",
        "if use_cuda:\n    other = start.cuda()\nelse:\n    other = start * 2\nprint(other)",
    ],
)
def test_a_script_that_knows_gpus_of_one_kind_alone_has_no_other_accelerator(lines: str) -> None:
    after = migrated(script(**MOVED, end=lines))
    assert "accelerator = Accelerator(cpu=not torch.cuda.is_available())\n" in after


@pytest.mark.parametrize(
    ("on_gpu", "otherwise", "is_for_cuda"),
    [
        ("rows = rows.pin_memory().to(device)", "rows = rows.to(device)", False),
        ("rows = rows.to(device, non_blocking=True)", "rows = rows.float().to(device)", False),
        ("rows = rows.to(device)", "rows = rows.to(other)", True),
        ("rows = rows.cuda()", "rows = rows.to(device)", True),
        ("rows = rows.to(device)", "rows = rows.to(device)\n    print(rows)", True),
    ],
)
def test_a_gpu_decides_only_how_something_gets_to_the_device(on_gpu: str, otherwise: str, is_for_cuda: bool) -> None:
    before = 'device = "cuda" if torch.cuda.is_available() else "mps"\nother = torch.device("cpu")\n'
    rows = f'rows = torch.ones(4)\nif device == "cuda":\n    {on_gpu}\nelse:\n    {otherwise}\nprint(rows)'
    after = migrated(script(**MOVED, end=before + rows))
    assert ("cpu=not torch.cuda.is_available()" in after) is is_for_cuda


def test_an_option_keeps_the_script_on_the_cpu_too() -> None:
    start = "from options import args\ncuda = not args.no_cuda and torch.cuda.is_available()\n"
    model = "if cuda:\n    model.cuda()\nkind = torch.cuda.FloatTensor if cuda else torch.FloatTensor"
    text = script(imports=start, model=model, batch="if cuda:\n    x, y = x.cuda(), y.cuda()\nx = x.type(kind)")
    after = migrated(text.replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")', "None"))
    assert "accelerator = Accelerator(cpu=args.no_cuda or not torch.cuda.is_available())\n" in after


@pytest.mark.parametrize("kind", ["torch.cuda.FloatTensor", "torch.FloatTensor"])
def test_a_type_that_is_not_chosen_says_nothing_of_other_accelerators(kind: str) -> None:
    assert "accelerator = Accelerator()\n" in migrated(script(**MOVED, end=f"print({kind}(3))"))


HOME = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
{imports}
{module}

def helper{name}(x):
    return x

def main():
{function}
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        (model(x) - y).pow(2).mean().backward()
        optimizer.step()

if __name__ == "__main__":
    main()
"""
OPTION_OF_ALL = "use = not args.no_cuda and torch.cuda.is_available()\ndevice = 'cuda' if use else 'cpu'\n"
OTHER_OPTION = "device = torch.device('cpu' if args.force_cpu else 'cuda')\n"


@pytest.mark.parametrize(
    ("other", "local", "created"),
    [
        (OPTION_OF_ALL, "pass", ["Accelerator(cpu=args.no_cuda)"] * 2),
        (OPTION_OF_ALL.replace("use", "is_wanted"), "pass", ["Accelerator(cpu=args.no_cuda)"] * 2),
        (OTHER_OPTION, "pass", [KEPT] * 2),
        ("", f"args = parse()\nprint(args)\n{OTHER_OPTION}", [KEPT] * 2),
        ("device = torch.device('cuda')", "pass", ["Accelerator(cpu=args.no_cuda)", "Accelerator()"]),
    ],
)
def test_scripts_that_import_each_other_keep_their_options_or_are_reported(
    other: str, local: str, created: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = {"imports": "from options import args, parse", "module": OPTION_OF_ALL, "function": "    pass"}
    second = {"module": other, "function": "".join(f"    {line}\n" for line in local.splitlines())}
    imports = "from options import args, parse\nfrom one import helper1"
    Path("one.py").write_text(HOME.format(name=1, **first))
    Path("two.py").write_text(HOME.format(name=2, imports=imports, **second))
    results = rewrite_together(("one.py", "two.py"), Options())
    assert [r.status for r in results] == [Status.MIGRATED] * 2
    assert [c for r, c in zip(results, created, strict=True) if c in r.after.decode()] == created
    lost = [r for r in results if "Accelerator()" in r.after.decode()]
    for result in lost:
        option = next((o for o in ("no_cuda", "force_cpu") if f"args.{o}" in result.before.decode()), None)
        assert told(result, f"`args.{option}` no longer selects the device") == (option is not None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("w = torch.ones(1, device=torch.device('cuda:0'))", "w = torch.ones(1, device=accelerator.device)"),
        ("w = torch.ones(1, device='cuda:1')", "w = torch.ones(1, device=accelerator.device)"),
        ("w = torch.ones(1, device=0)", "w = torch.ones(1, device=accelerator.device)"),
        ("w = torch.ones(1).to(torch.device('cuda', 0))", "w = torch.ones(1).to(accelerator.device)"),
        ("w = torch.ones(1).to('cuda:0')", "w = torch.ones(1).to(accelerator.device)"),
        ("w = torch.ones(1).cuda(0)", "w = torch.ones(1).to(accelerator.device)"),
        ("w = torch.ones(1).to(0)", "w = torch.ones(1).to(accelerator.device)"),
        ("w = torch.load('w.pt', map_location='cuda:0')", "w = torch.load('w.pt', map_location=accelerator.device)"),
        ("w = torch.load('w.pt', 'cuda:0')", "w = torch.load('w.pt', accelerator.device)"),
        (
            "w = torch.load('w.pt', map_location='cuda:0' if torch.cuda.is_available() else 'cpu')",
            "w = torch.load('w.pt', map_location=accelerator.device)",
        ),
        ("w = nn.Linear(1, 1, device='cuda:0')", "w = nn.Linear(1, 1, device=accelerator.device)"),
    ],
)
def test_one_gpu_by_its_number_becomes_the_processs_own(old: str, new: str) -> None:
    changed(f"-{old}", f"+{new}", before=old)


@pytest.mark.parametrize(
    "given",
    [
        "functools.partial(collate, device='cuda:0')",
        "functools.partial(collate, device=torch.device('cuda:0'))",
        "lambda rows: collate(rows, device='cuda:0')",
        "lambda rows: collate(rows, 'cuda:0')",
    ],
)
def test_a_function_that_is_handed_on_gets_the_processs_own_device(given: str) -> None:
    collate = "def collate(rows, device='cpu'):\n    return [torch.stack(part).to(device) for part in zip(*rows)]"
    text = script(imports="import functools", before=collate).replace(
        "batch_size=2", f"batch_size=2, collate_fn={given}"
    )
    result = run(text)
    assert result.status is Status.MIGRATED
    assert "cuda:" not in result.after.decode()


EARLY = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

{early}

def main():
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        (model(x.cuda()) - teacher(x.cuda())).pow(2).mean().backward()
        optimizer.step()

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    "early",
    [
        "teacher = nn.Linear(4, 1).cuda()",
        "teacher = nn.Linear(4, 1)\nteacher.to('cuda:0')",
        "def make():\n    return nn.Linear(4, 1).to('cuda')\nteacher = make()",
        "class Net(nn.Linear):\n    def __init__(self):\n        super().__init__(4, 1)\n"
        "        self.w = torch.ones(1).cuda()\nteacher = Net()",
    ],
)
def test_the_accelerator_is_created_before_anything_goes_to_a_gpu(early: str) -> None:
    result = run(EARLY.format(early=early))
    assert result.status is Status.MIGRATED
    after = result.after.decode()
    assert "cuda:0" not in after
    assert after.index("= Accelerator()") < after.index(
        ".to(accelerator.device)" if ".to(acc" in after else ".to('cuda')"
    )


FLAG = """\
import argparse

import torch
from data import load
from torch import nn

{before}
def main(args):
    features, labels = load(args)
{flag}
    model = nn.Linear(4, 2)
    if cuda:
        model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        loss = nn.functional.cross_entropy(model(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=-1)
main(parser.parse_args())
"""


@pytest.mark.parametrize(
    ("before", "flag", "cpu"),
    [
        (
            "",
            "if args.gpu < 0:\n    cuda = False\nelse:\n    cuda = True\n    features = features.cuda()",
            "args.gpu < 0",
        ),
        ("", "cuda = False\nif args.gpu >= 0:\n    cuda = True\n    features = features.cuda()", "args.gpu < 0"),
        (
            "",
            "if args.gpu >= 0:\n    cuda = True\n    features = torch.ones(4, device='cuda')\nelse:\n    cuda = False",
            "",
        ),
        (
            "def put(t):\n    return t.cuda()\n",
            "if args.gpu < 0:\n    cuda = False\nelse:\n    cuda = True\n    features = put(features)",
            "args.gpu < 0",
        ),
    ],
)
def test_it_is_created_before_the_branch_that_moves_and_says_whether(before: str, flag: str, cpu: str) -> None:
    result = run(FLAG.format(before=before, flag=indent(flag, "    ")))
    assert result.status is Status.MIGRATED
    assert f"main(args):\n    accelerator = Accelerator(cpu={cpu or 'args.gpu < 0'})\n" in result.after.decode()


@pytest.mark.parametrize("move", ["features = features.cuda()", "features = features.to('cuda:0')"])
def test_a_move_before_it_is_known_whether_there_is_a_gpu_is_declined(move: str) -> None:
    branches = (f"if args.gpu == {n}:\n    cuda = True\n    {move}" for n in (1, 2))
    flag = "cuda = False\n" + "\nel".join(branches)
    result = run(FLAG.format(before="", flag=indent(flag, "    ")))
    assert result.status is Status.DECLINED
    (note,) = (n for n in result.notes if "this goes to a GPU before the line that creates the accel" in n.message)
    assert [line for line, _ in note.also] == [note.line + 3]


def test_it_is_created_in_the_base_class_that_moves_the_model() -> None:
    result = run("""\
import torch
from torch import nn
from torch.utils.data import DataLoader

class Base:
    def __init__(self, args):
        self.args = args
        self.device = torch.device(f"cuda:{args.gpu}")
        self.model = self.build().to(self.device)

class Exp(Base):
    def build(self):
        return nn.Linear(4, 1)

    def train(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for x in DataLoader(torch.randn(8, 4), batch_size=2):
            loss = self.model(x.to(self.device)).mean() + torch.zeros(1).to(self.device)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

Exp(parse()).train()
""")
    after = result.after.decode()
    assert (
        after.index("= Accelerator()") < after.index("self.device = accelerator.device") < after.index("self.build()")
    )


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ("keep({})", "find_device()"),
        ("keep({})", "torch.device(find_device())"),
        ("keep({}); self.device = find_device()", "self.device"),
    ],
)
def test_it_is_created_where_a_model_goes_to_a_device_that_others_choose(chosen: str, found: str) -> None:
    option = 'config["device"]'
    result = run(f"""\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader

_device = None

def keep(device):
    global _device
    _device = device

def find_device():
    return _device

def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = loader
    for x in batches:
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

class Main:
    def __init__(self, config):
        {chosen.format(option)}
        self.loader = DataLoader(torch.randn(8, 4), batch_size=2)
        self.model = nn.Linear(4, 1).to({found})

    def run(self):
        train(self.model, self.loader)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    main = Main({{"device": parser.parse_args().device}})
    main.run()
""")
    after = result.after.decode()
    assert "def train(model, loader, accelerator):" in after
    assert "train(self.model, self.loader, self.accelerator)" in after
    assert after.index("self.accelerator = Accelerator(") < after.index("self.model = ")


@pytest.mark.parametrize(
    ("value", "kept"),
    [("settings.get('device', 'cuda')", ""), ("choose(settings)", "dev = choose(settings)\n")],
)
def test_the_variable_that_a_model_was_moved_by_is_the_device(value: str, kept: str) -> None:
    before = script(before=f"dev = {value}", model="model.to(dev)", end="noise = torch.ones(2).to(dev)")
    after = run(f"from settings import choose, settings\n{before}").after.decode()
    assert f"{kept}dev = accelerator.device\n" in after
    assert ("dev = choose" in after) is bool(kept)
    assert ".get(" not in after


def test_what_goes_to_a_gpu_afterwards_is_right() -> None:
    early = "def teacher(x):\n    return x + torch.ones(1).cuda()"
    assert "main():\n    accelerator = Accelerator()" in run(EARLY.format(early=early)).after.decode()


@pytest.mark.parametrize(
    "device", ['f"cuda:{args.gpu}"', '"cuda:{}".format(args.gpu)', '"cuda:0"', '"cuda:" + str(args.gpu)']
)
def test_data_of_another_file_go_where_the_model_goes(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = f'torch.device({device} if torch.cuda.is_available() else "cpu")'
    Path("data.py").write_text(
        f"import torch\nclass Data:\n    def __init__(self, args):\n        self.device = {chosen}\n"
    )
    text = (
        f"from data import Data\nimport argparse\nimport torch\n{STEPS}args = argparse.ArgumentParser().parse_args()\n"
    )
    text = text.replace("DEVICE", chosen) + "train(args, Data(args))\n"
    Path("train.py").write_text(text)
    results = {r.path: r.after.decode() for r in rewrite_together(("train.py",), Options())}
    assert "cuda:" not in "".join(results.values()), results


STEPS = """\
def train(args, d):
    device = DEVICE
    model = torch.nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=.1)
    for x in batches:
        optimizer.zero_grad()
        model(x.to(d.device)).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "move",
    [
        "if self.args.cuda:\n            h = h.cuda()",
        "h = h.cuda() if self.args.cuda else h",
        "h = h.to(x.device)",
    ],
)
def test_moves_by_an_option_that_the_accelerator_does_not_ask(
    move: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the option says no, all stays where it was."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, args):\n        super().__init__()\n"
        "        self.args, self.f = args, torch.nn.Linear(4, 1)\n    def forward(self, x):\n"
        f"        h = torch.zeros(4)\n        {move}\n        return self.f(x + h)\n"
    )
    Path("train.py").write_text(
        "import argparse\nimport torch\nfrom torch.utils.data import DataLoader\nfrom net import Net\n"
        "args = argparse.ArgumentParser().parse_args()\n"
        "for each in args.all:\n    args.cuda = args.cuda or each\n"
        "model = Net(args)\nif args.cuda:\n    model.cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor x in DataLoader(rows):\n"
        "    optimizer.zero_grad()\n    model(x).mean().backward()\n    optimizer.step()\n"
    )
    result = next(r for r in rewrite_together(("train.py",), Options()) if r.path == "train.py")
    assert KEPT in result.after.decode()


CHOOSING = """\
import torch
class Trainer:
    def __init__(self, model, loader, use_cuda=True):
        self.device = CHOICE
        self.model, self.loader = model, loader
MOVES        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def fit(self):
        for x in self.loader:
            self.optimizer.zero_grad()
            self.model(x.to(self.device)).mean().backward()
            self.optimizer.step()
"""


LEARNER = """\
import argparse
import torch
from types import SimpleNamespace
settings = SimpleNamespace(device="cuda")
class Learner:
    def __init__(self, device="cuda"):
        self.device = device
        self.model = torch.nn.Linear(4, 2).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=.1)
    def fit(self):
        for x in batches:
            self.optimizer.zero_grad()
            self.model(x.to(self.device)).mean().backward()
            self.optimizer.step()
parser = argparse.ArgumentParser()
parser.add_argument("--device", default=settings.device)
parser.parse_args()
Learner().fit()
"""


@pytest.mark.parametrize("made", ["SimpleNamespace", "argparse.Namespace"])
def test_a_device_among_settings_goes_nowhere(made: str) -> None:
    result = run(LEARNER.replace("SimpleNamespace(", f"{made}("))
    assert result.status is Status.MIGRATED
    assert not [n for n in result.notes if "GPU" in n.message], result.notes


COUNTED = """\
import torch
def prepare_device(wanted):
    count = torch.cuda.device_count()
    if wanted > 0 and count == 0:
        wanted = 0
    if wanted > count:
        wanted = count
    return torch.device("cuda:0" if wanted > 0 else "cpu")
"""
LIMITED = """\
import torch
def limited_device(wanted):
    wanted = min(wanted, torch.cuda.device_count())
    return torch.device("cuda:0" if wanted else "cpu")
"""
BY_FLAG = '"cuda" if use_cuda and torch.cuda.is_available() else "cpu"'


@pytest.mark.parametrize(
    ("choice", "asked", "made", "lost"),
    [
        (BY_FLAG, ' == "cuda"', "Accelerator(cpu=not use_cuda)", ""),
        (f"torch.device({BY_FLAG})", '.type != "cpu"', "Accelerator(cpu=not use_cuda)", ""),
        ("prepare_device(use_cuda)", "", "Accelerator(cpu=use_cuda <= 0)", ""),
        ("limited_device(use_cuda)", '.type == "cuda"', "Accelerator()", "`args.gpu` no longer selects"),
        (BY_FLAG.replace("use_cuda and ", ""), ' == "cuda"', "Accelerator()", ""),
    ],
)
def test_an_option_that_another_files_class_chooses_by(
    choice: str, asked: str, made: str, lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It decides about the accelerator, or a note says that it decides nothing any more."""
    monkeypatch.chdir(tmp_path)
    counted = COUNTED if "prepare_device" in choice else LIMITED if "limited_device" in choice else ""
    moves = "        if ASKED:\n            self.model.cuda()\n" if asked else ""
    trainer = CHOOSING.replace("MOVES", moves).replace("CHOICE", choice).replace("ASKED", f"self.device{asked}")
    Path("trainer.py").write_text(counted + trainer)
    Path("train.py").write_text(
        "import argparse\nimport torch\nfrom torch.utils.data import DataLoader\nfrom trainer import Trainer\n"
        "parser = argparse.ArgumentParser()\nparser.add_argument('--gpu', type=int, default=1)\n"
        "args = parser.parse_args()\nwanted = args.gpu\n"
        "trainer = Trainer(torch.nn.Linear(4, 1), DataLoader(rows), wanted)\ntrainer.fit()\n"
    )
    results = rewrite_together(("train.py",), Options())
    assert any(made in r.after.decode() for r in results), results
    notes = [n.message for r in results for n in r.notes if "no longer selects" in n.message]
    assert [lost in n for n in notes] == [True] * bool(lost), notes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n{main}main(args)\n", "sees only these"),
        ("import os\n{main}    os.environ['CUDA_VISIBLE_DEVICES'] = args.gpu\nmain(args)\n", "has already selected"),
        ("import os\ndef pick(args):\n    os.environ['CUDA_VISIBLE_DEVICES'] = str(args.gpu)\n{main}    pick(args)\n"
         "main(args)\n", "has already selected the GPU"),
    ],
)  # fmt: skip
def test_what_the_visible_gpus_still_decide(text: str, words: str) -> None:
    main = "    model = torch.nn.Linear(4, 1).cuda()\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    main += "    for x in torch.utils.data.DataLoader(rows):\n        optimizer.zero_grad()\n"
    main += "        model(x.cuda()).mean().backward()\n        optimizer.step()\n"
    result = run("import torch\nfrom options import args, rows\n" + text.format(main=f"def main(args):\n{main}"))
    assert told(result, words) == 1, result.notes
    assert told(result, "GPUs: remove this, and use") == (words == "sees only these")


@pytest.mark.parametrize(
    "stop",
    [
        "breakpoint()",
        "import pdb; pdb.set_trace()",
        "from ipdb import set_trace\nset_trace()",
        "import IPython as i; i.embed()",
    ],
)
def test_stops_in_a_debugger_are_reported(stop: str) -> None:
    assert told(run(script(end=stop)), "stops in the debugger") == 1


def test_the_number_of_a_gpu_that_a_helper_returns_with_the_model() -> None:
    helpers = """\
def device_of(ids):
    kind = "cuda:%s" % ids.split(",")[0]
    return torch.device(kind), ids
def placed(model, ids):
    device, ids = device_of(ids)
    return model.to(device), device, ids
"""
    slots = {"model": "model, where, ids = placed(model, config['gpus'])", "batch": "x = x.to(where)"}
    result = run(script(before=f"{SETTINGS}\n{helpers}", end="print(ids)", **slots))
    assert result.status is Status.MIGRATED
    assert '    kind = "cuda"\n    return torch.device(kind), ids\n' in result.after.decode()
    assert told(result, "no longer selects the GPU: use `accelify launch --gpu-ids`") == 1


@pytest.mark.parametrize("first", ["f'cuda:{3}' if torch.cuda.is_available() else 'cpu'", "'cuda:0'"])
def test_a_device_in_two_steps_is_taken_in_one(first: str) -> None:
    before = f"device = {first}\ndevice = torch.device(device)"
    after = migrated(script(before=before, end="print(torch.zeros(2, device=device))"))
    assert after.count("device = accelerator.device") == 2  # with that of the plain script
    assert "torch.device" not in after


CHOSEN = """\
import argparse
import torch
args = argparse.ArgumentParser().parse_args()
{chosen}
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(rows):
    optimizer.zero_grad()
    model(x.to(device)).mean().backward()
    optimizer.step()
    print(torch.zeros(1, device=device))
"""


@pytest.mark.parametrize(
    ("chosen", "cpu"),
    [
        (
            "device = args.device\nif device == 'gpu' and torch.cuda.is_available():\n"
            "    device = torch.device('cuda')\nelse:\n    device = torch.device('cpu')\n",
            "Accelerator(cpu=args.device != 'gpu')",
        ),
        (
            "where = args.gpu\nwhere = torch.device('cuda' if where and torch.cuda.is_available() else 'cpu')\n"
            "device = where\n",
            "Accelerator(cpu=not args.gpu)",
        ),
    ],
)
def test_a_variable_that_holds_the_option_before_it_holds_the_device(chosen: str, cpu: str) -> None:
    assert cpu in run(CHOSEN.format(chosen=chosen)).after.decode().replace('"', "'")


@pytest.mark.parametrize(
    ("read", "count"),
    [("read()", 1), ("argparse.ArgumentParser().parse_args().device", 1), ("'gpu'", 0)],
)
def test_what_a_call_says_no_longer_selects_the_device(read: str, count: int) -> None:
    branches = "    device = torch.device('cuda')\nelse:\n    device = torch.device('cpu')\n"
    result = run(CHOSEN.format(chosen=f"device = {read}\nif device == 'gpu':\n{branches}"))
    assert told(result, "no longer selects the device") == count


@pytest.mark.parametrize(
    ("again", "count"),
    [
        ("device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')", 0),
        ("if args.set == 'c':\n        device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')", 0),
        ("place = torch.device('cuda' if torch.cuda.is_available() else 'cpu')", 0),
        ("device = torch.device('cuda')", 1),
    ],
)
def test_a_condition_under_which_the_same_device_is_bound_again(again: str, count: int) -> None:
    chosen = "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    result = run(CHOSEN.format(chosen=f"{chosen}if args.set == 'b':\n    {again}\n"))
    assert told(result, "`args.set` no longer selects the device") == count


@pytest.mark.parametrize("way", ["x = x.to(device)", "x = x.to(device).float()"])
def test_an_option_that_moves_either_way_selects_no_device(way: str) -> None:
    batch = f"if args.twice:\n    x = x.to(device)\nelse:\n    {way}\ny = y.to(device)"
    before = "args = argparse.ArgumentParser().parse_args()\n"
    result = run(script(imports="import argparse", before=before, model="model.to(device)", batch=batch))
    assert "x.to(" not in result.after.decode()
    assert told(result, "no longer selects the device") == 0


def test_a_lambda_says_no_number_of_a_gpu() -> None:
    pick = "def pick():\n    best = max(range(4), key=lambda i: free(i))\n    return torch.device('cuda', best)"
    assert told(run(CHOSEN.format(chosen=f"{pick}\ndevice = pick()")), "`i` no longer") == 0


LITERAL = "{} no longer keeps the training on the CPU"


@pytest.mark.parametrize(
    ("chosen", "words", "count"),
    [
        ("device = torch.device('cpu')", LITERAL.format("`torch.device('cpu')`"), 1),
        ("device = 'cpu'", LITERAL.format("`'cpu'`"), 1),
        ("WHERE = 'cpu'\ndevice = torch.device(WHERE)", LITERAL.format("`torch.device(WHERE)`"), 1),
        ("WHERE = 'cuda'\ndevice = torch.device(WHERE)", "no longer", 0),
        ("device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')", "no longer", 0),
        ("device = 'cpu'\nif torch.cuda.is_available():\n    device = 'cuda'", "no longer", 0),
        ("device = torch.device('cuda:1')", "`cuda:1` no longer selects the GPU: use `accelify launch --gpu-ids`", 1),
        ("device = 'cuda:2' if torch.cuda.is_available() else 'cpu'", "`cuda:2` no longer selects the GPU", 1),
        ("device = torch.device('cuda:0')", "no longer", 0),
        ("device = 'cuda'", "no longer", 0),
    ],
)
def test_a_device_that_is_written_out_is_reported_when_it_is_replaced(chosen: str, words: str, count: int) -> None:
    assert told(run(CHOSEN.format(chosen=chosen)), words) == count


TRAINER = """\
import torch
class Trainer:
    def __init__(self, model, loader, {parameter}):
        self.model, self.loader = model, loader
        self.device = device
        self.model.to({moved})
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def fit(self):
        for x in self.loader:
            loss = (self.model(x.to(self.device)) + torch.ones(1, device=self.device)).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
Trainer(torch.nn.Linear(4, 1), torch.utils.data.DataLoader(rows){given}).fit()
"""


@pytest.mark.parametrize(
    ("parameter", "moved", "given"),
    [
        ('device="cpu"', "device", ""),
        ('*, device: str = "cpu"', "self.device", ""),
        ("device", "device", ', "cpu"'),
        ('device="cpu"', "self.device", ', device="cuda:0"'),
    ],
)
def test_an_attribute_that_a_parameter_names_the_device_of_follows(parameter: str, moved: str, given: str) -> None:
    after = migrated(TRAINER.format(parameter=parameter, moved=moved, given=given))
    assert "self.device = self.accelerator.device\n" in after
    assert "torch.ones(1, device=self.device)" in after
    assert "def __init__(self, model, loader):" in after
    assert "DataLoader(rows)).fit()" in after


def test_an_attribute_whose_device_is_bound_outside_stays() -> None:
    text = TRAINER.format(parameter="device", moved="device", given=", device")
    chosen = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nTrainer('
    assert "self.device = device\n" in migrated(text.replace("Trainer(torch", f"{chosen}torch"))


def test_an_attribute_that_is_the_cpu_for_some_stays() -> None:
    text = TRAINER.format(parameter='device="cpu"', moved="device", given=", 'cuda'")
    other = "Trainer(torch.nn.Linear(4, 1), torch.utils.data.DataLoader(rows))\n"
    assert "self.device = device\n" in run(text + other).after.decode()


RETURNED = """\
import torch
class Trainer:
    def __init__(self, args, loader):
        self.args, self.loader = args, loader
        self.device = self.choose()
        self.model = torch.nn.Linear(4, 1).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def choose(self):
        {choice}
    def fit(self):
        for x in self.loader:
            loss = (self.model(x.to(self.device)) + torch.ones(1, device=self.device)).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("choice", "count"),
    [
        ("device = torch.device('cuda' if self.args.gpu else 'cpu')\n        print(device)\n        return device", 1),
        ("where = 'cuda:0'\n        print('on', where)\n        return where", 1),
        ("print('choose')\n        return torch.device('cuda' if self.args.gpu else 'cpu')", 1),
    ],
)
def test_a_device_that_a_function_returns_is_bound_once(choice: str, count: int) -> None:
    assert migrated(RETURNED.format(choice=choice)).count(" = self.accelerator.device\n") == count


HELPER = """\
def pick(wanted=None):
    {first}
    chosen = None
    if wanted:
        chosen = torch.device(wanted)
    if chosen is None:
        chosen = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return {given}
device = pick({asked})
"""


@pytest.mark.parametrize(
    ("first", "given", "asked", "count"),
    [
        ("print(wanted)", "chosen", "args.device", 1),
        ("print(wanted)", "torch.device(str(chosen))", "args.device", 1),
        ("print(wanted)", "chosen", "config['device']", 1),
        ("pass", "chosen", "args.device", 1),
        ("print(wanted)", "chosen", "", 0),
    ],
)
def test_an_option_that_a_helper_is_given_no_longer_selects(first: str, given: str, asked: str, count: int) -> None:
    chosen = HELPER.format(first=first, given=given, asked=asked)
    assert told(run(CHOSEN.format(chosen=chosen)), "no longer selects the device") == count


@pytest.mark.parametrize("device", ['"cuda:0"', 'torch.device("cuda:0")', 'torch.device("cuda", 0)', 'device="cuda:0"'])
def test_the_default_device_is_the_processs_own(device: str) -> None:
    text = migrated(script(before=f"torch.set_default_device({device})"))
    assert "set_default_device(accelerator.device)" in text.replace("device=", "")


@pytest.mark.parametrize("device", ['"cpu"', '"cuda"', "device"])
def test_a_default_device_without_a_number_stays(device: str) -> None:
    assert f"torch.set_default_device({device})" in migrated(script(before=f"torch.set_default_device({device})"))


def test_the_default_device_before_the_accelerator_has_no_number() -> None:
    text = script().replace("\n", "\n    ")
    text = f'import torch\n\ntorch.set_default_device("cuda:0")\n\ndef main():\n    {text}\n\nmain()\n'
    assert 'torch.set_default_device("cuda")' in migrated(text)


def test_the_accelerator_waits_for_the_import_below_the_options_that_decide_its_device() -> None:
    text = """\
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda")
        args = parser.parse_args()

        import torch
        from torch import nn
        from torch.utils.data import DataLoader

        model = nn.Linear(4, 1).to(args.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in DataLoader(torch.randn(8, 4), batch_size=2):
            loss = model(x.to(args.device)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    after = run(dedent(text)).after.decode()
    assert after.index("import Accelerator") < after.index(
        'accelerator = Accelerator(cpu=args.device.startswith("cpu"))'
    )


MODULE_DEVICE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
{device}
def noise(n):
    return torch.randn(n, 4){moved}
def main():
    {first}
    loader = DataLoader(torch.randn(16, 4), batch_size=4)
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        loss = model(x.to(device) + noise(len(x)).to(x.device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
if __name__ == "__main__":
    main()
"""
CUDA_OR_CPU = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'


@pytest.mark.parametrize(
    ("device", "moved", "first", "is_for_cuda"),
    [
        (CUDA_OR_CPU, ".to(device)", "pass", True),
        (CUDA_OR_CPU.replace("torch.device", ""), ".to(device)", "pass", True),
        ("if torch.cuda.is_available():\n    device = 'cuda'\nelse:\n    device = 'cpu'", ".to(device)", "pass", True),
        (CUDA_OR_CPU, "", "pass", False),
        (CUDA_OR_CPU, "", CUDA_OR_CPU, False),
        (CUDA_OR_CPU.replace("torch.cuda", "torch.accelerator"), ".to(device)", "pass", False),
        ("device = torch.device('cuda')", ".to(device)", "pass", False),
    ],
)
def test_a_device_of_the_module_that_stays(device: str, moved: str, first: str, is_for_cuda: bool) -> None:
    after = migrated(MODULE_DEVICE.format(device=device, moved=moved, first=first))
    assert ("Accelerator(cpu=not torch.cuda.is_available())\n" in after) is is_for_cuda
    assert after.count("Accelerator(") == 1


BEFORE_TRAINING = """
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader
from data import rows

parser = argparse.ArgumentParser()
parser.add_argument("--device", {option})
args = parser.parse_args()
{device}

def load():
    {made}

def train(weights):
    loader = DataLoader(rows, batch_size=8)
    net = nn.Linear(4, 3).to(device)
    criterion = nn.CrossEntropyLoss(weight=weights{moved})
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in loader:
        loss = criterion(net(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

if __name__ == "__main__":
    weights = load()
    train(weights)
"""


@pytest.mark.parametrize("option", ["default='cuda'", "choices=['cpu', 'cuda'], default='cuda'"])
@pytest.mark.parametrize("device", ["device = torch.device(args.device)", "device = args.device"])
@pytest.mark.parametrize(
    ("made", "moved", "is_early"),
    [
        ("return torch.ones(3).to(device)", "", True),
        ("return torch.ones(3, device=args.device)", "", True),
        ("return torch.ones(3)", ".to(device)", False),
    ],
)
def test_it_is_created_before_what_goes_where_an_option_says(
    option: str, device: str, made: str, moved: str, is_early: bool
) -> None:
    result = run(BEFORE_TRAINING.format(option=option, device=device, made=made, moved=moved))
    after = result.after.decode()
    created = after.index("= Accelerator(cpu=")
    assert (after.index("def train(") < created < after.index("if __name__")) is not is_early
    assert created < after.index("weights = load(")


CHOSEN_BY_CALL = {
    "train.py": """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from place import get_device, use_gpu

def evaluate(model, loader):
    with torch.no_grad():
        for x, y in loader:
            x = x.to(get_device())
            print(model(x))

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--force_cpu", action="store_true")
    if parser.parse_args().force_cpu:
        use_gpu(False)
    rows = TensorDataset(torch.randn(8, 3), torch.randn(8, 1))
    loader, others = DataLoader(rows, batch_size=2), DataLoader(rows, batch_size=2)
    model = nn.Linear(3, 1).to(get_device())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.to(get_device())), y.to(get_device()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    evaluate(model, others)
    seen = torch.ones(3).to(get_device())
    print(seen)

main()
""",
    "place.py": """\
import torch
GPU = torch.device("cuda") if torch.cuda.is_available() else None
USE_GPU = True

def use_gpu(value):
    global USE_GPU
    USE_GPU = value

def get_device():
    return torch.device("cpu") if not USE_GPU or GPU is None else GPU
""",
}


def test_what_goes_where_a_function_sent_the_models_goes_to_the_accelerators_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, text in CHOSEN_BY_CALL.items():
        Path(path).write_text(text)
    result = {r.path: r for r in rewrite_together(("train.py",), Options())}["train.py"]
    assert "    seen = torch.ones(3).to(accelerator.device)\n" in result.after.decode()
    assert "to(get_device())" not in result.after.decode().partition("def main")[2]
    assert told(result, "`get_device()` no longer selects the device") == 1


KEYWORDS = """\
import argparse
import torch
from torch import nn

class Agent:
    def __init__(self, **settings):
        self.__dict__.update(settings)
        {made}
        self.actor = nn.Linear(3, 1).to(self.{device})
        self.optimizer = torch.optim.Adam(self.actor.parameters())

    def train(self, rows):
        loss = self.actor(torch.FloatTensor(rows).to(self.{device})).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

def main(settings):
    agent = Agent(**settings)
    for step in range(3):
        agent.train([[1.0, 2.0, 3.0]])

main({{"{device}": "cuda", "lr": 0.1}})
"""


@pytest.mark.parametrize("device", ["device", "dvc"])
def test_where_nothing_is_known_of_a_device_that_stays_devices_mix(device: str) -> None:
    after = run(KEYWORDS.format(device=device, made="pass")).after.decode()
    assert "Accelerator(mixed_devices=True)" in after
    known = run(KEYWORDS.format(device=device, made=f"self.{device} = 'cuda'")).after.decode()
    assert "mixed_devices" not in known


ON_CPU = """\
import torch
from torch import nn

class Trainer:
    def __init__(self, model, data, device="cpu"):
        self.model = model.to(device)
        self.data = data
        {default}
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def step(self):
        self.optimizer.zero_grad()
        loss = (self.model(self.data["x"]) - self.data["y"]).pow(2).mean()
        loss.backward()
        self.optimizer.step()

x = torch.rand(64, 1)
trainer = Trainer(nn.Linear(1, 1), {{"x": x, "y": torch.sin(x)}})
for epoch in range(10):
    trainer.step()
"""


@pytest.mark.parametrize(
    ("default", "mixes"),
    [
        ("pass", True),
        ("torch.set_default_dtype(torch.float64)", True),  # a type is no place
        ("if device == 'cpu':\n            torch.set_default_dtype(torch.float64)", True),
        ("torch.set_default_device('cuda')", False),
        ("torch.set_default_tensor_type(torch.cuda.FloatTensor)", False),
    ],
)
def test_a_default_type_leaves_a_script_for_the_cpu_what_it_is(default: str, mixes: bool) -> None:
    assert ("mixed_devices=True" in run(ON_CPU.format(default=default)).after.decode()) is mixes


def test_the_keys_of_a_map_location_are_no_devices_of_this_process() -> None:
    loads = "model.load_state_dict(torch.load('a.pt', map_location={'cuda:1': 'cuda:0'}))"
    assert loads in migrated(script(model=f"model.to(device)\n{loads}"))


CHOSEN_DEVICE = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
ABOVE = """\
import torch
from torch.utils.data import DataLoader
device = CHOICE
def noise():
    return torch.zeros(1, device=device)
HEAD
    loader = DataLoader(rows, batch_size=2)
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        x = x.to(device)
        optimizer.zero_grad()
        loss = model(x).mean() + noise() READ
        loss.backward()
        optimizer.step()
"""
MADE_BELOW = "accelerator = Accelerator({})\n    device = accelerator.device{}\n"


@pytest.mark.parametrize(
    ("head", "read", "choice", "below"),
    [
        ("def main():", "+ torch.ones(1, device=device)", CHOSEN_DEVICE, ("cpu=not torch.cuda.is_available()", "")),
        ("if __name__ == '__main__':", "", CHOSEN_DEVICE, ("", "")),
        ("if __name__ == '__main__':", "", "'cuda'", ("", "")),
        ("if __name__ == '__main__':", "+ len('on ' + device)", "'cuda'", ("", ".type")),
        ("def main():", "", CHOSEN_DEVICE, None),  # nothing is left there that reads it
        ("def main():\n    print(device)", "", CHOSEN_DEVICE, ("cpu=not torch.cuda.is_available()", "")),
    ],
)
def test_a_device_above_the_accelerator_is_its_own_below(
    head: str, read: str, choice: str, below: tuple[str, str] | None
) -> None:
    text = ABOVE.replace("CHOICE", choice).replace("HEAD", head).replace("READ", read)
    after = run(text + ("main()\n" if "main()" in head else "")).after.decode()
    assert f"device = {choice}\n" in after
    assert MADE_BELOW.format(*below) in after if below else "device = acc" not in after


OVERRULED = """\
import json, sys
import torch
from yacs.config import CfgNode
cfg = CfgNode()
cfg.DEVICE = "cuda"
MORE
model = torch.nn.Linear(4, 2).to(cfg.DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=.1)
for x in batches:
    optimizer.zero_grad()
    model(x.to(cfg.DEVICE)).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "more",
    [
        "cfg.merge_from_file('a.yaml')",
        "cfg.update(json.load(open('a.json')))",
        "if sys.argv[1:]:\n    cfg.merge_from_list(sys.argv[1:])",
        "",
    ],
)
def test_a_setting_that_a_file_may_overrule_is_an_option(more: str) -> None:
    after = run(OVERRULED.replace("MORE", more)).after.decode()
    made = 'Accelerator(cpu=cfg.DEVICE == "cpu")' if more else "Accelerator()"
    after, more = after.replace("'", '"'), more.replace("'", '"')
    assert after.index(more) < after.index(made) if more else made in after


MOVED_BY_THE_SCRIPT = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def choose(args):
    {chosen}
    return args, device
def load(args, device):
    x, y = torch.randn(64, 4).to(device), torch.randn(64, 1).to(device)
    return DataLoader(TensorDataset(x, y), batch_size=4)
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--enable_cuda", action="store_true")
    args, device = choose(parser.parse_args())
    loader = load(args, device)
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main()
"""


@pytest.mark.parametrize(
    "chosen",
    [
        "if args.enable_cuda and torch.cuda.is_available():\n        device = torch.device('cuda')\n"
        "    else:\n        device = torch.device('cpu')",
        "device = 'cpu'\n    if args.enable_cuda:\n        device = 'cuda'",
    ],
)
def test_the_cpu_needs_no_note_where_the_script_moves_all_itself(chosen: str) -> None:
    result = run(MOVED_BY_THE_SCRIPT.format(chosen=chosen))
    assert "Accelerator(device_placement=False)" in result.after.decode()
    assert not any("this is the CPU" in n.message for n in result.notes)


def test_a_method_of_an_object_overrules_no_device_of_it() -> None:
    text = OVERRULED.replace("cfg = CfgNode()", "learner = Learner()").replace("cfg", "learner")
    after = run(text.replace("MORE", "learner.fit(1)")).after.decode()
    assert "learner.DEVICE = accelerator.device.type\n" in after


BEFORE_A_CLASS = """\
import torch
from torch import nn
{chosen}
class Agent:
    def __init__(self):
        self.policy = nn.Linear(4, 1).to(device)
        self.old = nn.Linear(4, 1).to(device)
        self.optimizer = torch.optim.Adam(self.policy.parameters())

    def update(self, states):
        loss = (self.policy(torch.stack(states).to(device)) - self.old(states[0].to(device))).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

agent = Agent()
for _ in range(3):
    agent.update([torch.randn(4) for _ in range(8)])
"""
SHOWN = "    torch.cuda.empty_cache()\n    print('on', torch.cuda.get_device_name(device))\n"


@pytest.mark.parametrize(
    ("chosen", "is_noted"),
    [
        (f"device = torch.device('cpu')\nif torch.cuda.is_available():\n    device = 'cuda:0'\n{SHOWN}", False),
        (f"device = 'cpu'\nif (torch.cuda.is_available()):\n    device = 'cuda'\n{SHOWN}else:\n    print(1)", False),
        (f"if torch.cuda.is_available():\n    device = 'cuda'\n{SHOWN}else:\n    print(1)\n    device = 'cpu'", False),
        ("device = torch.device('cpu')\nif torch.cuda.is_available():\n    print('a GPU is not used')", True),
        ("device = torch.device('cpu')", True),
    ],
)
def test_a_device_that_is_the_cpu_only_without_a_gpu_needs_no_note(chosen: str, is_noted: bool) -> None:
    notes = [n.message for n in run(BEFORE_A_CLASS.format(chosen=chosen)).notes]
    assert any("this is the CPU" in n for n in notes) is is_noted


PICKED = """\
import json
import torch
from gpustat import GPUStatCollection
from torch.utils.data import DataLoader
params = json.load(open("params.json"))
def pick():
    i = 0 if GPUStatCollection.new_query().jsonify()["gpus"] else -1
    return torch.device("cuda", i) if i > -1 else torch.device("cpu")
{chosen}
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader([(torch.randn(4), torch.randn(1))] * 8):
    optimizer.zero_grad()
    (model(x.to(device)) - y.to(device)).pow(2).mean().backward()
    optimizer.step()
"""
ASKED = "if params['device'] == 'cuda':\n"


@pytest.mark.parametrize(
    ("chosen", "is_told"),
    [
        (f"device = torch.device('cpu')\n{ASKED}    device = pick()", True),
        (f"device = torch.device('cpu')\n{ASKED}    if torch.cuda.is_available():\n        device = pick()", True),
        (f"{ASKED}    device = pick()\nelse:\n    device = torch.device('cpu')", True),
        ("device = pick()", False),
        ("device = pick()\nif params['device'] == 'cuda':\n    print(device)", False),
    ],
)
def test_an_option_by_which_a_helper_picks_the_gpu_is_reported(chosen: str, is_told: bool) -> None:
    result = run(PICKED.format(chosen=chosen))
    assert result.status is Status.MIGRATED
    is_kept = "Accelerator(cpu=" in result.after.decode()
    assert (told(result, "`params['device']` no longer selects the device") == 1 or is_kept) is is_told


MPS = "torch.backends.mps.is_available()"


@pytest.mark.parametrize(
    ("lines", "is_said"),
    [
        (f'device = "mps" if {MPS} else "cpu"\n', True),
        (f'device = torch.device("cpu")\nif {MPS}:\n    device = torch.device("mps")\n', True),
        (f'if {MPS}:\n    device = torch.device("mps")\nelse:\n    device = torch.device("cpu")\n', True),
        (f'def pick():\n    if {MPS}:\n        return "mps"\n    return "cpu"\ndevice = pick()\n', True),
        (f'device = "cuda" if torch.cuda.is_available() else "mps" if {MPS} else "cpu"\n', False),
        ('device = torch.device("mps")\n', False),
        (
            f'device = "cuda" if torch.cuda.is_available() else "cpu"\nslow = "mps" if {MPS} else "cpu"\n',
            False,
        ),
    ],
)
def test_a_device_of_macs_is_now_a_gpu_elsewhere(lines: str, is_said: bool) -> None:
    result = run(
        "import torch\nfrom torch.utils.data import DataLoader\n"
        f"{lines}model = torch.nn.Linear(4, 1).to(device)\noptimizer = torch.optim.SGD(model.parameters())\n"
        "for x in DataLoader(data, 8):\n    model(x.to(device)).mean().backward()\n    optimizer.step()\n"
    )
    assert any("where there is a CUDA GPU" in n.message for n in result.notes) is is_said


IN_MAIN = """\
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--gpu", {option})
args = parser.parse_args()
{chosen}
data = torch.arange(64.0).view(8, 8)
def main():
    model = torch.nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(8):
        optimizer.zero_grad()
        model(data[i].to(device)).pow(2).mean().backward()
        optimizer.step()
main()
"""


@pytest.mark.parametrize(
    ("option", "chosen", "is_number", "is_told"),
    [
        ("type=int, default=0", "device = torch.device(args.gpu)", True, True),
        ("type=int", "gpu = args.gpu\ndevice = torch.device(gpu)", True, True),
        ("default='0'", "device = torch.device(int(args.gpu))", True, True),
        ("type=int, default=0", "device = torch.device(0)", True, False),
        ("default='cuda'", "device = torch.device(args.gpu)", False, False),
    ],
)
def test_a_bare_number_is_one_gpu_above_the_function_that_trains(
    option: str, chosen: str, is_number: bool, is_told: bool
) -> None:
    result = run(IN_MAIN.format(option=option, chosen=chosen))
    after = result.after.decode()
    assert ('device = torch.device("cuda")\n' in after) is is_number
    assert "    device = accelerator.device\n" in after
    assert told(result, "`args.gpu` no longer selects the GPU: use `accelify launch --gpu-ids`") == is_told


COMPILED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        zeros = {zeros}
        return self.layer(x) + zeros


@torch.jit.script
def error(out, y):
    return ((out - y) ** 2).mean() + torch.zeros(1).cuda()[0]


model = {made}.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.ones(8, 4), torch.ones(8, 1)), batch_size=4)
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    optimizer.zero_grad()
    error(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("zeros", "after"),
    [
        ("torch.zeros(1).cuda()", "torch.zeros(1).cuda()"),
        ('torch.zeros(1).to("cuda:0")', 'torch.zeros(1).to("cuda")'),
        ('torch.zeros(1, device="cuda:0")', 'torch.zeros(1, device="cuda")'),
        ("torch.zeros(1).cuda(0)", "torch.zeros(1).cuda()"),
    ],
)
def test_what_torchscript_compiles_cannot_ask_the_accelerator(zeros: str, after: str) -> None:
    text = migrated(COMPILED.format(zeros=zeros, made="torch.jit.script(Net())"))
    assert f"zeros = {after}\n" in text
    assert "+ torch.zeros(1).cuda()[0]" in text


def test_what_torchscript_does_not_compile_goes_to_the_accelerators_device() -> None:
    text = migrated(COMPILED.format(zeros="torch.zeros(1).cuda()", made="Net()"))
    assert "zeros = torch.zeros(1).to(accelerator.device)\n" in text
