"""Pickles are read as data: what names code is refused before that code could run."""

from __future__ import annotations

import codecs
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgame.tasks.plain_pickle import PickledArray, load_plain_pickle
from tests.tasks.cifar_files import python2_batch, python3_batch

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(min_size=1),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(value=plain, protocol=st.integers(0, 5))
def test_plain_values_come_back(value: object, protocol: int) -> None:
    assert load_plain_pickle(pickle.dumps(value, protocol=protocol)) == value


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple),
    fortran=st.booleans(),
    seed=st.integers(0, 9),
)
def test_byte_arrays_come_back(shape: tuple[int, ...], fortran: bool, seed: int) -> None:
    array = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    array = np.asfortranarray(array) if fortran else array
    read = load_plain_pickle(pickle.dumps(array, protocol=2))
    assert isinstance(read, PickledArray)
    np.testing.assert_array_equal(read.values, array)


@pytest.mark.parametrize("write", [python2_batch, python3_batch])
def test_batches_of_either_python_are_read(write: Callable[..., bytes]) -> None:
    data = np.arange(512, dtype=np.uint16).astype(np.uint8).reshape(2, 256)
    batch = load_plain_pickle(write("a batch", data, [3, 300]))
    assert isinstance(batch, dict)
    assert (batch["batch_label"], batch["labels"]) == ("a batch", [3, 300])
    np.testing.assert_array_equal(batch["data"].values, data)


def test_every_truncation_is_refused() -> None:
    content = python2_batch("t", np.zeros((1, 9), np.uint8), [1])
    for end in range(len(content)):
        with pytest.raises(ValueError, match=r".") as caught:
            load_plain_pickle(content[:end])
        assert "\n" not in str(caught.value)


class Call:
    """Pickled as a call of `function`."""

    def __init__(self, function: Callable[..., Any], *arguments: object) -> None:
        self._function, self._arguments = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        return self._function, self._arguments


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (os.system, ("touch {}",)),
        (eval, ("open('{}', 'w')",)),
        (os.mkdir, ("{}",)),
        (Path, ("{}",)),
    ],
)
def test_code_that_a_pickle_names_is_not_run(
    tmp_path: Path, protocol: int, function: Callable[..., Any], arguments: tuple[str, ...]
) -> None:
    target = tmp_path / "made by the pickle"
    filled = [argument.format(target) for argument in arguments]
    content = pickle.dumps({"data": Call(function, *filled)}, protocol=protocol)
    with pytest.raises(ValueError, match=r"^it names '[\w.]+', which is not data$"):
        load_plain_pickle(content)
    assert list(tmp_path.iterdir()) == []


def array_with(old: bytes, new: bytes) -> bytes:
    content = pickle.dumps(np.arange(6, dtype=np.uint8), protocol=2)
    assert content.count(old) == 1
    return content.replace(old, new)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pickle.dumps(np.array([print], dtype=object), 2), "an array has type 'O8', not u1"),
        (pickle.dumps(np.arange(3.0), 2), "an array has type 'f8', not u1"),
        (
            pickle.dumps(Call(codecs.encode, "", "zlib"), 2),
            "a text is encoded by 'zlib', not latin",
        ),
        (pickle.dumps(Call(codecs.encode, b"", "latin1"), 3), "a text is encoded by"),
        (pickle.dumps({1, 2}, 2), "it names '__builtin__.set'"),
        (b"\x80\x02cnumpy\nndarray\n)R.", "numpy.ndarray is called"),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "NEWOBJ"),
        (b"\x80\x02cnumpy\nndarray\n}b.", "a name is given a state"),
        (b"\x80\x02c_codecs\nencode\nN}U\x05_callK\x01s\x86b.", "a name is given a state"),
        (b"\x80\x02cos\n\x1b[31m\n.", r"it names 'os\.\\x1b\[31m'"),
        (b"\x80\x02\x82\x01.", "unregistered extension code 1"),
        (b"Pabc\n.", "persistent"),
        (array_with(b"K\x06\x85", b"K\x07\x85"), r"6 bytes for an array of shape \(7,\)"),
        (array_with(b"K\x06\x85", b"J\xfa\xff\xff\xff\x85"), "not made of bytes"),
        (array_with(b"K\x06\x85", b"\x88\x85"), "not made of bytes"),
        (array_with(b"K\x06\x85", b"K\x06"), "."),
        (python2_batch("t", np.zeros((1, 9), np.uint8), [1]) + b"more", "4 bytes after its end"),
        (b"", "Ran out of input"),
        (b"<html>", "invalid load key"),
    ],
)
def test_what_is_not_data_is_refused_in_one_line(content: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        load_plain_pickle(content)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_long_name_does_not_make_a_long_line() -> None:
    with pytest.raises(ValueError, match=r"^it names 'aaa") as caught:
        load_plain_pickle(b"\x80\x02c" + b"a" * 10_000 + b"\nb\n.")
    assert len(str(caught.value)) <= 200


def test_a_refused_pickle_changes_nothing_for_the_next() -> None:
    good = python2_batch("t", np.ones((1, 9), np.uint8), [1])
    for hostile in (b"\x80\x02cnumpy\ndtype\nN}U\x05_callK\x01s\x86b.", good[:-20]):
        with pytest.raises(ValueError, match=r"."):
            load_plain_pickle(hostile)
        assert isinstance(load_plain_pickle(good), dict)
