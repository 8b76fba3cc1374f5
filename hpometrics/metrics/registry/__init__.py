"""The metric registry: names, entries, groups and the index that finds them without loading torch."""
