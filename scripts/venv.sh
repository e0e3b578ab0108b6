#!/bin/sh
# venv.sh DIR EXTRAS: make the virtual environment DIR if need be, install this project into it.
# $PYTHON names the interpreter; otherwise the first one on PATH that is new enough is taken.
set -eu

dir=$1
extras=$2

fail() {
    echo "rota: $*" >&2
    exit 1
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

version_of() {
    "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null || echo "not a Python"
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON: no such program"
        new_enough "$PYTHON" ||
            fail "PYTHON=$PYTHON is $(version_of "$PYTHON"); Python 3.11 or newer is needed"
        return
    fi
    for PYTHON in python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$PYTHON" >/dev/null && new_enough "$PYTHON"; then
            return
        fi
    done
    command -v python3 >/dev/null ||
        fail "Python 3.11 or newer is needed, there is none (Debian: apt-get install python3 python3-venv)"
    fail "Python 3.11 or newer is needed, python3 is $(version_of python3);" \
        "install a newer one and say 'make PYTHON=/path/to/python3 ...'"
}

find_python
if ! "$dir/bin/python" -m pip --version >/dev/null 2>&1; then
    "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "$PYTHON cannot make virtual environments" \
            "(Debian: apt-get install python3-venv)"
    echo "rota: making $dir with Python $(version_of "$PYTHON")" >&2
    "$PYTHON" -m venv --clear "$dir"
fi
echo "rota: installing rota[$extras] into $dir" >&2
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".[$extras]"
