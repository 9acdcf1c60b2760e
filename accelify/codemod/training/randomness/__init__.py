"""Random draws, which may give each process other numbers."""
