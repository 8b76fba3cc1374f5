"""The backends that run trials: Optuna, Ray Tune and a list of params."""
