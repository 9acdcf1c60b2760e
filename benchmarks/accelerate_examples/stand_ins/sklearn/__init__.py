"""What the examples use of scikit-learn."""
