"""Composites of ranking metrics: several in one number, for each user."""
