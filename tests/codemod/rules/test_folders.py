"""Folders that each process would name otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.rewrite import Options, rewrite_together
from tests import scripts
from tests.codemod.pairs import run
from tests.codemod.training_scripts import script

IMPORTS = "import os, tempfile, shutil\nfrom pathlib import Path"


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("n = len(os.listdir('runs'))", "n = accelerator.broadcast_object_list([len(os.listdir('runs'))])[0]"),
        (
            "n = sum(1 for _ in Path('runs').iterdir()) + 1",
            "n = accelerator.broadcast_object_list([sum(1 for _ in Path('runs').iterdir())])[0] + 1",
        ),
    ],
)
def test_processes_agree_on_a_folder_named_for_those_there_are(line: str, after: str) -> None:
    before = f"{line}\nout = os.path.join('runs', f'run{{n}}')\nos.makedirs(out, exist_ok=True)"
    result = run(script(imports=IMPORTS, before=before))
    assert after in result.after.decode()
    assert not any(n.rule == "folders" for n in result.notes)


MAIN_ASKS = "accelerator.broadcast_object_list([{} if accelerator.is_main_process else None])[0]"


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("input('name? ')", "input('name? ')"),
        ("input('name? ').strip().lower()", "input('name? ')"),
        ("names[int(input())]", "input()"),
        ("time.ctime()", None),
    ],
)
def test_only_process_0_asks_for_a_folder_s_name(given: str, asked: str | None) -> None:
    before = f"names = ['a', 'b']\nname = {given}\nos.makedirs(os.path.join('runs', name), exist_ok=True)"
    result = run(script(imports=f"import time\n{IMPORTS}", before=before))
    expected = "accelerator.broadcast_object_list([time.ctime()])[0]"
    if asked is not None:
        expected = given.replace(asked, MAIN_ASKS.format(asked))
    assert f"name = {expected}\n" in result.after.decode()


@pytest.mark.parametrize(
    "drawn",
    [
        "''.join(random.SystemRandom().choice('abc') for _ in range(6))",
        "''.join([random.SystemRandom().choice('abc') for _ in range(6)])",
        "uuid.uuid4().hex",
    ],
)
def test_what_helpers_draw_into_a_file_s_name_is_drawn_once(drawn: str) -> None:
    before = f"def chars():\n    return {drawn}\ndef named():\n    found = chars()\n    return f'model-{{found}}.pt'\n"
    before += (
        "def save(model, folder='.'):\n    name = named()\n    torch.save(model.state_dict(), f'{folder}/{name}')\n"
    )
    before += "    return name\ndef load(name, folder='.'):\n    return torch.load(f'{folder}/{name}')\n"
    result = run(script(imports="import random, uuid", before=before, end="name = save(model)\nload(name)"))
    sent, end = (drawn.removesuffix(".hex"), ".hex" if drawn.endswith(".hex") else "")
    assert f"return accelerator.broadcast_object_list([{sent}])[0]{end}\n" in result.after.decode()


CHOOSES = "import os\ndef choose(root):\n    index = {}\n    return os.path.join(root, os.listdir(root)[int(index)])\n"


@pytest.mark.parametrize(("made", "is_asked"), [("{}", True), ("{} if root else 0", False)])
def test_only_process_0_asks_in_a_file_that_the_accelerator_does_not_reach(
    tmp_path: Path, made: str, is_asked: bool
) -> None:
    load = "model.load_state_dict(torch.load(chooser.choose('runs')))"
    question = made.format("input('which? ')")
    files = {"train.py": script(imports="import chooser", set_up=load), "chooser.py": CHOOSES.format(question)}
    scripts.write(tmp_path, {name: text.encode() for name, text in files.items()})
    with scripts.inside(tmp_path):
        found = {r.path: r for r in rewrite_together(("train.py",), Options())}
    library = "accelify.runtime"
    asked = f"input('which? ') if {library}.PartialState().is_main_process else None"
    assert (f"{library}.broadcast_object_list([{asked}])[0]" in found["chooser.py"].after.decode()) is is_asked
    assert any("waits for input" in n.message for n in found["chooser.py"].notes) is not is_asked
    assert found["chooser.py"].after.decode().count("([input") == is_asked


@pytest.mark.parametrize(
    "runs",
    ["sorted(glob.glob(os.path.join(root, 'run*')))", "os.listdir(root)", "list(Path(root).iterdir())"],
)
@pytest.mark.parametrize("root", ["'runs'", "args.root", "where()"])
def test_processes_agree_on_a_folder_that_an_object_numbers(root: str, runs: str) -> None:
    before = f"""\
class Saver:
    def __init__(self, root):
        self.runs = {runs}
        self.dir = os.path.join(root, f'run{{len(self.runs)}}')
        os.makedirs(self.dir, exist_ok=True)
saver = Saver({root})
"""
    result = run(script(imports=f"import glob\n{IMPORTS}\nfrom options import args, where", before=before))
    assert f"self.runs = accelerator.broadcast_object_list([{runs}])[0]" in result.after.decode()


@pytest.mark.parametrize("made", ["os.path.dirname(path)", "where()", "os.path.join(where(), name)"])
@pytest.mark.parametrize("listing", ["sorted(os.listdir(self.images))", "glob.glob(os.path.join(self.images, '*'))"])
def test_input_that_is_listed_is_no_folder_that_is_made(listing: str, made: str) -> None:
    before = f"""\
class Images:
    def __init__(self, root):
        self.images = os.path.join(root, 'images')
        self.names = {listing}
def plot(path, name):
    os.makedirs({made}, exist_ok=True)
images = Images(args.root)
for name in images.names:
    plot(os.path.join(where(), name), name)
"""
    result = run(script(imports=f"import glob\n{IMPORTS}\nfrom options import args, where", before=before))
    assert f"self.names = {listing}" in result.after.decode()
    assert not any("takes the next name" in n.message for n in result.notes)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            "for d in os.listdir('runs'):\n    n = max(n, int(d[3:]))",
            "for d in accelerator.broadcast_object_list([os.listdir('runs')])[0]:",
        ),
        (
            "for i, d in enumerate(sorted(os.listdir('runs'))):\n    if d.startswith('run'):\n        n = int(d[3:])",
            "enumerate(accelerator.broadcast_object_list([sorted(os.listdir('runs'))])[0])",
        ),
        (
            "found = []\nfor d in os.listdir('runs'):\n    found.append(int(d[3:]))\nn = max(found)",
            "for d in accelerator.broadcast_object_list([os.listdir('runs')])[0]:",
        ),
        ("for d in Path('runs').iterdir():\n    n = max(n, int(d.name[3:]))", "for d in Path('runs').iterdir():"),
    ],
)
def test_a_loop_that_looks_for_the_last_number(lines: str, after: str) -> None:
    before = f"n = 0\n{lines}\nout = os.path.join('runs', f'run{{n + 1}}')\nos.makedirs(out, exist_ok=True)"
    result = run(script(imports=IMPORTS, before=before))
    assert after in result.after.decode()
    assert any(n.rule == "folders" for n in result.notes) is ("iterdir" in lines)


@pytest.mark.parametrize(
    "code",
    [
        "for d in os.listdir('data'):\n    n = int(d)\nos.makedirs(f'runs/{n}', exist_ok=True)",
        "n = len(os.listdir('data'))\nos.makedirs(f'runs/{n}', exist_ok=True)",  # of another folder
        "for n in os.listdir('runs'):\n    os.makedirs(os.path.join('runs', n, 'a'), exist_ok=True)",
    ],
)
def test_what_names_no_new_folder(code: str) -> None:
    assert "broadcast" not in run(script(imports=IMPORTS, before=code)).after.decode()


def test_temporary_folders_are_reported_once() -> None:
    before = "out = tempfile.mkdtemp()\npath = os.path.join(out, 'best.pt')"
    end = "model.load_state_dict(torch.load(path))\nshutil.rmtree(out)"
    save = "torch.save(model.state_dict(), path)"
    notes = run(script(imports=IMPORTS, before=before, end_of_epoch=save, end=end)).notes
    (message,) = (n.message for n in notes if n.rule == "folders")
    assert "temporary folder" in message


@pytest.mark.parametrize(
    ("imported", "folder"),
    [("import settings", "settings.OUT"), ("from settings import *", "OUT"), ("from settings import c", "c.out")],
)
def test_a_folder_that_the_settings_name_for_the_time(tmp_path: Path, imported: str, folder: str) -> None:
    text = script(imports=f"import os\n{imported}", before=f"os.makedirs({folder}, exist_ok=True)")
    settings = "import time\nNOW = time.time()\nOUT = f'runs/{NOW}'\nclass C:\n    out = OUT\nc = C()\n"
    scripts.write(tmp_path, {"train.py": text.encode(), "settings.py": settings.encode()})
    with scripts.inside(tmp_path):
        results = rewrite_together(("train.py",), Options())
    ((path, note),) = ((r.path, n) for r in results for n in r.notes if n.rule == "folders")
    assert (path, note.line) == ("settings.py", 2)
    assert note.message.startswith("this name has the time in it")


HELPER = """\
import shutil
from pathlib import Path
def fresh(path):
    {deleted}
    Path(path).mkdir()
class Output:
    def __init__(self, path):
        self.path = path
        fresh(path)
"""


@pytest.mark.parametrize(
    ("deleted", "alone"),
    [
        (
            "if Path(path).exists():\n        shutil.rmtree(path)",
            "    if {state}.is_main_process and Path(path).exists():\n        shutil.rmtree(path)\n",
        ),
        ("shutil.rmtree(path, True)", "    if {state}.is_main_process:\n        shutil.rmtree(path, True)\n"),
    ],
)
@pytest.mark.parametrize(
    ("made", "may_wait"),
    [
        ("helper.fresh('out')", True),
        ("output = helper.Output('out')", True),
        ("if input():\n    helper.fresh('out')", False),  # not all processes may come there
    ],
)
def test_one_process_deletes_a_folder_in_a_helper_s_file(
    tmp_path: Path, deleted: str, alone: str, made: str, may_wait: bool
) -> None:
    files = {"train.py": script(imports="import helper", before=made), "helper.py": HELPER.format(deleted=deleted)}
    scripts.write(tmp_path, {name: text.encode() for name, text in files.items()})
    with scripts.inside(tmp_path):
        found = {r.path: r for r in rewrite_together(("train.py",), Options())}
    guarded = (alone + "    {state}.wait_for_everyone()\n").format(state="accelify.runtime.PartialState()")
    assert (guarded in found["helper.py"].after.decode()) is may_wait
    assert any("deletes this folder" in n.message for n in found["helper.py"].notes) is not may_wait


@pytest.mark.parametrize("told", ["print('removed')", "print(f'removed {name}', name)", "logging.info('removed')"])
@pytest.mark.parametrize("asked", ["os.path.exists(folder)", "Path(folder).is_dir()"])
def test_one_process_deletes_a_folder_and_prints_it(told: str, asked: str) -> None:
    begun = "import logging, sys\nfrom torch.utils.tensorboard import SummaryWriter\nname = sys.argv[1]\n"
    lines = [f"if {asked}:", "    shutil.rmtree(folder)", f"    {told}"]
    text = "\n".join(["if not name == '':", "    folder = 'out/' + name", *(f"    {line}" for line in lines)])
    result = run(script(imports=IMPORTS, before=f"{begun}{text}\n    writer = SummaryWriter(folder)\n"))
    guarded = f"    if accelerator.is_main_process and {asked}:\n    {lines[1]}\n    {lines[2]}\n"
    assert f"{guarded}    accelerator.wait_for_everyone()\n" in result.after.decode()
    assert not any("deletes this folder" in n.message for n in result.notes)


@pytest.mark.parametrize("told", ["name = 'a'", "print(name := 'a')", "print(input())"])
def test_one_process_does_nothing_else_where_it_deletes(told: str) -> None:
    before = f"name = 'out'\nif os.path.exists(name):\n    shutil.rmtree('out')\n    {told}\n"
    result = run(script(imports=IMPORTS, before=f"{before}print(name)\n"))
    assert "is_main_process and os.path.exists" not in result.after.decode()


@pytest.mark.parametrize(
    ("before", "is_alone"),
    [
        ("if not os.path.isdir('out'):\n    os.makedirs('out')\nelif fresh:\n    {}\n    os.makedirs('out')", True),
        ("if os.path.exists('out'):\n    print(list('old'))\n    {}\nos.makedirs('out')", True),
        ("def make(out):\n    if os.path.exists(out):\n        if fresh:\n            {}\n    os.makedirs(out)", True),
        # a process that finds no folder makes it before another has looked
        (
            "if os.path.exists('out'):\n    if fresh:\n        {}\nelse:\n    os.makedirs('out/a')\nos.makedirs('out')",
            False,
        ),
        ("if os.path.exists('out') and input():\n    print(list('old'))\n    {}\nos.makedirs('out')", False),
    ],
)
def test_all_have_looked_before_one_process_deletes(before: str, is_alone: bool) -> None:
    path = "out" if before.startswith("def") else "'out'"
    deleted = f"shutil.rmtree({path})"
    before = before.format(deleted) + ("\nmake('out')" if path == "out" else "")
    result = run(script(imports=IMPORTS, before=f"import sys\nfresh = len(sys.argv) > 1\n{before}"))
    lines = [line.strip() for line in result.after.decode().splitlines()]
    at = lines.index(deleted)
    wait = "accelerator.wait_for_everyone()"
    around = [wait, "if accelerator.is_main_process:", deleted, wait]
    assert (lines[at - 2 : at + 2] == around) is is_alone
    assert any("deletes this folder" in n.message for n in result.notes) is not is_alone


RESUMES = (
    "if os.path.exists('out'):\n    resume = True\nelse:\n    os.makedirs('out')\n    resume = False\nprint(resume)"
)
WRITES = "if fresh or not os.path.exists('out'):\n    os.makedirs('out')\n    open('out/a', 'w').write('x')"


@pytest.mark.parametrize("text", [RESUMES, f"fresh = True\n{WRITES}"])
def test_all_processes_look_before_one_makes_what_they_go_by(text: str) -> None:
    result = run(script(imports=IMPORTS, before=text))
    assert "\n    accelerator.wait_for_everyone()\n    os.makedirs('out', exist_ok=True)\n" in result.after.decode()
    assert not any(n.rule == "folders" for n in result.notes)


SETS_UP = """\
def set_up(out):
    if not out.is_dir():
        (out / "log").mkdir(parents=True)
        (out / "best").mkdir(parents=True)
    else:
        raise RuntimeError("there is a run already")
set_up(Path(sys.argv[1]))"""


def test_all_look_before_one_makes_a_folder_in_the_one_that_stops_them() -> None:
    result = run(script(imports=f"{IMPORTS}\nimport sys\nfrom pathlib import Path", before=SETS_UP))
    wait, text = ".wait_for_everyone()\n", result.after.decode()
    assert f'{wait}        (out / "log").mkdir(parents=True, exist_ok=True)\n' in text
    assert text.count(wait) == 1
    assert not any(n.rule == "folders" for n in result.notes)


ITEMS = "class Rows:\n    def __getitem__(self, k):\n        fresh = not k\n        {}\n        return k\nrows = Rows()"


@pytest.mark.parametrize(
    ("slots", "is_noted"),
    [
        ({"before": ITEMS.format(WRITES.replace("\n", "\n        "))}, False),  # not all processes make this item
        ({"before": "fresh = True", "batch": WRITES}, True),
        (
            {
                "imports": "from torch.utils.tensorboard import SummaryWriter",
                "before": f"writer = SummaryWriter('out/log')\nwriter.add_text('a', 'b')\n{RESUMES}",
            },
            True,
        ),
    ],
)
def test_where_they_cannot_wait(slots: dict[str, str], is_noted: bool) -> None:
    result = run(script(**{**slots, "imports": f"{IMPORTS}\n{slots.get('imports', '')}"}))
    assert "    accelerator.wait_for_everyone()\n    os.makedirs" not in result.after.decode()
    assert any("and does something else here" in n.message for n in result.notes) is is_noted


DRAWING = """\
import os, random, string
import numpy as np
import torch
from torch import nn
{before}
x = torch.randn(40, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{name}
for step in range(20):
    rows = np.random.permutation(40)[:30]
    {batch}
    loss = model(x[rows]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{end}
"""
LETTERS = "random.choice(string.ascii_letters) for _ in range(4)"
SAVED = "torch.save(model.state_dict(), name)\nmodel.load_state_dict(torch.load(name))"


@pytest.mark.parametrize(
    ("slots", "agreed"),
    [
        ({"name": f"name = ''.join({LETTERS})", "end": SAVED}, f"''.join({LETTERS})"),
        ({"name": "name = f'{np.random.randint(99)}.pt'", "end": SAVED}, "np.random.randint(99)"),
        (
            {"name": "n = list('abcd')\nrandom.shuffle(n)\nname = 'run' + ''.join(n[:3])", "end": SAVED},
            "n",
        ),
        ({"name": "folder = f'runs/{random.random()}'\nos.makedirs(folder)"}, "random.random()"),
        # Drawn before each process draws for itself, or saved alone, or data.
        ({"before": "name = f'{random.random()}.pt'", "end": SAVED}, ""),
        ({"name": "name = f'{random.random()}.pt'", "end": "torch.save(model.state_dict(), name)"}, ""),
        ({"batch": "x = torch.load(random.choice(files))", "end": SAVED}, ""),
    ],
)
def test_processes_agree_on_a_name_that_each_would_draw(slots: dict[str, str], agreed: str) -> None:
    result = run(DRAWING.format(**{"before": "", "name": "", "batch": "", "end": ""} | slots))
    assert (f"broadcast_object_list([{agreed}])[0]" if agreed else "seed_by_rank()") in result.after.decode()
    assert ("broadcast" in result.after.decode()) == bool(agreed)
    assert not any(n.rule == "folders" and "drawn" in n.message for n in result.notes)


CONFIG = """\
import os
import time
{code}
class Config:
    rate = 0.1
    {body}
if __name__ == "__main__":
    os.makedirs("tried")
"""


@pytest.mark.parametrize("is_imported", [True, False])
@pytest.mark.parametrize(
    "slots",
    [
        {"body": "os.makedirs('runs')"},
        {"body": "class Paths:\n        os.makedirs('runs')"},
        {"body": "path = f'runs/{time.time()}'\n    os.makedirs('runs')"},
        {"code": "os.makedirs('runs')"},
    ],
)
def test_folders_of_settings_that_are_a_class_or_a_file(
    tmp_path: Path, is_imported: bool, slots: dict[str, str]
) -> None:
    settings = CONFIG.format(**{"code": "", "body": ""} | slots)
    head = "from config import Config" if is_imported else settings.partition("if __name__")[0]
    text = script(imports=head, before="print(Config.rate)")
    _, after = scripts.rewrite(tmp_path, {"train.py": text.encode(), "config.py": settings.encode()})
    code = after["config.py" if is_imported else "train.py"].decode()
    assert "os.makedirs('runs', exist_ok=True)" in code
    assert ('os.makedirs("tried")' in code) is is_imported


STARTED = """\
import argparse, os, time
import torch
from torch import nn
from torch.utils.data import DataLoader
{above}
def train(out, rows):
    {selected}
    loader = DataLoader(rows, batch_size=2)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), out + "/model.pt")
def main():
    args = argparse.ArgumentParser().parse_args()
    {name}
    os.makedirs(out, exist_ok=True)
    train(out, args.rows)
if __name__ == "__main__":
    main()
"""
AGREED = "accelify.runtime.broadcast_object_list([time.strftime('%m%d')])[0]"


@pytest.mark.parametrize(
    ("slots", "agreed"),
    [
        ({"name": "out = time.strftime('%m%d')"}, AGREED),
        ({"name": "out = args.out or time.strftime('%m%d')"}, AGREED),
        ({"name": "out = args.out if len(args.out) else time.strftime('%m%d')"}, AGREED),
        ({"name": "out = args.out\n    if not out:\n        out = time.strftime('%m%d')"}, AGREED),
        # Not the same for all, too early to meet, or run by what imports the file, as workers may.
        ({"name": "out = time.strftime('%m%d') if args.local_rank == 0 else ''"}, ""),
        ({"name": "out = time.strftime('%m%d')", "selected": "os.environ['CUDA_VISIBLE_DEVICES'] = '1'"}, ""),
        ({"name": "out = OUT", "above": "OUT = time.strftime('%m%d')"}, ""),
    ],
)
def test_a_name_that_is_chosen_before_the_accelerator_is_there(slots: dict[str, str], agreed: str) -> None:
    result = run(STARTED.format(**{"above": "", "selected": "pass"} | slots))
    assert agreed in result.after.decode()
    assert any(n.rule == "folders" for n in result.notes) is not bool(agreed)


@pytest.mark.parametrize(
    "lines",
    [
        "for fold in range(5):\n    os.makedirs(f'runs/{time.time()}')",
        "class Config:\n    out = f'runs/{time.time()}'\nos.makedirs(Config.out)",
        "out = 'runs/new'\nif os.path.exists(out):\n    out += f'-{time.time()}'\nos.makedirs(out)",
    ],
)
def test_a_name_in_a_loop_a_class_or_where_another_is_taken(lines: str) -> None:
    result = run(script(imports=f"{IMPORTS}\nimport time", before=lines))
    assert "{accelerator.broadcast_object_list([time.time()])[0]}" in result.after.decode()
    assert not any(n.rule == "folders" for n in result.notes)


def test_a_part_of_a_name_is_chosen_with_it() -> None:
    before = "out = datetime.now().isoformat().split('.')[0]\nos.makedirs(out)"
    result = run(script(imports=f"{IMPORTS}\nfrom datetime import datetime", before=before))
    assert "([datetime.now().isoformat().split('.')[0]])[0]\n" in result.after.decode()


WAIT = "accelerator.wait_for_everyone()"


@pytest.mark.parametrize(
    ("lines", "is_settled"),
    [
        ("while os.path.exists(f'runs/{i}'):\n    i += 1\nos.makedirs(f'runs/{i}')", True),
        ("while f'a{i}' in os.listdir('runs'):\n    i += 1\nos.makedirs(f'runs/a{i}')", True),
        ("names = os.listdir('runs')\nwhile f'a{i}' in names:\n    i += 1\nos.makedirs(f'runs/a{i}')", True),
        (
            "names = set(os.listdir('runs'))\nfor i in range(99):\n    if f'a{i}' not in names:\n        break\n"
            "os.makedirs(f'runs/a{i}')",
            True,
        ),
        ("names = os.listdir('runs')\nif 'a' in names:\n    print('old')\nos.makedirs('b', exist_ok=True)", False),
        ("for i in range(99):\n    if not os.path.exists(f'runs/{i}'):\n        break\nos.makedirs(f'runs/{i}')", True),
        (
            "while True:\n    out = f'runs/{i}'\n    if not os.path.exists(out):\n        os.makedirs(out)\n"
            "        break\n    i += 1",
            True,
        ),
        (
            "out = 'runs/a'\nif os.path.exists(out):\n    while os.path.exists(f'{out}-{i}'):\n        i += 1\n"
            "    out = f'{out}-{i}'\nos.makedirs(out)",
            True,
        ),
        # What is there is looked for, not what is missing; or waited for.
        (
            "for out in ('a', 'b'):\n    if os.path.exists(out):\n        break\nos.makedirs('runs', exist_ok=True)",
            False,
        ),
        ("while os.path.exists('lock'):\n    time.sleep(1)\nos.makedirs('runs', exist_ok=True)", False),
    ],
)
def test_all_look_for_a_free_number_before_one_makes_the_folder(lines: str, is_settled: bool) -> None:
    result = run(script(imports=f"{IMPORTS}\nimport time", before=f"i = 0\n{lines}"))
    assert (WAIT in result.after.decode()) is is_settled
    assert not any(n.rule == "folders" for n in result.notes)


@pytest.mark.parametrize(("asked", "is_changed"), [("exists", True), ("isdir", True), ("isfile", False)])
def test_a_folder_that_is_made_where_it_is_missing_stops_no_script(asked: str, is_changed: bool) -> None:
    check = f"if not os.path.{asked}('out'):\n        os.makedirs('out')"
    result = run(script(imports=IMPORTS, before=f"try:\n    {check}\nexcept OSError as e:\n    raise SystemExit(e)"))
    assert ("os.makedirs('out', exist_ok=True)" in result.after.decode()) is is_changed
    assert any(n.rule == "folders" for n in result.notes) is not is_changed


CHOOSING = """\
def choose(base):
    i = 0
    while os.path.exists(f'{base}/{i}'):
        i += 1
    return f'{base}/{i}'
"""
MAKING = """\
def choose(base):
    i = 0
    while True:
        try:
            os.makedirs(f'{base}/{i}')
            return f'{base}/{i}'
        except FileExistsError:
            i += 1
"""
WRITING = CHOOSING.replace("    return", "    open('log', 'a').write(str(i))\n    return")
ASKED = "choose('runs')"


@pytest.mark.parametrize(
    ("function", "agreed"),
    [
        (CHOOSING, f"accelerator.broadcast_object_list([{ASKED}])[0]"),
        (MAKING, f"accelerator.broadcast_object_list([{ASKED} if accelerator.is_main_process else None])[0]"),
        (WRITING, ASKED),  # which does more
    ],
)
def test_process_0_calls_what_chooses_a_free_name(function: str, agreed: str) -> None:
    before = f"{function}out = {ASKED}\nos.makedirs(out, exist_ok=True)"
    result = run(script(imports=IMPORTS, before=before))
    assert f"\nout = {agreed}\n" in result.after.decode()
    assert (WAIT in result.after.decode()) is (function is WRITING)


def test_a_free_number_that_is_tried_in_place_is_noted() -> None:
    tried = "try:\n        os.makedirs(f'runs/{i}')\n        break\n    except FileExistsError:\n        i += 1"
    result = run(script(imports=IMPORTS, before=f"i = 0\nwhile True:\n    {tried}"))
    assert [n.message for n in result.notes if n.rule == "folders"] == [
        "a later process finds what another has created, and takes the next name: use one for all processes"
    ]


LISTED = """\
def choose(base):
    i = 0
    while {test}:
        i += 1
    return f'{{base}}/{{i}}'
"""


@pytest.mark.parametrize(
    ("test", "is_agreed"),
    [
        ("str(i) in os.listdir(base)", True),
        ("f'run{i}' in set(os.listdir(base))", True),
        ("not str(i) not in os.listdir(base)", True),
        ("str(i) not in os.listdir(base)", False),
        ("'stop' in os.listdir(base)", False),
    ],
)
def test_a_name_that_is_free_in_a_list_of_files(test: str, is_agreed: bool) -> None:
    function = LISTED.format(test=test)
    result = run(script(imports=IMPORTS, before=f"{function}out = {ASKED}\nos.makedirs(out, exist_ok=True)"))
    agreed = f"accelerator.broadcast_object_list([{ASKED}])[0]" if is_agreed else ASKED
    assert f"\nout = {agreed}\n" in result.after.decode()


@pytest.mark.parametrize(
    "made",
    [
        "for d in [out, out + '/a']:\n    os.makedirs(d, exist_ok=True)",
        "a = out + '/a'\nfor d in (a, 'b'):\n    if not os.path.exists(d):\n        os.mkdir(d)",
        "def make(*dirs):\n    for d in dirs:\n        os.makedirs(d, exist_ok=True)\nmake('b', out)",
    ],
)
def test_the_time_in_the_names_of_folders_that_a_loop_makes(made: str) -> None:
    result = run(script(imports=IMPORTS + "\nimport time", before=f"out = time.strftime('%H%M%S')\n{made}"))
    assert "out = accelerator.broadcast_object_list([time.strftime('%H%M%S')])[0]\n" in result.after.decode()


def test_a_folder_for_each_that_is_there_has_no_free_name() -> None:
    made = "for name in os.listdir('data'):\n    os.makedirs('out/' + name, exist_ok=True)"
    assert "broadcast" not in run(script(imports=IMPORTS, before=made)).after.decode()


@pytest.mark.parametrize("made", ["rows = fetch('c')", "fetch('c')\nrows = open('c').read()"])
def test_a_temporary_folder_of_the_process_that_comes_first(made: str) -> None:
    fetch = "def fetch(path):\n    if os.path.exists(path):\n        return\n    folder = tempfile.mkdtemp()\n"
    fetch += (
        "    wget.download('http://x', os.path.join(folder, 'x'))\n    rows = open(os.path.join(folder, 'x')).read()\n"
    )
    fetch += "    open(path, 'w').write(rows)\n"
    result = run(script(imports=f"import wget\n{IMPORTS}", before=f"{fetch}{made}"))
    assert "main_process_first" in result.after.decode()
    assert not any("temporary folder" in n.message for n in result.notes)


MADE_WHERE_MISSING = """\
def vocabulary(folder):
    if not os.path.exists(folder):
        os.{make}(folder)
    if os.path.exists(folder + '/words.json'):
        return json.load(open(folder + '/words.json'))
    words = ['a', 'b']
    with open(folder + '/words.json', 'w') as file:
        json.dump(words, file)
    return words
{call}
"""


@pytest.mark.parametrize("make", ["makedirs", "mkdir"])
@pytest.mark.parametrize(
    ("call", "is_wrapped"),
    [
        ("words = vocabulary('save')", True),
        ("try:\n    words = vocabulary('save')\nexcept OSError:\n    words = []", False),
        ("if rows and (words := vocabulary('save')):\n    print(words)", False),
    ],
)
def test_a_folder_of_files_that_no_process_can_make_first(make: str, call: str, is_wrapped: bool) -> None:
    before = MADE_WHERE_MISSING.format(make=make, call=call)
    result = run(script(imports=f"import json\n{IMPORTS}", before=before)).after.decode()
    assert ("main_process_first" in result) is is_wrapped
    assert ("os.makedirs(folder, exist_ok=True)" in result) is not is_wrapped
