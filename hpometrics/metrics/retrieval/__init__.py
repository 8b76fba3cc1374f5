"""The engine of ranking metrics: batches of scores over items, ranked lists, and side data."""
