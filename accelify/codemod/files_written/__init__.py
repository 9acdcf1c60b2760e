"""What a script writes, and which process writes it."""
