"""Measuring: model outputs in, exact values out. Nothing here knows of trials."""
