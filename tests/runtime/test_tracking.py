"""What a run measures comes to whoever was asked to keep it, through the real libraries, from process 0 alone."""

import csv
import json
import os
import sys
import types
from pathlib import Path

import numpy
import pytest
import torch

from accelify.runtime import Accelerator, Environment
from accelify.runtime.choices import LoggerType
from accelify.runtime.tracking import CannotTrack, GeneralTracker, on_main_process

VALUES = [
    {"loss": torch.tensor(0.5), "accuracy": numpy.float32(0.25), "note": "first"},
    {"loss": 0.25, "sizes": {"a": 1, "b": 2.0}},
    {"loss": float("nan"), "new": 3},
]


def tracked(log_with, folder, **options):
    accelerator = Accelerator(cpu=True, environment=Environment(), log_with=log_with, project_dir=folder)
    accelerator.init_trackers("run", config={"lr": 0.1, "layers": [1, 2]}, **options)
    for step, values in enumerate(VALUES):
        accelerator.log(values, step=step)
    return accelerator


def test_jsonl(tmp_path):
    tracked("jsonl", tmp_path).end_training()
    config, first, second, third = map(json.loads, (tmp_path / "run.jsonl").read_text().splitlines())
    assert config == {"config": {"lr": 0.1, "layers": [1, 2]}}
    assert {**first, "time": 0} == {"time": 0, "step": 0, "loss": 0.5, "accuracy": 0.25, "note": "first"}
    assert second["sizes"] == {"a": 1, "b": 2.0}
    assert third["loss"] != third["loss"]
    tracked("jsonl", tmp_path)
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 8


def test_names_with_a_slash_and_steps_that_are_tensors(tmp_path):
    accelerator = Accelerator(cpu=True, environment=Environment(), log_with=["jsonl", "csv"], project_dir=tmp_path)
    accelerator.init_trackers("team/run")
    accelerator.log({"loss": 1}, step=torch.tensor(3))
    accelerator.end_training()
    assert json.loads((tmp_path / "team" / "run.jsonl").read_text().splitlines()[-1])["step"] == 3
    assert (tmp_path / "team" / "run.csv").read_text().split() == ["step,loss", "3,1"]


def test_csv_grows_columns_and_goes_on_after_a_restart(tmp_path):
    for _ in range(2):
        tracked(["csv"], tmp_path).end_training()
    with (tmp_path / "run.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["0", "1", "2"] * 2
    assert [row["loss"] for row in rows[:3]] == ["0.5", "0.25", "nan"]
    assert [row["new"] for row in rows[:3]] == ["", "", "3"]
    assert json.loads(rows[1]["sizes"]) == {"a": 1, "b": 2.0}
    assert json.loads((tmp_path / "run.config.json").read_text()) == {"lr": 0.1, "layers": [1, 2]}


def test_tensorboard(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    accelerator = tracked("tensorboard", tmp_path)
    assert type(accelerator.get_tracker("tensorboard", unwrap=True)).__name__ == "SummaryWriter"
    accelerator.end_training()
    read = events.EventAccumulator(str(tmp_path / "run"))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("loss")][:2] == [(0, 0.5), (1, 0.25)]
    assert [event.value for event in read.Scalars("new")] == [3.0]
    assert "note/text_summary" in read.Tags()["tensors"]
    hparams = read.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    assert b"lr" in hparams
    assert b"[1, 2]" in hparams
    together_at = events.EventAccumulator(str(tmp_path / "run" / "sizes_b"))
    together_at.Reload()
    assert [event.value for event in together_at.Scalars("sizes")] == [2.0]


def test_wandb_offline(tmp_path):
    wandb = pytest.importorskip("wandb")
    # Units: seconds that its own process gets to start.
    options = {"mode": "offline", "settings": {"silent": True, "x_service_wait": 240}}
    accelerator = tracked("wandb", tmp_path, init_kwargs={"wandb": options})
    run = accelerator.get_tracker("wandb", unwrap=True)
    assert run.config["lr"] == 0.1
    assert run.step == 2
    accelerator.end_training()
    # Its own process writes the file, and is through with it at the latest when it ends.
    wandb.teardown()
    (file,) = Path(tmp_path, "wandb").glob("offline-run-*/run-*.wandb")
    assert b"accuracy" in file.read_bytes()


def stand_in(monkeypatch, name, functions, returned):
    """A module of this name whose functions, and the methods of what some return, note their calls."""
    calls = []

    def noting(function):
        return lambda *given, **options: calls.append((function, given, options)) or returned.get(function)

    module = types.ModuleType(name)
    vars(module).update({function: noting(function) for function in functions})
    monkeypatch.setitem(sys.modules, name, module)
    return noting, calls


def test_mlflow(tmp_path, monkeypatch):
    functions = "get_experiment_by_name create_experiment start_run log_params log_metrics end_run".split()
    _, calls = stand_in(monkeypatch, "mlflow", functions, {"create_experiment": "7", "start_run": "the run"})
    with pytest.warns(UserWarning, match="'note' is left out"):
        accelerator = tracked("mlflow", tmp_path, init_kwargs={"mlflow": {"run_name": "first", "nested_run": True}})
    assert accelerator.get_tracker("mlflow", unwrap=True) == "the run"
    accelerator.end_training()
    assert calls[1:4] == [
        ("create_experiment", ("run",), {"artifact_location": str(tmp_path)}),
        ("start_run", (), {"experiment_id": "7", "run_name": "first", "nested": True}),
        ("log_params", ({"lr": 0.1, "layers": [1, 2]},), {}),
    ]
    assert calls[4] == ("log_metrics", ({"loss": 0.5, "accuracy": 0.25},), {"step": 0})
    assert calls[-1] == ("end_run", (), {})


def test_comet(tmp_path, monkeypatch):
    run = types.SimpleNamespace()
    noting, calls = stand_in(monkeypatch, "comet_ml", ["start"], {"start": run})
    for method in "log_parameters set_step log_metric log_metrics log_other end".split():
        setattr(run, method, noting(method))
    tracked(LoggerType.COMETML, tmp_path).end_training()
    assert calls[0] == ("start", (), {"project_name": "run"})
    assert ("log_metric", ("loss", 0.5), {"step": 0}) in calls
    assert ("log_other", ("note", "first"), {}) in calls
    assert ("log_metrics", ({"a": 1, "b": 2.0},), {"step": 1}) in calls
    assert calls[-1] == ("end", (), {})


def test_trackio(tmp_path, monkeypatch):
    run = types.SimpleNamespace(config={})
    noting, calls = stand_in(monkeypatch, "trackio", ["init"], {"init": run})
    run.log, run.finish = noting("log"), noting("finish")
    tracked("trackio", tmp_path).end_training()
    assert calls[0] == ("init", (), {"project": "run"})
    assert run.config == {"lr": 0.1, "layers": [1, 2]}
    assert calls[1] == ("log", ({"loss": 0.5, "accuracy": 0.25, "note": "first"},), {"step": 0})
    assert calls[-1] == ("finish", (), {})


@pytest.mark.parametrize("name", ["mlflow", "comet_ml", "trackio", "wandb"])
def test_a_library_that_is_not_installed_is_named(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(CannotTrack, match=f"pip install {name}"):
        Accelerator(cpu=True, environment=Environment(), log_with=name).init_trackers("run")


class Printed(GeneralTracker):
    """A tracker as Accelerate's guide has it."""

    name = "printed"
    requires_logging_directory = False

    @on_main_process
    def __init__(self):
        self.lines = []
        super().__init__()

    @property
    def tracker(self):
        return self.lines

    @on_main_process
    def log(self, values, step=None):
        self.lines.append((step, values))


def test_one_written_for_accelerate(tmp_path):
    assert tracked(Printed(), tmp_path).get_tracker("printed", unwrap=True)[0][0] == 0
    with pytest.raises(NotImplementedError, match="needs name and tracker"):
        GeneralTracker()


class Own:
    name = "own"
    tracker = None

    def __init__(self):
        self.calls = []

    def store_init_configuration(self, values):
        self.calls.append(("config", values))

    def log(self, values, step=None, **options):
        self.calls.append((step, values, options))

    def finish(self):
        self.calls.append("end")


def test_one_of_the_users_own_and_several_at_once(tmp_path):
    own = Own()
    accelerator = Accelerator(cpu=True, environment=Environment(), log_with=[own, "jsonl"], project_dir=tmp_path)
    accelerator.init_trackers("run", config={"a": 1})
    accelerator.log({"loss": 1.0}, step=4, log_kwargs={"own": {"extra": True}})
    assert accelerator.get_tracker("own") is own
    accelerator.end_training()
    assert own.calls == [("config", {"a": 1}), (4, {"loss": 1.0}, {"extra": True}), "end"]
    assert os.listdir(tmp_path) == ["run.jsonl"]  # noqa: PTH208


def test_what_cannot_track_says_why(tmp_path):
    with pytest.raises(CannotTrack, match=r"choose from jsonl, csv, tensorboard, wandb"):
        Accelerator(cpu=True, environment=Environment(), log_with="tensorbord")
    with pytest.raises(CannotTrack, match="a int has no log"):
        Accelerator(cpu=True, environment=Environment(), log_with=3)
    with pytest.raises(CannotTrack, match="project_dir"):
        Accelerator(cpu=True, environment=Environment(), log_with="csv").init_trackers("run")
    with pytest.raises(CannotTrack, match="call init_trackers first"):
        Accelerator(cpu=True, environment=Environment(), log_with="csv").get_tracker("csv")
    Accelerator(cpu=True, environment=Environment()).log({"loss": 1.0})
