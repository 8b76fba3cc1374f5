"""The report of a sweep: one page, or one text, made from the record alone."""
