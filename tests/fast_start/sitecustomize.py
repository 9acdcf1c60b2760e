"""Imported first by each interpreter that a test starts: `tests.interpreters.PYTHONPATH` names this folder.

The objects that `import torch` makes stay until the end. The collector goes through them again and again, and again
while the interpreter ends: that is 1.8 of the 4.5 seconds of CPU time that a process with an optimizer takes.
"""

import atexit
import gc

gc.set_threshold(100_000, 50, 100)
atexit.register(gc.freeze)  # registered first, so the last to be called
