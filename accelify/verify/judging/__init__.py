"""From what the runs did to the rows of a verdict: pure functions, one for each row."""
