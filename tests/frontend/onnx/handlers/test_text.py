"""Strings, labels and n-grams: by hand, and against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from frontend.onnx.helpers import check_with_runtime, f32, i64, run_node
from tileloom.base.errors import UserError

ML = "ai.onnx.ml"


def words(*values: Any) -> np.ndarray:
    return np.array(values, object)


def test_strings_are_joined_with_broadcasting() -> None:
    left, right = words("a", "b").reshape(2, 1), words("x", "", "z")
    found = run_node("StringConcat", left, right, opset=20)
    assert found.tolist() == [["ax", "a", "az"], ["bx", "b", "bz"]]
    with pytest.raises(UserError, match="do not broadcast"):
        run_node("StringConcat", words("a", "b"), right, opset=20)


@pytest.mark.parametrize(
    ("attrs", "pieces", "counts"),
    [
        ({}, [["a", "b", "c"], ["d", "", ""]], [3, 1]),
        ({"delimiter": ""}, [["a", "b", "c"], ["d", "", ""]], [3, 1]),
        ({"maxsplit": 1}, [["a", "b  c"], ["d", ""]], [2, 1]),
        ({"delimiter": " "}, [["a", "b", "", "c"], ["d", "", "", ""]], [4, 1]),
        ({"delimiter": "b"}, [["a ", "  c"], ["d", ""]], [2, 1]),
        ({"delimiter": " ", "maxsplit": 2}, [["a", "b", " c"], ["d", "", ""]], [3, 1]),
    ],
)
def test_strings_are_split(
    attrs: dict[str, Any], pieces: list[list[str]], counts: list[int]
) -> None:
    found = run_node("StringSplit", words("a b  c", "d"), opset=20, outputs=2, **attrs)
    assert found[0].tolist() == pieces and found[1].tolist() == counts


def test_no_strings_are_split_into_none() -> None:
    pieces, counts = run_node("StringSplit", words().reshape(0, 2), opset=20, outputs=2)
    assert pieces.shape == (0, 2, 0) and counts.shape == (0, 2)


@pytest.mark.parametrize(
    ("attrs", "wanted"),
    [
        ({}, ["Mon", "tue", "WED"]),
        ({"case_change_action": "LOWER"}, ["mon", "tue", "wed"]),
        ({"case_change_action": "UPPER", "is_case_sensitive": 1}, ["MON", "TUE", "WED"]),
        ({"stopwords": ["mon"]}, ["tue", "WED"]),
        ({"stopwords": ["mon"], "is_case_sensitive": 1}, ["Mon", "tue", "WED"]),
        ({"stopwords": ["tue"], "is_case_sensitive": 1}, ["Mon", "WED"]),
        ({"stopwords": ["MON", "Tue", "wed"]}, [""]),
    ],
)
def test_strings_are_normalized(attrs: dict[str, Any], wanted: list[str]) -> None:
    for shape in ((3,), (1, 3)):
        x = words("Mon", "tue", "WED").reshape(shape)
        found = run_node("StringNormalizer", x, **attrs)
        assert found.ndim == len(shape) and found.reshape(-1).tolist() == wanted


@pytest.mark.parametrize("shape", [(), (2, 1), (1, 1, 2)])
def test_strings_to_normalize_are_a_list(shape: tuple[int, ...]) -> None:
    x = np.full(shape, "a", object)
    with pytest.raises(UserError, match="must be a list"):
        run_node("StringNormalizer", x)


def test_patterns() -> None:
    found = run_node("RegexFullMatch", words("ab", "abc", ""), opset=20, pattern="a.")
    assert found.tolist() == [True, False, False]
    with pytest.raises(UserError, match="pattern"):
        run_node("RegexFullMatch", words("a"), opset=20, pattern="(")
    with pytest.raises(UserError, match="must hold strings"):
        run_node("RegexFullMatch", f32(1), opset=20, pattern="a")


LABELS: list[tuple[np.ndarray, dict[str, Any], list[Any], str]] = [
    (f32(1, np.nan, 3), {"keys_floats": [1.0, float("nan")], "values_int64s": [4, 5],
                         "default_int64": 6}, [4, 5, 6], "int64"),
    (f32(1, np.nan, 3), {"keys_floats": [1.0, 3.0], "values_strings": ["a", "b"]},
     ["a", "_Unused", "b"], "object"),
    (i64(7, 8), {"keys_int64s": [8], "values_floats": [0.5]}, [0, 0.5], "float32"),
    (i64(7, 8), {"keys_int64s": [8], "values_floats": [0.5], "default_float": 2.0}, [2, 0.5],
     "float32"),
    (i64(7, 8), {"keys_int64s": [8], "values_int64s": [3]}, [-1, 3], "int64"),
    (words("a", "b"), {"keys_strings": ["b"], "values_strings": ["c"], "default_string": "d"},
     ["d", "c"], "object"),
]  # fmt: skip


@pytest.mark.parametrize(("x", "attrs", "wanted", "kind"), LABELS)
def test_labels(x: Any, attrs: Any, wanted: Any, kind: Any) -> None:
    found = run_node("LabelEncoder", x, opset=2, domain=ML, **attrs)
    assert found.dtype == kind and found.tolist() == wanted
    found = run_node("LabelEncoder", x.reshape(1, -1, 1), opset=2, domain=ML, **attrs)
    assert found.reshape(-1).tolist() == wanted and found.shape == (1, len(x), 1)


def test_labels_in_tensors() -> None:
    attrs = {
        "keys_tensor": numpy_helper.from_array(np.array([1, 2], "int64")),
        "values_tensor": numpy_helper.from_array(np.array([0.5, 4], "float64")),
        "default_tensor": numpy_helper.from_array(np.array([9.0], "float64")),
    }
    found = run_node("LabelEncoder", i64(2, 3, 1), opset=4, domain=ML, **attrs)
    assert found.dtype == "float64" and found.tolist() == [4, 9, 0.5]


def test_labels_need_a_value_each() -> None:
    with pytest.raises(UserError, match="2 keys for 1 values"):
        run_node("LabelEncoder", i64(1), opset=2, domain=ML, keys_int64s=[1, 2],
                 values_int64s=[1])  # fmt: skip


def test_a_threshold_is_not_above_itself() -> None:
    found = run_node("Binarizer", f32(-1, 0, 2, 3), opset=1, domain=ML, threshold=2.0)
    assert found.tolist() == [0, 0, 0, 1] and found.dtype == "float32"
    assert run_node("Binarizer", f32(-1, 0, 2), opset=1, domain=ML).tolist() == [0, 0, 1]


GRAMS: dict[str, Any] = {
    "min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 2, "ngram_counts": [0, 2, 4],
    "ngram_indexes": [3, 1, 0, 2], "pool_int64s": [2, 5, 5, 4, 2, 5, 4],
}  # fmt: skip
ROWS = np.array([[2, 5, 4, 5, 4, 2], [5, 5, 1, 2, 0, 0], [0, 0, 0, 0, 0, 0]])


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(
    "more",
    [{}, {"max_skip_count": 0}, {"max_gram_length": 1}, {"min_gram_length": 2},
     {"min_gram_length": 3, "max_skip_count": 1}, {"weights": [0.5, 2.0, 4.0, 3.0]}],
)  # fmt: skip
def test_grams_are_counted(mode: str, more: dict[str, Any]) -> None:
    for x in (ROWS, ROWS[0], ROWS[:, :2]):
        check_with_runtime("TfIdfVectorizer", 9, [x], mode=mode, **{**GRAMS, **more})


def test_grams_of_words() -> None:
    attrs: dict[Any, Any] = {
        **GRAMS,
        "pool_strings": ["a", "b", "b", "c", "a", "b", "c"],
        "mode": "TF",
    }
    del attrs["pool_int64s"]
    found = run_node("TfIdfVectorizer", words("b", "a", "b", "c"), opset=9, **attrs)
    # In order of their places: "b c" (twice: next to each other, and over two), "b", "a b c", "a".
    assert found.tolist() == [2, 2, 1, 1]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"min_gram_length": 0}, "unusable gram lengths"),
        ({"min_gram_length": 3, "max_gram_length": 2}, "unusable gram lengths"),
        ({"max_gram_length": 65}, "unusable gram lengths"),
        ({"max_skip_count": -1}, "unusable gram lengths"),
        ({"ngram_counts": [0, 5, 4]}, "do not cut a pool"),
        ({"ngram_counts": [0, 2, 8]}, "do not cut a pool"),
        ({"ngram_counts": [-1, 2, 4]}, "do not cut a pool"),
        ({"ngram_indexes": [3, 1, 0]}, "3 ngram_indexes for 4 n-grams"),
        ({"ngram_indexes": [3, 1, -1, 2]}, "4 ngram_indexes for 4 n-grams"),
    ],
)
def test_grams_that_are_refused(more: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match=text):
        run_node("TfIdfVectorizer", ROWS, opset=9, mode="TF", **{**GRAMS, **more})


@pytest.mark.parametrize("shape", [(), (1, 2, 3)])
def test_grams_of_lists(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="1 or 2 dimensions"):
        run_node("TfIdfVectorizer", np.zeros(shape, "int64"), opset=9, mode="TF", **GRAMS)
