"""How processes begin and end: as a launcher starts them, and quietly."""

import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from accelify.runtime.world import process_group
from accelify.runtime.world.process_group import choose_device
from tests.interpreters import ROOT
from tests.ports import free_port
from tests.runtime.processes import WORLD_LIMIT, environment, launch, launch_forked

TRAIN = """
import sys
import torch
from accelify.runtime import Accelerator
accelerator = Accelerator()
loader = accelerator.prepare(torch.utils.data.DataLoader(torch.arange(40.).view(20, 2), batch_size=2))
model = accelerator.prepare(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step, batch in enumerate(loader):
    accelerator.backward(model(batch).mean())
    optimizer.step()
    if step == 2:
        {end}
"""

# Registered before the runtime's own, and so run after it.
THREADS = """
import atexit, gc, os, pathlib
atexit.unregister(gc.freeze)  # so that it ends as its users' interpreters do
def count():
    names = [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
    pathlib.Path("threads-" + os.environ["RANK"]).write_text(str(sum(name.startswith("pt_gloo") for name in names)))
atexit.register(count)
"""


@pytest.mark.parametrize(("end", "status"), [("sys.exit(3)", 3), ("pass", 0)])
def test_ranks_that_end_leave_no_word_and_no_thread_of_their_group(end, status, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(THREADS + TRAIN.format(end=end))
    assert launch([script], 2, cwd=tmp_path) == [(status, "")] * 2
    assert [(tmp_path / f"threads-{rank}").read_text() for rank in range(2)] == ["0"] * 2


@pytest.mark.parametrize(("end", "status"), [("raise ValueError('no such file')", 1), ("pass", 0)])
def test_a_log_that_is_flushed_at_the_end_of_one_rank_waits_for_nobody(end, status, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import atexit, sys\n"
        "from accelify.runtime import Accelerator, PartialState\n"
        "class Log:\n"
        "    def __init__(self): self.console = sys.stdout\n"
        "    def write(self, text): PartialState().is_main_process and self.console.write(text)\n"
        "    def flush(self): PartialState().num_processes == 2 and self.console.flush()\n"
        "log = Log()\n"
        "atexit.register(lambda: accelerator.is_main_process and log.write('bye'))\n"
        "accelerator = Accelerator()\n"
        "accelerator.is_main_process or sys.exit(0)\n"
        f"sys.stdout = log\n{end}\n"
    )
    (first, output), (second, nothing) = launch_forked([script], 2, tmp_path)
    assert (first, second, nothing) == (status, 0, "")
    assert "bye" in output


def test_what_waits_for_a_rank_that_has_left_says_so(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\n"
        "from accelify.runtime import Accelerator\n"
        "accelerator = Accelerator()\n"
        "model = accelerator.prepare(torch.nn.Linear(1, 1))\n"
        "accelerator.process_index or sys.exit(0)\n"
        "try:\n"
        "    model(torch.ones(1, 1)).sum().backward()\n"
        "except Exception as error:\n"
        "    print(error)\n"
        "try:\n"
        "    accelerator.gather(1)\n"
        "except Exception as error:\n"
        "    print(error)\n"
        "accelerator.backward(model(torch.ones(1, 1)).sum())\n"
    )
    (first, _), (second, output) = launch_forked([script], 2, tmp_path)
    assert first == 0
    assert second != 0
    for place in ("7 backward", "11 gather number", "14 backward"):
        assert re.search(rf"rank 0 .+; rank 1 waits at train\.py:{place}", output), output


def test_the_others_learn_how_a_rank_ended(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys\n"
        "from accelify.runtime import Accelerator\n"
        "accelerator = Accelerator()\n"
        "accelerator.reduce(1)\n"
        "if accelerator.process_index == 1:\n"
        "    sys.exit(0)\n"
        "if accelerator.process_index == 2:\n"
        "    raise ValueError('no such file')\n"
        "accelerator.state._world.store.wait(['end/1', 'end/2'])\n"
        "try:\n"
        "    accelerator.reduce(1)\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    _, output = launch_forked([script], 3, tmp_path)[0]
    assert "rank 1 has ended; rank 2 failed with ValueError: no such file; rank 0 waits at train.py:11 reduce" in output
    assert "join_uneven_inputs" in output


def test_a_rank_that_never_comes_is_named_by_those_that_wait(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, time\n"
        "from datetime import timedelta\n"
        "from pathlib import Path\n"
        "from accelify.runtime import Accelerator, InitProcessGroupKwargs\n"
        "from accelify.runtime.world import process_group\n"
        "process_group.GRACE = timedelta(seconds=3)  # the one that never comes is looked for so long\n"
        "def meet(name, ranks):\n"
        "    Path(name + os.environ['RANK']).touch()\n"
        "    while not all(Path(name + rank).exists() for rank in ranks):\n"
        "        time.sleep(0.05)\n"
        "meet('imported-', '012')  # which may take any time\n"
        "a = Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(seconds=8))])\n"
        "a.reduce(1)\n"
        "if a.process_index == 1:\n"
        "    meet('waited-', '02')\n"
        "else:\n"
        "    try:\n"
        "        a.wait_for_everyone()\n"
        "    finally:\n"
        "        meet('waited-', '')\n"
    )
    outputs = [output for _, output in launch_forked([script], 3, tmp_path)]
    assert "rank 1 never came" in outputs[0]
    assert "rank 0 waits at train.py:18 wait_for_everyone; rank 2 waits at train.py:18" in outputs[0]


def test_a_backward_pass_against_another_call_is_reported_long_before_the_timeout(tmp_path):
    script = tmp_path / "my train.py"
    script.write_text(
        "import torch\n"
        "from accelify.runtime import Accelerator\n"
        "accelerator = Accelerator()\n"
        "model = accelerator.prepare(torch.nn.Linear(1, 1))\n"
        "try:\n"
        "    if accelerator.process_index == 0:\n"
        "        accelerator.backward(model(torch.ones(1, 1)).sum())\n"
        "    else:\n"
        "        accelerator.gather(torch.ones(2))\n"
        "except Exception as error:\n"
        "    print(error, flush=True)\n"
        "    raise\n"
    )
    outputs = [output for _, output in launch_forked([script], 2, tmp_path)]
    stories = "rank 0 waits at my train.py:7 backward; rank 1 waits at my train.py:9 gather f32[2]"
    assert any(f"the ranks wait at different calls; {stories}" in output for output in outputs), outputs
    assert all(f"rank {rank} waits at my train.py:" in output for rank, output in enumerate(outputs)), outputs


def test_torchrun_makes_one_world_of_two_processes(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "from accelify.runtime import Accelerator\n"
        "a = Accelerator()\n"
        "print(f'<{a.process_index}/{a.num_processes} {a.reduce(1)}>', flush=True)\n"
    )
    clean = environment(0, 1, free_port())
    variables = {key: value for key, value in clean.items() if key not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, timeout=WORLD_LIMIT)
    assert done.returncode == 0, done.stderr
    assert "<0/2 2>" in done.stdout
    assert "<1/2 2>" in done.stdout


def test_without_torch_the_import_says_what_to_install():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import accelify.runtime, accelify.runtime.world.environment\n"
        "try:\n    from accelify.runtime import Accelerator\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert 'pip install "accelify[runtime]"' in done.stdout


def test_the_device(monkeypatch):
    assert choose_device(0, 1, cpu=True) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device(1, 2, cpu=False) == torch.device("cuda:1")
    assert choose_device(2, 4, cpu=False) == torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device(0, 1, cpu=False) == torch.device("mps")
    assert choose_device(0, 2, cpu=False) == torch.device("cpu")


def begin_threads(monkeypatch) -> list[tuple[str, torch.device]]:
    """What threads set as their current GPU, once a process has chosen one."""
    chosen: list[tuple[str, torch.device]] = []
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    monkeypatch.setattr(
        torch.cuda, "set_device", lambda device: chosen.append((threading.current_thread().name, device))
    )
    process_group._begin_threads_on.__wrapped__(torch.device("cuda:1"))
    return chosen


class Named(threading.Thread):
    def run(self) -> None:
        self.result = 3


def test_threads_begin_with_the_gpu_of_their_process(monkeypatch):
    chosen = begin_threads(monkeypatch)
    thread = Named(name="own")
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1, thread_name_prefix="pool") as pool:
        assert pool.submit(lambda: thread.result).result() == 3
    assert chosen == [("own", torch.device("cuda:1")), ("pool_0", torch.device("cuda:1"))]


def test_threads_of_forked_processes_ask_for_no_gpu(monkeypatch):
    chosen = begin_threads(monkeypatch)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    thread = Named()
    thread.start()
    thread.join()
    assert (thread.result, chosen) == (3, [])
