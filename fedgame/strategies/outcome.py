"""From the rounds and the ledger to the record of a run: what was promised and what was spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgame.accountants.base import Accountant, compress
from fedgame.games.privacy.mapg import Mapg
from fedgame.games.privacy.mean_field import MeanField
from fedgame.ledger.events import PrivacyEvent, UnaccountedRelease
from fedgame.mechanisms.gaussian import Gaussian
from fedgame.strategies.base import ClientRecord, RoundRecord, RunResult
from fedgame.strategies.burn_in import burn_in_note
from fedgame.strategies.federation import Hosts
from fedgame.strategies.plan import Plan

FloatArray = NDArray[np.float64]

Histories = Mapping[int, Sequence[PrivacyEvent]]


@dataclass(frozen=True)
class Trained:
    """What the rounds leave behind; arrays are over the registered clients, in order.

    Attributes:
        plan: The public plan.
        hosts: Which node hosts which client.
        parameters: The final model.
        rounds: One record a round.
        strengths: Strength of each client in each round, shape (rounds, clients), NaN if missing.
        last_strengths: Strength in force at the end, shape (clients,).
        declared: Strength that each client's guarantee is stated at, shape (clients,).
        started: Rounds whose orders went out: what they released counts, whoever received it.
        reason: Why the run stopped early; empty if it did not.
        failed: Whether it stopped because it could not go on.
    """

    plan: Plan
    hosts: Hosts
    parameters: NDArray[np.float32]
    rounds: tuple[RoundRecord, ...]
    strengths: FloatArray
    last_strengths: FloatArray
    declared: FloatArray
    started: int
    reason: str
    failed: bool


@dataclass(frozen=True)
class Accountants:
    """The accountants that a run is reported by.

    Attributes:
        guarantee: The accountant of the guarantee.
        table: All sound accountants by name.
        claim: The paper's claim; None where it makes none.
    """

    guarantee: Accountant
    table: Mapping[str, Accountant]
    claim: Accountant | None


def run_result(trained: Trained, realised: Histories, accountants: Accountants) -> RunResult:
    """Return the record of a run.

    Args:
        trained: What the rounds left behind.
        realised: Each client's events in the merged ledger.
        accountants: Who accounts.
    """
    experiment = trained.plan.experiment
    named = experiment.task.module().named_parameters()
    return RunResult(
        status="failed" if trained.failed else "finished",
        reason=trained.reason,
        rounds=trained.rounds,
        clients=_clients(trained, realised, accountants),
        parameters=trained.parameters,
        tensors=tuple((name, tuple(tensor.shape)) for name, tensor in named),
        strengths=trained.strengths,
        notes=_notes(trained, realised),
        unaccounted=unaccounted_releases(realised),
    )


def _clients(
    trained: Trained, realised: Histories, accountants: Accountants
) -> tuple[ClientRecord, ...]:
    plan, strengths = trained.plan, trained.last_strengths
    experiment = plan.experiment
    delta = experiment.accounting.delta
    ids = [int(client) for client in trained.hosts.clients]
    rounds = trained.started
    promised = _promised(trained) if rounds else dict.fromkeys(ids, ())
    privacy = client_privacy(accountants, promised, realised, delta)
    noise_multipliers = plan.noise_multipliers(strengths)
    has_game = isinstance(experiment.game, MeanField | Mapg)
    return tuple(
        ClientRecord(
            id=client,
            num_examples=int(plan.counts[position]),
            beta=float(plan.betas[position]) if has_game else None,
            strength=float(strengths[position]),
            noise_multiplier=float(noise_multipliers[position]),
            **vars(privacy[client]),
        )
        for position, client in enumerate(ids)
    )


def _promised(trained: Trained) -> dict[int, Sequence[PrivacyEvent]]:
    """Return the events that each client's guarantee is computed from."""
    plan, declared = trained.plan, trained.declared
    # of two clients with equally many examples and one strength, what is promised is the same
    of: dict[tuple[int, float], Sequence[PrivacyEvent]] = {}
    promised = {}
    columns = (trained.hosts.clients.tolist(), plan.counts.tolist(), declared.tolist())
    for position, (client, *key) in enumerate(zip(*columns, strict=True)):
        same = (key[0], key[1])
        if same not in of:
            of[same] = plan.guarantee(position, trained.started, declared)
        promised[client] = of[same]
    return promised


@dataclass(frozen=True)
class ClientPrivacy:
    """The privacy columns of a client's record; see `ClientRecord`."""

    epsilon: dict[str, float]
    guarantee: float
    realised: float
    claimed_delta: float | None
    sound_delta_at_epsilon_1: float


def client_privacy(
    accountants: Accountants, promised: Histories, realised: Histories, delta: float
) -> dict[int, ClientPrivacy]:
    """Return what each client was promised and what it spent, once per distinct history.

    Args:
        accountants: Who accounts.
        promised: The events that each client's guarantee is computed from.
        realised: Each client's events in the merged ledger; none for a client that is missing.
        delta: The delta at which epsilons are stated.
    """
    cache: dict[object, ClientPrivacy] = {}
    seen: dict[tuple[PrivacyEvent, ...], object] = {}

    def canonical(events: Sequence[PrivacyEvent]) -> object:
        # most clients of a large population share one of few histories, in this very order
        history = tuple(events)
        if history not in seen:
            seen[history] = compress(history)
        return seen[history]

    result = {}
    for client, promise in promised.items():
        spent = realised.get(client, [])
        key = canonical(promise), canonical(spent)
        if key not in cache:
            guarantee = accountants.guarantee
            table = {name: each.epsilon(spent, delta) for name, each in accountants.table.items()}
            cache[key] = ClientPrivacy(
                epsilon=table,
                guarantee=guarantee.epsilon(promise, delta),
                realised=guarantee.epsilon(spent, delta),
                claimed_delta=accountants.claim.delta(spent, 1.0) if accountants.claim else None,
                sound_delta_at_epsilon_1=guarantee.delta(promise, 1.0),
            )
        result[client] = cache[key]
    return result


Note = Callable[[Trained, Histories], str | None]


def _notes(trained: Trained, realised: Histories) -> tuple[str, ...]:
    """Return what a reader must know before believing a number."""
    notes = (note(trained, realised) for note in _NOTES)
    return tuple(note for note in notes if note)


def reproducible_note(hosts: Hosts) -> str | None:
    """Say that noise comes from the seed, where it does."""
    if hosts.own_noise.all():
        return None
    return "Noise comes from the seed: reproducible, not private against anyone who knows the seed."


def _reproducible(trained: Trained, _: Histories) -> str | None:
    return reproducible_note(trained.hosts)


def unaccounted_releases(realised: Histories) -> tuple[str, ...]:
    """Return the names of the releases that no accountant can charge."""
    releases = {
        event.mechanism
        for events in realised.values()
        for event in events
        if isinstance(event, UnaccountedRelease)
    }
    return tuple(sorted(releases))


def unaccounted_note(realised: Histories) -> str | None:
    """Say what left without a guarantee, if anything did."""
    names = ", ".join(unaccounted_releases(realised))
    if not names:
        return None
    return f"Not covered by any epsilon here: {names} depends on data and left without a guarantee."


def _unaccounted(_: Trained, realised: Histories) -> str | None:
    return unaccounted_note(realised)


def _averaged_clipping(trained: Trained, _: Histories) -> str | None:
    if trained.plan.experiment.training.clip != "average":
        return None
    return (
        "The averaged gradient is clipped, as the paper prints it: one example can move it by up "
        "to 2C whatever the client's number of examples, so an example is protected no better than "
        "a client that is replaced, at half the noise multiplier."
    )


def _printed_scale(trained: Trained, _: Histories) -> str | None:
    mechanism = trained.plan.experiment.mechanism
    if not isinstance(mechanism, Gaussian) or mechanism.calibration != "paper":
        return None
    if mechanism.target_epsilon <= 1:
        return None
    return (
        "The classic noise scale C sqrt(2 ln(1.25/delta))/epsilon is proved for epsilon <= 1 a "
        f"step; gaussian.target-epsilon = {mechanism.target_epsilon:g} is above it."
    )


def _nothing_to_choose(trained: Trained, _: Histories) -> str | None:
    if len(trained.plan.grid) != 1:
        return None
    return (
        "The grid has one strength, so that nobody has anything to choose: no choice was made or "
        "charged, and the run is one without a game at that strength."
    )


def _schedule(trained: Trained, _: Histories) -> str | None:
    game = trained.plan.experiment.game
    if not isinstance(game, MeanField) or len(trained.plan.grid) == 1 or not trained.started:
        return None
    if game.schedule == "commit":
        return (
            "Strengths were chosen once, before training: a client's guarantee is for the strength "
            "that it then published. Before the choice, that of the smallest strength of the grid "
            "was promised."
        )
    return (
        "Strengths were chosen from earlier outputs: the guarantee counts every round at the "
        "smallest strength of the grid; the realised epsilon is ex post."
    )


def _burnt_in(trained: Trained, _: Histories) -> str | None:
    if not trained.started:
        return None
    return burn_in_note(trained.plan.experiment, trained.plan.counts)


_NOTES: tuple[Note, ...] = (
    _reproducible,
    _unaccounted,
    _averaged_clipping,
    _printed_scale,
    _nothing_to_choose,
    _schedule,
    _burnt_in,
)
