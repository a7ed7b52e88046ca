"""Audits: attacks that bound from below what a run leaked."""
