"""Every registered game, whichever they are."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any, cast

import pytest
from pydantic import ValidationError

from fedgame.games import GAMES


@pytest.fixture(params=sorted(GAMES))
def game(request: pytest.FixtureRequest) -> type[Any]:
    return cast("type[Any]", GAMES.get(request.param))


def test_a_game_bears_its_registered_name(game: type[Any]) -> None:
    assert GAMES.get(game.name) is game


def test_a_game_has_defaults_and_is_frozen(game: type[Any]) -> None:
    built = game()
    for name in [field.name for field in fields(game)]:
        with pytest.raises(FrozenInstanceError):
            setattr(built, name, getattr(built, name))


def test_unknown_settings_are_refused(game: type[Any]) -> None:
    with pytest.raises(ValidationError, match="no_such_setting"):
        game(no_such_setting=1)


def test_every_setting_is_described(game: type[Any]) -> None:
    for field in fields(game):
        assert f"    {field.name}: " in str(game.__doc__)
