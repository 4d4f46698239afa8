#!/usr/bin/env bash
# Runs every test there is. Call need.sh before.
set -euo pipefail
cd "$(dirname "$0")/.."

# The race detector makes tests several times as slow. Those that compute for minutes run without it, whole, and again
# with it and -short: the same in fewer rounds. Three run without it only: the simulator, which lets one goroutine at a
# time run, and the two that drive programs, which are built without it anyway. In each run the longest packages come
# first, so that none is left over at its end. The suite of the log through LocalStack and under faults is named as what
# the third run leaves to the first: the store does the same in TestLog.
alone=(accept internal/sim cmd/leaselog)
twice=(internal/aws/store internal/broker internal/views internal/queue internal/local/store)
first=(internal/aws/host internal/aws/awstest)

module=$(go list -m)
others=$(go list "${first[@]/#/./}" ./... | grep -vxF "$(printf "$module/%s\n" "${alone[@]}" "${twice[@]}")")
test=(-vet=off -count=1 -timeout 45m)
exec go run ./scripts/gotest "${test[@]}" ./accept "${twice[@]/#/./}" "${alone[@]/#/./}" \
	-- -race "${test[@]}" $others \
	-- -race -short "${test[@]}" -skip '^TestLogOnLocalStack$|^TestLogUnderFaults$' "${twice[@]/#/./}"
