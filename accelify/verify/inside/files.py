"""Made-up files in the place of those that a dataset of the script's own would read and that are not here.

Images and texts can be made up, and listings of folders of them: nothing but the name is needed. What a table or an
array would have to look like only its reader knows; for those the script's own error stands.
"""

# Stand-ins for functions that take paths as text, and are given what the script gives.
# ruff: noqa: PTH110, PTH118, PTH119, PTH120, PTH122

from __future__ import annotations

import builtins
import glob
import io
import os
import re
import sys
import zlib
from typing import Any  # open takes and gives what it does

import numpy

from accelify.verify.inside.record import Recorder

IMAGES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".bmp": "BMP", ".gif": "GIF", ".tif": "TIFF", ".tiff": "TIFF"}
TEXTS = (".txt", ".text", ".tokens", ".raw")
SIDE = 96  # of an image. Units: pixels
LINES, WORDS = 400, 12  # of a text
MASK = re.compile(r"mask|label|segment|annotation|target|(?<![a-z])(?:gt|seg|anno)(?![a-z])", re.IGNORECASE)
READERS = re.compile(r"[/\\](?:PIL|torchvision|imageio|skimage)[/\\]")  # who opens files for a script


class Files:
    """Opens and lists what is not here."""

    def __init__(self, recorder: Recorder, count: int) -> None:
        self._recorder = recorder
        self._count = count
        self._open, self._listdir, self._glob = builtins.open, os.listdir, glob.glob
        self._told: set[str] = set()

    def install(self) -> None:
        """Stand in from here on."""
        builtins.open = io.open = self.open
        os.listdir = self.listdir
        glob.glob = self.glob

    def open(self, file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        """The file, or one made up for a reading of the script's own."""
        if set(mode) <= set("rbtU") and isinstance(file, (str, os.PathLike)) and self._is_asked(sys._getframe(1)):
            name = os.fspath(file)
            suffix = os.path.splitext(name)[1].lower()
            if (suffix in IMAGES or suffix in TEXTS) and not os.path.exists(name):
                content = _image(name, IMAGES[suffix]) if suffix in IMAGES else _text(name)
                self._tell(os.path.join(os.path.dirname(name), f"*{suffix}") if suffix in IMAGES else name)
                made = io.BytesIO(content)
                return made if "b" in mode else io.TextIOWrapper(made, encoding="utf-8")
        return self._open(file, mode, *rest, **options)

    def listdir(self, path: Any = ".") -> Any:
        """The names in a folder, or those of made-up images."""
        if isinstance(path, (str, os.PathLike)) and not os.path.exists(path) and self._is_asked(sys._getframe(1)):
            return [f"{number:04}.png" for number in range(self._count)]
        return self._listdir(path)

    def glob(self, pathname: Any, *rest: Any, **options: Any) -> Any:
        """The matches, or the names of made-up images where the folder is not here."""
        found = self._glob(pathname, *rest, **options)
        folder, last = os.path.split(os.fspath(pathname))
        stem, suffix = os.path.splitext(last)
        known = suffix.lower() in IMAGES and "*" in stem and not glob.has_magic(folder)
        if found or not known or os.path.exists(folder) or not self._is_asked(sys._getframe(1)):
            return found
        names = (last.replace("*", f"{number:04}", 1).replace("*", "") for number in range(self._count))
        return [os.path.join(folder, name) for name in names]

    def _is_asked(self, frame: Any) -> bool:
        """Whether the script itself reads, or a library that reads images for it."""
        name = frame.f_code.co_filename
        return self._recorder.owns(name) or READERS.search(name) is not None

    def _tell(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            kind = "text" if what.endswith(TEXTS) else "images"
            self._recorder.write("replaced", what=f"{what}: made-up {kind}")


def _random(name: str) -> numpy.random.RandomState:
    """Numbers that follow from the file's name, so that every run and every rank reads the same."""
    return numpy.random.RandomState(zlib.crc32(os.path.basename(name).encode()))


def _image(name: str, kind: str) -> bytes:
    from PIL import Image

    random = _random(name)
    if MASK.search(name):
        pixels = numpy.zeros((SIDE, SIDE), "uint8")
        top, left = random.randint(0, SIDE // 2, 2)
        pixels[top : top + SIDE // 2, left : left + SIDE // 2] = 1
    else:
        shade = random.randint(40, 216, 3)
        pixels = numpy.clip(shade + random.standard_normal((SIDE, SIDE, 3)) * 20, 0, 255).astype("uint8")
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def _text(name: str) -> bytes:
    random = _random(name)
    words = "the of and to in is that for it was with as his on be at by had not are but from or have an they".split()
    lines = (" ".join(random.choice(words, random.randint(4, WORDS))) for _ in range(LINES))
    return ("\n".join(lines) + "\n").encode()
