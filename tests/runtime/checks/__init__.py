"""What several processes check together: each function runs on every rank of a real gloo world."""
