"""Edits as values, and their application: what is to change at which node, and the text that comes out."""
