"""A progress bar, for a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function (done, total) that draws a bar on a terminal's stderr, where there is more than one thing to do."""
    bar: Progress | None = None

    def draw(done: int, total: int) -> None:
        nonlocal bar
        if total > 1 and sys.stderr.isatty():
            bar = bar or stack.enter_context(_bar(what))
            bar.update(bar.task_ids[0], completed=done, total=total)

    with ExitStack() as stack:
        yield draw


def _bar(what: str) -> Progress:
    from rich.console import Console  # here, as one file needs no bar
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(what)
    return bar
