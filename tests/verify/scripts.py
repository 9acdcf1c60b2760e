"""Small training scripts, before and after a migration by hand; the tests break single lines of the latter."""

CLASSIFIER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
inputs = torch.randn(44, 6)
labels = (inputs.sum(1) > 0).long()
train = DataLoader(TensorDataset(inputs[:32], labels[:32]), batch_size=8, shuffle=True)
test = DataLoader(TensorDataset(inputs[32:], labels[32:]), batch_size=5)
encoder = nn.Sequential(nn.Linear(6, 8), nn.Tanh())
head = nn.Linear(8, 2)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.3, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
for epoch in range(2):
    for x, y in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(encoder(x)), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
    correct = 0
    with torch.no_grad():
        for x, y in test:
            guess = head(encoder(x)).argmax(1)
            correct += (guess == y).sum().item()
    print(f"epoch {epoch}: {correct} of {len(test.dataset)} are right")
torch.save({"encoder": encoder.state_dict(), "head": head.state_dict()}, "model.pt")
"""

CLASSIFIER_MIGRATED = """\
import torch
from accelify.runtime import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator()
torch.manual_seed(3)
inputs = torch.randn(44, 6)
labels = (inputs.sum(1) > 0).long()
train = DataLoader(TensorDataset(inputs[:32], labels[:32]), batch_size=8, shuffle=True)
test = DataLoader(TensorDataset(inputs[32:], labels[32:]), batch_size=5)
encoder = nn.Sequential(nn.Linear(6, 8), nn.Tanh())
head = nn.Linear(8, 2)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.3, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
train, test = accelerator.prepare(train, test)
encoder, head = accelerator.prepare(encoder, head)
optimizer, scheduler = accelerator.prepare(optimizer, scheduler)
for epoch in range(2):
    for x, y in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(encoder(x)), y)
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
    correct = 0
    with torch.no_grad():
        for x, y in test:
            guess = head(encoder(x)).argmax(1)
            guess, y = accelerator.gather_for_metrics((guess, y))
            correct += (guess == y).sum().item()
    accelerator.print(f"epoch {epoch}: {correct} of {len(test.dataset)} are right")
accelerator.save({"encoder": encoder.state_dict(), "head": head.state_dict()}, "model.pt")
"""

RANDOM_BATCHES = """\
import torch

torch.manual_seed(3)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(5)
for step in range(4):
    x = torch.randn(8, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

RANDOM_BATCHES_MIGRATED = """\
import torch
from accelify.runtime import Accelerator

accelerator = Accelerator()
torch.manual_seed(3)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
torch.manual_seed(5 + accelerator.process_index)
for step in range(4):
    x = torch.randn(8, 4).to(accelerator.device)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
"""

WITH_A_LOSS_METHOD = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)
    def forward(self, x):
        return (self.fc(x) - x.sum(1, keepdim=True)).square().mean()
    def loss(self, x):
        return self(x)

torch.manual_seed(3)
train = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in train:
    optimizer.zero_grad()
    model.loss(x).backward()
    optimizer.step()
"""

# By hand on torch's own DistributedDataParallel, each rank with its rows of the original's batch.
ON_PLAIN_DDP = """\
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)
    def forward(self, x):
        return (self.fc(x) - x.sum(1, keepdim=True)).square().mean()
    def loss(self, x):
        return self(x)

rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
torch.manual_seed(3)
train = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8)
if world > 1:
    dist.init_process_group("gloo")
    batches = [list(range(i + rank * 4, i + rank * 4 + 4)) for i in range(0, 32, 8)]
    train = DataLoader(train.dataset, batch_sampler=batches)
model = Model()
wrapped = DistributedDataParallel(model) if world > 1 else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in train:
    optimizer.zero_grad()
    wrapped(x).backward()
    optimizer.step()
if world > 1:
    dist.destroy_process_group()
"""

TWO_MODELS = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
train = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8)
first = torch.nn.Linear(4, 4)
second = torch.nn.Linear(4, 1)
slow = torch.optim.SGD(first.parameters(), lr=0.01)
fast = torch.optim.SGD(second.parameters(), lr=0.1)
for (x,) in train:
    slow.zero_grad()
    fast.zero_grad()
    (second(first(x)) - x.sum(1, keepdim=True)).square().mean().backward()
    slow.step()
    fast.step()
"""

TWO_MODELS_MIGRATED = """\
import torch
from accelify.runtime import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator()
torch.manual_seed(3)
train = accelerator.prepare(DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8))
first = torch.nn.Linear(4, 4)
second = torch.nn.Linear(4, 1)
slow = torch.optim.SGD(first.parameters(), lr=0.01)
fast = torch.optim.SGD(second.parameters(), lr=0.1)
first, slow = accelerator.prepare(first, slow)
second, fast = accelerator.prepare(second, fast)
for (x,) in train:
    slow.zero_grad()
    fast.zero_grad()
    accelerator.backward((second(first(x)) - x.sum(1, keepdim=True)).square().mean())
    slow.step()
    fast.step()
"""

# Dropout, BatchNorm, and a dataset that adds noise to what it gives.
RANDOM_BY_NATURE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Noisy(Dataset):
    def __init__(self):
        self.inputs = torch.randn(32, 6)
    def __len__(self):
        return 32
    def __getitem__(self, index):
        x = self.inputs[index] + 0.1 * torch.randn(6)
        return x, x.sum().reshape(1)

torch.manual_seed(3)
train = DataLoader(Noisy(), batch_size=8, shuffle=True)
model = nn.Sequential(
    nn.Linear(6, 8),
    nn.BatchNorm1d(8),
    nn.Dropout(0.5),
    nn.Linear(8, 1),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for x, y in train:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""

RANDOM_BY_NATURE_MIGRATED = (
    RANDOM_BY_NATURE.replace("import torch\n", "import torch\nfrom accelify.runtime import Accelerator\n", 1)
    .replace(
        "for x, y",
        "accelerator = Accelerator()\ntrain, model, optimizer = accelerator.prepare(train, model, optimizer)\nfor x, y",
    )
    .replace("loss.backward()", "accelerator.backward(loss)")
)

# Noise in the training step, one draw for each row, twice: by torch and by its distributions.
WITH_NOISE = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
train = DataLoader(TensorDataset(torch.randn(30, 4)), batch_size=7)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for (x,) in train:
    y = model(x)
    y = y + torch.randn_like(y) * 0.1 + torch.distributions.Normal(torch.zeros_like(y), 0.2).sample()
    loss = (y + torch.randn(len(x), 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
