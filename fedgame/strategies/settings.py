"""The settings that belong to no component, and the experiment that all settings make up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as pydantic_dataclass

from fedgame.accountants.pml_filter import PmlFilter
from fedgame.games.aggregative.base import GameSection
from fedgame.games.aggregative.priors import PriorSection
from fedgame.games.aggregative.settings import Aggregative
from fedgame.games.privacy.mapg import Mapg
from fedgame.games.privacy.mean_field import MeanField
from fedgame.games.privacy.none import NoGame
from fedgame.games.privacy.population import Population
from fedgame.games.procurement.base import Mechanism as Buyer
from fedgame.games.procurement.biggest_loss import Bbm
from fedgame.games.procurement.settings import Procurement
from fedgame.ledger.events import Neighbours
from fedgame.mechanisms.burn_in import BurnInSettings
from fedgame.mechanisms.gaussian import Gaussian
from fedgame.mechanisms.jko import Jko
from fedgame.partitions.base import Partition
from fedgame.tasks.base import DataSource, Task

Scalar: TypeAlias = bool | int | float | str
"""What a value of Flower's run configuration can be."""

_COMPONENT = ConfigDict(extra="forbid", allow_inf_nan=False)


@pydantic_dataclass(frozen=True, config=_COMPONENT)
class RunSettings:
    """The keys at the top level of an experiment.

    Attributes:
        strategy: Which system runs.
        cell: Which cell of the 2x2 grid; it fixes mechanism and game unless they are named.
        mode: What the settings are meant to be, "sound" or the "paper" as printed: a label in
            reports, which changes no number.
        seed: Public seed of partition, initial model and schedules.
        rounds: Planned number of rounds; in an aggregative game T, after message 0.
        num_clients: Number of clients, spread over the nodes that exist.
        nodes: Number of nodes to wait for; 0 takes the nodes that are there.
        node_timeout: Seconds to wait for the nodes.
        evaluate_every: Rounds between two evaluations on the public test set; the last round is
            always evaluated.
        min_clients: Fewer registered clients, or in the privacy grid a round with fewer valid
            updates, end the run.
        reply_timeout: Seconds to wait for the replies of a round.
        deterministic: Whether client computations keep to one thread, so that the same seed gives
            the same bits on any number of nodes; without, threads may change the last digits.
        noise_secret: Where noise comes from: "from-seed" (reproducible, not private against anyone
            who knows the seed), "own" (a secret of each node's own), or "auto": own where a node
            has a data folder, from the seed in a simulation.
        output_dir: Folder in which run folders are made; empty: FEDGAME_HOME, else the user's data
            folder.
        run_name: Name of the run folder; empty: made from the time.
        resume: Whether the run of this name was interrupted and goes on from its last checkpoint.
    """

    strategy: Literal["mfpg", "jsam", "aggregative"] = "mfpg"
    cell: Literal["dp-sgd", "mfep", "mapg-dp", "mfpg"] = "mfpg"
    mode: Literal["sound", "paper"] = "sound"
    seed: int = Field(default=42, ge=0)
    rounds: int = Field(default=60, ge=1, le=10**6)
    num_clients: int = Field(default=10, ge=1, le=10**7)
    nodes: int = Field(default=0, ge=0)
    node_timeout: float = Field(default=120.0, gt=0)
    evaluate_every: int = Field(default=1, ge=1)
    min_clients: int = Field(default=1, ge=1)
    reply_timeout: float = Field(default=600.0, gt=0)
    deterministic: bool = True
    noise_secret: Literal["auto", "from-seed", "own"] = "auto"
    output_dir: str = ""
    run_name: str = Field(default="", pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$")
    resume: bool = False


@pydantic_dataclass(frozen=True, config=_COMPONENT)
class Training:
    """The section [training]: what every local update has in common.

    Attributes:
        sampling_rate: Probability q that an example is in a Poisson batch.
        local_steps: Noisy steps a client takes in a round; each one is charged.
        clipping_norm: Bound C on the L2 norm of one example's gradient, all tensors together.
        neighbours: Relation under which the run is accounted.
        clip: "per-example", or "average" as the paper prints it: the averaged gradient is clipped,
            which bounds a client's contribution and not an example's.
    """

    sampling_rate: float = Field(default=0.25, ge=1e-9, le=1)
    local_steps: int = Field(default=1, ge=1, le=10**5)
    clipping_norm: float = Field(default=1.0, ge=1e-9, le=1e9)
    neighbours: Neighbours = "example"
    clip: Literal["per-example", "average"] = "per-example"


@pydantic_dataclass(frozen=True, config=_COMPONENT)
class Accounting:
    """The section [accountant]: which accountant gives the guarantee, and its limit.

    Attributes:
        name: The accountant of the guarantee; it must be sound.
        delta: The delta at which epsilons are stated; PLD resolves it down to 1e-12.
        max_epsilon: No round starts that would take a client's guarantee above this; 0 = no limit.
    """

    name: Literal["pld", "rdp", "order2"] = "pld"
    delta: float = Field(default=1e-5, ge=1e-12, lt=1)
    max_epsilon: float = Field(default=0.0, ge=0)


@dataclass(frozen=True)
class Experiment:
    """One validated experiment: settings, built components, and the flat configuration behind."""

    run: RunSettings
    training: Training
    accounting: Accounting
    source: DataSource
    task: Task
    partition: Partition
    mechanism: Gaussian | Jko
    burn_in: BurnInSettings
    game: NoGame | Mapg | MeanField
    population: Population
    procurement: Procurement
    buyer: Buyer | Bbm
    aggregative: Aggregative
    cost_game: GameSection
    prior: PriorSection
    pml_filter: PmlFilter
    flat: Mapping[str, Scalar]
