"""Transforms that leave pictures as they are: random ones would draw otherwise in each process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any  # pictures, then tensors


class Compose:
    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, picture: Any) -> Any:
        for transform in self.transforms:
            picture = transform(picture)
        return picture


class RandomResizedCrop:
    def __init__(self, size: object, scale: object) -> None:
        pass

    def __call__(self, picture: Any) -> Any:
        return picture


class Resize:
    def __init__(self, size: object) -> None:
        pass

    def __call__(self, picture: Any) -> Any:
        return picture


class ToTensor:
    def __call__(self, picture: Any) -> Any:
        return picture.pixels
