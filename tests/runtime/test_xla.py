"""Training on PyTorch/XLA's CPU client, by an interpreter that has torch_xla: ACCELIFY_XLA_PYTHON names it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
    variables["PYTHONPATH"] = str(ROOT)
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


def test_without_torch_xla_the_variable_is_named(tmp_path):
    code = """
import sys
sys.modules["torch_xla"] = None
from accelify.runtime import Accelerator
Accelerator()
"""
    variables = {**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 1
    assert "CannotUseXla: $PJRT_DEVICE asks for XLA, and torch_xla cannot be imported" in done.stderr
