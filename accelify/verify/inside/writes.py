"""Records the files that a script writes, keeps it from writing outside its scratch copy, looks into checkpoints."""

# An audit hook is given names, as text or bytes, and is called often, so that pathlib would be in its way.
# ruff: noqa: PTH100, PTH101, PTH108, PTH110, PTH114, PTH115, PTH116, PTH118, PTH119, PTH120

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any  # checkpoints hold anything

import torch
from torch import nn

from accelify.runtime.world.files_written import SYSTEM, caches_of_home, is_bytecode
from accelify.verify.inside.reach import CHECKPOINTS, Reach
from accelify.verify.inside.record import Recorder, Sketcher, digest

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# A checkpoint with more leaves than this is compared by its first ones.
LEAVES = 5000


# Where states of everything prepared are saved, each library's in files of its own.
SAVES_STATES = ("accelify/runtime/accelerator.py", "accelerate/accelerator.py")


class Refused(PermissionError):
    """The script wanted to write outside its scratch copy."""


class Writes:
    """The handler of audit events that may write."""

    def __init__(
        self, recorder: Recorder, reach: Reach, root: str, protected: list[str], own: str, temporary: str
    ) -> None:
        self._recorder = recorder
        self._reach = reach
        self._root = os.path.join(root, "")
        self._protected = [os.path.join(folder, "") for folder in protected]
        self._own = os.path.join(own, "")
        self._temporary = os.path.join(temporary, "")
        self._home = caches_of_home()
        self._events: dict[str, Callable[..., None]] = {
            "open": self._open,
            "os.rename": self._rename,
            "os.mkdir": self._mkdir,
            "os.remove": self._remove,
            "os.truncate": lambda path, *_: self.written(path, "truncate"),
            "os.link": lambda source, target, *_: self.written(target, "link"),
            "os.symlink": lambda source, target, *_: self.written(target, "symlink"),
        }
        self._is_inside = False
        self._state: FrameType | None = None  # the last call of `save_state`

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """The audit hook itself."""
        listener = self._events.get(event)
        if listener is None or self._is_inside:
            return
        self._is_inside = True
        try:
            listener(*arguments)
        finally:
            self._is_inside = False

    def _open(self, path: Any, mode: Any, flags: int) -> None:
        if isinstance(path, int) or not flags & WRITING:
            return
        self.written(path, "open", truncates=bool(flags & os.O_TRUNC))

    def _rename(self, source: Any, target: Any, *_: Any) -> None:
        self.written(target, "rename", source=self._named(source))

    def _mkdir(self, path: Any, *_: Any) -> None:
        if not os.path.exists(path):
            self.written(path, "mkdir")

    def _remove(self, path: Any, *_: Any) -> None:
        self._guard(self._absolute(path), os.fsdecode(path))

    def written(self, path: Any, how: str, truncates: bool = True, **more: Any) -> None:
        """Record a write, after making sure that it touches nothing of the user's."""
        try:
            absolute = self._absolute(path)
        except (TypeError, ValueError):
            return
        if is_bytecode(absolute) or absolute.startswith((*SYSTEM, self._own)):
            return
        if os.path.islink(absolute) and absolute.startswith(self._root):
            _detach(absolute, truncates)
        self._guard(absolute, os.fsdecode(path))
        if how != "mkdir" and absolute.startswith(self._root):
            self._reach.wrote(absolute)
        if not self.is_of_state():
            self._recorder.write("write", path=self._named(path), how=how, at=self._recorder.place(), **more)

    def is_of_state(self) -> bool:
        """Whether `save_state` is under way, whose files are the library's own; each call is recorded once."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name == "save_state" and frame.f_code.co_filename.endswith(SAVES_STATES):
                if frame is not self._state:
                    self._state = frame
                    self._recorder.write("state", at=self._recorder.place())
                    self._reach.came_to(CHECKPOINTS)
                return True
            frame = frame.f_back
        return False

    def _absolute(self, path: Any) -> str:
        name = os.path.abspath(os.fsdecode(path))
        return os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))

    def _named(self, path: Any) -> str:
        absolute = self._absolute(path)
        return absolute[len(self._root) :] if absolute.startswith(self._root) else absolute

    def _guard(self, absolute: str, shown: str) -> None:
        inside = absolute.startswith((self._root, self._own))
        theirs = absolute.startswith(tuple(self._protected)) and self._protected
        harmless = absolute.startswith((self._temporary, self._home, *SYSTEM)) and not theirs
        if inside or harmless:
            return
        place = self._recorder.place()
        self._recorder.write("refused", path=shown, at=place)
        raise Refused(f"accelify verify lets a script write only into its scratch copy, not to {shown} ({place})")


def _detach(link: str, truncates: bool) -> None:
    """Large files of the project are links in the scratch copy: put a copy in the place of one that is written."""
    target = os.path.realpath(link)
    os.unlink(link)
    if not truncates:
        Path(link).write_bytes(Path(target).read_bytes())
        os.chmod(link, stat.S_IMODE(os.stat(target).st_mode) | stat.S_IWUSR)


def install(
    recorder: Recorder, reach: Reach, root: str, protected: list[str], own: str, temporary: str, *, looks_into: bool
) -> None:
    """Watch from here on; `own` is where the traces are written, `temporary` the folder for everybody's short files.

    looks_into: whether to record what checkpoints hold.
    """
    writes = Writes(recorder, reach, root, protected, own, temporary)
    sketcher = Sketcher()
    save = torch.save

    def saved(thing: Any, file: Any, *rest: Any, **options: Any) -> None:
        if isinstance(file, (str, os.PathLike)):  # torch opens a file by itself, and no audit hook hears of it
            writes.written(file, "open")
            path: str | None = writes._named(file)
        else:
            path = _name_of(file, writes)
        save(thing, file, *rest, **options)
        reach.came_to(CHECKPOINTS)
        if not looks_into or writes.is_of_state():
            return
        leaves = [leaf for _, leaf in zip(range(LEAVES), _leaves(thing, "", sketcher), strict=False)]
        recorder.write("checkpoint", path=path, at=recorder.place(), leaves=leaves)

    torch.save = saved  # type: ignore[assignment]  # passes on whatever it is given
    sys.addaudithook(writes.hear)


def _name_of(file: Any, writes: Writes) -> str | None:
    name = getattr(file, "name", None)
    if isinstance(name, int):
        name = f"/proc/self/fd/{name}"
        name = os.readlink(name) if os.path.lexists(name) else None
    return writes._named(name) if isinstance(name, (str, bytes, os.PathLike)) else None


def _leaves(thing: Any, key: str, sketcher: Sketcher) -> Iterator[list[Any]]:
    """Key, kind and value of everything in a checkpoint."""
    if isinstance(thing, nn.Module):
        yield from _leaves(thing.state_dict(), _join(key, type(thing).__name__), sketcher)
    elif isinstance(thing, dict):
        for name, value in thing.items():
            yield from _leaves(value, _join(key, str(name)), sketcher)
    elif isinstance(thing, (list, tuple)):
        for index, value in enumerate(thing):
            yield from _leaves(value, _join(key, str(index)), sketcher)
    elif isinstance(thing, torch.Tensor):
        kind = f"{str(thing.dtype).removeprefix('torch.')}{list(thing.shape)}"
        yield [key, kind, digest(thing), sketcher.sketch(thing)]
    elif isinstance(thing, (bool, int, float)):
        yield [key, type(thing).__name__, repr(thing), [float(thing)]]
    else:
        yield [key, type(thing).__name__, thing if isinstance(thing, str) else "", []]


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
