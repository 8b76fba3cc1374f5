"""Errors against ratings: scores taken for predicted ratings."""
