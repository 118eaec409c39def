#!/usr/bin/env bash
# Runs clients and suites that are not ours against a hub. Needs python3 with venv, and npm; installs the rest into the
# target folder. The programs must have been built: `cargo xtask build`.
set -euo pipefail
cd "$(dirname "$0")/../.."

for program in python3 npm Xtigervnc icewm; do
    command -v "$program" >/dev/null || {
        echo "$program is missing: apt-get install python3-venv npm tigervnc-standalone-server icewm" >&2
        exit 1
    }
done
exec cargo test -p consentry-conformance --features installs
