"""What a script does besides training is done once: folders, files, logs, downloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import scripts
from tests.codemod.pairs import changed, run, script

# Folders.


@pytest.mark.parametrize(
    ("made", "by_all"),
    [
        ("os.mkdir('out')", "os.makedirs('out', exist_ok=True)"),
        ("os.makedirs('out', 0o755)", "os.makedirs('out', 0o755, exist_ok=True)"),
        ("os.makedirs('out', exist_ok=False)", "os.makedirs('out', exist_ok=True)"),
        ("Path('out').mkdir()", "Path('out').mkdir(exist_ok=True)"),
        ("Path('out').mkdir(parents=True)", "Path('out').mkdir(parents=True, exist_ok=True)"),
    ],
)
def test_a_folder_may_be_there_already(made: str, by_all: str) -> None:
    changed("-" + made, "+" + by_all, imports="import os\nfrom pathlib import Path", before=made)


@pytest.mark.parametrize(
    ("imported", "made", "edits"),
    [
        ("mkdir", "mkdir('out')", ["-from os import mkdir", "+from os import makedirs", "-mkdir('out')"]),
        ("getcwd, mkdir", "if not getcwd():\n    mkdir('out')", ["-from os import getcwd, mkdir", "-mkdir('out')"]),
    ],
)
def test_a_folder_made_by_a_function_that_cannot_be_told_so(imported: str, made: str, edits: list[str]) -> None:
    added = ["+from os import getcwd", "+from os import makedirs"] if "getcwd" in imported else []
    changed(*edits, *added, "+makedirs('out', exist_ok=True)", imports=f"from os import {imported}", before=made)


def test_such_a_function_under_another_name_is_noted() -> None:
    result = run(script(imports="from os import mkdir as make", before="make('out')"))
    assert any(n.rule == "folders" and "exist_ok" in n.message for n in result.notes)


@pytest.mark.parametrize(
    "made",
    [
        "os.makedirs('out', exist_ok=True)",
        "os.makedirs('out', 0o755, True)",
        "os.makedirs(*where)",
        "Path('out').mkdir(exist_ok=True)",
        "try:\n    os.mkdir('out')\nexcept OSError:\n    pass",
        "client.mkdir('out')",
    ],
)
def test_a_folder_that_may_be_there_anyway_is_left_alone(made: str) -> None:
    changed(imports="import os\nfrom pathlib import Path\nfrom remote import client, where", before=made)


CLOCKED = "import os\nimport time\nfrom pathlib import Path"
NOW = "time.strftime('%H%M%S')"
AGREED = f"accelerator.broadcast_object_list([{NOW}])[0]"


@pytest.mark.parametrize(
    "named",
    [
        "os.makedirs(NOW, exist_ok=True)",
        "where = os.path.join('out', NOW)\nos.makedirs(where, exist_ok=True)",
        "where = Path('out') / NOW\nwhere.mkdir(exist_ok=True)",
        "def where():\n    return NOW\nos.makedirs('out/' + where(), exist_ok=True)",
        "def make(root, name):\n    os.makedirs(os.path.join(root, name), exist_ok=True)\nmake('out', NOW)",
        "args.out = 'out' + NOW\nos.makedirs(args.out, exist_ok=True)",
        "parser.add_argument('--out', default=NOW)\nos.makedirs(args.out, exist_ok=True)",
    ],
)
def test_processes_agree_on_a_folder_named_for_the_time(named: str) -> None:
    (line,) = (part for part in named.split("\n") if "NOW" in part)
    imports = CLOCKED + "\nfrom options import args, parser"
    gone, come = line.replace("NOW", NOW).strip(), line.replace("NOW", AGREED).strip()
    result = changed("-" + gone, "+" + come, imports=imports, before=named.replace("NOW", NOW))
    assert not any(n.rule == "folders" for n in result.notes)


@pytest.mark.parametrize(
    "named",
    [
        f"for _ in range(len(os.listdir('.'))):\n    os.makedirs({NOW}, exist_ok=True)",
        f"if os.path.exists('old'):\n    os.makedirs({NOW}, exist_ok=True)",
        f"try:\n    os.makedirs({NOW}, exist_ok=True)\nexcept ValueError:\n    pass",
        f"class Log:\n    def write(self):\n        os.makedirs({NOW}, exist_ok=True)",
    ],
)
def test_a_clock_that_not_every_process_may_come_to_is_reported(named: str) -> None:
    result = changed(imports=CLOCKED, before=named)
    assert any(n.rule == "folders" and "has the time in it" in n.message for n in result.notes)


WAIT = "accelerator.wait_for_everyone()"


@pytest.mark.parametrize(
    "made",
    [
        "if os.path.exists('out'):\n    raise SystemExit('there')\n{}os.makedirs('out', exist_ok=True)",
        "if not os.path.exists('out'):\n    {}os.makedirs('out', exist_ok=True)\nelif os.listdir():\n    raise OSError",
        "assert not Path('out').is_dir()\n{}os.makedirs('out', exist_ok=True)",
        "if use_cuda:\n    pass\nelif os.path.isdir('out'):\n    sys.exit('there')\n{}make('out')",
        "if os.path.exists('out') and input() != 'y':\n    exit()\n{}make('out')",
    ],
)
def test_all_have_looked_before_one_creates_the_folder_that_stops_the_others(made: str) -> None:
    make = "import os, sys\nfrom pathlib import Path\ndef make(path):\n    os.makedirs(path, exist_ok=True)"
    result = run(script(imports=make, before=made.format("")))
    indent = "    " if "    {}" in made else ""
    assert made.format(f"{WAIT}\n{indent}") in result.after.decode()
    assert result.after.decode().count(WAIT) == 1
    assert not any("stops here" in n.message for n in result.notes)


@pytest.mark.parametrize(
    ("made", "is_reported"),
    [
        ("try:\n    os.mkdir('out')\nexcept FileExistsError:\n    if use_cuda:\n        raise", True),
        ("try:\n    os.makedirs('out')\nexcept OSError:\n    sys.exit('there')", True),
        ("try:\n    os.makedirs('out')\nexcept OSError as e:\n    if e.errno != 17:\n        raise", False),
        ("if not os.path.exists('out'):\n    os.makedirs('out')\nelse:\n    print('there')", False),
        ("if not os.path.exists('data'):\n    raise OSError('no data')\nos.makedirs('out')", False),
    ],
)
def test_a_script_that_stops_where_its_folder_is_reported(made: str, is_reported: bool) -> None:
    result = run(script(imports="import os, sys", before=made))
    assert WAIT not in result.after.decode()
    assert is_reported == any(n.rule == "folders" and "stops here" in n.message for n in result.notes)


def test_a_folder_that_was_looked_for_is_made_without_review() -> None:
    made = "if os.path.exists('out'):\n    raise SystemExit('there')\nos.makedirs('out')"
    result = run(script(imports="import os", before=made))
    assert "os.makedirs('out', exist_ok=True)" in result.after.decode()
    assert not any(n.rule == "folders" for n in result.notes)


DELETED = "if accelerator.is_main_process:\n    {}\naccelerator.wait_for_everyone()\n"


@pytest.mark.parametrize(
    "deleted",
    [
        "shutil.rmtree('out')",
        "if os.path.isdir('out'):\n    shutil.rmtree('out', ignore_errors=True)",
        "if os.path.exists('out'):\n    shutil.rmtree('out')\n    os.makedirs('out', exist_ok=True)",
    ],
)
def test_one_process_deletes_a_folder(deleted: str) -> None:
    result = run(script(imports="import os, shutil", before=deleted))
    guarded = DELETED.format(deleted)
    if deleted.startswith("if "):
        guarded = DELETED.replace(":\n    {}", " and {}").format(deleted.removeprefix("if "))
    assert guarded in result.after.decode()
    assert not any("deletes this folder" in n.message for n in result.notes)


@pytest.mark.parametrize(
    "deleted", ["shutil.rmtree('out')", "os.rmdir('out')", "os.removedirs('out')", "if a:\n    shutil.rmtree('out')"]
)
def test_one_process_deletes_a_folder_that_the_others_may_have_used(deleted: str) -> None:
    result = run(script(imports="import os, shutil", before="a = 1", end=deleted))
    text = "accelerator.wait_for_everyone()\n" + DELETED.format(deleted.rpartition("\n")[2].strip())
    text = "".join(f"    {line}\n" if deleted.startswith("if") else f"{line}\n" for line in text.splitlines())
    assert text in result.after.decode()
    assert not any("deletes this folder" in n.message for n in result.notes)


@pytest.mark.parametrize(
    "slots",
    [
        {"end": "shutil.rmtree(f'{os.getpid()}')"},
        {"before": "out = f'{os.getpid()}'\nshutil.rmtree(out)"},
        {"before": "for name in os.listdir('out'):\n    shutil.rmtree(name)"},
        {"before": "if os.path.exists('out'):\n    count()\n    shutil.rmtree('out')"},
        {"before": "if not ask():\n    shutil.rmtree('out')"},
    ],
)
def test_a_folder_that_all_processes_delete_is_reported(slots: dict[str, str]) -> None:
    result = changed(imports="import os, shutil, tempfile", **slots)
    assert any(n.rule == "folders" and "deletes this folder" in n.message for n in result.notes)


def test_a_choice_that_nothing_reads_any_more_is_still_made() -> None:
    text = script(
        imports="import os, ask\n\n\ndef make():\n    may = ask.whether()\n    os.makedirs('out', exist_ok=may)\n",
        before="make()",
    )
    result = run(text)
    assert "    ask.whether()\n    os.makedirs('out', exist_ok=True)\n" in result.after.decode()


# Files, figures, events.

WRITER = "from torch.utils.tensorboard import SummaryWriter"
ALONE = "if accelerator.is_main_process:"
GUARD = f"+{ALONE}"


def moved(*lines: str) -> list[str]:
    """Lines that only go further to the right."""
    return [sign + line for line in lines for sign in "-+"]


@pytest.mark.parametrize(
    ("imports", "written"),
    [
        ("import json", "with open('a.json', 'w') as f:\n    json.dump({'lr': 0.1}, f)"),
        ("import numpy as np", "np.save('w.npy', model.weight.detach().numpy())"),
        ("import matplotlib.pyplot as plt", "plt.show()"),
        ("from torchvision.utils import save_image", "images = torch.zeros(3, 4, 4)\nsave_image(images, 'a.png')"),
        ("import pandas as pd", "pd.DataFrame([1]).to_csv('a.csv')"),
        ("import logging", "logging.basicConfig(filename='a.log')"),
        ("from PIL import Image", "Image.fromarray(model.weight.numpy()).save('a.png')"),
        ("from PIL import Image", "Image.fromarray(model.weight.numpy()).resize((2, 2)).save('a.png')"),
        ("from torchvision.transforms import ToPILImage", "ToPILImage()(model.weight.data).save('a.png')"),
        ("import os", "if os.path.exists('a'):\n    os.remove('a')"),
        (
            "import imageio",
            "frames = []\nfor k in range(2):\n    frames.append(imageio.imread(f'{k}.png'))\n"
            "imageio.mimsave('a.gif', frames)",
        ),
    ],
)
def test_what_is_written_is_written_by_one_process(imports: str, written: str) -> None:
    result = run(script(imports=imports, end=written))
    after = result.after.decode()
    guarded = ":\n    " + written.strip().replace("\n", "\n    ")
    if written.startswith("if "):
        guarded = " and " + written.removeprefix("if ")
    assert f"if accelerator.is_main_process{guarded}\n" in after
    assert not any(n.rule == "writes" for n in result.notes)


@pytest.mark.parametrize(
    "written",
    [
        "np.save('w.npy', numpy.random.rand(2))",
        "np.save('w.npy', next(iter(loader)))",
        "np.save('w.npy', rows := [1])",
        "for x, y in loader:\n    np.save('w.npy', x)\n    total = x",
        "with open('a', 'w') as f:\n    model.train()\n    f.write(str(count()))",
    ],
)
def test_what_other_processes_must_do_too_is_reported(written: str) -> None:
    result = run(script(imports="import numpy as np\nfrom other import count", end=written + "\nprint(globals())"))
    after = result.after.decode()
    guarded = [line for line in after.split("\n") if "if accelerator.is_main_process:" in line]
    assert not guarded or "    if accelerator.is_main_process:\n        np.save('w.npy', x)\n" in after
    assert guarded or "else os.devnull" in after or any(n.rule == "writes" for n in result.notes)


def test_a_file_that_all_must_open_is_written_by_one() -> None:
    written = "with open('a', {mode}) as f:\n    size = 3\n    f.write('a')\nprint(size)"
    nowhere = "with open('a' if accelerator.is_main_process else os.devnull, 'w') as f:"
    lines = ("+import os", "-with open('a', 'w') as f:", f"+{nowhere}")
    assert not any(n.rule == "writes" for n in changed(*lines, end=written.format(mode="'w'")).notes)
    notes = changed(end=written.format(mode="'r+'")).notes
    assert any(n.rule == "writes" and "`open`, `write`" in n.message for n in notes)


def test_a_count_that_goes_on_elsewhere_stays() -> None:
    batch = "seen += 1\nif seen % 10 == 0:\n    writer.add_scalar('seen', seen)\n    seen = 0"
    result = run(script(imports=WRITER, before="seen = 0", prepared="writer = SummaryWriter()", batch=batch))
    after = result.after.decode()
    assert "            if accelerator.is_main_process:\n                writer.add_scalar('seen', seen)\n" in after
    assert "\n            seen = 0\n" in after


def test_a_writer_is_made_where_it_writes() -> None:
    changed(
        GUARD,
        *moved("writer = SummaryWriter()"),
        GUARD,
        *moved("writer.add_scalar('lr', 0.1)", "writer.close()"),
        imports=WRITER,
        prepared="writer = SummaryWriter()",
        end="# how it went\nwriter.add_scalar('lr', 0.1)\nwriter.close()",
    )


def test_pages_of_figures_are_made_where_they_are_written() -> None:
    changed(
        GUARD,
        *moved("pages = PdfPages('plots.pdf')"),
        GUARD,
        *moved("pages.savefig(plt.figure())", "pages.close()"),
        imports="import matplotlib.pyplot as plt\nfrom matplotlib.backends.backend_pdf import PdfPages",
        prepared="pages = PdfPages('plots.pdf')",
        end="pages.savefig(plt.figure())\npages.close()",
    )


def test_a_writer_that_is_handed_on_is_made_by_one_process() -> None:
    changed(
        "-writer = SummaryWriter()",
        "+writer = SummaryWriter() if accelerator.is_main_process else None",
        GUARD,
        *moved("writer.add_scalar('lr', 0.1)"),
        imports=WRITER,
        prepared="writer = SummaryWriter()",
        end="def tell(writer):\n    writer.add_scalar('lr', 0.1)\n\n\ntell(writer)",
    )


def test_a_writer_that_is_asked_elsewhere_is_made_by_all() -> None:
    result = changed(
        GUARD,
        *moved("writer.add_scalar('lr', 0.1)"),
        imports=WRITER,
        prepared="writer = SummaryWriter()",
        end="writer.add_scalar('lr', 0.1)\nprint(writer.log_dir)",
    )
    assert any(n.rule == "writes" and "SummaryWriter" in n.message for n in result.notes)


def test_a_function_that_writes_is_called_by_one_process(tmp_path: Path) -> None:
    """The accelerator does not reach another file, but the call."""
    plotting = (
        "import matplotlib.pyplot as plt\n\n\ndef show(losses):\n    plt.plot(losses)\n    plt.savefig('a.png')\n"
    )
    files = {"train.py": script(imports="from plotting import show", end="show([1])").encode()}
    results, after = scripts.rewrite(tmp_path, {**files, "plotting.py": plotting.encode()})
    assert b"if accelerator.is_main_process:\n    show([1])\n" in after["train.py"]
    assert after["plotting.py"] == plotting.encode()
    assert not any(n.rule == "writes" for r in results for n in r.notes)


def test_who_reads_what_is_written_waits() -> None:
    result = run(script(imports="import numpy as np", end="np.save('a.npy', [1])\nmodel.scale = np.load('a.npy')"))
    expected = "    np.save('a.npy', [1])\naccelerator.wait_for_everyone()\nmodel.scale"
    assert expected in result.after.decode()


def test_a_command_that_reads_what_is_written_waits() -> None:
    end = "path = 'a.npy'\nnp.save(path, [1])\nos.system('sort %s' % path)"
    after = run(script(imports="import os\nimport numpy as np", end=end)).after.decode()
    assert "np.save(path, [1])\naccelerator.wait_for_everyone()\nos.system(" in after
    after = run(script(imports="import os\nimport numpy as np", end=end + "\nos.system('ls')")).after.decode()
    assert after.count("wait_for_everyone") == 1


def test_a_block_on_its_head_s_line_is_opened_for_its_guard() -> None:
    result = run(script(imports="import numpy as np", end="for k in loader: np.save('a.npy', [1])"))
    expected = "for k in loader:\n    if accelerator.is_main_process:\n        np.save('a.npy', [1])\n"
    assert result.after.decode().endswith(expected)
    assert not any(n.rule == "writes" for n in result.notes)


def test_what_the_script_has_its_first_process_write_is_written_there() -> None:
    begun = (
        "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
        "from torch.utils.data.distributed import DistributedSampler"
    )
    text = script(
        imports=f"{begun}\nimport numpy as np\ndist.init_process_group('gloo')\nrank = dist.get_rank()",
        prepared="model = DDP(model)",
        end="if rank == 0:\n    np.save('a.npy', [1])\ndist.destroy_process_group()",
    )
    result = run(text.replace("batch_size=2)", "batch_size=2, sampler=DistributedSampler(range(8)))"))
    assert "\nif accelerator.is_main_process:\n    np.save('a.npy', [1])\n" in result.after.decode()
    assert not any(n.rule == "writes" for n in result.notes)


# Downloads.

SETS = "from torchvision.datasets import MNIST"
FIRST = "+with accelerator.main_process_first():"


def test_downloads_are_made_by_one_process_first() -> None:
    two = ["train = MNIST('d', download=True)", "test = MNIST('d', train=False, download=fetch)"]
    changed(FIRST, *moved(*two), imports=SETS, before="fetch = True\n" + "\n".join(two), end="print(train, test)")


@pytest.mark.parametrize(
    "made",
    [
        "datasets.__dict__[name.upper()]('d', train=True, download=True)",
        "getattr(datasets, name)('d', download=True)",
        "list(vars(datasets)[name]('d', download=True))",
        "Own('d', download=True)",
    ],
)
def test_a_data_set_that_is_looked_up_is_downloaded_by_one_process_first(made: str) -> None:
    imports = "from torchvision import datasets\nname = 'MNIST'\nclass Own:\n    def __init__(self, root, download):\n"
    imports += "        if download:\n            get(root)"
    changed(FIRST, *moved(f"data = {made}"), imports=imports, before=f"data = {made}", end="print(data)")


def test_a_function_that_downloads_is_called_by_one_process_first(tmp_path: Path) -> None:
    sets = "from torchvision.datasets import MNIST\n\n\ndef get():\n    return MNIST('d', download=True)\n"
    files = {"train.py": script(imports="from sets import get", before="data = get()", end="print(data)").encode()}
    _, after = scripts.rewrite(tmp_path, {**files, "sets.py": sets.encode()})
    assert b"with accelerator.main_process_first():\n    data = get()\n" in after["train.py"]
    assert after["sets.py"] == sets.encode()


def test_a_file_that_is_imported_downloads_in_one_process_first(tmp_path: Path) -> None:
    sets = "from torchvision.datasets import MNIST\nfrom torch.utils.data import DataLoader\n"
    sets += "train = MNIST('d', download=True)\n\ntest = MNIST('d', train=False, download=True)\n"
    sets += "loader = DataLoader(train)\n"
    main = script(imports="from sets import loader, test", end="print(test)")
    main = "".join(line for line in main.splitlines(True) if not line.startswith("loader ="))
    _, after = scripts.rewrite(tmp_path, {"train.py": main.encode(), "sets.py": sets.encode()})
    first = after["sets.py"].decode().partition("with accelerator.main_process_first():\n")[2]
    assert first.startswith("    train = MNIST('d', download=True)\n\n    test = MNIST(")


@pytest.mark.parametrize(
    "download",
    [
        "if not os.path.exists('d'):\n    data = MNIST('d', download=True)",  # when others look, it may be there
        "try:\n    data = MNIST('d', download=True)\nexcept OSError:\n    raise",
    ],
)
def test_downloads_that_not_all_processes_may_come_to_are_reported(download: str) -> None:
    result = run(script(imports=f"import os\n{SETS}", before=download))
    assert any(n.rule == "downloads" for n in result.notes)
    assert b"main_process_first" not in result.after


def test_what_downloads_nothing_is_left_alone() -> None:
    changed(imports=SETS, before="data = MNIST('d', download=False)\nother = MNIST('d')", end="print(data, other)")


# Experiments.


@pytest.mark.parametrize(
    ("begun", "by_one"),
    [
        ("wandb.init()", 'wandb.init(mode=None if accelerator.is_main_process else "disabled")'),
        ("r = wandb.init(mode=m)", 'r = wandb.init(mode=m if accelerator.is_main_process else "disabled")'),
        ("swanlab.init('p')", "swanlab.init('p', mode=None if accelerator.is_main_process else \"disabled\")"),
        ("e = Experiment('key')", "e = Experiment('key', disabled=not accelerator.is_main_process)"),
        ("e = Experiment(disabled=m)", "e = Experiment(disabled=m or not accelerator.is_main_process)"),
    ],
)
def test_one_run_is_recorded(begun: str, by_one: str) -> None:
    imports = "import swanlab\nimport wandb\nfrom comet_ml import Experiment\nm = None"
    changed("-" + begun, "+" + by_one, imports=imports, before=begun, end="wandb.log({'a': 1})")


@pytest.mark.parametrize(
    "begun", ["wandb.init(mode='disabled')", 'swanlab.init("p", mode="disabled")', "e = Experiment(disabled=True)"]
)
def test_a_run_that_is_disabled_is_left(begun: str) -> None:
    imports = "import swanlab\nimport wandb\nfrom comet_ml import Experiment"
    result = changed(imports=imports, before=begun)
    assert begun in result.after.decode().splitlines()
    assert not any(n.rule == "experiments" for n in result.notes)


@pytest.mark.parametrize(
    ("begun", "by_one"),
    [
        ("mlflow.start_run()", f"{ALONE}\n    mlflow.start_run()"),
        (
            "with mlflow.start_run():\n    print('a')\n    mlflow.log_param('a', 1)",
            f"{ALONE}\n    with mlflow.start_run():\n        print('a')\n        mlflow.log_param('a', 1)",
        ),
        (
            "with mlflow.start_run(run_name='r'):\n    seen = 1\n    mlflow.log_param('a', seen)",
            "with mlflow.start_run(run_name='r') if accelerator.is_main_process else contextlib.nullcontext():\n"
            f"    seen = 1\n    {ALONE}\n        mlflow.log_param('a', seen)",
        ),
    ],
)
def test_a_run_of_mlflow_is_begun_by_one_process(begun: str, by_one: str) -> None:
    result = run(script(imports="import mlflow", before=f"{begun}\nuse = seen if seen else 0", end="mlflow.end_run()"))
    assert by_one in result.after.decode()
    assert f"{ALONE}\n    mlflow.end_run()" in result.after.decode()
    assert not any(n.rule in ("experiments", "writes") for n in result.notes)


@pytest.mark.parametrize(
    "begun",
    ["wandb.init(**options)", "with mlflow.start_run() as run:\n    print(run.info)\n    use(run)", "run = aim.Run()"],
)
def test_a_run_that_may_be_begun_anyhow_is_reported(begun: str) -> None:
    result = changed(imports="import aim\nimport mlflow\nimport wandb\noptions = {}", before=begun)
    assert any(n.rule == "experiments" for n in result.notes)


@pytest.mark.parametrize(
    ("observer", "is_noted"),
    [
        ("ex.observers.append(MongoObserver(url='db:27017', db_name='runs'))", True),
        ("ex.observers.append(FileStorageObserver.create('runs'))", True),
        ("observer = sacred.observers.MongoObserver()\nex.observers.append(observer)", True),
        ("if int(os.environ.get('RANK', 0)) == 0:\n    ex.observers.append(MongoObserver())", False),
        ("ex.add_config('settings.json')", False),
    ],
)
def test_an_observer_of_every_process_is_reported(observer: str, is_noted: bool) -> None:
    imports = "import os\nimport sacred\nfrom sacred.observers import FileStorageObserver, MongoObserver"
    result = run(script(imports=imports, before=f"ex = sacred.Experiment('net')\n{observer}"))
    said = [n.message for n in result.notes if n.rule == "experiments"]
    assert [("add this observer under `if" in message) for message in said] == [True] * is_noted
    assert observer in result.after.decode()


@pytest.mark.parametrize(
    ("imported", "search"),
    [
        ("import wandb", "wandb.agent('sweep', function=train)"),
        ("import optuna", "optuna.create_study().optimize(train, n_trials=3)"),
        ("import optuna", "study = optuna.load_study(study_name='s')\nstudy.optimize(train)"),
        ("from hyperopt import fmin", "fmin(train, {}, max_evals=3)"),
        ("from ray import tune", "tune.Tuner(train).fit()"),
    ],
)
def test_a_search_that_each_process_would_make_is_noted(imported: str, search: str) -> None:
    result = changed(imports=f"{imported}\ndef train(trial): print(trial)", before=search)
    assert ["different models" in n.message for n in result.notes if n.rule == "experiments"] == [True]
    assert not any(n.rule == "writes" for n in result.notes)


def test_videos_and_events_are_written_by_one_process() -> None:
    end = """\
        film = cv2.VideoWriter("out.avi", cv2.VideoWriter_fourcc(*"XVID"), 20.0, (4, 4))
        frames = imageio.get_writer("out.gif", mode="I")
        for image in model(torch.ones(2, 4)).tolist():
            film.write(image)
            frames.append_data(image)
        film.release()
        frames.close()

        class Events:
            def __init__(self, folder):
                self.writer = tf.summary.create_file_writer(folder)

            def tell(self, value, step):
                with self.writer.as_default():
                    tf.summary.scalar("loss", value, step=step)

        class Old:
            def __init__(self, folder):
                self.writer = tf.summary.FileWriter(folder)

            def tell(self, value, step):
                summary = tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=value)])
                self.writer.add_summary(summary, step)

        for log in (Events("logs"), Old("logs")):
            log.tell(0.5, 1)
    """
    result = run(script(imports="import cv2\nimport imageio\nimport tensorflow as tf", end=end))
    text = result.after.decode()
    guard = "if accelerator.is_main_process:\n"
    assert f"{guard}    film = cv2.VideoWriter(" in text
    assert f"{guard}        film.write(image)\n        frames.append_data(image)\n" in text
    assert f"{guard}    film.release()\n    frames.close()\n" in text
    assert f"{guard}            self.writer = tf.summary.create_file_writer(folder)\n" in text
    assert f"{guard}            with self.writer.as_default():\n" in text
    assert f"{guard}            summary = tf.Summary(" in text
    assert not any("every process writes" in note.message for note in result.notes)


@pytest.mark.parametrize(
    ("imports", "written"),
    [
        ("from pathlib import Path", "torch.save(model.state_dict(), Path('out').joinpath('m.pt').open('wb'))"),
        ("import json\nfrom pathlib import Path", "with Path('a').open('w') as f:\n    json.dump({'lr': 0.1}, f)"),
    ],
)
def test_a_file_that_a_path_opens_is_opened_by_the_one_that_writes(imports: str, written: str) -> None:
    changed(GUARD, *moved(*map(str.strip, written.split("\n"))), imports=imports, end=written)


def test_a_file_that_a_path_opens_to_be_read_is_read_by_all() -> None:
    changed(imports="from pathlib import Path", end="with Path('a').open('r') as f:\n    print(f.read())")


@pytest.mark.parametrize("joined", ["torch.cat((seen, x))", "torch.vstack([x, seen])", "np.append(seen, x)"])
def test_what_is_joined_to_what_was_there_is_a_share(joined: str) -> None:
    slots = {"imports": "import numpy as np", "prepared": "seen = torch.zeros(0, 4)", "end": "print(len(seen))"}
    notes = [n.message for n in run(script(batch=f"seen = {joined}", **slots)).notes]
    assert any(m.startswith("`seen` covers this process's shard only") for m in notes)
    assert not any("shard only" in n.message for n in run(script(batch="seen = torch.cat((y, x))", **slots)).notes)


@pytest.mark.parametrize(("holder", "is_guarded"), [("holder.model", False), ("name", True)])
def test_what_a_model_decodes_is_decoded_by_all(holder: str, is_guarded: bool) -> None:
    show = f"images = {holder}.decode(x)\nnp.save('images.npy', images)"
    result = run(
        script(imports="import numpy as np\nimport parts", batch=show, before="holder = parts.get()\nname = b'a'")
    )
    guard = "        if accelerator.is_main_process:\n            images = "
    assert (guard in result.after.decode()) is is_guarded
    assert "if accelerator.is_main_process:\n            np.save(" in result.after.decode() or is_guarded
