"""Bytes, text and trees: files are read, decoded, parsed, and replaced; a project is the files that belong together."""
