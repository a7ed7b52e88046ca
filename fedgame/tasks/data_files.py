"""Data sets that lie in files: found or downloaded, and named in one line where they are not right.

torchvision defines the layouts and does the downloading. The bytes are read here and not by its
data set classes, which verify nothing once files are unpacked (MNIST) or unpickle what they find
(CIFAR-10).
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from fedgame.errors import DataError
from fedgame.tasks.base import DataSource

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class RawSplit:
    """One of the two halves of an image data set as it is on disk.

    Attributes:
        images: uint8, shape (n, ...).
        labels: uint8 class numbers from 0, shape (n,).
    """

    images: Pixels
    labels: Pixels


@dataclass(frozen=True)
class FileSet:
    """The files of one data set in torchvision's layout.

    Attributes:
        title: Name of the data set, as errors show it.
        folder: Where the files lie, relative to `task.data-dir`.
        checksums: MD5 of each file, by its name; of the unpacked one if it may lie compressed.
        fetch: Downloads the data set into an empty folder, which then has `folder` with all files.
        compressed: Whether `NAME.gz` does where NAME is absent.
    """

    title: str
    folder: str
    checksums: Mapping[str, str]
    fetch: Callable[[Path], None]
    compressed: bool = False

    def locate(self, source: DataSource) -> dict[str, Path]:
        """Return where each file is, after a download if some are missing and that is allowed.

        Raises:
            DataError: A file is missing and may not or cannot be downloaded; the text names the
                keys to change.
        """
        if not source.data_dir:
            raise DataError(
                f"task.data-dir = '': must be the folder that holds {self.folder}, or an empty one"
                " with task.download = true"
            )
        root = Path(source.data_dir)
        paths = self._present(root)
        missing = [name for name in self.checksums if name not in paths]
        if missing and not source.download:
            raise DataError(
                f"{self.title} is incomplete in {root / self.folder}: no {', '.join(missing)}"
                f"{' (or .gz)' if self.compressed else ''}; set task.data-dir to the folder that"
                f" holds {self.folder}, or set task.download = true"
            )
        if missing:
            self._download(root, missing)
            paths = self._present(root)
        return paths

    def verify(self, path: Path, content: bytes, source: DataSource) -> None:
        """Compare a file's (unpacked) content with its checksum, unless the source says not to.

        Raises:
            DataError: The content is not the published one.
        """
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        published = self.checksums[path.name.removesuffix(".gz")]
        if source.verify_checksums and digest != published:
            raise altered(
                path,
                f"its MD5 is {digest}, the published one {published} (task.verify-checksums = false"
                " takes it as it is)",
            )

    def _present(self, root: Path) -> dict[str, Path]:
        """Return where each file is; the unpacked one where both forms are there."""
        folder = root / self.folder
        suffixes = (".gz", "") if self.compressed else ("",)
        candidates = [(name, folder / (name + end)) for end in suffixes for name in self.checksums]
        try:
            return {name: path for name, path in candidates if path.is_file()}
        except OSError as error:
            raise DataError(
                f"task.data-dir: {folder} cannot be looked into: {error.strerror}"
            ) from error

    def _download(self, root: Path, names: Sequence[str]) -> None:
        target = root / self.folder
        try:
            target.mkdir(parents=True, exist_ok=True)
            # Moved into place whole: neither a crash nor a second process leaves half a file.
            with TemporaryDirectory(dir=root) as staging:
                self.fetch(Path(staging))
                for name in names:
                    (Path(staging) / self.folder / name).replace(target / name)
        except (RuntimeError, OSError, EOFError) as error:
            reason = " ".join(str(error).split())
            raise DataError(
                f"{self.title} could not be downloaded into {target} ({reason}): put the"
                f" {len(self.checksums)} files there by hand, or point task.data-dir to a folder"
                " that has them"
            ) from error


def read_content(path: Path) -> bytes:
    """Return the content of a file, unpacked where its name ends in .gz.

    Raises:
        DataError: The file cannot be read or unpacked.
    """
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise altered(path, str(error)) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def altered(path: Path, reason: str) -> DataError:
    """Return the error that names a file and what is wrong with its content."""
    return DataError(
        f"{path} is truncated or altered: {reason}; delete it and set task.download = true to get"
        " it again"
    )
