import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import torch
from peft import get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

from activities.language_model.litellm_model import LiteLLMModel
from activities.language_model.port import ModelReply, PermanentModelError
from activities.training.job import RECIPES, lora
from activities.training.served import Served
from activities.training.serving import Models, Server
from activities.training.weights import load_policy, load_tokenizer, save_adapter
from activities.training.writing import Asked, Chat, RefusedError, write
from tests.patience import PATIENCE
from tests.training.serving import PROMPT, artifacts, call, hostile, serving


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
    return await LiteLLMModel(None).complete(call(f"hosted_vllm/{model}", seed, **given))


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
    assert len({text(asked(served, name, seed=3)) for name in names}) == 1


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
        ({"n": 17}, "n: "),
        ({"temperature": 3}, "temperature: "),
        ({"seed": 2**70}, "seed: "),
        ({"messages": []}, "messages: "),
        ({"tools": [{}]}, "tools: no such field"),
        ({"stop": ["a"] * 5}, "stop"),
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


def test_several_choices(served: Served) -> None:
    """Each has its own chance, the first that of one alone; the tokens of all are counted."""
    alone, several = asked(served, seed=5), asked(served, seed=5, n=8)

    texts = [choice["message"]["content"] for choice in several["choices"]]
    assert [choice["index"] for choice in several["choices"]] == [*range(8)]
    assert texts[0] == text(alone)
    assert len(set(texts)) > 1
    assert several["usage"]["completion_tokens"] > alone["usage"]["completion_tokens"]


@pytest.mark.parametrize("stop", ["e", ["nowhere", "e"]])
def test_a_stop(served: Served, stop: object) -> None:
    """A text ends before it, and says that it came to its end."""
    whole, cut = asked(served, seed=1), asked(served, seed=1, stop=stop)

    assert text(cut) == text(whole)[: text(whole).index("e")]
    assert cut["choices"][0]["finish_reason"] == "stop"
    assert cut["usage"]["completion_tokens"] < whole["usage"]["completion_tokens"]


def test_what_waits_is_written_together(base: Path) -> None:
    """Each text is that of its request alone, whatever is beside it and however long that is."""
    tokenizer, model = load_tokenizer(base), load_policy(base)
    requests: list[dict[str, Any]] = [
        {"seed": 1},
        {"seed": 2, "temperature": 0},
        {"seed": 3, "max_tokens": 2},
        {"seed": 4, "top_p": 0.3, "temperature": 1.5},
    ]

    def waiting(number: int) -> Asked:
        told = {"model": "base", "messages": [{"role": "user", "content": "a"}]}
        chat = Chat.model_validate(told | requests[number])
        return Asked(chat, f"{'Open it. ' * number}{PROMPT}\n")

    together = write(tokenizer, model, [waiting(number) for number in range(4)])
    alone = [write(tokenizer, model, [waiting(number)])[0] for number in range(4)]

    assert together == alone
    assert all(isinstance(reply, dict) for reply in alone)


def test_a_sample_is_what_the_model_says(base: Path) -> None:
    """Of many texts of one token each has the share that the model gives it."""
    tokenizer, model = load_tokenizer(base), load_policy(base)
    told = {"model": "base", "messages": [{"role": "user", "content": "a"}], "n": 16}
    found = Counter[str]()
    for seed in range(25):
        chat = Chat.model_validate(told | {"max_tokens": 1, "seed": 100 * seed})
        [reply] = write(tokenizer, model, [Asked(chat, f"{PROMPT}\n")])
        assert isinstance(reply, dict)
        found.update(choice["message"]["content"] for choice in reply["choices"])
    ids = torch.tensor([tokenizer(f"{PROMPT}\n", add_special_tokens=False)["input_ids"]])
    with torch.inference_mode():
        likely = model(ids).logits[0, -1].softmax(-1)

    for word, count in found.most_common(4):
        share = float(likely[tokenizer(word, add_special_tokens=False)["input_ids"][0]])
        assert count / 400 == pytest.approx(share, abs=4 * (share * (1 - share) / 400) ** 0.5)


@pytest.mark.parametrize(
    ("models", "expected"),
    [(("base", "train-1", "base", "base"), [3, 1]), (("base", "train-1") * 30, [30, 30])],
)
def test_requests_for_one_model_are_written_together(
    root: Path, models: tuple[str, ...], expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests for other models wait for their turn, and take up no room in this one."""
    sizes = list[int]()

    def note(_: Any, __: Any, together: list[Asked]) -> list[dict[str, Any]]:
        sizes.append(len(together))
        return [{}] * len(together)

    monkeypatch.setattr("activities.training.serving.write", note)
    server = Server(Models(root, ()))
    for model in models:
        chat = Chat.model_validate({"model": model, "messages": [{"role": "user", "content": "a"}]})
        server._waiting.append(Asked(chat, "a"))
    waiting = [*server._waiting]
    for _ in waiting:
        server._write_waiting()

    assert sizes == expected
    assert [asked.made.result() for asked in waiting] == [{}] * len(models)


async def test_a_flood_is_refused(root: Path) -> None:
    """Where a thousand texts wait, the next one may be asked for again later."""
    chat = {"model": "base", "messages": [{"role": "user", "content": "a"}]}
    server = Server(Models(root, ()))
    server._waiting.extend([Asked(Chat.model_validate(chat), "a")] * 1_000)
    request = SimpleNamespace(read=AsyncMock(return_value=json.dumps(chat)))

    with pytest.raises(RefusedError, match="1000 texts wait already") as refused:
        await server.complete(request)  # type: ignore[arg-type]

    assert refused.value.status == 429


def test_settings_of_a_model_change_no_sample(base: Path) -> None:
    """What its folder names for other programs is left alone."""
    tokenizer, model = load_tokenizer(base), load_policy(base)
    chat = {"model": "base", "messages": [{"role": "user", "content": "a"}], "seed": 1}
    asked = [Asked(Chat.model_validate(chat), f"{PROMPT}\n") for _ in range(2)]

    plain = write(tokenizer, model, asked[:1])
    model.generation_config.update(repetition_penalty=5.0, num_beams=2)

    assert write(tokenizer, model, asked[1:]) == plain


def test_a_table_of_positions_has_an_end(base: Path) -> None:
    """A short text goes on where that of a longer prompt beside it had to stop."""
    config = GPT2Config(n_positions=64, n_embd=8, n_layer=1, n_head=1, vocab_size=512)
    tokenizer, model = load_tokenizer(base), GPT2LMHeadModel(config).eval()

    def waiting(words: int) -> Asked:
        told = {"model": "base", "messages": [{"role": "user", "content": "a"}], "seed": 1}
        return Asked(Chat.model_validate(told), tokenizer.decode([7] * words))

    together = write(tokenizer, model, [waiting(60), waiting(5)])

    assert together == [write(tokenizer, model, [waiting(words)])[0] for words in (60, 5)]
    assert all(isinstance(reply, dict) for reply in together)


@pytest.mark.parametrize("named", ["outside", "other", "sshleifer/tiny-gpt2", "adapter"])
def test_an_adapter_has_its_base_in_the_folder(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """A base elsewhere, below the current folder, on the hub or of an adapter is not loaded."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    shutil.copytree(base, outside)
    shutil.copytree(base, tmp_path / "here" / "other")
    monkeypatch.chdir(tmp_path / "here")

    def adapter(name: str, of: str) -> Path:
        model = get_peft_model(load_policy(base), lora("CAUSAL_LM", RECIPES[1e7]["dpo"]))
        save_adapter(model, load_tokenizer(base), root / name, of)
        return root / name

    adapter("adapter", str(outside))
    adapter("tuned", {"outside": str(outside), "adapter": str(root / "adapter")}.get(named, named))

    with pytest.raises(RefusedError, match="base model of tuned is not in MULL_ARTIFACTS: name it"):
        Models(root, ()).load("tuned", load_policy)
    if named == "outside":
        (tmp_path / "link").symlink_to(outside)
        assert Models(root, [str(tmp_path / "link")]).load("tuned", load_policy)


def test_nobody_waits(base: Path) -> None:
    """A reply that nobody waits for any more ends after its next token; others go on."""
    chat = Chat.model_validate({"model": "base", "messages": [{"role": "user", "content": "a"}]})
    gone, other = Asked(chat, f"{PROMPT}\n"), Asked(chat, f"{PROMPT}\n")
    gone.left.set()

    left, whole = write(load_tokenizer(base), load_policy(base), [gone, other])

    assert isinstance(left, dict)
    assert isinstance(whole, dict)
    assert left["usage"]["completion_tokens"] == 1
    assert whole["usage"]["completion_tokens"] > 1


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


async def test_on_a_gpu_nothing_is_held_beside_a_training(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that has models ends meanwhile, and what is asked is answered afterwards."""
    (tmp_path / "gpu0").touch()
    monkeypatch.setattr("activities.training.served.GPUS", tmp_path / "gpu[0-9]")
    shutil.copytree(base, tmp_path / "base")

    async def ask(own: Served) -> dict[str, Any]:
        return await asyncio.to_thread(asked, own, "base", seed=1)

    async with Served(tmp_path) as own:
        first = await ask(own)
        async with own.aside():
            assert own._process is not None
            ended = own._process.returncode
            waiting = asyncio.create_task(ask(own))
            await asyncio.sleep(0.5)
            early = waiting.done()
        again = await waiting

    assert (ended, early) == (-signal.SIGKILL, False)
    assert text(again) == text(first)


async def test_what_is_just_starting_is_held_back_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that begins as a training does ends at once, and another begins after it."""
    (tmp_path / "gpu0").touch()
    monkeypatch.setattr("activities.training.served.GPUS", tmp_path / "gpu[0-9]")

    async with asyncio.timeout(PATIENCE), Served(tmp_path) as own:
        await asyncio.sleep(0)
        async with own.aside():
            while own._process is None:
                await asyncio.sleep(0.01)
            first = own._process
            assert await first.wait() == -signal.SIGKILL
        while own._process is first:
            await asyncio.sleep(0.01)


async def test_a_tuned_reflector_has_an_address_of_its_own(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So another server can have the base; a call of either costs what it costs there."""
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("MULL_REFLECTORS", f"{served.address}/v1")
    reply = await LiteLLMModel(None).complete(call("reflector/train-1"))

    assert reply.text == (await called(served, "train-1", 1)).text
    assert reply.spending.cost_usd == 0


def test_a_killed_worker(root: Path) -> None:
    """The process ends when the worker is killed."""
    program = f"""
import asyncio
from pathlib import Path
from activities.training.served import Served

async def main():
    async with Served(Path({str(root)!r})) as served:
        while served._process is None:
            await asyncio.sleep(0.1)
        print(served._process.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        process = int(worker.stdout.readline())
        there = Path(f"/proc/{process}/stat")
        assert there.exists()

        worker.kill()

        for _ in range(300):
            if not there.exists() or there.read_text().split()[2] == "Z":
                return
            signal.sigtimedwait([], 0.1)
    pytest.fail("the process outlives the worker")
