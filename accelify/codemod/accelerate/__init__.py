"""How a program uses Hugging Face Accelerate."""
