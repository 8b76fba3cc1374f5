"""Comparisons of models, of sweeps, and of two trials user by user."""
