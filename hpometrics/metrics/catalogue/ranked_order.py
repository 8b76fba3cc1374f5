"""Order of ranked lists: where the relevant items stand."""
