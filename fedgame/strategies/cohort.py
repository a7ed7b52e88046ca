"""The client half of the privacy grid: choose a strength, take noisy local steps, for a cohort.

Everything here runs where the data are. What leaves is a strength, chosen by a charged mechanism
or from public information, and a state privatised by the mechanism.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedgame.games.privacy.mean_field import MeanField
from fedgame.games.privacy.utilities import disutility
from fedgame.ledger.events import SampledGaussian
from fedgame.mechanisms.exponential import epsilon_before_amplification, exponential_choice
from fedgame.messages.privacy_game import RoundOrder
from fedgame.randomness import generator
from fedgame.strategies.bridge import client_context
from fedgame.strategies.burn_in import burns_in, burnt_in
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
        """Gather the clients' examples.

        Args:
            experiment: The experiment.
            data: The federation's data.
            clients: Numbers of the clients; one can stand more than once.
            secret: Key of all private draws.
        """
        self.clients = tuple(clients)
        examples = [data.client(client) for client in clients]
        if burns_in(experiment):
            pairs = zip(clients, examples, strict=True)
            examples = [burnt_in(experiment, client, raw, secret) for client, raw in pairs]
        self.examples: tuple[Examples, ...] = tuple(examples)
        self.counts: IntArray = np.array([len(own) for own in self.examples], dtype=np.int64)
        self._experiment = experiment
        self._secret = secret
        betas = experiment.population.betas(experiment.run.num_clients)
        self._betas: FloatArray = betas[list(clients)]
        self._privacy_terms: dict[tuple[int, bytes], FloatArray] = {}

    @cached_property
    def _model(self) -> LocalModel:
        return local_model(self._experiment.task, self.examples)

    def _draw(self, client: int, round_: int, purpose: str, step: int = 0) -> np.random.Generator:
        return generator(self._secret, client, round_, purpose, step)

    def _batches(
        self, round_: int, purpose: str, rate: float, steps: IntArray | None = None
    ) -> list[BoolArray]:
        """Draw one Poisson batch a client; at rate 1 every example is in it."""
        return [
            self._draw(client, round_, purpose, step).random(count) < rate
            for client, count, step in zip(
                self.clients, self.counts, self._steps(steps), strict=True
            )
        ]

    def _normals(
        self, round_: int, purpose: str, size: int, steps: IntArray | None = None
    ) -> FloatArray:
        normals = np.empty((len(self.clients), size))
        for row, (client, step) in enumerate(zip(self.clients, self._steps(steps), strict=True)):
            normals[row] = self._draw(client, round_, purpose, step).standard_normal(size)
        return normals

    def _steps(self, steps: IntArray | None) -> list[int]:
        return [0] * len(self.clients) if steps is None else [int(step) for step in steps]

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
            examples=self.examples,
            batches=self._batches(round_, "choice batch", game.choice_sampling_rate),
            divisors=game.choice_sampling_rate * self.counts.astype(np.float64),
            noise=self._normals(round_, "choice probe", size),
            rngs=[self._draw(client, round_, "choice trace") for client in self.clients],
        )

    def _privacy_costs(self, game: MeanField, grid: FloatArray) -> FloatArray:
        rows = []
        for count in self.counts:
            key = (int(count), grid.tobytes())
            if key not in self._privacy_terms:
                terms = privacy_terms(self._experiment, game, int(count), grid)
                self._privacy_terms[key] = terms
            rows.append(self._privacy_terms[key])
        return np.stack(rows)

    def _exponential(
        self, round_: int, game: MeanField, utilities: FloatArray, grid: FloatArray
    ) -> IntArray:
        experiment = self._experiment
        neighbours = experiment.training.neighbours
        epsilon = epsilon_before_amplification(game.selection_epsilon, game.choice_sampling_rate)
        choices = []
        for row, (client, count) in enumerate(zip(self.clients, self.counts, strict=True)):
            sensitivity = game.sensitivity(
                neighbours,
                int(count),
                grid,
                experiment.mechanism.step_size,
                experiment.run.num_clients,
                experiment.training.local_steps,
            )
            rng = self._draw(client, round_, "choice")
            monotone = game.monotone(neighbours)
            choices.append(
                exponential_choice(utilities[row], epsilon, sensitivity, rng, monotone=monotone)
            )
        return np.array(choices, dtype=np.int64)

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
        contexts = [client_context(experiment, int(count)) for count in self.counts]
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
        merged = tuple(replace(event, steps=training.local_steps) for event in events)
        return LocalUpdate(states - start, merged)

    def _clipped_gradients(self, round_: int, steps: IntArray, states: FloatArray) -> FloatArray:
        """Return clipped sums over the public divisor, bounded once more for a whole client.

        A Poisson batch can be larger than expected, so the divided sum of clipped gradients can
        have a norm above C; that matters where the sensitivity is a whole client's.
        """
        training = self._experiment.training
        batches = self._batches(round_, "batch", training.sampling_rate, steps)
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
