"""The value of a metric row by row, of which intervals and paired comparisons are made."""
