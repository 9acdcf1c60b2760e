"""torch.distributed with tensors on pretend GPUs: gloo carries what stands for them."""

from __future__ import annotations

from functools import wraps
from typing import Any  # collectives take tensors in many ways

import torch.distributed as dist
from torch.utils._pytree import tree_map_only

from accelify.verify.inside.pretend.tensors import GpuTensor, inner_of

COLLECTIVES = (
    *("all_reduce", "all_gather", "all_gather_into_tensor", "broadcast", "reduce", "reduce_scatter"),
    *(
        "reduce_scatter_tensor",
        "gather",
        "scatter",
        "all_to_all",
        "all_to_all_single",
        "send",
        "recv",
        "isend",
        "irecv",
    ),
)


def install() -> None:
    """Let collectives take tensors on GPUs from here on."""
    for name in COLLECTIVES:
        real = getattr(dist, name)

        @wraps(real)
        def collective(*given: Any, real: Any = real, **options: Any) -> Any:
            options.pop("device_ids", None)
            plain = tree_map_only(GpuTensor, inner_of, (given, options))
            return real(*plain[0], **plain[1])

        setattr(dist, name, collective)
        setattr(dist.distributed_c10d, name, collective)
    _use_gloo()


def _use_gloo() -> None:
    start, barrier, group = dist.init_process_group, dist.barrier, dist.new_group

    @wraps(start)
    def started(backend: Any = None, *given: Any, **options: Any) -> Any:
        options.pop("device_id", None)
        return start("gloo", *given, **options)

    @wraps(barrier)
    def waited(*given: Any, **options: Any) -> Any:
        options.pop("device_ids", None)
        return barrier(*given, **options)

    @wraps(group)
    def made(*given: Any, **options: Any) -> Any:
        if "backend" in options:
            options["backend"] = "gloo"
        return group(*given, **options)

    dist.init_process_group, dist.barrier, dist.new_group = started, waited, made
