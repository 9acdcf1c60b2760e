"""Small made-up datasets in the place of those that are not here, of the same shapes; each replacement is recorded."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from typing import Any  # datasets are built with what the script gives

import numpy
import torch
from torch.utils.data import Dataset

from accelify.verify.inside.files import Files
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
    "USPS": ((16, 16), 10),
    "EuroSAT": ((64, 64, 3), 10),
    "GTSRB": ((64, 64, 3), 43),
    "Imagenette": ((96, 96, 3), 10),
    "ImageNet": ((96, 96, 3), 1000),
    "Flowers102": ((96, 96, 3), 102),
    "Food101": ((96, 96, 3), 101),
    "OxfordIIITPet": ((96, 96, 3), 37),
    "StanfordCars": ((96, 96, 3), 196),
    "DTD": ((96, 96, 3), 47),
    "LSUN": ((96, 96, 3), 10),
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
    Files(recorder, count).install()


def _replace_torchvision(recorder: Recorder, count: int) -> None:
    if importlib.util.find_spec("torchvision") is None:
        return
    datasets = importlib.import_module("torchvision.datasets")
    for name in IMAGES:
        real = getattr(datasets, name, None)
        if real is None:  # an older torchvision
            continue
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
    """`datasets.load_dataset`: images where the name is a known data set's, else sentences of a few words; labelled."""
    try:
        datasets: Any = importlib.import_module("datasets")
    except ImportError:
        return
    real = datasets.load_dataset

    def load_dataset(path: Any, name: Any = None, *given: Any, **options: Any) -> Any:
        try:
            return real(path, name, *given, **options)
        except Exception as error:  # whatever kept it from being there: no network, no file, no builder
            known = _known_images(str(path))
            kind = "images" if known else "text"
            why = type(error).__name__
            recorder.write("replaced", what=f"datasets.load_dataset({path!r}) ({why}): made-up {kind}")
        parts = {part: count if part == "train" else max(count // 2, 8) for part in ("train", "validation", "test")}
        tables = {
            part: datasets.Dataset.from_dict(_pictures(known, rows, part) if known else _sentences(rows, part))
            for part, rows in parts.items()
        }
        split = options.get("split")
        return tables[split] if split in tables else datasets.DatasetDict(tables)

    datasets.load_dataset = load_dataset


def _known_images(path: str) -> str | None:
    """torchvision's name of a data set of images, for Hugging Face's."""
    last = re.sub(r"[^a-z0-9]", "", path.lower().rpartition("/")[2].removesuffix("-1k"))
    return next((name for name in IMAGES if name.lower() == last), None)


def _pictures(name: str, count: int, part: str) -> dict[str, list[Any]]:
    made = Images(name, count, part != "train", None, None)
    pictures, labels = zip(*(made[index] for index in range(len(made))), strict=True)
    return {"image": list(pictures), "img": list(pictures), "label": list(labels)}


def _sentences(count: int, part: str) -> dict[str, list[Any]]:
    random = numpy.random.RandomState(len(part))
    labels = (numpy.arange(count) % 2).tolist()
    words = (("poor", "dull", "slow", "thin"), ("fine", "bright", "quick", "rich"))
    texts = [" ".join(random.choice(words[label], 6)) for label in labels]
    columns = ("text", "sentence", "sentence1", "sentence2")
    return {**dict.fromkeys(columns, texts), "label": labels, "idx": list(range(count))}
