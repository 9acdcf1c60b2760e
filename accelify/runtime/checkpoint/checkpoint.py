"""Save and load the state of a training run as a checkpoint: complete or absent, never a pickle.

Rank 0 writes the state that all ranks have in common, every rank its random state. What fails on one rank fails on
all, with the same message.
"""

from __future__ import annotations

import itertools
import os
import shutil
import warnings
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any  # what is prepared and registered is of many kinds

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from accelify.errors import AccelifyError
from accelify.runtime.checkpoint.files import Entry, FolderWriter
from accelify.runtime.checkpoint.format import Row, States, inline_row, write_state, write_table
from accelify.runtime.checkpoint.manifest import (
    NAMED,
    Damaged,
    Manifest,
    about_now,
    candidates,
    commit,
    committed,
    numbers_in,
    place_of,
    remove,
    stage,
    verify,
)
from accelify.runtime.checkpoint.transaction import Transaction, check_model, check_optimizer, loads_itself
from accelify.runtime.data.loader import generators_of, load_state, state_of, undo_of_state
from accelify.runtime.data.random_state import set_seed
from accelify.runtime.data.streams import Streams
from accelify.runtime.options import ProjectConfiguration
from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.divergence import find_divergence, named_parameters, named_states
from accelify.runtime.world.process_group import World

SaveHook = Callable[[list[nn.Module], list[dict[str, Any]], str], None]
LoadHook = Callable[[list[nn.Module], str], None]


class CannotSave(AccelifyError):
    """A checkpoint that was not written; what was there before still is. The same on every rank."""


class CannotLoad(AccelifyError):
    """A checkpoint that is not there, is damaged, or does not fit what was prepared. The same on every rank."""


@dataclass
class RunState:
    """The parts of a run that a checkpoint holds; the collections are those of the accelerator's parts."""

    models: Collection[nn.Module]
    optimizers: Collection[Any]
    schedulers: Collection[Any]
    loaders: Collection[Any]
    streams: Streams
    scaler: Any = None
    custom: list[Any] = field(default_factory=list)


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, *, world: World, collectives: Collectives, run: RunState, project: ProjectConfiguration) -> None:
        self.run = run
        self.project = project
        self._world = world
        self._collectives = collectives
        self._attempts = Attempts(collectives, world.rank)
        self._save_hooks: OrderedDict[int, SaveHook] = OrderedDict()
        self._load_hooks: OrderedDict[int, LoadHook] = OrderedDict()

    # -- what is saved beside the prepared objects

    def register(self, *objects: Any) -> None:
        """Keep these objects' states, too. Raises: ValueError for one without state_dict and load_state_dict."""
        bad = [
            f"Item at index {index}, `{type(one).__name__}`"
            for index, one in enumerate(objects)
            if not (hasattr(one, "state_dict") and hasattr(one, "load_state_dict"))
        ]
        if bad:
            raise ValueError(f"register_for_checkpointing: {', '.join(bad)} has no state_dict and load_state_dict")
        self.run.custom.extend(objects)

    def before_saving(self, hook: SaveHook) -> RemovableHandle:
        """Call `hook(models, weights, folder)` before each save; weights that it takes out are not saved."""
        handle = RemovableHandle(self._save_hooks)
        self._save_hooks[handle.id] = hook
        return handle

    def before_loading(self, hook: LoadHook) -> RemovableHandle:
        """Call `hook(models, folder)` before each load; models that it takes out are not loaded."""
        handle = RemovableHandle(self._load_hooks)
        self._load_hooks[handle.id] = hook
        return handle

    # -- saving

    def save(self, folder: str | os.PathLike[str] | None) -> str:
        """Write a checkpoint and return its folder. Raises: CannotSave on every rank if any rank fails."""
        self._warn_of_divergence()
        target: Path | None = self._home() if folder is None else place_of(folder)

        def failure(reason: str) -> CannotSave:
            where = "" if target is None else f" to {target}"
            return CannotSave(f"save_state{where}: {reason}. What was there before still is")

        target, staging, serial = self._attempts.on_main(lambda: self._begin(folder), failure)
        try:
            with FolderWriter(staging) as writing:
                written = self._attempts.on_all(lambda: self._write(writing), failure)
                self._attempts.on_main(lambda: self._commit(target, serial, writing, written), failure)
        except CannotSave:
            if self._world.rank == 0:
                shutil.rmtree(staging, ignore_errors=True)
            raise
        return str(target)

    def _warn_of_divergence(self) -> None:
        """Warn where parameters, optimizers or schedulers have diverged from rank 0's, which are saved."""
        if self._world.size == 1:
            return
        run = self.run
        values = named_parameters(run.models) | named_states(run.optimizers) | named_states(run.schedulers)
        difference = find_divergence(self._collectives, "save_state", values)
        if difference is not None and self._world.rank == 0:
            reason = "was it changed on one process alone, by a rate, load_state_dict or without accelerator.backward?"
            warnings.warn(f"save_state: {difference}, whose are saved: {reason}", stacklevel=2)

    @property
    def next_serial(self) -> int:
        """The number of the project's next checkpoint."""
        return self._serial_after(self._parents())

    def _serial_after(self, parents: set[Path]) -> int:
        serials = [manifest.serial for manifest in committed(parents)]
        # By their names, too: one that cannot be read just now must not be replaced, nor count as newer.
        return max([*serials, *numbers_in(self._home())], default=self.project.iteration - 1) + 1

    def _begin(self, folder: str | os.PathLike[str] | None) -> tuple[Path, Path, int]:
        parents = self._parents() if folder is None else {place_of(folder).parent, *self._parents()}
        serial = self._serial_after(parents)
        if folder is not None:
            target = place_of(folder)
        elif (home := self._home()) is not None:
            target = home / f"{NAMED}{serial}"
        else:
            raise CannotSave("name a folder, or give the Accelerator a project_dir")
        return target, stage(target, is_ours=target.parent == self._home()), serial

    def _home(self) -> Path | None:
        """Where checkpoints without a name of their own are."""
        directory = self.project.project_dir
        return None if directory is None else Path(directory).absolute() / "checkpoints"

    def _parents(self) -> set[Path]:
        home = self._home()
        return set() if home is None else {home, home.parent}

    def _write(self, writing: FolderWriter) -> tuple[dict[str, Row], list[Entry]]:
        """This rank's rows of the table, and its files."""
        weights = [model.state_dict() for model in self.run.models]
        for hook in self._save_hooks.values():
            hook(list(self.run.models), weights, str(writing.folder))
        random = self._random_state()
        rows = {f"{kind}-rank{self._world.rank}": inline_row(kind, state) for kind, state in random.items()}
        entries: list[Entry] = []
        if self._world.rank == 0:
            rows["loaders"] = inline_row("loaders", [state_of(loader) for loader in self.run.loaders])
            for name, state in self._common_states(weights).items():
                rows[name], files = write_state(writing, name, state)
                entries += files
        return rows, entries

    def _common_states(self, weights: list[dict[str, Any]]) -> dict[str, Any]:
        run = self.run
        states: dict[str, Any] = {_numbered("model", index): state for index, state in enumerate(weights)}
        for kind, objects in (("optimizer", run.optimizers), ("scheduler", run.schedulers)):
            states.update({_numbered(kind, index): one.state_dict() for index, one in enumerate(objects)})
        if run.scaler is not None:
            states["scaler"] = run.scaler.state_dict()
        for index, one in enumerate(run.custom):
            states[f"custom-{index}"] = {"type": type(one).__qualname__, "state": one.state_dict()}
        return states

    def _commit(
        self, target: Path, serial: int, writing: FolderWriter, written: list[tuple[dict[str, Row], list[Entry]]]
    ) -> None:
        about = {
            **about_now(),
            "processes": self._world.size,
            "torch": torch.__version__,
            "counts": {kind: len(getattr(self.run, kind)) for kind in ("optimizers", "schedulers", "custom")},
        }
        rows = {name: row for rows, _ in written for name, row in rows.items()}
        entries = [entry for _, entries in written for entry in entries]
        is_lasting = commit(writing, target, serial, [*entries, write_table(writing, rows)], about)
        limit = self.project.total_limit
        if is_lasting and limit is not None and target.parent == self._home():
            self._prune(target.parent, max(limit, 1))

    def _prune(self, home: Path, limit: int) -> None:
        named = [found for found in committed([home]) if found.folder.name.startswith(NAMED)]
        try:
            for old in named[limit:]:
                remove(old.folder)
        except OSError as error:
            # The new checkpoint is there; an old one too many does no harm.
            warnings.warn(f"an old checkpoint could not be removed: {error}", stacklevel=2)

    def _random_state(self) -> dict[str, Any]:
        """The random states: the shared one, this rank's own in a loop, those of its loaders' own generators."""
        shared, own = self.run.streams.state()
        return {"rng": shared, "own": own, "generators": [generators_of(loader) for loader in self.run.loaders]}

    # -- loading

    def load(self, folder: str | os.PathLike[str] | None, *, missing_ok: bool = False, **options: Any) -> str:
        """Load a checkpoint and return its folder; without a name, the newest of the project that checks out.

        With `missing_ok`, a project that has none yet is no failure: nothing is loaded and nothing returned.
        Raises: CannotLoad on every rank if any rank fails.
        """
        chosen: Manifest | None = self._attempts.on_main(lambda: self._choose(folder, missing_ok), CannotLoad)
        if chosen is None:
            return ""
        manifest = chosen

        def failure(reason: str) -> CannotLoad:
            return CannotLoad(f"load_state from {manifest.folder}: {reason}. Nothing was changed")

        self._collectives.agree("load_state", manifest.digest)
        models = list(self.run.models)

        states: dict[str, Any] = {}

        def read() -> None:
            for hook in self._load_hooks.values():
                hook(models, str(manifest.folder))
            states.update(self._read(manifest, len(models)))

        self._attempts.on_all(read, failure)
        self._attempts.on_all(lambda: self._check(states, models, options), failure)
        # Models last: those that were compared cannot fail, and need no copy of what they hold.
        last = [index for index, model in enumerate(models) if not loads_itself(model)]
        first = [index for index in range(len(models)) if index not in last]
        transaction = Transaction()
        try:
            self._attempts.on_all(lambda: self._load_models(first, transaction, states, models, options), failure)
            problems = self._attempts.on_all(lambda: self._load_others(transaction, states), failure)
            self._attempts.on_all(lambda: self._load_models(last, transaction, states, models, options), failure)
        except BaseException:
            transaction.roll_back()
            raise
        for problem in problems[0]:
            if self._world.rank == 0:
                warnings.warn(f"load_state: the data cannot go on exactly where it was: {problem}", stacklevel=3)
        return str(manifest.folder)

    def _choose(self, folder: str | os.PathLike[str] | None, missing_ok: bool) -> Manifest | None:
        if folder is not None:
            places = candidates(place_of(folder))
        else:
            places = [manifest.folder for manifest in committed(self._parents())]
            if not places and missing_ok and self._home() is not None:
                return None
            if not places:
                where = "give the Accelerator a project_dir" if self._home() is None else f"{self._home()} has none"
                raise CannotLoad(f"load_state without a folder loads the project's newest checkpoint: {where}")
        reasons = []
        for place in places:
            try:
                manifest = verify(place)
            except Damaged as error:
                reasons.append(str(error))
                continue
            if reasons:
                warnings.warn(f"{'; '.join(reasons)}. Going back to {place}", stacklevel=2)
            return manifest
        raise CannotLoad("; ".join(reasons[:1] if folder is not None else reasons))

    def _read(self, manifest: Manifest, models: int) -> dict[str, Any]:
        """Every state that this rank needs, before any is changed."""
        counts = manifest.about["counts"]
        for kind, count in counts.items():
            if (here := len(getattr(self.run, kind))) != count:
                raise CannotLoad(f"{manifest.folder} has {count} {kind}, and {here} were given: prepare the same first")
        names = [_numbered("model", index) for index in range(models)]
        names += [_numbered("optimizer", index) for index in range(counts["optimizers"])]
        names += [_numbered("scheduler", index) for index in range(counts["schedulers"])]
        names += [f"custom-{index}" for index in range(counts["custom"])]
        saved = States(manifest)
        if models == len(self.run.models) and _numbered("model", models) in saved:
            raise CannotLoad(f"{manifest.folder} holds more models than the {models} given: prepare the same first")
        names += ["loaders"] + (["scaler"] if "scaler" in saved else [])
        return {**{name: saved[name] for name in names}, "random": self._random_state_in(saved, manifest)}

    def _random_state_in(self, states: States, manifest: Manifest) -> Any:
        """This rank's; a rank that did not exist then takes the states that all ranks had, or a seed of its own."""
        saved, rank = manifest.about["processes"], self._world.rank
        kinds = ("rng", "own", "generators")
        if rank < saved:
            return {kind: states[f"{kind}-rank{rank}"] for kind in kinds}
        alike = [kind for kind in kinds if states.is_same([f"{kind}-rank{other}" for other in range(saved)])]
        seed = zlib.crc32(f"{manifest.digest} {rank}".encode())
        return {"seed": seed} | {kind: states[f"{kind}-rank0"] for kind in alike}

    def _check(self, states: dict[str, Any], models: list[nn.Module], options: dict[str, Any]) -> None:
        """Raises: DoesNotFit for what can be seen not to fit before anything is changed."""
        strict = options.get("strict", True)
        for index, model in enumerate(models):
            check_model(f"model {index}", model, states[_numbered("model", index)], strict=strict)
        for index, optimizer in enumerate(self.run.optimizers):
            check_optimizer(f"optimizer {index}", optimizer, states[_numbered("optimizer", index)])
        for index, one in enumerate(self.run.custom):
            saved = states[f"custom-{index}"]
            if saved["type"] != type(one).__qualname__:
                kinds = f"a {type(one).__qualname__}, and was a {saved['type']}"
                raise CannotLoad(f"registered object {index} is {kinds}: register the same in the same order")
            if isinstance(one, nn.Module):
                check_model(f"registered object {index}", one, saved["state"])

    def _load_models(
        self,
        indices: list[int],
        transaction: Transaction,
        states: dict[str, Any],
        models: list[nn.Module],
        options: dict[str, Any],
    ) -> None:
        for index in indices:
            transaction.load(f"model {index}", models[index], states[_numbered("model", index)], **options)

    def _load_others(self, transaction: Transaction, states: dict[str, Any]) -> list[str]:
        """Load what is no model; what makes the loaders' going on inexact, if anything does."""
        run = self.run
        for index, optimizer in enumerate(run.optimizers):
            transaction.load(f"optimizer {index}", optimizer, states[_numbered("optimizer", index)])
        for index, scheduler in enumerate(run.schedulers):
            transaction.load(f"scheduler {index}", scheduler, states[_numbered("scheduler", index)])
        if run.scaler is not None and "scaler" in states:
            transaction.load("the scaler", run.scaler, states["scaler"])
        for index, one in enumerate(run.custom):
            transaction.load(f"registered object {index}", one, states[f"custom-{index}"]["state"])
        for loader in run.loaders:
            transaction.before(undo_of_state(loader))
        problems = self._restore_loaders(states["loaders"], states["random"])
        transaction.before(run.streams.undo())
        self._restore_random(states["random"])
        return problems

    def _restore_loaders(self, states: list[Any], random: dict[str, Any]) -> list[str]:
        loaders = self.run.loaders
        generators = itertools.chain(random.get("generators", []), itertools.repeat(None))
        problems = [
            load_state(loader, state, generators=left)
            for loader, state, left in zip(loaders, states, generators, strict=False)
        ]
        if len(loaders) != len(states):
            problems.append(f"{len(loaders)} loaders are prepared, and {len(states)} were")
        return [problem for problem in problems if problem is not None]

    def _restore_random(self, state: dict[str, Any]) -> None:
        if "rng" in state:
            self.run.streams.load_state(state["rng"], state.get("own"))
        else:
            set_seed(state["seed"])


def _numbered(kind: str, index: int) -> str:
    return f"{kind}_{index}" if index else kind


class Attempts:
    """Work that may fail on some rank: then every rank raises the same error."""

    def __init__(self, collectives: Collectives, rank: int) -> None:
        self._collectives = collectives
        self._rank = rank

    def on_main(self, work: Callable[[], Any], failure: Callable[[str], AccelifyError]) -> Any:
        """The result of `work` on rank 0, on every rank; if it fails there, every rank raises the error."""
        outcome, cause = _attempt(work) if self._rank == 0 else ((None, None), None)
        value, reason = self._collectives.broadcast_object(outcome)
        if reason is not None:
            raise failure(reason) from cause
        return value

    def on_all(self, work: Callable[[], Any], failure: Callable[[str], AccelifyError]) -> list[Any]:
        """The results of `work` on all ranks; if it fails on any, every rank raises the same error."""
        outcome, cause = _attempt(work)
        outcomes = self._collectives.gather_object(outcome)
        failed = [f"rank {rank}: {reason}" for rank, (_, reason) in enumerate(outcomes) if reason is not None]
        if failed:
            raise failure("; ".join(failed)) from cause
        return [value for value, _ in outcomes]


def _attempt(work: Callable[[], Any]) -> tuple[tuple[Any, str | None], Exception | None]:
    try:
        return (work(), None), None
    except Exception as error:  # whatever it is, the other ranks wait for the outcome; all raise it
        is_clear = isinstance(error, (AccelifyError, OSError))
        words = str(error) if is_clear else f"{type(error).__name__}: {error}"
        return (None, words), error
