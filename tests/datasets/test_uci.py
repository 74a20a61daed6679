import gzip

import numpy as np
import pytest

from skbnp.datasets import load_uci_bag_of_words

TRIPLES = "1 1 3\n1 3 1\n3 2 2\n"


def write(path, text):
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["docword.txt", "docword.txt.gz"])
def test_file_is_read_as_counts(tmp_path, name):
    path = write(tmp_path / name, f"3\n4\n3\n{TRIPLES}")
    corpus = load_uci_bag_of_words(path)
    expected = [[3, 0, 1, 0], [0, 0, 0, 0], [0, 2, 0, 0]]
    np.testing.assert_array_equal(corpus.data.toarray(), expected)
    assert corpus.data.dtype == np.int64
    assert corpus.feature_names is None


def test_corpus_without_pairs_has_empty_documents(tmp_path):
    path = write(tmp_path / "docword.txt", "2\n3\n0\n")
    assert load_uci_bag_of_words(path).data.toarray().tolist() == [[0] * 3] * 2


def test_vocabulary_names_the_columns(tmp_path):
    path = write(tmp_path / "docword.txt", f"3\n3\n3\n{TRIPLES}")
    vocabulary = write(tmp_path / "vocab.txt", "tree\nleaf\npath\n")
    corpus = load_uci_bag_of_words(path, vocabulary=vocabulary)
    assert corpus.feature_names == ["tree", "leaf", "path"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the first three lines must be numbers"),
        ("3\nx\n3\n", "the first three lines must be numbers"),
        ("3\n-3\n0\n", "the first three lines must be numbers"),
        (f"3\n3\n4\n{TRIPLES}", "4 pairs declared, 3 found"),
        ("3\n3\n0\n1 1 1\n", "0 pairs declared, 1 found"),
        ("3\n3\n1\n1 1\n", "expected lines of three numbers"),
        ("3\n3\n2\n1 1 1\n1 2\n", "after the first three lines"),
        ("3\n3\n1\n1 1 x\n", "after the first three lines"),
        ("3\n3\n2\n1 1 1\n0 1 1\n", "pair 2: document must be in 1..3, got 0"),
        ("3\n3\n2\n1 1 1\n4 1 1\n", "pair 2: document must be in 1..3, got 4"),
        ("3\n3\n1\n1 4 1\n", "pair 1: term must be in 1..3, got 4"),
        ("3\n3\n1\n1 1 -2\n", "pair 1: count must be in 1..inf, got -2"),
        ("3\n3\n3\n1 1 1\n2 1 1\n1 1 1\n", "1 pairs come twice"),
    ],
)
def test_malformed_file_is_refused(tmp_path, text, message):
    path = write(tmp_path / "docword.txt", text)
    with pytest.raises(ValueError, match=f"docword.txt.*{message}"):
        load_uci_bag_of_words(path)
