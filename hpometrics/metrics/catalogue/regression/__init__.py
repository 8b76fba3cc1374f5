"""Regression and forecasting metrics, one file per family."""
