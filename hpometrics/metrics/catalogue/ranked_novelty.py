"""Novelty of ranked lists: how little known the items are."""
