"""Text and sequence metrics, one file per family."""
