"""Scripts that distribute themselves by hand."""
