"""From settings to running processes, and what is reported of their end."""
