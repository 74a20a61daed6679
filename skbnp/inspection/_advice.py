"""Advice in a summary: what to do after a fit."""

from typing import Any

from skbnp.inspection._chains import is_sampler
from skbnp.utils.fitted import fitted_model, is_stream, noun_of, unit_of
from skbnp.utils.mixing import has_mixed, mixing

#: R-hat above which chains are too far apart to be read.
MOST_R_HAT = 1.1
#: Topics of which an outline is of use.
MANY = 20
#: Topics that can be told apart by documents as few as these.
FEW_TOPICS, FEW_DOCUMENTS = 10, 1000


def next_steps(estimator: Any, X: Any, n_active: int) -> list[str]:
    """List at most three sentences on what helps most to trust and to read a fit."""
    model = fitted_model(estimator)
    noun, is_flat = noun_of(model), not hasattr(model, "tree_")
    steps = []
    if getattr(model, "converged_", True) is False and model.n_iter_ > 0:
        steps.append(
            "Follow the score of held-out documents from call to call (HeldOutMonitor):"
            " a stream has no last pass that could converge."
            if is_stream(model)
            else "Increase max_iter: the fit has not converged."
        )
    if is_sampler(model):
        steps += _of_chains(model, noun)
    n_seen = getattr(model, "n_samples_seen_", None)
    if n_seen is not None and n_seen < getattr(model, "_n_enough_docs", 0):
        steps.append(
            f"Fit more rows: {n_seen:,} do not tell how many {noun}s there are."
        )
    if is_flat and n_active > MANY and getattr(model, "split_merge", False):
        n = FEW_TOPICS if n_seen is not None and n_seen < FEW_DOCUMENTS else MANY
        steps.append(
            f"For {n} topics, which are easier to read: {type(model).__name__}("
            f"n_components={n}, split_merge=False)."
        )
    may_ask = not is_flat and getattr(model, "n_themes", 0) is None
    if may_ask and (model.tree_.parent == 0).sum() == 1:
        steps.append(
            "Ask for themes, n_themes=8: the documents alone tell no two apart."
        )
    if X is None and unit_of(model) == "token":
        more = f"groups of {noun}s, " * is_flat
        steps.append(
            f"Give documents, summary(..., X=X): adds {more}a document for each {noun} "
            "and a score."
        )
    elif is_flat and n_active > MANY:
        steps.append(
            "Draw all groups with TopicGroupsDisplay, and join topics that are one to "
            "you with merge_components."
        )
    elif not is_flat:
        steps.append("Draw the tree with TopicTreeDisplay.")
    if X is not None and unit_of(model) == "token":
        steps.append(
            f"Read more documents of a {noun} with top_documents, then name it with "
            "set_topic_names."
        )
    if hasattr(model, "component_ids_") and not is_sampler(model) and is_flat:
        steps.append("Fit other seeds, and see with stability which topics come again.")
    return steps[:3]


def _of_chains(model, noun):
    """Return advice on chains that have not mixed, or are too few."""
    for name in ("n_components", "log_joint"):
        traces = has_mixed(model, name)
        if traces is None:
            return ["Increase max_iter: there are too few sweeps to compare."]
        if mixing(traces)[0] > MOST_R_HAT:
            return [
                "Increase max_iter: the chains disagree, and other sweeps would show "
                f"other {noun}s."
            ]
    if len(set(model.history_["chain"])) == 1:
        return ["Fit with n_chains=4: one chain cannot show that it has settled."]
    if not hasattr(model, "tree_") and len(getattr(model, "samples_", ())) > 1:
        return ["See with consensus_components which topics all samples have."]
    return []
