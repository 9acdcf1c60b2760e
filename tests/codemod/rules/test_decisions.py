"""Decisions that one process takes for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.rewrite import Options, rewrite_together
from tests import scripts
from tests.codemod.pairs import run
from tests.codemod.training_scripts import STEP, script

BEFORE = "import os, random, time\nbegun, best, wait, done, losses = time.time(), 9.0, 0, False, []"


def decided(**slots: str) -> tuple[list[str], int]:
    """What process 0 decides for all, and how many notes there are on decisions."""
    result = run(script(before=BEFORE, **slots))
    lines = [line.strip() for line in result.after.decode().splitlines() if "broadcast_object_list" in line]
    return [line.replace("accelerator.broadcast_object_list", "") for line in lines], sum(
        n.rule == "decisions" and "hang" in n.message for n in result.notes
    )


@pytest.mark.parametrize(
    ("step", "end_of_epoch", "expected"),
    [
        ("", "if loss.item() < 0.1:\n    break", ["if ([loss.item() < 0.1])[0]:"]),
        ("if loss < 0.1: break", "", ["if ([bool(loss < 0.1)])[0]: break"]),
        ("if loss.item() < 0.1:\n    done = True\n    break", "if done: break", ["if ([loss.item() < 0.1])[0]:"]),
        (
            "",
            "if loss.item() < best: best, wait = loss.item(), 0\nelse:\n    wait += 1\n    if wait > 3: break",
            ["if ([loss.item() < best])[0]: best, wait = loss.item(), 0"],
        ),
        ("if time.time() - begun > 60: exit()", "", ["if ([time.time() - begun > 60])[0]: exit()"]),
        ("if os.path.exists('stop'): break", "", ["if ([os.path.exists('stop')])[0]: break"]),
        ("", "while loss.item() > best:\n    best += 1", []),
        ("", "if epoch == 3: break", []),
        ("if float(loss) > 0.3: optimizer.step()", "", ["if ([float(loss) > 0.3])[0]: optimizer.step()"]),
        ("optimizer.step() if loss.item() < 3 else None", "", ["optimizer.step() if ([loss.item() < 3])[0] else None"]),
        (
            "if not wait or not loss < best: optimizer.step()",
            "",
            ["if ([not wait or not loss < best])[0]: optimizer.step()"],
        ),
        (
            "wait = any([wait, loss.item() > best])\nif wait: loss.backward()\nif wait: optimizer.step()",
            "",
            ["wait = ([any([wait, loss.item() > best])])[0]"],
        ),
        (
            "if 3 > loss.data.item() >= best:\n    loss.backward()",
            "",
            ["if ([3 > loss.data.item() >= best])[0]:"],
        ),
        (
            "rate = 2 * loss.item()\nif rate < 0: break\nif rate > 9: break\noptimizer.param_groups[0]['lr'] = rate",
            "",
            ["rate = ([2 * loss.item()])[0]"],
        ),
        ("if torch.rand(1) < 0.2: continue\n" + STEP, "", ["if ([bool(torch.rand(1) < 0.2)])[0]: continue"]),
        (
            "way = random.random()\nif way < 0.5: model(x).sum().backward()\nlosses.append(way)",
            "",
            ["way = ([random.random()])[0]"],
        ),
        ("", "last = float(loss)\nif last < 1: break\nlosses.append(last)", ["last = ([float(loss)])[0]"]),
        ("", "last = float(loss)\nif last < 1: break", ["if ([last < 1])[0]: break"]),
        (
            "",
            "if epoch: last = float(loss)\nelse: last = 9\nif last < 1: break\nprint(last)",
            ["if ([last < 1])[0]: break"],
        ),
    ],
)
def test_all_go_on_or_stop(step: str, end_of_epoch: str, expected: list[str]) -> None:
    assert decided(step=STEP + step, end_of_epoch=end_of_epoch) == (expected, 0)


@pytest.mark.parametrize(
    "step",
    [
        STEP.replace("optimizer.step()", "loss.item() < 3 and optimizer.step()"),
        STEP.replace("optimizer.step()", "match loss.item() < 3:\n    case True: optimizer.step()"),
        STEP + "for row in x:\n    if row.sum() > 0: break\n    model(row).sum().backward()\n",
        STEP + "try:\n    if loss.item() < 0.1: break\nexcept ValueError:\n    pass\n",
        "losses.append(y.sum())\nif losses[-1] - losses[0] > 1: continue\n" + STEP,
        "if (y == 0).any():\n    losses.append(y)\n    continue\n" + STEP,
        STEP.replace("optimizer.step()", "if (y == 0).any(): optimizer.step()\nelse: model(x).sum().backward()"),
    ],
)
def test_a_process_s_own_batch_is_not_decided_by_another(step: str) -> None:
    lines, notes = decided(step=step)
    assert not lines
    assert notes


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            "if torch.isnan(loss): continue\nloss.backward()",
            'if accelerator.reduce(torch.isnan(loss), "max"): continue',
        ),
        ("if loss == loss: loss.backward()", 'if accelerator.reduce(loss == loss, "min"): accelerator.backward(loss)'),
        (
            "bad = not math.isfinite(loss.item())\nif bad: break\nloss.backward()",
            'if accelerator.reduce(bad, "max"): break',
        ),
    ],
)
def test_all_leave_out_a_loss_that_is_no_number_on_one(asked: str, expected: str) -> None:
    result = run("import math\n" + script(step=STEP.replace("loss.backward()", asked) + "if loss < 0.1: break"))
    lines = [line.strip() for line in result.after.decode().splitlines()]
    assert expected in lines
    assert "if accelerator.broadcast_object_list([bool(loss < 0.1)])[0]: break" in lines  # to which all come
    assert not [n for n in result.notes if n.rule == "decisions"]


JOINING = """\
def join(items):
    return torch.stack([item for item in items if item[0].sum() > 0])
"""


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("if len(x) > 1:\n    model(x).mean().backward()", "if accelerator.reduce(len(x) > 1, 'min'):"),
        (
            "if x.size(0) == 1: continue\nmodel(x).mean().backward()",
            "if accelerator.reduce(x.size(0) == 1, 'max'): continue",
        ),
        ("if x.shape[0] < 2: break\nmodel(x).mean().backward()", "if accelerator.reduce(x.shape[0] < 2, 'max'): break"),
        (
            "if x is not None:\n    model(x).mean().backward()\nelse:\n    print(1)\n    wait += 1",
            "if accelerator.reduce(x is not None, 'min'):",
        ),
        (
            "if (x > 0).any(): model(x).mean().backward()",
            "if accelerator.reduce(bool((x > 0).any()), 'min'): accelerator.backward(model(x).mean())",
        ),
        (
            "good = [r for r in x if r[0] > 0]\nif not good: continue\nmodel(x).mean().backward()",
            "if accelerator.reduce(not good, 'max'): continue",
        ),
        (
            "good = [r for r in x if r[0] > 0]\nif good: model(x).mean().backward()",
            "if accelerator.reduce(bool(good), 'min'): accelerator.backward(model(x).mean())",
        ),
    ],
)
def test_all_leave_out_what_the_batch_of_one_calls_for(asked: str, expected: str) -> None:
    text = script(before=BEFORE + "\n" + JOINING, step=f"optimizer.zero_grad()\n{asked}\noptimizer.step()")
    text = text.replace("for x, y in", "for x in").replace("batch_size=2)", "batch_size=2, collate_fn=join)")
    result = run(text)
    assert expected.replace("'", '"') in [line.strip() for line in result.after.decode().splitlines()]
    (note,) = [n for n in result.notes if n.rule == "decisions"]
    assert "all processes leave out a step" in note.message


def test_all_leave_out_a_short_batch_of_a_library_that_one_has() -> None:
    step = "if x.size()[0] is not 2:\n    continue\noptimizer.zero_grad()\nmodel(x).mean().backward()\noptimizer.step()"
    text = script(before=f"{BEFORE}\nfrom torchtext import data", step=step)
    made = "loader, others = data.BucketIterator.splits((rows, rows), batch_size=2)"
    result = run(text.replace("loader = DataLoader(rows, batch_size=2)", made))
    assert 'if accelerator.reduce(x.size()[0] is not 2, "max"):' in result.after.decode()
    assert [n.message for n in result.notes if n.rule == "decisions" and "leave out a step" in n.message]


def test_a_loop_that_asks_in_each_round() -> None:
    text = script(before=BEFORE, set_up="loss, epoch = torch.ones(1), 0")
    text = text.replace("for epoch in range(2):", "while loss.item() > 0.1 and epoch < 20:")
    after = run(text).after.decode()
    assert "while accelerator.broadcast_object_list([loss.item() > 0.1 and epoch < 20])[0]:" in after


ITEMS = """\
import random
import torch
from torch import nn
words = open("words.txt").read().split()
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    random.shuffle(words)
    for word in words:
        optimizer.zero_grad()
        outputs = [model(torch.ones(1) * ord(n)) for n in word]
        for {each}:
            out.mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("each", "noted"),
    [
        ("out in outputs", True),
        ("i, out in enumerate(outputs)", True),
        ("out in (outputs[i] for i in range(len(word)))", True),
        ("out in [*outputs]", True),
        ("out in [outputs[0], outputs[-1]]", False),
        ("i, out in enumerate((outputs[0], outputs[-1]))", False),
        ("out in [model(torch.ones(1)) for n in range(3)]", False),
    ],
)
def test_as_many_backward_passes_as_an_item_has_parts(each: str, noted: bool) -> None:
    result = run(ITEMS.format(each=each))
    assert "accelerator.shard(words)" in result.after.decode()
    assert any("as many backward passes" in n.message for n in result.notes) is noted


def test_a_prepared_loader_s_batches_have_as_many_rows() -> None:
    step = "for row in x:\n    loss = model(row).mean()\n    loss.backward()\noptimizer.step()\n"
    assert not [n for n in run(script(step=step)).notes if "as many backward passes" in n.message]


CUT = """\
import math
import torch
from torch import nn
from torch.utils.data import DataLoader
scans = [(torch.randn(n, 4), torch.randn(n, 1)) for n in (3, 9, 5, 7)]
def listed(batch):
    return list(zip(*batch))
loader = DataLoader(scans, {given}, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for xs, ys in loader:
    optimizer.zero_grad()
    for x, y in {items}:
        parts = math.ceil(x.size(0) / 4)
        for a, b in {cut}:
            nn.functional.mse_loss(model(a), b).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("given", "items", "cut", "noted"),
    [
        ("batch_size=2, collate_fn=listed", "zip(xs, ys)", "zip(x.chunk(parts), y.chunk(parts))", True),
        ("batch_size=1", "[(xs[0], ys[0])]", "zip(xs[0].split(4), ys[0].split(4))", True),
        ("1", "zip(xs, ys)", "[(x[4 * i :][:4], y[4 * i :][:4]) for i in range(parts)]", True),
        ("batch_size=2", "zip(xs, ys)", "zip(x.chunk(parts), y.chunk(parts))", False),
        ("batch_size=2, collate_fn=listed", "zip(xs, ys)", "[(x, y)]", False),
        ("batch_size=1", "[(xs, ys)]", "zip(xs.transpose(0, 1), ys.transpose(0, 1))", True),
        ("batch_size=2", "[(xs, ys)]", "zip(xs.transpose(0, 1), ys.transpose(0, 1))", False),
    ],
)
def test_as_many_backward_passes_as_an_item_of_a_batch_is_cut_into(
    given: str, items: str, cut: str, noted: bool
) -> None:
    result = run(CUT.format(given=given, items=items, cut=cut))
    assert any("as many backward passes" in n.message for n in result.notes) is noted


EVALUATED = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f, self.drop = nn.Linear(4, 1), nn.Dropout()
    def forward(self, x):
        return {output}
model, rows = Net(), torch.ones(9, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(20):
    loss = model(torch.randn(8, 4)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {mode}
    if model({given}).mean().item() < 0.1: break
"""


@pytest.mark.parametrize(
    ("output", "given", "notes"),
    [
        ("nn.Dropout(0.3)(self.f(x))", "rows", 1),  # in training mode, whatever the model's is
        ("nn.functional.dropout(self.f(x))", "rows", 1),
        ("self.f(x) + torch.randn(1)", "rows", 1),
        ("self.f(x)", "torch.randn(9, 4)", 1),
        ("self.drop(self.f(x))", "rows", 0),
        ("self.f(x)", "rows", 0),
    ],
)
def test_an_evaluation_that_draws_where_each_process_draws_for_itself(output: str, given: str, notes: int) -> None:
    found = run(EVALUATED.format(output=output, given=given, mode="model.eval()")).notes
    assert sum(n.rule == "decisions" for n in found) == notes


KEYS = """\
pick = {draw}
{between}
optimizers[pick].zero_grad()
model(x).sum().backward()
optimizers[pick].step()
"""


@pytest.mark.parametrize(
    ("draw", "between", "is_given"),
    [
        ("random.randrange(2)", "", True),
        ("random.choice([0, 1])", "", True),
        ("epoch % 2", "", False),
        ("torch.randint(2, (1,))", "", False),
        ("random.randrange(2)", "if y.sum() > 3: pick = 0", False),
    ],
)
def test_one_process_draws_by_which_optimizer_all_step(draw: str, between: str, is_given: bool) -> None:
    lines, _ = decided(set_up="optimizers = [optimizer, optimizer]", step=KEYS.format(draw=draw, between=between))
    assert lines == [f"pick = ([{draw}])[0]"] * is_given


def test_one_process_draws_from_which_loader_all_take_a_batch() -> None:
    head, loop = script(before="import random").split("for epoch in range(2):")
    step = loop.split("for x, y in loader:\n")[1]
    given = "    of = random.choice([0, 1])\n    x, y = next(iterators[of])\n"
    body = given + "\n".join(line[4:] for line in step.splitlines())
    text = f"{head}iterators = [iter(loader), iter(DataLoader(rows))]\nfor number in range(9):\n{body}\n"
    assert "of = accelerator.broadcast_object_list([random.choice([0, 1])])[0]" in run(text).after.decode()


MAIN_ASKS = "([{} if accelerator.is_main_process else None])[0]"


@pytest.mark.parametrize(
    ("slot", "text", "asked"),
    [
        ("set_up", "rate = float(input('rate '))", "input('rate ')"),
        ("end_of_epoch", "if input() == 'n': break", "input()"),
        ("end_of_epoch", "while input() != 'y': pass", "input()"),
        ("set_up", "def ask():\n    return input('how often? ').strip()\nn = ask()", "input('how often? ')"),
        ("set_up", "n = wait and input()", None),
        ("set_up", "if os.path.exists('model.pt'):\n    n = input('overwrite? ')", None),
        ("set_up", "try:\n    n = input()\nexcept EOFError: n = ''", None),
        ("step", "if y.sum() > 0: n = input()", None),
    ],
)
def test_process_0_asks_the_user_for_all(slot: str, text: str, asked: str | None) -> None:
    slots = {slot: text if slot != "step" else STEP + text}
    lines, _ = decided(**slots)
    assert [MAIN_ASKS.format(asked) in line for line in lines] == [True] * (asked is not None)
    notes = run(script(before=BEFORE, **slots)).notes
    assert any("waits for input" in n.message for n in notes) is (asked is None)


EPISODES = """\
import random
import gymnasium as gym
import torch
from torch import nn
env = gym.make("CartPole-v1")
policy = nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters())
for episode in range(10):
    row, _ = env.reset()
    states, done = [], False
    {play}:
        state = torch.tensor(row)
        action = torch.distributions.Categorical(logits=policy(state)).sample()
        states.append(state)
        row, reward, done, _, _ = env.step(action.item())
        {end}
    for {each}:
        optimizer.zero_grad()
        policy(state).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("play", "end", "each", "noted"),
    [
        ("while not done", "", "state in states", True),
        ("for t in range(200)", "if done: break", "t, state in enumerate(states)", True),
        ("while True", "if done: break", "state in [states[t] for t in range(len(states))]", True),
        ("for t in range(64)", "if done: row, _ = env.reset()", "state in states", False),
        ("while not done", "", "state in random.sample(states, 8)", False),
    ],
)
def test_as_many_steps_as_an_episode_has(play: str, end: str, each: str, noted: bool) -> None:
    result = run(EPISODES.format(play=play, end=end or "pass", each=each))
    assert any("own episode" in n.message and "different numbers of steps" in n.message for n in result.notes) is noted


PADDED = """\
import torch
from torch import nn
from tqdm import tqdm
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
def pad(rows):
    return {pad}
def by_step(out):
    {before}
    for t in {steps}:
        head(out[:, t].detach()).pow(2).mean().backward()
loader = DataLoader([torch.randn(n, 3) for n in range(2, 18)], batch_size=2, {given})
body, head = nn.Linear(3, 4), nn.Linear(4, 3)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()])
for x in loader:
    optimizer.zero_grad()
    by_step(body(x))
    optimizer.step()
"""
BY_ROWS = "pad_sequence(rows, batch_first=True)"
BY_HAND = "torch.stack([nn.functional.pad(r, (0, 0, 0, max(len(o) for o in rows) - len(r))) for r in rows])"


@pytest.mark.parametrize(
    ("pad", "before", "steps", "given", "noted"),
    [
        (BY_ROWS, "", "range(out.size(1))", "collate_fn=pad", True),
        (BY_ROWS, "", "range(1, out.shape[1] - 1)", "collate_fn=lambda rows: pad(rows)", True),
        (BY_HAND, "n, length, _ = out.shape", "range(length)", "collate_fn=pad", True),
        ("pad_sequence(rows)", "", "tqdm(range(len(out)))", "collate_fn=pad", True),
        (BY_ROWS, "", "range(2)", "collate_fn=pad", False),
        (BY_ROWS, "", "range(out.size(0))", "collate_fn=pad", False),
        ("pad_sequence(rows)", "", "range(out.size(1))", "collate_fn=pad", False),
        ("torch.stack([r[:2] for r in rows])", "", "range(out.size(1))", "collate_fn=pad", False),
        (BY_ROWS, "", "range(out.size(1))", "shuffle=True", False),
    ],
)
def test_a_backward_pass_for_each_step_of_a_padded_batch(
    pad: str, before: str, steps: str, given: str, noted: bool
) -> None:
    result = run(PADDED.format(pad=pad, before=before or "pass", steps=steps, given=given))
    assert any("each batch is padded by itself" in n.message for n in result.notes) is noted


LENGTHS = """\
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
def pad(rows):
    return {pad}, [len(r) for r in rows]
loader = DataLoader([torch.randn(n, 3) for n in range(2, 18)], batch_size=2, collate_fn=pad)
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters())
for x, lengths in loader:
    optimizer.zero_grad()
    for t in range({steps}):
        model(x[:, t]).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("steps", "noted"),
    [
        ("max(lengths)", True),
        ("int(torch.tensor(lengths).max())", True),
        ("max([2, 3])", False),
        ("len(lengths)", False),
    ],
)
def test_a_backward_pass_for_each_step_of_the_longest_row(steps: str, noted: bool) -> None:
    result = run(LENGTHS.format(pad=BY_ROWS, steps=steps))
    assert any("each batch is padded by itself" in n.message for n in result.notes) is noted


PRESETS = "def preset(args):\n    if args:\n        args.append(input('rate? '))\n"


@pytest.mark.parametrize(
    ("imported", "is_said"),
    [
        ("from presets import preset\nargs = []\npreset(args)\n", True),
        ("import presets\nclass Args:\n    presets.preset([])\nargs = Args()\n", True),
        ("args = [input('rate? ')]\n", True),
        ("from presets import preset\nargs = []\nif __name__ == '__main__':\n    preset(args)\n", False),
        ("from presets import preset\nargs = []\ndef choose():\n    preset(args)\n", False),
    ],
)
def test_questions_that_an_imported_file_asks(tmp_path: Path, imported: str, is_said: bool) -> None:
    files = {"train.py": script(imports="from options import args"), "options.py": imported, "presets.py": PRESETS}
    scripts.write(tmp_path, {name: text.encode() for name, text in files.items()})
    with scripts.inside(tmp_path):
        results = rewrite_together(("train.py",), Options())
    told = [n.message for r in results for n in r.notes] + [r.after.decode() for r in results]
    assert any("waits for input" in text or "broadcast_object_list" in text for text in told) is is_said
