"""What the examples use of torchvision."""
