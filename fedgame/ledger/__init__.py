"""The record of every release: events, their store, and offline replay."""
