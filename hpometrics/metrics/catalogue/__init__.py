"""The catalogue: the built-in metrics, a file per family, imported when a metric of it is first built."""
