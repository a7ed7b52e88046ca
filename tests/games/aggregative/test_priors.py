"""The sections of the configuration that describe priors, and what a user reads of a bad one."""

from __future__ import annotations

import itertools
import math
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedgame.accountants.pml_prior import Prior
from fedgame.games.aggregative import PRIORS


def built(name: str, num_players: int, num_types: int, /, **settings: Any) -> Prior:
    section: Any = PRIORS.get(name)
    prior = section(**settings).build(num_players, num_types)
    assert isinstance(prior, Prior)
    return prior


def probabilities(prior: Prior) -> list[float]:
    """P(f) of all profiles, the last player's type changing first."""
    profiles = itertools.product(range(prior.num_types), repeat=prior.num_players)
    return [math.exp(float(prior.log_probability(list(f)))) for f in profiles]


@pytest.mark.parametrize("name", sorted(PRIORS))
def test_sections_are_frozen_and_describe_every_setting(name: str) -> None:
    section: Any = PRIORS.get(name)
    assert section.name == name
    for field in fields(section):
        assert f"    {field.name}: " in section.__doc__
        with pytest.raises(FrozenInstanceError):
            setattr(section(), field.name, 1)
    with pytest.raises(ValidationError, match="no_such_setting"):
        section(no_such_setting=1)


def test_independent_types_are_all_alike_unless_said_otherwise() -> None:
    assert probabilities(built("product-prior", 2, 3)) == pytest.approx([1 / 9] * 9)
    same = built("product-prior", 2, 2, probabilities="0.3, 0.7")
    assert probabilities(same) == pytest.approx([0.09, 0.21, 0.21, 0.49])
    each = built("product-prior", 2, 2, probabilities=(0.3, 0.7, 0.6, 0.4))
    assert probabilities(each) == pytest.approx([0.18, 0.12, 0.42, 0.28])
    assert each.is_product


def test_correlated_types_follow_the_papers_formula() -> None:
    found = built("correlated-prior", 3, 2, alpha=0.4, beta=0.7)
    off = 0.3 / 3
    assert probabilities(found) == pytest.approx(
        [0.4 * p for p in (0.7, off, off, off)] + [0.6 * p for p in (off, off, off, 0.7)]
    )


def test_a_mixture_lists_its_states_one_by_one() -> None:
    both = {"weights": "0.25, 0.75", "probabilities": "1, 0, 0.5, 0.5"}
    found = built("mixture-prior", 2, 2, **both)
    assert found.log_marginals[0] == pytest.approx(np.log([0.625, 0.375]))
    assert probabilities(found) == pytest.approx([0.4375, 0.1875, 0.1875, 0.1875])
    longer = "1, 0, 0, 1, 0.5, 0.5, 0.2, 0.8"
    found = built("mixture-prior", 2, 2, weights="0.25, 0.75", probabilities=longer)
    assert probabilities(found) == pytest.approx([0.075, 0.25 + 0.3, 0.075, 0.3])


def test_a_table_changes_the_last_players_type_first() -> None:
    listed = [0.05, 0.1, 0.15, 0.2, 0.05, 0.1, 0.15, 0.2]
    assert probabilities(built("table-prior", 3, 2, probabilities=listed)) == pytest.approx(listed)


@pytest.mark.parametrize(
    ("name", "settings", "error"),
    [
        ("product-prior", {"probabilities": "0.5, 0.6"},
         r"^probabilities: prior of player 0 = \[0\.5, 0\.6\]: must be >= 0 and sum to 1, not 1\."),
        ("product-prior", {"probabilities": "0.5, 0.5, 1.5, -0.5"},
         r"^probabilities: prior of player 1 = \[1\.5, -0\.5\]: must be >= 0"),
        ("product-prior", {"probabilities": "0.2, 0.3, 0.5"},
         "^probabilities has 3 numbers: must have 2 or 4 for 2 players and 2 types$"),
        ("mixture-prior", {"weights": "0.5, 0.6", "probabilities": "1, 0, 0, 1"},
         r"^weights = \[0\.5, 0\.6\]: must be >= 0 and sum to 1, not 1\.1$"),
        ("mixture-prior", {"weights": "0.5, 0.5", "probabilities": "1, 0, 0, 0.9"},
         r"^probabilities: prior of component 1, player 0 = \[0\.0, 0\.9\]: .* not 0\.9$"),
        ("mixture-prior", {"weights": "0.5, 0.5"},
         "^probabilities has 2 numbers: must have 4 or 8 for 2 players and 2 types$"),
        ("mixture-prior", {"weights": "", "probabilities": ""},
         r"^weights has 0 numbers: must have one for each state$"),
        ("table-prior", {},
         r"^probabilities has 0 numbers: must have 2\^2, one for every profile$"),
        ("table-prior", {"probabilities": "0.5, 0.25, 0.25"}, r"has 3 numbers: must have 2\^2"),
        ("table-prior", {"probabilities": "0.5, 0.25, 0.25, 0.25"},
         r"^probabilities: table: must be >= 0 and sum to 1, not 1\.25$"),
    ],
)  # fmt: skip
def test_what_is_no_prior_is_refused_in_one_line(
    name: str, settings: dict[str, str], error: str
) -> None:
    with pytest.raises(ValueError, match=error) as found:
        built(name, 2, 2, **settings)
    assert "\n" not in str(found.value)


def test_the_correlated_prior_is_for_two_types() -> None:
    with pytest.raises(ValueError, match=r"^the game has 3 types: this prior is for 2$"):
        built("correlated-prior", 4, 3)


def test_a_table_for_many_players_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"has 4 numbers: must have 3\^5000, one for every"):
        built("table-prior", 5000, 3, probabilities="0.25, 0.25, 0.25, 0.25")


@pytest.mark.parametrize(
    ("name", "settings", "error"),
    [
        *(("correlated-prior", {"alpha": value}, "alpha") for value in (0, 1, float("nan"))),
        *(("correlated-prior", {"beta": value}, "beta") for value in (0, 1, -0.1)),
        (
            "product-prior",
            {"probabilities": "half"},
            "must be numbers from -1e\\+12 to 1e\\+12 parted by commas",
        ),
        (
            "table-prior",
            {"probabilities": "0.5, nan"},
            "must be numbers from -1e\\+12 to 1e\\+12 parted by commas",
        ),
        (
            "mixture-prior",
            {"weights": "1; 0"},
            "must be numbers from -1e\\+12 to 1e\\+12 parted by commas",
        ),
    ],
)
def test_settings_out_of_range_are_refused_by_name(
    name: str, settings: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValidationError, match=error):
        built(name, 2, 2, **settings)
