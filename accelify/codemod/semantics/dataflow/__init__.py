"""What every expression of a program may hold: an abstract interpretation, file by file, to a fixed point."""
