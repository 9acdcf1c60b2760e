"""Facts about samples and batches that are counted by what is one process's own."""

from __future__ import annotations

import pytest

from accelify.codemod.metrics.steps.samples import Samples
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script, training

COUNTING = """\
size = 2
total, count = 0.0, 0
for x, y in DataLoader(rows, batch_size=size):
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    count += size
    total += loss.item() * size
    {inside}
{after}
"""


@pytest.mark.parametrize(
    ("inside", "after", "found"),
    [
        ("print(total / count)", "", []),
        ("pass", "print(total / count)", []),
        ("pass", "mean = total / float(1) / count\nprint(mean)", []),
        ("print(count)", "", []),
        ("if count % 100 == 0: model.eval()", "print(total / count)", ["count"]),
        ("if count >= 9: break", "", ["count"]),
        ("pass", "done = 1 - 5 / count\nprint(done, total / count)", ["count"]),
        ("kept[count:] = 0\nif count >= 9: break", "", []),  # a place in an array
        ("print(kept[:, count - 1 : count])\nif count >= 9: break", "", []),
    ],
)
def test_samples_that_only_divide_their_sum_are_counted_right(inside: str, after: str, found: list[str]) -> None:
    facts = Facts(script().partition("for epoch")[0] + COUNTING.format(inside=inside, after=after))
    counted = Samples(facts.script.step_counts).samples(facts.script.batch_sizes.loaders)
    assert texts(counted) == found


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("kept[i * size : i * size + size] = y", []),
        ("a, b = i * size, min(i * size + size, 9)\nkept[a:b] = y", []),
        ("a = i * size\nkept[a : a + size, 0] = y", []),
        ("done = i * size\nif done > 9:\n    break", ["i * size"]),
        ("a, done = 0, i * size\nkept[a] = y\nif done > 9:\n    break", ["i * size"]),
    ],
)
def test_places_by_the_number_of_the_batch_count_no_samples(step: str, found: list[str]) -> None:
    text = script(set_up="kept = torch.zeros(9, 1)", step=STEP + step).replace("batch_size=2", "batch_size=size")
    text = text.replace("for x, y in loader", "for i, (x, y) in enumerate(loader)")
    facts = Facts(text.replace("loader = ", "size = 2\nloader = ", 1))
    assert texts(Samples(facts.script.step_counts).samples(facts.script.batch_sizes.loaders)) == found


@pytest.mark.parametrize(
    ("set_up", "step", "end", "found"),
    [
        ("size = len(loader) * loader.batch_size\nprint(size)", "", "", ["len(loader) * loader.batch_size"]),
        ("print({'size': 2 * len(loader)})", "", "", ["2 * len(loader)"]),
        ("n = len(loader)", "", "torch.save({'size': n * loader.batch_size}, 'a.pt')", ["n * loader.batch_size"]),
        ("size = len(rows)\nprint(size)", "", "", []),
        ("print(len(loader) * 5)", "", "", []),  # the steps of five epochs
        ("size = len(loader) * loader.batch_size", "print(f'{epoch} of {size}')", "", []),
        ("total = 0.0", "total += loss.item() * 2", "print(total / (len(loader) * loader.batch_size))", []),
        ("total = 0.0", "total += loss.item() * 2", "size = len(loader) * 2\nprint(total / size)", []),
        ("total = 0.0", "total += loss.item() * 2", "size = len(loader) * 2\ntotal /= size\nprint(total)", []),
    ],
)
def test_sizes_of_the_data_by_the_length_of_a_shard(set_up: str, step: str, end: str, found: list[str]) -> None:
    facts = training(set_up=set_up, step=STEP + step, end=end)
    assert texts(Samples(facts.script.step_counts).shard_sizes(facts.script.batch_sizes.loaders)) == found


@pytest.mark.parametrize(
    ("end", "is_shown"),
    [
        ("print(len(loader))", True),
        ("print('%d batches' % len(loader))", True),
        ("print(f'{len(loader)} batches')", True),
        ("print('{} batches'.format(len(loader)))", True),
        ("print(total / len(loader))", False),  # a mean over what each process has seen
        ("print(len(rows))", False),
        ("for x in loader:\n    print(len(loader))", False),
    ],
)
def test_a_number_of_batches_that_is_shown(end: str, is_shown: bool) -> None:
    found = training(end=f"total = 3\n{end}\n").script
    assert texts(Samples(found.step_counts).shown()) == (["len(loader)"] if is_shown else [])
