"""Small made-up datasets in the place of those that are not here, of the same shapes; each replacement is recorded."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any  # datasets are built with what the script gives

import numpy
import torch
from torch.utils.data import Dataset

from accelify.verify.inside.record import Recorder

# name -> the shape of an image as an array, and how many classes there are
IMAGES: dict[str, tuple[tuple[int, ...], int]] = {
    "MNIST": ((28, 28), 10),
    "FashionMNIST": ((28, 28), 10),
    "KMNIST": ((28, 28), 10),
    "QMNIST": ((28, 28), 10),
    "EMNIST": ((28, 28), 47),
    "CIFAR10": ((32, 32, 3), 10),
    "CIFAR100": ((32, 32, 3), 100),
    "SVHN": ((32, 32, 3), 10),
    "STL10": ((96, 96, 3), 10),
    "ImageFolder": ((96, 96, 3), 2),
}
HELD_OUT = ("test", "val", "valid", "validation")


class Images(Dataset[Any]):
    """Random images around a pattern for each class, so that there is something to learn."""

    def __init__(self, name: str, count: int, held_out: bool, transform: Any, target_transform: Any) -> None:
        shape, classes = IMAGES[name]
        random = numpy.random.RandomState(len(name) + 1000 * held_out)
        labels = numpy.arange(count) % classes
        random.shuffle(labels)
        rows, columns = numpy.mgrid[0 : shape[0], 0 : shape[1]]
        waves = numpy.stack(
            [numpy.sin((rows * (1 + y % 4) + columns * (1 + y // 4)) * 6.28 / shape[1]) for y in labels]
        )
        waves = waves if len(shape) == 2 else waves[..., None]
        noise = random.standard_normal((count, *shape)) * 12
        pixels = numpy.clip(127 + 100 * waves + noise, 0, 255).astype("uint8")
        self.data: Any = torch.from_numpy(pixels) if len(shape) == 2 else pixels
        self.targets: Any = torch.from_numpy(labels) if len(shape) == 2 else labels.tolist()
        self.labels = labels
        self.classes = [f"class {number}" for number in range(classes)]
        self.class_to_idx = {word: number for number, word in enumerate(self.classes)}
        self.imgs = self.samples = [(f"{number}.png", int(label)) for number, label in enumerate(labels)]
        self.transform, self.target_transform = transform, target_transform
        self._pixels = pixels

    def __len__(self) -> int:
        return len(self._pixels)

    def __getitem__(self, index: int) -> Any:
        from PIL import Image

        image, label = Image.fromarray(self._pixels[index]), int(self.labels[index])
        changed = image if self.transform is None else self.transform(image)
        return changed, label if self.target_transform is None else self.target_transform(label)


def install(recorder: Recorder, count: int) -> None:
    """Stand in from here on, with `count` samples in a training set and half as many in one that is held out."""
    _replace_torchvision(recorder, count)
    _replace_hugging_face(recorder, count)


def _replace_torchvision(recorder: Recorder, count: int) -> None:
    if importlib.util.find_spec("torchvision") is None:
        return
    datasets = importlib.import_module("torchvision.datasets")
    for name in IMAGES:
        real = getattr(datasets, name)
        stand_in = type(name, (_Openable,), {"real": real, "recorder": recorder, "count": count})
        for module in (datasets, sys.modules.get(real.__module__)):
            if module is not None:
                setattr(module, name, stand_in)


class _Openable:
    """Builds the real dataset where it is here, else the stand-in."""

    real: Any
    recorder: Recorder
    count: int

    def __new__(cls, root: Any = None, *given: Any, **options: Any) -> Any:
        asked = {**options, "download": False} if "download" in options else options
        try:
            return cls.real(root, *given, **asked)
        except (RuntimeError, FileNotFoundError, OSError):
            return cls._stand_in(root, *given, **options)

    @classmethod
    def _stand_in(cls, root: Any, *given: Any, **options: Any) -> Any:
        name = cls.__name__
        train = given[0] if given and isinstance(given[0], (bool, str)) else options.get("train", options.get("split"))
        held_out = train is False or train in HELD_OUT or (name == "ImageFolder" and _names_held_out(root))
        transforms = [each for each in given if callable(each)]
        transform = options.get("transform", transforms[0] if transforms else None)
        count = max(cls.count // 2, 8) if held_out else cls.count
        part = "held out" if held_out else "training"
        cls.recorder.write("replaced", what=f"torchvision.datasets.{name} ({part}): {count} made-up images")
        return Images(name, count, held_out, transform, options.get("target_transform"))


def _names_held_out(root: Any) -> bool:
    return any(word in str(root) for word in HELD_OUT)


def _replace_hugging_face(recorder: Recorder, count: int) -> None:
    """`datasets.load_dataset` for text: a table of sentences made of a few words, with labels that follow from them."""
    try:
        datasets: Any = importlib.import_module("datasets")
    except ImportError:
        return
    real = datasets.load_dataset

    def load_dataset(path: Any, name: Any = None, *given: Any, **options: Any) -> Any:
        try:
            return real(path, name, *given, **options)
        except Exception as error:  # whatever kept it from being there: no network, no file, no builder
            recorder.write("replaced", what=f"datasets.load_dataset({path!r}) ({type(error).__name__}): made-up text")
        parts = {part: count if part == "train" else max(count // 2, 8) for part in ("train", "validation", "test")}
        tables = {part: datasets.Dataset.from_dict(_sentences(rows, part)) for part, rows in parts.items()}
        split = options.get("split")
        return tables[split] if split in tables else datasets.DatasetDict(tables)

    datasets.load_dataset = load_dataset


def _sentences(count: int, part: str) -> dict[str, list[Any]]:
    random = numpy.random.RandomState(len(part))
    labels = (numpy.arange(count) % 2).tolist()
    words = (("poor", "dull", "slow", "thin"), ("fine", "bright", "quick", "rich"))
    texts = [" ".join(random.choice(words[label], 6)) for label in labels]
    columns = ("text", "sentence", "sentence1", "sentence2")
    return {**dict.fromkeys(columns, texts), "label": labels, "idx": list(range(count))}
