#!/usr/bin/env bash
# Format, vet and staticcheck, the cheap judges first.
set -euo pipefail

badly=$("$(go env GOROOT)/bin/gofmt" -l .)
if [ -n "$badly" ]; then
	printf 'run gofmt -w on\n%s\n' "$badly" >&2
	exit 1
fi
go vet ./...
go tool staticcheck ./...
