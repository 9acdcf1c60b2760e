"""Which rows of a batch count, so that each row of the data counts once."""
