"""The reports that the user reads about a run: results in, text or JSON out. Nothing here decides anything."""
