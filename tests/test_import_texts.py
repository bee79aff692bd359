"""Texts from elsewhere: ids, plain text and chat logs, a line at a time; what is broken is named."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.trace import load
from tests.conftest import Outcome
from tests.test_sweep import refused
from validate.imported import import_texts, kind_of, pieces

Program = Callable[..., Outcome]


def test_ids_in_three_shapes(sweepcap: Program, tmp_path: Path) -> None:
    file, out = tmp_path / "log.jsonl", tmp_path / "t.jsonl"
    file.write_text(
        '{"name": "a", "tokens": [1, 2, 3, 4], "n_prompt": 3, "stop": [9]}\n'
        '{"prompt": [1, 2], "completion": [3]}\n\n[5, 6, 7]\n'
    )
    refused(sweepcap("import", "texts", file, "--out", out), "line 4", "where the prompt ends", "--prompt-tokens")
    assert not out.exists()
    outcome = sweepcap("import", "texts", file, "--out", out, "--prompt-tokens", 1, "--json")
    assert outcome.status == 0, outcome
    assert json.loads(outcome.out) == {"kind": "ids", "n_texts": 3, "n_tokens": 10, "n_skipped": 0}
    header, texts = load(out)
    assert (header.source, header.model_hash) == ("imported", "")
    assert [(t.name, t.n_prompt, t.tokens, t.stop) for t in texts] == [
        ("a", 3, (1, 2, 3, 4), (9,)),
        ("log 2", 2, (1, 2, 3), ()),
        ("log 4", 1, (5, 6, 7), ()),
    ]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ('{"tokens": [1, 2', "truncated"),
        ('{"tokens": [1, 2, 3], "n_prompt": 5}', "no longer than its prompt of 5"),
        ('{"tokens": [1, "x"], "n_prompt": 1}', "Expected `int`"),
        ('{"tokens": [1, -2, 3], "n_prompt": 1}', "no token id"),
    ],
)
def test_a_broken_line_is_named_or_counted(sweepcap: Program, tmp_path: Path, line: str, part: str) -> None:
    file, out = tmp_path / "log.jsonl", tmp_path / "t.jsonl"
    file.write_text('{"tokens": [1, 2, 3], "n_prompt": 1}\n' + line + "\n")
    out.write_text("kept")
    refused(sweepcap("import", "texts", file, "--out", out), "line 2", part, "--skip-broken")
    assert out.read_text() == "kept"
    outcome = sweepcap("import", "texts", file, "--out", out, "--skip-broken")
    assert outcome.status == 0, outcome
    assert "1 broken lines left out" in outcome.out
    assert len(load(out)[1]) == 1


def test_what_cannot_be_imported(sweepcap: Program, tmp_path: Path) -> None:
    file, out = tmp_path / "x", tmp_path / "t.jsonl"
    refused(sweepcap("import", "texts", file, "--out", out), "cannot be read")
    file.write_text("once upon a time")
    refused(sweepcap("import", "texts", file, "--out", out), "holds text", "--model")
    refused(sweepcap("import", "texts", file, "--out", out, "--as", "prose"), "text, ids, chat")
    file.write_text('{"tokens": [1]}\n')
    refused(sweepcap("import", "texts", file, "--out", out, "--skip-broken", "--prompt-tokens", 1), "holds no text")
    file.write_text('{"name": "a", "tokens": [1, 2], "n_prompt": 1}\n' * 2)
    refused(sweepcap("import", "texts", file, "--out", out), "two texts named 'a'")
    assert not out.exists()


def test_plain_text_comes_in_pieces(sweepcap: Program, tiny: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "story.txt", tmp_path / "t.jsonl"
    file.write_text("ba be bi bo bu\n" * 100)
    words = ("import", "texts", file, "--out", out, "--model", tiny)
    outcome = sweepcap(*words, "--characters", 450, "--prompt-tokens", 16)
    assert outcome.status == 0, outcome
    header, texts = load(out)
    assert (header.model, header.source) == ("tiny.gguf", "imported")
    assert len(texts) >= 3
    assert all(text.n_prompt == 16 < len(text.tokens) for text in texts)
    file.write_text("ba")
    refused(sweepcap(*words, "--prompt-tokens", 64), "no longer than its prompt of 64")


@pytest.mark.parametrize("n", [7, 50, 10_000])
def test_pieces_are_the_whole_text_cut_between_lines_or_words(tmp_path: Path, n: int) -> None:
    file = tmp_path / "a.txt"
    text = "".join(f"word {i} " + "\n" * (i % 5 == 0) for i in range(300)) + "x" * 60
    file.write_text(text)
    made = list(pieces(file, n))
    assert "".join(made) == text
    assert all(len(piece) <= n for piece in made)
    if n == 50:
        assert all(piece[-1] in "\n " for piece in made[:-2])


def test_chats(sweepcap: Program, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llama_cpp")
    from validate.llama import Model

    monkeypatch.setattr(Model, "chat", lambda self, turns: "".join(f"{t['role']}: {t['content']}\n" for t in turns))
    file, out = tmp_path / "chat.jsonl", tmp_path / "t.jsonl"
    turns = [{"role": "user", "content": "ba be"}, {"role": "assistant", "content": "bi bo bi bo"}]
    more = [
        *turns,
        {"role": "user", "content": [{"type": "text", "text": "ba"}]},
        {"role": "assistant", "content": "be be"},
    ]
    replies = [{"choices": [{"finish_reason": why, "message": turns[1]}]} for why in ("stop", "length")]
    file.write_text(
        "\n".join(
            json.dumps(line)
            for line in (
                {"messages": turns},
                {"messages": more},
                *({"request": {"messages": turns[:1]}, "response": reply} for reply in replies),
                {"prompt": "ba be", "completion": "bi"},
            )
        )
    )
    outcome = sweepcap("import", "texts", file, "--out", out, "--model", tiny, "--json")
    assert outcome.status == 0, outcome
    assert json.loads(outcome.out)["kind"] == "chat"
    texts = load(out)[1]
    ended = [text.tokens[-1] in text.stop for text in texts]
    assert ended == [False, False, True, False, False]
    assert texts[2].tokens[:-1] == texts[3].tokens == texts[0].tokens
    assert texts[1].n_prompt > texts[0].n_prompt
    file.write_text('{"messages": [{"role": "user", "content": "ba"}]}\n')
    refused(sweepcap("import", "texts", file, "--out", out, "--model", tiny), "line 1", "no reply")
    assert len(load(out)[1]) == 5


def test_kinds_are_seen_from_the_first_line(tmp_path: Path) -> None:
    file = tmp_path / "f"
    for content, kind in (
        ('{"messages": []}', "chat"),
        ('{"request": {"messages": [', "chat"),
        ('{"tokens": [1]}', "ids"),
        ('{"prompt": [1], "completion": [2]}', "ids"),
        ("[1, 2]", "ids"),
        ('{"tokens": [1, 2', "ids"),
        ('{"name": "a", "n_prompt": 3, "prompt": [1, 2', "ids"),
        ("[" + "1, " * 400_000 + "1]", "ids"),
        ("7 is a number", "text"),
        ("[1] is a footnote", "text"),
        ("[sic], he said", "text"),
        ("\ufeff[1, 2]", "ids"),
    ):
        file.write_text(content, encoding="utf-8")
        assert kind_of(file) == kind, content[:40]


def test_a_large_log_needs_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    line = json.dumps({"tokens": list(range(100, 600)), "n_prompt": 9}) + "\n"
    peaks = []
    for n in (1, 600, 2500):
        file = tmp_path / f"{n}.jsonl"
        file.write_text(line * n)
        tracemalloc.start()
        assert import_texts(file, tmp_path / "t.jsonl", None).n_texts == n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert file.stat().st_size > 5e6
    assert peaks[2] < peaks[1] + 5e5
