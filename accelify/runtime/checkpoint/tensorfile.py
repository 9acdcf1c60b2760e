"""Write named tensors in the safetensors format, hashed on the way; reading is left to the safetensors library.

Source: https://huggingface.co/docs/safetensors/index#format
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from accelify.errors import AccelifyError
from accelify.runtime.checkpoint.writing import Entry, Writing
from accelify.runtime.world.content import content_of

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}


class CannotWriteTensor(AccelifyError, TypeError):
    """A tensor of a kind that safetensors has no name for."""


def write_tensors(
    writing: Writing, name: str, tensors: Mapping[str, torch.Tensor], about: Mapping[str, str] | None = None
) -> Entry:
    """A new safetensors file of these tensors."""
    # Widest first, as the library does: every tensor then starts at a multiple of its element's size.
    order = sorted(tensors, key=lambda key: (-tensors[key].element_size(), key))
    header: dict[str, object] = {"__metadata__": {"format": "pt", **(about or {})}}
    end = 0
    for key in order:
        tensor = tensors[key]
        if tensor.dtype not in _NAMES:
            raise CannotWriteTensor(f"{key}: safetensors has no {tensor.dtype}: keep it in another dtype")
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[key] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)

    def chunks() -> Iterator[bytes | memoryview]:
        yield len(text).to_bytes(8, "little") + text
        for key in order:
            if tensors[key].numel():
                yield bytes_of(tensors[key])

    return writing.file(name, chunks())


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, on the CPU, each in memory of its own.

    Where it lies in the file's, a sum over it may be rounded otherwise: kernels begin at other places.
    """
    from safetensors import safe_open  # only who loads needs it

    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  # it is no dict


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """A tensor's numbers as they stand in memory, one after the other."""
    flat = content_of(tensor.detach().cpu())
    return memoryview(flat.numpy())  # type: ignore[arg-type]  # an array is a buffer before Python 3.12, too
