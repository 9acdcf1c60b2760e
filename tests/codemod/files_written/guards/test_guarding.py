"""Facts about statements that one process alone may run: those that write, with what only they need."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files_written.guards.guarding import Guarding
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import script, training

IMPORTS = "import json\nfrom torch.utils.tensorboard import SummaryWriter\n"


def guarding(end: str, **slots: str) -> Guarding:
    found = training(imports=IMPORTS, end=end, **slots).script.written.guarding
    assert isinstance(found, Guarding)
    return found


def runs(end: str, **slots: str) -> list[list[str]]:
    return [texts(run) for run in guarding(end, **slots).runs]


def test_what_writes_with_what_only_it_needs() -> None:
    assert runs("text = json.dumps(a)\nwith open(p, 'w') as f:\n    f.write(text)\nuse()\n") == [
        ["text = json.dumps(a)", "with open(p, 'w') as f:\n    f.write(text)"]
    ]


LATER = "f = open('log.txt', 'w')\nf.write('b')\nf.close()\n"


@pytest.mark.parametrize(
    "first",
    [
        "f = open('a.txt', 'w')\nsize = f.write('a')\nf.close()",
        "with open('a.txt', 'w') as f:\n    size = f.write('a')",
        "with open('a.txt', 'w') as f:\n    size = f.write('a')\nf.close()",
        "f = open('a.txt', 'w')\nsize = f.write('a')",
    ],
)
def test_a_name_of_two_files_of_which_all_processes_write_the_first(first: str) -> None:
    assert runs(f"{first}\nuse(size)\n{LATER}") == [LATER.strip().split("\n")]


@pytest.mark.parametrize(
    "later",
    [
        "if late:\n    f = open('log.txt', 'w')\nf.write('b')\nf.close()\n",
        "def log():\n    f.write('b')\nlog()\nf = open('log.txt', 'w')\nlog()\n",
        "g = f\nf = open('log.txt', 'w')\ng.write('b')\n",
    ],
)
def test_a_name_that_may_be_of_the_file_that_all_processes_write(later: str) -> None:
    assert not any("'b'" in line for run in runs(f"f = open('a.txt', 'w')\nuse(f.write('a'))\n{later}") for line in run)


@pytest.mark.parametrize(
    "given",
    [
        "{str(v): v for v in a}",
        "[v for v in a]",
        "{v for v in [w for w in a]}",
    ],
)
def test_what_is_written_may_be_gone_over_for_it(given: str) -> None:
    line = f"log.add_scalars('a', {given}, 1)"
    assert runs(f"log = SummaryWriter('x')\nv, k = 1, 2\n{line}\nuse(v, k)\n") == [["log = SummaryWriter('x')"], [line]]


@pytest.mark.parametrize(
    "line",
    [
        "log.export_scalars_to_json('all.json')",
        "log.add_custom_scalars_multilinechart(['a', 'b'])",
        "log.add_onnx_graph('net.onnx')",
        "log.of_a_later_version(1)",
    ],
)
def test_any_method_of_a_writer_writes(line: str) -> None:
    assert runs(f"log = SummaryWriter('x')\n{line}\n") == [["log = SummaryWriter('x')", line]]


@pytest.mark.parametrize(
    "line", ["super().__init__(path)", "SummaryWriter.__init__(self, path)", "super(Log, self).__init__(path)"]
)
def test_no_object_is_set_up_on_one_process_alone(line: str) -> None:
    text = f"class Log(SummaryWriter):\n    def __init__(self, path):\n        {line}\nlog = Log('x')\nuse(log)\n"
    found = guarding(text)
    assert (found.runs, texts(found.unguarded)) == ([], [line])


@pytest.mark.parametrize("line", ["folder = log.get_logdir()", "folder = log.of_a_later_version(1)"])
def test_a_value_of_a_writer_is_for_all_processes(line: str) -> None:
    assert runs(f"log = SummaryWriter('x')\n{line}\nuse(folder)\n") == []


@pytest.mark.parametrize(
    ("made", "saved"),
    [
        (
            "import matplotlib.animation as ma\nfilm = ma.FuncAnimation(f, draw)\n",
            "film.save('a.gif', writer='pillow')",
        ),
        ("from matplotlib import animation\nfilm = animation.ArtistAnimation(f, a)\n", "film.save(p)"),
    ],
)
def test_an_animation_is_written_by_one_process(made: str, saved: str) -> None:
    assert [run[-1] for run in runs(f"{made}{saved}\n")] == [saved]


PLOT = ["plt.figure()", "plt.plot(seen)", "plt.show()"]


@pytest.mark.parametrize(
    ("lines", "run"),
    [
        (PLOT, PLOT),  # the other processes would keep a figure of each epoch
        ([*PLOT, "plt.close()"], ["plt.show()"]),
        ([*PLOT[:2], "plt.savefig('a.png')"], ["plt.savefig('a.png')"]),
    ],
)
def test_a_figure_that_is_shown_in_each_epoch(lines: list[str], run: list[str]) -> None:
    slots = {"imports": "import matplotlib.pyplot as plt\n", "before": "seen = []\n"}
    shown = training(end_of_epoch="\n".join(lines), **slots).script.written.guarding.runs
    assert [texts(each) for each in shown] == [run]
    once = training(end="\n".join(lines), **slots).script.written.guarding.runs
    assert [texts(each) for each in once] == [[line for line in lines if "show" in line or "save" in line]]


def test_what_others_read_is_not_for_one_process() -> None:
    assert runs("text = json.dumps(a)\nwith open(p, 'w') as f:\n    f.write(text)\nuse(text)\n") == [
        ["with open(p, 'w') as f:\n    f.write(text)"]
    ]


@pytest.mark.parametrize("end", ["print(1)\n", "use()\n", "x = 1\n", "json.dump(model(x), unknown())\n"])
def test_what_writes_nothing_or_is_not_known(end: str) -> None:
    assert runs(end) == []


def test_what_every_process_writes() -> None:
    found = guarding("value = write(open(p, 'w'))\nuse(value)\n")
    assert texts(found.unguarded) == ["open(p, 'w')"]
    assert guarding("use()\n").unguarded == []


SAVED = """\
with open(p, 'wb') as f:
    buffer = io.BytesIO()
    numpy.savez(buffer, a)
    f.write(buffer.getvalue())
"""


def test_a_buffer_that_is_filled_to_be_written_goes_with_it() -> None:
    end = "import io, numpy\n" + SAVED
    assert runs(end) == [texts(ast.parse(SAVED).body)]


def test_a_buffer_that_others_read_is_filled_by_all() -> None:
    (run,) = runs("import io, numpy\nbuffer = io.BytesIO()\nnumpy.savez(buffer, a)\njson.dump(a, f)\nuse(buffer)\n")
    assert run == ["json.dump(a, f)"]


DUMP = "with open(p, 'w') as f:\n    json.dump(d, f)"


@pytest.mark.parametrize(
    ("made", "reads"),
    [
        ("args = parse()\nd = vars(args)", "args.n"),
        ("args = parse()\nd = args.__dict__", "args.n"),
        ("found = {}\nd = found", "found['n']"),
        ("found = [{}]\nd = found[-1]", "found"),
        ("found = {'n': {}}\nd = found['n']", "found"),
        ("FOUND = {}\ndef options(): return FOUND\nd = options()", "FOUND"),
        ("args = parse()\ne = vars(args)\nd = e", "args.n"),
        ("args = parse()\ndef f(o):\n    return o.__dict__\nd = f(args)", "args.n"),
    ],
)
def test_what_is_added_to_an_object_of_another_name_is_added_by_all(made: str, reads: str) -> None:
    for put in ("d['n'] = 1", "d.update(n=1)"):
        assert runs(f"{made}\n{put}\n{DUMP}\nuse({reads})\n") == [[DUMP]]


@pytest.mark.parametrize(
    "made", ["d = dict(vars(args))", "d = vars(args).copy()", "d = {'args': args}", "d = copy.deepcopy(vars(args))"]
)
def test_what_is_added_to_a_copy_is_written_only(made: str) -> None:
    lines = [made, "d['n'] = 1", DUMP]
    text = "\n".join(["import argparse, copy", "args = argparse.ArgumentParser().parse_args()", *lines, "use(args.n)"])
    assert runs(f"{text}\n") == [lines]


def test_a_file_that_is_none_until_it_is_opened() -> None:
    end = "log = None\nif p:\n    log = open(p, 'w')\nprint(a, file=log)\nlog.flush()\n"
    assert runs(end)[-1][-2:] == ["print(a, file=log)", "log.flush()"]


LOG = """\
class Log:
    def __init__(self, path, resume=False):
        self.numbers = []
        if resume:
            {resumed}
        else:
            self.file = open(path, 'w')
            {begun}
    def append(self, number):
        self.numbers.append(number)
        self.file.write(f'{{number}}')
    def reopen(self, path):
        self.file = open(path, 'a')
"""
READ = "self.file = open(path); self.names = self.file.readline().split(); self.file.close()"
USED = "log = Log('log.txt', resume)\nlog.append(1)\nuse(log.numbers)"


def kept_by_one(resumed: str, begun: str = "pass", end: str = USED, **others: str) -> list[str]:
    """What the main process alone does to the file of an object that all processes have."""
    text = script(before=LOG.format(resumed=resumed.replace("; ", "\n            "), begun=begun), end=end, **others)
    files = {"reopening.py": "def reopen(log):\n    log.reopen('log.txt')\n"}
    if "size(" in end:
        files["sizes.py"] = "def size(log):\n    return log.file.tell()\n"
    found = Facts({"train.py": text, **files}).script.written
    return [line for run in found.guarding.runs for line in texts(run)]


@pytest.mark.parametrize(
    "resumed",
    [
        f"{READ}; self.file = open(path, 'a')",
        f"{READ}; self.reopen(path)",
        "self.file = open(path); self.numbers += self.file.readlines(); self.file = open(path, 'a')",
        "self.file = open(path); self.numbers = [float(n) for n in self.file]; self.file = open(path, 'a')",
    ],
)
def test_a_log_that_is_read_before_one_process_goes_on_to_write_it(resumed: str) -> None:
    found = kept_by_one(resumed)
    assert {"self.file = open(path, 'w')", "self.file = open(path, 'a')", "self.file.write(f'{number}')"} <= {*found}


@pytest.mark.parametrize(
    ("resumed", "begun", "end"),
    [
        (f"{READ}; self.file = open(path, 'a')", "self.names = self.file.tell()", USED),
        ("self.file = open(path); self.reopen(path); self.names = self.file.tell()", "pass", USED),
        ("self.file = open(path); reopen(self); self.names = self.file.tell()", "pass", USED),
        (f"{READ}; self.file = open(path, 'a')", "pass", f"{USED}\nuse(log.file)"),
        (f"{READ}; self.file = open(path, 'a')", "pass", f"{USED}\nsize(log)"),
    ],
)
def test_a_log_of_which_all_processes_may_ask_the_file_that_is_written(resumed: str, begun: str, end: str) -> None:
    imports = "from reopening import reopen\nfrom sizes import size"
    assert not [line for line in kept_by_one(resumed, begun, end, imports=imports) if "open(" in line]


LIBRARY = "import json\ndef keep(d, path):\n    json.dump(d, open(path, 'w'))\n    return json.load(open(path))\n"


@pytest.mark.parametrize(
    ("other", "is_left"),
    [
        ("import library\ndef score(): ...\nif __name__ == '__main__':\n    library.keep({}, 'b')\n", False),
        ("from library import keep\ndef score(): ...\ndef unused():\n    keep({}, 'b')\n", False),
        ("from library import keep\ndef score():\n    return keep({}, 'b')\n", True),
    ],
)
def test_only_calls_that_may_run_write_on_every_process(other: str, is_left: bool) -> None:
    end = "from library import keep\nfrom other import score\nuse(score())\nkeep({'a': 1}, 'a')"
    texts_of = {"main.py": script(end=end), "other.py": other, "library.py": LIBRARY}
    found = Facts(texts_of).script.written.guarding
    assert any(texts([call])[0].startswith("open(path") for call in found.unguarded) is is_left


@pytest.mark.parametrize(
    ("question", "is_asked"),
    [
        ("if writer:", True),
        ("if writer is not None:", True),
        ("if rows and writer is not None:", True),
        ("if rows:", False),
        ("if writer or rows:", False),
    ],
)
def test_the_question_for_a_writer_that_only_the_main_process_has(question: str, is_asked: bool) -> None:
    log = f"def log(rows, writer=None):\n    {question}\n        writer.add_scalar('n', 1)\n        writer.flush()\n"
    found = guarding("writer = SummaryWriter('runs')\nlog([1], writer)\n", before=log)
    (run,) = (r for r in found.runs if "add_scalar" in texts(r)[0])
    assert found.asks_for_writer(run) is is_asked


@pytest.mark.parametrize(
    ("imported", "found"),
    [
        ("writer = SummaryWriter()", ["SummaryWriter()"]),
        ("log = open('log.txt', 'w')", ["open('log.txt', 'w')"]),
        ("if __name__ == '__main__':\n    writer = SummaryWriter()", []),
        ("def make():\n    return SummaryWriter()", []),
    ],
)
def test_what_the_import_of_another_file_writes(imported: str, found: list[str]) -> None:
    files = {"train.py": script(imports="import settings"), "settings.py": f"{IMPORTS}{imported}\n"}
    assert texts(Facts(files).script.written.guarding.unguarded) == found


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("for f in glob.glob('*.log'):\n    os.remove(f)", "with open('x') as f:\n    y = f.read()\nprint(y)"),
        ("for f in glob.glob('*.log'):\n    os.remove(f)", "with open('x', 'a') as f:\n    f.write('y')"),
        ("with open('x', 'w') as f:\n    f.write('y')", "for f in names:\n    use(f)"),
    ],
)
def test_one_name_for_several_things(first: str, second: str) -> None:
    code = f"import glob, os\nfrom names import names, use\n{first}\n{second}"
    facts = training(before="rows = torch.ones(8, 2, 1)", set_up=code)
    tops = [ast.unparse(s) for run in facts.script.written.guarding.runs for s in run]
    assert first in tops


FILE = "h = logging.FileHandler('a.log')\n"


@pytest.mark.parametrize(
    ("lines", "run"),
    [
        (
            f"{FILE}h.setFormatter(form)\nlog.addHandler(h)\ns = logging.StreamHandler()\nlog.addHandler(s)\n",
            ["h = logging.FileHandler('a.log')", "h.setFormatter(form)", "log.addHandler(h)"],
        ),
        ("log.addHandler(logging.FileHandler('a.log'))\n", ["log.addHandler(logging.FileHandler('a.log'))"]),
        (
            "all = [logging.StreamHandler(), logging.FileHandler('a.log')]\nlogging.basicConfig(handlers=all)\n",
            ["all = [logging.StreamHandler(), logging.FileHandler('a.log')]", "logging.basicConfig(handlers=all)"],
        ),
        (f"{FILE}log.addHandler(h)\nuse(h)\n", None),
        (f"{FILE}log.addHandler(h)\nlog.handlers[0].setLevel(10)\n", None),
        ("log.addHandler(logging.StreamHandler())\n", None),
    ],
)
def test_a_log_has_its_file_in_one_process_and_its_console_in_all(lines: str, run: list[str] | None) -> None:
    begin = "import logging\nlog = logging.getLogger('a')\nform = logging.Formatter('%(message)s')\nuse(form)\n"
    assert runs(begin + lines + "log.info('done')\n") == ([run] if run else [])


CALLBACKS = """
class Callback:
    def begin(self): pass
class Seen(Callback):
    def begin(self):
        self.seen = 0
    def end(self):
        self.seen += 1
class Log(Callback):
    def begin(self):
        self.file = open(self.name, self.mode)
class All:
    def __init__(self, callbacks):
        self.callbacks = callbacks
    def begin(self):
        for callback in self.callbacks:
            callback.begin()
"""
FIT = """
from callbacks import All
def fit(model, optimizer, loader, callbacks):
    {}
    for x, y in loader:
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
"""
FITTED = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from callbacks import Log, Seen
from fit import fit
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fit(model, optimizer, DataLoader(load(), batch_size=4), [Seen(), Log()])
"""


@pytest.mark.parametrize(
    "begin",
    [
        "callbacks = All(callbacks)\n    callbacks.begin()",
        "callbacks = All([Seen(), *(callbacks or [])])\n    callbacks.begin()",
        "every = All(callbacks)\n    every.begin()",
    ],
)
def test_the_callbacks_that_set_themselves_up_where_one_of_them_opens_a_file(begin: str) -> None:
    facts = Facts({"main.py": FITTED, "fit.py": FIT.format(begin), "callbacks.py": CALLBACKS})
    guarding = facts.script.written.guarding
    assert [texts(run) for run in guarding.runs] == [["self.file = open(self.name, self.mode)"]]


KEPT = """\
import os, shutil, time, torch
from torch.utils.data import DataLoader
out = "runs"
def keep(state, is_best, folder):
    last = os.path.join(folder, "last.pt")
    torch.save(state, {path})
    {copy}
def train(rows):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for x in DataLoader(rows):
            loss = model(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        keep(model.state_dict(), epoch > 1, "%s/%s" % (out, time.strftime("%d%H%M")))
def test(path):
    print(torch.load(path))
if options.train:
    train(options.rows)
if options.test:
    test(options.path)
"""


@pytest.mark.parametrize(
    ("path", "copy", "run"),
    [
        ("last", "if is_best: shutil.copyfile(last, folder + '/best.pt')", True),
        ("last", "shutil.copy(last, os.path.join(folder, 'best.pt'))", True),
        ("folder + '/a.pt'", "shutil.copy2(folder + '/a.pt', folder + '/b.pt')", True),
        ("last", "shutil.copyfile(folder + '/settings.pt', folder + '/best.pt')", False),  # which all processes find
    ],
)
def test_what_one_process_has_saved_is_copied_by_that_one(path: str, copy: str, run: bool) -> None:
    found = Facts(KEPT.format(path=path, copy=copy)).script.written.guarding.runs
    assert [ast.unparse(s) for r in found for s in r] == ([ast.unparse(ast.parse(copy))] if run else [])
