"""Write a model's weights where other tools look for them: `model.safetensors`, sharded with an index if it is large.

Source: https://huggingface.co/docs/transformers/big_models#sharded-checkpoints
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, cast  # scripts keep objects of every kind

import torch

from accelify import atomic
from accelify.errors import AccelifyError
from accelify.runtime.checkpoint.format import memory_of, tensor_chunks

NAME, INDEX, PICKLED = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
# Units: bytes
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def save_weights(state: dict[str, torch.Tensor], folder: Path, max_shard_size: int | str) -> None:
    """The weights in files of at most that size (a larger tensor has one of its own), each complete or absent.

    Names of one tensor, as tied weights have, are kept once; the others are in the file's metadata. What an earlier
    call left there and this one does not write goes, after the new files are there.
    """
    kept, aliases = _without_aliases(state)
    shards = _shards(kept, size_of(max_shard_size))
    folder.mkdir(parents=True, exist_ok=True)
    names = [NAME] if len(shards) == 1 else [_shard_name(number, len(shards)) for number in range(1, len(shards) + 1)]
    for name, keys in zip(names, shards, strict=True):
        about = {alias: name for alias, name in aliases.items() if name in keys}
        chunks = tensor_chunks({key: kept[key] for key in keys}, about)
        _replace(folder / name, partial(_write_chunks, chunks))
    if len(shards) > 1:
        total = sum(tensor.numel() * tensor.element_size() for tensor in kept.values())
        weight_map = {key: name for name, keys in zip(names, shards, strict=True) for key in keys}
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        _replace(folder / INDEX, lambda file: _write_json(file, index))
    for old in [*folder.glob("model*.safetensors"), folder / INDEX]:
        if re.fullmatch(r"model(-\d{5}-of-\d{5})?\.safetensors", old.name) and old.name not in names:
            old.unlink()
    if len(shards) == 1:
        (folder / INDEX).unlink(missing_ok=True)
    atomic.sync_folder(folder)


def pickle_weights(state: dict[str, torch.Tensor], folder: Path) -> None:
    """The weights as `torch.save` writes them, for who asks for it."""
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / PICKLED, lambda file: torch.save(state, file))


class CannotWrite(AccelifyError, OSError):
    """A file that could not be written, with the cause; one that was there before still is."""


class _Watched:
    """A file that keeps the error of a write: torch's archives raise another, which does not name the cause."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, content: Any) -> int:
        """As the file does."""
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = error
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def _naming(name: str, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """The file, to write into. Raises: CannotWrite with this name for what the system refuses."""
    watched = _Watched(file)
    try:
        yield cast("IO[bytes]", watched)
    except OSError as error:
        raise _cannot_write(name, error) from error
    except RuntimeError as error:
        if watched.error is None:
            raise
        raise _cannot_write(name, watched.error) from error


def _cannot_write(name: str, error: OSError) -> CannotWrite:
    return CannotWrite(error.errno, f"{name} was not written: {error.strerror}")


def _replace(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Make what `write` puts into the file it is given the content of `path`, complete or not at all."""

    def write_watched(file: IO[bytes]) -> None:
        with _naming(str(path), file) as watched:
            write(watched)
            watched.flush()

    try:
        with atomic.staged(path, write_watched) as new:
            new.replace()
    except CannotWrite:
        raise
    except OSError as error:
        raise _cannot_write(str(path), error) from error
    try:
        atomic.sync_folder(new.target.parent)
    except OSError as error:
        warnings.warn(f"{path} is written, but a crash of the machine may lose it: {error}", stacklevel=4)


def size_of(text: int | str) -> int:
    """A size in bytes: `10GB` counts in thousands, `10GiB` in 1024s. Raises: ValueError."""
    if isinstance(text, int):
        return text
    match = re.fullmatch(r"\s*([\d.]+)\s*([KMGT]?I?)B\s*", text.upper())
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"max_shard_size {text!r}: say a size such as 5GB or 500MiB")
    return int(float(match[1]) * _UNITS[match[2]])


def write_object(
    obj: Any, f: str | os.PathLike[str] | IO[bytes], *arguments: Any, safe_serialization: bool = False, **options: Any
) -> None:
    """`torch.save`, or safetensors for a dict of tensors; a named file is replaced atomically."""

    def write(file: IO[bytes]) -> None:
        if safe_serialization:
            file.write(_one_file(obj))
        else:
            torch.save(obj, file, *arguments, **options)

    if isinstance(f, (str, os.PathLike)):
        _replace(Path(f), write)
    else:
        with _naming(str(getattr(f, "name", type(f).__name__)), f) as file:
            write(file)


def _one_file(state: dict[str, torch.Tensor]) -> bytes:
    """The weights as the content of one safetensors file, tied ones once."""
    from safetensors.torch import save  # only who writes needs it

    kept, aliases = _without_aliases(state)
    return save({key: value.contiguous() for key, value in kept.items()}, {"format": "pt", **aliases})


def _shard_name(number: int, count: int) -> str:
    return f"model-{number:05d}-of-{count:05d}.safetensors"


def _shards(tensors: dict[str, torch.Tensor], limit: int) -> list[list[str]]:
    shards: list[list[str]] = [[]]
    size = 0
    for key, tensor in tensors.items():
        more = tensor.numel() * tensor.element_size()
        if shards[-1] and size + more > limit:
            shards.append([])
            size = 0
        shards[-1].append(key)
        size += more
    return shards


def _without_aliases(state: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    kept: dict[str, torch.Tensor] = {}
    aliases: dict[str, str] = {}
    first: dict[tuple[object, ...], str] = {}
    for key, value in state.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"save_model: {key} is a {type(value).__name__}, and safetensors holds tensors only")
        same = memory_of(value)
        if value.numel() and same in first:
            aliases[key] = first[same]
        else:
            first[same] = key
            kept[key] = value
    return kept, aliases


def _write_chunks(chunks: Iterable[bytes | memoryview], file: IO[bytes]) -> None:
    file.writelines(chunks)


def _write_json(file: IO[bytes], table: object) -> None:
    file.write(json.dumps(table, indent=2).encode() + os.linesep.encode())
