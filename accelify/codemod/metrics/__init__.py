"""What is one rank's own, and how it becomes everyone's."""
