"""Notebooks in a real Jupyter kernel."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

REASON = "the notebook tests need nbformat, nbclient and ipykernel"
nbformat = pytest.importorskip("nbformat", reason=REASON)
nbclient = pytest.importorskip("nbclient", reason=REASON)
traitlets = pytest.importorskip("traitlets.config", reason=REASON)
pytest.importorskip("ipykernel", reason=REASON)

PATIENCE = 240  # seconds that a cell, or the start of a kernel, may take


def execute(notebook: Any, folder: Path, client: Any = nbclient.NotebookClient, **options: Any) -> None:
    """Run all cells in that folder.

    The kernel is reached by named sockets: somebody else may open a port between its choice and the kernel's start.
    """
    with tempfile.TemporaryDirectory() as sockets:
        config = traitlets.Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}})
        resources = {"metadata": {"path": str(folder)}}
        limits = {"timeout": PATIENCE, "startup_timeout": PATIENCE}
        client(notebook, resources=resources, config=config, **limits).execute(**options)
