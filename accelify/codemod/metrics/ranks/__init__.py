"""Which values are one rank's own, and why."""
