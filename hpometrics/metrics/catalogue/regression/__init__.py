"""Regression and forecasting metrics, a file per family."""
