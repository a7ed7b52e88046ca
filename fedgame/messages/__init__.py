"""Flower records <-> validated payloads: the only place that reads what a peer sent.

Replies are untrusted: dtype, shape, finiteness, size and membership are checked before a value is
used, dtype and shape before the bytes are even read.
"""
