"""Trackers of what a run measures, on process 0: files, the trackers of other libraries, or the script's own."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import io
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable  # Any: values are whatever the script measures

import numpy
import torch

from accelify import atomic
from accelify.errors import AccelifyError

R = TypeVar("R")
Values = Mapping[str, Any]

KINDS = ("jsonl", "csv", "tensorboard", "wandb", "mlflow", "comet_ml", "trackio")
_BUILT_IN = ("jsonl", "csv")  # which need no library


class CannotTrack(AccelifyError):
    """A tracker that does not exist, is not installed, or has nowhere to write."""


class Trackers:
    """The trackers of a run; none on any process but 0."""

    def __init__(self, *, log_with: Any, folder: str | os.PathLike[str] | None, is_main: bool) -> None:
        asked = [] if log_with is None else [log_with] if _is_one(log_with) else list(log_with)
        for one in asked:
            _check(one)
        self.asked = asked
        self._folder = None if folder is None else Path(folder)
        self._is_main = is_main
        self.running: list[Tracker] = []

    def start(self, name: str, config: dict[str, Any] | None, options: Mapping[str, Mapping[str, Any]]) -> None:
        """Open them, and keep the settings of the run."""
        if not self._is_main:
            return
        for one in _expanded(self.asked):
            if isinstance(one, str):
                tracker = self._open(one, name, options.get(one, {}))
                if config is not None:
                    tracker.store_init_configuration(config)
            else:
                tracker = one
                if hasattr(tracker, "start"):
                    tracker.start()
                if config is not None:
                    tracker.store_init_configuration(config)
            self.running.append(tracker)

    def _open(self, kind: str, name: str, options: Mapping[str, Any]) -> Tracker:
        kinds: dict[str, Any] = {
            "jsonl": JSONLTracker,
            "csv": CSVTracker,
            "tensorboard": TensorBoardTracker,
            "wandb": WandBTracker,
            "mlflow": MLflowTracker,
            "comet_ml": CometMLTracker,
            "trackio": TrackioTracker,
        }
        if self._folder is None and kind in (*_BUILT_IN, "tensorboard"):
            raise CannotTrack(f"log_with={kind!r} writes files: give the Accelerator a project_dir")
        tracker: Tracker = kinds[kind](name, self._folder, **options)
        return tracker

    def get(self, name: str, unwrap: bool) -> Any:
        """The tracker of this name, or the library's own object; on the other processes one that does nothing.

        Raises: CannotTrack for a name that none of them has.
        """
        for tracker in self.running:
            if tracker.name == name:
                return tracker.tracker if unwrap else tracker
        if not self._is_main:
            return Silent(name)
        running = ", ".join(tracker.name for tracker in self.running) or "none: call init_trackers first"
        raise CannotTrack(f"get_tracker({name!r}): running are {running}")

    def log(self, values: Values, step: int | None, options: Mapping[str, Mapping[str, Any]]) -> None:
        """Hand the values to each of them."""
        for tracker in self.running:
            tracker.log(dict(values), step=plain_value(step), **options.get(tracker.name, {}))

    def finish(self) -> None:
        """Close them."""
        while self.running:
            self.running.pop().finish()


def _is_one(given: Any) -> bool:
    return isinstance(given, str) or not isinstance(given, Iterable) or isinstance(given, Tracker)


def _check(one: Any) -> None:
    if isinstance(one, str):
        name = str(getattr(one, "value", one))
        if name not in (*KINDS, "all"):
            raise CannotTrack(f"log_with={name!r}: choose from {', '.join(KINDS)}, all, or a tracker of your own")
    elif not all(callable(getattr(one, part, None)) for part in ("log", "store_init_configuration", "finish")):
        raise CannotTrack(f"log_with: a {type(one).__name__} has no log, store_init_configuration and finish")


def _expanded(asked: Sequence[Any]) -> list[Any]:
    """The trackers asked for, each once; "all" stands for those whose libraries are there."""
    named: list[Any] = []
    for one in asked:
        if one == "all":
            named += get_available_trackers()
        else:
            named.append(str(getattr(one, "value", one)) if isinstance(one, str) else one)
    return [one for index, one in enumerate(named) if one not in named[:index]]


def get_available_trackers() -> list[str]:
    """The names that `log_with` accepts here: jsonl, csv, and those whose libraries are installed."""
    return [kind for kind in KINDS if kind in _BUILT_IN or importlib.util.find_spec(kind) is not None]


def _library(name: str, package: str = "") -> Any:
    """A tracker's library. Raises: CannotTrack where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CannotTrack(f"log_with={name!r} needs the library: pip install {package or name}") from error


def on_main_process(function: Callable[..., R]) -> Callable[..., R]:
    """The method as it is: trackers are called on process 0 alone. For trackers written for Accelerate."""
    return function


@runtime_checkable
class Tracker(Protocol):
    """The interface of a tracker: a name, and these methods. All are called on process 0 alone."""

    name: str

    @property
    def tracker(self) -> Any:
        """The library's own object, for what this protocol does not cover."""

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Keep the settings of the run; called once."""

    def log(self, values: dict[str, Any], step: int | None = None, **options: Any) -> None:
        """Keep what was measured at a step."""

    def finish(self) -> None:
        """Write out what is not written yet."""


class GeneralTracker:
    """A base class for trackers of one's own, as Accelerate has it: `name` and `tracker` are still to be defined.

    `start` is called when `init_trackers` is, on process 0 like all other methods.
    """

    main_process_only = True
    requires_logging_directory = False

    def __init__(self, _blank: bool = False) -> None:
        """Raises: NotImplementedError for a class without `name` or `tracker`."""
        missing = [part for part in ("name", "tracker") if not hasattr(type(self), part) and part not in vars(self)]
        if missing and not _blank:
            raise NotImplementedError(f"{type(self).__name__}: a tracker needs {' and '.join(missing)}")

    def start(self) -> None:
        """Open what the tracker writes to; nothing unless a class says otherwise."""

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Keep the settings of the run; nothing unless a class says otherwise."""

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Keep what was measured at a step; nothing unless a class says otherwise."""

    def finish(self) -> None:
        """Write out what is not written yet; nothing unless a class says otherwise."""


class JSONLTracker:
    """A line of JSON per call in `<name>.jsonl`; the settings are in its first line, under `config`."""

    name = "jsonl"

    def __init__(self, run_name: str, folder: Path) -> None:
        self.path = folder / f"{run_name}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a", encoding="utf-8")

    @property
    def tracker(self) -> Any:
        """The open file."""
        return self._file

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """One line, under `config`."""
        self._write({"config": plain(values)})

    def log(self, values: dict[str, Any], step: int | None = None, **options: Any) -> None:
        """One line: the time, the step, the values."""
        self._write({"time": round(time.time(), 3), **({} if step is None else {"step": step}), **plain(values)})

    def finish(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


class CSVTracker:
    """A row per call in `<name>.csv`; a new column makes the file be written anew, with the old rows empty there."""

    name = "csv"

    def __init__(self, run_name: str, folder: Path) -> None:
        self.path = folder / f"{run_name}.csv"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._columns: list[str] = ["step"]
        if self.path.exists():
            with self.path.open(newline="", encoding="utf-8") as file:
                self._columns = next(csv.reader(file), self._columns)

    @property
    def tracker(self) -> Any:
        """The path of the file."""
        return self.path

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """The settings go into `<name>.config.json` beside it."""
        self.path.with_suffix(".config.json").write_text(json.dumps(plain(values), indent=1) + "\n", encoding="utf-8")

    def log(self, values: dict[str, Any], step: int | None = None, **options: Any) -> None:
        """One row."""
        row = {"step": "" if step is None else step, **{key: _cell(value) for key, value in plain(values).items()}}
        new = [column for column in row if column not in self._columns]
        if new or not self.path.exists():
            self._widen(new)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self._columns).writerow(row)

    def finish(self) -> None:
        """Nothing is left to write."""

    def _widen(self, new: list[str]) -> None:
        rows: list[dict[str, str]] = []
        if self.path.exists():
            with self.path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        self._columns += new
        table = io.StringIO(newline="")
        writer = csv.DictWriter(table, self._columns)
        writer.writeheader()
        writer.writerows(rows)
        atomic.write(self.path, lambda file: file.write(table.getvalue().encode()))


class TensorBoardTracker:
    """Through `torch.utils.tensorboard`: numbers as scalars, texts as text, dicts of numbers as scalars together."""

    name = "tensorboard"

    def __init__(self, run_name: str, folder: Path, /, **options: Any) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # half a second; only who asks for it
        except ImportError as error:
            raise CannotTrack("log_with='tensorboard' needs the library: pip install tensorboard") from error
        self._writer: Any = SummaryWriter(str(folder / run_name), **options)

    @property
    def tracker(self) -> Any:
        """The SummaryWriter."""
        return self._writer

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """As hyperparameters, and as text where they are none."""
        kept = {key: value if isinstance(value, (int, float, str)) else str(value) for key, value in values.items()}
        self._writer.add_hparams(kept, metric_dict={}, run_name=".")
        self._writer.flush()

    def log(self, values: dict[str, Any], step: int | None = None, **options: Any) -> None:
        """By the kind of each value."""
        for key, value in plain(values).items():
            if isinstance(value, (int, float)):
                self._writer.add_scalar(key, value, global_step=step, **options)
            elif isinstance(value, str):
                self._writer.add_text(key, value, global_step=step, **options)
            elif isinstance(value, dict):
                self._writer.add_scalars(key, value, global_step=step, **options)
        self._writer.flush()

    def finish(self) -> None:
        """Close the event file."""
        self._writer.close()


class WandBTracker:
    """Through Weights & Biases; its other options (`mode`, `entity`, ...) come from `init_kwargs`."""

    name = "wandb"

    def __init__(self, run_name: str, folder: Path | None, /, **options: Any) -> None:
        wandb = _library("wandb")
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            options.setdefault("dir", str(folder))
        self._run: Any = wandb.init(project=run_name, **options)

    @property
    def tracker(self) -> Any:
        """The run."""
        return self._run

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """As the run's config."""
        self._run.config.update(values, allow_val_change=True)

    def log(self, values: dict[str, Any], step: int | None = None, **options: Any) -> None:
        """As they are: the library knows its own kinds."""
        self._run.log(dict(values), step=step, **options)

    def finish(self) -> None:
        """End the run."""
        self._run.finish()


class MLflowTracker:
    """Through MLflow: a run of the experiment of this name; `init_kwargs` are those of `mlflow.start_run`.

    `$MLFLOW_TRACKING_URI` says where; MLflow itself reads it. An experiment that is new keeps its artifacts in the
    project's folder, if there is one. What is no number is not a metric, and is left out with a warning.
    """

    name = "mlflow"

    def __init__(self, run_name: str, folder: Path | None, /, **options: Any) -> None:
        self._mlflow = _library("mlflow")
        known = self._mlflow.get_experiment_by_name(run_name)
        if known is None:
            place = None if folder is None else str(folder)
            experiment = self._mlflow.create_experiment(run_name, artifact_location=place)
        else:
            experiment = known.experiment_id
        if "nested_run" in options:  # as Accelerate calls it
            options["nested"] = options.pop("nested_run")
        self._run: Any = self._mlflow.start_run(experiment_id=experiment, **options)
        self._left_out: set[str] = set()

    @property
    def tracker(self) -> Any:
        """The active run."""
        return self._run

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """As parameters, a hundred at a time, which is as many as MLflow takes."""
        kept = list(plain(values).items())
        for start in range(0, len(kept), 100):
            self._mlflow.log_params(dict(kept[start : start + 100]))

    def log(self, values: dict[str, Any], step: int | None = None, **options: Any) -> None:
        """Numbers, as metrics."""
        numbers = {key: value for key, value in plain(values).items() if isinstance(value, (int, float))}
        for key in set(map(str, values)) - set(numbers) - self._left_out:
            self._left_out.add(key)
            warnings.warn(f"mlflow keeps numbers only: {key!r} is left out", stacklevel=4)
        self._mlflow.log_metrics(numbers, step=step, **options)

    def finish(self) -> None:
        """End the run."""
        self._mlflow.end_run()


class CometMLTracker:
    """Through Comet: `init_kwargs` are those of `comet_ml.start`."""

    name = "comet_ml"

    def __init__(self, run_name: str, folder: Path | None, /, **options: Any) -> None:
        self._experiment: Any = _library("comet_ml").start(project_name=run_name, **options)

    @property
    def tracker(self) -> Any:
        """The experiment."""
        return self._experiment

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """As parameters."""
        self._experiment.log_parameters(plain(values))

    def log(self, values: dict[str, Any], step: int | None = None, **options: Any) -> None:
        """Numbers as metrics, dicts of numbers as several, everything else as other values."""
        if step is not None:
            self._experiment.set_step(step)
        for key, value in plain(values).items():
            if isinstance(value, (int, float)):
                self._experiment.log_metric(key, value, step=step, **options)
            elif isinstance(value, dict):
                self._experiment.log_metrics(value, step=step, **options)
            else:
                self._experiment.log_other(key, value)

    def finish(self) -> None:
        """End the experiment."""
        self._experiment.end()


class TrackioTracker:
    """Through Trackio: `init_kwargs` are those of `trackio.init`."""

    name = "trackio"

    def __init__(self, run_name: str, folder: Path | None, /, **options: Any) -> None:
        self._run: Any = _library("trackio").init(project=run_name, **options)

    @property
    def tracker(self) -> Any:
        """The run."""
        return self._run

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """As the run's config."""
        self._run.config.update(plain(values))

    def log(self, values: dict[str, Any], step: int | None = None, **options: Any) -> None:
        """The numbers, texts and lists."""
        self._run.log(plain(values), step=step, **options)

    def finish(self) -> None:
        """End the run."""
        self._run.finish()


class Silent:
    """A tracker, or its library's object, for processes that keep nothing: every method is there and does nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def tracker(self) -> Silent:
        """As silent."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments, **options: None


def plain(values: Values) -> dict[str, Any]:
    """The values as numbers, texts, lists and dicts of them; a tensor or array of one element is its number."""
    return {str(key): plain_value(value) for key, value in values.items()}


def plain_value(value: Any) -> Any:
    """The same for one value."""
    if isinstance(value, (torch.Tensor, numpy.ndarray, numpy.generic)):
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu()
        return value.item() if value.size == 1 or getattr(value, "numel", lambda: 0)() == 1 else value.tolist()
    if isinstance(value, Mapping):
        return plain(value)
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _cell(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        return json.dumps(value)
    return "nan" if isinstance(value, float) and math.isnan(value) else value
