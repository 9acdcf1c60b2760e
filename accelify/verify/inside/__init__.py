"""Code that runs in a verified script's own process: records its training, and makes random runs comparable."""
