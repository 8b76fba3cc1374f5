"""Two pruners in the form of OptunaHub."""

from optuna.pruners import MedianPruner, NopPruner

__all__ = ["MedianPruner", "NopPruner"]
