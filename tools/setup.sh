#!/usr/bin/env bash
# Installs what the build needs: the Debian packages of packages.txt that are missing, and a Python
# environment in .venv with the packages of requirements.txt. Does nothing where nothing is missing.
# PYTHON names the interpreter to use; otherwise the first one that is 3.11 or newer and has headers.
set -euo pipefail
cd "$(dirname "$0")/.."

install_packages() {
  local wanted missing=() name
  mapfile -t wanted < <(grep -v '^#' packages.txt)
  if ! command -v dpkg-query >/dev/null; then
    echo "setup: no Debian packages here; the build needs the equivalents of: ${wanted[*]}"
    return
  fi
  for name in "${wanted[@]}"; do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: missing packages, and neither root nor sudo to install them: ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}"
}

usable_python() {
  "$1" -c '
import os, sys, sysconfig, venv, ensurepip
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not (sys.version_info >= (3, 11) and os.path.exists(header)))' 2>/dev/null
}

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 /usr/bin/python3}; do
    if command -v "$candidate" >/dev/null && usable_python "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  echo "setup: no Python 3.11 or newer with its headers and venv among:" \
    "${PYTHON:-python3 python3.11 ...}" >&2
  return 1
}

make_environment() {
  local python
  if ! .venv/bin/python -c '' 2>/dev/null; then
    python=$(find_python)
    echo "setup: .venv from $python ($("$python" -V))"
    rm -rf .venv build/*/CMakeCache.txt # which may remember another interpreter
    "$python" -m venv .venv
  fi
  .venv/bin/python -m pip install -q --disable-pip-version-check -r requirements.txt
  # The package is used where it lies: python/ holds its sources and, after a build, its module.
  echo "$PWD/python" >"$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/flambeau.pth"
}

install_packages
make_environment
