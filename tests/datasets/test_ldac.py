import gzip
from pathlib import Path

import numpy as np
import pytest

from skbnp.datasets import load_ldac, load_uci_bag_of_words


@pytest.fixture
def corpus_file(tmp_path):
    def write(text, name="corpus.dat"):
        path = tmp_path / name
        content = text.encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path

    return write


def as_ldac(counts):
    lines = []
    for row in counts:
        terms = np.flatnonzero(row)
        lines.append(" ".join([str(len(terms)), *(f"{t}:{row[t]}" for t in terms)]))
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("name", "kind"), [("corpus.dat", str), ("corpus.dat.gz", Path)]
)
def test_written_counts_are_read_back(corpus_file, name, kind):
    counts = np.random.RandomState(0).poisson(0.5, size=(30, 12))
    counts[3] = 0
    path = corpus_file(as_ldac(counts), name)
    data = load_ldac(kind(path), n_features=12).data
    np.testing.assert_array_equal(data.toarray(), counts)


@pytest.mark.parametrize("name", ["vocab.txt", "vocab.txt.gz"])
def test_vocabulary_is_read_from_a_file(corpus_file, name):
    vocabulary = corpus_file("naïve\r\nbayes\n\n", name)
    corpus = load_ldac(corpus_file("1 0:3\n"), vocabulary=vocabulary)
    assert corpus.feature_names == ["naïve", "bayes", ""]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "expected the number of terms first, got ''"),
        ("1 0", "expected term:count, got '0'"),
        ("1 0:1.5", "expected term:count, got '0:1.5'"),
        ("1 -1:1", "expected term:count, got '-1:1'"),
        ("1 0:٣", "expected term:count, got '0:٣'"),
        ("1 0:9999999999999999999", "expected term:count"),
        ("1 0:0", "the count of term 0 must be positive, got 0"),
        ("2 1:1 1:2", "term 1 comes twice"),
        ("1 4:1", "term 4 is outside of the 4 terms"),
        ("2 0:1", "2 terms declared, 1 found"),
    ],
)
def test_malformed_line_is_named(corpus_file, line, message):
    path = corpus_file(f"1 0:1\n{line}\n1 0:1\n")
    with pytest.raises(ValueError, match=f"corpus.dat, line 2: {message}"):
        load_ldac(path, n_features=4)


def test_line_that_is_not_text_is_named(tmp_path):
    path = tmp_path / "corpus.dat"
    path.write_bytes(b"1 0:1\n1 \xff:1\n")
    with pytest.raises(ValueError, match="line 2: expected term:count"):
        load_ldac(path)


@pytest.mark.parametrize(("name", "value"), [("path", 3), ("n_features", 0)])
def test_parameter_outside_its_domain_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of load_ldac"):
        load_ldac(**{"path": "corpus.dat", name: value})


TRIPLES = "1 1 3\n1 3 1\n3 2 2\n"


@pytest.mark.parametrize("name", ["docword.txt", "docword.txt.gz"])
def test_file_is_read_as_counts(corpus_file, name):
    path = corpus_file(f"3\n4\n3\n{TRIPLES}", name)
    corpus = load_uci_bag_of_words(path)
    expected = [[3, 0, 1, 0], [0, 0, 0, 0], [0, 2, 0, 0]]
    np.testing.assert_array_equal(corpus.data.toarray(), expected)
    assert corpus.data.dtype == np.int64
    assert corpus.feature_names is None


def test_corpus_without_pairs_has_empty_documents(corpus_file):
    path = corpus_file("2\n3\n0\n")
    assert load_uci_bag_of_words(path).data.toarray().tolist() == [[0] * 3] * 2


def test_vocabulary_names_the_columns(corpus_file):
    path = corpus_file(f"3\n3\n3\n{TRIPLES}")
    vocabulary = corpus_file("tree\nleaf\npath\n", "vocab.txt")
    corpus = load_uci_bag_of_words(path, vocabulary=vocabulary)
    assert corpus.feature_names == ["tree", "leaf", "path"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the first three lines must be numbers"),
        (f"3\n3\n4\n{TRIPLES}", "4 pairs declared, 3 found"),
        ("3\n3\n1\n1 1\n", "expected lines of three numbers"),
        ("3\n3\n2\n1 1 1\n1 2\n", "after the first three lines"),
        ("3\n3\n2\n1 1 1\n4 1 1\n", "pair 2: document must be in 1..3, got 4"),
        ("3\n3\n1\n1 4 1\n", "pair 1: term must be in 1..3, got 4"),
        ("3\n3\n1\n1 1 -2\n", "pair 1: count must be in 1..inf, got -2"),
        ("3\n3\n3\n1 1 1\n2 1 1\n1 1 1\n", "1 pairs come twice"),
    ],
)
def test_malformed_file_is_refused(corpus_file, text, message):
    path = corpus_file(text, "docword.txt")
    with pytest.raises(ValueError, match=f"docword.txt.*{message}"):
        load_uci_bag_of_words(path)
