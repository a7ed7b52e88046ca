"""Which settings go together: what no section of an experiment can check alone."""

from __future__ import annotations

from fedgame.errors import ConfigError
from fedgame.games.privacy.mean_field import MeanField
from fedgame.games.privacy.none import NoGame
from fedgame.games.procurement.biggest_loss import Bbm
from fedgame.games.procurement.fixed_subset import Fsbm
from fedgame.games.procurement.settings import Procurement
from fedgame.strategies.burn_in import check_burn_in
from fedgame.strategies.settings import Experiment, RunSettings

MOST_DRAWS = 10**8
"""Places of a schedule, which is kept in memory."""


def check_together(experiment: Experiment) -> None:
    """Check what no section can check alone.

    Raises:
        ConfigError: Two values that do not go together, by the key of one of them.
    """
    run, training = experiment.run, experiment.training
    for key, value in (("min-clients", run.min_clients), ("nodes", run.nodes)):
        if value > run.num_clients:
            raise ConfigError(key, value, f"must be at most num-clients = {run.num_clients}")
    if run.strategy == "jsam":
        _check_procurement(experiment)
    check_burn_in(experiment)
    game = experiment.game
    client_level = training.neighbours != "example"
    if isinstance(game, MeanField) and game.choice_sampling_rate < 1 and client_level:
        raise ConfigError(
            "mean-field.choice-sampling-rate",
            game.choice_sampling_rate,
            "must be 1 where a whole client is protected: who takes part is public",
        )
    if training.clip == "average" and not client_level:
        raise ConfigError(
            "training.clip",
            training.clip,
            'clipping the average bounds no single example: set training.neighbours = "client"',
        )


def _check_procurement(experiment: Experiment) -> None:
    """Check that nothing is asked for that has no meaning where privacy is bought."""
    game, limit = experiment.game, experiment.accounting.max_epsilon
    misreporter, total = experiment.procurement.misreport_client, experiment.run.num_clients
    if not isinstance(game, NoGame):
        raise ConfigError("game.name", game.name, 'must be "auto" or "none" with strategy = "jsam"')
    if limit:
        raise ConfigError(
            "accountant.max-epsilon",
            limit,
            'must be 0 with strategy = "jsam": procurement.epsilon-max caps what is bought',
        )
    buyer, settings = experiment.buyer, experiment.procurement
    if isinstance(buyer, Fsbm | Bbm) and buyer.clients > total:
        key = f"{buyer.name}.clients"
        raise ConfigError(key, buyer.clients, f"must be at most num-clients = {total}: set {key}")
    if experiment.run.rounds * settings.draws > MOST_DRAWS:
        raise ConfigError(
            "procurement.draws",
            settings.draws,
            f"rounds * procurement.draws must be at most {MOST_DRAWS:g}",
        )
    if settings.budget and settings.eta != Procurement().eta:
        raise ConfigError(
            "procurement.eta",
            settings.eta,
            f"not used with procurement.budget = {settings.budget:g}: leave it out, or set "
            "procurement.budget = 0",
        )
    if experiment.run.cell != RunSettings().cell:
        raise ConfigError("cell", experiment.run.cell, 'belongs to strategy = "mfpg": leave it out')
    if misreporter >= total:
        raise ConfigError(
            "procurement.misreport-client", misreporter, f"must be below num-clients = {total}"
        )
