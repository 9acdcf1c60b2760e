"""The rows of the table, as text: a module for each part of the world that training scripts use."""
