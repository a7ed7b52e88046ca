"""The privacy game of federated learning: utilities, action updates, preferences."""
