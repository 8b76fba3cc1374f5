"""Engine params: evaluate each of a list or a search on folds, shared stages once, and pick the optimum."""
