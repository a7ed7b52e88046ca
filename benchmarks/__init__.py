"""Ratios to a named peer or floor, measured in one run."""
