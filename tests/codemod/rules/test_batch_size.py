"""One note for each program on what its batch size means on N processes."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest

from accelify.codemod.options import ACCELERATE, Options
from accelify.codemod.result import FileResult, Note, Status
from accelify.codemod.rewrite import rewrite_together
from tests.codemod.pairs import run
from tests.codemod.training_scripts import STEP, script

LOADER = "DataLoader(rows, batch_size=2)"


def note(result: FileResult) -> Note:
    """The one note on the batch size."""
    assert result.status is Status.MIGRATED, result.notes
    (found,) = (n for n in result.notes if n.rule == "batch_size")
    return found


def line(result: FileResult, number: int) -> str:
    return result.after.decode().splitlines()[number - 1].strip()


@pytest.mark.parametrize(
    "written", [f"loader = {LOADER}", "loader = DataLoader(\n    rows,\n    shuffle=True,\n    batch_size=2,\n)"]
)
def test_it_stands_at_the_line_of_the_batch_size(written: str) -> None:
    result = run(script(before="rows = torch.randn(8, 2, 4)").replace(f"loader = {LOADER}", written))
    found = note(result)
    assert "batch_size=2" in line(result, found.line)
    for words in ("N batches of this size", "learning rate", "`--keep-global-batch`"):
        assert words in found.message


def test_a_batch_of_all_samples_is_divided_and_needs_no_larger_learning_rate() -> None:
    found = note(run(script(before="rows = torch.randn(8, 2, 4)").replace("batch_size=2", "batch_size=len(rows)")))
    assert "one batch has all samples" in found.message
    assert "larger learning rate" not in found.message


def test_a_model_for_batches_of_one_size_gets_a_note_of_its_own() -> None:
    net = "class Net(nn.Module):\n    def __init__(self, size):\n        super().__init__()\n        self.size = size\n"
    net += "    def forward(self, x): return x.view(self.size, -1)"
    text = script(before=f"rows = torch.randn(8, 2, 4)\nsize = 2\n{net}", set_up="net = Net(size)")
    text = text.replace("batch_size=2", "batch_size=size")
    for options, words in ((Options(), "`drop_last=True`"), (Options(keep_global_batch=True), "divide by")):
        result = run(text, options)
        _, found = (n for n in result.notes if n.rule == "batch_size")
        assert line(result, found.line) == "net = Net(size)"
        assert words in found.message


def test_it_stands_in_the_file_that_the_user_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = "from torch.utils.data import DataLoader\ndef load(rows):\n    return DataLoader(rows, batch_size=2)\n"
    text = script(before="rows = torch.randn(8, 2, 4)", imports="from data import load").replace(LOADER, "load(rows)")
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "data.py").write_text(data)
    monkeypatch.chdir(tmp_path)
    results = rewrite_together(("train.py",), Options())
    (found,) = (n for r in results for n in r.notes if n.rule == "batch_size")
    assert "(batch size set in data.py:3)" in found.message
    assert line(results[0], found.line) == "for x, y in loader:"


def test_several_training_loaders_get_one_note() -> None:
    text = script(before="rows = torch.randn(8, 2, 4)\nother = DataLoader(rows, batch_size=4)")
    result = run(text.replace("for x, y in loader:", "for (x, y), _ in zip(loader, other):"))
    found = note(result)
    assert "batch_size=4" in line(result, found.line)
    assert f"(and of line {found.line + 1})" in found.message


@pytest.mark.parametrize(
    "wrap",
    [
        "model = nn.DataParallel(model)",
        "if torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model, device_ids=[0, 1])",
        "model = torch.nn.parallel.DataParallel(module=model)",
    ],
)
def test_without_data_parallel_the_processes_divide_each_batch(wrap: str) -> None:
    result = run(script(before="rows = torch.randn(8, 2, 4)", model=wrap))
    assert "Accelerator(split_batches=True)" in result.after.decode()
    assert "`DataParallel` divided each batch" in note(result).message


@pytest.mark.parametrize(
    ("wrap", "at_times"),
    [
        ("if len(args.gpus) > 1:\n    model = nn.DataParallel(model)", True),
        ("if args.parallel:\n    model = nn.DataParallel(model)", True),
        ("model = nn.DataParallel(model) if args.parallel else model", True),
        ("n = torch.cuda.device_count()\nif n > 1:\n    model = nn.DataParallel(model)", False),
        ("if __name__ == '__main__':\n    model = nn.DataParallel(model)", False),
    ],
)
def test_a_wrapper_that_an_option_chooses_divided_at_times(wrap: str, at_times: bool) -> None:
    result = run(script(before="rows = torch.randn(8, 2, 4)", model=wrap))
    said = "`DataParallel`, where the script used it, divided each batch" if at_times else "`DataParallel` divided each"
    assert said in note(result).message


def test_accelerate_divides_multiples_only() -> None:
    text = script(before="rows = torch.randn(8, 2, 4)", model="model = nn.DataParallel(model)")
    assert "multiple of the number of processes" in note(run(text, Options(runtime=ACCELERATE))).message


def test_batches_of_another_library_are_not_divided() -> None:
    text = script(imports="from torchtext.data import BucketIterator", model="model = nn.DataParallel(model)")
    result = run(text.replace(LOADER, "BucketIterator(rows, batch_size=2)"))
    assert "split_batches" not in result.after.decode()
    assert "--keep-global-batch" in note(result).message


def test_the_option_is_reported_as_well() -> None:
    result = run(script(before="rows = torch.randn(8, 2, 4)"), Options(keep_global_batch=True))
    assert "the learning rate needs no change" in note(result).message


def test_items_that_the_script_shards_itself() -> None:
    text = script(before="rows = torch.randn(8, 2, 4)")
    result = run(
        text.replace("for x, y in loader:", "for i in range(0, len(rows), 8):\n        x, y = rows[i], rows[i]")
    )
    found = note(result)
    assert "accelerator.shard(" in line(result, found.line)
    assert "--keep-global-batch" not in found.message
    assert "divide the batch size by `accelerator.num_processes`" in found.message


def test_a_loop_over_the_scripts_own_batches_beside_a_loader_is_named() -> None:
    text = script(before="rows = torch.randn(8, 2, 4)")
    by_hand = text[text.index("for x, y in loader:") :].replace(
        "for x, y in loader:", "for i in range(0, len(rows), 8):\n        x, y = rows[i], rows[i]"
    )
    result = run(f"{text}\n{by_hand}")
    (number,) = re.findall(r"batches of this size \(and of line (\d+)\)", note(result).message)
    assert "in accelerator.shard(range(0, len(rows), 8)):" in line(result, int(number))


@pytest.mark.parametrize("test", ["n % 10 == 0", "not n % 10", "n > 500"])
def test_it_names_what_counts_steps(test: str) -> None:
    batch = f"n += 1\nif {test}:\n    print(n)"
    result = run(script(before="rows = torch.randn(8, 2, 4)\nn = 0", batch=batch))
    (number,) = re.findall(r"\(they are counted in line (\d+)\)", note(result).message)
    assert line(result, int(number)) == f"if {test}:"
    checked = run(script(before="rows = torch.randn(8, 2, 4)", set_up="assert len(loader) % 2 == 0"))
    (number,) = re.findall(r"A check of the number of batches \(line (\d+)\)", note(checked).message)
    assert line(checked, int(number)) == "assert len(loader) % 2 == 0"
    assert "counted in" not in note(run(script(before="rows = torch.randn(8, 2, 4)\nn = 0"))).message


@pytest.mark.parametrize(
    ("epoch", "batch"),
    [
        ("", "n += 1\n        if n * 2 > 800:\n            break"),
        ("seen = 0", "seen += len(x)\n        if seen >= 800:\n            break"),
        ("", "n += 1\n        if n > 500:\n            break"),
    ],
)
def test_limits_of_an_epoch_are_named(epoch: str, batch: str) -> None:
    text = script(before="rows = torch.randn(8, 2, 4)\nn = 0")
    text = text.replace("    for x, y", f"    {epoch}\n    for x, y").replace(
        "optimizer.step()", f"optimizer.step()\n        {batch}"
    )
    result = run(text)
    (number,) = re.findall(r"A limit \(line (\d+)\) counts the steps of one process", note(result).message)
    assert line(result, int(number)).startswith("if ")
    assert "an epoch that no limit ends has 1/N of the steps: " in note(result).message
    assert "A limit" not in note(run(text, Options(keep_global_batch=True))).message
    assert "limit" not in note(run(script(before="rows = torch.randn(8, 2, 4)"))).message


SUMMED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
rows = torch.randn(8, 2)
net = nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(rows, batch_size=2)
for epoch in range(3):
    optimizer.zero_grad()
    for x in {source}:
        {inside}
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("source", "inside"),
    [
        ("loader", "net(x).mean().backward()"),
        ("list(rows)", "(net(x).mean() / len(rows)).backward()"),
        ("loader", "(net(x).mean() + net(x).pow(2).sum() / len(loader)).backward()"),  # which divides one term alone
        (
            "tasks",
            "with adapted(net) as (own, inner):\n            inner.step(own(x).mean())\n"
            "            own(x).mean().backward()",
        ),
    ],
)
def test_a_step_that_learns_from_a_whole_loop(source: str, inside: str) -> None:
    given = "from higher import innerloop_ctx as adapted\ntasks = [torch.randn(2) for _ in range(4)]\n"
    result = run(given + SUMMED.format(source=source, inside=inside))
    found = note(result)
    assert line(result, found.line) == "optimizer.step()"
    assert "1/N of the sum" in found.message
    assert "of the loop in line " in found.message


@pytest.mark.parametrize(
    ("rounds", "asked"),
    [
        ("for _ in range(4)", "next(batches)"),
        ("for k in tqdm(range(parts))", "next(batches)"),
        ("while done < 4", "batches.__next__()"),
    ],
)
def test_a_number_of_batches_is_that_of_each_process(rounds: str, asked: str) -> None:
    summed = SUMMED.replace("for x in {source}:", f"{rounds}:\n        x = {asked}\n        done = done + 1")
    given = "from tqdm import tqdm\nbatches, parts, done = iter(loader), 4, 0\nfor epoch"
    found = note(run(summed.replace("for epoch", given, 1).format(inside="(net(x).mean() / 4).backward()")))
    assert "1/N of the sum" not in found.message
    assert "learns from N batches of this size" in found.message


@pytest.mark.parametrize(
    "inside",
    [
        "net(x).mean().backward()\n        optimizer.step()",
        "(net(x).mean() / len(loader)).backward()",
    ],
)
def test_a_step_in_the_loop_or_of_a_mean_is_no_sum(inside: str) -> None:
    assert "1/N of the sum" not in note(run(SUMMED.format(source="loader", inside=inside))).message


@pytest.mark.parametrize(
    "made",
    [
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)",
        "optimizer = make(net)",
        "optimizer = make(net) if epoch else torch.optim.Adam(net.parameters())",
    ],
)
@pytest.mark.parametrize("after", ["", "other = make(net)\nfor y in DataLoader(rows):\n    {}other.step()\n"])
def test_an_optimizer_that_each_round_makes_learns_from_that_round(made: str, after: str) -> None:
    step = "{0}.zero_grad()\n{1}loss = net({2}).mean()\n{1}loss.backward()\n{1}"
    lines = step.format("optimizer", " " * 8, "x") + "optimizer.step()\n        print(loss.item())\n"
    rounds = f"for epoch in range(3):\n    for x in loader:\n        {made}\n        {lines}"
    before = "def make(net):\n    return torch.optim.SGD(net.parameters(), lr=0.1)\n"
    script = SUMMED.partition("for epoch")[0] + before + rounds + after.format(step.format("other", " " * 4, "y"))
    found = note(run(script))
    assert "1/N of the sum" not in found.message
    assert "Values shown for some batches" in found.message


@pytest.mark.parametrize(
    "shown",
    [
        "print('a', loss.item())\nprint('b', 2 * loss.item())",
        "print('a', loss.item())\nn = 1\nwriter.add_scalar('b', loss.item())",
        "if y.sum() > 9:\n    print('a', loss.item())\n    print('b', loss.item())\n    print('c', loss.item())",
    ],
)
def test_all_values_that_a_loop_shows_are_named(shown: str) -> None:
    imports = "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter()"
    result = run(script(imports=imports, before="rows = torch.randn(8, 2, 4)", step=f"{STEP}{shown}"))
    words = re.search(r"Values shown for some batches \((.*?)\)", note(result).message)
    assert words is not None
    said = {int(n) for n in re.findall(r"line (\d+)", words[1])}
    for first, last in re.findall(r"lines (\d+)-(\d+)", words[1]):
        said |= set(range(int(first), int(last) + 1))
    lines = result.after.decode().splitlines()
    assert said == {n for n, text in enumerate(lines, 1) if text.strip().startswith(("print(", "writer.add_scalar("))}


def test_values_that_a_state_goes_into_are_named() -> None:
    pool = "class Pool:\n    def __init__(self): self.kept = []\n    def swap(self, x):\n"
    pool += "        self.kept.append(x)\n        return self.kept[0]\n"
    step = STEP.replace("model(x)", "model(pool.swap(x))")
    text = script(before=f"rows = torch.randn(8, 2, 4)\n{pool}pool = Pool()", step=f"{step}print(loss.item())")
    result = run(text)
    number = next(
        n for n, text in enumerate(result.after.decode().splitlines(), 1) if text.strip().startswith("print(")
    )
    assert f"Values shown for some batches (line {number})" in note(result).message


@pytest.mark.parametrize("place", ["rows[0]", "rows.setdefault(0, {})", "rows.setdefault(0, {}).setdefault('b', {})"])
def test_values_that_a_place_in_a_dict_keeps_are_named(place: str) -> None:
    begin = "rows = {0: {}}\ndata = torch.randn(8, 2, 4)"
    text = script(before=begin, step=f"{STEP}{place}['loss'] = loss.item()\nprint(rows)")
    assert "Values shown for some batches (line " in note(run(text)).message


@pytest.mark.parametrize(
    ("loop", "is_limit"),
    [
        ("for i, batch in enumerate(loader):\n    if i > 3: break\n    print(batch)", False),
        ("for i, (x, y) in enumerate(loader):\n    print(len(x))\n    if i == 2:\n        break", False),
        ("from itertools import islice\nfor x, y in islice(loader, 3):\n    print(x.shape)", False),
        (f"for i, (x, y) in enumerate(loader):\n    if i > 3: break\n{indent(STEP, '    ')}", True),
        (
            f"def step():\n{indent(STEP, '    ')}for i, (x, y) in enumerate(loader):\n    if i > 3: break\n    step()",
            True,
        ),
    ],
)
def test_a_look_at_some_batches_is_no_limit(loop: str, is_limit: bool) -> None:
    result = run(script(before="rows = torch.randn(8, 2, 4)", end=loop))
    assert ("A limit" in note(result).message) is is_limit


@pytest.mark.parametrize("divides", [True, False])
@pytest.mark.parametrize("before", ["", "out = 2 * out\n", "from copy import copy\n"])
def test_a_state_goes_on_where_each_batch_is_divided(before: str, divides: bool) -> None:
    step = f"out = model(x) + hidden\n{before}hidden = out.detach()\n{STEP.replace('model(x)', 'out')}"
    text = script(before="rows = torch.randn(8, 2, 4)", model="hidden = torch.zeros(2, 1)", step=step)
    result = run(text, Options(keep_global_batch=divides))
    assert any("is carried from one batch to the next" in n.message for n in result.notes) is not divides


def test_what_a_closure_gives_back_to_its_step_is_not_shown() -> None:
    closure = (
        "def closure():\n    optimizer.zero_grad()\n    loss = model(x).mean()\n    loss.backward()\n    return loss"
    )
    assert "Values shown" not in note(run(script(step=f"{closure}\noptimizer.step(closure)"))).message
