"""Accountants: pure functions of the ledger's events."""

from __future__ import annotations

from fedgame.accountants.base import Accountant
from fedgame.registry import Registry

ACCOUNTANTS: Registry[Accountant] = Registry(
    "accountant",
    {
        "rdp": "fedgame.accountants.rdp:RdpAccountant",
        "pld": "fedgame.accountants.pld:PldAccountant",
        "order2": "fedgame.accountants.order2:Order2Accountant",
        "contraction": "fedgame.accountants.contraction:ContractionAccountant",
        "flow": "fedgame.accountants.flow_accountant:FlowAccountant",
        "lsi": "fedgame.accountants.lsi:LsiAccountant",
    },
)
