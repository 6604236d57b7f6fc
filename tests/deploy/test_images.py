"""What the Dockerfile would run, step by step: no image can be built where the tests run.

The wheel is built and installed as there, beside the packages of one kind of image, which come from
the environment of the tests. A worker then runs as in a container: another user, no capability.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from commands.embedded import Place
from tests.deploy.conftest import DEPLOY, OWN_SERVICES, ROOT, SERVICES, WORKERS, served

DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")
CODE = [
    Requirement(line)
    for line in (DEPLOY / "packages/code.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
USER = "10001"
CONFINED = ["--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
# As a container is given its files: all read-only, but for a scratch folder that runs nothing.
READ_ONLY = (
    "mount --make-rprivate / && mount -t tmpfs -o noexec,nosuid,nodev,mode=1777 none /tmp && "
    'mount -o remount,bind,ro / && exec "$@"'
)
# Where a container's default rules forbid user namespaces: none can be made, though one is.
WITHOUT_NAMESPACES = (
    "echo 1 > /proc/sys/user/max_user_namespaces && "
    f'exec unshare --user --map-user={USER} --map-group={USER} setpriv --no-new-privs "$@"'
)
AS = {
    "unprivileged": ["setpriv", "--reuid", USER, "--regid", USER, *CONFINED],
    "container": [
        *("unshare", "--mount", "sh", "-ec", READ_ONLY, "sh"),
        *("setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"),
        *("unshare", "--map-root-user", "sh", "-ec", WITHOUT_NAMESPACES, "sh"),
    ],
}


def closure(wanted: list[Requirement]) -> set[str]:
    """Find what is installed with these, by what each declares here."""
    found: set[tuple[str, str]] = set()
    rest = [
        (canonicalize_name(each.name), extra) for each in wanted for extra in ["", *each.extras]
    ]
    while rest:
        name, extra = rest.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        for line in distribution(name).requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                rest += [(canonicalize_name(needed.name), e) for e in ["", *needed.extras]]
    return {name for name, _ in found}


def lay(name: str, site: Path) -> None:
    """Put a package's files into an environment, without copying them where that is possible."""
    for file in distribution(name).files or ():
        if ".." in file.parts or file.parts[0] == "__pycache__":
            continue
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.hardlink_to(str(file.locate()))
        except OSError:
            shutil.copy(str(file.locate()), target)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the steps of install.sh from the files that the Dockerfile copies."""
    source, work = tmp_path_factory.mktemp("src"), tmp_path_factory.mktemp("work")
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        *files, target = line.split()
        for path in (path for pattern in files for path in ROOT.glob(pattern)):
            if path.is_dir():
                shutil.copytree(path, source / target, dirs_exist_ok=True)
            else:
                (source / target).parent.mkdir(exist_ok=True)
                shutil.copy(path, source / target)
    steps = (source / "deploy/install.sh").read_text("utf-8")
    [made] = re.findall(r"^mkdir .*?^\$pip wheel [^\n]*$", steps, re.MULTILINE | re.DOTALL)
    given = {**os.environ, "work": str(work), "pip": f"{sys.executable} -m pip --quiet"}
    subprocess.run(["/bin/sh", "-euc", made], cwd=source, env=given, check=True)
    [built] = (work / "wheel").glob("*.whl")
    return built


def reachable() -> str:
    """Find an interpreter of this version that another user can run."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for each in (sys.executable, f"/usr/local/bin/{version}", f"/usr/bin/{version}"):
        command = [*AS["container"], each, "-c", "import ssl"]
        if subprocess.run(command, capture_output=True, check=False, cwd="/").returncode == 0:
            return each
    pytest.skip("no interpreter that another user can run")


@pytest.fixture(scope="module")
def code_image(wheel: Path) -> Iterator[Path]:
    """The folder that an image for code has at /opt/mull, where any user can read it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        image = Path(folder, "mull")
        subprocess.run([reachable(), "-m", "venv", "--without-pip", image], check=True)
        [site] = image.glob("lib/*/site-packages")
        for name in closure(CODE):
            lay(name, site)
        pip = [sys.executable, "-m", "pip", "--python", str(image / "bin/python"), "install"]
        # Without the checkout on the path, where Mull is there already.
        alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [*pip, "--quiet", "--no-deps", "--no-index", str(wheel)]
        subprocess.run(command, env=alone, cwd=folder, check=True)
        yield image


def test_the_wheel_holds_every_file(wheel: Path) -> None:
    """Each module, template and style of the project is in it, and nothing else of the folder."""
    rooms = ("mull", "workflows", "activities", "commands", "*.py")
    listed = subprocess.run(
        ["/usr/bin/env", "git", "ls-files", *rooms],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    outside = ("tests/", "bench/", "examples/", "docs/")
    expected = {name for name in listed if not name.startswith(outside)}

    held = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}

    assert sorted(held) == sorted(expected)
    assert "commands/html/templates/sheet.html.j2" in held


def test_the_first_process_of_every_worker_reaps_orphans() -> None:
    """It is an init, in each image of a worker, and neither Compose nor Kubernetes replaces it."""
    entries = re.findall(r'^ENTRYPOINT \[(.*"mull-worker".*)\]$', DOCKERFILE, re.MULTILINE)
    workers = [SERVICES[name] for name in OWN_SERVICES]
    pods = [path.read_text("utf-8") for path in WORKERS.glob("*.yaml")]

    assert len(entries) == 4
    assert all(entry.startswith('"tini", "--", "mull-worker"') for entry in entries)
    assert re.search(r"^RUN .*apt-get install .*\btini\b", DOCKERFILE, re.MULTILINE)
    assert not [one for one in workers if "entrypoint" in one]
    assert not [text for text in pods if re.search(r"^\s*(- )?command:", text, re.MULTILINE)]


def test_an_image_for_code_has_nothing_that_the_wheel_does_not_declare() -> None:
    """Its packages are the project's, with two of its extras, and no client of a model is there."""
    given = [*EXTRAS["code"], *EXTRAS["encryption"]]
    extra = {canonicalize_name(Requirement(each).name) for each in given}
    declared = {canonicalize_name(Requirement(each).name) for each in PROJECT["dependencies"]}
    there = closure(CODE)

    assert extra <= {canonicalize_name(each.name) for each in CODE} <= declared | extra
    assert there.isdisjoint({"litellm", "openai", "mcp", "pypdf", "httpx", "aiohttp", "jinja2"})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("setting", "backends"),
    [("unprivileged", {"bubblewrap", "landlock"}), ("container", {"landlock"})],
)
def test_a_code_worker_serves_in_its_image(
    place: Place, code_image: Path, setting: str, backends: set[str]
) -> None:
    """Without root or capabilities a sandbox passes: Landlock, where no namespace can be made."""
    command = [*AS[setting], str(code_image / "bin/mull-worker"), "--queues", "code"]
    environment = {"PATH": os.defpath, "TEMPORAL_ADDRESS": place.address, "HOME": "/nowhere"}

    code, log = served(command, environment)

    chosen = re.findall(r"sandbox: (\w+) ", log)
    assert f"serving mull-code at {place.address}" in log
    assert set(chosen) <= backends
    assert chosen
    assert code == 0


def test_a_code_worker_without_the_extra_serves_and_says_so(
    place: Place, code_image: Path, tmp_path: Path
) -> None:
    """Programs run without numpy and pytest; what asks for one is refused, with what to install."""
    bare = tmp_path / "mull"
    left_out = shutil.ignore_patterns("numpy*", "pytest*", "_pytest")
    shutil.copytree(code_image, bare, symlinks=True, ignore=left_out)
    [site] = bare.glob("lib/*/site-packages")
    environment = {"PATH": os.defpath, "TEMPORAL_ADDRESS": place.address}
    begun = [str(bare / "bin/python"), str(site / "worker.py"), "--queues", "code"]
    wanted = "from activities.sandbox.packages import importable; importable(('pytest',))"

    _, log = served(begun, environment)
    refused = subprocess.run(
        [begun[0], "-c", wanted], env=environment, capture_output=True, text=True, check=False
    ).stderr
    assert f"serving mull-code at {place.address}" in log
    assert "no numpy and no pytest: pip install '.[code]'" in log
    assert "pytest is not installed on this worker: pip install '.[code]'" in refused
