"""Strategies: the server half and the client half of each system."""
