"""Imported by what runs on several devices of torch_xla's CPU client, where each device is a thread of one process.

The client's collectives meet by the program that they were compiled into, so two threads that compile the same graph
at the same time wait for each other in vain (`xm.optimizer_step` by hand does, too). Here the first thread compiles,
and the others go on when its program is there. $XLA_ENABLE_PARAM_ALIASING=0 keeps a thread from waiting for buffers
that a running program is to free. None of this concerns TPUs.
"""

import os
import threading
import time

import torch_xla
import torch_xla.debug.metrics as metrics
import torch_xla.runtime as runtime

real = torch_xla.sync
gate = threading.Barrier(int(os.environ["CPU_NUM_DEVICES"]))
begun: tuple[int, int | None] = (0, None)
done = threading.Event()


def programs() -> tuple[int, int | None]:
    return runtime.get_num_cached_compilation_graph(), metrics.counter_value("CachedCompile")


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    global begun
    is_first = runtime.global_ordinal() == 0
    if is_first:
        begun = programs()
        done.clear()
    gate.wait()
    while not is_first and not done.is_set() and programs() == begun:
        time.sleep(0.0005)
    real(wait, reset_scope)
    if is_first:
        done.set()
    gate.wait()


torch_xla.sync = sync
