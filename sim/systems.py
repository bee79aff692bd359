"""Programs that users run, as the settings that they can reach, and the flags that reach them.

Only flags that exist: docs/flags.md names the file or page of each. A program's loop cannot be chosen; its R is
one more than the number of tokens that it is told to draft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sim.setting import Setting, Value, parameters, parse_drafter

KEYS = (1, 2, 3, 4, 5)
LONG_KEYS = (2, 3, 4, 6, 8, 12, 16, 24)


@dataclass(frozen=True, slots=True)
class System:
    """A program: the settings that it can reach with passes of some rows, and the flags of each."""

    reach: Callable[[Sequence[int]], Iterator[Setting]]
    flags: Callable[[Setting], str]

    def settings(self, n_rows: Sequence[int]) -> list[Setting]:
        """The settings, each once."""
        return list(dict.fromkeys(self.reach(n_rows)))


def value(setting: Setting, parameter: str) -> Value:
    """A parameter of a setting's drafter, its default where none is given.

    >>> value(Setting("carry", 6, "hf-prompt-lookup"), "n_max")
    2
    """
    name, given = parse_drafter(setting.drafter)
    usual = parameters(name)[parameter]
    assert isinstance(usual, int | float | str)
    return given.get(parameter, usual)


def _copying(drafter: str, keys: Sequence[tuple[str, ...]]) -> Callable[[Sequence[int]], Iterator[Setting]]:
    """Settings of a drafter whose shorter drafts begin its longer ones: one look-up serves every R."""

    def reach(n_rows: Sequence[int]) -> Iterator[Setting]:
        most = max(n_rows, default=2) - 1
        usual = parameters(drafter)["n_draft"]
        long = [f"n_draft={most}"] if isinstance(usual, int) and usual < most else []
        for words in keys:
            spec = " ".join([drafter, *words, *long])
            yield from (Setting("carry", r, spec) for r in n_rows)

    return reach


def _simple(n_rows: Sequence[int]) -> Iterator[Setting]:
    """`ngram-simple` drops drafts shorter than its key, so the key is at most as long as the draft."""
    for r in n_rows:
        yield from (Setting("carry", r, f"ngram-simple n_key={n} n_draft={r - 1}") for n in LONG_KEYS if n < r)


def _vllm(n_rows: Sequence[int]) -> Iterator[Setting]:
    keys = [(f"n_max={high}", f"n_min={low}") for high in KEYS for low in KEYS if low <= high]
    yield from _copying("vllm-ngram", keys)(n_rows)


def _suffix(n_rows: Sequence[int]) -> Iterator[Setting]:
    yield from (Setting("carry", r, f"arctic-suffix n_draft={r - 1}") for r in n_rows)


def _hf_flags(s: Setting) -> str:
    return f"model.generate(..., prompt_lookup_num_tokens={s.rows - 1}, max_matching_ngram_size={value(s, 'n_max')})"


def _python_flags(s: Setting) -> str:
    return (
        "Llama(..., draft_model=LlamaPromptLookupDecoding("
        f"max_ngram_size={value(s, 'n_max')}, num_pred_tokens={s.rows - 1}))"
    )


def _server_flags(s: Setting) -> str:
    n, m = value(s, "n_key"), value(s, "n_draft")
    return f"llama-server --spec-type ngram-simple --spec-ngram-simple-size-n {n} --spec-ngram-simple-size-m {m}"


def _vllm_flags(s: Setting) -> str:
    return (
        f"""vllm serve ... --speculative-config '{{"method": "ngram", "num_speculative_tokens": {s.rows - 1}, """
        f""""prompt_lookup_max": {value(s, "n_max")}, "prompt_lookup_min": {value(s, "n_min")}}}'"""
    )


def _suffix_flags(s: Setting) -> str:
    return (
        f"""vllm serve ... --speculative-config '{{"method": "suffix", "num_speculative_tokens": {s.rows - 1}, """
        '"suffix_decoding_max_cached_requests": 0}\''
    )


SYSTEMS: dict[str, System] = {
    "llama-server": System(_simple, _server_flags),
    "llama.cpp lookup": System(
        _copying("llama-lookup", [()]), lambda s: f"llama-lookup --spec-draft-n-max {s.rows - 1}"
    ),
    "llama-cpp-python": System(_copying("llama-cpp-python", [(f"n_max={n}",) for n in KEYS]), _python_flags),
    "HF transformers": System(_copying("hf-prompt-lookup", [(f"n_max={n}",) for n in KEYS]), _hf_flags),
    "vLLM, n-gram": System(_vllm, _vllm_flags),
    "vLLM, suffix": System(_suffix, _suffix_flags),
}
