"""The processes that train together: who they are, what joins them, what they send each other."""
