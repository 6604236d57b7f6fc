#!/bin/sh
# Install Mull into a virtual environment of its own: from requirements.lock, every file by its hash
# (but for pip itself, which checks them).
#
#     sh deploy/install.sh /opt/mull/0.1.0         what any worker and the command line need
#     sh deploy/install.sh /opt/mull/0.1.0 plain   the same, but for the packages of untrusted code
#     sh deploy/install.sh /opt/mull/0.1.0 code    what a worker of untrusted code needs, no more
#
# PYTHON names the interpreter: 3.11 or newer. The development tools and the toy model stay out.
set -eu
target=$1 kind=${2:-everything}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${PYTHON:-python3}" -m venv "$work/tools"
pip="$work/tools/bin/python -m pip --quiet --disable-pip-version-check --no-input"
# From this version on, pip checks hashes that stand in a file of constraints.
$pip install pip==26.3
$pip install --only-binary :all: --constraint requirements.lock setuptools

# In a folder of its own, so that nothing of an earlier build gets in.
mkdir "$work/source"
cp -R pyproject.toml README.md LICENSE ./*.py reflection workflows activities commands "$work/source"
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
print(*project["dependencies"], *extras["encryption"], *code, sep="\n")
END
fi
"${PYTHON:-python3}" -m venv --without-pip "$target"
$pip --python "$target/bin/python" install --only-binary :all: \
    --constraint requirements.lock --requirement "$packages"
$pip --python "$target/bin/python" install --no-deps "$work"/wheel/*.whl
