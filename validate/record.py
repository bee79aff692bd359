"""Records a model's own greedy text: what every loop will be replayed over."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import msgspec

from sim.loops import greedy
from sim.machine import State
from sim.penalties import NONE, Penalties
from sim.run import run
from sim.trace import Header, Text, dumps, lines
from sim.trace import load as load_texts
from validate.files import write
from validate.llama import LlamaEngine, Model, opened, padded
from validate.models import model_hash
from validate.progress import Advance, quiet


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: str
    content: str


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt by name: plain text, or the messages of a chat that the model's template puts into text."""

    name: str
    prompt: str = ""
    messages: tuple[Message, ...] = ()


def suite() -> Path:
    """The project's own six prompts: locked repetition, list, code edit, question, summary, story."""
    with resources.as_file(resources.files("validate") / "prompts.jsonl") as path:
        return path


def load_prompts(path: Path) -> list[Prompt]:
    """The prompts of a JSON-lines file; ValueError naming the line that is broken, empty or named twice."""
    prompts: list[Prompt] = []
    names: set[str] = set()
    for number, line in lines(path):
        try:
            prompt = msgspec.json.decode(line, type=Prompt)
        except msgspec.MsgspecError as error:
            raise ValueError(f'{path}, line {number}: not a prompt {{"name": ..., "prompt": ...}}: {error}') from error
        if not prompt.prompt and not prompt.messages:
            raise ValueError(f"{path}, line {number}: the prompt {prompt.name!r} is empty; give it some text")
        if prompt.name in names:
            raise ValueError(f"{path}, line {number}: a second prompt is named {prompt.name!r}; name each differently")
        names.add(prompt.name)
        prompts.append(prompt)
    if not prompts:
        raise ValueError(f'{path} holds no prompt: give a line {{"name": ..., "prompt": ...}} for each')
    return prompts


def tokenize(model: Model, prompt: Prompt) -> tuple[str, list[int]]:
    """A prompt's text and ids; ValueError when it comes to no token at all."""
    if prompt.messages:
        text = model.chat([{"role": m.role, "content": m.content} for m in prompt.messages])
    else:
        text = prompt.prompt
    ids = model.tokenize(text, special=bool(prompt.messages))
    if not ids:
        raise ValueError(f"the prompt {prompt.name!r} is empty for this model: it comes to no token")
    return text, ids


def record(engine: LlamaEngine, name: str, text: str, ids: Sequence[int], n_tokens: int) -> Text:
    """The model's greedy text of `n_tokens` tokens behind a prompt, or up to the first stop token."""
    start = State.start(ids, n_tokens, engine.model.stops)
    end, _ = run(greedy(lambda _: (), 2), start, engine)
    return Text(
        name=name,
        n_prompt=len(ids),
        tokens=tuple(end.tokens),
        stop=tuple(sorted(engine.model.stops)),
        prompt=text,
    )


def check_fits(name: str, n_prompt: int, n_tokens: int, n_ctx: int) -> None:
    """Raise ValueError when a prompt and the tokens asked for do not fit a context."""
    if n_prompt + n_tokens > n_ctx:
        raise ValueError(
            f"the prompt {name!r} ({n_prompt} tokens) and {n_tokens} tokens do not fit the context of {n_ctx}:"
            " shorten the prompt, ask for fewer tokens, or for a longer --context"
        )


def record_texts(
    path: Path,
    prompts: Sequence[Prompt],
    n_tokens: int,
    n_threads: int,
    n_ctx: int | None = None,
    advance: Advance = quiet,
    penalties: Penalties = NONE,
    n_gpu_layers: int = 0,
) -> tuple[Header, list[Text]]:
    """The greedy texts of some prompts by the model in a file."""
    with opened(path, n_threads, n_ctx=n_ctx, n_gpu_layers=n_gpu_layers) as model:
        ids = [(prompt.name, *tokenize(model, prompt)) for prompt in prompts]
        for name, _, tokens in ids:
            check_fits(name, len(tokens), n_tokens, n_ctx or model.n_ctx_train)
        needed = n_ctx or padded(max(len(tokens) for _, _, tokens in ids) + n_tokens)
        texts = []
        with LlamaEngine(model, n_ctx=needed, n_threads=n_threads, penalties=penalties) as engine:
            for i, (name, text, tokens) in enumerate(ids):
                advance(f"recording {name}", i, len(ids))
                texts.append(record(engine, name, text, tokens, n_tokens))
            header = Header(
                model=path.name,
                model_hash=model_hash(path),
                n_vocab=model.n_vocab,
                penalties=penalties,
                replays=not engine.can_cut,
            )
        advance("recorded", len(ids), len(ids))
    return header, texts


def check_recorded_with(path: Path, header: Header) -> None:
    """Raise ValueError when texts were recorded with another model than the one in a file."""
    if header.model_hash and model_hash(path) != header.model_hash:
        raise ValueError(f"the texts were not recorded with {path.name}: record them with this model")


def check_same_penalties(ours: Penalties, theirs: Penalties, what: str) -> None:
    """Raise ValueError when texts or runs were made with other penalties than asked for."""
    if ours != theirs:
        raise ValueError(f"{what} was made with other penalties ({theirs}) than asked for ({ours}): give the same")


def recorded_or_loaded(
    file: Path,
    path: Path,
    prompts: Sequence[Prompt],
    n_tokens: int,
    n_threads: int,
    advance: Advance = quiet,
    penalties: Penalties = NONE,
    n_gpu_layers: int = 0,
) -> tuple[Header, list[Text]]:
    """The texts of a folder, recorded now unless they are there; ValueError when they are of another plan."""
    if not file.exists():
        header, texts = record_texts(
            path, prompts, n_tokens, n_threads, advance=advance, penalties=penalties, n_gpu_layers=n_gpu_layers
        )
        write(file, dumps(header, texts))
        return header, texts
    header, texts = load_texts(file)
    check_same_penalties(penalties, header.penalties, str(file))
    same = header.model_hash == model_hash(path) and [t.name for t in texts] == [p.name for p in prompts]
    if not same or any(t.n_tokens != n_tokens and not t.stopped for t in texts):
        raise ValueError(f"{file} holds texts of another model, prompts or length: choose another --out, or remove it")
    return header, texts
