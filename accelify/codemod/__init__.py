"""The codemod: bytes in, bytes out; neither torch nor click is imported here. Start reading at `rewrite.py`."""
