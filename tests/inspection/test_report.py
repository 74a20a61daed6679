"""A report is a page that stands by itself, whatever the fit."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from checks.corpora import topic_counts
from checks.estimators import DAILY, FIRST, fresh, rows_of
from checks.long import daily
from skbnp import HDP, GibbsHDP
from skbnp.inspection import report, set_topic_names, topic_shares

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Tags, ids, links and text of a page; tags that are not closed are refused."""

    def __init__(self, html):
        super().__init__()
        self.open, self.ids, self.links, self.names, self.texts = [], [], [], set(), []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in ("href", "src") if name in given]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def page_of(path):
    html = path.read_text(encoding="utf-8")
    page = Page(html)
    assert not page.names & {"script", "link", "img", "iframe"}
    assert "url(" not in html
    assert "nan" not in re.findall(r"\w+", " ".join(page.texts))
    assert len(set(page.ids)) == len(page.ids)
    assert page.links
    assert all(link[0] == "#" and link[1:] in page.ids for link in page.links)
    return page, " ".join(" ".join(page.texts).split())


@pytest.mark.parametrize(
    "name", daily(6, [*DAILY, "LDA", *(name for name in FIRST if name not in DAILY)])
)
def test_every_fit_has_a_page_that_needs_nothing_else(name, tmp_path):
    estimator = FIRST.get(name, LatentDirichletAllocation(4, random_state=0))
    X = rows_of(estimator, topic_counts(60, 24)) if name in FIRST else None
    X = topic_counts(60, 24) if X is None else X
    model = fresh(estimator).fit(X)
    path = report(model, X, tmp_path / "report.html", n_terms=3, n_documents=2)
    assert path == tmp_path / "report.html"
    page, text = page_of(path)
    assert type(model).__name__ in text
    for name in ("facts", "topics", "methods", "settings"):
        assert name in page.ids
    numbers = [link for link in page.ids if link.startswith("topic-")]
    assert 1 <= len(numbers) <= 20
    assert "max_iter" in text


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    subjects = ["sun rain snow wind hail".split(), "oil coal gas peat wood".split()]
    texts = [
        f"<b>{' '.join(rng.choice(subjects[i % 2], 20))}.</b> & <i>more</i>!"
        for i in range(120)
    ]
    hdp = HDP(n_components=2, split_merge=False, random_state=0)
    return make_pipeline(CountVectorizer(), hdp).fit(texts), texts


def test_texts_and_names_are_escaped(fit, tmp_path):
    model, texts = fit
    numbers = model[-1].component_ids_.tolist()
    set_topic_names(model, {numbers[0]: "<script>alert(1)</script>"})
    page, text = page_of(report(model, iter(texts), tmp_path / "a", title="A <b> & c"))
    set_topic_names(model, None)
    assert not page.names & {"i", "script"} - {"i"}
    assert "<script>alert(1)</script>" in text
    assert "A <b> & c" in text
    assert "<i>more</i>" in " ".join(texts)


def test_page_has_terms_shares_documents_and_the_methods(fit, tmp_path):
    model, texts = fit
    _, text = page_of(report(model, texts, tmp_path / "a"))
    for word in "sun rain snow wind hail oil coal gas peat wood".split():
        assert word in text
    shares = topic_shares(model, texts, np.zeros(120).astype(str), merge_similarity=1.0)
    for k in (0, 1):
        interval = f"{shares.low[0, k]:.2%} – {shares.high[0, k]:.2%}"
        assert interval in text
    methods = text[text.index("We fitted a") :]
    assert "hierarchical Dirichlet process topic model" in methods
    assert "n_components=2, split_merge=False" in methods
    assert "random_state was 0" in methods
    assert "Bryant" in methods
    assert "CountVectorizer()" in text


def test_lines_below_headings_are_left_out(fit, tmp_path):
    model, texts = fit
    ruled = [f"Weather\n=======\n{text} -- {text} ... ---------" for text in texts]
    _, text = page_of(report(model, ruled, tmp_path / "a"))
    assert "==" not in text
    assert "-----" not in text
    assert " -- " in text


def test_titles_stand_for_rows_of_a_matrix(tmp_path):
    X = topic_counts(60, 24)
    hdp = HDP(n_components=3, random_state=0).fit(X)
    titles = [f"Title <{i}>" for i in range(60)]
    _, text = page_of(report(hdp, X, tmp_path / "a", documents=titles))
    assert "Title <" in text
    with pytest.raises(ValueError, match="an entry for each of 60 rows of X, got 2"):
        report(hdp, X, tmp_path / "b", documents=titles[:2])
    assert not (tmp_path / "b").exists()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_is_not_to_be_trusted_stands_on_the_page(tmp_path):
    X = topic_counts(60, 24)
    short = HDP(max_iter=2, tol=0.0, random_state=0).fit(X)
    assert not short.converged_
    _, text = page_of(report(short, X, tmp_path / "a"))
    assert "Increase max_iter: the fit has not converged" in text
    chains = GibbsHDP(max_iter=20, n_chains=2, random_state=0)
    chains.fit(X)
    _, text = page_of(report(chains, X, tmp_path / "b"))
    assert "topics median" in text
    settled = HDP(n_components=3, random_state=0).fit(X)
    _, text = page_of(report(settled, X, tmp_path / "c"))
    assert "has not converged" not in text
