#!/bin/sh
# Makes .venv with what requirements.lock pins. Finds a Python 3.11 or newer, and says what to
# install where there is none.
set -eu

usable() {
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

python=
for name in "${MULL_PYTHON:-python3}" python3.13 python3.12 python3.11 python3.14; do
    if usable "$name"; then python=$name; break; fi
done
if [ -z "$python" ]; then
    echo "Mull needs Python 3.11 or newer: apt install python3.11 python3.11-venv" >&2
    exit 1
fi

rm -rf .venv
if ! "$python" -m venv .venv >/dev/null 2>&1; then
    rm -rf .venv
    version=$("$python" -c 'import sys; print(f"{sys.version_info[0]}.{sys.version_info[1]}")')
    echo "This Python makes no virtual environments: apt install python${version}-venv" >&2
    exit 1
fi

echo "Installing what requirements.lock pins into .venv ..." >&2
# Python compiles what is imported as it goes: compiling everything here takes as long as unpacking.
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-compile \
    --require-hashes --no-deps --only-binary :all: --requirement requirements.lock
# The commands mull and mull-worker, from this folder.
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
    --no-deps --no-build-isolation --editable .
