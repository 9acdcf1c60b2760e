"""What torch sees of this machine."""

from __future__ import annotations


def torch_facts() -> list[tuple[str, str]]:
    """Names and values for a bug report; one line says why if torch is missing or broken."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return [("torch", f"cannot be imported: {error}")]
    backends = [name for name in ("nccl", "gloo", "mpi") if getattr(torch.distributed, f"is_{name}_available")()]
    facts = [("torch sees", f"{torch.cuda.device_count()} CUDA devices, CUDA {torch.version.cuda or 'not built in'}")]
    facts += [("torch sees", torch.cuda.get_device_name(number)) for number in range(torch.cuda.device_count())]
    return [*facts, ("torch backends", " ".join(backends)), ("torch threads", str(torch.get_num_threads()))]
