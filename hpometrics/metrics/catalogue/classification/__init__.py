"""Classification metrics, a file per family."""
