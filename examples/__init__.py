"""Runnable examples; the engines of `configs/` live here too."""
