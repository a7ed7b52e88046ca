"""Runs of games by messages with audits put together by hand, for the tests of what shows them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fedgame import config
from fedgame.accountants import pml, pml_bounds
from fedgame.accountants.pml_bounds import Bound
from fedgame.accountants.pml_distances import message_distances, sampled
from fedgame.audits.transcript import GradientMatchingAttack, Outcome, TranscriptAudit
from fedgame.games.aggregative.affine import AffineMap
from fedgame.games.aggregative.best_responses import exploitability
from fedgame.games.aggregative.dynamics import Play, play
from fedgame.games.aggregative.equilibrium import distance_to, solve_equilibrium
from fedgame.games.aggregative.likelihood import log_likelihoods, trajectories
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.transcript import Transcript
from fedgame.reports.game_run import GameRun
from fedgame.strategies.aggregative_public import PublicGame, public_game, simulated_types
from fedgame.strategies.game_result import GameResult, IterationRecord, PlayerRecord

KEYS: dict[str, Any] = {
    "strategy": "aggregative",
    "seed": 42,
    "aggregative.name": "cournot",
    "aggregative.noise": "power:1:0.5:1",
    "aggregative.step": "inverse:1:2:1",
    "cournot.cost": "1.23456789, 3.45678912",
    "cournot.curvature": "0.51234567, 1.51234567",
    "pml-filter.budget": 2.0,
    "pml-filter.action": "stop",
}


class Built(NamedTuple):
    """A run, and what nobody may find in its files."""

    run: GameRun
    secret: Play


def build_game(players: int = 4, rounds: int = 5, sent: int | None = None, **keys: Any) -> Built:
    """Return a run of all players that sent all of `sent` iterations, of rounds + 1 by default.

    `keys` are keys of the configuration, with "__" for "." and "_" for "-".
    """
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in keys.items()}
    experiment = config.load({**KEYS, "num-clients": players, "rounds": rounds, **named})
    public = public_game(experiment)
    types = simulated_types(experiment, public.prior)
    count = rounds + 1 if sent is None else sent
    scales = np.tile(public.dynamics.schedules.noise[:count, None], (1, players))
    shape = (count, players, public.dynamics.game.dimension)
    noise = np.random.default_rng(5).laplace(size=shape) * scales[..., None]
    secret = play(public.dynamics, types, noise)
    transcript = Transcript(secret.messages, scales, np.ones(scales.shape, dtype=bool))
    audit = audit_by_hand(public, transcript, secret, types)
    result = GameResult(
        status="finished",
        reason="" if count == rounds + 1 else "the next message could leak more than the budget",
        iterations=tuple(
            IterationRecord(
                round=k,
                leakage=float(audit.leakage[k]),
                worst_individual_leakage=float(audit.individual_leakage[k].max()),
                worst_epsilon=0.25 * k,
                possible=1.25 * float(audit.leakage[k]),
                asked=players,
                sent=players,
                noise=float(scales[k, 0]),
                seconds=0.25,
            )
            for k in range(count)
        ),
        players=tuple(
            PlayerRecord(
                id=i,
                sent=count,
                released=count + (i == 1),
                epsilon=1.25 + i,
                own_type=False,
                own_noise=False,
            )
            for i in range(players)
        ),
        dynamics=public.dynamics,
        prior=public.prior,
        transcript=transcript,
        types=types,
        notes=("One reply was lost.",),
    )
    return Built(GameRun(result, audit, experiment.flat), secret)


def audit_by_hand(
    public: PublicGame, transcript: Transcript, secret: Play, types: Any
) -> TranscriptAudit:
    """Return an audit with true leakages and scores, and with made-up attacks on parameters."""
    dynamics, prior = public.dynamics, public.prior
    count, players = transcript.sent.shape
    v = trajectories(dynamics, transcript.messages)
    logs = log_likelihoods(transcript.messages, v, transcript.scales)
    gaps = message_distances(v, transcript.scales)
    theorem = pml_bounds.theorem_1(prior, gaps)
    equilibrium = solve_equilibrium(dynamics.game, types)
    assert isinstance(dynamics.game, QuadraticGame)
    posterior = pml.posterior(prior, logs[-1])
    gains = [exploitability(dynamics.game, types, x).largest for x in secret.strategies]
    rising = np.linspace(1.0, 1.75, count)
    return TranscriptAudit(
        leakage=pml.exact_leakage(prior, logs),
        individual_leakage=pml.individual_leakage(prior, logs),
        bounds=(
            theorem,
            pml_bounds.composition(prior, logs, gaps),
            pml_bounds.fixed_prior_composition(prior, gaps),
            pml_bounds.group_dp(prior, gaps),
            pml_bounds.individual_dp(prior, gaps),
            Bound("Theorem 1, every transcript", 1.5 * theorem.value, sampled(64)),
        ),
        ceiling=pml_bounds.ceiling(prior),
        individual_ceiling=pml_bounds.individual_ceiling(prior),
        posterior=posterior,
        bayes_log_gain=pml.bayes_log_gain(prior, logs),
        individual_bayes_log_gain=pml.individual_bayes_log_gain(prior, logs),
        guesses=posterior.argmax(axis=-1),
        outcome=Outcome(
            error=distance_to(equilibrium, secret.strategies),
            exploitability=np.array(gains),
            exploitability_is_exact=True,
            true_type_probability=posterior[np.arange(players), types],
            share_right=float((posterior.argmax(axis=-1) == types).mean()),
            attack=GradientMatchingAttack(
                gain=rising,
                individual_gain=rising[:, None] / np.linspace(1.0, 1.5, players),
                blind_gain=1.5,
                individual_blind_gain=np.full(players, 1.25),
            ),
        ),
        smallest_eigenvalue=AffineMap.of(dynamics.game, types).smallest_eigenvalue(),
    )


def without_messages(run: GameRun) -> GameRun:
    """Return a run that failed before the first message."""
    players, n = run.num_players, run.result.dynamics.game.dimension
    result = replace(
        run.result,
        status="failed",
        reason="no nodes came",
        iterations=(),
        players=(),
        transcript=Transcript(
            np.zeros((0, players, n)), np.ones((0, players)), np.ones((0, players), dtype=bool)
        ),
    )
    audit = replace(
        run.audit,
        leakage=run.audit.leakage[:0],
        individual_leakage=run.audit.individual_leakage[:0],
        bounds=tuple(replace(bound, value=bound.value[:0]) for bound in run.audit.bounds),
        bayes_log_gain=run.audit.bayes_log_gain[:0],
        individual_bayes_log_gain=run.audit.individual_bayes_log_gain[:0],
        outcome=None,
    )
    return GameRun(result, audit, run.config)


def change(
    run: GameRun,
    *,
    audit: dict[str, Any] | None = None,
    outcome: dict[str, Any] | None = None,
    **result: Any,
) -> GameRun:
    """Return a run with other fields of its audit, its outcome and its result."""
    changed = replace(run.audit, **(audit or {}))
    if outcome is not None:
        assert changed.outcome is not None
        changed = replace(changed, outcome=replace(changed.outcome, **outcome))
    return GameRun(replace(run.result, **result), changed, run.config)
