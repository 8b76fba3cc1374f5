"""Popularity in ranked lists: how far the popular items push the others out."""
