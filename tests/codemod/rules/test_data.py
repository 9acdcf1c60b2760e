"""What is said of training loops that have no loader, and draw at random."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.options import Options
from accelify.codemod.result import Status
from accelify.codemod.rewrite import rewrite_together
from tests.codemod.pairs import run

SCRIPT = """\
import random
import torch
from torch import nn
x, y = torch.randn(8, 4), torch.randn(8, 1)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)
    def forward(self, x):
        for _ in range(random.randint(0, 3)):
            x = self.a(x)
        return self.b(x)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(50):
    {batch}
    loss = ((model({given}) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def told(batch: str, given: str) -> str:
    result = run(SCRIPT.format(batch=batch, given=given))
    assert result.status is Status.MIGRATED, result.notes
    (message,) = (n.message for n in result.notes if n.rule == "data")
    return message


@pytest.mark.parametrize(("batch", "given"), [("pass", "x"), ("pass", "x[:4]"), ("print(step)", "x")])
def test_what_only_the_model_draws_makes_no_data(batch: str, given: str) -> None:
    assert "same data" in told(batch, given)


@pytest.mark.parametrize(
    ("batch", "given"),
    [("z = torch.randn(8, 4)", "z"), ("z = x[torch.randint(8, (8,))]", "z"), ("pass", "torch.randn(8, 4)")],
)
def test_batches_that_a_step_draws_are_each_process_s_own(batch: str, given: str) -> None:
    message = told(batch, given)
    assert "draws its own data" in message
    assert "learning rate" in message
    assert "own episodes" not in message


def test_what_an_environment_pays_is_each_process_s_own() -> None:
    assert "Rewards and losses that it shows are those of its own episodes" in told("z, r = env.step(0)", "z")


ASKED = """\
import torch
from torch import nn
{made}
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    x = {asked}
    loss = model(x + torch.randn_like(x)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "asked", "is_sharded"),
    [
        ("import tfds\nbatches = iter(tfds.load('digits'))", "torch.from_numpy(next(batches)['image'])", False),
        ("from lib import feed\nbatches = feed(8)", "batches.next()", False),
        ("rows = torch.randn(64, 4)", "rows[torch.randint(64, (8,))]", True),
    ],
)
def test_noise_on_batches_that_another_library_gives_is_no_data_of_its_own(
    made: str, asked: str, is_sharded: bool
) -> None:
    notes = [n.message for n in run(ASKED.format(made=made, asked=asked)).notes if n.rule == "data"]
    assert any(m.startswith("`batches` is not sharded: every process takes all") for m in notes) is not is_sharded
    assert any(m.startswith("each process draws its own data: on N") for m in notes) is is_sharded


FOREVER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
def forever(loader):
    while True:
        for x, _ in loader:
            yield x
loader = DataLoader(rows, batch_size=8)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = {batches}
for step in range(100):
    for _ in range(2):
        loss = model(next(batches)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    loss = model(torch.randn(16, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("batches", ["forever(loader)", "iter(loader)", "iter(forever(loader))"])
def test_a_step_without_data_beside_those_of_a_prepared_loader(batches: str) -> None:
    result = run(FOREVER.format(batches=batches))
    assert "loader, model, optimizer = accelerator.prepare" in result.after.decode()
    assert not any("is not sharded" in n.message for n in result.notes)


LEARNER = """\
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical
class Agent:
    def __init__(self):
        self.net = nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.states, self.rewards = [], []
    def act(self, state):
        return Categorical(logits=self.net(torch.as_tensor(state)).detach()).sample().item()
    def keep(self, state, reward):
        self.states.append(state); self.rewards.append(reward)
    def update(self):
        states, rewards = torch.tensor(self.states), torch.tensor(self.rewards)
        for _ in range(2):
            loss = (self.net(states).mean(1) * rewards).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
env = gym.make("CartPole-v1")
agent = Agent()
for episode in range(6):
    state, _ = env.reset()
    for step in range(50):
        following, reward, done, _, _ = env.step(agent.act(state))
        {keep}
        state = following
    agent.update()
"""


@pytest.mark.parametrize(
    "keep", ["agent.states.append(state); agent.rewards.append(reward)", "agent.keep(state, reward)"]
)
def test_episodes_that_an_agent_keeps_are_each_process_s_own(keep: str) -> None:
    messages = [n.message for n in run(LEARNER.format(keep=keep)).notes if n.rule == "data"]
    assert any(m.startswith("each process draws its own data: on N") for m in messages)
    assert not any("same data" in m for m in messages)


ALIKE = """\
import random
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
    def forward(self, x, t=0):
        return self.a(x) + torch.randn_like(x)
rows = torch.randn(80, 4)
def read(i):
    return torch.stack([torch.load("%d.pt" % (4 * i + k)) for k in range(4)])
class Data:
    def __init__(self):
        self.at, self.order = 0, list(range(80))
    def take(self, n):
        if self.at + n > 80:
            self.at = 0
            {again}
        self.at += n
        return rows[self.order[self.at - n : self.at]]
data, net = Data(), Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(20):
    {batch}
    loss = net({given}).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("slots", "alike"),
    [
        ({"batch": "x = read(step)"}, "data"),
        ({"batch": "x = data.take(4)"}, "data"),
        ({"batch": "x, t = read(step), torch.rand(4)", "given": "x, t"}, "`x`"),
        ({"batch": "x = data.take(4)", "again": "random.shuffle(self.order)"}, ""),
        ({"batch": "x = rows[torch.randperm(80)[:4]]"}, ""),
        ({"batch": "x = read(step)\n    x = x + torch.randn_like(x)"}, ""),
        ({"batch": "x = others.take(4)"}, ""),
    ],
)
def test_batches_that_all_processes_have_alike_beside_what_they_draw(slots: dict[str, str], alike: str) -> None:
    text = ALIKE.format(**{"again": "pass", "given": "x"} | slots)
    messages = [n.message for n in run(text if "others" not in text else f"from data import others\n{text}").notes]
    assert any(m.startswith(f"every process has the same {alike} here, and only") for m in messages) is bool(alike)
    assert any(m.startswith("each process draws its own data") for m in messages) is not bool(alike)


@pytest.mark.parametrize(
    ("update", "is_alike"), [("net(graph)", False), ("net(graph, 1)", False), ("loss = loss + net(graph).mean()", True)]
)
def test_a_pass_whose_result_nothing_reads_is_none_of_the_training(update: str, is_alike: bool) -> None:
    text = ALIKE.format(again="pass", batch="graph = read(step)\n    x = rows[torch.randperm(80)[:4]]", given="x")
    messages = [n.message for n in run(text.replace("    optimizer.zero", f"    {update}\n    optimizer.zero")).notes]
    assert any(m.startswith("every process has the same `graph`") for m in messages) is is_alike
    assert any(m.startswith("each process draws its own data") for m in messages) is not is_alike


KEPT = """\
import random
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
    def forward(self, x, t=0):
        return self.a(x) + t
class Pairs:
    def __init__(self):
        self.at = 0
    def take(self, n):
        self.at += n
        return [[i] * 4 for i in range(self.at - n, self.at)]
class Learner:
    def __init__(self):
        self.net{annotation} = Net()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def train(self, steps):
        pairs = Pairs()
        for _ in range(steps):
            x = torch.tensor(pairs.take(4)).float()
            loss = {run}.pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
Learner().train(8)
"""


@pytest.mark.parametrize("annotation", ["", ": Net"])
@pytest.mark.parametrize(
    ("call", "alike"),
    [
        ("self.net(x, random.sample(range(9), 4)[0])", "`x`"),
        ("self.net.forward(x, random.random())", "`x`"),
        ("(self.net(x) + torch.rand(4))", "data"),
        ("self.net(x[random.sample(range(4), 2)])", ""),
    ],
)
def test_batches_of_a_model_that_an_object_holds(call: str, alike: str, annotation: str) -> None:
    messages = [n.message for n in run(KEPT.format(run=call, annotation=annotation)).notes]
    assert any(m.startswith(f"every process has the same {alike} here, and only") for m in messages) is bool(alike)
    assert any(m.startswith("each process draws its own data") for m in messages) is not bool(alike)


EPISODES = """\
import random
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rows = torch.randn(80, 4)
class Task:
    def __init__(self, n):
        self.rows = {drawn}
def loader_of(task):
    return DataLoader(TensorDataset(rows[task.rows]), batch_size=8)
def main():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for episode in range(20):
        {batch}
        loss = net(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main()
"""


@pytest.mark.parametrize(
    ("drawn", "batch", "is_alike"),
    [
        ("random.sample(range(80), n)", "(x,) = next(iter(loader_of(Task(8))))", False),
        ("torch.randperm(80)[:n]", "task = Task(8); loader = loader_of(task); x = next(iter(loader))[0]", False),
        ("None", "x = rows[torch.randperm(80)[:8]]; (x,) = next(iter(DataLoader(TensorDataset(x), 8)))", False),
        ("list(range(n))", "(x,) = next(iter(loader_of(Task(8))))", True),
    ],
)
def test_a_loader_of_rows_that_each_round_draws(drawn: str, batch: str, is_alike: bool) -> None:
    text = EPISODES.format(drawn=drawn, batch=batch)
    messages = [n.message for n in run(text).notes]
    assert any(m.startswith("every process has the same data here") for m in messages) is is_alike
    assert any(m.startswith("each process draws its own data") for m in messages) is not is_alike


def test_rows_that_are_evaluated_on_are_no_data_of_the_step() -> None:
    text = ALIKE.format(batch="x = rows[torch.randperm(80)[:4]]", given="x", again="pass")
    text += "    with torch.no_grad():\n        x = rows[:4]\n        print(net(x))\n"
    messages = [n.message for n in run(text).notes]
    assert any(m.startswith("each process draws its own data") for m in messages)


@pytest.mark.parametrize(
    ("batch", "is_own"),
    [
        ("x = next(iter(DataLoader(rows[torch.randperm(80)[:8]], batch_size=8)))", True),
        ("x = rows[torch.randperm(80)[:8]]; loader = DataLoader(x, 8); x = next(iter(loader))", True),
        ("x = next(iter(DataLoader([rows[i] for i in random.sample(range(80), 8)], batch_size=8)))", True),
        ("x = next(iter(DataLoader(dataset=some(), batch_size=8)))", True),
        ("x = next(iter(DataLoader(rows[order], batch_size=8)))", False),
        ("x = next(iter(DataLoader(rows, batch_size=8, shuffle=True)))", False),
    ],
)
def test_a_loader_of_a_tensor_s_rows_that_each_round_draws(batch: str, is_own: bool) -> None:
    given = "order = torch.randperm(80)\ndef some():\n    return rows[torch.randint(80, (8,))]\ndef main():"
    text = EPISODES.format(drawn="None", batch=batch).replace("def main():", given)
    result = run(text)
    after = (result.after or b"").decode()
    assert ("accelerator.seed_by_rank()" in after) is is_own
    assert ("accelerator.prepare(DataLoader(" in after) is not is_own
    assert any(n.message.startswith("each process draws its own data") for n in result.notes) is is_own


@pytest.mark.parametrize(("get", "is_alike"), [("rows", True), ("rows[torch.randperm(80)]", False)])
def test_a_model_s_own_method_that_draws_in_a_trainer(get: str, is_alike: bool) -> None:
    head = ALIKE.partition("rows = ")[0].replace("forward(self, x, t=0)", "fit(self, x)")
    trainer = f"""\
rows = torch.load("rows.pt")
def get():
    return {get}
def step(x):
    optimizer.zero_grad()
    loss = net.fit(x).pow(2).mean()
    loss.backward()
    optimizer.step()
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(20):
    step(get())
"""
    result = run(head + trainer)
    assert any(n.message.startswith("every process has the same data here") for n in result.notes) is is_alike
    assert any(c.reason.startswith("the model draws at random") for c in result.changes) is is_alike


ANEW = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
def begin(m):
    if isinstance(m, nn.Linear):
        m.weight.data.normal_(0.0, 0.02)
model = nn.Linear(4, 1)
model.apply(begin)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
noise = torch.FloatTensor(2, 4)
for epoch in range(3):
    {epoch}
    for (x,) in loader:
        noise.resize_(2, 4).normal_(0, 1)
        loss = model(x + noise).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {step}
"""


@pytest.mark.parametrize(
    ("epoch", "step", "told"),
    [
        ("pass", "if loss.item() < 0.1: model.apply(begin)", 1),
        ("pass", "model.reset_parameters()", 1),
        ("pass", "if epoch == 2: nn.init.zeros_(model.weight)", 0),
        ("model.apply(begin)", "pass", 0),  # which draws the same in all processes
    ],
)
def test_weights_that_are_drawn_in_a_sharded_loop(epoch: str, step: str, told: int) -> None:
    result = run(ANEW.format(epoch=epoch, step=step))
    assert sum("accelerator.broadcast(model.state_dict())" in n.message for n in result.notes) == told


ITEMS = """\
import random
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self):
        self.file, self.rows = open("rows"), [1.0, 2.0]
    def __len__(self):
        return 9
    def __getitem__(self, i):
        {item}
loader = DataLoader(Rows(), batch_size=2)
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    loss = model(x.view(-1, 1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("item", "is_told"),
    [
        ("return float(self.file.readline())", True),
        ("self.at = self.at + 1\n        return self.rows[self.at]", True),
        ("self.file.seek(8 * i)\n        return float(self.file.readline())", False),
        ("return self.rows[i % 2]", False),
        ("self.last = random.choice(self.rows)\n        return self.last", False),  # each process draws its own
        ("return 1.0", False),
        ("return float(self.file.readline()) + random.random()", True),  # draws what it makes of the row
        ("self.file.seek(0)\n        return float(self.file.read(8)) * random.random()", True),
        ("return self.row()\n    def row(self):\n        return float(self.file.readline()) + random.random()", True),
        ("self.file.seek(8 * random.randrange(9))\n        return float(self.file.readline())", False),
        ("self.at = self.at + 1\n        return float(open(random.choice(self.rows)).read())", False),
    ],
)
def test_a_data_set_that_reads_on_whatever_row_is_asked_for(item: str, is_told: bool) -> None:
    assert any("is not used" in n.message for n in run(ITEMS.format(item=item)).notes) is is_told


@pytest.mark.parametrize(
    ("used", "item", "is_told"),
    [
        ("from rows import Rows", "return float(self.file.readline())", True),
        ("from rows import Rows", "self.at = self.at + 1\n        return self.rows[self.at]", True),
        ("import rows\nRows = rows.Rows", "return next(self.file)", True),
        ("from rows import Rows", "return self.rows[i % 2]", False),
        ("import rows\nRows = lambda: torch.randn(8, 1)", "return float(self.file.readline())", False),
    ],
)
def test_a_data_set_of_another_file_that_reads_on(
    used: str, item: str, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data, steps = ITEMS.format(item=item).split("loader =")
    Path("rows.py").write_text(data)
    imports = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
    Path("train.py").write_text(f"{imports}{used}\nloader ={steps}")
    notes = [n for r in rewrite_together(("train.py",), Options()) if Path(r.path).name == "rows.py" for n in r.notes]
    assert any("is not used" in n.message for n in notes) is is_told


BOTH = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{loop}
for step in range(9):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).mean().backward()
    optimizer.step()
"""
LOADED_TOO = """\
for x in DataLoader(rows, batch_size=4):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("loop", "rules"), [("pass", ["data"]), (LOADED_TOO, ["batch_size"])])
def test_a_learning_rate_is_advised_once(loop: str, rules: list[str]) -> None:
    result = run(BOTH.format(loop=loop))
    assert b".seed_by_rank()" in result.after
    assert [n.rule for n in result.notes if "larger learning rate" in n.message] == rules


DRAWN_IN_STEPS = """\
import torch
from torch import nn
rows = torch.randn(64, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def score():
    total = 0
    for _ in range(8):
        total += model(rows[torch.randint(64, (8,))]).mean().item()
    return total / 8
for step in range(9):
    loss = model(rows[torch.randint(64, (8,))]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {end}
"""


@pytest.mark.parametrize(
    ("end", "is_shown"),
    [
        ("print(loss.item())", True),
        ("print(score())", True),
        ("print(model(rows[torch.randint(64, (1,))]))", True),
        ("print(step)", False),
        ("print(model(rows).mean())", False),
    ],
)
def test_values_that_come_from_a_process_s_own_draws(end: str, is_shown: bool) -> None:
    (message,) = (n.message for n in run(DRAWN_IN_STEPS.format(end=end)).notes if n.rule == "data")
    assert ("Values shown (line 22) come from one process's own draws" in message) is is_shown


ROWS = """\
import torch
from torch import nn
lines = open("rows.txt").read().splitlines()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    batch = []
    for line in lines:
        row = [float(t) for t in line.split()]
        {put}
        if len(batch) == 16:
            loss = model(torch.stack(batch)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            batch = []
"""


@pytest.mark.parametrize(
    ("put", "is_sharded"),
    [
        ("batch.append(torch.tensor(row))", True),
        ("if len(row) == 4: batch.append(torch.tensor(row))", False),
        ("if not row: continue\n        batch.append(torch.tensor(row))", False),
        ("if epoch: batch.append(torch.tensor(row))", True),
        ("try: row = f(row)\n        except ValueError: continue\n        batch.append(torch.tensor(row))", False),
    ],
)
def test_rows_that_say_how_many_steps_are_taken_are_not_sharded(put: str, is_sharded: bool) -> None:
    result = run(ROWS.format(put=put))
    assert result.status is Status.MIGRATED, result.notes
    assert ("in accelerator.shard(lines)" in result.after.decode()) is is_sharded
    assert any("depends on what the rows hold" in n.message for n in result.notes) is not is_sharded


WINDOWS = """\
import torch
from torch import nn
text = torch.load("text.pt")
model = nn.Linear(32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for {head}:
        {skip}
        loss = model(text[:, i : i + 32]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("head", "skip", "by"),
    [
        ("i in range(0, 400, 16)", "if i + 32 >= text.size(1): continue", "an item's index"),
        ("i in range(0, 400, 16)", "if not i + 32 < text.size(1): continue", "an item's index"),
        ("i in range(0, 400, 16)", "if i > text.size(1) - 32: continue", "an item's index"),
        ("i in range(0, 400, 16)", "x = text[:, i]\n        if x.sum() < i: continue", "what the rows hold"),
        ("i in range(0, 400, 16)", "if text[0, i] == 0: continue", "what the rows hold"),
        ("i in range(0, 400, 16)", "if i + 32 >= text.size(1): break", "an item's index"),
        ("k, i in enumerate(range(0, 400, 16))", "if i + 32 >= text.size(1): break", "an item's index"),
        ("k, i in enumerate(range(0, 400, 16))", "if i + 32 >= text.size(1): continue", "an item's index"),
        (
            "i in range(0, 400, 16)",
            "if len(text[0, i : i + 16]) < 16: break",
            "what the rows hold or how many there are",
        ),
    ],
)
def test_what_decides_about_a_step_of_rows_that_are_not_sharded(head: str, skip: str, by: str) -> None:
    result = run(WINDOWS.format(head=head, skip=skip))
    assert "accelerator.shard" not in result.after.decode()
    assert [f"a step is taken here depends on {by}" in n.message for n in result.notes if n.rule == "data"] == [True]
    assert not any(n.rule == "decisions" for n in result.notes)


GIVEN = """\
import random
import torch
from torch import nn
class Trainer:
    def __init__(self, opt):
        self.net = nn.Linear(4, 4)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=opt.lr)
    def set_input(self, batch):
        self.real = {real}
    def train_step(self):
        if random.random() < 0.5:
            self.real = -self.real
        self.net(self.real).mean().backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize(("real", "is_given"), [("batch['image']", True), ("torch.randn(8, 4)", False)])
def test_who_calls_a_step_shards_the_batches_that_it_puts_in(real: str, is_given: bool) -> None:
    result = run(GIVEN.format(real=real))
    (message,) = (n.message for n in result.notes if n.rule == "data")
    assert ("its callers pass" in message) == is_given
    assert (b"seed_by_rank" in result.after) != is_given


@pytest.mark.parametrize(
    "skip", ["if i > 100 and loss < 0.1: break", "if i > 100: optimizer.param_groups[0]['lr'] = 0.01"]
)
def test_what_else_goes_by_an_items_index_is_declined(skip: str) -> None:
    text = WINDOWS.format(head="i in range(0, 400, 16)", skip="pass").replace(
        "optimizer.step()", "optimizer.step()\n        " + skip
    )
    result = run(text)
    assert result.status is Status.DECLINED
    assert any("depends on an item's index" in n.message for n in result.notes)


COUNTED = """\
import torch
from torch import nn
X, batches = torch.randn(64, 4), 16
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for i, k in enumerate(range(0, 64, 4)):
        model(X[k:k + 4]).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        step = epoch * batches + i
        {use}
"""


@pytest.mark.parametrize(
    ("use", "is_said"),
    [("if step % 8 == 0: torch.save(model.state_dict(), 'm.pt')", True), ("print(step)", False)],
)
def test_a_condition_on_a_number_that_skips_values(use: str, is_said: bool) -> None:
    messages = [n.message for n in run(COUNTED.format(use=use)).notes]
    assert any("this number skips values" in m and "(line 17) may never hold" in m for m in messages) == is_said


ONE_BATCH = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rows = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(rows, batch_size=16, shuffle=True)
others = DataLoader(rows, batch_size=16)
model, second = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
optimizer = torch.optim.SGD(second.parameters(), lr=0.1)
{taken}
for i in range(3):
    optimizer.zero_grad()
    nn.functional.mse_loss(second(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("taken", "is_own"),
    [
        ("x, y = next(iter(loader))", True),
        ("for x, y in loader: break", True),
        ("batches = iter(loader)\nx, y = next(batches)", True),
        ("x, y = rows[:16]", False),
        ("x, y = next(iter(others))", False),
    ],
)
def test_a_batch_that_several_steps_learn_from_is_each_process_s_own(taken: str, is_own: bool) -> None:
    result = run(ONE_BATCH.format(taken=taken))
    (message,) = (n.message for n in result.notes if n.rule == "data")
    assert ("from a batch of its own" in message) is is_own
    assert ("every process has the same data" in message) is not is_own


FILLED = """\
import queue, threading
import torch
from torch import nn
batches = queue.Queue(8)
def fill():
    while True:
        batches.put(torch.randn(4, 3))
{early}
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters())
{late}
for step in range(20):
    loss = model(batches.get()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("is_early", [True, False])
def test_a_thread_that_begins_to_draw_before_each_process_draws_its_own(is_early: bool) -> None:
    start = "threading.Thread(target=fill, daemon=True).start()"
    result = run(FILLED.format(early=start if is_early else "", late="" if is_early else start))
    lines = (result.after or b"").decode().split("\n")
    said = {n.message.partition("`")[0]: lines[n.line - 1] for n in result.notes if n.rule == "data"}
    assert said.get("this thread draws training data from before ") == (start if is_early else None)
    assert any(m.startswith("each process draws its own data") for m in said) is not is_early
