"""Where interpreters that tests start find accelify, and what makes them start and end sooner."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
FAST_START = ROOT / "tests" / "fast_start"
PYTHONPATH = os.pathsep.join(map(str, (ROOT, FAST_START)))
