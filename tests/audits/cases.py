"""Random games with transcripts, and what enumeration says about them, for the audits' tests."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from fedgame.accountants.pml_logs import FloatArray, IntArray
from fedgame.accountants.pml_prior import Prior
from fedgame.accountants.pml_prior_forms import correlated_prior, product_prior, table_prior
from fedgame.games.aggregative.base import AggregativeGame, Costs, realised
from fedgame.games.aggregative.dynamics import Dynamics, Rule, play
from fedgame.games.aggregative.graphs import CompleteGraph, ring
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.schedules import Schedules
from fedgame.games.aggregative.sets import Box, Everywhere, FeasibleSet, Simplex
from fedgame.games.aggregative.transcript import Transcript
from tests.games.aggregative.cases import random_game

KINDS = ("product", "correlated", "mixture", "table")


@dataclass(frozen=True)
class Run:
    """A run with its parts."""

    transcript: Transcript
    dynamics: Dynamics
    prior: Prior
    types: IntArray


def random_prior(kind: str, players: int, rng: np.random.Generator) -> Prior:
    """A prior of two types of one of the four kinds."""
    if kind == "product":
        return product_prior(rng.dirichlet([1, 1], players))
    if kind == "correlated":
        alpha, beta = rng.uniform(0.05, 0.95, 2)
        return correlated_prior(players, float(alpha), float(beta))
    if kind == "mixture":
        return Prior(rng.dirichlet([1, 1]), rng.dirichlet([1, 1], (2, players)))
    return table_prior(rng.dirichlet(np.ones(2**players)).reshape((2,) * players))


def random_run(seed: int, kind: str, *, iterations: int = 5, holes: bool = True) -> Run:
    """A run of a random game: sets, rules, graphs, scales and gaps in the transcript vary."""
    rng = np.random.default_rng(seed)
    players, dimension = int(rng.integers(3, 6)), int(rng.integers(2, 4))
    sets: tuple[Everywhere | Box | Simplex, ...] = (Everywhere(), Box(-1.0, 2.0), Simplex())
    feasible = sets[seed % 3]
    rule: Rule = "ye" if rng.random() < 0.5 else "wang"
    game = random_game(seed, players, dimension, feasible)
    start = feasible.project(rng.uniform(0, 1, (players, dimension)))
    dynamics = Dynamics(
        game,
        ring(players) if rng.random() < 0.5 else CompleteGraph(players),
        Schedules.of(iterations + 1, noise="power:0.3:0.1:1", step=".3", gamma=".8"),
        start,
        rule,
        "full" if rng.random() < 0.5 else "paper",
    )
    prior = random_prior(kind, players, rng)
    types = prior.draw(rng, 1)[0]
    scales = np.repeat(dynamics.schedules.noise[:iterations, None], players, axis=1)
    scales = scales * rng.uniform(1, 1.5, scales.shape)
    noise = rng.laplace(size=(iterations, players, dimension)) * scales[..., None]
    messages = play(dynamics, types, noise).messages
    sent = rng.random(scales.shape) < (0.8 if holes else 2.0)
    return Run(Transcript(messages, scales, sent), dynamics, prior, types)


def profile_log_densities(run: Run) -> tuple[IntArray, FloatArray]:
    """All profiles, and log P(o up to k | f) of each, (profiles, K), by playing each of them."""
    game, transcript, dynamics = run.dynamics.game, run.transcript, run.dynamics
    players = np.arange(game.num_players)
    profiles = np.array(list(itertools.product(range(game.num_types), repeat=game.num_players)))
    logs = np.zeros((len(profiles), len(transcript)))
    for row, profile in enumerate(profiles):
        costs, state = realised(game, profile), dynamics.start(players)
        for k, message in enumerate(transcript.messages):
            if k > 0:
                heard = dynamics.signal(transcript.messages[k - 1])
                state = dynamics.step(costs, state, heard, k - 1)
            for i in range(game.num_players):
                scale = transcript.scales[k, i]
                if transcript.sent[k, i]:
                    logs[row, k] -= np.abs(message[i] - state.v[i]).sum() / scale
                    logs[row, k] -= game.dimension * np.log(2 * scale)
    return profiles, np.cumsum(logs, axis=1)


@dataclass(frozen=True)
class Opaque:
    """A quadratic game that does not show that it is one."""

    game: QuadraticGame

    @property
    def num_players(self) -> int:
        return self.game.num_players

    @property
    def dimension(self) -> int:
        return self.game.dimension

    @property
    def num_types(self) -> int:
        return self.game.num_types

    @property
    def feasible(self) -> FeasibleSet:
        return self.game.feasible

    def costs(self, players: IntArray, types: IntArray) -> Costs:
        return self.game.costs(players, types)


def hidden(run: Run) -> Run:
    """The same run of a game that does not show that it is quadratic."""
    dynamics, game = run.dynamics, run.dynamics.game
    assert isinstance(game, QuadraticGame)
    opaque: AggregativeGame = Opaque(game)
    other = Dynamics(
        opaque,
        dynamics.graph,
        dynamics.schedules,
        dynamics.initial,
        dynamics.rule,
        dynamics.gradient,
    )
    return Run(run.transcript, other, run.prior, run.types)
