"""From an experiment and options to a mean-field problem, every value checked; no data are read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgame.cli.mfne_loss import QuadraticLoss, TabulatedLoss, read_table
from fedgame.cli.options import Options
from fedgame.config import accountant
from fedgame.errors import ConfigError
from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.mean_field import MeanField
from fedgame.games.privacy.release import Release
from fedgame.games.privacy.utilities import effective_strength
from fedgame.mechanisms.jko import Jko
from fedgame.strategies.noise_check import check_noise_multipliers
from fedgame.strategies.plan import make_plan
from fedgame.strategies.settings import Experiment

KEYS = ("release", "clients", "examples", "curvature", "loss", "iterations", "output")
"""Every option that has a value."""
RELEASES = ("local", "aggregate")
MOST_TYPES = 256
"""More clients than this with preferences of their own are grouped."""
TRAINING_EXAMPLES = {"digits": 1437, "mnist": 60_000, "mnist-cnn": 60_000, "cifar10": 50_000}
"""Public sizes of training sets that no key tells."""
DEFAULT_ITERATIONS = 200


@dataclass(frozen=True)
class Problem:
    """What is to be solved.

    Attributes:
        experiment: The experiment, whose game is `game`.
        game: Grid, coupling, privacy term and its cost.
        release: Whether each message is seen or only their sum.
        grid: The strengths, shape (m,), at least two.
        betas: Preference of each type, shape (types,), increasing.
        shares: Share of each type, shape (types,).
        num_examples: n_k of each client; 1 where it does not matter.
        loss: The loss term of effective strengths.
        iterations: Most bisection steps.
    """

    experiment: Experiment
    game: MeanField
    release: Release
    grid: FloatArray
    betas: FloatArray
    shares: FloatArray
    num_examples: int
    loss: QuadraticLoss | TabulatedLoss
    iterations: int


def read_problem(experiment: Experiment, options: Options) -> Problem:
    """Check that the experiment is such a game, and every option.

    Raises:
        ConfigError: Something is missing or not allowed.
    """
    game = experiment.game
    if not isinstance(game, MeanField):
        raise ConfigError("game.name", game.name, 'must be "mean-field" to solve for its mean')
    if experiment.run.num_clients < 2:
        allowed = "must be at least 2: one client plays against nobody"
        raise ConfigError("num-clients", experiment.run.num_clients, allowed)
    release: Release = (
        "local" if options.choice("release", RELEASES, "local") == "local" else "aggregate"
    )
    if release == "aggregate":
        _check_aggregate(experiment, game)
    num_examples = _num_examples(experiment, options)
    grid = _grid(experiment, num_examples)
    betas, shares = _types(experiment)
    iterations = options.integer("iterations", least=0)
    return Problem(
        experiment=experiment,
        game=game,
        release=release,
        grid=grid,
        betas=betas,
        shares=shares,
        num_examples=num_examples,
        loss=_loss(experiment, game, grid, options),
        iterations=DEFAULT_ITERATIONS if iterations is None else iterations,
    )


def _loss(
    experiment: Experiment, game: MeanField, grid: FloatArray, options: Options
) -> QuadraticLoss | TabulatedLoss:
    options.exclude("curvature", "loss")
    table = read_table(options)
    if table is None:
        if game.loss != "quadratic":
            allowed = (
                'must be "quadratic" here, or give a table as --loss: the others are measured on '
                "data, which are not read"
            )
            raise ConfigError("mean-field.loss", game.loss, allowed)
        curvature = options.positive("curvature") or game.curvature_cap
        steps = experiment.training.local_steps
        return QuadraticLoss(curvature, experiment.mechanism.step_size, steps)
    low, high = (
        effective_strength(grid, float(edge), experiment.run.num_clients, game.coupling)
        for edge in (grid[0], grid[-1])
    )
    if not table.covers(float(low[0]), float(high[-1])):
        allowed = (
            f"must reach from strength {low[0]:.6g} to {high[-1]:.6g}, what a client can meet with "
            f"mean-field.coupling = {game.coupling!r}"
        )
        raise options.refuse("loss", allowed)
    return table


def _check_aggregate(experiment: Experiment, game: MeanField) -> None:
    """Refuse what keeps the others' noise from protecting a client as its own does."""
    mechanism, training = experiment.mechanism, experiment.training
    where = "where only the sum is seen"
    if isinstance(mechanism, Jko) and mechanism.sinkhorn:
        reason = f"must be false {where}: a sum of projected states has no Gaussian noise"
        raise ConfigError("jko.sinkhorn", mechanism.sinkhorn, reason)
    if training.local_steps > 1:
        reason = f"must be 1 {where}: a second step builds on a state with the own noise alone"
        raise ConfigError("training.local-steps", training.local_steps, reason)
    if game.privacy == "lsi":
        raise ConfigError("mean-field.privacy", "lsi", f"the claim does not speak of it {where}")


def _num_examples(experiment: Experiment, options: Options) -> int:
    """Return n_k of the client with the fewest examples, when they are spread evenly."""
    given = options.integer("examples", least=1)
    if given is not None:
        return given
    if experiment.training.neighbours != "example":
        return 1
    task, total = experiment.task, experiment.source.train_size
    if not total:
        each: int | None = getattr(task, "examples_per_client", None)
        if each is not None:
            return each
        total = TRAINING_EXAMPLES.get(task.name, 0)
    if total < experiment.run.num_clients:
        raise options.refuse("examples", "give the number of examples of each client")
    return total // experiment.run.num_clients


def _types(experiment: Experiment) -> tuple[FloatArray, FloatArray]:
    clients = experiment.run.num_clients
    betas = experiment.population.betas(min(clients, MOST_TYPES))
    kinds, counts = np.unique(betas, return_counts=True)
    return kinds, np.asarray(counts / counts.sum())


def _grid(experiment: Experiment, num_examples: int) -> FloatArray:
    one = np.ones(1)
    sound = accountant(experiment.accounting.name, experiment)
    plan = make_plan(experiment, np.array([num_examples]), one, one, sound)
    if len(plan.grid) < 2:
        key = "mean-field.strength-grid"
        key = key if experiment.flat[key] != "" else "mean-field.noise-multiplier-grid"
        allowed = "one strength leaves nothing to choose: give at least two"
        raise ConfigError(key, experiment.flat[key], allowed)
    check_noise_multipliers(plan)
    return plan.grid
