"""What is this script? Each module answers one question; `script.py` holds the answers."""
