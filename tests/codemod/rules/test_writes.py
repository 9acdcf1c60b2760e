"""What one process writes, it alone renames, copies, removes and looks at; a file is opened and written by the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.result import Status
from tests.codemod.pairs import run, script
from tests.codemod.test_importers import rewritten
from tests.codemod.training_scripts import script as training_script

IMPORTS = "import csv, io, os, shutil\nfrom pathlib import Path\nimport matplotlib.pyplot as plt\nimport numpy as np"
SAVED = "path = 'last.pt'\ntorch.save(model.state_dict(), path)\n"
GUARD = "if accelerator.is_main_process:"


def end(text: str) -> str:
    """What the end of a script comes out as."""
    result = run(script(imports=IMPORTS, end=text))
    assert result.status is Status.MIGRATED
    return result.after.decode().partition("print(device, use_cuda)\n")[2].strip()


def guarded(*lines: str) -> str:
    return "\n".join([GUARD, *(f"    {line}" for line in lines)])


@pytest.mark.parametrize(
    "line",
    [
        "os.replace(path, 'best.pt')",
        "os.rename(path, 'best.pt')",
        "Path(path).rename('best.pt')",
        "shutil.copy(path, 'best.pt')",
        "shutil.move(path, 'best.pt')",
        "os.remove(path)",
        "Path(path).unlink()",
        "print(os.path.getsize(path))",
        "print(os.stat(path).st_size)",
        "print(Path(path).stat().st_size)",
    ],
)
def test_what_was_saved_is_handled_by_the_process_that_saved_it(line: str) -> None:
    saved = SAVED.replace("torch.save", "accelerator.save").strip()
    assert end(SAVED + line) == f"{saved}\n{guarded(line)}"


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("shutil.copy(path, 'best.pt'); use(1)", (guarded("shutil.copy(path, 'best.pt')"), "use(1)")),
        ("use(1); os.remove(path)", ("use(1)", guarded("os.remove(path)"))),
        (
            "best = 1; os.rename(path, 'a'); os.remove('a'); use(1)  # kept",
            ("best = 1", guarded("os.rename(path, 'a')", "os.remove('a')"), "use(1)  # kept"),
        ),
        ("while best > 5: best -= 1; os.remove(path)", ("while best > 5:", "best -= 1", guarded("os.remove(path)"))),
        ("while best: os.remove(best.pop(0))", ("while best:", "removed = best.pop(0)", guarded("os.remove(removed)"))),
        (
            "try: os.remove(path)\nexcept OSError: best = 1",
            ("try:", guarded("os.remove(path)"), "except OSError: best = 1"),
        ),
    ],
)
def test_what_was_saved_is_handled_so_on_a_line_with_what_is_for_all(line: str, after: tuple[str, ...]) -> None:
    lines = end(f"best = []\n{SAVED}{line}\nprint(best)").partition("path)\n")[2].split("\n")
    assert [text.strip() for text in lines] == [*(t.strip() for text in after for t in text.split("\n")), "print(best)"]


@pytest.mark.parametrize("line", ["best = 1; use(path)", "while use(): best = 1; use(best)"])
def test_a_line_that_writes_nothing_stays_as_it_is(line: str) -> None:
    assert end(f"{SAVED}{line}").endswith(line)


@pytest.mark.parametrize(
    "line",
    [
        "shutil.copytree('src', 'code', ignore=shutil.ignore_patterns('*.pyc'))",
        "shutil.copytree('src', 'code', False, shutil.ignore_patterns('*.pyc'))",
        "open('width.txt', 'w').write('-' * shutil.get_terminal_size().columns)",
        "open('level.txt', 'w').write(logging.getLevelName(10))",
    ],
)
def test_what_is_made_of_nothing_but_its_arguments_is_written_once(line: str) -> None:
    assert end(f"import logging\n{line}") == f"import logging\n{guarded(line)}"


@pytest.mark.parametrize(
    "made", ["torch.jit.script(model)", "torch.jit.trace(model, torch.ones(2, 4))", "torch.jit.script(Net())"]
)
def test_a_model_that_writes_itself_is_written_once(made: str) -> None:
    own = "class Net(nn.Module):\n    def forward(self, x):\n        return x\n"
    text = end(f"{own}model = Net()\nmodel = {made}\nmodel.save('last.pt')")
    assert f"{GUARD}\n" in text
    assert text.endswith("    model.save('last.pt')")


@pytest.mark.parametrize(
    "lines",
    [
        ("size = os.path.getsize(path) / 1e6", "print(f'{size:.1f} MB')"),
        ("size = Path(path).stat().st_size", "print(size)"),
    ],
)
def test_what_is_printed_of_it_goes_with_it(lines: tuple[str, str]) -> None:
    assert end(SAVED + "\n".join(lines)).endswith(guarded(*lines))


def test_settings_are_written_once() -> None:
    written = ("settings = configparser.ConfigParser()", "with open('a.ini', 'w') as f:", "    settings.write(f)")
    after = run(script(imports="import configparser", end="\n".join(written))).after.decode()
    assert after.strip().endswith(guarded(*written))


def test_an_environment_that_writes_what_happens_in_it_is_noted() -> None:
    made = "env = bench.Monitor(gym.make('CartPole-v1'), 'cart')\nenv.reset()"
    result = run(script(imports="import gym\nfrom baselines import bench", before=made))
    assert [n.message for n in result.notes if n.rule == "writes" and "process_index` into the path" in n.message]


TRACKED = "import comet_ml\nimport mlflow\nimport wandb\nfrom PIL import Image"


@pytest.mark.parametrize(
    "lines",
    [
        ("art = wandb.Artifact('m', type='model')", "art.add_file(path)", "wandb.log_artifact(art)"),
        ("wandb.save(path)",),
        ("mlflow.log_artifact(path)",),
        ("experiment.log_model('m', path)",),
    ],
)
def test_what_was_saved_is_handed_to_a_tracker_by_the_process_that_saved_it(lines: tuple[str, ...]) -> None:
    begun = "experiment = comet_ml.Experiment()\n"
    after = run(script(imports=TRACKED, end=begun + SAVED + "\n".join(lines))).after.decode()
    assert after.strip().endswith(guarded(*lines))


@pytest.mark.parametrize("kind", ["Image", "Video"])
def test_a_picture_read_by_a_tracker_goes_with_what_writes_it(kind: str) -> None:
    written = "Image.new('RGB', (8, 8)).save('seen.jpg')"
    seen = f"wandb.log({{'seen': wandb.{kind}('seen.jpg')}})"
    own = f"def keep(path):\n    {written.replace(repr('seen.jpg'), 'path')}\n"
    assert (
        run(script(imports=TRACKED, end=f"{written}\n{seen}")).after.decode().strip().endswith(guarded(written, seen))
    )
    after = run(script(imports=TRACKED, before=own, end=f"keep('seen.jpg')\n{seen}")).after.decode().strip()
    assert after.endswith(f"keep('seen.jpg')\n{guarded(seen)}")
    shown = f"wandb.log({{'seen': wandb.{kind}(picture)}})"
    after = run(script(imports=TRACKED, end=f"picture = open('a').read()\n{written}\n{shown}")).after.decode().strip()
    assert after.endswith(f"{guarded(written)}\n{shown}")


@pytest.mark.parametrize("shown", ["Image('all.gif')", "Image(filename='all.gif')", "Video('all.gif')"])
def test_what_a_notebook_shows_is_waited_for_and_shown_by_all(shown: str) -> None:
    imports = "import imageio\nfrom IPython.display import Audio, HTML, Image, Video"
    written = "imageio.mimsave('all.gif', [])"
    after = run(script(imports=imports, end=f"{written}\n{shown}\n")).after.decode()
    assert f"{guarded(written)}\naccelerator.wait_for_everyone()\n{shown}\n" in after
    assert "wait_for" not in run(script(imports=imports, end=f"{written}\nHTML('<b>all</b>')\n")).after.decode()


@pytest.mark.parametrize(
    ("imports", "drawn", "is_guarded"),
    [
        ("import plotly", "plotly.offline.plot({'data': []}, filename='curve.html', auto_open=False)", True),
        ("from plotly.offline import plot", "plot({'data': []}, filename='curve.html')", True),
        ("import plotly.offline as py", "py.plot({'data': []})", True),
        ("from plotly.graph_objs import Scatter", "lines = Scatter(x=[1], y=[2])", False),
    ],
)
def test_pages_that_plotly_writes(imports: str, drawn: str, is_guarded: bool) -> None:
    after = run(script(imports=imports, end=f"{drawn}\nprint(1)\n")).after.decode()
    assert (guarded(drawn) in after) is is_guarded


@pytest.mark.parametrize("shown", ["dp(rows.head())", "dp(rows.groupby('user').count().head())", "dp('done')"])
def test_every_process_displays_a_value_as_it_prints_one(shown: str) -> None:
    imports = "import pandas as pd\nfrom IPython.display import display as dp"
    result = run(script(imports=imports, before="rows = pd.read_csv('rows.csv')", end=shown))
    assert result.after.decode().endswith(f"\n{shown}\n")
    assert not any(n.rule == "writes" for n in result.notes)
    figure = "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()"
    assert f"{GUARD}\n" in run(script(imports=imports, end=f"{figure}\n{shown}")).after.decode()


def test_what_others_need_of_it_is_waited_for() -> None:
    after = end(SAVED + "if os.path.getsize(path) > 10:\n    optimizer.param_groups[0]['lr'] *= 2")
    assert "accelerator.wait_for_everyone()\nif os.path.getsize(path) > 10:" in after


def test_a_question_before_it_is_written_is_everybodys() -> None:
    text = "print(os.path.exists('last.pt'))\nnp.save('last.pt', np.zeros(3))"
    assert end(text) == "print(os.path.exists('last.pt'))\n" + guarded("np.save('last.pt', np.zeros(3))")


@pytest.mark.parametrize(
    "text",
    [
        "f = open('rows.csv', 'w')\nw = csv.writer(f)\nw.writerow(['a'])\nf.close()",
        "with open('rows.csv', 'w') as f:\n    w = csv.DictWriter(f, ['a'])\n    w.writeheader()",
        "f = Path('rows.csv').open('w')\nprint('a', file=f)\nf.close()",
    ],
)
def test_a_file_is_opened_by_the_process_that_writes_it(text: str) -> None:
    assert end(text) == guarded(*text.split("\n"))


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        # what is written is drawn by all processes
        (
            "f = open('log.txt', 'a')\nfor x, y in loader:\n    f.write(str(torch.rand(1)))\nf.close()",
            "f = open('log.txt' if accelerator.is_main_process else os.devnull, 'a')",
        ),
        (
            "with open('log.txt', 'w') as f:\n    w = csv.writer(f)\n    w.writerow(['a'])\n    for x, y in loader:\n"
            "        w.writerow([torch.rand(1)])",
            "with open('log.txt' if accelerator.is_main_process else os.devnull, 'w') as f:",
        ),
        (
            "class Log:\n    def __init__(self, path):\n        self.file = open(path, mode='w')\n"
            "        self.writer = csv.writer(self.file)\n    def add(self, row):\n        self.writer.writerow(row)\n"
            "    def close(self):\n        self.file.close()\nlog = Log('a.csv')\nlog.add([1])\nlog.close()",
            "self.file = open(path if accelerator.is_main_process else os.devnull, mode='w')",
        ),
    ],
)
def test_a_file_that_all_open_is_nowhere_in_the_other_processes(text: str, opened: str) -> None:
    result = run(script(imports=IMPORTS, end=text))
    after = result.after.decode()
    assert GUARD not in after
    assert opened in after
    assert not any(note.rule == "writes" for note in result.notes)


@pytest.mark.parametrize(
    "text",
    [
        "f = open('log.txt', 'a')\nfor x, y in loader:\n    f.write(str(torch.rand(1)))\n    use(f.tell())\nf.close()",
        "f = open('log.txt', 'r+')\nfor x, y in loader:\n    f.write(str(torch.rand(1)))\nf.close()",
    ],
)
def test_a_file_that_all_open_is_written_and_closed_by_all(text: str) -> None:
    result = run(script(imports=IMPORTS, end=text))
    assert GUARD not in result.after.decode()
    assert any("every process writes this" in note.message for note in result.notes)


@pytest.mark.parametrize(
    "text",
    [
        "b = io.BytesIO()\nplt.savefig(b)\nb.seek(0)\nprint(len(b.getvalue()))",
        "b = io.BytesIO()\nnp.save(b, np.zeros(3))\nprint(b.getvalue())",
        "b = io.BytesIO()\nplt.savefig(b, format='jpeg')\nprint(b.getvalue())",
        "b = io.BytesIO()\ntorch.save(model.state_dict(), b)\nprint(b.getvalue())",
    ],
)
def test_what_is_written_to_memory_is_read_by_all(text: str) -> None:
    assert end(text) == text


WAIT = "accelerator.wait_for_everyone()"


@pytest.mark.parametrize(
    "removed", ["os.remove(path)", "Path(path).unlink()", "os.rename(path, 'old')", "shutil.move(path, 'old')"]
)
def test_what_all_have_read_is_removed_when_all_are_done(removed: str) -> None:
    after = end(f"{SAVED}model.load_state_dict(torch.load(path))\n{removed}")
    assert after.endswith(f"torch.load(path, map_location=accelerator.device))\n{WAIT}\n{guarded(removed)}")


@pytest.mark.parametrize(
    "read",
    [
        "def save(d):\n    p = os.path.join(d, 'a.npy')\n    np.save(p, [1])\n    return p\ndata = np.load(save('d'))",
        "def to(d):\n    return d + '/a.npy'\nnp.save(to('d'), [1])\ndata = np.load(to('d'))",
        "def to(d):\n    return f'{d}/a.npy'\np = to('d')\nnp.save(p, [1])\ndata = np.load(Path('d') / 'a.npy')",
    ],
)
def test_a_path_that_a_function_returns_is_followed(read: str) -> None:
    assert WAIT in end(f"{read}\nprint(data)\nmodel.scale = data")


@pytest.mark.parametrize(
    "fetched",
    ["urllib.request.urlretrieve('http://x', 'a')", "gdown.download('http://x', 'a')", "wget.download('http://x')"],
)
def test_one_process_fetches_and_the_others_wait(fetched: str) -> None:
    result = run(script(imports="import gdown, wget, urllib.request", end=f"{fetched}\ndata = open('b').read()"))
    assert f"{guarded(fetched)}\n{WAIT}\ndata = " in result.after.decode()


@pytest.mark.parametrize("test", ["os.path.exists('c.npy')", "os.path.isfile('c.npy')", "Path('c.npy').exists()"])
def test_a_cache_is_made_by_one_process_and_read_by_the_others(test: str) -> None:
    cache = f"if {test}:\n    data = np.load('c.npy')\nelse:\n    data = [1]\n    np.save('c.npy', data)"
    inside = "\n".join(f"    {line}" for line in cache.split("\n"))
    assert end(f"{cache}\nprint(data)") == f"with accelerator.main_process_first():\n{inside}\nprint(data)"


@pytest.mark.parametrize("name", ["np.save('t.npy', x)", "np.savetxt('t.npy', x)", "open('t.npy', 'w').write('x')"])
def test_a_scratch_file_of_each_process_is_noted(name: str) -> None:
    result = run(script(imports=IMPORTS, batch=f"{name}\nz = np.load('t.npy')\nmodel.z = z"))
    assert any("its own file" in n.message for n in result.notes)


@pytest.mark.parametrize("made", ["TemporaryFile()", "NamedTemporaryFile('w')", "SpooledTemporaryFile()"])
def test_a_file_that_is_the_process_s_own_is_no_trouble(made: str) -> None:
    result = run(script(imports="import tempfile", batch=f"with tempfile.{made} as f:\n    f.write('x')"))
    assert "is_main_process" not in result.after.decode()
    assert not any(n.rule == "writes" for n in result.notes)


@pytest.mark.parametrize("now", ["time.strftime('%H')", "datetime.now().strftime('%H')", "uuid.uuid4().hex"])
def test_a_file_named_for_the_time_is_one_for_all_that_read_it(now: str) -> None:
    imports = "import time, uuid\nfrom datetime import datetime"
    text = "torch.save(model.state_dict(), path)\nmodel.load_state_dict(torch.load(path))"
    result = run(script(imports=imports, before=f"path = 'm' + {now}", end=text))
    assert "path = 'm' + accelerator.broadcast_object_list([" in result.after.decode()


ASKS = "import os, subprocess"


@pytest.mark.parametrize(
    "line",
    [
        "print(subprocess.check_output(['git', 'rev-parse', 'HEAD']))",
        "version = subprocess.run(['git', 'describe'], capture_output=True).stdout",
        "host = subprocess.getoutput('hostname')",
    ],
)
def test_a_command_that_is_run_for_its_output_writes_nothing(line: str) -> None:
    assert not [n for n in run(script(imports=ASKS, end=line)).notes if n.rule == "writes"]


@pytest.mark.parametrize("line", ["os.system('make')", "subprocess.run(['make'])", "subprocess.call(['make'])"])
def test_other_commands_are_run_by_every_process(line: str) -> None:
    (note,) = (n for n in run(script(imports=ASKS, end=line)).notes if n.rule == "writes")
    assert "every process runs this command" in note.message
    assert "`accelerator.wait_for_everyone()` before another process reads what it makes)" in note.message


@pytest.mark.parametrize(
    ("lines", "guarded"),
    [
        ("p = subprocess.Popen('make all'.split(), stdout=subprocess.PIPE)\np.communicate()", "it, and what uses `p`,"),
        ("subprocess.Popen(['make'], stdout=subprocess.PIPE).communicate()", "it"),
        ("subprocess.run(['make'], stdout=subprocess.DEVNULL)", "it"),
        ("subprocess.check_output(['make'])", "it"),
        ("p = subprocess.Popen(['make'])\np.wait()\nprint(p.returncode)", "it, and what uses `p`,"),
    ],
)
def test_a_command_is_noted_whose_output_nothing_reads(lines: str, guarded: str) -> None:
    (note,) = (n for n in run(script(imports=ASKS, end=lines)).notes if n.rule == "writes")
    assert f"runs this command; to write once, guard {guarded} with `if accelerator.is_main_process:`" in note.message


def test_a_worker_that_the_loop_talks_to_is_each_process_s_own() -> None:
    worker = "worker = subprocess.Popen(['./score'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)"
    batch = "worker.stdin.write(b'1')\nscore = float(worker.stdout.readline())"
    assert not [n for n in run(script(imports=ASKS, before=worker, batch=batch)).notes if n.rule == "writes"]


_WRITTEN = "with open('out/a.txt', 'w') as f:\n    f.write('1')\n"


@pytest.mark.parametrize(
    ("before", "line", "waits"),
    [
        ("", "os.system('perl score.pl out/a.txt > b.txt')", True),
        ("", "os.system('perl score.pl <out/a.txt')", True),
        ("name = 'out/a.txt'\n", "os.system(f'perl score.pl {name}')", True),
        ("", "found = subprocess.check_output(['perl', 'score.pl', 'out/a.txt'])", True),
        ("", "found = float(subprocess.getoutput('perl score.pl --of=out/a.txt'))", True),
        ("", "os.system('perl score.pl b.txt')", False),
        ("", "os.system('clear')", False),
    ],
)
def test_a_command_waits_for_the_file_that_it_is_given(before: str, line: str, waits: bool) -> None:
    lines = end(f"import subprocess\n{_WRITTEN}{before}{line}").splitlines()
    assert (lines[lines.index(line) - 1] == "accelerator.wait_for_everyone()") is waits


def test_what_a_command_has_made_is_waited_for_as_well() -> None:
    command = "os.system('perl score.pl out/a.txt > b.txt')"
    lines = end(f"{_WRITTEN}{command}\nscore = float(open('b.txt').read())\nmodel.scale = score").splitlines()
    wait = "accelerator.wait_for_everyone()"
    assert lines[-5:] == [wait, command, wait, "score = float(open('b.txt').read())", "model.scale = score"]


def test_tensors_that_are_kept_for_the_backward_pass_are_no_file() -> None:
    forward = "@staticmethod\n    def forward(ctx, x):\n        {}\n        return x"
    text = f"class Double(torch.autograd.Function):\n    {forward}"
    saved, written = (text.format(f"ctx.{name}(x)") for name in ("save_for_backward", "save_for_later"))
    assert not [n for n in run(script(imports=saved, end="Double.apply(x)")).notes if n.rule == "writes"]
    assert [n for n in run(script(imports=written, end="Double.apply(x)")).notes if n.rule == "writes"]


@pytest.mark.parametrize(
    ("drawn", "shown"),
    [
        ("fig, ax = plt.subplots()\nax.plot([1, 2])", "fig.savefig('a.png')"),
        ("plt.figure()\nname = 'a.png'\nplt.plot([1, 2])", "plt.savefig(name)"),
        ("fig = plt.figure()\nfig.gca().set_title('x')", "plt.show()"),
    ],
)
def test_a_plot_is_drawn_by_all_and_written_by_one(drawn: str, shown: str) -> None:
    assert end(f"{drawn}\n{shown}\nplt.close()") == f"{drawn}\n{guarded(shown)}\nplt.close()"


@pytest.mark.parametrize("close", ["plt.close('all')", "plt.close()", "plt.clf()"])
@pytest.mark.parametrize("shown", ["plt.show()", "plt.savefig('a.png')"])
def test_a_plot_that_all_have_drawn_is_closed_by_all(shown: str, close: str) -> None:
    drawn = "plt.plot(model(torch.zeros(4)).item())"
    text = f"if len(rows) > 3:\n    {shown}\nelse:\n    {close}"
    alone = f"if len(rows) > 3:\n    {GUARD}\n        {shown}\nelse:\n    {close}"
    assert end(f"rows = [1]\n{drawn}\n{text}").endswith(alone)


def test_a_plot_that_one_has_drawn_is_closed_by_it() -> None:
    text = "for k in range(3):\n    plt.plot([k])\n    if k:\n        plt.show()\n    else:\n        plt.close()"
    assert GUARD not in end(text).partition("plt.plot")[2]


LOGGED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
loader = DataLoader(torch.randn(8, 4), batch_size=2)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def evaluate(step, logger=None):
    if logger is not None:
        logger.add_scalar("step", step)
        return None
    return str(step)
def main():
    {made}
    for x in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print({read})
main()
"""


@pytest.mark.parametrize(
    ("made", "read", "kept"),
    [
        ("log = SummaryWriter('val')", "evaluate(1, log)", "`log`"),
        ("log = other = SummaryWriter('val')", "evaluate(1, logger=other)", "`other`"),
        ("log, n = SummaryWriter('val'), 1", "evaluate(1, log)", None),
        ("pass", "evaluate(1, SummaryWriter('val'))", None),
    ],
)
def test_what_all_processes_read_is_not_to_be_made_by_one_alone(made: str, read: str, kept: str | None) -> None:
    result = run(LOGGED.format(made=made, read=read))
    (note,) = (n.message for n in result.notes if n.rule == "writes")
    assert "; to write once, guard it with `if " in note
    assert (f"(make {kept} `None` in the other processes" in note) is (kept is not None)
    assert kept or note.endswith(".is_main_process:`")


@pytest.mark.parametrize(
    "lines",
    [
        ("with zipfile.ZipFile('a.zip', 'r') as archive:", "    archive.extractall('data')"),
        ("tarfile.open('a.tar').extractall('data')",),
        ("frames = [Image.open(path) for path in paths]", "frames[0].save(fp='a.gif', append_images=frames[1:])"),
        ("frames = {path: Image.open(path) for path in paths}", "frames['a'].save('a.gif')"),
    ],
)
def test_what_is_unpacked_or_kept_in_a_list_is_written_once(lines: tuple[str, ...]) -> None:
    imports = "import tarfile, zipfile\nfrom PIL import Image\npaths = ['a', 'b']"
    after = run(script(imports=imports, end="\n".join(lines))).after.decode()
    assert guarded(*lines) in after


ROWS = "class Rows:\n    def __init__(self, folder):\n        self.all = list(Path(folder).glob('*'))\n"
WRITTEN = "for i in range(4):\n    np.save(f'parts/{i}.npy', np.zeros(i))\n"
REMOVED = "def clean(top):\n    for folder, _, files in os.walk(top):\n        for f in files:\n"
REMOVED += "            os.remove(os.path.join(folder, f))\nclean('./parts')\n"
WRITTEN_ELSEWHERE = "def store():\n    for i in range(4):\n        np.save(f'parts/{i}.npy', np.zeros(i))\nstore()\n"


@pytest.mark.parametrize("written", [WRITTEN, WRITTEN_ELSEWHERE, REMOVED])
@pytest.mark.parametrize(
    ("listed", "waits_at"),
    [
        ("rows = [np.load(p) for p in Path('parts').iterdir()]", "rows ="),
        ("def stored(folder):\n    return os.listdir(folder)\nrows = stored('parts')", "rows ="),
        (f"{ROWS}rows = Rows('parts').all", "rows ="),
        ("rows = os.listdir('other')", None),
        (
            "try:\n    check()\nexcept RuntimeError:\n    print(os.listdir('parts'))\n    raise",
            None,
        ),  # one may be alone
    ],
)
def test_files_are_listed_once_all_are_written(written: str, listed: str, waits_at: str | None) -> None:
    after = end(f"{written}{listed}\noptimizer.param_groups[0]['lr'] *= len(rows)")
    assert GUARD in after
    assert after.count("accelerator.wait_for_everyone()") == (waits_at is not None)
    assert f"accelerator.wait_for_everyone()\n{waits_at}" in after or waits_at is None


MAIN = """\
import json, os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def rows():
    with open('a.json') as f:
        return json.load(f)
def measure(loader):
    total = [x.sum().item() for x, in loader]
    with open('b.json', 'w') as f:
        json.dump(total, f)
def main():
    with open('a.json', 'w') as f:
        json.dump([1], f)
    kept = rows()
    loader = DataLoader(TensorDataset(torch.randn(len(kept), 4)), batch_size=2)
    measure(loader)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
main()
"""


def test_a_function_without_the_accelerator_is_waited_for_and_guarded_where_it_is_called() -> None:
    after = run(MAIN).after.decode()
    assert "        json.dump([1], f)\n    accelerator.wait_for_everyone()\n    kept = rows()\n" in after
    assert "\n    measure(loader)\n" in after  # which goes over a shard: no process may do so alone


def test_a_command_in_such_a_function_is_waited_for_where_it_is_called() -> None:
    command = "os.system('./score a.json')\n    return [1]"
    after = run(MAIN.replace("with open('a.json') as f:\n        return json.load(f)", command)).after.decode()
    assert "        json.dump([1], f)\n    accelerator.wait_for_everyone()\n    kept = rows()\n" in after


TEMPORARY = """\
import os, shutil, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def rows():
{body}
    return TensorDataset(torch.randn(8, 4))
def main():
    loader = DataLoader(rows(), batch_size=2)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
main()
"""
OPENED = "    with open('rows.tmp', 'w') as f:\n        f.write('1')\n    k = open('rows.tmp').read()\n    assert k"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (f"{OPENED}\n    os.remove('rows.tmp')", ["`open`, `write`, `remove`"]),
        (f"{OPENED}\n    os.unlink('rows.tmp')", ["`open`, `write`, `unlink`"]),
        (f"{OPENED}\n    os.remove('rows.tmp')\n    open('log', 'w').write(k)", ["`open`, `write`, `remove`"]),
        (OPENED, []),
        (f"{OPENED}\n    os.remove('older.tmp')", []),
        (f"    if os.path.exists('rows.tmp'):\n        os.remove('rows.tmp')\n{OPENED}", []),
        (f"{OPENED}\n    os.replace('rows.tmp', 'rows')", []),
    ],
)
def test_a_file_that_is_written_and_removed_again_needs_a_path_for_each_process(body: str, named: list[str]) -> None:
    notes = [n.message for n in run(TEMPORARY.format(body=body)).notes if n.rule == "writes"]
    assert [n.partition(": ")[0] for n in notes if "process_index` into its path" in n] == named
    assert len(notes) == 1


def test_a_temporary_file_that_nobody_else_reads_is_written_and_removed_by_one_process() -> None:
    body = f"{OPENED}\n    os.remove('rows.tmp')\n    open('log', 'w').write(k)".replace("    assert k\n", "")
    result = run(TEMPORARY.format(body=body))
    guarded = "    if accelify.runtime.PartialState().is_main_process:\n        with open('rows.tmp', 'w') as f:\n"
    assert guarded in result.after.decode()
    assert "        os.remove('rows.tmp')\n        open('log', 'w').write(k)\n" in result.after.decode()
    assert not [n for n in result.notes if n.rule == "writes"]


def test_what_records_an_environment_of_each_process_wants_a_path_of_its_own() -> None:
    imports = "import gym\nfrom gym.wrappers import Monitor\nenv = Monitor(gym.make('a'), 'video')"
    (note,) = (n.message for n in run(script(imports=imports, end="env.reset()")).notes if n.rule == "writes")
    assert note == "`Monitor`: every process writes this: put `accelerator.process_index` into the path"


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("shapes.save(x, 'a.png')", "`save`"),
        ("shapes.Recorder('out').write_results(1)", "`write_results`"),
        ("shapes.plot_losses([1], 'loss.png')", "`plot_losses`"),
        ("recorder = shapes.Recorder()\nrecorder.exportAll()\nrecorder.save()", "`exportAll`, `save`"),
        ("shapes.plot_losses([1])", None),
        ("x = shapes.load('a.png')", None),
        ("shapes.savings(3)", None),
        ("print('config: ' + shapes.Config().to_json_string())", None),
        ("print(shapes.load('a.json').to_json_str())", None),
        ("shapes.Config().to_json_file('a.json')", "`to_json_file`"),
        ("shapes.Config().to_json_strings('a.json')", "`to_json_strings`"),
        ("import io\ns = io.BytesIO()\nshapes.toimage(x).save(s, format='png')", None),
        ("from io import StringIO\nshapes.to_text(x).write_to(file=StringIO())", None),
        ("import io\ns = io.BytesIO() if last else 'a.png'\nshapes.toimage(x).save(s)", "`save`"),
    ],
)
def test_what_unknown_code_may_write_is_noted(code: str, named: str | None) -> None:
    notes = run(training_script(imports="import shapes", end_of_epoch=code)).notes
    assert [n.message.partition(":")[0] for n in notes if n.rule == "writes"] == ([named] if named else [])


def test_a_note_says_to_wait_where_the_file_is_read_again() -> None:
    code = "f = open(where(), 'w')\nwith zipfile.ZipFile('d.zip') as z:\n    z.extractall('d')\nx = open('d')"
    notes = run(f"import zipfile\n{code}\n{training_script()}").notes
    assert any("wait_for_everyone()` before" in n.message for n in notes if n.rule == "writes")


OWN = """
def save(path, model):
    {make}
    torch.save(model.state_dict(), tmp)
    os.replace(tmp, path)
    if os.path.exists(tmp):
        {gone}
"""


@pytest.mark.parametrize(
    ("make", "gone"),
    [
        ("handle, tmp = tempfile.mkstemp(dir='out')", "os.remove(tmp)"),
        ("folder = tempfile.mkdtemp()\n    tmp = os.path.join(folder, 'a')", "shutil.rmtree(folder)"),
        ("tmp = Path(tempfile.mkdtemp()) / 'a'", "tmp.unlink()"),
    ],
)
def test_each_process_removes_its_own_temporary_file(make: str, gone: str) -> None:
    before = f"{OWN.format(make=make, gone=gone)}"
    imports = "import os, shutil, tempfile\nfrom pathlib import Path"
    result = run(training_script(imports=imports, before=before, end_of_epoch="save('m.pt', model)"))
    after = result.after.decode()
    assert f"    if os.path.exists(tmp):\n        {gone}\n" in after
    assert "if accelerator.is_main_process:\n        os.replace(tmp, path)" in after
    assert "wait_for_everyone" not in after


@pytest.mark.parametrize("method", ["export_scalars_to_json('a.json')", "add_onnx_graph('a.onnx')"])
def test_every_method_of_a_writer_that_writes(method: str) -> None:
    after = run(
        training_script(
            imports="from tensorboardX import SummaryWriter", before="writer = SummaryWriter()", end=f"writer.{method}"
        )
    ).after.decode()
    assert f"if accelerator.is_main_process:\n    writer.{method}" in after
    assert "if accelerator.is_main_process:\n    writer = SummaryWriter()" in after


@pytest.mark.parametrize(
    ("slots", "is_noted"),
    [
        ({"end_of_epoch": "plt.plot([1])\nplt.show()"}, True),
        ({"before": "plt.imshow(torch.ones(2, 2))\nplt.show(block=True)"}, True),
        ({"end": "plt.plot([1])\nplt.show()"}, False),  # nothing waits afterwards
        ({"end_of_epoch": "plt.plot([1])\nplt.show(block=False)"}, False),
        ({"before": "plt.ion()", "end_of_epoch": "plt.plot([1])\nplt.show()"}, False),
        ({"before": "plt.switch_backend('agg')", "end_of_epoch": "plt.plot([1])\nplt.show()"}, False),
        ({"end_of_epoch": "plt.plot([1])\nplt.savefig('a.png')"}, False),
    ],
)
def test_windows_for_which_the_others_wait(slots: dict[str, str], is_noted: bool) -> None:
    notes = run(training_script(imports="import matplotlib.pyplot as plt", **slots)).notes
    assert any("window" in n.message for n in notes) is is_noted


@pytest.mark.parametrize(
    ("begin", "call", "is_noted"),
    [
        ("def look(y, shows=False):\n    if shows:\n        plt.show()", "look(1)", False),
        ("def look(y, shows):\n    if not shows:\n        return\n    plt.show()", "look(1, shows=False)", False),
        ("def show():\n    plt.show()\ndef look(y, shows=None):\n    if shows:\n        show()", "look(1)", False),
        ("def look(y, shows=False):\n    if shows:\n        plt.show()", "look(1, epoch > 3)", True),
        ("def look(y, shows=True):\n    if shows:\n        plt.show()", "look(1)", True),
        ("def look(y, shows=False):\n    if shows:\n        plt.show()", "look(1)\nlook(2, True)", True),
    ],
)
def test_a_window_that_no_call_asks_for(begin: str, call: str, is_noted: bool) -> None:
    slots = {"imports": f"import matplotlib.pyplot as plt\n{begin}", "end_of_epoch": call}
    assert any("window" in n.message for n in run(training_script(**slots)).notes) is is_noted


@pytest.mark.parametrize(
    ("imports", "made", "shown"),
    [
        ("import visdom", "viz = visdom.Visdom()", "viz.line(X=[step], Y=[rate])"),
        ("from visdom import Visdom", "board = Visdom(port=80)", "board.text(f'{step}: {rate}')"),
    ],
)
def test_a_function_whose_calls_are_guarded_has_no_guard_of_its_own(imports: str, made: str, shown: str) -> None:
    begin = f"{imports}\n{made}\ndef shows(step):\n    rate = optimizer.param_groups[0]['lr']\n    {shown}\n"
    after = run(script(imports=begin, end="shows(1)\nshows(2)")).after.decode()
    assert guarded("shows(1)", "shows(2)") in after
    assert f"    rate = optimizer.param_groups[0]['lr']\n    {shown}\n" in after
    held = run(script(imports=begin, end="shows(1)\nshown = shows(2)\nprint(shown)")).after.decode()
    assert f"    {GUARD}\n        rate = optimizer.param_groups[0]['lr']\n        {shown}\n" in held


CLIENT = """\
class Board:
    def __init__(self, show):
        self.show = show
        if show:
            self.viz = Visdom(port=80)
            if not self.viz.win_exists(win='loss'):
                self.viz.line(Y=[0], win='loss')
    def add(self, step):
        if self.show:
            self.viz.line(X=[step], Y=[1.0], win='loss')
board = Board(True)
"""


@pytest.mark.parametrize(
    ("made", "end"),
    [
        (CLIENT, "board.add(3)"),
        ("viz = Visdom()\nprint(viz.check_connection())\n", "viz.line(X=[1], Y=[2])"),
        ("viz = Visdom()\nassert viz.check_connection()\n", "viz.images(rows, win='rows')"),
    ],
)
def test_a_client_that_only_connects_needs_no_guard(made: str, end: str) -> None:
    text = script(imports=f"from visdom import Visdom\nrows = torch.ones(2, 3, 4, 4)\n{made}", end=end)
    result = run(text)
    assert not [n.message for n in result.notes if n.rule == "writes"]
    assert GUARD in result.after.decode()


def test_what_a_client_shows_in_every_process_is_reported() -> None:
    begin = "from visdom import Visdom\nviz = Visdom()\nassert viz.check_connection()\n"
    result = run(script(imports=begin, end="window = viz.line(X=[1], Y=[2])\nprint(window)"))
    assert [n.message for n in result.notes if n.rule == "writes" and n.message.startswith("`line`")]


ITEMS = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
rows = torch.ones(5, 4)
def batches():
    for k in range(len(rows)):
        yield f"row{{k}}", rows[k]
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for {head}:
    {item}
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {write}
"""


@pytest.mark.parametrize(
    ("head", "item", "write", "is_noted"),
    [
        ("k in range(0, len(rows), 2)", "x = rows[k:k + 2]", "torch.save(x, f'{k}.pt')", True),
        ("name, x in batches()", "pass", "np.save(f'out/{name}.npy', x.numpy())", True),
        ("k in range(0, len(rows), 2)", "x = rows[k:k + 2]", "torch.save(model, 'last.pt')", False),
        ("name, x in DataLoader(list(zip('abcde', rows)))", "pass", "np.save(f'out/{name}.npy', x.numpy())", False),
    ],
)
def test_files_of_the_items_of_a_sharded_loop(head: str, item: str, write: str, is_noted: bool) -> None:
    notes = run(ITEMS.format(head=head, item=item, write=write)).notes
    assert any("written once more" in n.message for n in notes) is is_noted


LOOKING = """\
import json, os, sys
from pathlib import Path
out = sys.argv[1]
path = os.path.join(out, "options.json")
def stop_if_done(file):
    if os.path.exists(file):
        sys.exit(1)
def write(file):
    with open(file, "w") as f:
        json.dump({}, f)
"""


def before_training(text: str, last: str = "") -> str:
    """What a script comes out as that looks for a file and writes it before it trains."""
    result = run(script(before=f"{LOOKING}{text}", end=last))
    assert result.status is Status.MIGRATED
    return result.after.decode()


WRITES = "with open(path, 'w') as f:\n    f.write('begun')\n"


@pytest.mark.parametrize(
    "text",
    [
        f"stop_if_done(path)\n{WRITES}",
        f"assert not os.path.isfile(path), 'there already'\n{WRITES}",
        f"if Path(path).exists():\n    raise FileExistsError(path)\n{WRITES}",
        f"if os.path.exists(path) and input('go on?') != 'y':\n    sys.exit()\n{WRITES}",
        "stop_if_done(path)\nPath(path).write_text('begun')\n",
    ],
)
def test_all_have_looked_for_a_file_before_one_process_writes_it(text: str) -> None:
    assert f"{WAIT}\n{GUARD}" in before_training(text)


def test_all_have_looked_for_a_file_that_a_function_writes() -> None:
    assert before_training("stop_if_done(path)\nwrite(path)\n").count(WAIT) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"if not os.path.exists(path):\n    sys.exit('there is none')\n{WRITES}",
        f"if os.path.exists(path):\n    print('there already')\n{WRITES}",
        f"stop_if_done(out + '/other.json')\n{WRITES}",
        f"{WRITES}stop_if_done(out)\n",
    ],
)
def test_no_process_waits_before_a_file_that_stops_none(text: str) -> None:
    assert WAIT not in before_training(text)


def test_a_file_that_is_written_after_training_is_not_waited_for() -> None:
    assert WAIT not in before_training("stop_if_done(path)\n", WRITES)


WAIT = "accelerator.wait_for_everyone()"
SEVERAL = "import glob\nfor k in range(3):\n    {write}\n"


@pytest.mark.parametrize("write", ["torch.save(model.state_dict(), f'out/{k}.pt')", "np.save(f'out/{k}.pt', [k])"])
@pytest.mark.parametrize(
    ("read", "waits_before"),
    [
        ("for name in os.listdir('out'):\n    torch.load(f'out/{name}')", "for name in"),
        ("names = sorted(glob.glob('out/*.pt'))\nfor name in names:\n    torch.load(name)", "names ="),
        ("while os.path.exists('out/0.pt'):\n    torch.load('out/0.pt')", "while os"),
        ("def read(name):\n    return torch.load(name)\nfor n in os.listdir('out'):\n    read(f'out/{n}')", "for n in"),
    ],
)
def test_all_wait_before_a_loop_that_each_runs_for_the_files_that_it_finds(
    write: str, read: str, waits_before: str
) -> None:
    lines = end(SEVERAL.format(write=write) + read).splitlines()
    assert [lines[i + 1].startswith(waits_before) for i, line in enumerate(lines) if line == WAIT] == [True]
    assert f"    {WAIT}" not in lines


def test_a_loop_that_writes_what_it_reads_has_a_note_in_place_of_a_wait() -> None:
    loop = "for name in os.listdir('out'):\n    torch.save(name, 'a.pt')\n    torch.load('a.pt')"
    result = run(script(imports=IMPORTS, end=loop))
    assert WAIT not in result.after.decode()
    assert any("before the loop round this" in n.message for n in result.notes)


@pytest.mark.parametrize(
    ("read", "waits"),
    [
        ("np.load('out/a.npy')", True),
        ("np.load(os.path.join(folder, 'a.npy'))", True),
        ("np.load(args.joints)", False),
        ("open('data/%s.npy' % args.joints, 'rb').read()", False),
        ("np.load(f'{folder}/{args.joints}.npy')", True),
    ],
)
def test_only_what_this_script_has_written_is_waited_for(read: str, waits: bool) -> None:
    head = "import argparse\nargs = argparse.ArgumentParser().parse_args()\nfolder = 'out'\n"
    lines = end(f"{head}np.save('out/a.npy', [1])\nrows = {read}\nmodel.rows = rows")
    assert (WAIT in lines) is waits


def test_what_a_log_is_given_is_no_path() -> None:
    logged = "import os\nfrom torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter('runs')"
    listed = "def rows(path):\n    return [len(n) for d, _, n in os.walk(path)]\nfor k in 'ab':\n    rows(k)"
    after = run(script(imports=logged, end=f"writer.add_scalar(str(3), 1)\n{listed}")).after.decode()
    assert WAIT not in after


@pytest.mark.parametrize("mark", ["# %%", "#%% Then", "# %% [markdown]\n# Then\n\n# %%", "# In[3]:\n"])
def test_a_guard_holds_no_border_of_cells(mark: str) -> None:
    lines = ["np.save('a.npy', [1])", "np.save('b.npy', [1])"]
    assert guarded(lines[0]) + "\n" in end(f"{lines[0]}\n{mark}\n{lines[1]}")
    assert mark.splitlines()[0] in end(f"{lines[0]}\n{mark}\n{lines[1]}").splitlines()
    assert end(f"{lines[0]}\n# then\n{lines[1]}") == guarded(lines[0], "# then", lines[1])


@pytest.mark.parametrize(
    "text",
    [
        "df = pd.read_csv('a.csv')\ndf = df.append(pd.DataFrame.from_dict([{'k': 3}]))\ndf.to_csv('a.csv')",
        "df = pd.read_csv('a.csv')\ndf.loc[len(df)] = [3]\ndf.to_csv('a.csv')",
        "log = json.load(open('a')) if os.path.exists('a') else {}\nlog[3] = 4\njson.dump(log, open('a', 'w'))",
        "log = pickle.load(open('a.pkl', 'rb'))\nlog['k']['n'] = 4\npickle.dump(log, open('a.pkl', 'wb'))",
    ],
)
@pytest.mark.parametrize("loop", ["for k in range(3):\n    ", "def add():\n    {}\nfor k in range(3):\n    add()"])
def test_one_process_reads_a_log_and_adds_to_it(text: str, loop: str) -> None:
    inside = text.replace("\n", "\n    ")
    after = end("import json, pickle\nimport pandas as pd\n" + (loop.format(inside) if "{}" in loop else loop + inside))
    assert WAIT not in after
    assert all(line.startswith("        ") for line in after.splitlines() if " = " in line)


def test_all_have_read_a_log_before_one_writes_it_anew() -> None:
    text = "log = np.load('a.npy')\n    log = change(log)\n    np.save('a.npy', log)\n    print(log)"
    text = f"for k in range(3):\n    {text}"
    lines = [line.strip() for line in end(text).splitlines()]
    assert [lines[lines.index(line) - 1] for line in ("log = np.load('a.npy')", GUARD)] == [WAIT, WAIT]


def test_what_another_name_holds_is_changed_by_all() -> None:
    text = "kept = {}\nlog = kept\nlog[3] = 4\nnp.save('a.npy', log)\nprint(kept)"
    assert "\nlog[3] = 4\n" in end(text)


NET = """\
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
    def step(self, x):
        self.optimizer.zero_grad()
        self.model(x).mean().backward()
        self.optimizer.step()
def write(path, rows):
    for row in rows:
        with open(path, "a") as file:
            file.write(str(row))
    return open(path).read()
"""
TRAIN = """\
from net import Net, write
from torch.utils.data import DataLoader
net = Net()
for x in DataLoader(rows):
    net.step(x)
    {end}
"""
TESTED = """\
from net import Net, write
def main():
    write("out.txt", [Net()(row) for row in rows])
    open("done.txt", "w").write("1")
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(("end", "is_noted"), [("pass", False), ("net.kept = write('out.txt', x[0])", True)])
def test_what_only_a_script_beside_writes_needs_no_note(tmp_path: Path, end: str, is_noted: bool) -> None:
    files = rewritten(tmp_path, "train.py", net=NET, train=TRAIN.format(end=end), test=TESTED)
    assert b"Accelerator(" in files["test.py"].after
    assert any(n.rule == "writes" for result in files.values() for n in result.notes) is is_noted


WAIT = "accelerator.wait_for_everyone()"
LISTED = [
    ("found = sorted(glob.glob('out/*.pt'))", "for f in found[:-2]:\n    os.remove(f)"),
    ("found = list(Path('out').glob('*.pt'))", "for f in found[:-2]:\n    f.unlink()"),
    ("found = os.listdir('out')", "for f in found:\n    os.remove(os.path.join('out', f))"),
    ("found = [os.path.join('out', f) for f in os.listdir('out')]", "os.remove(found[0])"),
]


@pytest.mark.parametrize(("listing", "removal"), LISTED)
def test_all_have_listed_what_one_process_removes(listing: str, removal: str) -> None:
    imports = "import glob, os\nfrom pathlib import Path"
    after = run(script(imports=imports, before=f"{listing}\n{removal}\nuse(len(found))")).after.decode()
    lines = removal.replace("\n", "\n    ")
    assert f"{listing}\n{WAIT}\n{GUARD}\n    {lines}\n" in after
    # Nobody else reads the list: the process that removes the files makes it.
    alone = run(script(imports=imports, before=f"{listing}\n{removal}")).after.decode()
    assert f"{WAIT}\n{GUARD}" not in alone


@pytest.mark.parametrize(
    ("before", "end"),
    [
        ("found = os.listdir('out')\nuse(found)", "os.remove('out/a.pt')"),  # a step of all comes between
        ("found = os.listdir('data')\nuse(found)\nos.remove('out/a.pt')", ""),
    ],
)
def test_what_was_listed_long_before_or_elsewhere(before: str, end: str) -> None:
    after = run(script(imports="import os", before=before, end=end)).after.decode()
    assert f"{GUARD}\n    os.remove('out/a.pt')" in after
    assert f"{WAIT}\n{GUARD}" not in after


def test_all_have_asked_for_a_folder_that_one_process_deletes() -> None:
    before = "fresh = not os.path.exists('out')\nif not fresh:\n    shutil.rmtree('out')\nuse(fresh)"
    after = run(script(imports="import os, shutil", before=before)).after.decode()
    assert f"if not fresh:\n    {WAIT}\n    {GUARD}\n        shutil.rmtree('out')\n    {WAIT}\n" in after


def test_no_process_waits_for_a_file_that_is_removed_afterwards() -> None:
    load = "model.load_state_dict(torch.load('last.pt'))\nos.remove('last.pt')"
    after = run(script(imports="import os", before=load)).after.decode()
    assert after.count(WAIT) == 1
    assert f"{WAIT}\n{GUARD}\n    os.remove('last.pt')" in after


@pytest.mark.parametrize(
    "reading",
    [
        "import gen",
        "from gen import SIZE as gen",
        "gen = importlib.import_module('gen')",
        "gen = __import__('gen')",
        "gen = runpy.run_path('gen.py')",
        "gen = importlib.util.spec_from_file_location('gen', 'gen.py')",
        "gen = shapes.compiled(name='gen', sources=['gen.py'])",  # of a library that is not known
    ],
)
def test_a_module_is_imported_once_it_is_written(reading: str) -> None:
    imports = "import importlib, importlib.util, runpy, shapes"
    made = (
        "def made():\n    with open('gen.py', 'w') as f:\n        f.write('SIZE = 3')\n    {}\n    return gen\nmade()"
    )
    after = run(script(imports=imports, before=made.format(reading))).after.decode()
    assert f"            f.write('SIZE = 3')\n    {WAIT}\n    {reading}\n" in after
    other = made.format(reading.replace("gen", "other"))
    assert WAIT not in run(script(imports=imports, before=other)).after.decode()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("atexit.register(torch.save, [1], 'x.pt')", "register"),
        ("threading.Thread(target=torch.save, args=([1], 'x.pt')).start()", "Thread"),
        ("threading.Thread(target=np.save, args=('x.npy', [1])).start()", "Thread"),
        ("atexit.register(np.load, 'x.npy')", None),
    ],
)
def test_what_is_handed_on_to_be_written_is_noted(line: str, named: str | None) -> None:
    imports = f"{IMPORTS}\nimport atexit, threading"
    notes = [n.message for n in run(script(imports=imports, end=line)).notes if n.rule == "writes"]
    assert [n.partition(":")[0] for n in notes] == ([f"`{named}`"] if named else [])


def test_what_is_written_into_an_archive() -> None:
    lines = ("with zipfile.ZipFile('a.zip', 'w') as f:", "    f.writestr('a', 'b')")
    assert guarded(*lines) in run(script(imports="import zipfile", end="\n".join(lines))).after.decode()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("manager.extend(extensions.snapshot(), trigger=(1, 'epoch'))", ["snapshot"]),
        ("manager = ppe.training.ExtensionsManager(model, optimizer, 2, [extensions.LogReport()])", ["LogReport"]),
        ("manager.extend(ppe.training.extensions.PlotReport(['loss']))", ["PlotReport"]),
        ("manager.extend(extensions.PrintReport(['loss']))", []),
    ],
)
def test_what_a_trainer_s_extensions_write_is_noted(line: str, named: list[str]) -> None:
    imports = "import pytorch_pfn_extras as ppe\nfrom pytorch_pfn_extras.training import extensions"
    before = f"manager = ppe.training.ExtensionsManager(model, optimizer, 2)\n{line}"
    notes = [n.message for n in run(script(imports=imports, end=before)).notes if n.rule == "writes"]
    assert [n.partition(":")[0] for n in notes] == [f"`{name}`" for name in named]


@pytest.mark.parametrize(
    ("handler", "is_whole"),
    [
        ("except OSError:\n        pass", True),
        ("except OSError as e:\n        print(e)\n    finally:\n        print(f)", True),
        ("except OSError:\n        continue", False),  # leaves the round
        ("except OSError:\n        failed = True", False),  # which others read
    ],
)
def test_what_may_fail_is_removed_by_one_process(handler: str, is_whole: bool) -> None:
    lines = f"for f in glob.glob('out/*.pt')[:-2]:\n    try:\n        os.remove(f)\n    {handler}"
    after = run(script(imports="import glob, os", before=f"failed = False\n{lines}\nuse(failed)")).after.decode()
    whole = f"{GUARD}\n    " + lines.replace("\n", "\n    ")
    assert (whole in after) is is_whole


@pytest.mark.parametrize(
    ("loop", "waits"),
    [
        ("found = os.listdir('out')\n{wait}for f in found:", True),  # once, before the loop
        ("for f in os.listdir('out'):", False),  # which has listed them by its first round only
    ],
)
def test_all_wait_once_before_what_they_have_listed_is_removed(loop: str, waits: bool) -> None:
    body = "    size *= 2\n    os.remove(os.path.join('out', f))"
    text = script(imports="import os", before=f"size = 1\n{loop.format(wait='')}\n{body}\nuse(size)")
    after = run(text).after.decode()
    expected = loop.format(wait=f"{WAIT}\n")
    inner = "" if waits else f"    {WAIT}\n"
    assert f"{expected}\n    size *= 2\n{inner}    {GUARD}\n        os.remove(" in after


LOG = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Log:
    def __init__(self, path):
        self.rows, self.file = [], open(path, 'w')
    def close(self):
        self.file.close()
def main():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.ones(8, 4), torch.ones(8).long()), batch_size=2, shuffle=True)
    log = Log('a.txt')
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {used}
    log.close()
main()
"""


@pytest.mark.parametrize(("used", "is_of_one"), [("log.rows.append(1)", False), ("pass", True)])
def test_an_object_s_file_is_closed_by_who_opens_it(used: str, is_of_one: bool) -> None:
    result = run(LOG.format(used=used))
    after = result.after.decode()
    assert (f"    {GUARD}\n        log.close()" in after) is is_of_one
    assert (f"    {GUARD}\n        log = Log('a.txt')" in after) is is_of_one
    nowhere = "open(path if accelify.runtime.PartialState().is_main_process else os.devnull, 'w')"
    assert (nowhere in after and "import os\n" in after) is not is_of_one
    assert not any(n.rule == "writes" for n in result.notes)


CACHE = """\
import os
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
import matplotlib.pyplot as plt
def cache(keys):
    for k in keys:
        path = f'cache/{k}.npz'
        if os.path.exists(path):
            continue
        np.savez(path, x=[k])
def load(k):
    return np.load(f'cache/{k}.npz')['x']
class Rows(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, k):
        return torch.ones(4) * ITEM
def show(k):
    x = load(k)
    plt.plot(x)
    plt.savefig('x.png')
cache(range(8))
FIRST
loader = DataLoader(Rows(), batch_size=2)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("item", "first", "waits"),
    [
        ("load(k)", "show(3)", 1),  # the main process shows it alone, and each loader's worker makes its items
        ("load(k)", "", 1),
        ("np.load(f'cache/{k}.npz')['x']", "", 1),
        ("len(open('names.txt').read())", "", 0),
        ("1.", "print(load(3))", 0),
    ],
)
def test_all_wait_behind_the_loop_that_writes_what_items_are_read_from(item: str, first: str, waits: int) -> None:
    after = run(CACHE.replace("ITEM", item).replace("FIRST", first)).after.decode()
    assert after.count(f"\n    {WAIT}\ndef load(k)") == waits
    assert after.partition("def load(k)")[2].count(WAIT) == ("print" in first)
    assert f"        {WAIT}" not in after  # each round has a file of its own


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("if not os.path.exists('a.pt'):\n        return None", "if not"),
        ("if not Path('a.pt').is_file(): return None", "if not"),
        ("import sys\n    if not os.path.exists('a.pt'): sys.exit()", "if not"),
        ("if not os.path.isfile('a.pt'):\n        print('none')\n        exit(0)", "if not"),
        ("if not Path('a.pt').exists(): quit()", "if not"),
        ("if not os.path.exists('a.pt'): os._exit(0)", "if not"),
        ("if not os.path.exists('a.pt'): raise SystemExit", "if not"),
        ("if os.path.exists('a.pt'): print('there')\n    else: exit()", "if os"),
        ("if not os.path.exists('data.csv'): quit()", "return torch"),  # which nobody writes
        ("if not os.path.exists('a.pt'): print('exit')", "return torch"),  # all go on
        ("assert os.path.isfile('a.pt'), 'there is none'", "assert"),
        ("k = 'a.pt'\n    assert os.path.exists(k) and k", "assert"),
        ("assert Path('a.pt').exists()\n    print('there')", "assert"),
        ("assert os.path.exists('data.csv')", "return torch"),  # which nobody writes
        ("paths = [p for p in ['a.pt', 'b.pt'] if os.path.isfile(p)]", "paths ="),
        ("path = next((p for p in [f'{k}.pt', 'b.pt'] if os.path.exists(p)), 'b.pt')", "path ="),
        ("if os.path.exists('a.pt'):\n        path = 'a.pt'\n    else:\n        path = 'b.pt'", "if os"),
        ("if not os.path.exists('data.csv'):\n        return None", "return torch"),  # which nobody writes
    ],
)
@pytest.mark.parametrize("made", ["torch.save(model.state_dict(), 'a.pt')", "shutil.copy('c.pt', 'a.pt')"])
def test_all_wait_before_each_looks_for_the_file_that_it_reads(made: str, asked: str, first: str) -> None:
    path = "paths[0]" if first == "paths =" else "path" if "path" in asked.replace("os.path", "") else "'a.pt'"
    lines = end(f"def last(k='a'):\n    {asked}\n    return torch.load({path})\n{made}\nlast()").splitlines()
    behind = [lines[i + 1].strip() for i, line in enumerate(lines) if line.strip() == WAIT]
    assert [line[: len(first)] for line in behind] == [first]


CONFIGURED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tensorboard_logger import configure
import other
configure('logs')
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, in loader:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
other.log(1)
"""
BY_LIBRARY = "    if accelify.runtime.PartialState().is_main_process:\n"


@pytest.mark.parametrize(
    ("imports", "line", "is_guarded"),
    [
        ("from tensorboard_logger import log_value", "log_value('a', 1, k)", True),
        ("import tensorboard_logger as tb", "tb.log_value('a', 1, k)", True),
        ("from torch.utils.tensorboard import SummaryWriter\nw = SummaryWriter()", "w.add_scalar('a', 1, k)", True),
        ("import json", "json.dump(k, open('a.json', 'w'))", True),
        ("import json", "json.dump(k, open('a.json', 'w'))\n    k = json.load(open('a.json'))", False),
        ("import tensorboard_logger as tb", "k += tb.log_value('a', 1, 2) or 0; print(k)", None),
    ],
)
def test_what_another_file_writes_is_written_once(
    tmp_path: Path, imports: str, line: str, is_guarded: bool | None
) -> None:
    other = f"{imports}\ndef log(k):\n    print(k)\n    k = {{}}\n    {line}\n    return k\n"
    found = rewritten(tmp_path, "main.py", main=CONFIGURED, other=other)
    main = found["main.py"].after.decode()
    text = found["other.py"].after.decode() if "other.py" in found else other
    assert (f"{BY_LIBRARY}        {line}\n" in text) is bool(is_guarded)
    assert ("import accelify.runtime\n" in text) is bool(is_guarded)
    assert (f"{GUARD}\n    configure('logs')" in main) is (is_guarded is not None)  # all of a module's logs, or none


@pytest.mark.parametrize(
    ("loop", "is_changed"),
    [
        ("for m in net.children():\n        m.p = 0.0", True),
        ("for p in net.parameters():\n        p.requires_grad = False", True),
        ("for n, m in net.named_modules():\n        setattr(m, 'p', 0.0)", True),
        ("for n, p in net.named_parameters():\n        add('log.txt', n)", False),
    ],
)
def test_all_processes_change_the_parts_of_a_model_beside_a_log(tmp_path: Path, loop: str, is_changed: bool) -> None:
    add = "def add(path, line):\n    with open(path, 'a') as f:\n        f.write(line)\n"
    other = f"{add}def freeze(net):\n    add('log.txt', 'freeze')\n    {loop}\n"
    main = script(imports="from other import freeze").replace("optimizer = ", "freeze(model)\noptimizer = ", 1)
    assert "\nfreeze(model)\n" in main
    found = rewritten(tmp_path, "main.py", main=main, other=other)
    assert (f"{GUARD}\n    freeze(model)\n" in found["main.py"].after.decode()) is not is_changed
    assert ("other.py" in found) is is_changed
    if is_changed:
        assert f"{BY_LIBRARY}        add('log.txt', 'freeze')\n    {loop}\n" in found["other.py"].after.decode()


def test_a_guard_is_one_where_a_choice_of_device_in_it_goes() -> None:
    lines = (
        "w = SummaryWriter()\nrows = torch.ones(1, 4)\nif use_cuda:\n    rows = rows.cuda()\nw.add_graph(model, rows)"
    )
    result = run(script(imports="from torch.utils.tensorboard import SummaryWriter", end=lines))
    assert result.after.decode().count(GUARD) == 1


BEST = """\
import os, shutil
import torch
{imports}
def keep(state, acc, folder):
    last, stats = os.path.join(folder, "last.pt"), os.path.join(folder, "best.txt")
    torch.save(state, last)
    if os.path.isfile(stats):
        with open(stats) as file:
            best = file.{read}
        if float(best) < acc:
            shutil.copyfile(last, os.path.join(folder, "best.pt"))
            {tell}
            with open(stats, "w") as file:
                file.write(str(acc))
    else:
        shutil.copyfile(last, os.path.join(folder, "best.pt"))
        with open(stats, "w") as file:
            file.write(str(acc))
"""
KEPT = "for k in range(3):\n    keep(model.state_dict(), score(model), '.')"


@pytest.mark.parametrize("is_imported", [False, True])
@pytest.mark.parametrize("read", ["read()", "readline()"])
def test_a_best_value_that_is_kept_in_a_file_is_read_by_the_process_that_writes_it(
    tmp_path: Path, is_imported: bool, read: str
) -> None:
    best = BEST.format(imports="", read=read, tell="print('best')")
    imports = "from best import keep" if is_imported else best
    found = rewritten(tmp_path, "main.py", main=script(imports=imports, end=KEPT), best=best)
    state = "accelify.runtime.PartialState()" if is_imported else "accelerator"
    after = found["best.py" if is_imported else "main.py"].after.decode()
    start = (
        f"    if {state}.is_main_process:\n        if os.path.isfile(stats):\n            with open(stats) as file:\n"
    )
    assert start in after
    assert after.count("is_main_process") == 1
    assert not [n for result in found.values() for n in result.notes if n.rule == "writes"]


@pytest.mark.parametrize("is_imported", [False, True])
def test_no_process_writes_part_of_what_all_decide_by_a_file(tmp_path: Path, is_imported: bool) -> None:
    best = BEST.format(imports="from elsewhere import tell", read="read()", tell="tell('best')")
    imports = "from best import keep" if is_imported else best
    found = rewritten(tmp_path, "main.py", main=script(imports=imports, end=KEPT), best=best)
    result = found["best.py" if is_imported else "main.py"]
    assert "is_main_process" not in result.after.decode()
    assert any("do both, with the condition round it" in n.message for n in result.notes)


@pytest.mark.parametrize("read", ["rows = read(rows)", "kept = read(rows)"])
def test_what_is_read_where_nobody_can_wait_is_not_left_to_one_process(tmp_path: Path, read: str) -> None:
    other = f"def write(path):\n    np.save(path, [1])\ndef load(rows='b.npy'):\n    {read}\n    return 1\n"
    other = "import numpy as np\n" + other.replace("read(", "np.load(")
    main = script(imports="from other import load, write", end="write('a.npy')\nload('a' + '.npy')")
    found = rewritten(tmp_path, "main.py", main=main.replace("\nmodel", "\nwrite('c.npy')\nmodel"), other=other)
    assert "other.py" not in found or "is_main_process" not in found["other.py"].after.decode()


JOB_LOG = """\
import logging, sys
import torch
from loguru import logger
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from rows import read
class Job:
    def __init__(self):
        self.rows = read({read})
        self.model = torch.nn.Linear(4, 2).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def run(self):
        for x in DataLoader(self.rows, batch_size=8):
            self.optimizer.zero_grad()
            self.model(x.cuda()).mean().backward()
            self.optimizer.step()
            logging.info("step")
def main():
    name = sys.argv[1]
    {line}
    Job().run()
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("line", "read", "is_guarded"),
    [
        ("logging.getLogger().addHandler(logging.FileHandler(f'{name}.log'))", "sys.argv[2]", True),
        ("logging.basicConfig(filename='a.log')", "sys.argv[2]", True),
        ("logging.basicConfig(handlers=[logging.FileHandler('a.log')])", "sys.argv[2]", True),
        ("logger.add(name)", "sys.argv[2]", True),
        ("SummaryWriter(name).add_text('a', 'b')", "sys.argv[2]", True),
        ("logging.basicConfig(filename='a.log')", "'a.log'", False),
        ("logging.getLogger().addHandler(logging.FileHandler('a.log'))", "'./a.log'", False),
        ("open('a.txt', 'w').write(name)", "sys.argv[2]", False),  # what may be the data
    ],
)
def test_a_log_is_read_only_where_the_paths_tell_so(tmp_path: Path, line: str, read: str, is_guarded: bool) -> None:
    rows = "def read(path):\n    return [float(line) for line in open(path)]\n"
    found = rewritten(tmp_path, "main.py", main=JOB_LOG.format(line=line, read=read), rows=rows)
    assert (f"{BY_LIBRARY}        " in found["main.py"].after.decode()) is is_guarded


KEPT_BESIDE = """\
import logging, os
import torch
def set_logger(path):
    class Console(logging.StreamHandler):
        def __init__(self, form):
            logging.StreamHandler.__init__(self)
            self.setFormatter(form)
        def emit(self, record):
            print(self.format(record))
    log = logging.getLogger("run")
    form = logging.Formatter("%(message)s")
    log.addHandler(logging.FileHandler(path))
    log.addHandler(Console(form))
def keep(weights, folder):
    {lines}
    torch.save(weights, os.path.join(folder, "last.pt"))
"""
FOLDER_LOG = """\
import os, sys
import torch
from torch.utils.data import DataLoader
from keeping import keep, set_logger
def main():
    folder = os.path.join("runs", sys.argv[1])
    set_logger(os.path.join(folder, "train.log"))
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(torch.randn(16, 4), batch_size=4):
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    keep(model.state_dict(), folder)
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("lines", "is_guarded"),
    [
        ("if not os.path.exists(folder):\n        os.mkdir(folder)", True),
        ("if not os.path.isdir(folder):\n        os.makedirs(folder)", True),
        ("print(open(folder).read())", False),
    ],
)
def test_a_log_is_not_read_where_its_folder_is_looked_for(tmp_path: Path, lines: str, is_guarded: bool) -> None:
    found = rewritten(tmp_path, "main.py", main=FOLDER_LOG, keeping=KEPT_BESIDE.format(lines=lines))
    assert (f"{BY_LIBRARY}        log.addHandler(" in found["keeping.py"].after.decode()) is is_guarded


GET_LOGGER = """\
import logging
import torch
from torch.utils.data import DataLoader
def get_logger(path, is_quiet=False):
    logger = logging.getLogger("run")
    for handler in {handlers}:
        handler.setLevel(20)
        logger.addHandler(handler)
    return logger
def main():
    logger = get_logger("a.log")
    loader = DataLoader(torch.randn(16, 4), batch_size=4)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    logger.info("done")
main()
"""
ONE = "logging.FileHandler(path) if accelify.runtime.PartialState().is_main_process else logging.NullHandler()"


@pytest.mark.parametrize(
    ("handlers", "after"),
    [
        ("(logging.StreamHandler(), logging.FileHandler(path))", f"(logging.StreamHandler(), {ONE})"),
        (
            "[logging.StreamHandler() if is_quiet else logging.FileHandler(path)]",
            f"[logging.StreamHandler() if is_quiet else ({ONE})]",
        ),
    ],
)
def test_a_log_has_a_handler_that_does_nothing_in_the_other_processes(handlers: str, after: str) -> None:
    found = run(GET_LOGGER.format(handlers=handlers))
    assert f"    for handler in {after}:\n" in found.after.decode()
    assert not any(n.rule == "writes" for n in found.notes)


SELECTED = """\
import json, os, sys
import torch
from torch.utils.data import DataLoader
def keep(options):
    with open("options.json", "w") as file:
        json.dump(options, file)
def main():
    model = torch.nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(data, batch_size=8):
        optimizer.zero_grad()
        model(x.cuda()).mean().backward()
        optimizer.step()
if __name__ == "__main__":
    {first}
    {second}
    main()
"""
SELECTION = "os.environ['CUDA_VISIBLE_DEVICES'] = sys.argv[1]"


@pytest.mark.parametrize(
    ("first", "second", "is_guarded"),
    [
        ("keep(sys.argv)", SELECTION, False),
        ("keep(sys.argv)", "os.environ.update(CUDA_VISIBLE_DEVICES=sys.argv[1])", False),
        (SELECTION, "keep(sys.argv)", True),
        ("keep(sys.argv)", "print()", True),
    ],
)
def test_no_process_is_asked_before_its_gpu_is_chosen(first: str, second: str, is_guarded: bool) -> None:
    after = run(SELECTED.format(first=first, second=second)).after.decode()
    assert ("if accelify.runtime.PartialState().is_main_process" in after) is is_guarded


@pytest.mark.parametrize(
    ("before", "after", "guarded"),
    [
        ("pass", "os.rename('run', 'done')", ["os.rename('run', 'done')"]),
        ("pass", "shutil.move('run', 'done')", ["shutil.move('run', 'done')"]),
        ("json.dump(1, open('a.json', 'w'))", "pass", ["json.dump(1, open('a.json', 'w'))"]),
        ("json.dump(1, open('a.json', 'w'))", "os.remove('a.json')", ["json.dump", "os.remove"]),
        ("json.dump(1, open('a.json', 'w'))\n    size = os.path.getsize('a.json')", "print(size)", []),
        ("with open('a.json') as file:\n        print(file.read())", "pass", []),
    ],
)
def test_the_script_that_is_started_writes_once_round_a_function_that_trains(
    before: str, after: str, guarded: list[str]
) -> None:
    text = SELECTED.format(first=before, second="print()").replace("json, os", "json, os, shutil") + f"    {after}\n"
    lines = run(text).after.decode().partition("__main__")[2].splitlines()
    behind = [lines[i + 1].strip() for i, line in enumerate(lines) if f"{line}\n" == BY_LIBRARY]
    assert [any(line.startswith(g) for g in guarded) for line in behind] == [True] * len(guarded)


def test_an_imported_module_is_not_the_script_that_is_started(tmp_path: Path) -> None:
    other = SELECTED.format(first="pass", second="pass").replace("def main", "def run") + "\nos.rename('a', 'b')\n"
    found = rewritten(tmp_path, "main.py", main="from other import run\nrun()\n", other=other)
    assert found["other.py"].after.decode().endswith("\nos.rename('a', 'b')\n")


ATOMIC = """\
import os, tempfile
import torch
def save(path, model):
{made}
    try:
        torch.save(model.state_dict(), tmp)
        os.replace(tmp, path)
    finally:
        if os.path.exists(tmp):
            os.remove(tmp)
"""


@pytest.mark.parametrize(
    "made",
    [
        "    fd, tmp = tempfile.mkstemp()\n    os.close(fd)",
        "    file = tempfile.NamedTemporaryFile(delete=False)\n    file.close()\n    tmp = file.name",
        "    tmp = os.path.join(tempfile.mkdtemp(), 'a.pt')",
    ],
)
def test_a_temporary_file_is_moved_by_the_process_that_wrote_it(tmp_path: Path, made: str) -> None:
    main = script(imports="from other import save", end="save('a.pt', model)")
    text = rewritten(tmp_path, "main.py", main=main, other=ATOMIC.format(made=made))["other.py"].after.decode()
    assert f"    {BY_LIBRARY}            os.replace(tmp, path)\n    finally:\n        if os.path.exists(tmp):\n" in text


DIVIDED = """\
for name in os.listdir(a):
    if os.path.isfile(a + name):
        part = np.random.randint(2)
        if part:
            {copy}
print(os.listdir('b'))"""


@pytest.mark.parametrize(
    "copy",
    [
        "shutil.copyfile(a + name, 'b/' + name)",
        "shutil.copy(dst='b/' + name, src=a + name)",
        "os.symlink(a + name, 'b/' + name)",
    ],
)
def test_files_are_copied_one_by_one_without_a_wait_for_each(copy: str) -> None:
    lines = end(f"a = 'a/'\n{DIVIDED.format(copy=copy)}").splitlines()
    assert lines.count(WAIT) + sum(WAIT in line for line in lines) <= 2
    assert f"        {GUARD[:-1]} and part:" in lines
    assert f"            {copy}" in lines
    assert not any(WAIT in line for line in lines[: lines.index(f"            {copy}")])


OLDER = """\
import glob, os, shutil
import torch
def keep(model, epoch):
    for file in {listing}:
        {removal}
    torch.save(model.state_dict(), f"ck/{{epoch}}.pth")
def last():
    files = glob.glob("ck/*.pth")
    {last}
"""


@pytest.mark.parametrize(
    ("listing", "removal"),
    [
        ("os.listdir('ck')", "os.remove(os.path.join('ck', file))"),
        ("glob.glob('ck/*.pth')", "os.remove(file)"),
        ("sorted(glob.glob('ck/*.pth'))[:-1]", "os.unlink(file)"),
    ],
)
@pytest.mark.parametrize(
    ("last", "before"),
    [("shutil.copy(files[0], 'last.pth')", f"{GUARD}\n    "), ("return torch.load(files[0])", f"{WAIT}\n")],
)
def test_older_files_are_removed_once_though_another_function_lists_them(
    tmp_path: Path, listing: str, removal: str, last: str, before: str
) -> None:
    other = OLDER.format(listing=listing, removal=removal, last=last)
    main = script(imports="from other import keep, last", end="for k in range(3):\n    keep(model, k)\nlast()")
    found = rewritten(tmp_path, "main.py", main=main, other=other)
    assert f"{BY_LIBRARY}        for file in" in found["other.py"].after.decode()
    assert f"{before}last()" in found["main.py"].after.decode()


@pytest.mark.parametrize("read", ["return torch.load(path)", "return open(path, 'rb').read()"])
def test_all_wait_before_they_call_what_reads_a_file_that_was_moved(tmp_path: Path, read: str) -> None:
    other = "import os, torch\ndef save(path, model):\n    torch.save(model.state_dict(), path + '.tmp')\n"
    other += f"    os.replace(path + '.tmp', path)\ndef load(path):\n    if os.path.exists(path):\n        {read}\n"
    main = script(imports="from other import save, load", end="save('a.pt', model)\nload('a.pt')")
    found = rewritten(tmp_path, "main.py", main=main, other=other)
    assert f"{BY_LIBRARY}        os.replace(" in found["other.py"].after.decode()
    assert f"{WAIT}\nload('a.pt')" in found["main.py"].after.decode()


STORED = """\
import json
from other import fit
def store(words, path):
    with open(path, "w") as file:
        json.dump(words, file)
def load(path):
    with open(path) as file:
        return json.load(file)
class Job:
    def run(self):
        {made}
        vocabulary = load("words.json")
        fit(len(vocabulary))
"""


@pytest.mark.parametrize(
    "made", ["store({'a': 0}, 'words.json')", "words = {'a': 0}\n        store(words, 'words.json')"]
)
def test_all_wait_in_a_file_that_changes_for_nothing_else(tmp_path: Path, made: str) -> None:
    lines = script().splitlines()
    imports, body = [li for li in lines if "import" in li], [li for li in lines if "import" not in li]
    other = "\n".join([*imports, "def fit(n):", *(f"    {line}" for line in body)]) + "\n"
    main = "from job import Job\nJob().run()\n"
    found = rewritten(tmp_path, "main.py", main=main, other=other, job=STORED.format(made=made))
    assert "PartialState().wait_for_everyone()\n        vocabulary = load(" in found["job.py"].after.decode()


READ_BACK = """
import os
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def load(path):
    return np.load(path)["x"]

def store(where, x):
    np.savez(where, x=x)

def make(out):
    x = np.ones((64, 4))
    {made}

place = os.environ["DATA"]
rows = load(place) if os.path.exists(place) else make(place)
loader = DataLoader(TensorDataset(torch.from_numpy(rows)), batch_size=8)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "waits"),
    [
        ("np.savez(out, x=x)\n    return load(out)", True),
        ("target = out + os.environ['TAG']\n    np.savez(target, x=x)\n    return load(target)", True),
        ("store(out, x)\n    return load(out)", True),
        ("np.savez('log.npz', x=x)\n    return x", False),
    ],
)
def test_a_path_of_an_unknown_name_is_read_where_it_is_passed_on(made: str, waits: bool) -> None:
    after = run(READ_BACK.replace("{made}", made)).after.decode()
    assert "if accelerator.is_main_process:" in after
    assert ("    accelerator.wait_for_everyone()\n    return np.load(path)" in after) is waits


@pytest.mark.parametrize(
    ("line", "is_noted"),
    [
        ("os.system('nvidia-smi')", False),
        ("subprocess.run(['nvidia-smi', '-L'])", False),
        ("subprocess.call('ls | head -2', shell=True)", False),
        ("os.system('nvidia-smi > gpus.txt')", True),
        ("os.system('ls; rm old.pt')", True),
        ("Pipe()[0].close()", False),
        ("given().close()", False),
        ("gym.make('CartPole-v1').render()", False),
        ("table = rich.table.Table(title='a')\nprint(table)", False),
        ("rich.pretty.install()", False),
        ("table = rich.table.Table(rich.table.Column('a', justify='center'), box=rich.box.ASCII)\nprint(table)", False),
        ("table = rich.table.Table.grid(rich.table.Column())\nprint(table)", False),
        ("bar = rich.progress.Progress(rich.progress.BarColumn(), rich.progress.TextColumn('a'))", False),
        ("shown = rich.console.Group(rich.panel.Panel.fit('a'), rich.text.Text.assemble('a'))\nprint(shown)", False),
        ("rich.console.Console().print('a')", False),
    ],
)
def test_what_shows_or_ends_something_writes_no_file(line: str, is_noted: bool) -> None:
    imports = (
        "import gym, os, rich, rich.console, rich.panel, rich.pretty, rich.progress, rich.table, rich.text\n"
        "import subprocess\nfrom multiprocessing import Pipe"
    )
    result = run(script(imports=f"{imports}\nfrom other import given", end=line))
    assert any(n.rule == "writes" for n in result.notes) is is_noted
    assert line in result.after.decode()
    assert GUARD not in result.after.decode()


@pytest.mark.parametrize("move", ["shutil.move('run', 'done')", "os.rename('run', 'done')"])
@pytest.mark.parametrize("path", ["os.path.join('run', 'net.pt')", "'run/net.pt'", "'other/net.pt'"])
def test_all_have_read_what_is_in_a_folder_before_it_is_moved(path: str, move: str) -> None:
    text = SELECTED.format(first="os.makedirs('run')", second="pass").replace("json, os", "json, os, shutil")
    text = text.replace("if __name__", f"    model.load_state_dict(torch.load({path}))\nif __name__")
    waits = "    accelify.runtime.PartialState().wait_for_everyone()\n"
    before, _, after = run(f"{text}    {move}\n").after.decode().rpartition(BY_LIBRARY)
    assert after == f"        {move}\n"
    assert before.endswith(f"    main()\n{waits}") is ("run" in path)


@pytest.mark.parametrize(
    ("branch", "after"),
    [
        ("elif device:\n    f = open('a')\n", None),
        (
            "elif use_cuda:\n    plt.savefig('b.png')\n",
            "elif accelerator.is_main_process and use_cuda:\n    plt.savefig('b.png')",
        ),
        (
            "elif use_cuda:\n    plt.savefig('b.png')\nelse:\n    plt.savefig('c.png')\n",
            "elif accelerator.is_main_process:\n    if use_cuda:\n        plt.savefig('b.png')\n"
            "    else:\n        plt.savefig('c.png')",
        ),
    ],
)
def test_an_elif_that_writes_is_guarded(branch: str, after: str | None) -> None:
    first = "if device == 'tpu':\n    model.eval()\n    model(torch.ones(2, 4))\n"
    text = end(f"{first}{branch}")
    assert text.endswith(after) if after else "is_main_process" not in text


TRAINER = """
import os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 2)

    def fit(self):
        loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for (x,) in loader:
            loss = self.model(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def predict(self, table):
        {write}

{end}
"""


@pytest.mark.parametrize(
    ("write", "end", "is_noted"),
    [
        ("table.frame().to_csv('rows.csv')", "", True),
        ("self.put(table)\n\n    def put(self, table):\n        table.frame().to_csv('rows.csv')", "", True),
        ("export(table)", "def export(table):\n    table.frame().to_csv('rows.csv')", True),
        ("pass", "def export(table):\n    table.frame().to_csv('rows.csv')", False),
        ("table.frame().to_csv('rows.csv')", "Trainer().fit()", False),
    ],
)
def test_a_method_that_is_called_elsewhere_writes(write: str, end: str, *, is_noted: bool) -> None:
    result = run(TRAINER.format(write=write, end=end))
    assert result.status is Status.MIGRATED
    assert any("`to_csv`: every process writes this" in n.message for n in result.notes) is is_noted


BASED = """\
folder = 'saved/'
options = {{'base': folder}}
with open(os.path.join(folder, 'rows.csv'), 'w') as f:
    f.write('a')
def load(options):
    return {read}
print(load(options))
"""


@pytest.mark.parametrize(
    ("read", "waits"),
    [
        ("open(options['base'] + 'rows.csv').readlines()", True),
        ("open(f\"{options['base']}rows.csv\").readlines()", True),
        ("open(str(options['base']) + 'rows.csv').readlines()", True),
        ("open(options['base'] + 'others.csv').readlines()", False),
    ],
)
def test_all_wait_for_a_file_whose_folder_is_put_before_its_name(read: str, waits: bool) -> None:
    after = run(script(imports=IMPORTS, end=BASED.format(read=read))).after.decode()
    assert ("accelerator.wait_for_everyone()" in after) is waits


APART = "if accelify.runtime.Environment.read().is_main_process:"
BY_IMPORT = """\
import logging, os, sys
import torch
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
{log}
def train(model, optimizer, loader):
    for x in loader:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {used}
def main():
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer, DataLoader(torch.rand(16, 4), batch_size=4))
if __name__ == "__main__":
    main()
"""
HANDLER = (
    "h = logging.FileHandler('a.log')",
    "h.setFormatter(logging.Formatter('%(message)s'))",
    "logging.getLogger().addHandler(h)",
)


@pytest.mark.parametrize(
    ("log", "used", "found"),
    [
        ("\n".join(HANDLER), "logging.info(loss.item())", "\n".join([APART, *(f"    {line}" for line in HANDLER)])),
        (
            "logging.basicConfig(filename='a.log')",
            "logging.info(loss.item())",
            f"{APART}\n    logging.basicConfig(filename='a.log')",
        ),
        (
            "writer = SummaryWriter()",
            "writer.add_scalar('loss', loss.item())",
            "writer = SummaryWriter() if accelify.runtime.Environment.read().is_main_process else None",
        ),
        (
            "log = open('a.log', 'w')",
            "log.write(f'{loss.item()}')",
            "log = open('a.log', 'w') if accelify.runtime.Environment.read().is_main_process else None",
        ),
        (
            "log = logging.FileHandler('a.log')",
            "log.emit(draw(loss))",
            "log = logging.FileHandler('a.log') if accelify.runtime.Environment.read().is_main_process "
            "else logging.NullHandler()",
        ),
    ],
)
def test_logs_that_are_opened_as_a_file_is_imported(log: str, used: str, found: str) -> None:
    """A worker of a loader may import the script, and so may another one, where no process can wait for the others."""
    result = run(BY_IMPORT.format(log=log, used=used))
    assert f"\n{found}\n" in result.after.decode()
    assert not [n for n in result.notes if n.rule == "writes"]


@pytest.mark.parametrize("line", ["os.rename('a.txt', 'b.txt')", "os.remove('a.txt')"])
def test_other_files_that_are_written_as_a_file_is_imported_are_noted(line: str) -> None:
    result = run(BY_IMPORT.format(log=line, used="pass"))
    assert f"\n{line}\n" in result.after.decode()
    assert [n.rule for n in result.notes if n.rule == "writes"]


@pytest.mark.parametrize(
    ("called", "is_guarded"),
    [
        ("log = opened()\n", True),
        ("class Logs:\n    log = opened()\n", True),
        ("def both():\n    return opened(), 1\nlog, one = both()\n", True),
        ("log = 1\nif __name__ == '__main__':\n    opened()\n", False),
        ("log = 1\n", False),
    ],
)
def test_a_log_that_a_helper_opens_as_it_is_imported(called: str, is_guarded: bool, tmp_path: Path) -> None:
    opened, result = "    logging.basicConfig(filename='a.log')\n", "    return logging.getLogger()\n"
    helper = f"import logging\n\ndef opened():\n{opened}{result}\n{called}"
    found = rewritten(tmp_path, "main.py", main=training_script(imports="import helper"), helper=helper)
    after = found["helper.py"].after.decode() if "helper.py" in found else helper
    guarded = f"    {APART}\n    {opened}" if is_guarded else opened
    assert f"def opened():\n{guarded}{result}" in after
    assert not [n for r in found.values() for n in r.notes if n.rule == "writes"]


IN_FUNCTIONS = """\
import argparse
import torch
from torch.utils.data import DataLoader
from transformers import BertModel
parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("--other")
args = parser.parse_args()
def train(loader, model, optimizer, out):
    for x in loader:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    {write}
def run():
    model = BertModel.from_pretrained('base')
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(DataLoader(torch.ones(16, 3), batch_size=2), model, optimizer, {given})
def test():
    found = BertModel.from_pretrained(args.out)
    print(found)
run()
test()
"""


@pytest.mark.parametrize(
    ("write", "given", "is_one"),
    [
        ("model.save_pretrained(out)", "args.out", True),
        ("model.save_pretrained(str(out))", "args.out", True),
        ("model.save_pretrained(args.out)", "args.other", True),
        ("model.save_pretrained(out)", "args.other", False),
    ],
)
def test_a_wait_in_a_function_for_what_callers_name(write: str, given: str, is_one: bool) -> None:
    after = run(IN_FUNCTIONS.format(write=write, given=given)).after.decode()
    assert "is_main_process" in after
    assert ("wait_for_everyone" in after) is is_one
