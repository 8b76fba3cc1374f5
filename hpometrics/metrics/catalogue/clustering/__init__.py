"""Clustering and nominal association metrics."""
