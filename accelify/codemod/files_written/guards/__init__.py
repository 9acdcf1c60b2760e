"""What one process alone is to run: the statements that write, with what only they need."""
