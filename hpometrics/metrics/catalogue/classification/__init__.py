"""Classification metrics, one file per family."""
