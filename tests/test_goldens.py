"""Every preset against what the real programs drafted and fed: tests/goldens, recorded by running them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sim.answers import recorded
from sim.drafters import DRAFTERS, Drafter
from sim.drafters.suffix_tree import SuffixTree
from sim.machine import next_pass, step
from sim.peers import PEERS
from sim.tokens import Tokens

Record = dict[str, Any]


@cache
def golden(name: str) -> Record:
    record: Record = json.loads((Path(__file__).parent / "goldens" / f"{name}.json").read_text())
    return record


def label(record: Record) -> str:
    name = record.get("name") or f"{record['drafter']}-{record['drive']}"
    return name + "-" + "-".join(str(value) for value in record["params"].values() if isinstance(value, int | float))


# One call on a whole history.

HISTORIES = [history["tokens"] for history in golden("drafters")["histories"]]
ALONE: dict[str, Callable[[Record], Drafter]] = {
    "hf": lambda p: DRAFTERS["hf-prompt-lookup"](
        n_max=p["max_matching_ngram_size"],
        n_draft=p["num_output_tokens"],
        max_length=p["max_length"],
        stops=p["eos_token_id"] or (),
        forbidden=p["suppress_tokens"] or (),
    ),
    "vllm_ngram": lambda p: DRAFTERS["vllm-ngram"](
        n_max=p["prompt_lookup_max"],
        n_min=p["prompt_lookup_min"],
        n_draft=p["num_speculative_tokens"],
        max_length=p["max_model_len"],
    ),
    "llama_cpp_python": lambda p: DRAFTERS["llama-cpp-python"](n_max=p["max_ngram_size"], n_draft=p["num_pred_tokens"]),
    "pld_original": lambda p: DRAFTERS["pld-original"](n_max=p["max_ngram_size"], n_draft=p["num_pred_tokens"]),
}
RECORDED = [record for record in golden("drafters")["drafters"] if record["name"] != "arctic_suffix"]
# Its fifth setting has a tree of three earlier histories, of which two in three are not in this file.
SUFFIX = [record for record in golden("drafters")["drafters"] if "count_tie" in record]


@pytest.mark.parametrize("record", RECORDED, ids=label)
def test_drafts_on_whole_histories(record: Record) -> None:
    mine: list[Any] = []
    for i, history in enumerate(HISTORIES):
        per_history = record.get("per_history_params")
        propose = ALONE[record["name"]](record["params"] | (per_history[i] if per_history else {}))
        try:
            mine.append(list(propose(history)))
        except ValueError:
            mine.append("ValueError")
    assert mine == record["drafts"]


@pytest.mark.parametrize("record", SUFFIX, ids=label)
def test_suffix_tree_where_no_counts_tie(record: Record) -> None:
    p = record["params"]
    n_compared = 0
    for i, history in enumerate(HISTORIES):
        propose = SuffixTree(
            depth=p["max_tree_depth"],
            n_draft=p["max_spec_tokens"],
            factor=p["max_spec_factor"],
            offset=p["max_spec_offset"],
            least=p["min_token_prob"],
        )
        draft = propose(history)
        if not record["count_tie"][i]:
            n_compared += 1
            assert list(draft) == record["drafts"][i]
            assert propose.best.rounded() == pytest.approx(record["scores"][i], abs=1e-6)
            assert not draft or propose.best.match == record["match_lens"][i]
    assert n_compared > len(HISTORIES) / 2


# A whole run: the text is known, the drafter sees it grow.

LLAMA = golden("llamacpp_drafters")


def llama_drafter(record: Record, i: int) -> Drafter:
    p, name, judged = record["params"], record["drafter"], record["drive"] == "loop"
    if name == "lookup":
        texts = LLAMA["extra_texts"]
        dynamic, static = record.get("dynamic_static_index", [[None, None]] * (i + 1))[i]
        return DRAFTERS["llama-lookup"](
            n_draft=p["n_draft"],
            dynamic=[] if dynamic is None else [texts[dynamic]],
            static=[] if static is None else [texts[static]],
        )
    if name == "ngram-cache":
        return DRAFTERS[name](n_draft=p["n_draft"])
    if name == "ngram-simple":
        return DRAFTERS[name](n_key=p["size_n"], n_draft=p["size_m"])
    if name == "ngram-mod":
        return DRAFTERS[name](n_key=p["n_match"], n_draft=p["n_max"], n_draft_min=p["n_min"], judged=judged)
    return DRAFTERS[name](n_key=p["size_n"], n_draft=p["size_m"], min_hits=p["min_hits"], judged=judged)


def drive(propose: Drafter, record: Record, history: Record) -> Record:
    """The drafts of a run, as the golden file writes them: what agrees is accepted, or all is dropped."""
    text, known, n_steps = Tokens(history["tokens"]), history["n_prompt"] + 1, 0
    loop, cut = record["drive"] == "loop", record["drive"] == "loop" and record["drafter"] != "lookup"
    drafts: list[list[Any]] = []
    while known < len(text):
        room = len(text) - known - 1 if cut else len(text)
        draft = propose(text[:known])[:room] if room else ()
        accepted = agreeing(draft, text[known:])
        if draft:
            drafts.append([known, list(draft), accepted])
        known += 1 + accepted if loop else 1
        n_steps += 1
    return {"n_steps": n_steps, "drafts": drafts}


def agreeing(draft: Sequence[int], text: Sequence[int]) -> int:
    n = 0
    while n < min(len(draft), len(text)) and draft[n] == text[n]:
        n += 1
    return n


@pytest.mark.parametrize("record", LLAMA["results"], ids=label)
def test_drafts_of_whole_runs(record: Record) -> None:
    runs = zip(LLAMA["histories"][record["set"]], record["runs"], strict=True)
    for i, (history, expected) in enumerate(runs):
        assert drive(llama_drafter(record, i), record, history) == expected


# The programs' own loops, pass by pass.


def passes(peer: str, case: Record, n_tokens: int, stops: Sequence[int], **parameters: Any) -> Record:
    """Passes, drafts and emitted tokens of a peer over a recorded text, as the golden files write them."""
    answers = recorded([*case["prompt"], *case["output"], *case.get("text_after_output", [])])
    loop, state = PEERS[peer].make(**parameters), PEERS[peer].start(case["prompt"], n_tokens, stops)
    fed: list[list[int]] = []
    drafts: list[list[int]] = []
    emitted: list[int] = []
    while (pass_ := next_pass(loop, state)) is not None:
        after = step(state, pass_, answers(pass_))
        fed.append([pass_.keep, len(pass_.rows)])
        drafts.append(list(pass_.rows[len(state.tokens) - pass_.keep :]))
        emitted.append(len(after.tokens) - len(state.tokens))
        assert pass_.keep == state.cached
        state = after
    assert state.tokens[len(case["prompt"]) :] == case["output"]
    return {"passes": fed, "drafts": drafts, "emitted": emitted}


def expected(case: Record) -> Record:
    return {name: case[name] for name in ("passes", "drafts", "emitted")}


@pytest.mark.parametrize("case", golden("hf_loop")["cases"], ids=lambda case: str(case["id"]))
def test_transformers_loop(case: Record) -> None:
    mine = passes(
        "hf-prompt-lookup",
        case,
        case["max_new_tokens"],
        case["eos_token_id"] or (),
        n_draft=case["prompt_lookup_num_tokens"],
        n_max=case["max_matching_ngram_size"] or 2,
    )
    assert mine == expected(case)


@pytest.mark.parametrize("case", golden("lcp_loop_f32")["cases"], ids=lambda case: str(case["id"]))
def test_llama_cpp_python_loop(case: Record) -> None:
    stops = [golden("lcp_loop_f32")["eos_token_id"]]
    mine = passes(
        "llama-cpp-python",
        case,
        case["max_tokens"],
        stops,
        n_draft=case["num_pred_tokens"],
        n_max=case["max_ngram_size"],
    )
    assert mine == expected(case)


@pytest.mark.parametrize("case", golden("llama_lookup_loop")["cases"], ids=lambda case: str(case["id"]))
def test_llama_lookup_loop(case: Record) -> None:
    stops = [golden("llama_lookup_loop")["eog_token_id"]]
    mine = passes("llama-lookup", case, case["n_predict_argument"], stops, n_draft=case["n_draft_max"])
    assert mine == expected(case)
    assert sum(map(len, mine["drafts"])) == case["reported"]["n_drafted"]
    assert sum(mine["emitted"]) == case["reported"]["n_predict"]


def test_the_interesting_passes_are_in_the_recordings() -> None:
    seen = Counter(feature for case in golden("hf_loop")["cases"] for feature in case["features"])
    assert {
        "full",
        "partial",
        "zero",
        "no_draft",
        "goal_in_verify",
        "rows_beyond_goal",
        "draft_in_first_pass",
    } <= set(seen)
    assert any(
        case["eos_token_id"] and len(case["output"]) < case["max_new_tokens"] for case in golden("hf_loop")["cases"]
    )
    assert any(case["repetition_penalty"] != 1.0 for case in golden("hf_loop")["cases"])
    overrun = [len(case["output"]) - case["n_predict_argument"] for case in golden("llama_lookup_loop")["cases"]]
    assert max(overrun) > 1
    assert min(overrun) < 1
