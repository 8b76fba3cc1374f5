"""The worst and the best examples of an epoch: which are kept, how they are found, what is left of them."""
