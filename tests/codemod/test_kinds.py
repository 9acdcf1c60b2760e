"""Where strangers' scripts keep what is prepared: each kind comes out with its model and its loader prepared."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from accelify.codemod.options import ACCELIFY, RUNTIMES, Runtime
from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options, rewrite_together
from tests.codemod.pairs import left_alone, migrated, run, script


def test_parameters_that_a_loop_collects_lead_to_their_model() -> None:
    text = migrated("""\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = nn.Linear(4, 1).to(device)
        trained = []
        for p in filter(lambda p: p.requires_grad, model.parameters()):
            trained.append(p)
        optimizer = torch.optim.SGD(trained, lr=0.1)
        loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        for (x,) in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        """)
    assert "model = nn.Linear(4, 1)\n" in text
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in text


def test_a_loop_over_the_parts_of_a_batch_leaves_the_loader_sharded() -> None:
    text = migrated("""\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batches = DataLoader(TensorDataset(torch.randn(8, 3, 4)), batch_size=2)
        for batch in batches:
            for i, part in enumerate(batch):
                optimizer.zero_grad()
                model(part).mean().backward()
                optimizer.step()
        """)
    assert "batches, model, optimizer = accelerator.prepare(batches, model, optimizer)" in text
    assert "shard" not in text


def test_loaders_of_which_only_iterators_are_kept_are_prepared_where_they_are_made() -> None:
    text = migrated("""\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        class Mixed:
            def __init__(self, sets):
                self.loaders, self.iterators = [], []
                for one in sets:
                    loader = DataLoader(one, batch_size=2)
                    self.loaders.append(loader)
                    self.iterators.append(iter(loader))
            def batch(self):
                parts = []
                for i, iterator in enumerate(self.iterators):
                    try:
                        parts.append(next(iterator)[0])
                    except StopIteration:
                        self.iterators[i] = iter(self.loaders[i])
                        parts.append(next(self.iterators[i])[0])
                return torch.cat(parts)
        mixed = Mixed([TensorDataset(torch.randn(8, 4)), TensorDataset(torch.randn(6, 4))])
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(10):
            optimizer.zero_grad()
            model(mixed.batch()).mean().backward()
            optimizer.step()
        """)
    assert "loader = accelerator.prepare(DataLoader(one, batch_size=2))" in text


def test_an_imported_file_that_changes_shows_the_moves_that_it_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tools.py").write_text(
        "import os\nfrom torch import nn\n\n\ndef folder(path):\n    os.mkdir(path)\n\n\n"
        "def unused(x):\n    return x.cuda()\n\n\ndef wrapped(x):\n    return nn.DataParallel(x)\n"
    )
    Path("train.py").write_text(script(imports="from tools import folder", before="folder('out')"))
    _, tools = rewrite_together(("train.py",), Options())
    assert "exist_ok=True" in tools.after.decode()
    (note,) = tools.notes
    lines = tools.after.decode().splitlines()
    assert lines[note.line - 1].strip() == "return nn.DataParallel(x)"


SAVER = """\
import torch


class Keeper:
    def __call__(self, model, folder):
        self.keep(model, folder + "/" + "best.pt")

    def keep(self, model, path):
        torch.save(model.state_dict(), path)
"""


def with_saver(folder: Path, monkeypatch: pytest.MonkeyPatch, saver: str = SAVER, **slots: str) -> list[FileResult]:
    """A script that is handed its model's keeper by another file, rewritten."""
    monkeypatch.chdir(folder)
    Path("saver.py").write_text(saver)
    slots["end"] = "Keeper()(model, '.')\n" + slots.get("end", "")
    Path("train.py").write_text(script(imports="from saver import Keeper", **slots))
    return list(rewrite_together(("train.py",), Options()))


def test_what_an_imported_file_saves_is_written_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = "model.load_state_dict(torch.load('./' + 'best.pt'))"
    train, saver = (result.after.decode() for result in with_saver(tmp_path, monkeypatch, end=end))
    assert "accelify.runtime.save(model.state_dict(), path)" in saver
    assert saver.startswith("import accelify.runtime\n")
    assert "import torch" not in saver
    assert "accelerator.wait_for_everyone()\nmodel.load_state_dict(" in train


def test_what_copies_the_saved_file_in_an_imported_file_is_left_to_its_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying = "        torch.save(model.state_dict(), path)\n        shutil.copyfile(path, path + '.best')\n"
    saver = "import shutil\n" + SAVER.replace("        torch.save(model.state_dict(), path)\n", copying)
    assert copying in saver
    train, after = with_saver(tmp_path, monkeypatch, saver=saver)
    guarded = "if accelify.runtime.PartialState().is_main_process:\n            shutil.copyfile(path, path + '.best')\n"
    assert guarded in after.after.decode()
    assert not any("copyfile" in note.message for note in (*train.notes, *after.notes))


def test_a_load_before_anything_is_saved_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = "start = torch.load('s' + 't')\nprint(start)"
    monkeypatch.chdir(tmp_path)
    Path("saver.py").write_text(SAVER)
    Path("train.py").write_text(script(imports="from saver import Keeper", model=before, end="Keeper()(model, '.')"))
    train, _ = rewrite_together(("train.py",), Options())
    assert "wait_for_everyone" not in train.after.decode()


def test_an_imported_file_that_calls_something_accelify_is_called_by_the_process_that_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = "model.load_state_dict(torch.load('./' + 'best.pt'))"
    (train,) = with_saver(tmp_path, monkeypatch, saver="accelify = 1\n" + SAVER, end=end)
    guarded = "if accelerator.is_main_process:\n    Keeper()(model, '.')\naccelerator.wait_for_everyone()\n"
    assert guarded in train.after.decode()


def test_what_a_file_loses_may_be_known_by_a_star_to_files_that_do_not_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("saver.py").write_text(SAVER)
    Path("train.py").write_text(script(imports="from saver import *", end="Keeper()(model, '.')"))
    _, saver = rewrite_together(("train.py",), Options())
    assert b"import torch" not in saver.after


def test_weights_that_are_drawn_after_the_optimizer_is_made_are_drawn_before_the_model_is_prepared() -> None:
    text = migrated("""\
        import torch
        from torch import nn

        def init(m):
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)

        def draw(net):
            for p in net.parameters():
                p.data.normal_()

        model, other = nn.Linear(4, 1), nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.apply(init)
        draw(model)
        draw(other)
        for step in range(8):
            optimizer.zero_grad()
            model(torch.randn(2, 4)).mean().backward()
            optimizer.step()
        """)
    assert text.index("\ndraw(model)") < text.index("accelerator.prepare(model, optimizer)") < text.index("draw(other)")


def test_a_second_gpu_that_is_only_named_for_want_of_the_first_is_one_device() -> None:
    text = migrated(script(before='device = torch.device("cuda:0" if torch.cuda.is_available() else "cuda:1")'))
    assert "device = accelerator.device" in text


def test_what_runs_in_processes_of_its_own_is_declined() -> None:
    result = run(
        dedent("""\
        import torch
        import torch.multiprocessing as mp
        from torch import nn

        class Worker(mp.Process):
            def __init__(self):
                super().__init__()
                self.model = nn.Linear(4, 1)
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

            def run(self):
                for step in range(8):
                    self.optimizer.zero_grad()
                    self.model(torch.randn(2, 4)).mean().backward()
                    self.optimizer.step()

        workers = [Worker() for _ in range(2)]
        """)
    )
    assert result.status is Status.DECLINED
    assert any("torch.multiprocessing.Process" in note.message for note in result.notes)


@pytest.mark.parametrize(("end", "stays"), [("print(model(x))", True), ("print(x)", False)])
def test_a_model_that_is_not_always_prepared_is_moved_if_it_is_used(end: str, stays: bool) -> None:
    text = migrated(f"""\
        import sys
        import torch
        from torch import nn
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        x = torch.randn(2, 4).to(device)
        model = nn.Linear(4, 1).to(device)
        if "train" in sys.argv:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(8):
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        {end}
        """)
    assert ("nn.Linear(4, 1).to(device)" in text) is stays


def test_what_is_brought_to_the_cpu_stays_there() -> None:
    batch = "x, y = x.to(device), y.to(device)\nseen = x.to('cpu').numpy(), y.to(torch.device('cpu'))"
    result = run(script(batch=batch, end="print(model.to('cpu').weight.to('cpu').numpy())"))
    text = result.after.decode()
    assert not [n.message for n in result.notes if "CPU" in n.message]
    assert "seen = x.to('cpu').numpy(), y.to(torch.device('cpu'))\n" in text
    assert "print(model.to('cpu').weight.to('cpu').numpy())" in text


@pytest.mark.parametrize("brought", ["x.type(torch.FloatTensor)", "x.type('torch.FloatTensor')", "x.cpu()"])
def test_what_was_brought_to_the_cpu_is_moved_to_the_device_again(brought: str) -> None:
    assert "x = x.to(device)\n" in migrated(script(batch=f"x = {brought}\nx = x.to(device)"))
    assert f"x = {brought}.to(device)\n" in migrated(script(batch=f"x = {brought}.to(device)"))
    assert "x.to(device)" not in migrated(script(batch="x = x.type(torch.float32)\nx = x.to(device)"))


def test_a_model_is_moved_before_it_is_asked_where_it_is() -> None:
    text = migrated(script(model="model = model.to(device)\nwhere = next(model.parameters()).device"))
    assert "model = model.to(device)\nwhere = next(model.parameters()).device\n" in text


def test_a_choice_between_a_model_and_what_a_wrapper_holds_is_the_model() -> None:
    model = "model = nn.DataParallel(model)"
    end = (
        "whole = model.module if hasattr(model, 'module') else model\nprint((model.module if device else model).weight)"
    )
    text = migrated(script(model=model, end=end))
    assert "whole = model\nprint(model.weight)\n" in text


HANDED_OVER = """\
    import torch
    from tasks import find

    def step(net, optimizer, x, y):
        net.train()
        optimizer.zero_grad()
        (net(x) - y).pow(2).mean().backward()
        optimizer.step()

    def train(task):
        for x, y in task.batches:
            step(task.net, task.optimizer, x, y)

    train(find("copy"))
    """


def test_what_an_object_of_unknown_make_yields_is_dealt_out() -> None:
    assert "for x, y in accelerator.shard(task.batches):" in migrated(HANDED_OVER)


def test_a_function_that_is_called_again_and_again_creates_no_accelerator() -> None:
    text = migrated(HANDED_OVER)
    assert "def step(net, optimizer, x, y, accelerator):" in text
    assert text.count("Accelerator(") == 1


NATURAL = """\
    import torch
    from torch import nn

    policy, value = nn.Linear(4, 2), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*value.parameters()], lr=0.1)

    def step(model, loss):
        gradients = torch.autograd.grad(loss, model.parameters())
        for parameter, gradient in zip(model.parameters(), gradients):
            parameter.data -= 0.1 * gradient

    for _ in range(8):
        x = torch.randn(2, 4)
        step({stepped}, {stepped}(x).mean())
        optimizer.zero_grad()
        value(x).mean().backward()
        optimizer.step()
    """


def test_a_model_that_the_script_steps_by_gradients_of_its_own_declines() -> None:
    result = run(dedent(NATURAL.format(stepped="policy")))
    assert result.status is Status.DECLINED
    assert any("torch.autograd.grad" in note.message for note in result.notes)
    assert run(dedent(NATURAL.format(stepped="value"))).status is Status.DECLINED  # the optimizer's steps are others


def test_a_last_parameter_on_a_line_of_its_own_is_followed_by_another() -> None:
    text = migrated("""\
        import torch
        from torch import nn

        def step(
            model,
            x
        ):
            model(x).mean().backward()

        def main():
            model = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(8):
                optimizer.zero_grad()
                step(model, torch.randn(2, 4))
                optimizer.step()

        main()
        """)
    assert "def step(\n    model,\n    x,\n    accelerator\n):\n" in text


def test_data_drawn_once_for_a_single_step_are_the_same_in_every_process() -> None:
    result = run(
        dedent("""\
        import torch
        x, y = torch.randn(10, 3), torch.randn(10, 2)
        linear = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(linear.parameters(), lr=0.01)
        loss = torch.nn.functional.mse_loss(linear(x), y)
        loss.backward()
        optimizer.step()
        """)
    )
    assert "seed_by_rank" not in result.after.decode()
    assert any("same data" in note.message for note in result.notes)


def test_a_list_of_devices_for_a_wrapper_goes_with_it() -> None:
    devices = 'several, devices = torch.cuda.device_count() > 1, ["cuda:0", "cuda:1"]\n'
    wrap = "if several:\n    model = nn.DataParallel(model, device_ids=devices)\n"
    text = migrated(
        script(before=devices, model=wrap, end="if several:\n    model = model.module\nprint(model, devices)")
    )
    assert "DataParallel" not in text
    assert "model = model" not in text
    left_alone(script(before=devices, model="model.to(devices[1])\nmodel.weight.to('cuda:0')"), "cuda:0 and cuda:1")


CHOSEN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def chosen(count):
    found = torch.cuda.device_count()
    if count > found:
        print("there are not so many")
        count = found
    device = torch.device("cuda:0" if count > 0 else "cpu")
    return device, list(range(count))
def main(settings):
    loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
    model = nn.Linear(4, 1)
    device, numbers = chosen(settings["count"])
    model = model.to(device)
    if len(numbers) > 1:
        model = nn.DataParallel(model, device_ids=numbers)
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["rate"])
    for (x,) in loader:
        optimizer.zero_grad()
        model(x.to(device)).mean().backward()
        optimizer.step()
main({"count": 2, "rate": 0.1})
"""


def test_what_chose_a_device_and_the_wrappers_gpus_goes_with_them() -> None:
    text = migrated(CHOSEN)
    assert "chosen" not in text.split("def main")[1]
    assert "DataParallel" not in text
    assert "numbers" not in text
    assert "device = accelerator.device" in text.split("def main")[1]  # what chose it also prints


def test_of_what_a_function_chose_only_the_device_may_be_left() -> None:
    kept = CHOSEN.replace(
        "    optimizer = torch", "    noise = torch.randn(1, device=device)\n    optimizer = torch", 1
    )
    text = migrated(kept.replace("model(x.to(device))", "model(x.to(device) + noise)"))
    assert "    device = accelerator.device\n" in text
    assert "numbers" not in text


def test_a_choice_that_does_more_than_choose_stays() -> None:
    text = migrated(CHOSEN.replace('print("there', 'open("log", "w").write("there'))
    assert '    device, numbers = chosen(settings["count"])\n' in text
    assert "DataParallel" not in text


SPREAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
    def train(self, rate, data_parallel=True):
        model = self.model
        if data_parallel:
            model = nn.DataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        for (x,) in self.loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
def main(data_parallel=True):
    loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
    Trainer(nn.Linear(4, 1), loader).train(0.1, data_parallel)
main(data_parallel=False)
"""


def test_a_parameter_that_only_wrapped_the_model_goes_from_every_call() -> None:
    text = migrated(SPREAD)
    assert "data_parallel" not in text
    assert "def main():" in text
    assert "train(0.1)" in text


@pytest.mark.parametrize(
    "lent", ["import fire\nfire.Fire(main)", "COMMANDS = {'train': main}\nimport run\nrun.all(COMMANDS)", "print(main)"]
)
def test_a_parameter_that_others_may_give_stays_and_is_named(lent: str) -> None:
    result = run(SPREAD.replace("main(data_parallel=False)", lent))
    assert result.status is Status.MIGRATED
    assert "def main(data_parallel=True):" in result.after.decode()
    assert "train(0.1)" in result.after.decode()
    message = "`data_parallel` is kept for others that call `main`, but has no effect any more"
    assert [n.message for n in result.notes if "kept for" in n.message] == [message]


MOVED = """
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Trainer:
    def __init__(self, config):
        self.config = config
        self.model = nn.Linear(4, 1).to(config.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def move({parameters}):
        return [item.to(self.config.device) for item in ({items})]
    def train(self, loader):
        for items in loader:
            x, y = self.move(*items)
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()
    def test(self, loader):
        for items in loader:
            x, y = self.move(*items)
            print(nn.functional.mse_loss(self.model(x), y))
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
trainer = Trainer(parser.parse_args())
trainer.train(loader)
trainer.test(loader)
"""


@pytest.mark.parametrize(("parameters", "items"), [("self, *args", "args"), ("self, x, y", "x, y")])
def test_the_object_of_a_method_is_no_parameter_that_is_kept(parameters: str, items: str) -> None:
    result = run(MOVED.format(parameters=parameters, items=items))
    assert "item.to(accelerator.device)" in result.after.decode()
    assert not [n for n in result.notes if "is kept for" in n.message]


def test_a_parameter_of_a_function_whose_calls_are_all_known_goes_though_its_name_is_held() -> None:
    text = migrated(SPREAD.replace("main(data_parallel=False)", "start = main\nstart(data_parallel=False)"))
    assert "data_parallel" not in text


PAIRS = """\
import random
from torch.utils.data import Dataset
class Pairs(Dataset):
    def __init__(self, rows):
        self.rows = rows
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        return random.choice(self.rows), random.choice(self.rows)
"""


@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=RUNTIMES)
def test_a_data_set_that_draws_its_samples_needs_nothing_where_the_runtime_draws_others_in_each_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: Runtime
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pairs.py").write_text(PAIRS)
    loader = "loader = DataLoader(Pairs(torch.randn(8, 4)), batch_size=2)"
    Path("train.py").write_text(script(imports="from pairs import Pairs", model=loader))
    result = next(r for r in rewrite_together(("train.py",), Options(runtime=runtime)) if r.path == "train.py")
    assert "accelerator.seed_by_rank()" not in result.after.decode()
    is_alike = any("draw the same random numbers in their data sets" in note.message for note in result.notes)
    assert is_alike == (runtime is not ACCELIFY)


OWN_LOSS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Loss:
    {slots}
    def __init__(self, value):
        self.value = value
    def __add__(self, other):
        return Loss(self.value + other.value)
    def backward(self):
        self.value.backward()
def main():
    loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader:
        optimizer.zero_grad()
        loss = Loss(model(x).mean()) + Loss(model(x).pow(2).mean())
        loss.backward()
        optimizer.step()
main()
"""


def test_losses_of_the_script_s_own_add_up_to_one() -> None:
    text = migrated(OWN_LOSS.format(slots="scale = 1"))
    assert "        self.accelerator.backward(self.value)\n" in text
    assert "        loss.backward()\n" in text
    assert "accelerator.prepare(loader, model, optimizer)" in text
    text = migrated(OWN_LOSS.format(slots='__slots__ = ("value",)'))
    assert "        Accelerator.current().backward(self.value)\n" in text


STEPS_BY_NAME = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
parser.add_argument("--huber", action="store_true")
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()
def squared(args, model, loader, optimizer):
    for x, y in loader:
        if args.cuda:
            x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
def huber(args, model, loader, optimizer):
    for x, y in loader:
        if args.cuda:
            x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        nn.functional.smooth_l1_loss(model(x), y).backward()
        optimizer.step()
def main():
    model = nn.Linear(4, 1)
    if args.cuda:
        model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    if args.huber:
        train = huber
    else:
        train = squared
    train(args, model, loader, optimizer)
main()
"""


def test_one_of_several_functions_is_chosen_by_a_name() -> None:
    text = migrated(STEPS_BY_NAME)
    assert text.count("accelerator.backward(") == 2
    assert "train(args, model, loader, optimizer, accelerator)" in text
    left_alone(STEPS_BY_NAME.replace("= huber", "= compiled(huber)"), "passed on as a value")


@pytest.mark.parametrize(
    ("start", "chosen"),
    [
        ("MODES = {'huber': huber, 'squared': squared}", "MODES[args.mode]"),
        (
            "MODES = {'huber': huber, 'squared': squared}\nMODES.keys(); print(len(MODES), 'huber' in MODES)",
            "MODES.get(args.mode)",
        ),
        ("MODES = [huber, squared]\nNAMES = sorted(MODES, key=str)", "MODES[args.mode]"),
        ("", "{'huber': huber, 'squared': squared}[args.mode]"),
        ("", "(huber, squared)[args.huber]"),
    ],
)
def test_one_of_several_functions_is_taken_from_a_container(start: str, chosen: str) -> None:
    branches = "    if args.huber:\n        train = huber\n    else:\n        train = squared\n"
    assert branches in STEPS_BY_NAME
    source = STEPS_BY_NAME.replace("def main", f"{start}\ndef main").replace(branches, f"    train = {chosen}\n")
    text = migrated(source)
    assert text.count("accelerator.backward(") == 2
    assert "train(args, model, loader, optimizer, accelerator)" in text
    left_alone(source.replace(f"train = {chosen}", f"train = compiled({chosen})"), "passed on as a value")


def test_functions_of_a_container_that_goes_elsewhere() -> None:
    start = "MODES = {'huber': huber, 'squared': squared}\nstart(MODES)"
    left_alone(STEPS_BY_NAME.replace("def main", f"{start}\ndef main"), "passed on as a value")


@pytest.mark.parametrize("exported", ["(huber, squared)", "[huber, squared]", "['huber', 'squared']"])
def test_functions_that_a_module_exports_by_themselves(exported: str) -> None:
    assert migrated(f"{STEPS_BY_NAME}__all__ = {exported}\n").count("accelerator.backward(") == 2
    left_alone(f"{STEPS_BY_NAME}call_all({exported.replace(chr(39), '')})\n", "passed on as a value")


def test_a_method_keeps_its_object() -> None:
    text = """\
        import torch
        from torch import nn


        class Trainer:
            def __init__(self):
                self.model = nn.Linear(4, 1)
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

            def spread(self):
                if torch.cuda.device_count() > 1:
                    self.model = nn.DataParallel(self.model)

            def train(self):
                for _ in range(3):
                    self.optimizer.zero_grad()
                    self.model(torch.ones(2, 4)).mean().backward()
                    self.optimizer.step()


        Trainer().train()
        """
    after = migrated(text)
    assert "DataParallel" not in after
    assert "def spread(self):\n        pass\n" in after


def test_what_is_set_up_before_the_guard_has_its_accelerator_there() -> None:
    text = """\
        import torch
        from torch import nn

        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        if __name__ == "__main__":
            for epoch in range(3):
                if epoch == 1:
                    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
                optimizer.zero_grad()
                model(torch.ones(2, 4)).mean().backward()
                optimizer.step()
        """
    after = migrated(text)
    assert after.index("accelerator = Accelerator(") < after.index("accelerator.prepare(") < after.index("__main__")


ANEW = """\
    import torch
    from sklearn.model_selection import KFold
    from torch import nn

    X, y = torch.randn(40, 4), torch.randn(40, 1)


    def fit(rows, rate):
        {made}
        for epoch in range(3):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(X[rows]), y[rows]).backward()
            optimizer.step()


    {outside}
    {loop}
    """
MADE = "model = nn.Linear(4, 1); optimizer = torch.optim.SGD(model.parameters(), lr=float(rate))"


@pytest.mark.parametrize(
    "loop",
    [
        "for rows, _ in KFold(5).split(X): fit(rows, 0.1)",
        "for fold, (rows, _) in enumerate(KFold(5).split(X)): fit(rows, 0.1)",
        "for rate in torch.logspace(-3, 0, 4): fit(slice(None), rate)",
    ],
)
def test_each_training_of_many_is_everyones(loop: str) -> None:
    result = run(dedent(ANEW).format(made=MADE, outside="", loop=loop))
    assert "shard" not in result.after.decode()
    assert any("every process has the same data" in n.message for n in result.notes)


@pytest.mark.parametrize("made", ["pass", "optimizer = torch.optim.SGD(model.parameters(), lr=float(rate))"])
def test_one_training_by_rounds_shards_them_unless_they_are_folds(made: str) -> None:
    outside = "model = nn.Linear(4, 1); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    loop = "for rows in torch.randperm(40).split(8): fit(rows, 0.1)"
    assert "shard(torch.randperm(40).split(8))" in migrated(ANEW.format(made=made, outside=outside, loop=loop))
    folds = "for rows, _ in KFold(5).split(X): fit(rows, 0.1)"
    assert "shard" not in migrated(ANEW.format(made=made, outside=outside, loop=folds))


def test_what_holds_for_a_block_alone_is_not_prepared_after_it() -> None:
    block = "with higher.innerloop_ctx(model, optimizer) as (inner, step):\n    step.step(inner(x).mean())\n"
    after = run(script(imports="import higher", batch=block)).after.decode()
    assert after.count("accelerator.prepare(") == 1
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in after


def test_a_loader_by_the_way_is_not_prepared() -> None:
    others = "others = {'a': DataLoader(TensorDataset(torch.ones(4, 4)), batch_size=2)}"
    after = run(
        script(prepared=others, end="best = {}\nfor name, _ in others.items():\n    best[name] = 1")
    ).after.decode()
    assert "accelerator.prepare(_)" not in after


BY_HAND = """\
import torch
from torch import nn
actor, critic = nn.Linear(3, 2), nn.Linear(3, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()])

def natural(states):
    (critic(states) - 1).pow(2).mean().backward()
    optimizer.step()
    gradients = torch.autograd.grad(actor(states).pow(2).mean(), actor.parameters())
    for p, g in zip(actor.parameters(), gradients):
        {written}

def plain(states):
    optimizer.zero_grad()
    actor(states).pow(2).mean().backward()
    optimizer.step()

for states in torch.utils.data.DataLoader(torch.randn(8, 3)):
    (natural if len(states) else plain)(states)
"""


@pytest.mark.parametrize(
    ("written", "is_declined"),
    [
        ("p.data.copy_(p - 0.1 * g)", True),
        ("p.detach().data.sub_(0.1 * g)", True),
        ("p.data.add_(g, alpha=-0.1)", True),
        ("p.data = p.data - 0.1 * g", True),
        ("p.data = p.fast = p.data - 0.1 * g", True),
        ("p.fast = p - 0.1 * g", False),
        ("p.fast = (p if p.fast is None else p.fast) - 0.1 * g", False),
        ("print(p.shape, g.norm())", False),
    ],
)
def test_weights_that_are_also_stepped_by_hand_are_declined(written: str, is_declined: bool) -> None:
    notes = run(BY_HAND.format(written=written)).notes
    assert any("torch.autograd.grad" in note.message for note in notes) is is_declined
