"""What is said of the GPUs that a script lets itself see, and of files that were not read."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from textwrap import indent

import pytest

from accelify.codemod.files.project import absolute
from accelify.codemod.options import ACCELERATE
from accelify.codemod.rewrite import Options, rewrite_together
from accelify.codemod.rules import notes
from accelify.codemod.rules.notes.randomness import drawn_early
from tests.codemod.facts import Facts
from tests.codemod.metrics.facts import script_of, training
from tests.codemod.pairs import run, script
from tests.codemod.training_scripts import script as training_script

MAIN = """\
import torch
from gpus import pick
from options import args, rows
def main():
    pick(args.gpu)
    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(rows):
        optimizer.zero_grad()
        model(x.cuda()).mean().backward()
        optimizer.step()
main()
"""
SET = "os.environ['CUDA_VISIBLE_DEVICES']"


@pytest.mark.parametrize(
    ("helper", "place", "words"),
    [
        (f"def pick(gpu):\n    {SET} = gpu\n", "pick(args.gpu)", "has already selected the GPU"),
        (
            "def pick(g):\n    os.environ.update(CUDA_VISIBLE_DEVICES=g)\n",
            "pick(args.gpu)",
            "has already selected the GPU",
        ),
        (
            f"def pick(gpu):\n    inner(gpu)\ndef inner(gpu):\n    {SET} = gpu\n",
            "pick(args.gpu)",
            "has already selected the GPU",
        ),
        (f"{SET} = '1'\ndef pick(gpu): pass\n", SET, "sees only these"),
        (f"def pick(gpu): pass\ndef other(gpu):\n    {SET} = gpu\n", None, ""),
        (f"def pick(gpu): pass\nif __name__ == '__main__':\n    {SET} = '1'\n", None, ""),
        (f"def pick(gpu):\n    print({SET})\n", None, ""),
        (f"def pick(gpu):\n    if gpu == 'cpu':\n        {SET} = '-1'\n", "pick(args.gpu)", "launch --cpu`"),
    ],
)
def test_visible_gpus_that_an_imported_file_sets(helper: str, place: str | None, words: str) -> None:
    """The note is at the call in the script, and names the line that sets them: the call may do more."""
    script = Facts({"main.py": MAIN, "gpus.py": f"import os\n{helper}"}).script
    found = [r for r in notes.find(script) if re.search("--gpu-ids|--cpu", r.message)]
    assert [ast.unparse(r.node) for r in found] == ([place] if place is not None else [])
    assert all(words in r.message for r in found)
    assert all(bool(r.lines) == ("pick(" in (place or "")) for r in found)


TRAINER = """\
import torch
from torch import nn
class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model.cuda(), loader
        self.optimizer = torch.optim.Adam(model.parameters())
    def train(self):
        for x in self.loader:
            loss = self.model(x.cuda()).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
APART = """\
import os, torch
from torch import nn
from trainer import Trainer
from gpus import choose
{head}
    {before}
    trainer = Trainer(nn.Linear(4, 1), torch.utils.data.DataLoader(torch.randn(8, 4)))
    {after}
    trainer.train()
{end}
"""
CHOOSE = f"import os\ndef choose(gpu):\n    {SET} = gpu\ndef unused(gpu):\n    {SET} = gpu\n"
IN_MAIN, GUARDED = ("def main():", "main()"), ("if __name__ == '__main__':", "")


@pytest.mark.parametrize(
    ("around", "before", "after", "place", "words"),
    [
        (IN_MAIN, f"{SET} = '1'", "pass", SET, "every process sees only these GPUs: remove this"),
        (GUARDED, f"{SET} = '1'", "pass", SET, "every process sees only these GPUs: remove this"),
        (GUARDED, "choose('1')", "pass", SET, "every process sees only these GPUs: remove this"),
        (IN_MAIN, "pass", f"{SET} = '1'", SET, "this has no effect"),
        (IN_MAIN, "torch.cuda.set_device(1)", "pass", "torch.cuda.set_device(1)", "remove this call"),
        (IN_MAIN, "pass", "pass", None, ""),
    ],
)
def test_gpus_that_a_file_chooses_which_does_not_change(
    around: tuple[str, str], before: str, after: str, place: str | None, words: str
) -> None:
    main = APART.format(head=around[0], end=around[1], before=before, after=after)
    script = Facts({"main.py": main, "trainer.py": TRAINER, "gpus.py": CHOOSE}).script
    found = [r for r in notes.find(script) if "GPU" in r.message]
    assert [ast.unparse(r.node) for r in found] == ([place] if place is not None else [])
    assert all(words in r.message for r in found)


@pytest.mark.parametrize(
    ("gpus", "is_kept"), [("'0'", False), ('"0"', False), ("'1'", True), ("'0,1'", True), ("'-1'", True)]
)
def test_the_first_gpu_alone_is_chosen_by_nobody(gpus: str, is_kept: bool) -> None:
    result = run(training_script(before=f"import os\n{SET} = {gpus}\nrows = [(torch.randn(4), torch.randn(1))] * 8"))
    assert (b"CUDA_VISIBLE_DEVICES" in result.after) is is_kept
    assert (b"import os" in result.after) is is_kept
    assert any("GPUs: remove this" in n.message for n in result.notes) is is_kept


@pytest.mark.parametrize(
    ("helper", "count"),
    [
        ("def pick(gpu):\n    torch.cuda.set_device(gpu)\n", 1),
        ("def pick(gpu): pass\ndef other(gpu):\n    torch.cuda.set_device(gpu)\n", 0),
    ],
)
def test_a_gpu_that_an_imported_file_selects(helper: str, count: int) -> None:
    found = notes.find(Facts({"main.py": MAIN, "gpus.py": f"import torch\n{helper}"}).script)
    places = [ast.unparse(r.node) for r in found if "not the one that {0} selects" in r.message]
    assert places == ["pick(args.gpu)"] * count


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        (f"import os\n{SET} = '1'\n", "", "sees only these"),  # above the line that creates the accelerator
        (f"import os, sys\nif len(sys.argv) > 1:\n    {SET} = sys.argv[1]\n", "", "sees only these"),
        ("import os\n", f"{SET} = '1'\n", "has already selected the GPU"),
    ],
)
def test_visible_gpus_that_the_script_itself_sets(first: str, last: str, words: str) -> None:
    """The script creates the accelerator below its imports."""
    (found,) = (r for r in notes.find(Facts(first + script(end=last)).script) if "--gpu-ids" in r.message)
    assert words in found.message


def test_an_import_of_what_cannot_be_parsed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.py").write_text(MAIN)
    Path("gpus.py").write_text("def pick(gpu):\n    return x.cuda(async=True)\n")
    Path("options.py").write_text("args, rows = 1, []\n")
    (result,) = rewrite_together(("main.py",), Options())
    (note,) = [n for n in result.notes if "cannot be parsed" in n.message]
    assert result.after.decode().split("\n")[note.line - 1] == "from gpus import pick"
    assert "gpus.py:2:" in note.message


ONE_BATCH = """
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader, other = DataLoader(rows), DataLoader(others, shuffle=True)
for x in loader:
    for i, y in enumerate(other):
        if i > 5: break
        {body}
    (model(x).mean() + model(y).mean()).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("body", "is_noted"),
    [
        ("break", False),
        ("y = y + 1\n        break", False),
        ("y = y + 1", True),
        ("print(model(y))", True),
        ("print(model.forward(y).mean())", True),
    ],
)
def test_a_loop_that_takes_one_batch_evaluates_nothing(body: str, is_noted: bool) -> None:
    found = list(notes.find(Facts(ONE_BATCH.format(body=body)).script))
    assert any("processes evaluate different batches" in r.message for r in found) is is_noted


CRITIC = "def forward(self, x):\n    self.critic(x).sum().backward()\n    self.optimizer.step()\n"


@pytest.mark.parametrize(
    ("call", "is_named"),
    [
        ("import_module('losses.' + name)", True),
        ("import_module(f'losses.{name}_loss')", True),
        ("__import__('losses.%s' % name)", True),
        ("import_module('losses.{}'.format(name))", True),
        ("import_module(path)", True),
        ("import_module('losses.plain_' + name)", False),
        ("import_module(name)", False),
        ("import_module('data.' + name)", False),
    ],
)
def test_what_trains_behind_an_import_by_name_is_named(call: str, is_named: bool) -> None:
    load = f"from importlib import import_module\ndef pick(name):\n    path = 'losses.' + name\n    return {call}\n"
    files = {"gpus.py": load, "losses/critic_loss.py": CRITIC, "losses/plain_loss.py": "import torch\n"}
    facts = Facts({"main.py": MAIN, "gpus.py": load})
    facts.project._given.update({absolute(path): text.encode() for path, text in files.items()})
    found = [r for r in notes.find(facts.script) if "migrate the file" in r.message]
    assert [(r.path, ast.unparse(r.node)) for r in found] == ([("gpus.py", call)] if is_named else [])
    assert all("`critic_loss.py`" in r.message for r in found)


SHOWN = """
import torch
from torch import nn
from torch.utils.data import DataLoader

def show(words):
    print(words)

model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
worst = 0.0
for x, y in DataLoader(torch.utils.data.TensorDataset(torch.rand(8, 2), torch.rand(8, 1)), batch_size=2):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show(f"loss {loss.item()}")
    worst = worst * loss.item()
show(f"running loss {worst}")
print("done")
"""


def test_notes_on_values_of_one_process_name_the_lines_that_show_them() -> None:
    result = run(SHOWN)
    lines = result.after.decode().splitlines()
    shows = {shown for note in result.notes for shown in note.shows}
    assert {lines[int(place.rpartition(":")[2]) - 1].strip() for place in shows} == {
        'show(f"loss {loss.item()}")',
        'show(f"running loss {worst}")',
    }


EVALUATED = """\
import torch
from rows import rows
from torch.utils.data import DataLoader
from scores import score
train = DataLoader(torch.randn(8, 4))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in train:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
print({call})
"""
SCORE = "def score(model, loader):\n    for x in loader:\n        model(x.to(model.weight.device))\n"


@pytest.mark.parametrize(
    ("scores", "call", "said"),
    [
        (SCORE, "score(model, DataLoader(rows))", None),
        (SCORE, "score(model, loader=train)", "the loop in {0}, called with a prepared loader, sees this process's"),
        (
            SCORE.replace("score", "inner") + "def score(model, rows): inner(model, rows)\n",
            "score(model, train)",
            "the loop in {0}, called with a prepared loader, sees this process's",
        ),
        (SCORE.replace("in loader", "in loader[:3]"), "score(model, DataLoader(rows))", None),
        (SCORE, "len(train)", None),
    ],
)
def test_a_loop_over_a_loader_in_a_file_that_does_not_change(scores: str, call: str, said: str | None) -> None:
    script = Facts({"main.py": EVALUATED.format(call=call), "scores.py": scores}).script
    assert "scores.py" not in script.files
    found = [(r.path, ast.unparse(r.node), r.message) for r in notes.find(script) if "the loop in" in r.message]
    assert [(path, node) for path, node, _ in found] == ([("main.py", call)] if said else [])
    assert all(said is not None and message.startswith(said) for *_, message in found)


def test_a_loop_over_a_loader_that_its_class_made() -> None:
    made = "train, test = torchtext.data.BucketIterator.splits((rows, rows))"
    text = EVALUATED.format(call="score(model, train)").replace("train = DataLoader(torch.randn(8, 4))", made)
    script = Facts({"main.py": f"import torchtext\n{text}", "scores.py": SCORE}).script
    assert [ast.unparse(r.node) for r in notes.find(script) if "the loop in" in r.message] == ["score(model, train)"]


@pytest.mark.parametrize(
    ("call", "is_said"),
    [
        ("torch.optim.swa_utils.update_bn(train, torch.load('average.pt'))", True),
        ("torch.optim.swa_utils.update_bn(model=torch.load('average.pt'), loader=train)", True),
        ("torch.optim.swa_utils.update_bn(train, model)", False),
        ("torch.optim.swa_utils.update_bn(loader=train, model=model)", False),
        ("torch.optim.swa_utils.update_bn(DataLoader(rows), model)", False),
        ("score(model, train)", False),
    ],
)
def test_a_library_that_goes_over_a_prepared_loader(call: str, is_said: bool) -> None:
    script = Facts({"main.py": EVALUATED.format(call=call), "scores.py": SCORE}).script
    found = [ast.unparse(r.node) for r in notes.find(script) if "goes over the shard" in r.message]
    assert found == ([call] if is_said else [])


@pytest.mark.parametrize(
    ("made", "call"),
    [
        (
            "from torchcontrib.optim import SWA\nswa = SWA(optimizer)",
            "swa.bn_update(train, torch.load('average.pt'), device='cpu')",
        ),
        (
            "import torchcontrib\nswa = torchcontrib.optim.SWA(optimizer)",
            "swa.bn_update(loader=train, model=torch.load('average.pt'))",
        ),
        ("from torchcontrib.optim import SWA\nswa = SWA(optimizer)", "SWA.bn_update(train, torch.load('average.pt'))"),
    ],
)
def test_an_optimizer_that_goes_over_a_prepared_loader(made: str, call: str) -> None:
    script = Facts({"main.py": EVALUATED.format(call="") + f"{made}\n{call}\n", "scores.py": SCORE}).script
    assert [ast.unparse(r.node) for r in notes.find(script) if "goes over the shard" in r.message] == [call]


@pytest.mark.parametrize(
    ("scores", "is_said"),
    [
        ("from torch import nn\ndef score(m, x): return nn.parallel.data_parallel(m, x, range(2))\n", True),
        ("from torch.nn.parallel import data_parallel as dp\ndef score(m, x):\n    return dp(m, x, [0, 1])\n", True),
        (
            "from torch import nn\nclass Net(nn.Module):\n    def __init__(self): super().__init__()\n"
            "    def forward(self, x): return nn.parallel.data_parallel(self, x)\n"
            "def score(m, x): return Net()(x)\n",
            True,
        ),
        (
            "from torch import nn\ndef score(m, x):\n    copies = nn.parallel.replicate(m, [0, 1])\n"
            "    given = nn.parallel.scatter((x,), [0, 1])\n"
            "    return nn.parallel.gather(nn.parallel.parallel_apply(copies, given), 0)\n",
            True,
        ),
        (
            "from torch.nn.parallel.replicate import replicate as copy\n"
            "def score(m, x): return [f(x) for f in copy(m, range(2))]\n",
            True,
        ),
        ("def score(m, x): return m(x)\ndef data_parallel(m, x): return m(x)\n", False),
    ],
)
def test_a_batch_that_a_network_divides_between_gpus(scores: str, is_said: bool) -> None:
    script = Facts({"main.py": EVALUATED.format(call="score(model, rows)"), "scores.py": scores}).script
    found = [r.path for r in notes.find(script) if "divides a batch between GPUs" in r.message]
    assert found == (["scores.py"] if is_said else [])


TRIED = """\
try:
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
except {caught}:
    {handled}
"""


@pytest.mark.parametrize(
    ("caught", "handled", "is_noted"),
    [
        ("RuntimeError", "continue", True),
        ("Exception as e", "print(e)", True),
        ("(ValueError, RuntimeError)", "optimizer.zero_grad()", True),
        ("RuntimeError as e", "if 'memory' in str(e):\n        continue\n    raise", True),
        ("RuntimeError as e", "if 'memory' not in str(e):\n        raise\n    torch.cuda.empty_cache()", True),
        ("RuntimeError as e", "print(e)\n    raise", False),
        ("Exception", "print('failed')\n    sys.exit(1)", False),
        ("KeyboardInterrupt", "break", False),
    ],
)
def test_steps_that_one_process_may_leave_out(caught: str, handled: str, is_noted: bool) -> None:
    step = TRIED.format(caught=caught, handled=handled)
    notes = run(training_script(imports="import sys", before="rows = torch.ones(8, 2, 1)", step=step)).notes
    assert any("leaves out its step" in n.message for n in notes) is is_noted


ASKED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
loader = DataLoader(torch.ones(8, 2))
batches = iter(loader)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(9):
    optimizer.zero_grad()
    {tried}
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
"""
AGAIN = """try:
        x = next(batches)
    except StopIteration:
        batches = iter(loader)
        x = next(batches)"""


@pytest.mark.parametrize(
    ("tried", "is_noted"),
    [
        (AGAIN + "\n    except:\n        continue", True),
        (AGAIN + "\n    except OSError as error:\n        print(error)\n        break", True),
        ("x = next(batches)\n    try:\n        x = x / x.sum()\n    except RuntimeError:\n        continue", True),
        (AGAIN + "\n    except OSError:\n        x = next(batches)", False),
        ("try:\n        x = next(batches)\n    except Exception:\n        break", False),
        ("x = next(batches)\n    try:\n        open('stop')\n    except OSError:\n        continue", False),
    ],
)
def test_steps_left_out_for_what_fails_before_them(tried: str, is_noted: bool) -> None:
    notes = run(ASKED.format(tried=tried)).notes
    assert any("leaves out its step" in n.message for n in notes) is is_noted


UNREADABLE = """\
import random
import torch
from torch import nn
def read(i):
    return torch.load(f"{{i}}.pt")
rows = torch.ones(80, 2)
order = list(range(20))
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(9):
    random.shuffle(order)
    for i in order:
        optimizer.zero_grad()
        {tried}
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""
EXCEPT = "\n        except Exception:\n            continue\n        "


@pytest.mark.parametrize(
    ("tried", "is_noted"),
    [
        ("try:\n            x = read(i)" + EXCEPT, True),
        ("try:\n            x = torch.load('%d.pt' % random.randrange(9))" + EXCEPT, True),
        ("try:\n            x = rows[random.sample(range(90), 4)]" + EXCEPT, True),
        ("x = rows[i]\n        try:\n            open('stop')" + EXCEPT, False),
        ("try:\n            x = read(epoch)" + EXCEPT + "x = x + torch.rand(2)", False),  # alike in all processes
    ],
)
def test_steps_left_out_for_what_a_process_draws(tried: str, is_noted: bool) -> None:
    notes = run(UNREADABLE.format(tried=tried)).notes
    assert any("leaves out its step" in n.message for n in notes) is is_noted


IN_FUNCTION = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
def step(x):
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
class Trainer:
    def step(self, x):
        step(x)
rows = torch.ones(8, 2)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
trainer = Trainer()
def train(loader):
    for x in loader:
        {body}
{call}
"""
SKIPPING = "try:\n            {}\n        except RuntimeError:\n            print('skipped')"


@pytest.mark.parametrize(
    ("body", "call", "is_noted"),
    [
        (SKIPPING.format("step(x)"), "train(DataLoader(rows))", True),
        (SKIPPING.format("trainer.step(x)"), "train(DataLoader(rows))", True),
        (SKIPPING.format("for _ in range(2):\n                step(x)"), "train(DataLoader(rows))", True),
        ("step(x)\n        " + SKIPPING.format("print(x.mean())"), "train(DataLoader(rows))", False),
        ("step(x)", "try:\n    train(DataLoader(rows))\nexcept RuntimeError as error:\n    print(error)", False),
    ],
)
def test_steps_of_functions_that_one_process_may_leave_out(body: str, call: str, is_noted: bool) -> None:
    notes = run(IN_FUNCTION.format(body=body, call=call)).notes
    assert any("leaves out its step" in n.message for n in notes) is is_noted


@pytest.mark.parametrize(
    ("call", "is_noted"),
    [
        (
            "for _ in range(3):\n    try:\n        {train}\n        break\n    except RuntimeError:\n        print(1)",
            True,
        ),
        ("while True:\n    try:\n        {train}\n    except Exception:\n        continue\n    break", True),
        ("def run():\n    for size in (2, 4):\n        try: {train}\n        except RuntimeError: pass\nrun()", True),
        ("while True:\n    try:\n        {train}\n    except RuntimeError:\n        break", False),
        (
            "for _ in range(3):\n    try:\n        {train}\n    except RuntimeError:\n        print(1)\n        raise",
            False,
        ),
        ("for _ in range(3):\n    try:\n        {train}\n    except KeyboardInterrupt:\n        print('no')", False),
        ("try:\n    {train}\nexcept RuntimeError:\n    print('no')", False),
    ],
)
def test_training_that_one_process_may_begin_again(call: str, is_noted: bool) -> None:
    notes = run(IN_FUNCTION.format(body="step(x)", call=call.format(train="train(DataLoader(rows))"))).notes
    assert any("leaves its training and begins anew" in n.message for n in notes) is is_noted
    assert not any("leaves out its step" in n.message for n in notes)


INTERRUPTED = """\
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.ones(8, 2))
def train():
    for x in loader:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
def keep():
    torch.save(model.state_dict(), "interrupted.pt")
try:
    {tried}
except {caught}:
    {handled}
{end}
"""


@pytest.mark.parametrize(
    ("tried", "caught", "handled", "end", "is_noted"),
    [
        ("train()", "KeyboardInterrupt", "torch.save(model, 'a.pt')\n    sys.exit()", "", True),
        ("for _ in range(9):\n        train()", "KeyboardInterrupt", "keep()", "", True),
        ("train()", "(KeyboardInterrupt, ValueError) as e", "print(e)", "keep()\ntorch.save(model, 'a.pt')", True),
        ("train()", "KeyboardInterrupt", "print('stopped')", "", False),
        ("train()", "KeyboardInterrupt", "sys.exit()", "torch.save(model, 'a.pt')", False),
        ("input()", "KeyboardInterrupt", "keep()", "train()", False),
        ("train()", "ValueError", "keep()\n    raise", "", False),
    ],
)
def test_what_is_saved_after_a_keyboard_interrupt(
    tried: str, caught: str, handled: str, end: str, is_noted: bool
) -> None:
    notes = run(INTERRUPTED.format(tried=tried, caught=caught, handled=handled, end=end)).notes
    assert any("Ctrl-C" in n.message for n in notes) is is_noted


COUNTED = """
import torch
from torch import nn
rows = torch.randn(40, 8, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    loss = model(rows[step]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if {condition}:
        torch.save(model.state_dict(), "model.pt")
"""


@pytest.mark.parametrize(
    ("condition", "is_of_a_batch"),
    [("step % 9 == 0", False), ("(step + 1) % 9 == 0", False), ("loss.item() < 1", True)],
)
def test_a_counter_that_decides_what_is_saved_is_no_batch(condition: str, is_of_a_batch: bool) -> None:
    found = list(notes.find(Facts(COUNTED.format(condition=condition)).script))
    assert any("decides here what is saved" in r.message for r in found) is is_of_a_batch


DRAWN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
rows = torch.randn(8, 3)
train, others = DataLoader(rows, batch_size=4), DataLoader(rows, batch_size=4, shuffle={shuffle})
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def score():
    total = 0
    for i, x in enumerate(others):
        {first}
        total += model(x).sum().item()
    return total
for x in train:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
{call}
"""


@pytest.mark.parametrize(
    ("shuffle", "first", "call", "is_drawn"),
    [
        ("True", "if i >= 10: break", "    print(score())", True),
        ("True", "if i == 10:\n            return total", "    print(score())", True),
        ("True", "if i >= 10: break", "print(score())", False),
        ("False", "if i >= 10: break", "    print(score())", False),
    ],
)
def test_an_evaluation_that_draws_its_batches(shuffle: str, first: str, call: str, is_drawn: bool) -> None:
    script = Facts(DRAWN.format(shuffle=shuffle, first=first, call=call)).script
    told = [r.message for r in notes.find(script) if "is not sharded" in r.message]
    assert any("processes evaluate different batches" in message for message in told) is is_drawn


@pytest.mark.parametrize(
    ("gpu", "is_noted"),
    [
        ("args.gpu_index", True),
        ("0", True),
        ("number", True),
        ("None", False),
        ("device", False),
        ("x.device", False),
        ("net.place", False),
    ],
)
def test_a_block_in_which_one_gpu_is_the_current_one(gpu: str, is_noted: bool) -> None:
    before = "from options import args\nnumber = args.gpu\nx = torch.ones(1)\ndevice = torch.device('cuda')\n"
    net = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.place = device\n"
    end = f"net = Net()\nwith torch.cuda.device({gpu}), torch.no_grad():\n    print(net(x))"
    notes = [n for n in run(script(before=before + net, end=end)).notes if "current GPU" in n.message]
    assert len(notes) is is_noted + 0


@pytest.mark.parametrize(
    ("source", "is_told"),
    [
        ("zip(loader, itertools.cycle(other))", True),
        ("zip(list(loader), other)", True),
        ("zip(loader, itertools.islice(other, 9))", False),
        ("zip(loader, itertools.cycle([1, 2]))", False),
    ],
)
def test_batches_that_are_all_held_on_the_device(source: str, is_told: bool) -> None:
    set_up = f"other = DataLoader(rows, batch_size=2)\nfor (x, y), (z, _) in {source}:\n"
    step = "    loss = model(x).mean() + model(z).mean()\n    loss.backward()\n    optimizer.step()"
    notes = run(training_script(imports="import itertools", set_up=set_up + step)).notes
    assert any("keeps all batches" in n.message for n in notes) is is_told


@pytest.mark.parametrize(
    ("made", "update", "is_place"),
    [
        ("np.zeros(4)", "found[i] = loss.item()", True),
        ("torch.zeros(4)", "found[i] = loss.detach()", True),
        ("np.zeros((2, 4))", "found[0, i] = loss.item()", True),
        ("np.zeros(len(loader))", "found[i] = loss.item()", False),  # each process has one for each of its batches
        ("torch.zeros(2, len(loader))", "found[0, i] = loss.item()", False),
        ("np.zeros(count)", "found[i] = loss.item()", False),
        ("np.zeros(len(rows))", "found[i] = loss.item()", True),
        ("np.zeros(len(longer))", "found[i] = loss.item()", True),
        ("[]", "found.append((i, loss.item()))", False),
        ("{}", "found[i] = loss.item()", False),
    ],
)
def test_an_array_of_which_each_process_sets_its_own_places(made: str, update: str, is_place: bool) -> None:
    sized = "count = len(loader)\nlonger = DataLoader(rows, batch_size=2)\n"
    text = training(begin=f"{sized}found = {made}", batch=update, end="print(found if epoch else np.mean(found))")
    found = [r.message for r in notes.find(script_of(text)) if "shard only" in r.message and "{}" in r.message]
    assert found
    assert all(("all other places keep" in message) is is_place for message in found)


@pytest.mark.parametrize(
    ("update", "is_full"),
    [
        ("found[i * size : (i + 1) * size] = model(x).detach()", True),
        ("found[i * size : min(i * size + size, 9), 0] = y", True),
        ("a, b = i * size, min(i * size + size, 9)\nfound[a:b] = model(x).detach()", True),
        ("found[i] = loss.detach()", False),
        ("found[i : i + 1] = loss.detach()", False),
        ("a = i * size\nfound[a : a + len(x)] = y", False),  # a batch of any size fits
        ("found[i * size : (i + 1) * size] = loss.item()", False),  # so does a number
    ],
)
def test_slices_of_an_array_for_full_batches(update: str, is_full: bool) -> None:
    text = training(begin="found = torch.zeros(9, 1)", batch=update, end="print(found.mean())")
    text = text.replace("batch_size=2", "batch_size=size").replace("loader = ", "size = 2\nloader = ", 1)
    found = [r.message for r in notes.find(script_of(text)) if "began with" in r.message]
    assert found
    assert all(("as many rows as a full batch" in message) is is_full for message in found)


DRAWN_EARLY = """\
import random
import numpy as np, pandas as pd
from sklearn.model_selection import train_test_split
import torch
from torch import nn
from torch.utils.data import DataLoader
def train(rows):
    loader = DataLoader(rows, batch_size=2)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
def main(rows, seed):
    {drawn}
    train(rows)
main(list(range(9)), 1)
"""


@pytest.mark.parametrize(
    ("drawn", "is_noted"),
    [
        ("random.shuffle(rows)", True),
        ("seed = random.randint(0, 99); random.seed(seed)", True),
        ("rows = torch.utils.data.random_split(rows, [6, 3])[0]", True),
        ("random.seed(seed); random.shuffle(rows)", False),
        ("rows = np.random.default_rng(seed).permutation(rows)", False),
        ("rows = pd.DataFrame(rows).sample(frac=0.5, random_state=seed)", False),
        ("rows = pd.DataFrame(rows).sample(frac=0.5)", True),
        ("rows = train_test_split(rows, random_state=42)[0]", False),
        ("rows = train_test_split(rows, random_state=None)[0]", True),
        ("model = nn.Linear(4, 1); nn.init.zeros_(model.weight); nn.init.normal_(model.weight)", False),
    ],
)
def test_what_is_drawn_before_the_processes_have_one_random_state(drawn: str, is_noted: bool) -> None:
    found = [n.message for n in run(DRAWN_EARLY.format(drawn=drawn)).notes if "drawn without a seed" in n.message]
    assert len(found) == is_noted
    assert all("`accelify launch` seeds all processes alike, but under `torchrun`" in message for message in found)


@pytest.mark.parametrize(
    ("made", "called", "is_noted"),
    [
        ("{'head': lambda: nn.Linear(4, 1), 'body': lambda: nn.Linear(4, 4)}", "pass", False),
        ("{'head': lambda: nn.Linear(4, 1), 'body': lambda: nn.Linear(4, 4)}", "ways['head']()", False),
        ("{'head': lambda: nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))}", "ways[input()]()", False),
        ("{'rows': lambda: random.sample(range(99), 9)}", "rows = ways['rows']()", True),
    ],
)
def test_a_table_of_lambdas_that_make_layers_draws_nothing_early(made: str, called: str, *, is_noted: bool) -> None:
    table = f"import random\nfrom torch import nn\nways = {made}\n"
    facts = Facts({"main.py": f"from table import ways\n{DRAWN_EARLY.format(drawn=called)}", "table.py": table})
    assert bool([*drawn_early(facts.script)]) == is_noted


@pytest.mark.parametrize(
    ("drawn", "is_noted"),
    [
        ("seed = secrets.randbelow(99); torch.manual_seed(seed)", True),
        ("rows = rows[: os.urandom(1)[0]]", True),
        ("name = uuid.uuid4().hex", False),
        ("name = secrets.token_hex(4)", False),
    ],
)
def test_what_no_seed_repeats(drawn: str, is_noted: bool) -> None:
    messages = [n.message for n in run(f"import os, secrets, uuid\n{DRAWN_EARLY.format(drawn=drawn)}").notes]
    assert sum("from the operating system, which no seed repeats" in message for message in messages) == is_noted
    assert not any("drawn without a seed" in message or "another seed" in message for message in messages)


def test_what_is_drawn_where_the_launcher_seeds_no_process() -> None:
    result = run(DRAWN_EARLY.format(drawn="random.shuffle(rows)"), Options(runtime=ACCELERATE))
    found = [n.message for n in result.notes if "drawn without a seed" in n.message]
    assert found == ["this is drawn without a seed, so each process draws something else: seed all of them alike first"]


SIZE = "size = len(loader) * loader.batch_size\nprint(size)"


@pytest.mark.parametrize(
    ("place", "keep_global_batch", "is_said"),
    [("set_up", False, True), ("end", False, True), ("model", False, True), ("set_up", True, False)],
)
def test_a_size_of_the_data_by_the_length_of_a_prepared_loader(
    place: str, keep_global_batch: bool, is_said: bool
) -> None:
    text = training_script(before="rows = [(torch.randn(4), torch.randn(1))] * 8", **{place: SIZE})
    result = run(text, Options(keep_global_batch=keep_global_batch))
    assert any("size of this process's shard" in n.message for n in result.notes) is is_said


def test_a_size_of_the_data_above_the_preparation() -> None:
    body = "    made = DataLoader(rows, batch_size=2)\n    print(len(made) * 2)\n    return made"
    text = training_script(before="rows = [(torch.randn(4), torch.randn(1))] * 8")
    result = run(text.replace("loader = DataLoader(rows, batch_size=2)", f"def load():\n{body}\nloader = load()"))
    assert not any("size of this process's shard" in n.message for n in result.notes)


STATES = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out, self.scale, self.hidden = nn.GRU(4, 4), nn.Linear(4, 1), 1.0, None
    def forward(self, x):
        out, hidden = self.cell(x, self.hidden)
        {forward}
        return self.out(out) * self.scale
model, k, seen = Net(), 0.0, torch.zeros(1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(rows, batch_size=2):
    out = model(x)
    loss = (out - y).pow(2).mean() + k * out.abs().mean() + seen.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {last}
"""
AVERAGED, CONSECUTIVE = (
    'average it over the processes (`accelerator.reduce(..., "mean")`',
    "does not need consecutive ones",
)


@pytest.mark.parametrize(
    ("slots", "about", "words"),
    [
        ({"last": "k = min(max(k + 0.1 * loss.item(), 0), 1)"}, "`k`", f"{AVERAGED})"),
        ({"last": "k += 0.1 * (loss.item() - 0.5)"}, "`k`", f"{AVERAGED})"),
        ({"last": "seen.data = out.detach().std()[None]"}, "`seen`", f"{AVERAGED})"),
        ({"forward": "self.scale = 0.9 * self.scale + out.detach().mean()"}, "`self.scale`", AVERAGED),
        ({"forward": "self.hidden = hidden.detach()"}, "`self.hidden`", CONSECUTIVE),
        ({"last": "if out.mean() > 0:\n        k = out.mean().item()"}, "`k`", f"{AVERAGED}, where all of them come"),
    ],
)
def test_what_later_losses_are_computed_with(slots: dict[str, str], about: str, words: str) -> None:
    text = STATES.format(**{"forward": "pass", "last": "pass"} | slots)
    found = [r for r in notes.find(Facts(text).script) if AVERAGED in r.message or CONSECUTIVE in r.message]
    assert {r.about for r in found} == {about}
    assert all(words in r.message for r in found)


def test_what_later_losses_are_computed_with_where_batches_are_divided() -> None:
    """A hidden state has then each process's rows of every batch, and a value of all rows differs all the same."""
    forward = "self.scale, self.hidden = out.detach().mean() * self.scale, hidden.detach()"
    result = run(STATES.format(forward=forward, last="pass"), Options(keep_global_batch=True))
    said = [n.message for n in result.notes if AVERAGED in n.message or CONSECUTIVE in n.message]
    assert [AVERAGED in message for message in said] == [True]


KEPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Target(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.zeros(1))
    def forward(self, x):
        out = x - self.center
        self.learn(x)
        return out
    def learn(self, x):
        self.center = 0.9 * self.center + 0.1 * x.detach().mean()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.last = nn.Linear(4, 1), Target()
    def forward(self, x):
        return self.last(self.lin(x))
model, target = {models}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(rows, batch_size=2):
    loss = target(model(x)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ("Net(), nn.Identity()", "all processes go on with the main process's"),
        ("nn.Linear(4, 1), Target()", "only gradients are averaged across processes"),
    ],
)
def test_what_a_forward_pass_keeps_is_said_once(models: str, words: str) -> None:
    result = run(KEPT.format(models=models))
    said = [n.message for n in result.notes if n.rule == "notes"]
    assert len(said) == 1
    assert words in said[0]


OWN_END = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=4)
def go_over(train):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        if train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        elif loss.item() > 9:
            raise ValueError('out of patience')
for epoch in range(9):
    go_over(True)
    {evaluated}
"""


@pytest.mark.parametrize(
    ("evaluated", "is_noted"),
    [
        ("with torch.no_grad():\n        try: go_over(False)\n        except ValueError: continue", False),
        ("with torch.inference_mode():\n        try: go_over(False)\n        except ValueError: print('no')", False),
        ("try: go_over(epoch % 2 == 0)\n    except ValueError: continue", True),
    ],
)
def test_an_error_of_a_pass_without_gradients_leaves_no_step_out(evaluated: str, is_noted: bool) -> None:
    notes = run(OWN_END.format(evaluated=evaluated)).notes
    assert any("a process that fails here" in n.message for n in notes) is is_noted


@pytest.mark.parametrize(
    ("then", "is_said"),
    [
        ("total /= n\nprint(torch.autograd.grad(total, model.weight))", True),
        ("mean = total / n\nmean.backward()\nprint(model.weight.grad.norm())", False),
        ("print(total.item() / n)", False),
    ],
)
def test_a_sum_over_a_shard_that_gradients_are_taken_of(then: str, is_said: bool) -> None:
    add = "total += nn.functional.mse_loss(model(x), y) * len(x)\nn += len(x)\nprint(x)"
    text = training_script(end=f"total, n = 0.0, 0\nfor x, y in loader:\n{indent(add, '    ')}\n{then}")
    said = [note.message for note in run(text).notes if "average these" in note.message]
    assert [each.partition(" covers")[0] for each in said] == (["`total`"] if is_said else [])
