"""What does this Python do? Scopes, values and their flow; nothing here knows what training is."""
