"""What every task offers: data, a model, and a loss for each example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as pydantic_dataclass
from torch import nn

COMPONENT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Examples:
    """A data set in memory.

    Attributes:
        inputs: float32, shape (examples, ...).
        targets: int64 class labels or float32 values, shape (examples,).
    """

    inputs: NDArray[np.float32]
    targets: NDArray[Any]

    def __len__(self) -> int:
        return len(self.targets)

    def subset(self, indices: NDArray[np.int64]) -> Examples:
        """Return the examples at `indices`, in that order."""
        return Examples(self.inputs[indices], self.targets[indices])


@pydantic_dataclass(frozen=True, config=COMPONENT)
class DataSource:
    """The section [task]: which task, and where its data come from.

    Attributes:
        name: The registered name of the task.
        data_dir: Folder that holds the data in torchvision's layout; empty for tasks whose data are
            generated or ship inside a package.
        download: Whether missing data may be downloaded into `data_dir`.
        verify_checksums: Whether files must match the published checksums.
        train_size: Use only the first so many training examples (after a public shuffle); 0 = all.
    """

    name: str = "digits"
    data_dir: str = ""
    download: bool = False
    verify_checksums: bool = True
    train_size: int = Field(default=0, ge=0)


class Task(Protocol):
    """Data, model and loss of one learning problem; a frozen dataclass built from its section."""

    name: ClassVar[str]
    kind: ClassVar[str]
    """"classification" or "regression"."""

    def __hash__(self) -> int: ...

    def load(self, source: DataSource, num_clients: int, seed: int) -> tuple[Examples, Examples]:
        """Return (training, public test) examples; the same arguments give the same bits.

        Raises:
            DataError: The data are missing, truncated or altered; the text says how to get them.
        """
        ...

    def module(self) -> nn.Module:
        """Return the model; its parameter values do not matter, only its structure."""
        ...

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        """Return public initial parameters, one flat vector in `module().parameters()` order."""
        ...

    def input_smoothness(self, parameters: NDArray[np.float32]) -> float | None:
        """Return G_x, a Lipschitz constant in x of the gradient in x of an example's loss.

        It holds for every x and every target, at one flat vector of parameters. None where there is
        none or it is not known, as for a network with hidden layers: examples of such a task cannot
        become particles.
        """
        ...

    def losses(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of each example, shape (examples,), from outputs (examples, k).

        Leading dimensions are allowed: outputs (clients, examples, k), targets (clients, examples).
        """
        ...

    def correct(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
        """Return whether each example is predicted right, or None for a regression."""
        ...
