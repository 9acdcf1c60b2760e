"""How many GPUs does torch see on this machine?"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from accelify.verify.scratch import CannotVerify

# In a process of its own: one that has asked for GPUs cannot fork others that use them.
_ASK = """
import json, torch
print(json.dumps([torch.__version__, torch.version.cuda or torch.version.hip, torch.cuda.device_count()]))
"""


def count_gpus() -> int:
    """At least one. Raises: CannotVerify saying why there is none."""
    asked = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True)
    if asked.returncode:
        raise CannotVerify(f"--device cuda: torch cannot be asked for GPUs:\n{asked.stderr[-2000:]}")
    version, built_for, count = json.loads(asked.stdout.splitlines()[-1])
    other = "leave it out: pretend GPUs find mistakes of devices on any machine"
    if built_for is None:
        raise CannotVerify(f"--device cuda: torch {version} is built without CUDA; {other}")
    if not count:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        hidden = f", with CUDA_VISIBLE_DEVICES={visible!r}" if visible is not None else ""
        raise CannotVerify(f"--device cuda: torch {version} sees no GPU on this machine{hidden}; {other}")
    return int(count)


def visible(count: int) -> str:
    """The GPUs that the runs may see, as CUDA_VISIBLE_DEVICES names them."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
