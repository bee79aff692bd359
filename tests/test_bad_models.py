"""Damaged, unfit and half models: one sentence each, whatever is wrong with them, and never a crash without one."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from costmodel.ggufheader import read_header
from costmodel.specs import ModelSpec
from tests.conftest import Outcome

llama = pytest.importorskip("validate.llama", exc_type=ValueError)

from tests.tiny import write_tiny  # noqa: E402
from validate import memory, sound  # noqa: E402
from validate.models import check_gguf, model_hash  # noqa: E402

N_MUTANTS = 200


def mutants(whole: bytes, end_of_header: int, n: int) -> Iterator[bytes]:
    """Headers and tensor tables with bytes flipped, numbers replaced, pieces cut out, doubled, or the end cut off."""
    rng = random.Random(7)
    extreme = [0, 1, 2, 3, 255, 1 << 15, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 60, (1 << 64) - 1]
    for i in range(n):
        data, at = bytearray(whole), rng.randrange(4, end_of_header)
        match i % 5:
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                width = rng.choice((4, 8))
                data[at : at + width] = (rng.choice(extreme) % (1 << 8 * width)).to_bytes(width, "little")
            case 2:
                del data[at : at + rng.randrange(1, 64)]
            case 3:
                data[at:at] = data[at : at + rng.randrange(1, 64)]
            case 4:
                del data[rng.randrange(len(data)) :]
        yield bytes(data)


def numbers(whole: bytes, keys: list[str], values: list[int]) -> Iterator[bytes]:
    """Files that are whole, with a number of the header replaced: what only loading can find out."""
    for key in keys:
        at = whole.index(key.encode()) + len(key) + 4
        for value in values:
            yield whole[:at] + struct.pack("<I", value) + whole[at + 4 :]


def test_no_mutant_ends_without_a_sentence(tmp_path: Path) -> None:
    """What the header tells is told at once; the others are loaded and run in a child. No way is a traceback."""
    path = write_tiny(tmp_path / "whole.gguf", context=64)
    whole = path.read_bytes()
    table_end = whole.rindex(b"ffn_down.weight") + 60
    keys = [
        f"llama.{key}"
        for key in ("block_count", "embedding_length", "feed_forward_length", "attention.head_count",
                    "attention.head_count_kv", "rope.dimension_count", "context_length", "vocab_size")
    ]  # fmt: skip
    keys += ["tokenizer.ggml.bos_token_id", "tokenizer.ggml.unknown_token_id"]
    made = [*mutants(whole, table_end, N_MUTANTS), *numbers(whole, keys, [0, 1, 3, 1 << 20, (1 << 32) - 1])]
    files, told = [], []
    for i, data in enumerate(made):
        mutant = tmp_path / f"mutant-{i}.gguf"
        mutant.write_bytes(data)
        try:
            check_gguf(mutant)
            files.append(mutant)
        except ValueError as error:
            told.append(str(error))
    faults = sound.faults(files)
    assert len(faults) == len(files)
    said = told + [fault for fault in faults.values() if fault is not None]
    for fault in said:
        assert "mutant-" in fault
        assert "Traceback" not in fault
        assert "\n" not in fault
    assert len(told) > N_MUTANTS / 4, "many are refused by the header alone"
    assert len(said) > len(told), "some by loading alone"
    assert None in faults.values(), "and some changes do no harm"


def test_a_child_that_dies_leaves_a_sentence(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With files before and behind the one that kills it."""
    deadly = shutil.copy(tiny, tmp_path / "deadly.gguf")
    script = tmp_path / "child.py"
    script.write_text(
        "import os, sys\nimport validate.sound as s\nlook = s._look\n"
        "s._look = lambda path: os.abort() if 'deadly' in str(path) else look(path)\ns.main()\n"
    )
    monkeypatch.setattr(sound, "CHILD", (str(script),))
    paths = [tiny, Path(deadly), shutil.copy(tiny, tmp_path / "last.gguf")]
    faults = sound.faults(paths)
    assert [faults[path] is None for path in paths] == [True, False, True]
    assert "SIGABRT" in str(faults[Path(deadly)])
    with pytest.raises(ValueError, match=r"deadly\.gguf is damaged: llama\.cpp dies of it \(signal SIGABRT"):
        sound.check_sound(Path(deadly))


# --- what a header tells ---------------------------------------------------------------------------------------------


def damaged(whole: bytes) -> dict[str, tuple[bytes, str]]:
    """Kinds of damage by name, and what must be said of each."""
    with_keys = whole[:16] + (1 << 60).to_bytes(8, "little") + whole[24:]
    key = b"llama.block_count"
    at = whole.index(b"output.weight") + len(b"output.weight") + 4 + 2 * 8 + 4
    return {
        "cut-in-header": (whole[:1500], "cut short in its header"),
        "cut-in-tensors": (whole[:-3000], "cut short: the tensor"),
        "tensor-outside": (whole[:at] + (1 << 40).to_bytes(8, "little") + whole[at + 8 :], "past its end"),
        "countless-keys": (with_keys, "more than the file has room for"),
        "version-1": (whole[:4] + b"\1\0\0\0" + whole[8:], "version is 1"),
        "version-99": (whole[:4] + b"\x63\0\0\0" + whole[8:], "version is 99"),
        "big-endian": (whole[:4] + b"\0\0\0\3" + whole[8:], "other byte order"),
        "no-block-count": (whole.replace(key, b"llama.block_caunt"), "no llama.block_count"),
        "joined": (whole + whole, "several files one behind the other"),
    }


KINDS = (
    "cut-in-header", "cut-in-tensors", "tensor-outside", "countless-keys", "version-1", "version-99", "big-endian",
    "no-block-count", "joined",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_and_weights_refuse_the_same_damage(
    sweepcap: Callable[..., Outcome], tiny: Path, tmp_path: Path, kind: str
) -> None:
    data, words = damaged(tiny.read_bytes())[kind]
    path, out = tmp_path / f"{kind}.gguf", tmp_path / "a.json"
    path.write_bytes(data)
    outcome = sweepcap("calibrate", "--model", path, "--out", out, "--threads", 1)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert path.name in outcome.err
    assert words in outcome.err
    assert not out.exists()
    with pytest.raises(ValueError, match=f"{kind}.gguf.*{words}"):
        ModelSpec.from_gguf(path)


def split(whole: Path, folder: Path, stem: str) -> list[Path]:
    """A model in two parts: the keys and some tensors in the first, the others in the second."""
    names = list(read_header(whole).tensors)
    paths = [folder / f"{stem}-0000{i + 1}-of-00002.gguf" for i in range(2)]
    for i, path in enumerate(paths):
        mine = set(names[: len(names) // 2] if i == 0 else names[len(names) // 2 :])
        write_tiny(path, only=mine, extra={"split.no": i, "split.count": 2, "split.tensors.count": len(names)})
        assert set(read_header(path).tensors) == mine
    return paths


def test_parts_are_one_model_and_each_is_named(sweepcap: Callable[..., Outcome], tiny: Path, tmp_path: Path) -> None:
    first, second = split(tiny, tmp_path, "parts")
    words = ("--out", tmp_path / "a.json", "--threads", 1, "--rounds", 1, "--rows", 2, "--context", 64)
    assert sweepcap("calibrate", "--model", first, *words).status == 0
    before = model_hash(first)
    data = bytearray(second.read_bytes())
    data[-40] ^= 1
    second.write_bytes(data)
    assert model_hash(first) != before, "the hash covers every part"
    outcome = sweepcap("calibrate", "--model", second, *words)
    assert outcome.status == 2
    assert f"give {first.name}" in outcome.err
    second.unlink()
    outcome = sweepcap("calibrate", "--model", first, *words)
    assert outcome.status == 2
    assert f"{second.name} is not beside it" in outcome.err


def test_a_vocabulary_is_no_model(sweepcap: Callable[..., Outcome], tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "vocab.gguf", only=set())
    outcome = sweepcap("run", "--quick", "--model", path, "--out", tmp_path / "o")
    assert (outcome.status, outcome.out) == (2, "")
    assert "a vocabulary without weights" in outcome.err
    with pytest.raises(ValueError, match="a vocabulary without weights"):
        ModelSpec.from_gguf(path)


# --- memory ----------------------------------------------------------------------------------------------------------


def test_a_context_is_as_long_as_needed_and_one_that_does_not_fit_is_told_in_bytes(
    sweepcap: Callable[..., Outcome], tmp_path: Path
) -> None:
    model = write_tiny(tmp_path / "long.gguf", context=1 << 20)
    few = ("--model", model, "--threads", 1, "--rounds", 1, "--rows", 2)
    outcome = sweepcap("calibrate", *few, "--out", tmp_path / "a.json", "--context", 64, "--json")
    assert outcome.status == 0, outcome
    assert json.loads(outcome.out)["n_ctx"] == 256
    assert memory.bytes_per_token(model) == 2 * 2 * 32 * 2, "layers, keys and values, width, bytes"
    outcome = sweepcap("calibrate", *few, "--out", tmp_path / "b.json", "--context", 1 << 34)
    assert (outcome.status, outcome.out) == (2, "")
    assert "bytes" in outcome.err
    assert "shorter --context" in outcome.err
    assert not (tmp_path / "b.json").exists()


def test_a_model_larger_than_the_memory_is_told_before_loading(
    sweepcap: Callable[..., Outcome], tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: tiny.stat().st_size - 1)
    outcome = sweepcap("calibrate", "--model", tiny, "--out", tmp_path / "a.json", "--threads", 1)
    assert (outcome.status, outcome.out) == (2, "")
    assert "smaller quantisation" in outcome.err


def test_memory_of_the_control_group_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"memory.max": "5000", "memory.current": "3000", "memory.stat": "anon 1\nfile 700"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.available_bytes() == 2700
    (tmp_path / "memory.max").write_text("max")
    assert memory.available_bytes() > 1 << 20


def test_weights_are_mapped_not_copied(tiny: Path) -> None:
    process = psutil.Process()
    if not hasattr(process, "memory_maps"):
        pytest.skip("this system does not tell what is mapped")
    with llama.Model(tiny):
        assert str(tiny) in {entry.path for entry in process.memory_maps()}


def test_texts_of_another_vocabulary_are_refused(sweepcap: Callable[..., Outcome], tiny: Path, tmp_path: Path) -> None:
    texts = tmp_path / "t.jsonl"
    texts.write_text('{"name": "a", "n_prompt": 2, "tokens": [5, 6, 9000, 7]}\n')
    outcome = sweepcap("measure", "--model", tiny, "--texts", texts, "--out", tmp_path / "r.jsonl", "--threads", 1)
    assert (outcome.status, outcome.out) == (2, "")
    assert "a vocabulary of at least 9001 tokens" in outcome.err
