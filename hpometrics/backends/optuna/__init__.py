"""The Optuna backend."""
