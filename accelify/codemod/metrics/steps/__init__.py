"""What is counted in steps, of which an epoch has fewer the more processes there are."""
