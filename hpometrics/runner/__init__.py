"""Sweeps: one YAML file in, a directory of results out."""
