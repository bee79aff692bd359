"""Advice: the quickest setting with its interval, today's neighbours, the programs' flags, and when not to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from costmodel.profile import Profile
from sim.predict import predict
from sim.setting import Setting
from sim.summary import GREEDY
from sim.systems import SYSTEMS, value
from sim.trace import Header, Text, dumps
from tests.conftest import Outcome
from tests.test_command import refused
from tests.test_sweep import CHEAP, M3MAX, files, texts, words

Program = Callable[..., Outcome]
__all__ = ["files"]


def test_advice_names_the_quickest_its_interval_and_flags(sweepcap: Program, files: tuple[Path, Path]) -> None:
    few = ("--rows", "2..6", "--drafter", "ngram n_max=2,3", "--today", "carry rows=3 hf-prompt-lookup")
    outcome = sweepcap("advise", *words(files), *few, "--json")
    assert outcome.status == 0, outcome
    told = json.loads(outcome.out)
    best = told["best"]
    assert told["speculate"] is True
    assert best["low"] <= best["gain"] <= best["high"]
    assert best["gain"] <= told["oracle"] <= told["perfect"]
    assert told["today"]["lost_with_only_rows"] >= 0 <= told["today"]["lost_with_only_drafter"]
    assert told["today"]["only_rows"]["drafter"] == "hf-prompt-lookup"
    assert told["today"]["only_drafter"]["rows"] == 3
    assert {s["system"] for s in told["systems"]} == set(SYSTEMS)
    for system in told["systems"]:
        assert system["best"]["gain"] <= best["gain"] + 1e-12
    s = Setting(best["loop"], best["rows"], best["drafter"])
    greedy, own = (sum(predict(t, x, CHEAP).seconds for t in texts()) for x in (GREEDY, s))
    assert best["gain"] == pytest.approx(greedy / own, rel=1e-9)
    spoken = sweepcap("advise", *words(files), *few).out
    assert f"Run {best['loop']} R={best['rows']}" in spoken
    assert "llama-lookup --spec-draft-n-max" in spoken
    assert "prompt_lookup_num_tokens=" in spoken


def test_what_is_run_today_may_be_anything(sweepcap: Program, files: tuple[Path, Path]) -> None:
    few = ("--rows", "2..4", "--drafter", "ngram", "--loop", "carry")
    told = json.loads(sweepcap("advise", *words(files), *few, "--today", "greedy", "--json").out)
    assert told["today"]["gain_over_today"] == pytest.approx(told["best"]["gain"])
    assert told["today"]["only_rows"] == told["today"]["only_drafter"] == told["today"]["today"]
    assert "as today" in (spoken := sweepcap("advise", *words(files), *few, "--today", "greedy").out)
    assert "may change" not in spoken
    far = (*few, "--today", "carry rows=17 hf-prompt-lookup n_draft=16")
    refused(sweepcap("advise", *words(files), *far), "the cost table has no passes of 1", "extrapolation")
    outcome = sweepcap("advise", *words(files), *far, "--extrapolate", "--json")
    assert "extrapolated, not measured" in outcome.err
    told = json.loads(outcome.out)["today"]
    assert (told["today"]["rows"], told["only_rows"]["drafter"]) == (17, "hf-prompt-lookup n_draft=16")
    assert told["only_drafter"]["rows"] == 17
    learning = sweepcap(
        "advise", *words(files), *few, "--today", "carry rows=3 ngram-map-k n_key=2 n_draft=2", "--json"
    )
    assert json.loads(learning.out)["today"]["today"]["drafter"] == "ngram-map-k n_key=2 n_draft=2"


def test_where_short_drafts_cost_more_than_they_bring_the_advice_is_not_to_speculate(
    sweepcap: Program, files: tuple[Path, Path]
) -> None:
    """The curve of table-08: with up to 4 rows no draft can pay, with 8 nearly all must be right."""
    files[0].write_bytes(msgspec.json.encode(Profile(source="llama-bench", model="m", cost=M3MAX)))
    told = json.loads(sweepcap("advise", *words(files), "--rows", "2..4", "--json").out)
    assert told["speculate"] is False
    assert told["sure"] == 1.0
    assert told["perfect"] == pytest.approx(1.0)
    assert all(system["best"] is None for system in told["systems"])
    assert "Do not speculate here (100 % sure)" in sweepcap("advise", *words(files), "--rows", "2..4").out
    locked = files[1].parent / "locked.jsonl"
    locked.write_bytes(dumps(Header(), texts()[:1]))
    told = json.loads(sweepcap("advise", "--profile", files[0], "--texts", locked, "--rows", "2..8", "--json").out)
    assert told["speculate"] is True
    assert told["sure"] is None
    assert told["best"]["rows"] == 8
    assert 1.5 < told["best"]["gain"] < 1.618


def test_where_nothing_repeats_nothing_is_drafted_and_nothing_gained(
    sweepcap: Program, files: tuple[Path, Path]
) -> None:
    files[1].write_bytes(dumps(Header(), [Text(name="a", n_prompt=16, tokens=tuple(range(1000, 1080)))]))
    outcome = sweepcap("sweep", *words(files), "--json")
    assert not {"NaN", "Infinity"} & set(outcome.out.replace(",", " ").split())
    for row in json.loads(outcome.out)["settings"]:
        assert (row["n_passes"], row["n_rows"], row["acceptance"], row["total_time"]) == (63, 63, None, 1.0)
    told = json.loads(sweepcap("advise", *words(files), "--rows", "2..4", "--json").out)
    assert told["speculate"] is False
    assert told["best"]["gain"] == 1.0


def test_flags_carry_the_setting() -> None:
    for name, system in SYSTEMS.items():
        for s in system.settings((2, 5, 13)):
            assert s.loop == "carry"
            shown = system.flags(s)
            assert str(s.rows - 1) in shown, name
            if name.startswith("vLLM"):
                config = json.loads(shown.split("'")[1])
                assert config["num_speculative_tokens"] == s.rows - 1
    assert value(Setting("carry", 6, "vllm-ngram n_min=2"), "n_max") == 5


def test_every_flag_has_its_source() -> None:
    page = (Path(__file__).parent.parent / "docs" / "flags.md").read_text()
    for system in SYSTEMS.values():
        for word in system.flags(system.settings((4,))[0]).replace("(", " ").replace("=", " ").split():
            name = word.strip("'\"{}:,")
            if name.startswith("--") or "_" in name:
                assert f"`{name}`" in page, name
