"""Ranking: batches of scores over items, the lists that they give, and what is shared about them."""
