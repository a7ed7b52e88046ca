"""The command line: one file a verb, and the control of Flower's processes."""

from fedgame.cli.app import main

__all__ = ["main"]
