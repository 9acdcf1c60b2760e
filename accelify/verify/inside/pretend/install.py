"""Puts a pretend GPU in the place of the missing one."""

from __future__ import annotations

import importlib
import os
from contextlib import AbstractContextManager

import torch

from accelify.verify.inside.pretend.tensors import BACKEND, GPU
from accelify.verify.inside.record import Recorder


class NoPretendGpu(Exception):
    """This torch has no backends that are written in Python."""


def install(recorder: Recorder, world: int) -> AbstractContextManager[object]:
    """A GPU for each of `world` ranks; within the context, torch's functions know of it. Raises: NoPretendGpu."""
    try:
        from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
    except ImportError:
        raise NoPretendGpu(f"torch {torch.__version__} has no backends written in Python; 2.13 has") from None
    _setup_privateuseone_for_python_backend(BACKEND)
    # These bind what is replaced below, or ask for CUDA while they are imported.
    for name in ("torch.distributed.tensor", "torch.distributed.nn.functional", "torch.utils.data._utils.pin_memory"):
        importlib.import_module(name)
    from accelify.verify.inside.pretend import collectives, devices, factories
    from accelify.verify.inside.pretend.functions import Functions

    GPU.count, GPU.process, GPU.place = world, os.getpid(), recorder.place
    GPU.report_other = lambda index: recorder.write(
        "nature", kind="other GPU", at=recorder.place(), what=f"cuda:{index}"
    )
    factories.install()
    functions = Functions()
    devices.install()
    collectives.install()
    return functions
