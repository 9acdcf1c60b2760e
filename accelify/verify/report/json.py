"""A verdict as JSON, for other programs; `schema.json` beside this file says exactly what they get."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

from accelify.verify.verdict import Verdict

VERSION = 1


def render(verdict: Verdict) -> str:
    """One document, with a newline at its end."""
    document = {
        "version": VERSION,
        "script": verdict.script,
        "verdict": verdict.word,
        "conclusion": verdict.conclusion,
        "not_reached": list(verdict.not_reached),
        "circumstances": asdict(verdict.circumstances),
        "processes": verdict.processes,
        "steps": verdict.steps,
        "ran_to_the_end": verdict.is_whole,
        "rows": [
            {
                "name": row.name,
                "processes": row.processes,
                "run": row.run.value,
                "status": row.status.value,
                "words": row.words,
                "at": row.at,
                "step": row.step,
            }
            for row in verdict.rows
        ],
        "made_comparable": list(verdict.made_comparable),
        "replaced": list(verdict.replaced),
        "notes": list(verdict.notes),
        "losses": {name: [_number(loss) for loss in losses] for name, losses in verdict.curves.items()},
        "diff": verdict.diff,
        "seconds": round(verdict.seconds, 3),
        "error": verdict.error,
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _number(loss: float) -> float | str:
    """JSON has no NaN and no infinity: they are the strings nan, inf and -inf."""
    return loss if math.isfinite(loss) else str(loss)
