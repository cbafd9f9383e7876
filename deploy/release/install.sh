#!/bin/sh
# Install the hub from this checkout, editable, into a virtual environment, at the versions of constraints.txt:
#
#     deploy/release/install.sh VENV PYTHON [EXTRAS]     such as: .venv python3 '[dev]'
#
# uv takes a tenth of pip's time: the one on PATH, or the one that PyPI has. Where neither is to be had, pip installs.
# uv takes no other file of a release than those of deploy/hashes. What both compile is what somebody imports.
set -eu
venv=$1 python=$2 extras=${3:-}
cd "$(dirname "$0")/../.."
unset VIRTUAL_ENV
hub=".$extras"

find_uv() {
  uv=$(command -v uv) && return
  for uv in "$venv/bin/uv" "$venv/uv/bin/uv"; do [ -x "$uv" ] && return; done
  "$python" -m pip install -q --disable-pip-version-check --no-compile --target "$venv/uv" \
    --require-hashes -r deploy/hashes/uv.txt 2>/dev/null && [ -x "$uv" ]
}

by_uv() {
  find_uv || return
  # A mirror that pip is configured for is uv's as well.
  mirror=$("$python" -m pip config get global.index-url 2>/dev/null) || mirror=
  [ -z "${PIP_INDEX_URL:-$mirror}" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$mirror}}"
  "$uv" pip install -q --python "$venv/bin/python" --require-hashes -r deploy/hashes/mcphub.txt &&
    "$uv" pip install -q --python "$venv/bin/python" -c constraints.txt pip -e "$hub"
}

by_pip() {
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-compile -c constraints.txt -e "$hub"
}

if log=$(by_uv 2>&1); then exit; fi
[ -z "$log" ] || printf '%s\n' "$log" | tail -n 5 >&2
echo "uv could not install it; pip takes a minute or two ..." >&2
by_pip
