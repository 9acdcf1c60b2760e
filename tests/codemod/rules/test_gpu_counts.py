"""The number of GPUs that `DataParallel` used becomes the number of processes."""

from __future__ import annotations

from textwrap import indent

import pytest

from accelify.codemod.result import FileResult, Status
from tests.codemod.pairs import run
from tests.codemod.training_scripts import script

WRAP = "model = nn.DataParallel(model)"
COUNT = "torch.cuda.device_count()"


def counted(before: str, size: str = "2", workers: str = "0", model: str = WRAP, rate: str = "0.1") -> FileResult:
    text = script(before=f"rows = torch.randn(8, 2, 4)\n{before}", model=model)
    loader = f"DataLoader(rows, batch_size={size}, num_workers={workers})"
    result = run(text.replace("DataLoader(rows, batch_size=2)", loader).replace("lr=0.1", f"lr={rate}"))
    assert result.status is Status.MIGRATED, result.notes
    return result


@pytest.mark.parametrize(
    ("before", "size", "after"),
    [
        ("", f"8 * {COUNT}", "batch_size=8 * accelerator.num_processes"),
        (f"gpus = {COUNT}", "gpus * 8", "batch_size=accelerator.num_processes * 8"),
        (f"gpus = {COUNT}", "8 * max(1, gpus)", "batch_size=8 * max(1, accelerator.num_processes)"),
        (f"size = 8\nsize = size * {COUNT}", "size", "\nsize = size * accelerator.num_processes\n"),
        (f"size = 8\nsize *= {COUNT}", "size", "\nsize *= accelerator.num_processes\n"),
        (
            f"size = 8\ngpus = {COUNT}\nif gpus > 1:\n    size *= gpus",
            "size",
            "\nif accelerator.num_processes > 1:\n    size *= accelerator.num_processes\n",
        ),
    ],
)
def test_a_batch_size_is_scaled_by_the_processes_that_divide_it(before: str, size: str, after: str) -> None:
    text = counted(before, size).after.decode()
    assert after in text
    assert "split_batches=True" in text
    assert "device_count" not in text


def test_so_is_the_learning_rate() -> None:
    assert "lr=0.1 * accelerator.num_processes)" in counted("", rate=f"0.1 * {COUNT}").after.decode()


@pytest.mark.parametrize(
    ("before", "workers", "after"),
    [
        ("", f"4 * {COUNT}", "num_workers=4)"),
        (f"gpus = {COUNT}", "gpus * 4", "num_workers=4)"),
        (f"workers = 4\nworkers *= {COUNT}", "workers", "workers = 4\nloader"),
        (f"workers = 4\nworkers = workers * {COUNT}", "int(workers)", "workers = 4\nloader"),
    ],
)
def test_each_process_starts_its_own_workers(before: str, workers: str, after: str) -> None:
    assert after in counted(before, workers=workers).after.decode()


@pytest.mark.parametrize(
    ("shown", "after"),
    [
        (f'print("Using %d GPUs" % {COUNT})', 'print("Using %d GPUs" % accelerator.num_processes)'),
        (f'print(f"on {{{COUNT}}} GPUs")', 'print(f"on {accelerator.num_processes} GPUs")'),
        (f'logging.info("%d GPUs", {COUNT})', 'logging.info("%d GPUs", accelerator.num_processes)'),
    ],
)
def test_what_is_shown_stays_true(shown: str, after: str) -> None:
    model = f"if {COUNT} > 1:\n    {shown}\n    {WRAP}"
    text = counted("import logging", model=model).after.decode()
    assert f"if accelerator.num_processes > 1:\n    {after}\n" in text


@pytest.mark.parametrize(
    "shown",
    [f'print("GPUs: ", {COUNT})', f"gpus = {COUNT}\nprint(f'{{gpus}} GPUs')", f"if {COUNT} == 0:\n    print({COUNT})"],
)
def test_how_many_there_are_is_shown_as_it_is(shown: str) -> None:
    assert f"{shown}\n" in counted(shown).after.decode()


def test_without_data_parallel_nothing_is_known_of_the_number() -> None:
    result = counted("", f"8 * {COUNT}", model="")
    assert f"batch_size=8 * {COUNT}" in result.after.decode()


def test_where_the_accelerator_does_not_reach_a_note_says_so() -> None:
    text = script(before="rows = torch.randn(8, 2, 4)", model=WRAP).replace("batch_size=2", "batch_size=sized(8)")
    imports, _, rest = text.partition("rows = ")
    sized = f"def sized(size):\n    return size * {COUNT}\n\n\n"
    result = run(f"{imports}{sized}def main():\n{indent('rows = ' + rest, '    ')}\n\nmain()\n")
    assert f"return size * {COUNT}" in result.after.decode()
    assert any(n.rule == "gpu_counts" and "scaled by the number of GPUs" in n.message for n in result.notes)


def test_other_uses_stay() -> None:
    text = counted(f"if {COUNT} == 0:\n    print('slow')\nranks = range({COUNT})\nprint(ranks)").after.decode()
    assert f"if {COUNT} == 0:" in text
    assert f"range({COUNT})" in text


@pytest.mark.parametrize("name", ["n", "args.gpus", "settings['gpus']"])
def test_a_count_that_is_kept_where_the_model_was_wrapped(name: str) -> None:
    model = f"if {COUNT} > 1:\n    {name} = {COUNT}\n    {WRAP}\nelse:\n    {name} = 1\nprint({name})"
    result = run(script(before="rows, args, settings = torch.randn(8, 2, 4), torch.nn.Module(), {}", model=model))
    kept = f"if accelerator.num_processes > 1:\n    {name} = accelerator.num_processes\nelse:\n    {name} = 1\n"
    assert kept in result.after.decode()
