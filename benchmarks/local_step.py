"""How much longer a private local step takes than a plain one.

Beside each private step (clipping by book-keeping, then the mechanism's release) runs the same step
without privacy: forward, backward, SGD. Both run in turn on one thread; what is compared is the
thread's CPU time, so that other work on the machine disturbs it little.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional

from fedgame.mechanisms.base import ClientContext, Mechanism
from fedgame.mechanisms.bookkeeping import PerExampleClipper
from fedgame.mechanisms.gaussian import Gaussian
from fedgame.mechanisms.jko import Jko

BATCHES = (50, 200, 600)
SECONDS_EACH = 5.0
LEAST_REPEATS = 7
MOST_REPEATS = 60
STRENGTHS = np.array([1e-4])

MECHANISMS: dict[str, Mechanism] = {"gaussian": Gaussian(), "jko": Jko()}


def mlp() -> nn.Module:
    """Return the perceptron 784-128-64-10."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 128),
        nn.ReLU(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def cnn() -> nn.Module:
    """Return a small convolutional network: 2 convolutions, 2x2 max pooling, 2 linear layers."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


MODELS: dict[str, Callable[[], nn.Module]] = {"MLP": mlp, "CNN": cnn}


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return each example's cross entropy."""
    return functional.cross_entropy(outputs, targets, reduction="none")


class Steps:
    """One batch of random pictures, and the steps that can be taken on it."""

    def __init__(self, model: str, batch: int) -> None:
        """Draw the batch and prepare the plain and the private model."""
        rng = np.random.default_rng(0)
        self.inputs = rng.normal(size=(batch, 1, 28, 28)).astype(np.float32)
        self.targets = rng.integers(0, 10, batch)
        self._plain = MODELS[model]()
        self._optimizer = torch.optim.SGD(self._plain.parameters(), lr=0.1)
        self._x, self._y = torch.tensor(self.inputs), torch.tensor(self.targets)
        self._clipper = PerExampleClipper(self._plain, losses)
        self._sizes = [parameter.numel() for parameter in self._plain.parameters()]
        flat = nn.utils.parameters_to_vector(self._plain.parameters()).detach()
        self._states = flat.double().numpy()[None]
        self._noise = rng.standard_normal(self._states.shape)
        self._context = ClientContext(
            num_examples=10 * batch, sampling_rate=0.1, clipping_norm=1.0, neighbours="example"
        )

    def plain(self) -> None:
        """Take a step of SGD on the mean loss."""
        self._optimizer.zero_grad()
        torch.autograd.backward(losses(self._plain(self._x), self._y).mean())
        self._optimizer.step()

    def clip(self) -> None:
        """Compute the clipped sum alone."""
        parameters = self._states[0].astype(np.float32)
        total = self._clipper.clipped_sum(parameters, self.inputs, self.targets, 1.0)
        self._gradients = total.value[None] / self._context.divisor

    def private(self, mechanism: Mechanism) -> None:
        """Take a private step, its normal draws at hand."""
        self.clip()
        mechanism.release(
            self._states, self._gradients, STRENGTHS, [self._context], self._noise, self._sizes
        )

    def draw(self) -> None:
        """Draw the normals of one step."""
        np.random.Generator(np.random.Philox(key=1)).standard_normal(self._states.shape)

    def jobs(self) -> dict[str, Callable[[], None]]:
        """Return what is timed, by name."""
        private = {
            name: lambda mechanism=mechanism: self.private(mechanism)
            for name, mechanism in MECHANISMS.items()
        }
        return {"plain": self.plain, "clip": self.clip, **private, "draw": self.draw}


@dataclass(frozen=True)
class Measured:
    """One row of the table.

    Attributes:
        milliseconds: Median CPU time of the plain step.
        ratios: Median over repeats of each job's time over the plain step's beside it.
        mebibytes: Growth of the process's peak memory, of a plain and of a private step.
    """

    milliseconds: float
    ratios: dict[str, float]
    mebibytes: tuple[float, float]


def measure(model: str, batch: int) -> Measured:
    """Time all jobs in turn until the time is up."""
    jobs = Steps(model, batch).jobs()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()
    deadline = time.perf_counter() + SECONDS_EACH
    for repeat in range(MOST_REPEATS):
        if repeat >= LEAST_REPEATS and time.perf_counter() > deadline:
            break
        for name, job in jobs.items():
            start = time.thread_time()
            job()
            seconds[name].append(time.thread_time() - start)
    ratios = {
        name: median(own / plain for own, plain in zip(times, seconds["plain"], strict=True))
        for name, times in seconds.items()
    }
    memory = (peak_growth(model, batch, "plain"), peak_growth(model, batch, "gaussian"))
    return Measured(1e3 * median(seconds["plain"]), ratios, memory)


def peak_growth(model: str, batch: int, job: str) -> float:
    """Return by how many MiB three runs of a job raise the peak memory of a fresh process."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_growth, args=(sender, model, batch, job))
    process.start()
    growth: float = receiver.recv()
    process.join()
    return growth


def _send_growth(
    sender: multiprocessing.connection.Connection, model: str, batch: int, job: str
) -> None:
    run = Steps(model, batch).jobs()[job]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        run()
    sender.send((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    table = Table(
        title="A private local step beside a plain one: CPU time of one thread",
        caption="In multiples of the plain step. clip: the clipped sum alone; gaussian, jko: with "
        "the release; draw: the normals of one step, needed besides. MiB: growth of peak memory.",
    )
    table.add_column("model, batch", no_wrap=True)
    for column in ("plain", "clip", *MECHANISMS, "draw", "plain", "gaussian"):
        table.add_column(column, justify="right")
    for model in MODELS:
        for batch in BATCHES:
            row = measure(model, batch)
            table.add_row(
                f"{model}, {batch}",
                f"{row.milliseconds:.1f} ms",
                *(f"{row.ratios[job]:.2f}" for job in ("clip", *MECHANISMS, "draw")),
                *(f"{peak:.0f} MiB" for peak in row.mebibytes),
            )
    Console().print(table)


if __name__ == "__main__":
    main()
