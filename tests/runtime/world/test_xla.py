"""Training on PyTorch/XLA's CPU client, by an interpreter that has torch_xla: ACCELIFY_XLA_PYTHON names it.

Several devices of that client are threads of one process; tests/runtime/xla_turns.py has them compile in turn.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelify.runtime.world.backend import join
from accelify.runtime.world.environment import Environment
from accelify.runtime.world.xla import CannotUseXla
from tests.interpreters import PYTHONPATH

ROOT = Path(__file__).parents[3]
PYTHON = os.environ.get("ACCELIFY_XLA_PYTHON")

SCRIPT = """
import sys, torch
from accelify.runtime import Accelerator

accelerator = Accelerator(project_dir=sys.argv[1])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(48, 4))
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(2):
    for (rows,) in loader:
        loss = model(rows).square().mean()
        optimizer.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    if epoch == 0:
        accelerator.save_state()
accelerator.load_state()
for (rows,) in loader:
    loss = model(rows).square().mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
accelerator.save(model.state_dict(), sys.argv[2])
print(accelerator.device.type, rows.device.type, next(model.parameters()).device.type)
"""


@pytest.mark.skipif(PYTHON is None, reason="torch_xla needs an environment of its own: ACCELIFY_XLA_PYTHON=its python")
def test_a_script_trains_and_goes_on_as_on_the_cpu(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    variables = {name: value for name, value in os.environ.items() if name != "PJRT_DEVICE"}
    variables["PYTHONPATH"] = PYTHONPATH
    for name, more in (("cpu", {}), ("xla", {"PJRT_DEVICE": "CPU"})):
        command = [PYTHON, "train.py", f"run-{name}", f"{name}.pt"]
        done = subprocess.run(command, cwd=tmp_path, env=variables | more, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{name} {name} {name}\n"
    compare = """
import torch
one, other = (torch.load(f"{name}.pt", map_location="cpu") for name in ("cpu", "xla"))
for key in one:
    torch.testing.assert_close(other[key].cpu(), one[key], rtol=1e-4, atol=1e-5)
"""
    done = subprocess.run([PYTHON, "-c", compare], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(PYTHON is None, reason="torch_xla needs an environment of its own: ACCELIFY_XLA_PYTHON=its python")
@pytest.mark.parametrize("name", ["own_tensors", "rollout", "self_play", "target_network"])
def test_a_script_that_named_no_device_has_all_its_tensors_on_one(tmp_path, name):
    printed = {}
    for kind, more in (("before", {}), ("after", {"PJRT_DEVICE": "CPU"})):
        variables = {name: value for name, value in os.environ.items() if name != "PJRT_DEVICE"}
        variables |= {"PYTHONPATH": PYTHONPATH, **more}
        command = [PYTHON, ROOT / "fixtures" / "scripts" / name / f"{kind}.py"]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr  # XLA's device computes with nothing that is in the CPU's memory
        printed[kind] = done.stdout
    assert printed["after"] == printed["before"]


TWO = """
import os, sys, torch
from accelify.runtime import Accelerator, notebook_launcher
from accelify.runtime.world.process_group import place
from accelify.runtime.world.xla import CannotUseXla

class Wrong(ValueError):
    pass

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh())
        self.head, self.sometimes, self.never = (torch.nn.Linear(8, 1) for _ in range(3))

    def forward(self, rows, is_first):
        hidden = self.body(rows)
        return self.head(hidden) + (self.sometimes(hidden) if is_first else 0)

def train(folder):
    if "PJRT_DEVICE" in os.environ:
        import tests.runtime.xla_turns
    accelerator = Accelerator(project_dir=folder, gradient_accumulation_steps=2)
    generator = torch.Generator().manual_seed(7)  # the random state of a process is shared by its devices
    model = Net().double()  # batch norms of four rows make much of the last bits of a float
    with torch.no_grad():
        for parameter in model.parameters():
            # Different on each rank: rank 0's count.
            parameter.copy_(torch.randn(parameter.shape, generator=generator) + accelerator.process_index)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = torch.utils.data.TensorDataset(torch.randn(44, 4, generator=generator).double(), torch.arange(44))
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, generator=generator)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(2):
        seen = []
        for rows, numbers in loader:
            with accelerator.accumulate(model):
                loss = model(rows, accelerator.is_main_process).square().mean()
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            seen += accelerator.gather_for_metrics(numbers).tolist()
        assert sorted(seen) == list(range(44)), seen
        if epoch == 0:
            accelerator.save_state()
            kept = [parameter.detach().cpu().clone() for parameter in model.parameters()]
    accelerator.backward(model(rows, accelerator.is_main_process).square().mean())
    assert model.never.weight.grad is None and model.sometimes.weight.grad is not None
    everywhere = accelerator.gather(torch.stack([p.double().sum() for p in model.parameters()]))
    assert torch.equal(everywhere[:len(kept)].cpu(), everywhere[len(kept):].cpu()), "the ranks have different weights"
    trained = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
    if "PJRT_DEVICE" in os.environ:
        try:
            model(rows, True).sum().backward()
        except CannotUseXla as error:
            assert "call accelerator.backward(loss)" in str(error)
        else:
            raise AssertionError("a backward pass that nobody averages")
    accelerator.load_state()
    assert all(torch.equal(one.cpu(), other) for one, other in zip(model.parameters(), kept))
    total = accelerator.reduce(torch.tensor([1.5, 2], device=accelerator.device), "sum").tolist()
    assert total == [3.0, 4.0] and accelerator.gather(accelerator.process_index) == [0, 1]
    assert place() == (accelerator.process_index, 2)
    print("process", accelerator.process_index, "of", accelerator.num_processes, accelerator.device.type)
    return trained

def fail():
    import time, torch_xla.runtime
    if torch_xla.runtime.global_ordinal() == 1:
        raise Wrong("bad data")
    time.sleep(600)

if __name__ == "__main__":
    assert place() == (0, 1)
    torch.save(notebook_launcher(train, (sys.argv[2],), num_processes=2), sys.argv[1])
    if "PJRT_DEVICE" in os.environ:
        try:
            notebook_launcher(fail, num_processes=2, start_method="spawn")
        except Wrong as error:
            print("caught", error, "|", "in fail" in str(error.__cause__), "process 1 on" in str(error.__cause__))
"""


@pytest.mark.skipif(PYTHON is None, reason="torch_xla needs an environment of its own: ACCELIFY_XLA_PYTHON=its python")
def test_two_devices_train_as_two_processes_do(tmp_path):
    (tmp_path / "train.py").write_text(TWO)
    variables = {name: value for name, value in os.environ.items() if name != "PJRT_DEVICE"}
    variables["PYTHONPATH"] = PYTHONPATH
    printed = {}
    for name, more in (("cpu", {}), ("xla", {"PJRT_DEVICE": "CPU", "XLA_ENABLE_PARAM_ALIASING": "0"})):
        command = [PYTHON, "train.py", f"{name}.pt", f"run-{name}"]
        done = subprocess.run(command, cwd=tmp_path, env=variables | more, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        printed[name] = done.stdout.splitlines()
    assert printed["cpu"][-1] == "process 0 of 2 cpu"  # gloo of torch 2.9 speaks before
    assert sorted(printed["xla"]) == ["caught bad data | True True", "process 0 of 2 xla", "process 1 of 2 xla"]
    compare = """
import torch
one, other = torch.load("cpu.pt"), torch.load("xla.pt")
for name in one:
    if "running_var" not in name:  # torch_xla 2.9 keeps the biased variance there
        torch.testing.assert_close(other[name], one[name], rtol=1e-6, atol=1e-6)
"""
    done = subprocess.run([PYTHON, "-c", compare], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_another_launcher_of_several_processes_is_named():
    place = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "1"}
    environment = Environment.read({**place, "MASTER_ADDR": "localhost", "PJRT_DEVICE": "TPU"})
    with pytest.raises(CannotUseXla, match=r"torchrun has started 2 processes: start them with notebook_launcher"):
        join(environment)


def test_without_torch_xla_the_variable_is_named(tmp_path):
    code = """
import sys
sys.modules["torch_xla"] = None
from accelify.runtime import Accelerator
Accelerator()
"""
    variables = {**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": PYTHONPATH}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 1
    assert "CannotUseXla: $PJRT_DEVICE asks for XLA, and torch_xla cannot be imported" in done.stderr
