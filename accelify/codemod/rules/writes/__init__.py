"""Write files, plots and logs from one process only.

    writer.add_scalar("loss", loss.item(), step)    ->    if accelerator.is_main_process:
                                                              writer.add_scalar("loss", loss.item(), step)

Why: files that N processes write at once are a mixture, figures are shown and events counted N times. Writers, open
files, images, plots and tables are guarded where that is safe: where the guarded statements do nothing that the
processes must do together, draw no random numbers, change nothing, and bind nothing that is read elsewhere. What is
made only to be written goes with it; a forward pass for it is run by all before. A process that reads such a file later
waits before it looks for the file; behind the write, where the file is read for items of a loader, or by one process
alone, too. Where a script makes a file only if it is missing, and waits for it there, or stops because it is there, all
processes have looked before one of them makes it. A file that cannot be guarded, as what is written is computed by
all, is open in the main process alone: the others write to `os.devnull`. Logs that are opened as a file is imported,
before any accelerator, are opened where the environment names process 0.
Left alone: prints, of which the launcher shows process 0's; scripts that distribute themselves, which say already what
each process writes; and what cannot be guarded, each with a note.
"""

from __future__ import annotations

from collections.abc import Iterator

from accelify.codemod.edits.values import Change, Remark
from accelify.codemod.rules.writes import left, uses
from accelify.codemod.rules.writes.guards import guards, handed_on
from accelify.codemod.rules.writes.waits import Waits
from accelify.codemod.script import Script

NAME = uses.NAME
OPTIONAL = True


def find(script: Script) -> Iterator[Change | Remark]:
    """A guard for each run of statements that write, waits where others read it, and notes on what is left."""
    if script.is_by_hand:
        return
    yield from guards(script)
    yield from handed_on(script)
    waits = Waits(script)
    yield from waits.of_items()
    yield from waits.to_read()
    yield from waits.to_load()
    yield from waits.to_list()
    yield from waits.to_import()
    yield from left.written_by_all(script)
    yield from left.of_items(script)
    yield from left.of_unknown_code(script)
    yield from left.of_unread_code(script)
    yield from left.blocking(script)
