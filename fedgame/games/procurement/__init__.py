"""Buying privacy: mechanisms that select clients, set their budgets and pay them (JSAM paper)."""
