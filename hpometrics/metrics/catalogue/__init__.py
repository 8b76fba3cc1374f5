"""The built-in metrics, one file per family, imported when a metric of the family is first built."""
