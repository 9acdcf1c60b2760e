"""Values of one rank's own, and how they are reduced over all ranks."""
