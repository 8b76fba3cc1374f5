"""Debiased ranking metrics: hits weigh more where relevance is rarely observed."""
