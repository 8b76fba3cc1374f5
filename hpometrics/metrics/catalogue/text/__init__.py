"""Text and sequence metrics, a file per family."""
