import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from activities.language_model.litellm_model import LiteLLMModel
from activities.language_model.port import ModelCall, ModelReply, PermanentModelError
from activities.training.served import Served
from activities.training.serving import Chat, Models, RefusedError, Server
from activities.training.weights import load_policy
from tests.patience import PATIENCE
from tests.training.serving import artifacts, hostile, serving

PROMPT = "Task 0: open the red door. The key did not fit. Reflection:"


@pytest.fixture(scope="module")
def root(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return artifacts(base, tmp_path_factory.mktemp("run") / "artifacts")


@pytest.fixture(scope="module")
def trap(root: Path, base: Path) -> Path:
    return hostile(base, root)


@pytest.fixture(scope="module")
def served(root: Path, base: Path, trap: Path) -> Iterator[Served]:
    del trap  # its folders are there
    with serving(root, [str(base)]) as made:
        yield made


def sent(served: Served, path: str, body: dict[str, Any] | None = None) -> str:
    given = None if body is None else json.dumps(body).encode()
    with urlopen(f"{served.address}/{path}", given, timeout=PATIENCE) as reply:  # noqa: S310 - on loopback
        return str(reply.read().decode())


def asked(served: Served, model: str = "train-1/reflector", **given: Any) -> dict[str, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": PROMPT}]} | given
    try:
        return dict(json.loads(sent(served, "v1/chat/completions", body)))
    except HTTPError as error:
        return {"status": error.code, **json.load(error)["error"]}


def text(reply: dict[str, Any]) -> str:
    return str(reply["choices"][0]["message"]["content"])


async def called(served: Served, model: str, seed: int, **given: Any) -> ModelReply:
    os.environ["HOSTED_VLLM_API_BASE"] = f"{served.address}/v1"
    call = ModelCall(
        model=f"hosted_vllm/{model}",
        prompt=PROMPT,
        temperature=0.9,
        seed=seed,
        max_output_tokens=40,
        timeout_seconds=60.0,
        **given,
    )
    return await LiteLLMModel(None).complete(call)


async def test_a_seed(served: Served) -> None:
    """Called as any model is, a seed gives the same text whatever was written before."""
    first = await called(served, "train-1/reflector", 1)
    others = [(await called(served, "train-1/reflector", seed)).text for seed in range(2, 6)]
    again = await called(served, "train-1/reflector", 1)

    assert first.text == again.text != ""
    assert len({first.text, *others}) > 1
    assert (first.finish_reason, first.left_out) == ("stop", ())
    assert first.spending.input_tokens


async def test_an_unknown_model(served: Served) -> None:
    """A call of a model that is not there fails for good, by its name."""
    with pytest.raises(PermanentModelError, match="train-9"):
        await called(served, "train-9", 1)


def test_a_run(served: Served) -> None:
    """A run's id alone, and a base model's name, are names of models too."""
    names = ("train-1/reflector", "train-1", "base")
    texts = {text(asked(served, name, seed=3)) for name in names}

    assert len(texts) == 1


def test_a_base_model(served: Served, base: Path) -> None:
    """A base model is served by the name that it was given, from wherever it is."""
    assert text(asked(served, str(base), seed=3)) == text(asked(served, "base", seed=3))
    assert asked(served, str(base.parent))["status"] == 404


def test_the_list(served: Served, base: Path) -> None:
    """The models that write are listed: no reward model, and nothing outside the folder."""
    listed = [model["id"] for model in json.loads(sent(served, "v1/models"))["data"]]

    assert listed == sorted(
        [
            *(str(base), "base", "broken", "train-1", "train-1/reflector"),
            *("slow", "large", "raising", "several", "named"),
            *("pickled", "adapted", "garbled", "coded"),
        ]
    )


def test_a_cut_reply(served: Served) -> None:
    """A reply that is cut says so; the tokens are counted."""
    whole, cut = asked(served, seed=1), asked(served, seed=1, max_tokens=2)

    assert text(whole).startswith(text(cut))
    assert [reply["choices"][0]["finish_reason"] for reply in (whole, cut)] == ["stop", "length"]
    usage = cut["usage"]
    assert usage["completion_tokens"] == 2
    assert usage["total_tokens"] == usage["prompt_tokens"] + 2


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("train-9", 404, "model_not_found"),
        ("../outside", 404, "model_not_found"),
        ("link", 404, "model_not_found"),
        ("/etc", 404, "model_not_found"),
        ("", 404, "model_not_found"),
        ("a\0b", 404, "model_not_found"),
        ("x" * 5_000, 404, "model_not_found"),
        ("train-1/reward_model", 404, "model_not_found"),
        ("broken", 400, "model_broken"),
        ("pickled", 400, "model_broken"),
        ("adapted", 400, "model_broken"),
        ("garbled", 400, "model_broken"),
        ("coded", 400, "model_broken"),
    ],
)
def test_names(served: Served, name: str, status: int, code: str) -> None:
    """A name that is no model's is not found, and never leaves the folder."""
    found = asked(served, name)

    assert (found["status"], found["code"]) == (status, code)
    assert "\n" not in found["message"]


def test_no_code_of_a_model_runs(served: Served, trap: Path) -> None:
    """Pickled weights and Python files that come with a model are left alone."""
    said = [asked(served, name)["message"] for name in ("pickled", "adapted", "coded")]

    assert all("can't be loaded" in each for each in said)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raising", "no system message"),
        ("large", "MemoryError"),
        ("several", "multiple chat templates"),
    ],
)
def test_a_template_that_fails(served: Served, name: str, said: str) -> None:
    """What it raises is said in one line, and the memory that it takes is bounded."""
    found = asked(served, name)

    assert (found["status"], found["code"]) == (400, "invalid_value")
    assert f"The chat template of {name} can't format the messages" in found["message"]
    assert said in found["message"]


def test_a_token_named_as_a_setting(served: Served) -> None:
    """The tokenizer's names of its tokens take no setting's place."""
    assert "choices" in asked(served, "named", max_tokens=1)


def test_a_template_without_end_holds_nobody_up(served: Served) -> None:
    """It is ended after five seconds; meanwhile others are answered."""
    asked(served, "base", max_tokens=1)
    with ThreadPoolExecutor(1) as thread:
        slow = thread.submit(asked, served, "slow")
        others = [asked(served, "base", max_tokens=1) for _ in range(3)]
        waited = not slow.done()
        found = slow.result()

    assert all("choices" in reply for reply in others)
    assert waited
    assert (found["status"], found["code"]) == (400, "invalid_value")
    assert "The chat template of slow" in found["message"]


def test_a_model_s_odd_settings(base: Path, tmp_path: Path) -> None:
    """Whatever a folder's config.json has, the others are listed."""
    odd = ("[]", '{"architectures": [1]}', '{"architectures": 1}', "[" * 100_000, "\xff")
    for number, text in enumerate(odd):
        folder = tmp_path / f"odd-{number}"
        folder.mkdir()
        (folder / "config.json").write_text(text, encoding="latin-1")
    shutil.copytree(base, tmp_path / "base")

    assert "base" in Models(tmp_path, ()).names()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": 2}, "n: "),
        ({"temperature": 3}, "temperature: "),
        ({"seed": 2**70}, "seed: "),
        ({"messages": []}, "messages: "),
        ({"tools": [{}]}, "tools: no such field"),
        ({"stop": ["a"]}, "stop: no such field"),
        ({"stream": True}, "stream: "),
        ({"presence_penalty": 1}, "presence_penalty: no such field"),
        ({"messages": [{"role": "user", "content": "x " * 3_000}]}, "tokens; base reads 2048"),
    ],
)
def test_bad_requests(served: Served, given: dict[str, Any], said: str) -> None:
    """What can't be served is refused in one line, in OpenAI's form."""
    found = asked(served, "base", **given)

    assert (found["status"], found["type"]) == (400, "invalid_request_error")
    assert said in found["message"]


def test_nobody_waits(root: Path) -> None:
    """A reply that nobody waits for any more ends after its next token."""
    left = Event()
    left.set()
    chat = Chat.model_validate({"model": "base", "messages": [{"role": "user", "content": "a"}]})

    reply = Server(Models(root, ()))._write(chat, "a", left)

    assert reply["usage"]["completion_tokens"] == 1


def test_models_kept(base: Path, tmp_path: Path) -> None:
    """The last three models that were used are kept, unless their folder has another one now."""
    for name in "abcd":
        shutil.copytree(base, tmp_path / name)
    models = Models(tmp_path, ())
    loaded = {name: models.load(name, load_policy)[1] for name in "abc"}

    assert models.load("a", load_policy)[1] is loaded["a"]
    models.load("d", load_policy)
    assert models.load("a", load_policy)[1] is loaded["a"]
    assert models.load("b", load_policy)[1] is not loaded["b"]
    os.utime(tmp_path / "a" / "config.json")
    assert models.load("a", load_policy)[1] is not loaded["a"]
    with pytest.raises(RefusedError):
        models.load("e", load_policy)
