"""A two-rank run, killed with -9 at random times and started again, ends as if nothing had happened."""

import json
import multiprocessing
import os
import random
import re
import time
from pathlib import Path

import torch

from tests.ports import free_port
from tests.runtime import training
from tests.runtime.processes import environment

# Units: kills; `make soak` asks for more.
KILLS = int(os.environ.get("ACCELIFY_TEST_KILLS", "3"))
STEPS_PER_EPOCH = 4
AT_MOST = 8  # steps of a run that is killed, however long that takes


# Its one process imports torch; the ranks are forked from it.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.runtime.training", "torch.distributed.nn.functional"])


def run(options, rank, port, out):
    os.environ.update(environment(rank, 2, port))
    with Path(out).open("w") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    torch.set_num_threads(1)
    training.main(json.dumps(options))


def start(folder, epochs, **more):
    port = free_port()
    options = {"kind": "shuffle", "workers": 0, "epochs": epochs, "saves": "always", "load": "newest", **more}
    options |= {"project": str(folder), "out": str(folder)}
    ranks = [FORKS.Process(target=run, args=(options, rank, port, folder / f"out.{rank}")) for rank in range(2)]
    for rank, process in enumerate(ranks):
        Path(folder, f"out.{rank}").unlink(missing_ok=True)
        process.start()
    return ranks


def begin_of(process, out):
    """The step at which a run begins, once it does; what it printed before must not be an error."""
    while True:
        is_alive, printed = process.is_alive(), out.read_text() if out.exists() else ""
        if match := re.search(r"^begins at (\d+)\n", printed, re.MULTILINE):
            return int(match[1])
        assert is_alive, printed
        time.sleep(0.001)


def finish(folder, epochs):
    ranks = start(folder, epochs)
    for process in ranks:
        process.join(timeout=240 + 10 * KILLS)
    outputs = [(folder / f"out.{rank}").read_text() for rank in range(2)]
    assert [process.exitcode for process in ranks] == [0, 0], outputs
    return [{**json.loads((folder / str(rank)).read_text()), "seen": None} for rank in range(2)]


def newest(folder):
    """The number of the newest checkpoint, -1 without any."""
    names = [path.name for path in Path(folder, "checkpoints").glob("checkpoint_*")]
    return max([int(name.rpartition("_")[2]) for name in names], default=-1)


def test_killed_at_random_times(tmp_path):
    chance = random.Random(KILLS)
    epochs = 4 + 2 * KILLS
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    for folder in (broken, whole):
        folder.mkdir()
    reached = 0
    for _ in range(KILLS):
        ranks = start(broken, epochs, hang=AT_MOST)
        begins = begin_of(ranks[0], broken / "out.0")
        assert begins >= reached
        enough = begins + chance.randrange(4)  # checkpoints that this run may commit; how long that takes is no matter
        while newest(broken) + 1 < enough:
            assert [process.exitcode for process in ranks] == [None, None]
            time.sleep(0.001)
        time.sleep(chance.random() * 0.05)
        for process in chance.sample(ranks, 2):
            process.kill()
            time.sleep(chance.random() * 0.01)
        for process in ranks:
            process.join()
        # A name is a promise: whatever bears one was committed, so the next run must not begin before it.
        reached = newest(broken) + 1
    assert 0 < reached < epochs * STEPS_PER_EPOCH
    assert finish(broken, epochs) == finish(whole, epochs)
    left = {path.name.partition("_")[0] for path in Path(broken, "checkpoints").iterdir()}
    assert left == {"checkpoint"}
