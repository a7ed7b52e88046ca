"""The client half of the privacy grid: choose a strength, take noisy local steps, for a cohort.

Everything here runs where the data are. What leaves is a strength, chosen by a charged mechanism
or from public information, and a state privatised by the mechanism.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedgame.games.privacy.mean_field import MeanField
from fedgame.games.privacy.utilities import disutility
from fedgame.ledger.events import SampledGaussian
from fedgame.mechanisms.exponential import epsilon_before_amplification, exponential_choices
from fedgame.messages.privacy_game import RoundOrder
from fedgame.randomness import generators
from fedgame.strategies.bridge import client_context
from fedgame.strategies.burn_in import burns_in, burnt_in, data_digest
from fedgame.strategies.data import FederatedData
from fedgame.strategies.disutilities import Probe, loss_terms, privacy_terms
from fedgame.strategies.local_model import LocalModel, local_model
from fedgame.strategies.settings import Experiment
from fedgame.tasks.base import Examples

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class LocalUpdate:
    """What a cohort's local training gives.

    Attributes:
        updates: w_k - w of each client, privatised, shape (clients, parameters).
        events: One event a client, for all its local steps together; none in the data reading,
            whose burn-in has been charged.
    """

    updates: FloatArray
    events: tuple[SampledGaussian, ...]


class Cohort:
    """Some clients of one node, their data and their secret."""

    def __init__(
        self, experiment: Experiment, data: FederatedData, clients: Sequence[int], secret: bytes
    ) -> None:
        """Look up the clients' numbers of examples and preferences, and burn in where asked to.

        Args:
            experiment: The experiment.
            data: The federation's data.
            clients: Numbers of the clients; one can stand more than once.
            secret: Key of all private draws.
        """
        self.clients = tuple(clients)
        self.counts: IntArray = data.counts[list(clients)]
        self._data = data
        self.particles: tuple[Examples, ...] = ()
        self.burnt: tuple[bytes, ...] = ()
        if burns_in(experiment):
            raw = [(client, data.client(client)) for client in clients]
            self.particles = tuple(burnt_in(experiment, k, own, secret) for k, own in raw)
            self.burnt = tuple(data_digest(own, secret) for _, own in raw)
        self._experiment = experiment
        self._secret = secret
        betas = experiment.population.betas(experiment.run.num_clients)
        self._betas: FloatArray = betas[list(clients)]
        self._privacy_terms: dict[tuple[int, bytes], FloatArray] = {}

    @cached_property
    def _model(self) -> LocalModel:
        return local_model(self._experiment.task, self._examples())

    def _examples(self) -> Iterator[Examples]:
        """Yield what each client trains on; most models keep a copy of their own."""
        if self.particles:
            return iter(self.particles)
        return (self._data.client(client) for client in self.clients)

    def _draws(
        self, round_: int, purpose: str, steps: IntArray | None = None
    ) -> Iterator[np.random.Generator]:
        """Yield each client's own generator in turn, good until the next one is asked for."""
        own = np.zeros_like(self.counts) if steps is None else steps
        return generators(self._secret, self.clients, round_, purpose, own.tolist())

    def _batches(
        self, round_: int, purpose: str, rate: float, steps: IntArray | None = None
    ) -> list[BoolArray]:
        """Draw one Poisson batch a client; at rate 1 every example is in it, without a draw."""
        chosen = np.ones(int(self.counts.sum()), dtype=np.bool_)
        ends = np.cumsum(self.counts).tolist()
        parts = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        if rate < 1:
            uniform = np.empty(len(chosen))
            for part, rng in zip(parts, self._draws(round_, purpose, steps), strict=True):
                rng.random(out=uniform[part])
            np.less(uniform, rate, out=chosen)
        return [chosen[part] for part in parts]

    def _normals(
        self, round_: int, purpose: str, size: int, steps: IntArray | None = None
    ) -> FloatArray:
        normals = np.empty((len(self.clients), size))
        for row, rng in zip(normals, self._draws(round_, purpose, steps), strict=True):
            rng.standard_normal(out=row)
        return normals

    def choose(self, order: RoundOrder) -> FloatArray:
        """Return the strength that each client chooses from the order's grid, shape (clients,)."""
        game = self._experiment.game
        if not isinstance(game, MeanField):
            raise TypeError("there is no grid to choose from")
        if game.selection == "public":
            terms = np.broadcast_to(order.public_loss, (len(self.clients), len(order.grid)))
        else:
            terms = loss_terms(
                self._experiment,
                game,
                order.parameters,
                order.mean_strength,
                order.grid,
                self._probe(order.round, game, len(order.parameters)),
            )
        utilities = disutility(terms, self._privacy_costs(game, order.grid), self._betas)
        if game.selection == "exponential":
            indices = self._exponential(order.round, game, utilities, order.grid)
        else:
            indices = game.best_response(utilities)
        return order.grid[indices]

    def _probe(self, round_: int, game: MeanField, size: int) -> Probe:
        return Probe(
            model=self._model,
            examples=self._examples(),
            batches=self._batches(round_, "choice batch", game.choice_sampling_rate),
            divisors=game.choice_sampling_rate * self.counts.astype(np.float64),
            noise=self._normals(round_, "choice probe", size),
            rngs=self._draws(round_, "choice trace"),
        )

    def _privacy_costs(self, game: MeanField, grid: FloatArray) -> FloatArray:
        sizes, inverse = np.unique(self.counts, return_inverse=True)
        for count in sizes.tolist():
            key = (count, grid.tobytes())
            if key not in self._privacy_terms:
                self._privacy_terms[key] = privacy_terms(self._experiment, game, count, grid)
        terms = [self._privacy_terms[count, grid.tobytes()] for count in sizes.tolist()]
        return np.stack(terms)[inverse]

    def _exponential(
        self, round_: int, game: MeanField, utilities: FloatArray, grid: FloatArray
    ) -> IntArray:
        experiment = self._experiment
        neighbours = experiment.training.neighbours
        sizes, inverse = np.unique(self.counts, return_inverse=True)
        sensitivities = [
            game.sensitivity(
                neighbours,
                count,
                grid,
                experiment.mechanism.step_size,
                experiment.run.num_clients,
                experiment.training.local_steps,
            )
            for count in sizes.tolist()
        ]
        return exponential_choices(
            utilities,
            epsilon_before_amplification(game.selection_epsilon, game.choice_sampling_rate),
            np.array(sensitivities)[inverse],
            np.array([rng.random() for rng in self._draws(round_, "choice")]),
            monotone=game.monotone(neighbours),
        )

    def train(
        self,
        round_: int,
        parameters: NDArray[np.float32],
        strengths: FloatArray,
        turns: IntArray | None = None,
    ) -> LocalUpdate:
        """Take the noisy local steps of one round; noiseless ones on particles that burnt in.

        Args:
            round_: The round.
            parameters: The global model, the public start of every client.
            strengths: Strength of each client, shape (clients,).
            turns: For a client that stands more than once in the cohort, how often it stands
                before, shape (clients,): each time has batches and noise of its own.
        """
        experiment, training = self._experiment, self._experiment.training
        by_count = {k: client_context(experiment, k) for k in np.unique(self.counts).tolist()}
        contexts = [by_count[count] for count in self.counts.tolist()]
        sizes = [parameter.numel() for parameter in experiment.task.module().parameters()]
        start = parameters.astype(np.float64)
        states = np.tile(start, (len(self.clients), 1))
        events: tuple[SampledGaussian, ...] = ()
        first = training.local_steps * (np.zeros_like(self.counts) if turns is None else turns)
        for step in range(training.local_steps):
            gradients = self._clipped_gradients(round_, first + step, states)
            if burns_in(experiment):
                states = states - experiment.burn_in.learning_rate * gradients
                continue
            noise = self._normals(round_, "noise", len(parameters), first + step)
            release = experiment.mechanism.release(
                states, gradients, strengths, contexts, noise, sizes
            )
            states, events = release.value, release.events
        # one object for all clients that have the same event
        merged = {event: replace(event, steps=training.local_steps) for event in set(events)}
        return LocalUpdate(states - start, tuple(merged[event] for event in events))

    def _clipped_gradients(self, round_: int, steps: IntArray, states: FloatArray) -> FloatArray:
        """Return clipped sums over the public divisor, bounded once more for a whole client.

        A Poisson batch can be larger than expected, so the divided sum of clipped gradients can
        have a norm above C; that matters where the sensitivity is a whole client's.
        """
        training = self._experiment.training
        # what noiseless rounds show of their batches must not be what amplifies noisy ones
        purpose = "particle batch" if self.particles else "batch"
        batches = self._batches(round_, purpose, training.sampling_rate, steps)
        norm = training.clipping_norm
        sums = self._model.clipped_sums(
            states, batches, norm if training.clip == "per-example" else np.inf
        )
        gradients: FloatArray = sums / (training.sampling_rate * self.counts)[:, None]
        # a sum that overflowed would tell itself apart for free; zero is what it is replaced by
        gradients[~np.isfinite(gradients).all(axis=1)] = 0.0
        if training.neighbours != "example":
            norms = np.linalg.norm(gradients, axis=1, keepdims=True)
            gradients = gradients * np.minimum(1.0, norm / np.maximum(norms, norm))
        return gradients
