#!/usr/bin/env bash
# sim.sh SECONDS SEEDS FROM: simulates so many seeds from FROM or, where SEEDS is empty, for so many seconds.
set -euo pipefail

if [ -n "$2" ]; then
	length=-sim.seeds=$2
else
	length=-sim.for=${1:-600}s
fi
exec go run ./scripts/gotest ./internal/sim -count=1 -timeout 0 -run TestSeeds "$length" -sim.from="$3"
