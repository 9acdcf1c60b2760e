"""Facts about other people's code, as data."""
