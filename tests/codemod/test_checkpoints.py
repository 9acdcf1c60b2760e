"""Files that a script saves and loads: no process empties, reads or asks for one that another is writing."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from accelify.codemod.rewrite import Options, rewrite_together
from tests.codemod import training_scripts
from tests.codemod.pairs import migrated, run, script

SAVE = "torch.save(model.state_dict(), path)"
LOAD = "model.load_state_dict(torch.load(path))"
WHERE = 'map_location={"cuda:0": str(accelerator.device)}'
LOADED = "model.load_state_dict(torch.load(path, map_location=accelerator.device))"
PATH = "path = 'out' + '.pt'"


@pytest.mark.parametrize(
    ("question", "save"),
    [
        ("if os.path.isfile(path):\n    print('trained already')\nelse:\n", SAVE),
        ("if not Path(path).exists():\n", SAVE),
        ("if os.path.isfile(path):\n    print('trained already')\nelse:\n", "def keep():\n    {SAVE}\nkeep()"),
    ],
)
def test_waits_between_a_save_and_a_load_that_one_question_leads_to(question: str, save: str) -> None:
    end = f"import os\nfrom pathlib import Path\n{PATH}\n{question}{indent(save.format(SAVE=SAVE), '    ')}\n    {LOAD}"
    after = run(script(end=end)).after.decode()
    assert f"\n    accelerator.wait_for_everyone()\n    {LOADED}" in after


def test_only_the_process_that_saves_into_an_open_file_opens_it() -> None:
    end = """\
        with open("names.txt") as f:
            print(f.read())
        with open("model.pt", "wb") as f:
            torch.save(model.state_dict(), f)
    """
    after = run(script(end=end)).after.decode()
    assert 'if accelerator.is_main_process:\n    with open("model.pt", "wb") as f:\n        torch.save(' in after


@pytest.mark.parametrize(
    ("opened", "saved"),
    [
        ('with open("model.pt", "wb") as f:\n    ', "torch.save(model(x), f)"),
        ('with open("model.pt", "wb") as f:\n    ', "torch.save(obj=model(x), f=f)"),
    ],
)
def test_what_all_must_do_together_is_not_saved_by_one_process_into_a_file_that_all_open(
    opened: str, saved: str
) -> None:
    result = run(script(end=opened + saved))
    assert opened + saved in result.after.decode()
    message = next(n.message for n in result.notes if n.rule == "writes")
    assert "every process writes this" in message
    assert not [n for n in result.notes if n.rule == "checkpoints"]
    assert "accelerator.save(model(x)," in run(script(end='torch.save(model(x), "model.pt")')).after.decode()


@pytest.mark.parametrize(
    ("end", "after"),
    [
        (
            'f = open("model.pt", mode="wb")\ntorch.save(model(x), f)\nf.close()',
            'if accelerator.is_main_process:\n    f = open("model.pt", mode="wb")\noutput = model(x)\n'
            "if accelerator.is_main_process:\n    torch.save(output, f)\n    f.close()",
        ),
        (
            'torch.save(model(x), open("model.pt", "wb"))',
            'output = model(x)\nif accelerator.is_main_process:\n    torch.save(output, open("model.pt", "wb"))',
        ),
    ],
)
def test_what_all_must_do_together_is_done_before_one_process_saves_it_into_its_file(end: str, after: str) -> None:
    assert after in run(script(end=end)).after.decode()


def test_a_file_that_all_write_does_not_keep_another_of_that_name_open() -> None:
    end = """\
        def tell():
            with open("log.txt", "w") as f:
                f.write(str(next(iter(loader))))

        def keep():
            with open("model.pt", "wb") as f:
                torch.save(model.state_dict(), f)

        with open("log.txt", "w") as f:
            f.write(str(next(iter(loader))))
        with open("model.pt", "wb") as f:
            torch.save(model.state_dict(), f)
    """
    after = run(script(end=end)).after.decode()
    assert '\nif accelerator.is_main_process:\n    with open("model.pt", "wb") as f:\n        torch.save(' in after


def test_what_is_loaded_before_anything_is_saved_is_not_waited_for() -> None:
    before = f"import os\n{PATH}\nif os.path.exists(path):\n    {LOAD}"
    after = run(script(prepared=before, end=SAVE)).after.decode()
    assert "wait_for_everyone" not in after


def test_a_load_in_the_loop_of_a_save_waits() -> None:
    after = run(script(end=f"{PATH}\nfor part in range(2):\n    {LOAD}\n    {SAVE}")).after.decode()
    assert f"for part in range(2):\n    accelerator.wait_for_everyone()\n    {LOADED}" in after


def test_all_processes_wait_before_they_ask_whether_a_file_is_there() -> None:
    end = f"import os\n{PATH}\n{SAVE}\nif os.path.exists(path):\n    print('found')\n    {LOAD}"
    after = run(script(end=end)).after.decode()
    assert "\naccelerator.wait_for_everyone()\nif os.path.exists(path):\n" in after
    assert after.count("wait_for_everyone") == 1


@pytest.mark.parametrize(
    "names",
    ["names = os.listdir('out')\nif len(names) > 1:\n", "names = kept()\nif names:\n", "if os.listdir('out'):\n"],
)
def test_all_processes_wait_before_they_list_the_files(names: str) -> None:
    before = "import os\ndef kept():\n    return sorted(os.listdir('out'))\n"
    after = run(script(before=before, end=f"{PATH}\n{SAVE}\n{names}    print(1)\n    {LOAD}")).after.decode()
    assert f"\naccelerator.wait_for_everyone()\n{names}" in after
    assert after.count("wait_for_everyone") == 1


@pytest.mark.parametrize(
    "found",
    [
        "found = sorted(glob('out/*.pt'))[-1]\n",
        "files = os.listdir('out')\nfound = os.path.join('out', max(files))\n",
        "files = list(Path('out').glob('*.pt'))\nnewest = max(files)\nfound = str(newest)\n",
    ],
)
def test_all_processes_wait_before_they_look_for_the_newest_file(found: str) -> None:
    before = "import os\nfrom glob import glob\nfrom pathlib import Path\n"
    save = "torch.save(model.state_dict(), f'out/{len(os.listdir())}.pt')"
    end = f"{save}\nprint(1)\n{found}model.load_state_dict(torch.load(found))"
    after = run(script(before=before, end=end)).after.decode()
    assert f"\naccelerator.wait_for_everyone()\n{found}" in after, after
    assert after.count("wait_for_everyone") == 1


@pytest.mark.parametrize(
    ("size", "saved", "loaded"),
    [
        ("len(os.listdir('data'))", "torch.save(model.state_dict(), 'out.pt')", "torch.load('out.pt')"),
        ("len(glob('data/*'))", "for turn in range(2):\n    torch.save(model.state_dict(), PATH)", "torch.load(PATH)"),
        ("len(os.listdir('data'))", "keep(model)", "torch.load(f'out/{size}.pt')"),
        ("sorted(os.listdir('data'))", "keep(model)", "torch.load('out.pt' if size else PATH)"),
    ],
)
def test_no_process_waits_above_the_save_where_the_files_of_the_data_were_listed(
    size: str, saved: str, loaded: str
) -> None:
    before = f"""
import os
from glob import glob
PATH = 'out.pt'
size = {size}
def keep(model):
    torch.save(model.state_dict(), PATH)
    torch.save(model.state_dict(), f'out/{{size}}.pt')
"""
    text = script(before=before, end=f"{saved}\nmodel.load_state_dict({loaded})")
    after = run(text.replace("Linear(4, 1)", "Linear(4, 1 if size else 2)")).after.decode()
    assert "\naccelerator.wait_for_everyone()\nmodel.load_state_dict(" in after, after
    assert after.count("wait_for_everyone") == 1


def test_what_the_model_is_made_of_gives_no_path() -> None:
    made = "size = len(os.listdir('data'))\n    net = nn.Linear(4, size)"
    load = LOAD.replace("model", "net")
    end = f"{PATH}\nfor turn in range(2):\n    {made}\n    {load}\n    {SAVE}"
    after = run(script(before="import os", end=end)).after.decode()
    assert "    net = nn.Linear(4, size)\n    accelerator.wait_for_everyone()\n    net.load_state_dict(" in after, after


def test_an_open_file_is_the_one_whose_path_was_opened() -> None:
    end = f"{PATH}\n{SAVE}\nwith open(path, 'rb') as f:\n    model.load_state_dict(torch.load(f))"
    assert "accelerator.wait_for_everyone()\n" in run(script(end=end)).after.decode()
    other = end.replace("open(path", "open('start.pt'")
    assert "wait_for_everyone" not in run(script(end=other)).after.decode()


@pytest.mark.parametrize(
    ("loaded", "is_written"),
    [
        ("os.path.join(folder, 'best.pt')", True),
        ("f'{folder}/best.pt'", True),
        ("folder + '/best.pt'", True),
        ("Path(folder) / 'best.pt'", True),
        ("'out/best.pt'", True),
        ("os.path.join(folder, 'start.pt')", False),
    ],
)
def test_a_file_is_known_by_its_name_in_whatever_folder(loaded: str, is_written: bool) -> None:
    end = f"""\
        def keep(state, name):
            torch.save(state, os.path.join(args.folder, name))

        keep(model.state_dict(), "best.pt")
        model.load_state_dict(torch.load({loaded}))
    """
    imports = "import os\nfrom pathlib import Path\nargs = type('Args', (), {'folder': 'out'})\nfolder = args.folder"
    after = run(script(imports=imports, end=end)).after.decode()
    assert ("wait_for_everyone()\nmodel.load" in after) == is_written, after


def test_a_file_that_a_helper_writes_is_waited_for() -> None:
    end = """\
        def tell(path, line):
            with open(path, "a") as f:
                f.write(line)

        tell("out/log.txt", "done")
        with open("out/log.txt") as f:
            print(f.read())
    """
    after = run(script(end=end)).after.decode()
    assert 'accelerator.wait_for_everyone()\nwith open("out/log.txt") as f:' in after
    assert "wait_for_everyone" not in run(script(end=end.replace('"out/log.txt")', '"names.txt")'))).after.decode()


TRAINS = """\
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train():
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,))), batch_size=2)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        if x.sum() > 0:
            torch.save(model.state_dict(), "model.pt")
    print("trained")


def guess():
    model = nn.Linear(4, 2)
    model.load_state_dict(torch.load("model.pt"))
    print(model(torch.ones(1, 4)))


"""


@pytest.mark.parametrize(
    "end",
    [
        "train()\nguess()",
        'if __name__ == "__main__":\n    train()\n    guess()',
        "train()\ntorch.load('model.pt')",
    ],
)
def test_training_waits_for_what_is_loaded_where_the_accelerator_does_not_reach(end: str) -> None:
    after = run(TRAINS + end).after.decode()
    waiting = (
        '            accelerator.save(model.state_dict(), "model.pt")\n    accelerator.wait_for_everyone()\n    print('
    )
    assert waiting in after, after
    assert after.count("wait_for_everyone") == 1


def test_what_saved_shows_what_it_loads_and_nobody_waits() -> None:
    after = run(TRAINS + 'if __name__ == "__main__":\n    train()\n    print(torch.load("model.pt"))').after.decode()
    shown = "    train()\n    if accelify.runtime.PartialState().is_main_process:\n        print(torch.load("
    assert shown in after
    assert "wait_for_everyone" not in after


@pytest.mark.parametrize(
    "end",
    [
        'if "train" in sys.argv:\n    train()\nelse:\n    guess()',
        'if "guess" in sys.argv:\n    guess()\nelif sys.argv:\n    train()',
        "guess()\ntrain()",
        "train()\ntorch.load('start.pt')",
    ],
)
def test_training_waits_for_nobody_who_loads_nothing_of_it(end: str) -> None:
    text = TRAINS + end
    if "start" in end:
        text = text.replace('torch.load("model.pt")', "{}")
    assert "wait_for_everyone" not in run(text).after.decode()


TRAINER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x, y in DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1))):
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()
"""
CALLER = """\
import torch
from torch import nn
from trainer import Trainer

def run():
    trainer = Trainer(nn.Linear(4, 1))
    trainer.fit()
    torch.save(trainer.model.state_dict(), "model.pt")

def end():
    torch.save(nn.Linear(4, 1), "end.pt")

def other():
    torch.save(nn.Linear(4, 1), "other.pt")
"""


@pytest.mark.parametrize(
    ("end", "saved"),
    [
        ("run()", 'accelify.runtime.save(trainer.model.state_dict(), "model.pt")'),
        ("model = run()\ntorch.save(model, 'last.pt')", "accelify.runtime.save(model, 'last.pt')"),
        ("torch.save([], 'first.pt')\nrun()", "torch.save([], 'first.pt')"),
        ("run()\nend()", 'accelify.runtime.save(nn.Linear(4, 1), "end.pt")'),
        ("run()\nend()", 'torch.save(nn.Linear(4, 1), "other.pt")'),
    ],
)
def test_what_calls_training_saves_from_one_process(
    end: str, saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trainer.py").write_text(TRAINER)
    (tmp_path / "train.py").write_text(CALLER + end)
    results = {r.path: r.after.decode() for r in rewrite_together(("train.py",), Options())}
    assert "self.accelerator = Accelerator()" in results["trainer.py"]
    assert saved in [line.strip() for line in results["train.py"].splitlines()]


@pytest.mark.parametrize(("file", "waits"), [("model.pt", 1), ("other.pt", 0)])
def test_what_calls_training_waits_before_it_loads_what_it_saved(
    file: str, waits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trainer.py").write_text(TRAINER)
    (tmp_path / "train.py").write_text(CALLER + f"run()\ntorch.load({file!r})")
    after = next(r.after.decode() for r in rewrite_together(("train.py",), Options()) if r.path == "train.py")
    assert after.count(f"accelify.runtime.wait_for_everyone()\ntorch.load({file!r}") == waits
    assert after.count("wait_for_everyone") == waits


PARTS = """\
import argparse
import os
import torch
from torch import nn


class Stopping:
    def __init__(self, given):
        {kept}

    def __call__(self, model):
        torch.save(model.state_dict(), {saved})


class Teacher:
    def __init__(self):
        self.path = "teacher.pt"

    def restore(self, model):
        model.load_state_dict(torch.load(self.path))


class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.Adam(model.parameters())

    def train(self):
        for x in self.loader:
            loss = self.model(x).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
MAIN = """\
def restore(path, model):
    model.load_state_dict(torch.load(path))


def main():
    args = argparse.ArgumentParser().parse_args()
    args.path = os.path.join(args.output, "best.pt")
    trainer = Trainer(nn.Linear(3, 1), torch.utils.data.DataLoader(torch.randn(8, 3)))
    stopping, teacher = Stopping({given}), Teacher()
    for epoch in range(5):
        trainer.train()
        stopping(trainer.model)
    {load}


main()
"""
LOADING = "trainer.model.load_state_dict(torch.load({}))"


@pytest.mark.parametrize("in_files", [False, True])
@pytest.mark.parametrize(
    ("given", "kept", "saved", "load", "waits"),
    [
        ("args.path", "self.path = given", "self.path", LOADING.format("args.path"), True),
        ("args", "self.args = given", "self.args.path", LOADING.format("args.path"), True),
        ("args.output", "self.file = given + '/last.pt'", "self.file", LOADING.format("stopping.file"), True),
        ("args.path", "self.path = given", "self.path", "restore(args.path, trainer.model)", True),
        ("'teacher.pt'", "self.path = given", "self.path", "teacher.restore(trainer.model)", True),
        ("args.path", "self.path = given", "self.path", "teacher.restore(trainer.model)", False),
        ("args.path", "self.path = given", "self.path", LOADING.format("'other.pt'"), False),
    ],
)
def test_what_an_object_saves_is_waited_for_where_it_is_loaded(
    given: str,
    kept: str,
    saved: str,
    load: str,
    waits: bool,
    in_files: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    parts, main = PARTS.format(kept=kept, saved=saved), MAIN.format(given=given, load=load)
    if in_files:
        (tmp_path / "parts.py").write_text(parts)
        parts = "import argparse\nimport os\nimport torch\nfrom torch import nn\nfrom parts import *\n"
    (tmp_path / "train.py").write_text(f"{parts}\n\n{main}")
    results = {r.path: r.after.decode() for r in rewrite_together(("train.py",), Options())}
    after, where = results["train.py"], load.partition("(torch")[0]
    assert (f"\n    accelify.runtime.wait_for_everyone()\n    {where}" in after) is waits
    assert "wait_for_everyone" not in after.replace("    accelify.runtime.wait_for_everyone()", "", waits)
    assert not waits or "\nimport accelify.runtime\n" in after


@pytest.mark.parametrize("load", [LOADING.format("args.path"), "restore(args.path, trainer.model)"])
def test_a_file_that_does_not_train_loads_to_the_processs_own_gpu(
    load: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = PARTS.format(kept="self.path = given", saved="self.path").replace(
        "= model, loader", "= model.cuda(), loader"
    )
    (tmp_path / "parts.py").write_text(parts.replace("self.model(x)", "self.model(x.cuda())"))
    main = MAIN.format(given="args.path", load=load)
    (tmp_path / "train.py").write_text(
        "import argparse\nimport os\nimport torch\nfrom torch import nn\nfrom parts import Stopping, Teacher, Trainer\n"
        f"\n\n{main}"
    )
    after = next(r.after.decode() for r in rewrite_together(("train.py",), Options()) if r.path == "train.py")
    assert after.count("map_location=accelify.runtime.PartialState().device)") == 1
    assert "\nimport accelify.runtime\n" in after


def test_only_the_process_that_saves_opens_the_file_where_the_accelerator_does_not_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened = 'with open("model.pt", "wb") as f:\n    torch.save(model.state_dict(), f)\n'
    more = 'with open("log.pt", "ab") as f:\n    f.write(b"saved")\n    torch.save(model, f)\n'
    body = indent(opened + more, "    ")
    (tmp_path / "stopping.py").write_text(f"import torch\n\n\ndef keep(model):\n{body}    return model\n")
    (tmp_path / "train.py").write_text(
        script(imports="from stopping import keep", end="model = keep(model)\nmodel.zero_grad()")
    )
    results = {r.path: r.after.decode() for r in rewrite_together(("train.py",), Options())}
    guarded = "if accelify.runtime.PartialState().is_main_process:\n" + indent(opened + more, "    ")
    assert indent(guarded, "    ") in results["stopping.py"]


@pytest.mark.parametrize(
    ("saved", "loaded"),
    [
        ("'a{}.pkl'.format(epoch)", "'a{}.pkl'.format(best)"),
        ("f'out/a{epoch}.pkl'", "os.path.join('out', 'a%d.pkl' % best)"),
        ("'a' + str(epoch) + '.pkl'", "f'a{best:d}.pkl'"),
    ],
)
def test_a_file_is_known_by_the_text_round_what_is_filled_in(saved: str, loaded: str) -> None:
    end = f"for epoch in range(3):\n    torch.save(model.state_dict(), {saved})\nbest = 2\nuse(torch.load({loaded}))"
    after = run(script(imports="import os", end=end)).after.decode()
    assert f"accelerator.wait_for_everyone()\nuse(torch.load({loaded}))" in after


@pytest.mark.parametrize(
    "end",
    [
        "path = 'best_{0}'.format(device)\ntorch.save(model, path)\nbest = path\nuse(torch.load(best))",
        "def keep():\n    path = None\n    for n in range(3):\n        path = f'state/{n}_{n}'\n"
        "        torch.save(model, path)\n    return path\nbest = keep()\nuse(torch.load(best))",
        "class Kept:\n    pass\nkept = Kept()\nkept.best = f'{device}.pt'\ntorch.save(model, kept.best)\n"
        "use(torch.load(f'{device}.pt'))",
    ],
)
def test_a_path_that_is_kept_and_handed_on(end: str) -> None:
    after = run(script(end=end)).after.decode()
    last = end.splitlines()[-1]
    assert f"accelerator.wait_for_everyone()\n{last}" in after


@pytest.mark.parametrize("way_out", ["sys.exit('done')", "sys.exit(1)", "exit(code)"])
def test_no_process_ends_before_the_one_that_saves(way_out: str) -> None:
    batch = f"torch.save(model, 'm.pt')\nif epoch > 3:\n    {way_out}"
    after = run(script(imports="import sys\nfrom codes import code", batch=batch)).after.decode()
    assert f"            accelerator.wait_for_everyone()\n            {way_out}" in after


@pytest.mark.parametrize(
    "asked",
    ["time.time() - start > 60", "limit > 0 and time.time() - start >= limit", "time.monotonic() > start + limit"],
)
def test_a_way_out_that_all_decide_alike_waits_for_the_save(asked: str) -> None:
    before = "from options import limit\nstart = time.time()"
    batch = f"if {asked}:\n    torch.save(model, 'm.pt')\n    sys.exit(3)"
    after = run(script(imports="import sys\nimport time", before=before, batch=batch)).after.decode()
    assert "if accelerator.broadcast_object_list([" in after
    assert "            accelerator.wait_for_everyone()\n            sys.exit(3)" in after


@pytest.mark.parametrize(
    ("before", "batch"),
    [
        ("", "torch.save(model, 'm.pt')\nif epoch > 3:\n    sys.exit()"),
        ("", "torch.save(model, 'm.pt')\nif y.sum() > 3:\n    sys.exit(1)"),
        ("if not torch.cuda.is_available():\n    sys.exit('no GPU')", "torch.save(model, 'm.pt')"),
    ],
)
def test_ends_that_nobody_waits_at(before: str, batch: str) -> None:
    result = run(script(imports="import sys", before=before, batch=batch))
    assert b"wait_for_everyone" not in result.after


UNNAMED = """\
import torch
from torch import nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).mean().backward()
    optimizer.step()
torch.save(model, "model.pt")
"""


@pytest.mark.parametrize(
    ("loaded", "is_named"),
    [
        ("torch.load('model.pt')", True),
        ("torch.load(sys.argv[1], weights_only=False)", True),
        ("net.load_state_dict(torch.load('model.pt'))", True),
        ("torch.load('model.pt', map_location='cpu')", False),
        ("torch.load('model.pt', 'cpu')", False),
        ("pickle.load(f)", False),
    ],
)
def test_who_loads_what_was_saved_on_the_cpu_is_named(
    loaded: str, is_named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("predict.py").write_text(f"import pickle, sys, torch\n{loaded}\n")
    Path("train.py").write_text(UNNAMED)
    (result,) = rewrite_together(("train.py",), Options())
    assert [n.message.endswith("unlike predict.py:2") for n in result.notes if "map_location" in n.message] == (
        [True] if is_named else []
    )


@pytest.mark.parametrize(
    ("saved", "is_noted"),
    [
        ("torch.utils.data.TensorDataset(torch.rand(8, 3), torch.rand(8))", False),
        ("torch.zeros(3)", False),
        ("model", True),
        ("[p for p in model.parameters()]", True),
    ],
)
def test_what_is_on_the_cpu_anyhow_needs_no_note(
    saved: str, is_noted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("predict.py").write_text("import torch\ntorch.load('model.pt')\n")
    Path("train.py").write_text(UNNAMED.replace("torch.save(model", f"torch.save({saved}"))
    (result,) = rewrite_together(("train.py",), Options())
    assert any("map_location" in n.message for n in result.notes) is is_noted


def test_a_script_that_knows_of_devices_saves_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("predict.py").write_text("import torch\ntorch.load('model.pt')\n")
    Path("train.py").write_text(script(end="torch.save(model, 'model.pt')\ntorch.ones(2, device=device)"))
    (result,) = rewrite_together(("train.py",), Options())
    assert not any("map_location" in n.message for n in result.notes)


@pytest.mark.parametrize(
    ("load", "comes_out"),
    [
        (LOAD, LOADED),
        (
            "model.load_state_dict(torch.load(f'{folder}/out.pt', weights_only=True))",
            "torch.load(f'{folder}/out.pt', weights_only=True, map_location=accelerator.device)",
        ),
        ("optimizer.load_state_dict(torch.load('out.pt'))", "torch.load('out.pt', map_location=accelerator.device)"),
        ("model.load_state_dict(torch.load('other.pt'))", "torch.load('other.pt', map_location=accelerator.device)"),
        (
            "model.load_state_dict(torch.load('other.pt')['model'])\nstart = torch.load('other.pt')['epoch']",
            "start = torch.load('other.pt', map_location={\"cuda:0\": str(accelerator.device)})['epoch']",
        ),
        ("rows = torch.load('rows.pt')", "rows = torch.load('rows.pt')"),
        ("model.load_state_dict(torch.load('out.pt', 'cpu'))", "torch.load('out.pt', 'cpu'))"),
        (
            "model.load_state_dict(state_dict=torch.load('out.pt'), strict=False)",
            "map_location=accelerator.device), st",
        ),
        ("model.load_state_dict(strict=False, state_dict=torch.load('out.pt')['n'])", "accelerator.device)['n'])"),
        (
            "model.load_state_dict(torch.load('out.pt')['net'])",
            "torch.load('out.pt', map_location=accelerator.device)['n",
        ),
        ("kept = torch.load('out.pt')", "kept = torch.load('out.pt')"),
        (
            "kept = torch.load('out.pt')\nmodel.load_state_dict(kept)\nprint(kept)",
            f"kept = torch.load('out.pt', {WHERE})",
        ),
        (
            "kept = torch.load('out.pt')\nmodel.load_state_dict(kept['a'])\nn = kept['n']",
            f"torch.load('out.pt', {WHERE})",
        ),
        ("kept = torch.load('out.pt')['a']\nmodel.load_state_dict(kept)", f"torch.load('out.pt', {WHERE})"),
        ("k = torch.load('out.pt')\nkept = k.get('a')\nmodel.load_state_dict(kept)", f"'out.pt', {WHERE})"),
        (
            "k = torch.load('out.pt')\nkept = {}\nfor n, v in k.items(): kept[n[7:]] = v\nmodel.load_state_dict(kept)",
            f"torch.load('out.pt', {WHERE})",
        ),
        ("def get(p): return torch.load(p)['a']\nmodel.load_state_dict(get('out.pt'))", f"torch.load(p, {WHERE})"),
        ("rows = torch.load('out.pt')\nmodel(rows)", "rows = torch.load('out.pt')\n"),
        ("def fill(m, kept): m.load_state_dict(kept['a'])\nfill(model, torch.load('out.pt'))", f"'out.pt', {WHERE}))"),
        ("def fill(m, kept): m.load_state_dict(kept)\nfill(model, kept=torch.load('out.pt'))", f"'out.pt', {WHERE}))"),
        ("def show(m, kept): print(kept)\nshow(model, torch.load('out.pt'))", "torch.load('out.pt'))"),
    ],
)
def test_what_was_saved_is_loaded_to_the_processs_own_gpu(load: str, comes_out: str) -> None:
    after = run(script(before="folder = 'x'\npath = 'x/out.pt'", end=f"{SAVE}\n{load}")).after.decode()
    assert comes_out in after


@pytest.mark.parametrize(
    ("used", "is_moved"),
    [
        ("net = torch.load(old)\nprint(net(rows))", True),
        ("net = torch.load(old)['model']\nnet.eval()\nshow(net)", True),
        ("show(torch.load(old))", True),
        ("kept = torch.load(old)\nprint(kept.get('step'), kept['rows'])", False),
        ("draw = torch.load(old, 'cpu')\ndraw(rows)", False),
        ("for x in torch.load(old):\n    print(x.to(device))", False),
        ("part = torch.load(old)[0]\nfor x, y in part:\n    print(x.float().to(device), y.cuda())", False),
        ("data = torch.load(old)\nprint(data.to(device))", False),
        ("for net in torch.load(old):\n    net.eval()\n    show(net.to(device))", True),
    ],
)
def test_a_model_that_is_loaded_whole_goes_to_the_processs_own_gpu(used: str, is_moved: bool) -> None:
    before = "def show(model):\n    print(model(rows))\nold, rows = 'old.pt', torch.zeros(2, 4).to(device)\n"
    after = run(script(before=f"device = torch.device('cuda')\n{before}{used}")).after.decode()
    assert ("torch.load(old, map_location=accelerator.device)" in after) is is_moved


RESUMED = "kept = torch.load(path)\nmodel.load_state_dict(kept['net'])"
KEEPS = "torch.save(model.state_dict(), path)"
STATE = "torch.set_rng_state(kept['rng'])"


@pytest.mark.parametrize(
    "resumed",
    [
        f"{RESUMED}\ndef kept(epoch): {KEEPS}\nkept(1)",
        f"def kept(epoch): {KEEPS}\nkept(1)\n{RESUMED}",
        f"{RESUMED}\nkept = lambda epoch: {KEEPS}\nkept(1)",
        f"{RESUMED}\n{STATE}\nmodel = kept['whole']\nmodel(torch.zeros(2, 4))",
        f"{RESUMED}\n{STATE.replace('torch', 'torch.cuda')}\nmodel = kept['whole']\nmodel.eval()",
    ],
)
def test_what_has_the_name_of_a_function_or_the_state_of_a_generator_is_no_model(resumed: str) -> None:
    after = run(script(before="device = torch.device('cuda')\npath = 'x.pt'", end=resumed)).after.decode()
    assert f"torch.load(path, {WHERE})" in after


HANDED = """\
import numpy as np
def keep(fn, *args): return fn(*args)
class Saver:
    def __init__(self, fn=torch.save): self.fn = fn
    def keep(self, x, path): self.fn(x, path)
{}
"""


@pytest.mark.parametrize(
    "used",
    [
        "keep(np.save, 'x.npy', [1])\nkeep(torch.save, [1], 'x.pt')",
        "keep(torch.save, [1], 'x.pt')",
        "Saver(other).keep([1], 'x.pt')",
        "{'a': torch.save, 'b': np.save}[kind]([1], 'x')",
        "for fn in (torch.save, np.save): fn([1], 'x')",
        "model.load_state_dict(keep(torch.load, 'out.pt'))\nkeep(np.load, 'x.npy')",
    ],
)
def test_what_may_be_another_function_is_not_replaced(used: str) -> None:
    after = run(script(imports="import torch", end=HANDED.format(used))).after.decode()
    assert "accelerator.save(" not in after
    assert "map_location" not in after


@pytest.mark.parametrize(
    "used", ["save = torch.save\nsave([1], 'x')", "from torch import save as s\ns([1], 'x')", "t.save([1], 'x')"]
)
def test_another_name_for_save_is_replaced(used: str) -> None:
    assert "accelerator.save([1], 'x')" in run(script(imports="import torch as t", end=used)).after.decode()


def test_an_import_that_only_a_load_needs_stays() -> None:
    text = script(end="t.save(model.state_dict(), 'm.pt')\nmodel.load_state_dict(t.load('m.pt'))")
    after = run(f"import torch as t\n{text}").after.decode()
    assert "import torch as t\n" in after
    assert "t.load('m.pt', map_location=accelerator.device)" in after


@pytest.mark.parametrize(
    ("body", "call", "waits"),
    [
        ("torch.save(model, path)\nreturn torch.load(path)", "best = again(model, 'm.pt')", 1),
        ("torch.save(model, 'm.pt')\nother = torch.load('m.pt')\nreturn other", "best = again(model, None)", 1),
        ("other = torch.load(path)\ntorch.save(model, path)\nreturn other", "best = again(model, 'm.pt')", 0),
        (
            "torch.save(model, path)\nreturn torch.load(path)",
            "if int(os.environ['RANK']) == 0:\n    again(model, 'm.pt')",
            0,
        ),
    ],
)
def test_a_function_without_the_accelerator_waits_between_a_save_and_a_load(
    body: str, call: str, waits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keeping.py").write_text(f"import torch\n\n\ndef again(model, path):\n{indent(body, '    ')}\n")
    text = script(imports="import os\nfrom keeping import again", end=call + "\nmodel.zero_grad()")
    (tmp_path / "train.py").write_text(text)
    results = {r.path: r.after.decode() for r in rewrite_together(("train.py",), Options())}
    assert results["keeping.py"].count("    accelify.runtime.wait_for_everyone()\n") == waits
    assert "accelerator.wait_for_everyone()" not in results["train.py"] or not waits


def test_a_function_without_the_accelerator_loads_to_the_processs_own_gpu() -> None:
    text = """\
import torch
from torch import nn
def restore(p, m):
    s = torch.load(p)
    m.load_state_dict(s["m"])
def keep(p, m):
    torch.save({"m": m.state_dict()}, p)
def main():
    model = nn.Linear(3, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    restore('a.pt', model)
    for x in torch.utils.data.DataLoader(rows):
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    keep("a.pt", model)
main()
"""
    after = run(text).after.decode()
    loaded = 's = torch.load(p, map_location={"cuda:0": str(accelify.runtime.PartialState().device)})'
    assert loaded in after
    assert after.count("import accelify.runtime\n") == 1


NEAR = "map_location={'cuda:0': str(accelify.runtime.PartialState().device)}".replace("'", '"')


@pytest.mark.parametrize(
    ("load", "loaded"),
    [
        ("m.load_state_dict(torch.load(p))", 'm.load_state_dict(torch.load(p, map_location="cpu"))'),
        ("m.load_state_dict(torch.load(p)['m'])", "m.load_state_dict(torch.load(p, map_location=\"cpu\")['m'])"),
        ("s = torch.load(p)\n    m.load_state_dict(s['m'])", f"s = torch.load(p, {NEAR})"),
        ("m.load_state_dict(torch.load(p, 'cuda'))", "m.load_state_dict(torch.load(p, 'cuda'))"),
    ],
)
@pytest.mark.parametrize("option", ["not args.no_cuda", "args.device == 'cuda'"])
def test_weights_are_loaded_apart_from_an_option_that_does_not_reach_them(load: str, loaded: str, option: str) -> None:
    text = f"""\
import argparse
import torch
from torch import nn
def restore(p, m):
    {load}
def main():
    args = argparse.ArgumentParser().parse_args()
    model = nn.Linear(3, 3)
    if {option}:
        model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    restore('a.pt', model)
    for x in torch.utils.data.DataLoader(rows):
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main()
"""
    after = run(text).after.decode()
    assert "Accelerator(cpu=" in after
    assert loaded in after
    assert ("import accelify.runtime\n" in after) is ("PartialState" in loaded)


@pytest.mark.parametrize(("set_under", "is_noted"), [("time.time() - start > 60", True), ("epoch % 2 == 0", False)])
def test_a_wait_that_each_process_decides_on_is_noted(set_under: str, is_noted: bool) -> None:
    text = script(
        imports="import time",
        before="start, done = time.time(), None",
        end=f"""
        if {set_under}:
            done = epoch
        if done == epoch:
            torch.save(model.state_dict(), "m.pt")
            model.load_state_dict(torch.load("m.pt"))
        """,
    )
    result = run(text)
    assert "wait_for_everyone" in result.after.decode()
    said = [n.message for n in result.notes if "by its own clock or data" in n.message]
    assert bool(said) is is_noted


SAVED = "def save(net, path):\n    {made}\n    return path\n"
WRITTEN = "def write(net, path):\n    with open(path, 'w') as f:\n        f.write('1')\n    return path\n"


@pytest.mark.parametrize(
    "end", ['net = torch.load(save(model, "a.pt"))', 'use(torch.load(save(net=model, path="a.pt"))["x"])']
)
@pytest.mark.parametrize("made", ["torch.save(net.state_dict(), path)", "torch.save({'x': net.state_dict()}, path)"])
def test_one_statement_that_saves_and_loads_waits_behind_the_save(made: str, end: str) -> None:
    after = run(script(before=SAVED.format(made=made), end=end)).after.decode()
    assert after.count("wait_for_everyone") == 1
    assert "path)\n    accelerator.wait_for_everyone()\n    return path\n" in after


@pytest.mark.parametrize(
    "end", ["print(open(write(model, 'a.txt')).read())", "for line in open(write(model, 'a.txt')):\n    print(line)"]
)
def test_one_statement_that_writes_and_reads_waits_behind_the_guard(end: str) -> None:
    after = run(script(before=WRITTEN, end=end)).after.decode()
    assert after.count("wait_for_everyone") == 1
    assert "f.write('1')\n    accelerator.wait_for_everyone()\n    return path\n" in after


def test_a_save_that_one_process_may_not_come_to_is_noted_where_it_is_loaded() -> None:
    before = SAVED.format(made="if time.time() > 5:\n        torch.save(net.state_dict(), path)")
    result = run(script(before="import time\n" + before, end='torch.load(save(model, "a.pt"))'))
    assert "wait_for_everyone" not in result.after.decode()
    assert any("load this file here before process 0 has written it" in n.message for n in result.notes)


COPIED_BY_ANOTHER = """\
import os
import shutil
import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import rows

def keep(state, path="last.pth"):
    torch.save(state, path)
    {copy}

def main():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(rows, batch_size=4):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    keep(model.state_dict())
    model.load_state_dict(torch.load("best.pth"))

main()
"""


@pytest.mark.parametrize(
    ("copy", "waits"),
    [
        ('shutil.copyfile(path, "best.pth")', 1),
        ('shutil.copy(path, "best.pth")', 1),
        ('os.rename(path, "best.pth")', 1),
        ('shutil.copyfile(path, "other.pth")', 0),
    ],
)
def test_a_copy_is_there_before_it_is_loaded(copy: str, waits: int) -> None:
    after = migrated(COPIED_BY_ANOTHER.format(copy=copy))
    assert after.count("accelerator.wait_for_everyone()\n    model.load_state_dict") == waits


BEST = "if {} < low:\n    low = {}\n    name = f'm-{{{}}}.pt'\n    torch.save(model.state_dict(), name)"
NAMED = BEST.format("loss.item()", "loss.item()", "low:.2e")
CHOSEN = BEST.format("loss.item()", "loss.item()", "epoch")
SUMMED = "total += loss.item()"
BY_SUM = BEST.format("total", "total", "epoch") + "\nprint(total / len(loader))"


@pytest.mark.parametrize(
    ("step", "end_of_epoch", "is_noted"),
    [
        ("", NAMED, True),
        (NAMED, "", True),
        ("", CHOSEN, True),
        (SUMMED, BY_SUM.replace("< low", "< 5.0"), True),
        (SUMMED, BY_SUM, False),  # it is reduced
        ("", "name = f'm-{epoch}.pt'\ntorch.save(model.state_dict(), name)", False),
    ],
)
def test_a_name_that_processes_make_of_their_own_data_is_noted_where_it_is_loaded(
    step: str, end_of_epoch: str, is_noted: bool
) -> None:
    text = training_scripts.script(
        before="rows = [(torch.randn(4), torch.randn(1)) for _ in range(8)]",
        set_up="low, name = 9e9, ''",
        epoch="total = 0.0",
        step=training_scripts.STEP + step,
        end_of_epoch=end_of_epoch,
        end="model.load_state_dict(torch.load(name))",
    )
    result = run(text)
    assert "accelerator.wait_for_everyone()" in result.after.decode()
    noted = [n.message for n in result.notes if "each process names this file by its own data" in n.message]
    assert len(noted) == is_noted
    assert all("`name = accelerator.broadcast_object_list([name])[0]`" in m for m in noted)


@pytest.mark.parametrize(
    ("save", "load"), [("np.save(name, 1.0)", "np.load(name)"), ("joblib.dump(low, name)", "joblib.load(name)")]
)
@pytest.mark.parametrize("made", ["f'm-{loss.item():.2f}.npy'", "f'm-{epoch}.npy'"])
def test_so_it_is_of_other_files(save: str, load: str, made: str) -> None:
    text = training_scripts.script(
        imports="import joblib\nimport numpy as np",
        before="rows = [(torch.randn(4), torch.randn(1)) for _ in range(8)]",
        set_up="low, name = 9e9, ''",
        end_of_epoch=f"name = {made}\n{save}",
        end=f"model.bias.data += float({load})",
    )
    noted = [n for n in run(text).notes if "each process names this file by its own data" in n.message]
    assert len(noted) == ("loss" in made)
