"""Ranking metrics, a file per family."""
