"""Files of settings: which goes first, what they may hold, and what is said of a wrong one."""

import json
import os
import re
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import batch, sessions, turn
from commands.measuring import findings
from mull.critique.criteria import Criterion
from mull.errors import ConfigurationError, RequestError
from mull.sampling.request import SelfConsistencyRequest
from mull.settings import Settings, read
from mull.settings_file import COMMANDS, FILE, PYPROJECT, find, settable
from tests.unit.conftest import Typed
from tests.unit.measuring.commands import run

Type = Callable[..., Typed]
Patch = pytest.MonkeyPatch
EXAMPLES = Path(__file__).parents[2] / "examples"
# A project's file, and under it a user's.
PROJECT = """\
model = "openai/project"
budget_usd = 2.5

[ask]
answers = "number"
preset = "careful"
system = { file = "texts/system.md" }

[ask.options]
top_p = 0.9

[agent.limits]
memory_mb = 128

[reflect]
judges = ["openai/judge"]
criteria = "letter"
reflect = false

[presets.careful]
rule = "predictive"
epsilon = 0.01
max_responses = 30

[criteria.letter]
tone = { meaning = "It is courteous.", weight = 2 }
length = "It has at most 200 words."

[profiles.cheap]
model = "openai/cheap"

[profiles.cheap.ask]
max_responses = 6
"""
USER = """\
model = "openai/user"
temperature = 0.2

[ask]
quorum = 2

[profiles.cheap]
budget_tokens = 9000
seed = 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    """Be in a project's folder, with a user's own file."""
    monkeypatch.delenv("MULL_SETTINGS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    own, project = tmp_path / "config" / "mull", tmp_path / "project"
    for made in (own, project / "texts", project / "src"):
        made.mkdir(parents=True)
    (own / FILE).write_text(USER)
    (project / FILE).write_text(PROJECT)
    (project / "texts" / "system.md").write_text("Be terse.\n")
    monkeypatch.chdir(project / "src")
    return project


def of(text: str, folder: Path, profile: str | None = None) -> Settings:
    """Read a file of this text."""
    file = folder / FILE
    file.write_text(text)
    return read(file, profile)


def refused(text: str, folder: Path, command: str = "ask") -> str:
    """Return what is said of a file of this text, without the file's own path."""
    with pytest.raises(ConfigurationError) as caught:
        of(text, folder).complete(command, {})
    return str(caught.value).partition(f"{FILE}, ")[2] or str(caught.value)


def test_each_source_goes_before_the_next(typed: Type, folder: Path, monkeypatch: Patch) -> None:
    """An option, the environment, a profile, the project, the user."""
    assert folder.is_dir()
    plain = typed("ask", "What?").request
    cheap = typed("ask", "What?", "--profile", "cheap").request
    monkeypatch.setenv("MULL_MODEL", "openai/variable")
    monkeypatch.setenv("MULL_PROFILE", "cheap")
    there = typed("ask", "What?").request
    chosen = typed("ask", "What?", "--model", "openai/option", "--quorum", "3").request

    models = [one.model for one in (plain, cheap, there, chosen)]
    assert models == [f"openai/{of}" for of in ("project", "cheap", "variable", "option")]
    assert (plain.temperature, plain.quorum, plain.budget_usd) == (0.2, 2, 2.5)
    assert (plain.budget_tokens, plain.seed, cheap.budget_tokens, cheap.seed) == (
        None, None, 9_000, 1,
    )  # fmt: skip
    assert (chosen.quorum, chosen.budget_usd, chosen.max_responses) == (3, 2.5, 6)


def test_a_request_has_values_and_no_name_of_one_s_own(typed: Type, folder: Path) -> None:
    """Whoever reads the history needs no file for it."""
    assert folder.is_dir()
    asked = typed("ask", "What?").request
    judged = typed("reflect", "What?").request
    named = typed("reflect", "What?", "--criteria", "letter").request

    assert (asked.preset, asked.rule, asked.epsilon) == (None, "predictive", 0.01)
    assert (asked.max_responses, asked.system, asked.options.top_p) == (30, "Be terse.", 0.9)
    assert judged.criteria == named.criteria == (
        Criterion(name="tone", meaning="It is courteous.", weight=2),
        Criterion(name="length", meaning="It has at most 200 words."),
    )  # fmt: skip


def test_what_is_typed_goes_before_what_it_replaces(typed: Type, folder: Path) -> None:
    """A preset stands for its settings, criteria for a set of them, and a flag can be undone."""
    assert folder.is_dir()
    thrifty = typed("ask", "What?", "--preset", "thrifty").request
    mild = typed("ask", "What?", "--epsilon", "0.2", "--set", "top_k=5").request
    own = typed("reflect", "What?", "--criterion", "tone=Kind.", "--reflect").request
    coded = typed("agent", "p", "--wall-seconds", "3").request

    assert thrifty == SelfConsistencyRequest(
        question="What?", model="openai/project", budget_usd=2.5, answers="number",
        system="Be terse.\n", options={"top_p": 0.9}, quorum=2, temperature=0.2, preset="thrifty",
    )  # fmt: skip
    assert (mild.rule, mild.epsilon, mild.max_responses) == ("predictive", 0.2, 30)
    assert (mild.options.top_p, mild.options.top_k) == (0.9, 5)
    assert ([one.name for one in own.criteria], own.reflect) == (["tone"], True)
    assert (coded.limits.wall_seconds, coded.limits.memory_mb) == (3, 128)


def test_a_profile_s_preset_goes_before_the_project_s_rule(folder: Path) -> None:
    """As one that is typed does; a key beside a preset goes before what that stands for."""
    text = """\
    rule = "beta"
    min_responses = 7
    quorum = 2
    [profiles.quick]
    preset = "thrifty"
    max_responses = 5
    """
    fields = of(text, folder, "quick").complete("ask", {"question": "What?"})

    request = SelfConsistencyRequest(**fields)
    assert (request.rule, request.min_responses, request.max_responses) == ("predictive", 1, 5)
    assert request.quorum == 2


def test_a_line_says_what_is_set(typed: Type, folder: Path, monkeypatch: Patch) -> None:
    """Nobody is surprised by a file in a folder, nor by a variable that hides a file's model."""
    assert folder.is_dir()
    plain = typed("agent", "p").err
    monkeypatch.setenv("MULL_MODEL", "openai/variable")
    hidden = typed("ask", "What?", "--profile", "cheap").err
    monkeypatch.setenv("MULL_SETTINGS", os.devnull)

    assert plain == (
        "settings of ~/config/mull/mull.toml, ../mull.toml: temperature 0.2,"
        " model openai/project, budget_usd 2.5, limits.memory_mb 128\n"
    )
    first, second = hidden.splitlines()
    assert first.startswith("settings of ~/config/mull/mull.toml, ../mull.toml, profile cheap: ")
    assert (
        ", preset careful, system Be terse., options.top_p 0.9, budget_tokens 9000, seed 1, "
        in first
    )
    assert second == (
        "Note: MULL_MODEL goes before the model of ../mull.toml, line 30 (profile cheap)."
    )
    assert typed("ask", "What?").err == ""


def test_an_option_is_no_variable(typed: Type, folder: Path, monkeypatch: Patch) -> None:
    """Nothing is noted where an option hides both; a home that is not known is not searched."""
    home = folder / "src"
    (home / "mull").mkdir()
    (home / "mull" / FILE).write_text("quorum = 9")
    monkeypatch.setenv("MULL_MODEL", "openai/variable")
    monkeypatch.setenv("XDG_CONFIG_HOME", ".")

    ended = typed("ask", "What?", "--model", "openai/option")

    assert (ended.request.model, ended.request.quorum) == ("openai/option", 1)
    assert ended.err.count("\n") == 1


def test_every_command_that_starts_runs_takes_them(
    typed: Type, folder: Path, monkeypatch: Patch, tmp_path: Path
) -> None:
    """A session and a list of tasks too, whose budget is for all of its tasks together."""
    (folder / FILE).write_text("""\
    model = "openai/x"
    budget_usd = 3
    [reflexion]
    environment = "puzzles"
    [retroformer]
    environment = "puzzles"
    [train]
    environment = "code"
    reflector = "openai/r"
    [profiles.cheap]
    seed = 5
    """)
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"task_id": "t1"}\n')
    begun: list[Any] = []
    monkeypatch.setattr(turn, "with_client", lambda action: action(None))
    monkeypatch.setattr(sessions, "send", lambda *given, **_: begun.append(given[2]))

    tried = typed("reflexion", "--task", "t", "--profile", "cheap").request
    scored = typed("retroformer", "--task", "t", "--reward-model", "r").request
    trained = typed("train", "--tasks", str(tasks), "--base-model", "b", "--profile", "cheap")
    given, _ = typed("reflexion", "--tasks", str(tasks), "--profile", "cheap").planned
    wrong = typed("reflexion", "--tasks", "human-eval")
    typed("turn", "Hello", "--session", "s", "--profile", "cheap")

    assert (tried.environment, tried.model, tried.seed) == ("puzzles", "openai/x", 5)
    assert (scored.environment, scored.seed) == ("puzzles", None)
    assert (trained.request.reflector, trained.request.seed) == ("openai/r", 5)
    assert (trained.request.task_file, trained.err.count("settings of ")) == (str(tasks), 1)
    assert (given.request.budget_usd, given.request.variants[0].request) == (
        3, {"temperature": 0.2, "environment": "puzzles", "model": "openai/x", "seed": 5},
    )  # fmt: skip
    assert wrong.err.splitlines()[1:] == ["Error: --tasks human-eval is for --env code."]
    assert [(one.model, one.seed) for one in begun] == [("openai/x", 5)]


def test_a_batch_has_bounds_of_its_own(folder: Path) -> None:
    """A bound of each run is not one of all runs together, though it has the same name."""
    settings = of("budget_usd = 1\nmax_concurrency = 2\n[batch]\nbudget_usd = 20\n", folder)

    assert settings.complete("batch", {}) == {"budget_usd": 20}
    assert settings.complete("ask", {}) == {"budget_usd": 1, "max_concurrency": 2}


def test_the_lines_of_a_batch_share_what_is_set(
    typed: Type, folder: Path, monkeypatch: Patch
) -> None:
    """The profile is given before `--`, or to the command after it; all lines have values."""
    (folder / "lines.jsonl").write_text('{"question": "What?"}\n')
    with (folder / FILE).open("a") as file:
        file.write("[batch]\nbudget_usd = 9\n")
    words = ["batch", str(folder / "lines.jsonl"), "--command", "ask"]
    monkeypatch.setattr(batch, "with_client", lambda action: action(None))

    before = typed(*words, "--profile", "cheap", "--", "--answers", "text").planned[0]
    after = typed(*words, "--", "--answers", "text", "--profile", "cheap").planned[0]
    monkeypatch.setenv("MULL_PROFILE", "cheap")
    there = typed(*words, "--", "--answers", "text").planned[0]

    fields = before.request.variants[0].request
    assert (fields["model"], fields["answers"], fields["rule"]) == (
        "openai/cheap", "text", "predictive",
    )  # fmt: skip
    assert "preset" not in fields
    assert fields == after.request.variants[0].request == there.request.variants[0].request
    assert (before.request.budget_usd, fields["budget_usd"]) == (9, 2.5)


def test_measurements_take_what_they_have_options_for(folder: Path, monkeypatch: Patch) -> None:
    """A judge is measured on criteria of one's own."""
    made: list[Any] = []
    monkeypatch.setattr(findings, "measure", lambda _, batch, *__: made.append(batch[0].variants))
    examples = EXAMPLES / "labelled-drafts.jsonl"
    assert folder.is_dir()

    calibrated = run("calibrate", str(examples), "--profile", "cheap")
    compared = run("compare", str(EXAMPLES / "questions.jsonl"), "--criteria", "code")

    assert (calibrated.exit_code, compared.exit_code) == (0, 0)
    judging = made[0][0].request
    assert judging["judges"] == ["openai/judge"]
    assert [one["name"] for one in judging["criteria"]] == ["tone", "length"]
    assert "model" not in judging
    reflecting = next(one.request for one in made[1] if one.name == "reflect")
    assert (reflecting["criteria"], reflecting["model"]) == ("code", "openai/project")
    assert not {"reflect", "budget_usd"} & reflecting.keys()


NAMED = "expected a small letter, and at most 39 more, digits, - or _"
UNKNOWN = [
    ("modle = 1", "1: there is no setting modle; did you mean mode or model?"),
    ("[aks]", "1: there is no setting aks; did you mean ask?"),
    ("\n[ask]\n# x\nbudget-usd = 1",
     "4: there is no setting budget-usd; did you mean budget_usd?"),
    ("[reflexion]\nenv = 'code'", "2: there is no setting env; did you mean environment?"),
    ("[ask]\nentropy_mode = 'off'", "2: there is no setting entropy_mode; did you mean rule?"),
    ("[reflect]\npreset = 'thrifty'", "2: preset is a setting of ask"),
    ("[agent.limits]\nmemry_mb = 1", "2: there is no setting memry_mb; did you mean memory_mb?"),
    ("[presets.x]\nruel = 'beta'", "2: there is no setting ruel; did you mean rule?"),
    ("[criteria.x]\na = { menaing = 'b' }",
     "2: there is no setting menaing; did you mean meaning?"),
    ("[profiles.x.ask]\nx = '''\n[profiles]\n'''\nrul = 1", "2: there is no setting x"),
    ("[profiles.x.ask]\nsystem = '''\n[batch]\n'''\nrul = 1",
     "5: there is no setting rul; did you mean rule?"),
    ("context = [\n'a', # ]\n]\n\"ru\\u006c\" = 1",
     "4: there is no setting rul; did you mean rule?"),
    ("[profiles.x.presets.y]", "1: there is no setting presets; did you mean preset?"),
    ("[presets.thrifty]", "1: presets.thrifty: Mull has one of this name; choose another"),
    ("[criteria.'a b']", f"1: criteria.a b: {NAMED}"),
    ("ask = 5", "1: expected a table, [ask]"),
    ("profiles = 5", "1: expected a table, [profiles]"),
    ("criteria = 'code'", "1: expected a table, [criteria]"),
    ("[presets]\n\"\\u001b[2J\" = 1", "2: expected a table, [presets.\u241b[2J]"),
    ("\"\\u001b[2J\" = 1", "1: there is no setting \u241b[2J"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), UNKNOWN)
def test_a_key_that_is_not_known_is_refused(folder: Path, text: str, said: str) -> None:
    """With its line and the nearest key, whichever command is typed."""
    assert refused(text, folder, "train") == f"line {said}"


WRONG = [
    ("temperature = '0.5'", "line 1: temperature: should be a valid number"),
    ("[ask]\nmax_responses = 0", "line 2: max_responses: should be greater than or equal to 1"),
    ("seed = 2026-11-27", "line 1: seed: should be a whole number"),
    ("model = 'http://elsewhere/v1'", "line 1: model: an address (://) can't be part of a model's"),
    ("[ask.options]\nstop = 5", "line 2: options.stop: should be a valid array"),
    ("[ask]\npreset = 'mine'", "2: preset: there is no mine; choose one of thrifty, thorough"),
    ("[ask]\npreset = 'm'\n[presets.m]\nmin_responses = 20",
     "line 3: min_responses (20) is above max_responses (10)"),
    ("[ask]\npreset = 'm'\n[presets.m]\nrule = 'x'", "line 4: rule: should be 'combined', "),
    ("budget_usd = inf", "line 1: budget_usd: should be a finite number"),
    ("[ask]\ncalibration = { file = 'mull.toml' }", "calibration: the file is not valid JSON"),
    ("model = 'a\nb'", ": not TOML: Found invalid character '\\n' (at line 1, column 11)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_a_value_that_is_wrong_is_refused(folder: Path, text: str, said: str) -> None:
    """As JSON of the same request is, with the line; the value itself is not quoted."""
    assert said in refused(text, folder)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{ Tone = 'x' }", "line 4: Tone.name: should match pattern"),
        ("{ tone = '' }", "line 4: tone.meaning: should have at least 1 character"),
        ("{ tone = { meaning = 'x', weight = 0 } }", "line 4: tone.weight: should be greater than"),
    ],
)
def test_criteria_that_are_wrong_are_refused(folder: Path, given: str, said: str) -> None:
    """Where they stand, though they are used elsewhere."""
    text = f"[reflect]\ncriteria = 'mine'\n[criteria]\nmine = {given}"

    assert said in refused(text, folder, "reflect")


OUTSIDE = [
    ("../secret.txt", "system: the path leads out of the folder of "),
    ("/etc/passwd", "system: the path leads out of the folder of "),
    ("link.txt", "system: the path leads out of the folder of "),
    ("texts/out/secret.txt", "system: the path leads out of the folder of "),
    ("~/secret.txt", "system: the file is not there"),
    (".env", "system: hidden files and folders are not read"),
    (".git/config", "system: hidden files and folders are not read"),
    ("texts/env.txt", "system: hidden files and folders are not read"),
    ("pipe", "system: the file is not there"),
    ("texts", "system: the file is not there"),
    ("loop", "system: "),
    ("\\u0000", "system: not a valid path"),
    ("latin.txt", "system: the file is not UTF-8 text"),
    ("large.txt", "system: the file has over 1,000,000 bytes"),
]


@pytest.mark.parametrize(("given", "said"), OUTSIDE)
def test_a_file_names_texts_of_its_own_folder_alone(
    folder: Path, tmp_path: Path, given: str, said: str
) -> None:
    """Neither by dots nor by links; and none that is hidden, where secrets lie."""
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "texts" / "out").symlink_to(tmp_path)
    (folder / "texts" / "env.txt").symlink_to(folder / ".env")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / ".env").write_text("KEY=1")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("token")
    (folder / "latin.txt").write_bytes(b"\xe9")
    (folder / "large.txt").write_text("a" * 1_000_001)
    os.mkfifo(folder / "pipe")

    assert said in refused(f'system = {{ file = "{given}" }}', folder)


def test_a_file_names_json_and_several_texts(folder: Path) -> None:
    """Written by any editor: with a mark of its encoding, and other ends of lines."""
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    (folder / "talk.json").write_text(json.dumps(talk))
    text = (
        "\ufeff[ask]\r\n"
        "messages = { file = 'talk.json' }\r\n"
        "context = [\r\n  'One.',\r\n  { file = 'texts/system.md' },\r\n]\r\n"
        "sead = 1\r\n"
    )
    said = refused(text, folder)
    fields = of(text.replace("sead", "seed"), folder).complete("ask", {"question": "What?"})

    assert said == "line 7: there is no setting sead; did you mean seed?"
    request = SelfConsistencyRequest(**fields)
    assert [one.model_dump() for one in request.messages] == talk
    assert (request.context, request.seed) == (("One.", "Be terse."), 1)


def test_a_folder_to_search_is_in_the_file_s_own(folder: Path) -> None:
    """It is searched by a worker, by its absolute path."""
    settings = of("[agent]\ndocs = 'texts'\n[turn]\ndocs = '..'", folder)

    assert settings.complete("agent", {}) == {"docs": str(folder / "texts")}
    with pytest.raises(ConfigurationError, match="line 4: docs: the path leads out of the folder"):
        settings.complete("turn", {})


FORBIDDEN = (
    "address", "api_key", "api_base", "namespace", "tls", "headers", "webhook", "tools_folder",
    "mcp", "command", "queues", "secrets", "encryption_keys", "codec", "otel", "profile",
    # Fields of requests that a file may not set.
    "question", "query", "prompt", "message", "task", "tasks", "draft", "tests", "summary",
    "stream", "memory", "reward_model", "base_model", "tuned", "task_file", "carried",
)  # fmt: skip


@pytest.mark.parametrize("table", ["", *(f"[{command}]" for command in COMMANDS)])
def test_a_file_redirects_nothing(folder: Path, table: str) -> None:
    """No address, key, command, server or webhook, and nothing beside the run itself."""
    for key in FORBIDDEN:
        said = refused(f"{table}\n{key} = 'x'", folder)

        assert said.startswith("line 2: "), key
        assert "there is no setting" in said or "can't be set in a file" in said, key


def test_every_field_is_decided_on() -> None:
    """A field that is added is a setting only once it is listed in docs/settings.md."""
    text = Path("docs/settings.md").read_text("utf-8")
    _, _, rows = text.partition("| command | settings |\n|---|---|\n")
    listed: dict[str, list[str]] = {name: [] for name in COMMANDS}
    for row in rows.partition("\n\n")[0].splitlines():
        said, names = row.strip("| ").split(" | ")
        whose = re.findall(r"`(\w+)`", said)
        for name in COMMANDS.keys() - whose if said.startswith("all but") else whose:
            listed[name] += re.findall(r"`(\w+)`", names)

    assert {name: sorted(each) for name, each in listed.items()} == {
        name: sorted(settable(name)) for name in COMMANDS
    }


def test_the_nearest_file_is_the_project_s(folder: Path) -> None:
    """A pyproject.toml counts with its table alone, and after a mull.toml beside it."""
    below = folder / "src" / "deep"
    below.mkdir()
    (below / PYPROJECT).write_text("[tool.other]\nmull = 1\n")
    far = find(below)
    (below / PYPROJECT).write_text("[project]\nname = 'mull'\n[tool.mull]\nmodel = 'openai/near'\n"
                                   "[tool.mull.ask]\nmodel = 5\n")  # fmt: skip
    near = find(below)
    (below / FILE).write_text("")

    assert (far, near, find(below)) == (folder / FILE, below / PYPROJECT, below / FILE)
    settings = read(below / PYPROJECT)
    assert settings.of("turn")["model"].line == 4
    with pytest.raises(
        ConfigurationError, match=f"{PYPROJECT}, line 6: model: should be a valid string"
    ):
        settings.of("ask")


def test_no_file_above_the_repository_or_the_home_folder_is_taken(
    folder: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Nor from beside them: a project begins at its repository's root, and ends with the home."""
    (tmp_path / FILE).write_text("seed = 1")
    inner = folder / "src" / "inner"
    (inner / "deep").mkdir(parents=True)
    (inner / ".git").touch()  # as in a work tree of its own
    within = find(inner / "deep")
    (inner / FILE).write_text("seed = 2")
    at_root = find(inner / "deep")
    (folder / FILE).unlink()
    at_home = find(folder)
    monkeypatch.setenv("HOME", str(folder))

    assert (within, at_root, at_home) == (None, inner / FILE, tmp_path / FILE)
    assert find(folder / "src") is None


@pytest.mark.parametrize("name", [FILE, PYPROJECT])
def test_a_file_of_somebody_else_is_passed_over(
    typed: Type, folder: Path, name: str, monkeypatch: Patch
) -> None:
    """As /tmp/mull.toml may be; one of the user's own, or of root, above it is taken.

    A mull.toml is named, with the reason; a pyproject.toml may be any program's.
    """
    below = folder / "src"
    (below / name).write_text("[tool.mull]\nmodel = 'openai/elsewhere'\n")
    wanted: Path | None = folder / FILE
    if os.geteuid():
        # Only root can give a file away: here all are of somebody else.
        monkeypatch.setattr(os, "geteuid", lambda: 12_345)
        wanted = None
    else:
        os.chown(below / name, 12_345, -1)

    listed, document = typed("settings"), json.loads(typed("settings", "--json").out)
    note = "Note: mull.toml is passed over: another user owns it. If you trust it, name it by MULL_"
    named = (note in listed.err, str(below / FILE) in document["passed_over"])

    assert find(below) == wanted
    assert named == (name == FILE, name == FILE)
    monkeypatch.setenv("MULL_SETTINGS", os.devnull)
    assert "passed over" not in typed("settings").err


def test_a_pyproject_that_can_t_be_read_is_passed_over(folder: Path) -> None:
    """It is another program's, until it says otherwise."""
    below = folder / "src"
    (below / PYPROJECT).write_text("[tool.mull]\n")
    (below / PYPROJECT).chmod(0)
    root = os.getuid() == 0
    if root:  # which can read everything
        os.setreuid(12_345, -1)
    try:
        found = find(below)
    finally:
        if root:
            os.setreuid(0, -1)

    assert found == folder / FILE


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (FILE, b"\xff", "not UTF-8 text"),
        (FILE, b"a" * 200_001, "over 200,000 bytes"),
        (FILE, b"a = " + b"[" * 50_000, "not TOML: "),
        (FILE, b"a" + b".a" * 50_000 + b" = 1", "a key has over 50 parts"),
        (FILE, b"[" + rb'"\"".' * 20_000 + b"a]", "a key has over 50 parts"),
        (FILE, b"[ask]\ncontext = {a" + b".a" * 3_000 + b" = 1}", "a key has over 50 parts"),
        (FILE, b"context = " + b"{a.a.a = " * 60 + b"1" + b"}" * 60, "nested over 50 deep"),
        (FILE, b"seed = 0x" + b"f" * 5_000, "an integer has over 64 bits"),
        (FILE, b"seed = " + b"9" * 5_000, "not TOML: "),
        (PYPROJECT, b"[tool]\nmull = 5", "tool.mull: expected a table"),
        (PYPROJECT, b"mull = ", "not TOML: Invalid value (at end of document)"),
    ],
)  # fmt: skip
def test_a_file_that_can_t_be_read_is_named(
    typed: Type, folder: Path, name: str, data: bytes, said: str
) -> None:
    """One line and exit code 2, and nothing is started."""
    (folder / "src" / name).write_bytes(data)

    ended = typed("ask", "What?")

    assert (ended.code, ended.request, ended.out) == (2, None, "")
    assert ended.err.startswith(f"Error: {name}: {said}")
    assert ended.err.count("\n") == 1


def test_a_profile_that_is_not_there_is_refused(typed: Type, folder: Path) -> None:
    """With the nearest one; where there is no file, that is said."""
    near = typed("ask", "What?", "--profile", "cheep")
    (folder / FILE).unlink()
    (folder.parent / "config" / "mull" / FILE).unlink()
    none = typed("ask", "What?", "--profile", "cheap")

    assert (near.code, none.code) == (2, 2)
    assert near.err == (
        "Error: there is no profile cheep in ~/config/mull/mull.toml or ../mull.toml;"
        " did you mean cheap?\n"
    )
    assert none.err == "Error: there is no profile cheap in a mull.toml, which is not there.\n"


def test_a_hostile_file_is_read_in_time(folder: Path) -> None:
    """The line of a wrong key is looked for in a text of any shape."""
    text = "x = '''\n" + "]\n" * 90_000 + "'''\n"
    started = time.monotonic()

    assert refused(text, folder) == "line 1: there is no setting x"
    assert time.monotonic() - started < 10


def test_settings_are_listed_with_where_they_are_from(
    typed: Type, folder: Path, monkeypatch: Patch
) -> None:
    """One row for a value that several commands have, and a document for a machine."""
    assert folder.is_dir()
    monkeypatch.setenv("MULL_JUDGE_MODEL", "openai/a openai/b")
    monkeypatch.setenv("COLUMNS", "120")
    listed = typed("settings", "--profile", "cheap")
    document = json.loads(typed("settings", "reflect", "--json").out)

    rows = [line.split() for line in listed.out.splitlines()[2:]]
    assert [
        "model",
        "openai/cheap",
        "all",
        "../mull.toml,",
        "line",
        "30",
        "(profile",
        "cheap)",
    ] in rows
    assert ["temperature", "0.2", "all", "~/config/mull/mull.toml,", "line", "2"] in rows
    assert [
        "max_responses",
        "6",
        "ask",
        "../mull.toml,",
        "line",
        "33",
        "(profile",
        "cheap)",
    ] in rows
    assert ["judges", '["openai/a",', '"openai/b"]', "reflect", "MULL_JUDGE_MODEL"] in rows
    assert ["criteria.letter", "tone,", "length", "../mull.toml,", "line", "25"] in rows
    assert listed.err == "Profiles: cheap.\n"
    assert document["settings"]["reflect"]["criteria"] == {
        "value": "letter", "from": "project", "file": str(folder / FILE), "line": 17,
        "profile": None,
    }  # fmt: skip
    assert document["settings"]["reflect"]["judges"] == {
        "value": ["openai/a", "openai/b"], "from": "environment", "variable": "MULL_JUDGE_MODEL",
    }  # fmt: skip
    assert document["criteria"]["letter"]["value"][0]["weight"] == 2
    assert document["profiles"] == ["cheap"]


def test_where_a_value_is_from_stands_on_one_line(
    typed: Type, folder: Path, monkeypatch: Patch
) -> None:
    """In a narrow terminal too, and from the current folder on: it is copied."""
    assert folder.is_dir()
    monkeypatch.setenv("COLUMNS", "60")
    listed = typed("settings", "--profile", "cheap").out

    assert "../mull.toml, line 30 (profile cheap)" in listed


def test_a_command_without_settings_is_refused_by_name(typed: Type) -> None:
    with pytest.raises(RequestError, match="there are no settings of asq; choose one of ask, "):
        Settings().complete("asq", {})
    ended = typed("settings", "asq")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Error: there are no settings of asq; choose one of ask, ")


def blocks() -> list[str]:
    """Return the indented texts of the page, which stand as they are typed or printed."""
    text = Path("docs/settings.md").read_text("utf-8")
    found = re.findall(r"\n\n((?:    .*\n|\n(?=    ))+)", text)
    return [textwrap.dedent(block) for block in found]


def test_the_page_shows_what_is_printed(typed: Type, tmp_path: Path, monkeypatch: Patch) -> None:
    """Its file is read, its line and its table are printed, and its program runs."""
    file, line, table, program = blocks()
    (tmp_path / FILE).write_text(file)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "terse.md").write_text("Be terse.\n")
    monkeypatch.delenv("MULL_SETTINGS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(tmp_path)

    asked = typed("ask", "Is 91 prime?", "--profile", "cheap")
    listed = typed("settings", "--profile", "cheap")
    known: dict[str, Any] = {}
    exec(program, known)  # noqa: S102 - the page's own

    assert asked.err == line
    assert [row.rstrip() for row in listed.out.splitlines()] == table.splitlines()
    request = SelfConsistencyRequest(**known["fields"])
    assert request == asked.request
    assert (request.epsilon, request.max_responses) == (0.01, 6)
