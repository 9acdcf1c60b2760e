"""What is a training loop here, and what does it train?"""
