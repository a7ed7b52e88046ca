"""A Flower app folder made from the installed package, so that a wheel is enough to run."""

from __future__ import annotations

import shutil
from importlib.metadata import metadata
from pathlib import Path

import fedgame

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "fedgame"
version = "{version}"
description = "{summary}"
license = "Apache-2.0"
requires-python = "{python}"
dependencies = [
{dependencies}]

[tool.hatch.build.targets.wheel]
packages = ["fedgame"]

[tool.flwr.app]
publisher = "fedgame"
fab-include = ["fedgame/**/*.py"]

[tool.flwr.app.components]
serverapp = "fedgame.server_app:app"
clientapp = "fedgame.client_app:app"

[tool.flwr.app.config]
{config_keys}"""


def stage_app(folder: Path, config_keys: str) -> Path:
    """Copy the package into `folder` and describe it as a Flower app.

    Args:
        folder: Where to make the app; it is created and must not exist.
        config_keys: Body of [tool.flwr.app.config]: Flower accepts only keys that stand there.

    Returns:
        The folder, ready for `flwr run`.
    """
    package = Path(fedgame.__file__).parent
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(package, folder / "fedgame", ignore=ignore)
    (folder / "pyproject.toml").write_text(_pyproject(config_keys), encoding="utf-8")
    return folder


def _pyproject(config_keys: str) -> str:
    about = metadata("fedgame")
    # a SuperLink of the user's may install what the app names; development tools have no place
    required = [line for line in about.get_all("Requires-Dist") or [] if "extra ==" not in line]
    return _PYPROJECT.format(
        version=about["Version"],
        summary=about["Summary"],
        python=about["Requires-Python"],
        dependencies="".join(f"    {_quoted(line)},\n" for line in required),
        config_keys=config_keys,
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", '"') + "'"
