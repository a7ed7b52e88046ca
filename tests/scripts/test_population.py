"""The measurement of large populations: its memory watch, its figure, its table."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from scripts import population
from scripts.population_figure import scaling_figure
from scripts.tables import population_table

ROWS = [
    {
        "task": task,
        "clients": str(clients),
        "choice_seconds": "0.5",
        "plain_seconds": "0.25",
        "first_seconds": "1.5",
        "run_seconds": "20.4",
        "peak_mebibytes": "1536",
        "folder_mebibytes": "4.52",
    }
    for task in population.TASKS
    for clients in (1000, 10)
]


def test_the_memory_of_a_process_and_of_its_children_is_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(population, "PAUSE", 0.05)
    hold = "import time; block = bytearray({} * 2**20); time.sleep(1.5)"
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{hold.format(60)}'])"
    program = f"{child}; {hold.format(30)}"
    with (
        subprocess.Popen([sys.executable, "-c", program]) as process,
        population.Memory(process.pid) as memory,
    ):
        process.wait()
        time.sleep(0.1)
    assert 90 <= memory.peak_kibibytes / 2**10 < 200


def test_the_figure_shows_the_cost_of_a_client() -> None:
    figure = scaling_figure(ROWS)
    cost = figure.data[1]
    assert cost.name == "logistic, nobody chooses"
    assert list(cost.x) == [10, 1000]
    assert list(cost.y) == pytest.approx([25_000, 250])
    assert list(figure.data[2].y) == pytest.approx([1.5, 1.5])


def test_the_table_has_a_line_a_run() -> None:
    lines = population_table(ROWS)
    assert lines[2] == (
        "| logistic | 10 | 0.50 s | 0.25 s | 25000 us | 1.50 s | 20 s | 1.5 GiB | 4.5 MiB |"
    )
    assert len(lines) == 2 + len(ROWS)
