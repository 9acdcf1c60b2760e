"""The meaning of Python code: scopes, values and their flow; nothing here knows what training is."""
