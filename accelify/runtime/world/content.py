"""What a tensor holds, as bytes: so it travels, is compared and is written, whatever its dtype."""

from __future__ import annotations

import torch


def content_of(tensor: torch.Tensor) -> torch.Tensor:
    """Its numbers one after the other, as a flat tensor of bytes; of a conjugate view, what that stands for."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A single element keeps the stride that it had among others.
    return flat.as_strided(flat.shape, (1,)).view(torch.uint8)
