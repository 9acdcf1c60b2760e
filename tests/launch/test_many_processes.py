"""Two processes under the elastic agent: what they see, what is shown, what is kept."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import stat
import struct
import subprocess
import sys
import termios

from tests.launch.conftest import PATIENCE, Shell, wait_until

WRITE_DOWN = """
import json, os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "ACCELIFY_CPU")
seen = {"argv": sys.argv, "path": sys.path, "file": __file__, "name": __name__, "spec": str(__spec__), "doc": __doc__}
seen["main"] = sys.modules["__main__"].__dict__ is globals()
seen["globals"] = sorted(name for name in globals() if name.startswith("__"))
seen["environment"] = {name: os.environ.get(name) for name in names}
seen["ours"] = sorted(name for name in os.environ if name.startswith("ACCELIFY_"))
seen["modules"] = [name for name in ("torch", "accelify") if name in sys.modules]
with open(f"seen-{os.environ.get('RANK', 'plain')}.json", "w") as file:
    json.dump(seen, file)
"""


def seen(shell: Shell, rank: object) -> dict:
    return json.loads((shell.folder / f"seen-{rank}.json").read_text())


def test_ranks_see_what_python_would_show_them(shell: Shell) -> None:
    (shell.folder / "elsewhere").mkdir()
    shell.script('"""A doc."""' + WRITE_DOWN, "real/train.py")
    (shell.folder / "elsewhere" / "link.py").symlink_to("../real/train.py")
    arguments = ["elsewhere/link.py", "--num-processes", "8", "$$HOME ${local_rank}", "", "-h"]
    launched = shell.launch("--cpu", "--num_processes", "2", *arguments)
    assert launched.returncode == 0, launched.stderr
    shell.python(*arguments)
    plain = seen(shell, "plain")
    for rank in (0, 1):
        told = seen(shell, rank)
        environment = told.pop("environment")
        assert {**told, "ours": []} == {key: value for key, value in plain.items() if key != "environment"}
        assert told["ours"] == ["ACCELIFY_CPU"]
        assert [environment[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")] == [str(rank), str(rank), "2"]
        assert int(environment["OMP_NUM_THREADS"]) >= 1


def test_threads_are_left_alone_when_set(shell: Shell) -> None:
    shell.script(WRITE_DOWN)
    assert shell.launch("--cpu", "--num-processes", "2", "train.py", OMP_NUM_THREADS="3").returncode == 0
    assert seen(shell, 1)["environment"]["OMP_NUM_THREADS"] == "3"


def test_rank_0_is_shown_and_nothing_is_left(shell: Shell) -> None:
    shell.script("import os; print('hello from', os.environ['RANK'])")
    launched = shell.run("launch", "--num-processes", "2", "train.py")
    assert (launched.returncode, launched.stdout, launched.stderr) == (0, "hello from 0\n", "")
    assert shell.logs() == []
    wait_until(lambda: not shell.processes(), "every process to be gone")


def test_output_arrives_as_it_is_printed(shell: Shell) -> None:
    shell.script("""
import os, time
print("first")
while not os.path.exists("go"):
    time.sleep(0.05)
""")
    process = shell.start("launch", "--num-processes", "2", "train.py")
    assert process.stdout.readline() == "first\n"  # arrives although the script has neither flushed nor ended
    assert process.poll() is None
    (shell.folder / "go").touch()
    assert process.wait(PATIENCE) == 0


def test_the_log_folder_is_kept_when_asked(shell: Shell) -> None:
    shell.script("import os, sys; print('out', os.environ['RANK']); print('err', file=sys.stderr); print('end')")
    assert shell.launch("--num-processes", "2", "--log-dir", "logs", "train.py").returncode == 0
    (folder,) = (shell.folder / "logs").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "rank-1.log").read_text() == "out 1\nerr\nend\n"
    assert not (folder / "rank-0.log").exists()


def test_tee_shows_every_rank(shell: Shell) -> None:
    shell.script("import os; print(f'hello from {os.environ[\"RANK\"]}')")  # in one piece, as the ranks' are mixed
    launched = shell.launch("--num-processes", "2", "--tee", "3", "train.py")
    assert launched.returncode == 0, launched.stderr
    assert sorted(re.findall(r"hello from \d", launched.stdout)) == ["hello from 0", "hello from 1"]


def test_leaving_by_system_exit_0_is_a_success(shell: Shell) -> None:
    shell.script("""
class Stop(SystemExit): pass
try:
    raise Stop(0)
finally:
    print("left")
""")
    launched = shell.launch("--num-processes", "2", "train.py")
    assert (launched.returncode, launched.stdout, launched.stderr) == (0, "left\n", "")


def test_a_module_on_two_ranks(shell: Shell) -> None:
    shell.script("import sys; print(sys.argv[0].endswith('train.py'), sys.argv[1:], __spec__.name)", "package/train.py")
    launched = shell.launch("--num-processes", "2", "-m", "package.train", "--x")
    assert launched.stdout == "True ['--x'] package.train\n", launched.stderr


def test_spawned_workers_find_the_scripts_functions(shell: Shell) -> None:
    shell.script("""
import multiprocessing
def double(x):
    return 2 * x
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [1, 2]))
""")
    launched = shell.launch("--num-processes", "2", "train.py")
    assert launched.stdout == "[2, 4]\n", launched.stderr


def test_a_terminal_stays_a_terminal(shell: Shell) -> None:
    """Rank 0 has it; the others have one of the same size, where there is nothing to read."""
    shell.script("""
import os, sys
print("tty", sys.stdout.isatty(), sys.stderr.isatty())
size = os.popen("stty size").read()
if os.environ["RANK"] == "1":
    open("rank-1", "w").write(f"{size}{sys.stdin.read()}{sys.stdin.read()}end")
""")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 33, 77, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "accelify", "launch", "--num-processes", "2", "train.py"],
        cwd=shell.folder,
        env=shell.environment(),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    assert process.wait(PATIENCE) == 0
    shown = b""
    with contextlib.suppress(OSError):  # the last writer has gone
        while piece := os.read(master, 4096):
            shown += piece
    assert b"tty True True" in shown
    assert (shell.folder / "rank-1").read_text() == "33 77\nend"
    os.close(master)
    wait_until(lambda: not shell.processes(), "the ranks to be gone")


def test_ranks_draw_the_same_on_gpus_of_their_own_before_there_is_an_accelerator(shell: Shell) -> None:
    """Data are split, and sets of texts gone through, before there is an `Accelerator()`; no run is as another."""
    shell.script("""
import json, os, random
drawn = [random.random(), list({"cat", "dog", "cow", "hen"})]
import numpy, torch
drawn += [numpy.random.rand(), torch.rand(1).item()]
random.seed(1), torch.manual_seed(1)
json.dump([drawn, [random.random(), torch.rand(1).item()]], open(f"drawn-{os.environ['RANK']}.json", "w"))
torch.cuda.device_count = lambda: 2
torch.cuda.set_device = lambda device: open(f"gpu-{os.environ['RANK']}", "w").write(str(device))
for call, _ in torch.cuda._queued_calls:  # as CUDA's start makes them
    if "work_on_own_gpu" in call.__qualname__:
        call()
""")
    runs = []
    for _ in range(2):
        assert shell.launch("--cpu", "--num-processes", "2", "train.py").returncode == 0
        rank_0, rank_1 = (json.loads((shell.folder / f"drawn-{rank}.json").read_text()) for rank in (0, 1))
        assert rank_0 == rank_1
        assert [(shell.folder / f"gpu-{rank}").read_text() for rank in (0, 1)] == ["0", "1"]
        runs.append(rank_0)
    (first, first_seeded), (second, second_seeded) = runs
    assert first_seeded == second_seeded
    assert all(a != b for a, b in zip(first[:1] + first[2:], second[:1] + second[2:], strict=True))


ALONE = """
import torch
{join}
from torch.optim.optimizer import register_optimizer_step_post_hook
register_optimizer_step_post_hook(lambda *_: None)  # of the script's own, called after ours
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()
"""


def test_identical_copies_are_warned_of_once(shell: Shell) -> None:
    shell.script(ALONE.format(join="import torch.distributed, accelify"))
    launched = shell.launch("--cpu", "--num-processes", "2", "train.py")
    assert launched.returncode == 0
    assert launched.stderr.count("each of the 2 processes trains by itself") == 1
    assert launched.stderr.count("\n") == 1


JOINED = """
import os
if os.environ["JOB"] == "1":
    torch.distributed.init_process_group("gloo")
else:
    from accelify.runtime import Accelerator
    accelerator = Accelerator()
"""
SUM = """
total = torch.tensor([float(os.environ["JOB"])])
torch.distributed.all_reduce(total)
print("sum", int(total.item()))
torch.distributed.destroy_process_group()
"""


def test_two_launches_at_once_do_not_collide_and_ranks_that_have_joined_are_no_copies(shell: Shell) -> None:
    shell.script(ALONE.format(join=JOINED) + SUM)
    jobs = [shell.start("launch", "--cpu", "--num-processes", "2", "train.py", JOB=str(n)) for n in (1, 10)]
    outputs = [job.communicate(timeout=PATIENCE) for job in jobs]
    assert outputs == [("sum 2\n", ""), ("sum 20\n", "")]
    assert [job.returncode for job in jobs] == [0, 0]


def test_one_process_is_no_copy(shell: Shell) -> None:
    shell.script(ALONE.format(join=""))
    assert shell.run("launch", "--cpu", "--num-processes", "1", "train.py").stderr == ""
