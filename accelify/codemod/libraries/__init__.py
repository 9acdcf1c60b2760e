"""What we know of other people's code, as data."""
