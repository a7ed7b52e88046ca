"""Federated learning as a privacy game, on Flower."""
