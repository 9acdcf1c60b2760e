"""The values that each expression of a program may have: an abstract interpretation, by file, to a fixed point."""
