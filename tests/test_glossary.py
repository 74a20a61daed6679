"""Names in the code are those of the glossary."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Names that are not used again, and the names of the glossary in their place.
FORBIDDEN = {
    "found": "the noun: result, proposal, prediction",
    "said": "local_stats, assignments: the quantity, not who has it",
    "told": "reindexed, message: the operation",
    "world": "state of a sampler, or a Broadcast",
    "heirs": "merged_into",
    "heir": "target of a merge",
    "visitor": "local_step",
    "recall": "initial_local",
    "absorb": "stochastic_update",
    "stale": "init_fraction",
    "blurred": "mean_weight_fraction",
    "apart": "pairs_on_hold",
    "bear": "propose_births",
    "carried": "take_nodes",
    "by_rule": "ignores_bound",
    "holdings": "document_weights",
    "settle": "coordinate_ascent",
    "settling": "is_exact_pass",
    "draw_entropy": "draw_seed_entropy: an entropy is a term of the bound",
    "notice": "propose_late_topics",
    "young": "provisional",
    "surprises": "outliers",
    "Surprises": "Outliers",
    "World": "Broadcast",
    "Visitor": "LocalStep",
    "Said": "ShardStats",
    "Found": "LocalResult",
    "Holdings": "DocumentWeights",
    "Held": "BlockDescription, BlockWeights: what is counted",
    "Memory": "StatisticsCache",
    "DocumentVisitor": "DocumentLocalStep",
    "PathVisitor": "PathLocalStep",
    "RowVisitor": "RowLocalStep",
    "_bring_back": "_revive_nodes",
    "_deliver": "_apply_births",
    "_hand_over": "reassign_history",
    "followed": "reindexed, updated: the operation",
    "held_by": "of_topics",
    "reading_of": "variational_state_of",
    "recalled": "sum_cached",
    "tell_numbers": "send_new_ids",
    "Sight": "EpochGlobals",
    "_let_rival_win": "_learn_rival",
    "_settled": "_ending_at",
    "_staying": "_places_to_keep",
}
FIELDS = ("id", "attr", "arg", "name", "asname")


def names(source):
    """Yield identifiers of a file, and the lines where they stand."""
    for node in ast.walk(ast.parse(source)):
        for field in FIELDS:
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name, getattr(node, "lineno", 0)


def forbidden(source):
    """Names of a file that the glossary replaces."""
    return sorted({name for name, _ in names(source)} & FORBIDDEN.keys())


@pytest.mark.parametrize("folder", ["skbnp", "tests"])
def test_names_are_those_of_the_glossary(folder):
    for path in sorted((ROOT / folder).rglob("*.py")):
        wrong = {name: FORBIDDEN[name] for name in forbidden(path.read_text("utf-8"))}
        assert not wrong, path


@pytest.mark.parametrize(
    "source",
    ["found = 1", "def f(world): ...", "a.said", "f(heirs=1)", "class Visitor: ..."],
)
def test_a_forbidden_name_is_noticed(source):
    assert len(forbidden(source)) == 1
    assert forbidden(f'"""{source}"""  # {source}') == []


def test_identifiers_of_the_glossary_are_in_the_code():
    page = (ROOT / "doc/developer/glossary.rst").read_text("utf-8")
    cells = re.findall(r"\* - (``.*)\n", page)
    listed = {name for cell in cells for name in re.findall(r"``(\w+)``", cell)}
    known = {
        name
        for path in (ROOT / "skbnp").rglob("*.py")
        for name, _ in names(path.read_text("utf-8"))
    }
    assert len(listed) >= 40
    assert listed <= known
