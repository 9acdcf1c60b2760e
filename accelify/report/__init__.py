"""What the user is told about a run: results in, text or JSON out. Nothing here decides anything."""
