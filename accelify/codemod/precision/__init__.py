"""Mixed precision that a script arranges by hand."""
