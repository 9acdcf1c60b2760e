"""What the import costs on top of `import torch`, and a checkpoint against the bare write of the same weights."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from taking_turns import least, show

IMPORTS = {
    "torch, as a script with a DataLoader has it": "import torch, torch.utils.data, torch.distributed",
    "and accelify.runtime's Accelerator": "from accelify.runtime import Accelerator",
    "and Hugging Face Accelerate's": "from accelerate import Accelerator",
}
ROUNDS = 7


def import_seconds(floor: str, more: str) -> float:
    """CPU time of the second import alone, in a process of its own."""
    code = f"{floor}; import time; start = time.process_time(); {more}; print(time.process_time() - start)"
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", code], env=compiled, capture_output=True, text=True, check=True)
    return float(done.stdout)


def imports() -> None:
    floor, *others = IMPORTS.values()
    for name, more in zip(list(IMPORTS)[1:], others, strict=True):
        seconds = min(import_seconds(floor, more) for _ in range(ROUNDS))
        print(f"  {name:<44}{1000 * seconds:10.1f} ms more than torch")


def checkpoints() -> None:
    import torch
    from safetensors.torch import save_file
    from torch import nn

    from accelify.runtime import Accelerator
    from accelify.runtime.world.environment import Environment

    for width in (1024, 4096):
        accelerator = Accelerator(cpu=True, environment=Environment())
        model = accelerator.prepare(nn.Sequential(nn.Linear(width, width), nn.Linear(width, width)))
        tensors = model.state_dict()
        with tempfile.TemporaryDirectory() as folder:

            def bare(path: Path = Path(folder, "bare"), tensors: dict[str, torch.Tensor] = tensors) -> None:
                new = path.with_suffix(".new")
                save_file(tensors, new)
                with new.open("rb") as file:
                    os.fsync(file.fileno())
                new.replace(path)

            def ours(accelerator: Accelerator = accelerator, path: Path = Path(folder, "ours")) -> None:
                accelerator.save_state(path)

            size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
            variants = {"save_file, fsync, rename": bare, "save_state": ours}
            for name, clock in {"CPU time": time.process_time, "time on the wall": time.perf_counter}.items():
                show(f"{size / 1e6:.0f} MB: {name}, ratio to save_file", least(variants, ROUNDS, clock), 1)


if __name__ == "__main__":
    imports()
    checkpoints()
