"""Where the sizes of training batches are written, and which calls divided a batch between GPUs."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from accelify.codemod.options import Options
from accelify.codemod.preparing.batch_sizes import BatchSizes, may_be_divided, parallel_models
from accelify.codemod.rewrite import rewrite_together
from accelify.codemod.understand import modelled
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import script


def found(facts: Facts) -> BatchSizes:
    return facts.script.batch_sizes


@pytest.mark.parametrize(
    ("loader", "size"),
    [
        ("DataLoader(rows, batch_size=16, shuffle=True)", "16"),
        ("DataLoader(rows, 16)", "16"),
        ("DataLoader(dataset=rows, batch_size=args.batch_size)", "args.batch_size"),
        ("DataLoader(rows, batch_sampler=batches)", "batches"),
        ("DataLoader(rows)", "DataLoader(rows)"),
    ],
)
def test_the_size_is_an_argument_of_the_loader(loader: str, size: str) -> None:
    facts = Facts(script().replace("DataLoader(rows, batch_size=2)", loader))
    assert texts(found(facts).loaders) == [size]


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ("batch_sampler=Episodes()", ["Episodes()"]),
        ("batch_sampler=episodes", ["episodes"]),
        ("batch_sampler=torch.utils.data.BatchSampler(s, 4, True)", []),
        ("batch_size=4, sampler=episodes", []),
    ],
)
def test_batches_that_a_sampler_of_the_projects_own_chooses(given: str, chosen: list[str]) -> None:
    before = "class Episodes:\n    def __iter__(self):\n        yield [0, 1]\nepisodes = Episodes()"
    facts = Facts(script(before=before).replace("DataLoader(rows, batch_size=2)", f"DataLoader(rows, {given})"))
    assert texts(found(facts).chosen) == chosen


def test_the_loader_may_be_built_by_a_class_of_the_project() -> None:
    before = "class Loader(DataLoader):\n    def __init__(self, rows, batch_size):\n        super().__init__(rows)"
    text = script(before=before).replace("loader = DataLoader(rows, batch_size=2)", "loader = Loader(rows, 8)")
    assert texts(found(Facts(text)).loaders) == ["8"]


OWN = (
    "class Loader(DataLoader):\n    def __init__(self, *args, **options):\n        super().__init__(*args, **options)\n"
)


@pytest.mark.parametrize(
    ("before", "over"),
    [
        ("other = Loader(rows, batch_size=4)", "loader"),
        ("loaders = {'train': loader, 'val': Loader(rows, batch_size=4)}", "loaders['train']"),
        (
            "val = Loader(rows, batch_size=4)\nclass Data:\n    def __init__(self, a, b):\n"
            "        self.a, self.b = a, b\ndata = Data(loader, val)",
            "data.a",
        ),
        ("loaders = (Loader(rows, batch_size=4), loader)", "loaders[1]"),
    ],
)
def test_another_loader_of_the_same_class_has_a_size_of_its_own(before: str, over: str) -> None:
    made = f"{OWN}loader = Loader(rows, 8)\n{before}"
    text = script().replace("loader = DataLoader(rows, batch_size=2)", made).replace("in loader:", f"in {over}:")
    assert texts(found(Facts(text)).loaders) == ["8"]


def test_a_loader_that_another_file_makes_to_try_itself_out_has_no_say() -> None:
    data = f"from torch.utils.data import DataLoader\n{OWN}if __name__ == '__main__':\n    print(Loader(rows, 4))\n"
    main = script(imports="from data import Loader", before="def make(n):\n    return Loader(rows, n)")
    facts = Facts({"main.py": main.replace("DataLoader(rows, batch_size=2)", "make(8)"), "data.py": data})
    assert texts(found(facts).loaders) == ["n"]


def test_the_loader_may_be_built_in_another_file() -> None:
    main = script(imports="from data import loaders").replace(
        "loader = DataLoader(rows, batch_size=2)", "loader = loaders(rows)"
    )
    data = "from torch.utils.data import DataLoader\ndef loaders(rows):\n    return DataLoader(rows, batch_size=32)\n"
    facts = Facts({"main.py": main, "data.py": data})
    (size,) = found(facts).loaders
    assert (facts.program.path(size), facts.program.line(size)) == ("data.py", 3)


def test_a_loader_that_only_evaluates_has_no_say() -> None:
    facts = Facts(
        script(before="valid = DataLoader(rows, batch_size=64)", end="for x, y in valid:\n    print(model(x))")
    )
    assert texts(found(facts).loaders) == ["2"]


@pytest.mark.parametrize(
    ("over", "sizes"),
    [
        ("for x, y in loaders[phase]:", ["2"]),
        ("for i, (x, y) in enumerate(loaders[phase]):", ["2"]),
        ("for x, y in loaders[key(phase)]:", ["2", "64"]),
    ],
)
def test_a_loader_of_a_phase_that_only_evaluates_has_no_say(over: str, sizes: list[str]) -> None:
    text = f"""\
        import torch
        from torch.utils.data import DataLoader
        loaders = {{"train": DataLoader(rows, batch_size=2), "val": DataLoader(rows, batch_size=64)}}
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for phase in ["train", "val"]:
            {over}
                loss = (model(x) - y).mean()
                if phase == "train":
                    loss.backward()
                    optimizer.step()
        """
    assert texts(found(Facts(text)).loaders) == sizes


def test_items_of_the_scripts_own_are_counted_by_their_loop() -> None:
    facts = Facts(
        script().replace("for x, y in loader:", "for i in range(0, len(rows), 8):\n        x, y = rows[i : i + 8]")
    )
    assert not found(facts).loaders
    assert [type(loop).__name__ for loop in found(facts).loops] == ["For"]


PARALLEL = ["nn.DataParallel(model)", "torch.nn.parallel.DataParallel(model, device_ids=[0, 1])"]
PARALLEL += ["nn.parallel.data_parallel.DataParallel(module=model)"]


@pytest.mark.parametrize("call", PARALLEL)
def test_data_parallel_divides_a_batch(call: str) -> None:
    facts = Facts(script(model=f"if torch.cuda.device_count() > 1:\n    model = {call}"))
    assert texts(parallel_models(facts.program, facts.script.training)) == [call]
    assert facts.script.options.keep_global_batch


@pytest.mark.parametrize("ids", ["ids = [0]", "ids = (args.gpu,)", "ids = [args.gpu]"])
@pytest.mark.parametrize("given", ["device_ids=ids", "ids"])
def test_data_parallel_on_one_device_divides_none(ids: str, given: str) -> None:
    text = script(imports="from settings import args", model=f"{ids}\nmodel = nn.DataParallel(model, {given})")
    facts = Facts(text)
    assert not parallel_models(facts.program, facts.script.training)


@pytest.mark.parametrize("ids", ["ids = args.gpus", "ids = [*args.gpus]", "ids = [0]\nids = [0, 1]"])
def test_data_parallel_on_some_devices_divides_a_batch(ids: str) -> None:
    text = script(imports="from settings import args", model=f"{ids}\nmodel = nn.DataParallel(model, ids)")
    facts = Facts(text)
    assert texts(parallel_models(facts.program, facts.script.training)) == ["nn.DataParallel(model, ids)"]


VISIBLE = "os.environ['CUDA_VISIBLE_DEVICES']"


@pytest.mark.parametrize(
    ("seen", "is_divided"),
    [
        (f"{VISIBLE} = '0'", False),
        (f"{VISIBLE} = '1'", False),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = str('3')", True),  # not followed
        (f"{VISIBLE} = '0,1'", True),
        (f"if os.environ.get('A'): {VISIBLE} = '0'", True),
        (f"def one():\n    {VISIBLE} = '0'", True),
    ],
)
def test_data_parallel_on_the_one_gpu_that_is_seen_divides_none(seen: str, is_divided: bool) -> None:
    wrapped = "if torch.cuda.device_count() > 1: model = nn.DataParallel(model)"
    facts = Facts(script(imports="import os", before=seen, model=wrapped))
    assert bool(parallel_models(facts.program, facts.script.training)) is is_divided


def test_distributed_data_parallel_divides_none() -> None:
    facts = Facts(script(model="model = nn.parallel.DistributedDataParallel(model)"))
    assert not parallel_models(facts.program, facts.script.training)


NETWORK = """\
from torch import nn
class Network(nn.Linear):
    pass
{shown}
"""
SHOWN = "net = nn.DataParallel(Network(4, 1)).cuda()\nprint(net(net.weight))"


STARTED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from network import Network
def main():
    model = Network(4, 1){wrapped}
    loader = DataLoader(torch.ones(8, 4), batch_size=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main()
"""


@pytest.mark.parametrize(
    ("question", "wrapped", "is_divided"),
    [
        ("__name__ == '__main__'", "", False),
        ("'__main__' == __name__", "", False),
        ("__name__ == '__main__'", "\n    model = nn.DataParallel(model)", True),
    ],
)
def test_what_another_file_does_when_it_is_started_divides_none(
    question: str, wrapped: str, is_divided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "network.py").write_text(NETWORK.format(shown=f"if {question}:\n{indent(SHOWN, '    ')}"))
    (tmp_path / "train.py").write_text(STARTED.format(wrapped=wrapped))
    results = {r.path: r.after.decode() for r in rewrite_together(("network.py", "train.py"), Options())}
    assert ("split_batches=True" in results["train.py"]) is is_divided


def test_another_librarys_batches_cannot_be_divided() -> None:
    text = script(imports="from torchtext.data import BucketIterator")
    facts = Facts(text.replace("DataLoader(rows, batch_size=2)", "BucketIterator(rows, batch_size=2)"))
    assert not may_be_divided(facts.program, facts.roles, facts.tracer, facts.training)
    facts = Facts(script())
    assert may_be_divided(facts.program, facts.roles, facts.tracer, facts.training)


@pytest.mark.parametrize(
    ("given", "is_single"),
    [
        (", batch_size=1, collate_fn=first", True),
        (", one", True),
        (", batch_size=sizes['train']", True),
        (", shuffle=True", True),
        (", batch_size=8", False),
        (", batch_size=args.size", False),
        (", batch_sampler=batches", False),
        (", batch_sampler=Batches(rows, 8)", False),
        (", batch_size=int(args.size)", False),
        (", **settings", False),
    ],
)
def test_batches_of_one_element_cannot_be_divided(given: str, is_single: bool) -> None:
    facts = Facts(script(before="one, sizes = 1, {'train': 1}").replace(", batch_size=2", given))
    assert may_be_divided(facts.program, facts.roles, facts.tracer, facts.training) is not is_single
    assert bool(found(facts).single) is is_single


@pytest.mark.parametrize(
    ("before", "given", "is_whole"),
    [
        ("", "rows, batch_size=len(rows), shuffle=True", True),
        ("size = len(rows)", "dataset=rows, batch_size=size", True),
        ("x = torch.rand(8, 4)\nheld = TensorDataset(x)", "held, x.shape[0]", True),
        ("x = torch.rand(8, 4)\nheld = TensorDataset(x)", "held, batch_size=x.size(0)", True),
        ("x = torch.rand(8, 4)", "rows, batch_size=len(x)", False),
        ("", "rows, batch_size=len(rows) // 2", False),
    ],
)
def test_batches_of_all_samples(before: str, given: str, is_whole: bool) -> None:
    text = script(imports="from torch.utils.data import TensorDataset", before=before)
    facts = Facts(text.replace("rows, batch_size=2", given))
    assert bool(found(facts).whole) is is_whole


NET = """\
class Net(nn.Module):
    def __init__(self, batch_size=1):
        super().__init__()
        self.size = batch_size
    def init_hidden(self, n): return torch.zeros(n, 4)
    def forward(self, x): return x.view(self.size, -1)
size = 2
settings = {"size": 2, "height": 2}
rows_in_batch, height = settings["size"], settings["height"]
same = settings["size"]
"""


def fixed(made: str, size: str = "size", batch: str = "", loader: str = "") -> list[str]:
    text = script(before=NET, set_up=f"net = {made}", batch=batch)
    text = text.replace("DataLoader(rows, batch_size=2)", loader or f"DataLoader(rows, batch_size={size})")
    return texts(found(Facts(text)).fixed)


@pytest.mark.parametrize(
    ("forward", "given"),
    [
        ("self.size = x.size(0); return x.view(self.size, -1)", []),
        ("self.set(len(x)); return x.view(self.size, -1)", []),
        ("self.size = self.size; return x.view(self.size, -1)", ["size", "self.size"]),
        ("if self.training: self.size = x.size(0)\n        return x.view(self.size, -1)", ["size", "self.size"]),
    ],
)
def test_a_model_that_asks_each_batch_for_its_size(forward: str, given: list[str]) -> None:
    net = NET.replace("return x.view(self.size, -1)", f"\n        {forward}")
    text = script(before=f"{net}", set_up="net = Net(size)", batch="net(x)")
    text = text.replace("    def init_hidden", "    def set(self, n): self.size = n\n    def init_hidden")
    text = text.replace("batch_size=2)", "batch_size=size)")
    assert texts(found(Facts(text)).fixed) == given


@pytest.mark.parametrize(
    ("made", "size", "batch", "given"),
    [
        ("Net(size)", "size", "", ["size"]),
        ("Net(batch_size=size)", "size", "", ["size"]),
        ("Net(2)", "2", "", ["2"]),
        ("Net(args.b)", "args.b", "", ["args.b"]),
        ("Net()", "size", "h = net.init_hidden(size)", ["size"]),
        ("Net(3)", "2", "", []),
        ("Net()", "2", "h = net.init_hidden(2)", []),  # a number that is called `n` may be any
        ("Net()", "size", "h = net.init_hidden(len(x))", []),
        ("Net(size)", "size", "if len(x) != size: continue", []),
        ("Net(size)", "size", "net.size = len(x); net(x)", []),
        ("Net()", "args.size", "x.view(args.size, -1)", ["args.size"]),
        ("Net(size)", "size", "n, _ = x.shape; net.size = n; net(x)", []),
        ("Net(size)", "size", "net.size = size; net(x)", ["size", "self.size"]),
        ("nn.Linear(size, 1)", "size", "", []),
        ("Net(height)", "rows_in_batch", "", []),  # another key
        ("Net(same)", "rows_in_batch", "", ["same"]),
    ],
)
def test_a_model_that_is_told_the_size(made: str, size: str, batch: str, given: list[str]) -> None:
    assert fixed(made, size, batch) == given


@pytest.mark.parametrize(
    ("kept", "read", "is_told"),
    [
        ("self.size = n", "x", False),
        ("self.size = n", "x[: self.size]", True),
        ("self.size = self.other = n", "x[: self.other]", True),
        ("self.inner = Inner(n)", "self.inner(x)", False),
        ("self.inner = Inner(n=n)", "self.inner(x)[: self.inner.rows]", True),
        ("self.state = torch.zeros(n, 4)", "x", True),
        ("pass", "x", False),
    ],
)
def test_a_model_that_only_keeps_the_size(kept: str, read: str, is_told: bool) -> None:
    inner = "class Inner(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.rows = n\n"
    net = f"class Net(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        {kept}\n"
    settings = "class Settings:\n    def __init__(self): self.size = 2\nprint(Settings().size)\nsize = 2\n"
    text = script(before=f"{inner}{net}    def forward(self, x): return {read}\n{settings}", set_up="net = Net(size)")
    text = text.replace("DataLoader(rows, batch_size=2)", "DataLoader(rows, batch_size=size)")
    assert bool(found(Facts(text)).fixed) is is_told


@pytest.mark.parametrize(
    ("batch", "given"),
    [
        ("z = x.view(size, -1)", ["size"]),
        ("z = model(x).reshape((size, 3))", ["size"]),
        ("z = x.view(2 * size)", []),
        ("z = weights.view(size, -1)", []),  # no batch
        ("z = x.t().view(3, size, -1)", ["size"]),
        ("h = torch.zeros(1, size, 8)\nout, h = model(x, h)", ["size"]),
        ("h = torch.zeros(1, size, 8).to(device)\nout = net(x)\nloss = compare(out, h)", ["size"]),
        ("out = torch.zeros(2, size, 3)\nout[0] = net(x)", ["size"]),
        ("out = torch.zeros(size, 3)\nout[:, 1] = net(x)", ["size"]),
        ("out = torch.zeros(size, 3)\nout[0] = net(x).mean()", []),
        ("out = torch.zeros(2, size, 3)\nout[0] = weights", []),
        ("noise = torch.randn(size, 8)\nfake = model(noise)", []),
        ("z = x.view(size, -1)\nif len(x) < size: break", []),
    ],
)
def test_code_that_takes_all_batches_for_full(batch: str, given: list[str]) -> None:
    assert fixed("Net()", batch=batch) == given


MASKED = "def masked():\n    return torch.cat([torch.arange(size) for _ in range(2)])\n"


@pytest.mark.parametrize(
    ("batch", "given"),
    [
        ("out, loss = model(x), 0\nfor i in range(size): loss += compare(out[i:i+1][0], y[i])", ["size"]),
        ("out = model(x)\nfor i in range(0, size):\n    if i == 0: print(out[:, i])", ["size"]),
        ("loss = sum(compare(a, x[i]) for i in range(0, size, 2))", ["size"]),
        ("for i in range(size):\n    for j in range(size):\n        if i != j: loss = x[i] @ x[j]", ["size", "size"]),
        ("for i in range(size):\n    if x[i].sum() > 0: print(i)", ["size"]),
        ("for i in range(len(x)): print(x[i])", []),
        ("for i in range(x.size(0)): print(x[i])", []),
        ("for i in range(min(size, len(x))): print(x[i])", []),
        ("for i in range(size): print(weights[i])", []),  # no batch
        ("for i in range(size): print(i, x)", []),
        ("for i in range(size):\n    if i >= len(x): break\n    print(x[i])", []),
        ("n = x.shape[0]\nfor i in range(size):\n    if n > i: print(x[i])", []),
    ],
)
def test_rows_picked_up_to_the_size(batch: str, given: list[str]) -> None:
    assert fixed("Net()", batch=batch) == given


@pytest.mark.parametrize(
    ("batch", "given"),
    [
        ("for i in range(4): print(x[i])", ["4"]),
        ("for i in range(4): print(x[i, 0])", ["4"]),
        ("for i in range(3): print(x[i])", []),
        ("for i in range(4): print(x[:, i])", []),  # columns
        ("for i in range(4): print(x[0][i])", []),
    ],
)
def test_rows_picked_up_to_a_number(batch: str, given: list[str]) -> None:
    assert fixed("Net()", "4", batch) == given


@pytest.mark.parametrize(
    ("before", "batch", "given"),
    [
        ("", "w = torch.full((size, 1), 0.5).to(x.device)\nw = w * x", ["size"]),
        ("", "mask = torch.eye(2 * size)", ["size"]),
        ("", "z = torch.cat((x, torch.zeros(size // 2, 4)))", ["size"]),
        ("", "more = np.zeros((int(size / 4), 4))", ["size"]),
        ("width = 8", "more = np.zeros((int(width / 4), 4))", []),
        ("", "real = torch.ones(size, 1)\nerror = compare(net(x), real)", ["size"]),
        (MASKED, "labels = masked()", ["size"]),
        ("", "noise = torch.rand(size, 1)\nz = (0.5 * noise) * x + (1 - noise) * model(x)", ["size"]),
        ("", "w = torch.full((len(x), 1), 0.5)", []),
        ("", "go = np.concatenate((np.zeros([size, 1]), x), axis=1)", ["size"]),
        ("", "mask = torch.tensor(np.ones((size, 3)))", ["size"]),
        ("", "h = x.new_zeros(size, 8)", ["size"]),
        ("", "noise = np.random.randn(size, 8)\nz = torch.from_numpy(noise).float().to(device)\nmodel(z, x)", ["size"]),
        ("draw = np.random.RandomState(0)", "z = torch.tensor(draw.normal(size=(size, 1))) * x", ["size"]),
        ("", "noise = np.random.randn(size, 8)\nfake = model(torch.from_numpy(noise).float())", []),
        ("", "rows = np.asarray(size)", []),
        ("noise = torch.randn(size, 8)", "show(noise)", []),
    ],
)
def test_tensors_of_a_step_for_full_batches(before: str, batch: str, given: list[str]) -> None:
    text = script(before=f"import numpy as np\nsize = 2\n{before}", batch=batch)
    text = text.replace("batch_size=2", "batch_size=size, drop_last=True")
    assert texts(found(Facts(text)).fixed) == []
    facts = Facts(text)
    facts.options = Options(keep_global_batch=True)
    assert texts(found(facts).fixed) == given


@pytest.mark.parametrize("more", ["drop_last=True", "drop_last=args.drop", "**options"])
def test_a_loader_that_may_keep_smaller_batches_back(more: str) -> None:
    assert fixed("Net(size)", loader=f"DataLoader(rows, batch_size=size, {more})") == []
    assert fixed("Net(size)", loader="DataLoader(rows, batch_size=size, drop_last=False)") == ["size"]


def test_another_loader_of_the_same_name_has_a_size_of_its_own() -> None:
    shown = "loader = DataLoader(rows, batch_size=1)\nfor x, y in loader: break"
    assert texts(found(Facts(script(before=shown))).loaders) == ["2"]
    either = "if p:\n    loader = DataLoader(rows, batch_size=4)"
    assert texts(found(Facts(script(model=either))).loaders) == ["2", "4"]


@pytest.mark.parametrize(
    ("batch", "given"),
    [
        ("noise = torch.randn(size, 8)\nloss = compare(model(noise, x), y)", ["size"]),
        ("h = torch.zeros(1, size, 8).to(device)\nout = net(x)\nloss = compare(out, h)", ["size"]),
        ("z = x.view(size, -1)", ["size"]),
        ("if len(x) < size: break", ["size"]),
        ("n = x.size(0)\nif size != n: continue", ["size"]),
        ("noise = torch.randn(size, 8)\nfake = model(noise)", []),
        ("noise = torch.randn(len(x), 8)\nfake = model(noise, x)", []),
        ("if size == 1: break", []),
    ],
)
def test_where_the_batches_are_divided_none_is_full(batch: str, given: list[str]) -> None:
    text = script(before="size = 2", batch=batch)
    facts = Facts(text.replace("batch_size=2)", "batch_size=size, drop_last=True)"))
    assert not found(facts).fixed
    divided = modelled(facts.program, Options(keep_global_batch=True))
    assert texts(divided.batch_sizes.fixed) == given


GIVEN = """\
import torch

def train(model, {parameters}):
    opt = torch.optim.Adam(model.parameters())
    for x, y in loader:
        opt.zero_grad()
        {step}
        loss.backward()
        opt.step()
"""


@pytest.mark.parametrize(
    ("parameters", "step", "given"),
    [
        ("loader, batch_size=8", "loss = (model(x).reshape(batch_size, -1) - y).mean()", ["batch_size"]),
        ("loader, batchsize", "loss = (model(x).view((batchsize, 3)) - y).mean()", ["batchsize"]),
        ("loader, *, bs", "loss = (model(x) - torch.zeros(bs, 1)).mean()", ["bs"]),
        ("loader, batch_size", "n = batch_size; loss = model(x).view(n, -1).mean()", ["n"]),
        ("loader, batch_size", "loss = model(x.view(len(x), -1)).mean()", []),
        ("loader, batch_size", "batch_size = len(x); loss = model(x.view(batch_size, -1)).mean()", []),
        ("loader, width", "loss = model(x.view(width, -1)).mean()", []),
        ("loader, batch_size", "loss = model(x.sum(batch_size)).mean()", []),
        (
            "loader, batch_size",
            "if len(x) < batch_size: break\n        loss = model(x.view(batch_size, -1)).mean()",
            [],
        ),
    ],
)
def test_a_function_that_is_given_the_loader_and_the_size(parameters: str, step: str, given: list[str]) -> None:
    text = GIVEN.format(parameters=parameters, step=step)
    assert list(dict.fromkeys(texts(found(Facts(text)).fixed))) == given


def test_the_size_is_known_where_the_caller_is() -> None:
    text = GIVEN.format(parameters="loader, batch_size", step="loss = model(x).view(batch_size, -1)")
    call = "train(torch.nn.Linear(4, 1), torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=4{more}), 4)\n"
    assert texts(found(Facts(text + call.format(more=", drop_last=True"))).fixed) == []


@pytest.mark.parametrize(
    "batch", ["z = x.view(1, -1)", "z = x.reshape((1, 4, 1))", "h = torch.zeros(1, 8)\nz = net(x, h)"]
)
def test_no_batch_is_smaller_than_one_row(batch: str) -> None:
    assert fixed("nn.Linear(4, 1)", "1", batch) == []


def test_a_batch_may_be_smaller_than_two_rows() -> None:
    assert fixed("nn.Linear(4, 1)", "2", "z = x.view(2, -1)") == ["2"]


TRAINER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Trainer(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net, self.opt = net, torch.optim.SGD(net.parameters(), lr=0.1)
    def fit(self, data, size):
        loader = DataLoader(data, batch_size=size)
        for x in loader:
            {first}
            loss = self.net(x).view({rows}, -1).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
SIZE = 8
Trainer(nn.Linear(4, 1)).fit(torch.rand(36, 4), SIZE)
"""


@pytest.mark.parametrize(
    ("first", "rows", "given"),
    [
        ("size = x.shape[0]", "size", []),
        ("pass", "len(x)", []),
        ("size, _ = x.shape", "size", []),
        ("pass", "size", ["SIZE", "size"]),
    ],
)
def test_a_trainer_that_is_a_module_gives_its_loader_the_size(first: str, rows: str, given: list[str]) -> None:
    assert texts(found(Facts(TRAINER.format(first=first, rows=rows))).fixed) == given
