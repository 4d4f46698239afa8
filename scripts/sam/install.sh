#!/usr/bin/env bash
# Installs SAM CLI into the cache and prints the path of its Python, which runs run.py.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/../venv.sh" sam/1.170.0 3 "$here/requirements.txt"
