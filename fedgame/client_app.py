"""Flower's ClientApp: a message comes in, the strategy's client half answers."""

from __future__ import annotations

from fedgame import config
from fedgame.strategies.handlers import make_client_app

app = make_client_app(config.load)
