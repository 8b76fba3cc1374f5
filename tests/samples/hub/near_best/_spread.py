"""A number that another file of the package imports."""

SPREAD = 0.1
