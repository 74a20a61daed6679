"""Parameters that no fit could follow are refused by name."""

import pytest
from sklearn.utils._param_validation import InvalidParameterError

from skbnp import GibbsHDP, GibbsNestedCRP, NestedCRP, StickBreakingHDP


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (GibbsHDP, "n_components", 2**62),
        (GibbsHDP, "n_chains", 10**9),
        (GibbsNestedCRP, "max_depth", 255),
        (NestedCRP, "max_depth", 255),
    ],
)
def test_more_than_a_fit_could_do_is_refused(kind, name, value, counts):
    with pytest.raises(InvalidParameterError, match=f"'{name}' .*range"):
        kind(**{name: value}).fit(counts)


def test_chunks_keep_the_truncation_of_the_first(counts):
    hdp = StickBreakingHDP(5, random_state=0).partial_fit(counts)
    with pytest.raises(ValueError, match=r"max_components=7 in partial_fit, but .* 5"):
        hdp.set_params(max_components=7).partial_fit(counts)
    assert hdp.n_iter_ == 1
    assert hdp.set_params(max_components=5).partial_fit(counts).n_iter_ == 2
