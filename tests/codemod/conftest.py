"""What `-m "not slow"` leaves out is not even imported: some of it imports torch."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return True if "\npytestmark = pytest.mark.slow" in collection_path.read_text() else None
