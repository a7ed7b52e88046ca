"""How far a profile of strengths is from equilibrium, measured on public data only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedgame.games.certificate import exploitability
from fedgame.games.privacy.mapg import Mapg, mapg_disutility
from fedgame.games.privacy.mean_field import MeanField
from fedgame.games.privacy.utilities import disutility
from fedgame.randomness import public_generator
from fedgame.strategies.disutilities import Probe, loss_terms, privacy_terms
from fedgame.strategies.local_model import local_model
from fedgame.strategies.plan import Plan, effective_clipping
from fedgame.strategies.settings import Experiment
from fedgame.tasks.base import Examples
from fedgame.tasks.curvature import per_example_curvature

FloatArray = NDArray[np.float64]

PUBLIC_EXAMPLES = 2000
"""How many test examples the server measures loss terms on."""


class PublicGame:
    """The game as the server can see it: public examples stand for every client's own."""

    def __init__(self, plan: Plan, public: Examples) -> None:
        """Keep at most PUBLIC_EXAMPLES of the public examples."""
        self._plan = plan
        self._examples = public.subset(np.arange(min(len(public), PUBLIC_EXAMPLES)))
        experiment = plan.experiment
        self._model = local_model(experiment.task, [self._examples])
        game = experiment.game
        if isinstance(game, MeanField):
            unique, inverse = np.unique(plan.counts, return_inverse=True)
            table = [privacy_terms(experiment, game, int(count), plan.grid) for count in unique]
            self._privacy = np.stack(table)[inverse]

    def loss_term(
        self, round_: int, parameters: NDArray[np.float32], mean_strength: float
    ) -> FloatArray:
        """Return the loss term of the grid game at each strength, shape (m,)."""
        experiment = self._plan.experiment
        game = experiment.game
        if not isinstance(game, MeanField):
            raise TypeError("there is no grid game")
        rng = public_generator(experiment.run.seed, "public probe", round_)
        probe = Probe(
            model=self._model,
            examples=[self._examples],
            batches=[np.ones(len(self._examples), dtype=np.bool_)],
            divisors=np.array([float(len(self._examples))]),
            noise=rng.standard_normal((1, len(parameters))),
            rngs=[rng],
        )
        terms = loss_terms(experiment, game, parameters, mean_strength, self._plan.grid, probe)
        return np.asarray(terms[0])

    def exploitability(
        self,
        round_: int,
        parameters: NDArray[np.float32],
        mean_strength: float,
        strengths: FloatArray,
        curvatures: FloatArray,
    ) -> float | None:
        """Return the largest gain of any client from changing its strength alone.

        Args:
            round_: The round, for the draws of the probe.
            parameters: The global model.
            mean_strength: s-bar, held fixed: one client does not move a mean field.
            strengths: Strength of each client, shape (clients,).
            curvatures: Hessian traces used by MAPG, shape (clients,).
        """
        game = self._plan.experiment.game
        if isinstance(game, MeanField):
            loss_term = self.loss_term(round_, parameters, mean_strength)
            utilities = disutility(loss_term, self._privacy, self._plan.betas)
            # before its first valid reply a client has the mean of the grid: the nearest stands in
            played = np.abs(strengths[:, None] - self._plan.grid).argmin(axis=1)
            return exploitability(utilities, played).largest
        if isinstance(game, Mapg):
            return self._mapg_exploitability(game, strengths, curvatures)
        return None

    def _mapg_exploitability(
        self, game: Mapg, strengths: FloatArray, curvatures: FloatArray
    ) -> float:
        plan = self._plan
        step = plan.experiment.mechanism.step_size
        clipping = effective_clipping(plan.experiment, plan.sensitivities)
        replaced = plan.experiment.training.neighbours == "client-replace"
        played = (1.0 if replaced else 2.0) / plan.noise_multipliers(strengths)
        best = game.best_response(curvatures, plan.betas, step, clipping, len(played))
        actions = np.stack([played, best], axis=1)
        utilities = mapg_disutility(
            actions, played, curvatures, game.cost * plan.betas, step, clipping
        )
        return exploitability(utilities, np.zeros(len(played), dtype=np.int64)).largest


def mean_curvature(
    experiment: Experiment,
    parameters: NDArray[np.float32],
    examples: Examples,
    rng: np.random.Generator,
) -> float:
    """Return the mean Hessian trace of the examples' losses: kappa of MAPG-DP."""
    part = examples.subset(np.arange(min(len(examples), PUBLIC_EXAMPLES)))
    return float(per_example_curvature(experiment.task, parameters, part, rng).mean())
