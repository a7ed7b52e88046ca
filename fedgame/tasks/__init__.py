"""Tasks: data, model and loss of the learning problems."""

from __future__ import annotations

from fedgame.registry import Registry
from fedgame.tasks.base import Task

TASKS: Registry[Task] = Registry(
    "task",
    {
        "quadratic": "fedgame.tasks.quadratic:Quadratic",
        "logistic": "fedgame.tasks.logistic:Logistic",
        "digits": "fedgame.tasks.digits:Digits",
        "mnist": "fedgame.tasks.mnist:Mnist",
        "mnist-cnn": "fedgame.tasks.mnist_cnn:MnistCnn",
        "cifar10": "fedgame.tasks.cifar10:Cifar10",
    },
)
