"""Whose gradients does a backward pass compute, and are they read?"""
