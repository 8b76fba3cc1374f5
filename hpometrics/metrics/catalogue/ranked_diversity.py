"""Diversity of ranked lists: how different the items of one list are."""
