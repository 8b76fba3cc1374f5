"""Engine params: evaluate each of a list or a search on folds, once per shared prefix, and pick the optimum."""
