"""Clipped gradient sums of many clients at once, for a model that is one linear layer.

With residuals r_i (the gradient of example i's loss in the outputs) the per-example gradient is
r_i [a_i, 1]^T, so norms and clipped sums are batched matrix products. A client's examples fill
tiles of ROWS rows, its last tile up with zeros, and tiles are computed in blocks of a fixed number.

A client's bits do not depend on who else is in the cohort nor on its place: what tiles it has
follows from its own batch alone, every block has one shape, each tile starts on a 64-byte boundary
(a matrix product may depend on shape and alignment), and tiles are added up in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgame.mechanisms.bookkeeping import LARGEST_SQUARE, UNCLIPPED, LossFunction
from fedgame.mechanisms.layer_gradients import squared_rows

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

ROWS = 32
"""Examples in a tile."""

LANES = 16
"""float32 numbers in 64 bytes: columns are padded to a multiple of it."""

BLOCK_ENTRIES = 2**18
"""Input entries in a block of tiles: they stay in a core's cache."""

BLOCK_TILES = (2, 256)
"""Fewest and most tiles in a block; a batch of one would take another code path in torch."""


@dataclass(frozen=True)
class CohortSums:
    """A sum over examples for each client.

    Attributes:
        value: The sums, shape (clients, parameters).
        non_finite: How many of each client's examples had a gradient that is not finite and
            contribute zero, shape (clients,).
    """

    value: FloatArray
    non_finite: IntArray


@dataclass(frozen=True)
class _Tiles:
    """Which stored row is in which place of which tile.

    Attributes:
        rows: Shape (tiles, ROWS); tiles is a multiple of the block.
        owners: The client of each tile in use, ascending.
        counts: How many tiles each client has.
        sizes: How many examples each client has in them.
    """

    rows: IntArray
    owners: IntArray
    counts: IntArray
    sizes: IntArray


class LinearCohort:
    """The data of a cohort of clients, ready for batched passes of one linear layer."""

    def __init__(
        self,
        clients: Sequence[tuple[NDArray[np.float32], NDArray[Any]]],
        losses: LossFunction,
        *,
        out_features: int,
        bias: bool,
    ) -> None:
        """Copy the data into one padded array.

        Args:
            clients: Inputs (n_k, d) and targets (n_k,) of each client; any n_k may be 0.
            losses: Per-example losses from outputs (..., n, k) and targets (..., n).
            out_features: k, the number of outputs.
            bias: Whether the layer has a bias.
        """
        self._losses = losses
        self._outputs, self._bias = out_features, bias
        self._inputs: int = clients[0][0].shape[1]
        self._counts = np.array([len(targets) for _, targets in clients])
        self._owners = np.repeat(np.arange(len(self._counts)), self._counts)
        columns = -(-(self._inputs + bias) // LANES) * LANES
        fitting: int = max(BLOCK_ENTRIES // (ROWS * columns), 1)
        self._block = min(max(2 ** (fitting.bit_length() - 1), BLOCK_TILES[0]), BLOCK_TILES[1])
        # Row 0 is zero and fills the places that nobody uses.
        self._rows = torch.zeros(len(self._owners) + 1, columns)
        stored = self._rows.numpy()[1:]
        np.concatenate([inputs for inputs, _ in clients], out=stored[:, : self._inputs])
        if bias:
            stored[:, self._inputs] = 1.0
        self._squares = squared_rows(self._rows)
        labels = np.concatenate([targets for _, targets in clients])
        kind = np.int64 if labels.dtype.kind in "iub" else np.float32
        self._targets = torch.from_numpy(np.concatenate([[0], labels]).astype(kind))

    @property
    def num_parameters(self) -> int:
        """The number of entries of a client's flat parameter vector: weight, then bias."""
        return self._outputs * (self._inputs + self._bias)

    def clipped_sums(
        self,
        parameters: NDArray[np.float32],
        batches: Sequence[NDArray[np.bool_]],
        clipping_norm: float,
    ) -> CohortSums:
        """Return each client's sum_i min(1, C / |grad_i|) grad_i over its batch.

        Args:
            parameters: Each client's weight (k, d) and bias (k,), flat, shape (clients, P).
            batches: Which examples of each client are in its batch, shape (n_k,) each; an empty
                batch gives zeros.
            clipping_norm: C > 0; infinity clips nothing.

        Raises:
            ValueError: The clipping norm is not positive, or an argument has the wrong shape.
        """
        if not clipping_norm > 0:
            raise ValueError(f"clipping_norm = {clipping_norm}: must be > 0")
        tiles = self._fill(batches)
        layers = self._layers(parameters[:, None])
        sums = np.zeros((len(tiles.rows), *layers.shape[1:]))
        dropped = np.zeros(len(tiles.rows), dtype=np.int64)
        for start in range(0, len(tiles.rows), self._block):
            block = slice(start, start + self._block)
            sums[block], dropped[block] = self._block_sums(
                self._of_owners(layers, tiles.owners[block]),
                tiles.rows[block],
                min(clipping_norm, UNCLIPPED),
            )
        non_finite = np.bincount(tiles.owners, dropped[: len(tiles.owners)], len(self._counts))
        return CohortSums(self._add_up(sums, tiles.counts), non_finite.astype(np.int64))

    def losses(
        self,
        parameters: NDArray[np.float32],
        batches: Sequence[NDArray[np.bool_]] | None = None,
    ) -> list[FloatArray]:
        """Return each client's loss on each example of its batch.

        Args:
            parameters: One vector a client, shape (clients, P), or several, (clients, g, P).
            batches: Which examples of each client are in its batch, shape (n_k,) each; all of them
                if not given.

        Returns:
            For each client shape (batch,), or (g, batch) for several parameter vectors.

        Raises:
            ValueError: An argument has the wrong shape.
        """
        several = parameters.reshape(len(self._counts), -1, self.num_parameters)
        if batches is None:
            batches = [np.ones(count, dtype=np.bool_) for count in self._counts]
        tiles = self._fill(batches)
        layers = self._layers(several)
        losses = np.zeros((len(tiles.rows), several.shape[1], ROWS))
        for start in range(0, len(tiles.rows), self._block):
            block = slice(start, start + self._block)
            losses[block] = self._block_losses(
                self._of_owners(layers, tiles.owners[block]), tiles.rows[block]
            )
        bounds = np.concatenate([[0], np.cumsum(tiles.counts)])
        shape, vectors = parameters.shape[1:-1], several.shape[1]
        by_vector = losses.transpose(1, 0, 2)
        return [
            by_vector[:, a:b].reshape(vectors, (b - a) * ROWS)[:, :n].reshape(*shape, n)
            for a, b, n in zip(bounds, bounds[1:], tiles.sizes, strict=False)
        ]

    def _add_up(self, sums: FloatArray, counts: IntArray) -> FloatArray:
        """Add the tiles (tiles, k, columns) of each client; return flat sums (clients, P)."""
        value = np.zeros((len(counts), *sums.shape[1:]))
        if counts.any():
            starts = np.cumsum(counts) - counts
            value[counts > 0] = np.add.reduceat(sums[: counts.sum()], starts[counts > 0])
        weights = value[:, :, : self._inputs].reshape(len(value), -1)
        biases = value[:, :, self._inputs : self._inputs + self._bias].reshape(len(value), -1)
        return np.concatenate([weights, biases], axis=1)

    def _fill(self, batches: Sequence[NDArray[np.bool_]]) -> _Tiles:
        """Put the examples of each client's batch into tiles of its own, in their order."""
        if [len(batch) for batch in batches] != self._counts.tolist():
            raise ValueError("batches must have one entry for each example of each client")
        chosen = np.concatenate(batches)
        owners = self._owners[chosen]
        sizes = np.bincount(owners, minlength=len(self._counts))
        tiles = -(-sizes // ROWS)
        skipped = (np.cumsum(tiles) - tiles) * ROWS - (np.cumsum(sizes) - sizes)
        total = -(-int(tiles.sum()) // self._block) * self._block
        rows = np.zeros(total * ROWS, dtype=np.int64)
        rows[np.arange(len(owners)) + skipped[owners]] = np.flatnonzero(chosen) + 1
        in_use = np.repeat(np.arange(len(tiles)), tiles)
        return _Tiles(rows.reshape(total, ROWS), in_use, tiles, sizes)

    def _layers(self, parameters: NDArray[np.float32]) -> Tensor:
        """Return [weight, bias] of each client's g vectors, (clients + 1, g k, columns), padded.

        The last one is zero and belongs to the tiles that nobody uses.
        """
        clients, vectors, _ = parameters.shape
        shape = (clients + 1, vectors, self._outputs, self._rows.shape[1])
        layers = torch.zeros(shape)
        own = layers.numpy()[:clients]
        weights, biases = np.split(parameters, [self._outputs * self._inputs], axis=2)
        own[..., : self._inputs] = weights.reshape(clients, vectors, self._outputs, -1)
        if self._bias:
            own[..., self._inputs] = biases
        return layers.flatten(1, 2)

    def _of_owners(self, layers: Tensor, owners: IntArray) -> Tensor:
        """Return the layers of a block's tiles, (block, g k, columns)."""
        index = np.full(self._block, len(layers) - 1)
        index[: len(owners)] = owners
        return layers.index_select(0, torch.from_numpy(index))

    def _gather(self, rows: IntArray) -> tuple[Tensor, Tensor]:
        """Return inputs (block, ROWS, columns) and targets (block, ROWS)."""
        index = torch.from_numpy(rows.ravel())
        inputs = self._rows.index_select(0, index).view(*rows.shape, -1)
        return inputs, self._targets.index_select(0, index).view(rows.shape)

    def _block_sums(
        self, layers: Tensor, rows: IntArray, limit: float
    ) -> tuple[NDArray[np.float32], IntArray]:
        """Return each tile's clipped sum (block, k, columns) and its non-finite examples."""
        inputs, targets = self._gather(rows)
        outputs = torch.bmm(layers, inputs.transpose(1, 2)).transpose(1, 2).contiguous()
        losses = self._losses(outputs.requires_grad_(), targets)
        (residuals,) = torch.autograd.grad(losses, outputs, torch.ones_like(losses))
        squares = np.square(residuals.numpy(), dtype=np.float64).sum(2) * self._squares[rows]
        bad = ~(squares <= LARGEST_SQUARE)
        if bad.any():
            # Zero weights would not do: zero times infinity is not a number.
            mask = torch.from_numpy(bad)
            residuals[mask], inputs[mask], squares[bad] = 0.0, 0.0, 0.0
        factors = (limit / np.maximum(np.sqrt(squares), limit)).astype(np.float32)
        weighted = residuals * torch.from_numpy(factors)[:, :, None]
        sums: NDArray[np.float32] = torch.bmm(weighted.transpose(1, 2), inputs).numpy()
        return sums, (bad & (rows > 0)).sum(1)

    def _block_losses(self, layers: Tensor, rows: IntArray) -> NDArray[np.float32]:
        """Return each tile's losses, (block, g, ROWS)."""
        inputs, targets = self._gather(rows)
        vectors = layers.shape[1] // self._outputs
        with torch.no_grad():
            outputs = torch.bmm(layers, inputs.transpose(1, 2))
            outputs = outputs.view(-1, vectors, self._outputs, ROWS).transpose(2, 3)
            expanded = targets[:, None].expand(-1, vectors, -1)
            losses = self._losses(outputs.contiguous(), expanded.contiguous())
        values: NDArray[np.float32] = losses.numpy()
        return values
