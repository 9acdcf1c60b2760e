"""Restarts: a rank that dies takes the others along and all begin again."""

from __future__ import annotations

import itertools
import os
import signal

import pytest
import torch

from tests.launch.conftest import PATIENCE, Shell, wait_until
from tests.ports import free_port

# How a machine leaves: as when it crashes; `make soak` has it asked to end as well.
LEAVING = [signal.SIGKILL, signal.SIGTERM] if "ACCELIFY_TEST_KILLS" in os.environ else [signal.SIGKILL]

COUNTING = """
import os, signal, sys, time
rank, restart = os.environ["RANK"], int(os.environ["TORCHELASTIC_RESTART_COUNT"])
with open(f"began-{rank}", "a") as file:
    file.write(f"{restart}\\n")
while rank == "1" and not os.path.exists("began-0"):
    time.sleep(0.05)
while rank == "1" and open("began-0").read().count("\\n") <= restart:
    time.sleep(0.05)
if rank == "1" and restart < int(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
while rank == "0" and restart < int(sys.argv[1]):
    time.sleep(1)
print("done after", restart)
"""

TRAINING = """
import os, pathlib, signal, sys, time, torch
from accelify.runtime import Accelerator

out, disturbed = sys.argv[1:]
accelerator = Accelerator(cpu=True, project_dir=f"run-{out}")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(48, 4))
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
if begin := accelerator.load_state(missing_ok=True):
    print("goes on from", os.path.basename(begin), "with", accelerator.num_processes, flush=True)
restart = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
steps = 0
for epoch in range(loader.iteration, 20):
    for (rows,) in loader:
        loss = model(rows).square().mean()
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        steps += 1
        if disturbed == "killed":
            if steps == 4:
                accelerator.save_state()
            if steps == 8 and restart == 0 and accelerator.process_index == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        elif disturbed == "stopped":
            accelerator.stop_if_asked()
            if steps == 8:
                pathlib.Path(f"up-{accelerator.process_index}").touch()
            time.sleep(0.2 if steps >= 8 and not begin else 0)
if accelerator.is_main_process:
    torch.save(model.state_dict(), out)
"""


def same_weights(shell: Shell, one: str, other: str) -> bool:
    first, second = (torch.load(shell.folder / name) for name in (one, other))
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


def test_a_run_that_is_stopped_and_then_killed_ends_with_the_weights_of_an_undisturbed_one(shell: Shell) -> None:
    shell.script(TRAINING)
    options = ("--cpu", "--num-processes", "2", "--max-restarts", "1", "train.py")
    whole = shell.launch(*options, "whole", "not")
    assert (whole.returncode, whole.stdout) == (0, ""), whole.stderr

    stopped = shell.start("launch", *options, "stopped", "stopped")
    wait_until(lambda: all((shell.folder / f"up-{rank}").exists() for rank in (0, 1)), "both ranks to train")
    stopped.send_signal(signal.SIGTERM)
    out, err = stopped.communicate(timeout=PATIENCE)
    assert (stopped.returncode, out) == (128 + signal.SIGTERM, ""), err
    folder = shell.folder / "run-stopped" / "checkpoints" / "checkpoint_0"
    assert f"accelify: stopped by SIGTERM with a checkpoint, {folder}; load_state() goes on from there\n" in err
    assert "Traceback" not in err
    assert not (shell.folder / "stopped").exists()
    killed = shell.launch(*options, "stopped", "killed")
    begins = "goes on from checkpoint_0 with 2\ngoes on from checkpoint_1 with 2\n"
    assert (killed.returncode, killed.stdout) == (0, begins), killed.stderr
    assert "SIGKILL" in killed.stderr
    assert same_weights(shell, "whole", "stopped")


def test_one_process_is_stopped_with_a_checkpoint(shell: Shell) -> None:
    shell.script(TRAINING)
    stopped = shell.start("launch", "--cpu", "train.py", "stopped", "stopped")
    wait_until((shell.folder / "up-0").exists, "the process to train")
    stopped.send_signal(signal.SIGTERM)
    _, err = stopped.communicate(timeout=PATIENCE)
    assert stopped.returncode == 128 + signal.SIGTERM
    assert err.startswith("accelify: stopped by SIGTERM with a checkpoint")


def test_a_killed_rank_restarts_the_group(shell: Shell) -> None:
    shell.script(COUNTING)
    launched = shell.launch("--num-processes", "2", "--max-restarts", "2", "train.py", "2")
    assert launched.returncode == 0, launched.stderr
    assert launched.stdout == "done after 2\n"
    assert shell.lines("began-0") == shell.lines("began-1") == ["0", "1", "2"]
    assert "starting all ranks again, 2 of at most 2 times" in launched.stderr
    assert shell.logs() == []


def test_restarts_end(shell: Shell) -> None:
    shell.script(COUNTING)
    launched = shell.launch("--num-processes", "2", "--max-restarts", "1", "train.py", "9")
    assert launched.returncode == 128 + signal.SIGKILL
    assert shell.lines("began-1") == ["0", "1"]
    assert launched.stderr.count("starting all ranks again") == 1
    wait_until(lambda: not shell.processes(), "every process to be gone")


def test_one_process_restarts_too(shell: Shell) -> None:
    shell.script(COUNTING.replace('"1"', '"0"').replace("while", "while False and"))
    launched = shell.run("launch", "--max-restarts", "1", "train.py", "1")
    assert (launched.returncode, launched.stdout) == (0, "done after 1\n"), launched.stderr


def worlds(shell: Shell) -> list[str]:
    """How many machines there were, one after the other; two that part may meet several times until both are there."""
    return [world for world, _ in itertools.groupby(shell.lines("worlds"))]


@pytest.mark.parametrize("number", LEAVING)
def test_a_machine_joins_and_leaves_and_the_other_goes_on(shell: Shell, number: signal.Signals) -> None:
    shell.script("""
import os, time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
world = dist.get_world_size()
if dist.get_rank() == 0:
    with open("worlds", "a") as file:
        print(world, file=file)
while world == 2 or not os.path.exists("finish"):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.05)
print("went on with", world)
""")
    # A machine that has not been heard of for 20 seconds is gone.
    conf = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=20"
    arguments = ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-conf", conf]
    arguments += ["--rdzv-endpoint", f"127.0.0.1:{free_port()}", "train.py"]
    stays = shell.start("launch", "--cpu", *arguments)
    wait_until(lambda: worlds(shell) == ["1"], "the first machine to begin alone")
    leaves = shell.start("launch", "--cpu", *arguments)
    wait_until(lambda: worlds(shell) == ["1", "2"], "both machines to begin again")
    leaves.send_signal(number)
    leaves.communicate(timeout=PATIENCE)
    assert leaves.returncode == (-number if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: worlds(shell) == ["1", "2", "1"], "the first machine to go on alone")
    (shell.folder / "finish").touch()
    out, err = stays.communicate(timeout=PATIENCE)
    assert (stays.returncode, out) == (0, "went on with 1\n"), err
    assert "the machines that take part have changed; starting all ranks again" in err
    wait_until(lambda: not shell.processes(), "every process to be gone")
