"""`python -m tests.quick_drafters MODULE`: the golden files of one drafter module, with no test runner.

What `tests.mutate` tries first on a mutant of sim/drafters.
"""

from __future__ import annotations

import sys

from tests.test_goldens import (
    LLAMA,
    RECORDED,
    SUFFIX,
    test_drafts_of_whole_runs,
    test_drafts_on_whole_histories,
    test_suffix_tree_where_no_counts_tie,
)

RUNS = {  # module: the names that its drafters have in llamacpp_drafters.json
    "counts": ("lookup", "ngram-cache"),
    "ngram_map": ("ngram-simple", "ngram-map-k", "ngram-map-k4v"),
    "ngram_mod": ("ngram-mod",),
    "base": ("ngram-cache", "ngram-map-k"),
}


def check(module: str) -> None:
    """Compare every draft of the module's golden files."""
    for record in RECORDED if module in ("ngram", "base") else ():
        test_drafts_on_whole_histories(record)
    for record in SUFFIX if module in ("suffix_tree", "automaton") else ():
        test_suffix_tree_where_no_counts_tie(record)
    for record in LLAMA["results"]:
        if record["drafter"] in RUNS.get(module, ()):
            test_drafts_of_whole_runs(record)


if __name__ == "__main__":
    check(sys.argv[1])
