"""The run on this machine's GPUs: why there is none, what the ranks are told, and what it shows."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accelify.verify.gpus import count_gpus, visible
from accelify.verify.judging.devices import devices
from accelify.verify.runs import Limits, Order, Runner
from accelify.verify.scratch import CannotVerify, Project
from accelify.verify.trace import End, Run, Trace
from accelify.verify.verdict import Status
from tests.verify.test_judge import evidence, traced


def asked(monkeypatch: pytest.MonkeyPatch, *answer: object, status: int = 0) -> None:
    answered = SimpleNamespace(returncode=status, stdout=json.dumps(answer), stderr="no torch")
    monkeypatch.setattr(subprocess, "run", lambda *given, **options: answered)


def test_why_there_is_no_gpu_is_said_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    other = "leave it out: pretend GPUs find mistakes of devices on any machine"
    asked(monkeypatch, "2.13.0+cpu", None, 0)
    with pytest.raises(CannotVerify, match=rf"^--device cuda: torch 2.13.0\+cpu is built without CUDA; {other}$"):
        count_gpus()
    asked(monkeypatch, "2.13.0", "13.0", 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(CannotVerify, match="sees no GPU on this machine, with CUDA_VISIBLE_DEVICES=''; leave it out"):
        count_gpus()
    asked(monkeypatch, status=1)
    with pytest.raises(CannotVerify, match="no torch"):
        count_gpus()


def test_ranks_see_the_gpus_and_each_takes_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked(monkeypatch, "2.13.0", "13.0", 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert (count_gpus(), visible(4)) == (4, "0,1,2,3")
    server: Any = None
    runner = Runner(server, tmp_path, lambda words: None)
    order = Order("on GPUs", Project(tmp_path, Path(), Path("train.py")), processes=2)

    def told(device: str) -> dict[str, str]:
        found: dict[str, str] = runner._told(replace(order, device=device), Limits(), tmp_path, 1, 1234)["variables"]
        return found

    assert [told(device).get("CUDA_VISIBLE_DEVICES") for device in ("cpu", "pretend", "cuda")] == [None, None, "0,1"]
    assert [told(device).get("ACCELIFY_CPU") for device in ("pretend", "cuda")] == ["0", "0"]
    assert told("cuda")["LOCAL_RANK"] == "1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert told("cuda")["CUDA_VISIBLE_DEVICES"] == "3,5"


def test_an_error_on_a_gpu_counts_where_the_original_has_none() -> None:
    good, mixed = traced(), Trace(end=End("error", 1, "RuntimeError: two devices, cuda:0 and cpu", "a.py:5"))
    on_gpus = replace(evidence(good, good), are_real=True, on_gpus=Run("on GPUs", (traced(taken=7),)))
    assert (devices(on_gpus).status, devices(on_gpus).words) == (Status.HOLDS, "7 steps on each GPU without an error")
    fails = replace(on_gpus, on_gpus=Run("on GPUs", (mixed,)), original_on_gpu=Run("original", (good,)))
    row = devices(fails)
    assert (row.status, row.words, row.at) == (Status.DIFFERS, mixed.end.message, "a.py:5")
    both = devices(replace(fails, original_on_gpu=Run("original", (mixed,))))
    assert both.status is Status.NATURE
    assert both.words.startswith("the original fails on a GPU, too; ")
