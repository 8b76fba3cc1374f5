"""Searching: params in, epochs and floats out. Nothing here knows of tensors."""
