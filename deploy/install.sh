#!/bin/sh
# Install Mull into a virtual environment of its own: from requirements.lock, every file by its hash
# (but for pip itself, which checks them).
#
#     sh deploy/install.sh /opt/mull/0.1.0         what any worker and the command line need
#     sh deploy/install.sh /opt/mull/0.1.0 plain   the same, but for the packages of untrusted code
#     sh deploy/install.sh /opt/mull/0.1.0 code    what a worker of untrusted code needs, no more
#
# PYTHON names the interpreter: 3.11 or newer. The development tools and the toy model stay out. bin/
# has only `mull` and `mull-worker`; the environment, with other packages' programs, is in venv/.
set -eu
prefix=$1 target=$1/venv kind=${2:-everything}
cd "$(dirname "$0")/.."
# A worker's user reads nothing below a home folder, whatever its mode: its unit has ProtectHome.
"${PYTHON:-python3}" -I - "$prefix" << 'END'
import sys
from pathlib import Path

def closed(name):
    path = Path(name).resolve()
    if path.parts[1:2] in {("home",), ("root",)}:
        return Path("/", path.parts[1])
    there = (each for each in [*reversed(path.parents), path] if each.exists())
    return next((each for each in there if not each.stat().st_mode & 1), None)

base = sys._base_executable
place = closed(base) or closed(sys.base_prefix)
if place and not closed(sys.argv[1]):
    sys.exit(f"Error: a worker's user can't reach {place}: set PYTHON to another interpreter than {base}, which every user can run.")
END
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${PYTHON:-python3}" -m venv "$work/tools"
pip="$work/tools/bin/python -m pip --quiet --disable-pip-version-check --no-input"
# From this version on, pip checks hashes that stand in a file of constraints.
$pip install pip==26.3
$pip install --only-binary :all: --constraint requirements.lock setuptools

# In a folder of its own, to keep files of earlier builds out.
mkdir "$work/source"
cp -R pyproject.toml README.md LICENSE ./*.py mull workflows activities commands "$work/source"
$pip wheel --no-deps --no-build-isolation --wheel-dir "$work/wheel" "$work/source"

if [ "$kind" = code ]; then
    packages=deploy/packages/code.txt
else
    packages=$work/declared.txt
    "$work/tools/bin/python" - "$kind" > "$packages" << 'END'
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"]
code = [] if sys.argv[1] == "plain" else extras["code"]
print(*project["dependencies"], *extras["encryption"], *extras["mcp"], *code, sep="\n")
END
fi
"${PYTHON:-python3}" -m venv --without-pip "$target"
$pip --python "$target/bin/python" install --only-binary :all: \
    --constraint requirements.lock --requirement "$packages"
$pip --python "$target/bin/python" install --no-deps "$work"/wheel/*.whl
mkdir -p "$prefix/bin"
ln -sf ../venv/bin/mull ../venv/bin/mull-worker "$prefix/bin/"
