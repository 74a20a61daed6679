"""Numbers that stand beside a page of results are on that page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAPERS = ROOT / "benchmarks" / "papers" / "README.md"
TEXTS = [ROOT / "README.md", PAPERS, *sorted((ROOT / "doc" / "guide").glob("*.rst"))]
NUMBER = re.compile(r"(?<![\w.])(?:\d[\d,]*)?\.?\d+(?![\w])")
#: Differences of two numbers of the page, by text and number.
DIFFERENCES = {
    ("hdp.rst", "0.06"): (5.378, 5.317),
    ("hdp.rst", "0.13"): (5.484, 5.355),
    ("speed.rst", "0.2"): (7.655, 7.423),
    ("speed.rst", "0.15"): (6.989, 6.834),
    ("speed.rst", "0.02"): (6.820, 6.796),
    ("speed.rst", "0.12"): (6.397, 6.276),
    ("speed.rst", "0.01"): (6.811, 6.800),
    ("speed.rst", "0.22"): (6.711, 6.486),
    ("speed.rst", "0.06"): (7.139, 7.075),
    ("papers", ".09"): (7.372, 7.281),
}
#: Numbers beside a page that are not results: sizes of data, settings, sums of a page.
GIVEN = {
    "README.md": {"400"},  # 50 fits for each of four faults and two estimators
    "cluster.rst": {"600,000", "137", "8.4"},  # 599,952 rows; the rest of two rows
    "component_analysis.rst": {"64", "60", "200"},
    "dependent_trees.rst": {"20", "40"},
    "gibbs_hdp.rst": {"150", "2,018"},
    "hdp.rst": {"15", "60", "68", "190", "300", "487", "2,018", "390,000"},
    "how_many_topics.rst": {"2,018"},
    "nested_crp.rst": {"600"},
    # sections, equations, sizes that a paper names, and what follows from rows of the
    # cost model
    "papers": {"4.1", "4.2", "7", "19", "21", "64", "8.4", "3.85", "1.6", "137"},
    "pitfalls.rst": {"9,500"},
    "short_texts.rst": {"200", "400"},
    "speed.rst": {"10", "2,000", "135,000"},
    "stick_breaking_hdp.rst": {"2,018", "135,000"},
    "streams.rst": {"24", "250", "1,685", "135,000"},
}


def name_of(path):
    """Name of a text."""
    return "papers" if path == PAPERS else path.name


def paragraphs(text):
    """Yield pages that a paragraph, item or row cites, and its numbers."""
    for paragraph in re.split(r"\n\s*\n|\n *(?:\* )?- |\n(?=\|)", text):
        pages = [
            RESULTS / f"{name}.md"
            for name in re.findall(r"(\w+)\.md", paragraph)
            if (RESULTS / f"{name}.md").exists()
        ]
        if pages:
            yield pages, NUMBER.findall(paragraph)


def numbers_of(pages):
    text = " ".join(page.read_text(encoding="utf-8") for page in pages)
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def rounds_to(value, number):
    """Whether a value, itself rounded to three decimals, rounds to a printed number."""
    digits = number.replace(",", "")
    if "." in digits:
        place = -len(digits.partition(".")[2])
    else:  # thousands may be rounded to as many digits as there are before zeros
        place = len(digits) - len(digits.rstrip("0")) if len(digits) > 3 else 0
    return abs(value - float(digits)) <= 0.5 * 10**place + 5.1e-4


def not_on_pages(name, text):
    """Numbers of a text that the cited pages neither have nor differ by."""
    lost = []
    for pages, printed in paragraphs(text):
        known = numbers_of(pages)
        for number in set(printed) - GIVEN.get(name, set()):
            one, other = DIFFERENCES.get((name, number), (0.0, 0.0))
            differ = {one, other} <= set(known) and rounds_to(one - other, number)
            if not (differ or any(rounds_to(value, number) for value in known)):
                lost.append(number)
    return lost


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_numbers_beside_a_page_of_results_are_on_it(path):
    lost = not_on_pages(name_of(path), path.read_text(encoding="utf-8"))
    assert not lost, f"{lost} are on no page beside them; GIVEN lists what is no result"


@pytest.mark.parametrize("number", ["0.123", "-7.777", "711", "544", "151,000"])
def test_a_number_of_an_older_page_is_reported(number):
    text = f"Scores end {number} apart (``benchmarks/results/hdp_stream.md``)."
    assert not_on_pages("streams.rst", text) == [number.lstrip("-")]
