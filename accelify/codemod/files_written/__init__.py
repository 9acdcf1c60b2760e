"""The files that a script writes, and which process writes them."""
