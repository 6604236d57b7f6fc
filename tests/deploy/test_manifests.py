"""Each file of deploy/ against its schema, and what it names against what there is."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest

import starter
import worker
from commands.command import MOUNTED
from mull import telemetry
from mull.queues import REQUIRED
from mull.sampling.request import SelfConsistencyRequest
from tests.deploy.conftest import (
    COMPOSE,
    DASHBOARDS,
    DEPLOY,
    OWN_SERVICES,
    ROOT,
    RULES,
    SERVICES,
    WORKERS,
    documents,
)
from workflows.calls import call_times

KUBERNETES = "1.33"
MANIFESTS = sorted(
    path
    for path in (DEPLOY / "kubernetes").rglob("*.yaml")
    if path.name not in {"kustomization.yaml", "names.yaml", "every-scaler.yaml"}
)
# Kinds of KEDA's own: nothing here checks them but the tests of what they name.
UNCHECKED = {"ScaledObject", "TriggerAuthentication"}
TEXTS = sorted(
    path
    for path in [*DEPLOY.rglob("*"), ROOT / "docs/deploy.md", ROOT / "docs/runbooks.md"]
    if path.is_file() and path.suffix != ".json"
)


@cache
def rendered(folder: Path) -> list[Any]:
    """Render a kustomization as `kubectl apply -k` does."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed, which puts the manifests together")
    command = ["kubectl", "kustomize", str(folder)]
    return documents(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def of_kind(folder: Path, kind: str) -> list[Any]:
    """Return the documents of a kind that a kustomization has."""
    return [each for each in rendered(folder) if each["kind"] == kind]


@cache
def variables() -> set[str]:
    """Find the variables of Mull's own that its code names."""
    code = [
        path.read_text("utf-8")
        for path in ROOT.rglob("*.py")
        if not path.relative_to(ROOT).parts[0].startswith((".", "tests", "bench", "build"))
    ]
    return set(re.findall(r"\bMULL_[A-Z_]+\b", "\n".join(code)))


def test_compose_has_its_schema() -> None:
    """The Compose file is one by the specification's schema."""
    command = [sys.executable, "-m", "check_jsonschema"]
    schema = ["--builtin-schema", "vendor.compose-spec", str(COMPOSE)]

    ran = subprocess.run([*command, *schema], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_each_manifest_is_one_of_its_kind(path: Path) -> None:
    """Kubernetes' own kinds have their schema, without a field that it does not know."""
    for document in documents(path):
        if document["kind"] not in UNCHECKED and path.name != "every-worker.yaml":
            kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize("name", ["shared", "workers", "production"])
def test_what_is_applied_has_its_schema(name: str) -> None:
    """After kustomize has put the parts together, each is still one of its kind."""
    found = rendered(DEPLOY / "kubernetes" / name)

    assert len(found) == {"shared": 10, "workers": 12, "production": 12}[name]
    for document in found:
        if document["kind"] not in UNCHECKED:
            kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_a_version_is_the_same_everywhere() -> None:
    """Name, label, image, build id and what KEDA asks for are of one version; none names another.

    Two versions stand side by side only if no selector of one finds a pod of the other.
    """
    [kustomization] = documents(WORKERS / "kustomization.yaml")
    [tag] = {image["newTag"] for image in kustomization["images"]}
    deployments = {each["metadata"]["name"]: each for each in of_kind(WORKERS, "Deployment")}
    assert all(name.endswith("-" + tag.replace(".", "-")) for name in deployments)
    for deployment in deployments.values():
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        assert labels["app.kubernetes.io/version"] == tag
        assert deployment["spec"]["selector"]["matchLabels"] == labels
        assert container["env"] == [{"name": "BUILD_ID", "value": tag}]
        assert "--build-id=$(BUILD_ID)" in container["args"]
        assert container["image"].endswith(f":{tag}")
    scaled = [each["spec"] for each in of_kind(WORKERS, "ScaledObject")]
    assert {each["scaleTargetRef"]["name"] for each in scaled} == set(deployments)
    triggers = [each["triggers"][0]["metadata"] for each in scaled]
    assert {each["workerDeploymentBuildIdFromEnv"] for each in triggers} == {"BUILD_ID"}
    assert {each["taskQueue"] for each in triggers} == set(REQUIRED)


def containers(folder: Path) -> dict[str, Any]:
    """Return the container and the volumes of each kind of worker."""
    found = {}
    for each in of_kind(folder, "Deployment"):
        pod = each["spec"]["template"]["spec"]
        name = each["metadata"]["labels"]["app.kubernetes.io/component"]
        found[name] = (pod["containers"][0], pod["volumes"])
    return found


def test_every_worker_states_what_it_needs_and_none_is_alone() -> None:
    """CPU and memory are requested, memory is limited, and two of each stand from the start."""
    resources = [container["resources"] for container, _ in containers(WORKERS).values()]
    scaled = [each["spec"] for each in of_kind(WORKERS, "ScaledObject")]

    assert len(resources) == len(scaled) == len(REQUIRED)
    assert all({"cpu", "memory"} == set(each["requests"]) for each in resources)
    assert all("memory" in each["limits"] for each in resources)
    assert [each["minReplicaCount"] for each in scaled] == [2] * len(REQUIRED)


def test_production_has_images_by_digest_and_secrets_as_files(tmp_path: Path) -> None:
    """A digest is the operator's to set, by the documented command; no secret is a variable."""
    copied = shutil.copytree(DEPLOY / "kubernetes", tmp_path / "deploy/kubernetes")
    digest = "sha256:" + "1a" * 32
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho '0.1.0: digest: {digest} size: 2417'\n")
    docker.chmod(0o755)
    text = (ROOT / "docs/deploy.md").read_text("utf-8")
    [steps] = re.findall(r"(?m)^ {4}sed -i .*production/kusto.*\n(?: {4}.*\n)+", text)
    first = re.search(r"sed -i .*workers/kustomization.yaml$", text, re.MULTILINE)
    assert first

    unset = containers(DEPLOY / "kubernetes/production")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["/bin/sh", "-euc", f"{first[0]}\n{steps}"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    found = containers(Path(copied, "production"))

    assert set(found) == set(unset) == set(containers(WORKERS))
    for name, (container, volumes) in found.items():
        # What is not set can't be pulled.
        assert not re.search(r"@sha256:[0-9a-f]{64}$", unset[name][0]["image"])
        assert container["image"] == f"ghcr.io/you/mull-{name}@{digest}"
        assert container["env"] == [{"name": "BUILD_ID", "value": "0.1.0"}]
        given = containers(WORKERS)[name][0]["envFrom"]
        assert container["envFrom"] == [each for each in given if "configMapRef" in each]
        assert {"name": "secrets", "mountPath": MOUNTED, "readOnly": True} in container[
            "volumeMounts"
        ]
        [mounted] = [each["projected"] for each in volumes if each["name"] == "secrets"]
        assert mounted["defaultMode"] == 0o440
        assert [each["secret"] for each in mounted["sources"]] == [
            each["secretRef"] for each in given if "secretRef" in each
        ]


def test_every_pod_is_restricted() -> None:
    """Another user than root, no capability, nothing to write to but its scratch, no token."""
    pods = [each["spec"]["template"]["spec"] for each in of_kind(WORKERS, "Deployment")]

    assert len(pods) == len(REQUIRED)
    for pod in pods:
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod["automountServiceAccountToken"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {
            container[f"{name}Probe"]["httpGet"]["path"] for name in ("liveness", "startup")
        } == {"/healthz"}
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_worker_of_code_reaches_temporal_alone() -> None:
    """No policy lets anything out of its pod but names and Temporal's port, and it has no key."""
    labels = {"app.kubernetes.io/name": "mull", "app.kubernetes.io/component": "code"}
    ports = set()
    for policy in of_kind(DEPLOY / "kubernetes/shared", "NetworkPolicy"):
        rules = policy["spec"]["podSelector"].get("matchExpressions", [])
        if all(labels[rule["key"]] in rule["values"] for rule in rules):
            for egress in policy["spec"].get("egress", []):
                ports |= {port["port"] for port in egress["ports"]}
    code, _ = containers(WORKERS)["code"]
    sources = [next(iter(each.values()))["name"] for each in code["envFrom"]]

    assert ports == {53, 7233}
    assert SERVICES["code"]["networks"] == ["code"]
    assert documents(COMPOSE)[0]["networks"]["code"] == {"internal": True}
    assert SERVICES["code"]["environment"] == {
        "TEMPORAL_ADDRESS": "temporal:7233",
        "TEMPORAL_NAMESPACE": "default",
    }
    assert SERVICES["code"]["env_file"] == [{"path": "code-keys.env", "required": False}]
    assert sources == ["mull-server", "mull-temporal", "mull-code"]


@pytest.mark.parametrize("service", OWN_SERVICES)
def test_compose_confines_its_workers(service: str) -> None:
    """Each has no capability, gains none, and writes to memory alone."""
    known = SERVICES[service]

    assert known["cap_drop"] == ["ALL"]
    assert known["security_opt"] == ["no-new-privileges:true"]
    assert known["read_only"]
    assert known["build"]["target"] == service


def test_each_alert_has_its_runbook() -> None:
    """What it links to is a heading of the runbooks, and no runbook is without its alert."""
    text = (ROOT / "docs/runbooks.md").read_text("utf-8")
    headings = set(re.findall(r"^## (Mull\w+)$", text, re.MULTILINE))
    assert headings == {rule["alert"] for rule in RULES}
    for rule in RULES:
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["summary"]


def test_panels_say_what_they_show() -> None:
    """Each has a title, a description, a unit and a legend, and none lies over another."""
    [dashboard] = [json.loads(path.read_text("utf-8")) for path in DASHBOARDS]
    cells: set[tuple[int, int]] = set()

    for panel in dashboard["panels"]:
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert all(target["legendFormat"] for target in panel["targets"])
        at = panel["gridPos"]
        own = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not own & cells
        assert at["x"] + at["w"] <= 24
        cells |= own


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_what_is_named_exists(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each option, command, variable, path, metric and search attribute that a text names."""
    with pytest.raises(SystemExit):
        worker.main(["--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    text = path.read_text("utf-8")

    given = re.findall(r"mull-worker ([^`\n]*)", text)
    if path.is_relative_to(WORKERS) or path.name == "Dockerfile":
        given += re.findall(r"(?:- |\")(--(?:health|metrics|log|build|queues)[a-z-]*)", text)
    found = {option for line in given for option in re.findall(r"(?<!\S)--[a-z][a-z-]+", line)}
    assert found <= options
    commands = re.findall(r"(?:^ {4}|`)mull ([a-z]+)", text, re.MULTILINE)
    assert set(commands) <= {name for some in starter.COMMANDS.values() for name in some}
    assert set(re.findall(r"\bMULL_[A-Z_]+\b", text)) <= variables() | {"MULL_TAG"}
    metrics = {metric.name for metric in telemetry.METRICS}
    named = set(re.findall(r"(?<![-/])\bmull_[a-z_]+?(?=(?:_bucket|_sum|_count)?\b)", text))
    assert named <= metrics
    queried = set(re.findall(r"[\"` ](Mull[A-Z]\w+)(?= [<>=])", text))
    assert queried <= set(telemetry.SEARCH_ATTRIBUTES)
    for place in re.findall(r"\b(?:deploy|docs)/[\w./@-]*\w", text):
        made = re.fullmatch(r"deploy/(?:keys|code-keys)?\.env", place)
        assert made or (ROOT / place).exists(), place


def test_compose_names_its_own_services_and_pins_images() -> None:
    """Whom Prometheus reads, where spans go, what Grafana asks; and no image is just the latest."""
    configs = [path.read_text("utf-8") for path in (DEPLOY / "compose").rglob("*.yaml")]
    hosts = re.findall(r"http://([a-z]+):\d+|\[([a-z]+):\d+\]", "\n".join(configs))
    [scraped] = [
        each["dns_sd_configs"][0]["names"]
        for each in documents(DEPLOY / "compose/prometheus.yaml")[0]["scrape_configs"]
        if each["job_name"] == "mull"
    ]

    assert {name for pair in hosts for name in pair if name} <= set(SERVICES)
    assert set(scraped) == set(OWN_SERVICES) <= set(SERVICES)
    for service in SERVICES.values():
        assert re.search(r":(v?\d[\w.-]+|\$\{MULL_TAG:-\d[\d.]+\})$", service["image"])


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Systemd knows each of its settings, and its name says the queue and the version."""
    unit = (DEPLOY / "systemd/mull@.service").read_text("utf-8")
    worker = tmp_path / "0.1.0/bin/mull-worker"
    worker.parent.mkdir(parents=True)
    worker.write_text("")
    worker.chmod(0o755)
    named = tmp_path / "mull-llm@.service"
    named.write_text(unit.replace("/opt/mull", str(tmp_path)))

    command = ["systemd-analyze", "verify", str(tmp_path / "mull-llm@0.1.0.service")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")
    assert {path.stem for path in (DEPLOY / "systemd").glob("*.env")} == {
        "worker",
        *(queue.removeprefix("mull-") for queue in REQUIRED),
    }


def test_nothing_kills_a_worker_before_its_calls_have_ended() -> None:
    """A call of a model may last as long as an attempt at the defaults, and SIGKILL comes later."""
    stated = [
        *(
            re.findall(r"^TimeoutStopSec=(\d+)$", path.read_text("utf-8"), re.MULTILINE)
            for path in DEPLOY.glob("systemd/*.service")
        ),
        *(
            re.findall(r"terminationGracePeriodSeconds: (\d+)", path.read_text("utf-8"))
            for path in WORKERS.glob("every-worker.yaml")
        ),
        *(
            [each["stop_grace_period"].removesuffix("s")]
            for each in SERVICES.values()
            if "stop_grace_period" in each
        ),
    ]
    asked = SelfConsistencyRequest(question="How much?").sample_timeout_seconds

    assert len(stated) == 2 + len(REQUIRED)
    assert min(int(seconds) for [seconds] in stated) >= max(worker.GRACE.values()) + 20
    attempt = call_times(asked, 5)["start_to_close_timeout"]
    assert worker.GRACE["llm"] >= attempt.total_seconds()
