"""Retrieval drafters: guesses copied from the text itself.

A drafter is a pure function of the tokens so far. It keeps an index of the text it has read, extended by what
is new, so that a call costs the length of its keys and not that of the history; any text that does not
continue the one before is read afresh, so nothing is remembered from one run to the next.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.drafters.base import Drafter
from sim.drafters.counts import Lookup, ServerCache
from sim.drafters.ngram import VLLM, HuggingFace, LlamaCppPython, NGram, OriginalPromptLookup
from sim.drafters.ngram_map import MapK, MapK4V, Simple
from sim.drafters.ngram_mod import Mod
from sim.drafters.suffix_tree import SuffixTree

__all__ = ["DRAFTERS", "Drafter", "MakeDrafter", "NGram"]

MakeDrafter = Callable[..., Drafter]

DRAFTERS: dict[str, MakeDrafter] = {
    "ngram": NGram,
    "hf-prompt-lookup": HuggingFace,
    "vllm-ngram": VLLM,
    "llama-cpp-python": LlamaCppPython,
    "pld-original": OriginalPromptLookup,
    "llama-lookup": Lookup,
    "ngram-simple": Simple,
    "ngram-map-k": MapK,
    "ngram-map-k4v": MapK4V,
    "ngram-mod": Mod,
    "ngram-cache": ServerCache,
    "arctic-suffix": SuffixTree,
}
