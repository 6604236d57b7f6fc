"""Workers as Docker Compose would start them: with the environment that its file and yours give."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from commands.command import MOUNTED
from commands.embedded import Place
from mull.encryption import EncryptionCodec, codec_from
from tests.deploy.conftest import COMPOSE, DEPLOY, OWN_SERVICES, ROOT, SERVICES, documents, served

# What docs/deploy.md says to do for keys.
STEPS = re.findall(
    r"^ {4,6}((?:printf|echo|chmod) .*\bkeys\b.*)$",
    (ROOT / "docs/deploy.md").read_text("utf-8"),
    re.MULTILINE,
)
ENCRYPTED = {
    **dict.fromkeys(("register", "workflows", "llm", "tools", "codec"), "main-1, code's"),
    "code": "code's with code-1",
}


def assignments(path: Path) -> dict[str, str]:
    """Read a file of NAME=VALUE lines."""
    lines = path.read_text("utf-8").splitlines()
    found = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in found}


def environment_of(service: str, folder: Path) -> dict[str, str]:
    """Return what a service's environment is, with the example's settings and a folder's files."""
    known = assignments(DEPLOY / ".env.example")

    def value(match: re.Match[str]) -> str:
        name, kind, otherwise = match.groups()
        return known.get(name) or ("given" if kind == ":?" else otherwise)

    stated = SERVICES[service]
    given: dict[str, str] = {}
    for file in stated.get("env_file", ()):
        if file["required"] or (folder / file["path"]).exists():
            given |= assignments(folder / file["path"])
    texts = stated["environment"].items()
    return given | {name: re.sub(r"\$\{(\w+)(:[?-])([^}]*)\}", value, text) for name, text in texts}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The folder deploy/, once somebody has turned encryption on."""
    (tmp_path / "deploy").mkdir()
    assert len(STEPS) == 5
    subprocess.run(["/bin/sh", "-euc", "\n".join(STEPS)], cwd=tmp_path, check=True)
    return tmp_path / "deploy"


@pytest.mark.parametrize(("service", "described"), ENCRYPTED.items())
def test_each_service_encrypts_with_the_keys_that_it_may_have(
    keys: Path, service: str, described: str
) -> None:
    """Code has its own alone, everybody else both; without the files nobody has the variable."""
    codec = codec_from(environment_of(service, keys))

    assert isinstance(codec, EncryptionCodec)
    assert described in codec.described
    assert codec.only_code == (service == "code")
    assert "MULL_ENCRYPTION_KEYS" not in environment_of(service, keys / "nothing")


@pytest.mark.parametrize("encrypts", [False, True], ids=["in the clear", "encrypted"])
def test_a_worker_serves_with_the_environment_of_compose(
    place: Place, keys: Path, encrypts: bool
) -> None:
    """No variable that Compose sets to nothing ends it."""
    given = environment_of("workflows", keys if encrypts else keys / "nothing")
    environment = {**given, "PATH": os.defpath, "TEMPORAL_ADDRESS": place.address}

    code, log = served([sys.executable, str(ROOT / "worker.py"), "--queues", "mull"], environment)

    assert code == 0, log
    assert f"serving mull at {place.address}" in log


def test_the_database_is_reached_by_temporal_alone() -> None:
    """No worker shares a network with it."""
    networks = documents(COMPOSE)[0]["networks"]
    near = {name for name, each in SERVICES.items() if "database" in each.get("networks", ())}

    assert SERVICES["postgresql"]["networks"] == SERVICES["schema"]["networks"] == ["database"]
    assert near == {"postgresql", "schema", "temporal"}
    assert networks["database"] == {"internal": True}


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_limits(service: str) -> None:
    """None takes the machine's memory, processes or disk from the others."""
    stated = SERVICES[service]

    assert re.fullmatch(r"\d+[mg]", stated["mem_limit"])
    assert 0 < stated["pids_limit"] <= 1024
    assert stated["logging"]["options"] == {"max-size": "20m", "max-file": "5"}


@pytest.mark.parametrize("service", OWN_SERVICES)
def test_each_worker_is_given_its_own_secrets_alone(service: str) -> None:
    """The folder of no other one is mounted, and nothing can be written to its own."""
    assert SERVICES[service]["volumes"] == [f"./secrets/{service}:{MOUNTED}:ro"]
