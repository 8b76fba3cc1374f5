"""Read a run directory: the best trial, tables, comparisons, reports."""
