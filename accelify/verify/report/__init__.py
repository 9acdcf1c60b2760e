"""A verdict as text, JSON and HTML."""
