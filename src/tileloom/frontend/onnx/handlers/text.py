"""Strings, and label and n-gram encoders: evaluated while the graph is made."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ....base.errors import ShapeError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..registry import handler
from ..values import Array, Value, as_object_array, constant_of, value_of


def _strings(call: Call, index: int) -> Array:
    array = call.array(index)
    if array.dtype != np.dtype(object):
        raise UserError(f"input {index} must hold strings")
    return array


@handler("StringConcat")
def string_concat(call: Call) -> Value:
    left, right = _strings(call, 0), _strings(call, 1)
    try:
        return np.asarray(left + right, object)
    except ValueError:
        raise ShapeError(f"shapes {left.shape} and {right.shape} do not broadcast") from None


@handler("StringSplit")
def string_split(call: Call) -> tuple[Value, ...]:
    x = _strings(call, 0)
    delimiter = call.text("delimiter", "") or None
    most = call.integer("maxsplit", -1)
    pieces = [item.split(delimiter, most) for item in x.reshape(-1).tolist()]
    width = max((len(line) for line in pieces), default=0)
    padded = [word for line in pieces for word in [*line, *[""] * (width - len(line))]]
    counts = np.array([len(line) for line in pieces], np.int64).reshape(x.shape)
    return as_object_array(padded, (*x.shape, width)), constant_of(counts)


@handler("StringNormalizer")
def string_normalizer(call: Call) -> Value:
    x = _strings(call, 0)
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise ShapeError(f"the strings must be a list, not of shape {list(x.shape)}")
    action = call.choice("case_change_action", "NONE", ("NONE", "LOWER", "UPPER"))
    changes: dict[str, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper}
    change = changes.get(action, str)
    stop = set(call.texts("stopwords", []))
    words = [_without_accents(word) for word in x.reshape(-1).tolist()]
    if call.flag("is_case_sensitive"):
        kept = [change(word) for word in words if word not in stop]
    else:
        folded = {word.casefold() for word in stop}
        kept = [change(word) for word in words if word.casefold() not in folded]
    result = as_object_array(kept or [""])
    return result if x.ndim == 1 else result.reshape(1, -1)


def _without_accents(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


@handler("RegexFullMatch")
def regex_full_match(call: Call) -> Value:
    x, text = _strings(call, 0), call.text("pattern")
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UserError(f"pattern {text!r}: {error}") from None
    found = [pattern.fullmatch(item) is not None for item in x.reshape(-1).tolist()]
    return constant_of(np.array(found, np.bool_).reshape(x.shape))


# ---------------------------------------------------------------------------- encoders


@handler("LabelEncoder", domain="ai.onnx.ml", since=2)
def label_encoder(call: Call) -> Value:
    x = call.array(0)
    keys, values = _labels(call, "keys"), _labels(call, "values")
    if len(keys) != len(values):
        raise UserError(f"{len(keys)} keys for {len(values)} values")
    default = _default_label(call, values.dtype)
    table = {_key(key): value for key, value in zip(keys.tolist(), values.tolist())}
    found = [table.get(_key(item), default) for item in x.reshape(-1).tolist()]
    if values.dtype == np.dtype(object):
        return as_object_array(found, x.shape)
    return value_of(np.array(found, values.dtype).reshape(x.shape))


def _key(item: Any) -> Any:
    """All NaN are one key."""
    return "NaN" if isinstance(item, float) and item != item else item


def _labels(call: Call, part: str) -> Array:
    tensor = call.constant(f"{part}_tensor")
    if tensor is not None:
        return tensor.reshape(-1)
    if f"{part}_floats" in call.attrs:
        return np.array(call.numbers(f"{part}_floats"), np.float32)
    if f"{part}_int64s" in call.attrs:
        return np.array(call.ints(f"{part}_int64s"), np.int64)
    return as_object_array(call.texts(f"{part}_strings"))


def _default_label(call: Call, kind: np.dtype[Any]) -> Any:
    tensor = call.constant("default_tensor")
    if tensor is not None and tensor.size == 1:
        return tensor.reshape(-1)[0]
    if kind == np.dtype(object):
        return call.text("default_string", "_Unused")
    if kind.kind == "f":
        return call.number("default_float", -0.0)
    return call.integer("default_int64", -1)


@handler("Binarizer", domain="ai.onnx.ml")
def binarizer(call: Call) -> Tensor:
    x = call.tensor(0)
    threshold = call.number("threshold", 0.0)
    return ops.cast(ops.greater(x, threshold), x.dtype)


@handler("TfIdfVectorizer")
def tf_idf_vectorizer(call: Call) -> Value:
    x = call.array(0)
    if x.ndim not in (1, 2):
        raise ShapeError(f"the input must have 1 or 2 dimensions, not {x.ndim}")
    grams = _grams(call)
    indexes = call.ints("ngram_indexes")
    if (
        len(grams) != len(indexes)
        or min(indexes, default=0) < 0
        or max(indexes, default=0) > 1 << 24
    ):
        raise UserError(f"{len(indexes)} ngram_indexes for {len(grams)} n-grams")
    size = max(indexes, default=-1) + 1
    rows = [_count(call, row, grams, indexes, size) for row in np.atleast_2d(x).tolist()]
    counts = np.array(rows, np.float32).reshape(-1, size)
    mode = call.choice("mode", "TF", ("TF", "IDF", "TFIDF"))
    weights = np.ones(size, np.float32)
    for place, weight in zip(indexes, call.numbers("weights", [])):
        weights[place] = weight
    if mode == "IDF":
        counts = (counts > 0).astype(np.float32)
    result = counts if mode == "TF" else counts * weights
    return value_of(result if x.ndim == 2 else result.reshape(size))


def _grams(call: Call) -> list[tuple[Any, ...]]:
    """The pool cut into n-grams: `ngram_counts` says where those of each length start."""
    pool: Sequence[Any] = (
        call.texts("pool_strings") if "pool_strings" in call.attrs else call.ints("pool_int64s")
    )
    starts = [*call.ints("ngram_counts"), len(pool)]
    result = []
    for size, (start, stop) in enumerate(pairwise(starts), 1):
        if not 0 <= start <= stop <= len(pool):
            raise UserError(f"ngram_counts {starts[:-1]} do not cut a pool of {len(pool)}")
        result += [tuple(pool[k : k + size]) for k in range(start, stop - size + 1, size)]
    return result


def _count(
    call: Call, row: list[Any], grams: list[tuple[Any, ...]], indexes: list[int], size: int
) -> list[float]:
    low, high = call.integer("min_gram_length"), call.integer("max_gram_length")
    skips = call.integer("max_skip_count")
    if not 1 <= low <= high <= 64 or not 0 <= skips <= len(row) + 64:
        raise UserError(f"unusable gram lengths {low} to {high} with {skips} skips")
    places: dict[tuple[Any, ...], int] = dict(zip(grams, indexes))
    counts = [0.0] * size
    for length in range(low, high + 1):
        # Skipping makes no difference to single items.
        for distance in range(1, (1 if length == 1 else skips + 1) + 1):
            for start in range(len(row) - distance * (length - 1)):
                place = places.get(
                    tuple(row[start : start + distance * length : distance][:length])
                )
                if place is not None:
                    counts[place] += 1
    return counts
