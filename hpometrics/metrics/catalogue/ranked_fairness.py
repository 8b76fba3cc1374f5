"""Fairness of ranked lists: whether groups of items and of users are served alike."""
