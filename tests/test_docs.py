"""Every command and snippet of the README and of docs/ runs: on a tiny model, in a folder of its own."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docs import write_reference
from sim.drafters import DRAFTERS
from sim.loops import LOOPS
from tests.conftest import Outcome

Program = Callable[..., Outcome]
ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "docs/tutorial.md",
    "docs/howto.md",
    "docs/explanation.md",
    "docs/first-hour.md",
    "CONTRIBUTING.md",
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LIGHT: dict[str, tuple[object, ...]] = {
    "record": ("--tokens", 12, "--threads", 1),
    "calibrate": ("--rounds", 2, "--threads", 1),
    "measure": ("--blocks", 1, "--threads", 1),
    "run": ("--tokens", 12, "--blocks", 1, "--threads", 1),
    "sweep": ("--workers", 1),
    "advise": ("--workers", 1),
    "simulate": ("--slots", "1,2", "--requests", 4, "--replications", 1),
}
"""What is added to a command so that it takes seconds; the last of two equal options counts."""


def snippets(text: str) -> Iterator[tuple[str, str]]:
    """The fenced snippets of a page, ("sh" or "python", text), and its indented commands."""
    text = re.sub(r" *\\\n *", " ", text)  # a line that goes on behind a backslash is one
    fences = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)
    for kind, body in fences.findall(text):
        if kind in ("sh", "python"):
            yield kind, body
    for line in fences.sub("", text).splitlines():
        if re.match(r" {4}(sweepcap|\.venv/bin/sweepcap|make|pip|git) ", line):
            yield "sh", line.strip()


@pytest.mark.parametrize("page", PAGES)
def test_everything_on_the_page_runs(
    page: str, sweepcap: Program, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my.gguf", "my-model.gguf"):
        (tmp_path / name).symlink_to(tiny)
    (tmp_path / "mine.jsonl").write_text('{"name": "mine", "prompt": "ba be bi bo bu ba be"}\n')
    (tmp_path / "chats.jsonl").write_text('{"prompt": "ba be bi bo", "completion": " bu ba be bi bo bu ba be"}\n')
    monkeypatch.setattr("validate.models.default_model", lambda: tiny)
    for registry, name in ((LOOPS, "choosy"), (DRAFTERS, "again")):
        monkeypatch.setitem(registry, name, None)  # whatever a snippet puts there is taken away in the end
    names: dict[str, Any] = {}
    n = 0
    for kind, body in snippets((ROOT / page).read_text()):
        n += 1
        if kind == "python":
            exec(compile(body, page, "exec"), names)
        else:
            for line in body.splitlines():
                if line.strip() and not line.startswith("#"):
                    shell(line, sweepcap)
    assert n, f"{page} shows nothing to run"


def shell(line: str, sweepcap: Program) -> None:
    """Run a line, or see that what it names is there."""
    words = shlex.split(line, comments=True)
    words[0] = words[0].removeprefix(".venv/bin/")
    if words[0] == "sweepcap":
        prompts = ("--prompts", "mine.jsonl") if words[1] == "run" and "--prompts" not in words else ()
        done = sweepcap(*words[1:], *LIGHT.get(words[1], ()), *prompts)
        assert done.status == 0, (line, done)
        assert done.out or "--help" in words
    elif words[0] == "make":
        subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, check=True, capture_output=True)
    elif words[0] == "llama-bench":  # another program: what it would have written
        common = {"model_filename": "my.gguf", "model_type": "llama 1B", "n_threads": 4, "n_gen": 0, "n_depth": 0}
        wanted = [int(n) for n in words[words.index("-p") + 1].split(",")]
        tests = [
            common | {"n_prompt": n, "avg_ns": n * 10**6, "samples_ns": [n * 10**6], "backends": "CPU"} for n in wanted
        ]
        Path(words[-1]).write_text(json.dumps(tests))
    elif words[0] == "pip":
        assert set(re.findall(r"\[(.*?)\]", line)) <= set(PROJECT["optional-dependencies"]), line
    elif words[0] == "git":
        assert words[1] == "clone"
    else:
        assert words[0] == "printf", line
        subprocess.run(["bash", "-c", line], check=True)


def test_the_reference_is_current() -> None:
    assert write_reference.PAGE.read_text() == write_reference.page(), "run `make docs`"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text()):
            assert (ROOT / page).parent.joinpath(target).exists(), (page, target)


def test_version_licence_and_citation_agree() -> None:
    cff = (ROOT / "CITATION.cff").read_text()
    fields = dict(re.findall(r"^([\w-]+): *(.*)$", cff, re.M))
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= set(fields)
    assert fields["cff-version"] == "1.2.0"
    assert fields["version"] == PROJECT["version"]
    assert fields["license"] == PROJECT["license"] == "MIT"
    assert fields["type"] == "software"
    assert re.findall(r"^ *doi: (10\.\d{4,}/\S+)$", cff, re.M)
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()
