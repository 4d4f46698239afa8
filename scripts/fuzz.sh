#!/usr/bin/env bash
# Runs every fuzz function for the time given; go test takes one at a time.
set -euo pipefail

found=0
while IFS=: read -r file name; do
	found=1
	echo "== $(dirname "$file") $name"
	go test "./$(dirname "$file")" -run '^$' -fuzz "^$name\$" -fuzztime "$1"
done < <(git ls-files --cached --others --exclude-standard '*_test.go' |
	xargs grep -HoE '^func Fuzz[A-Za-z0-9_]*' | sed 's/:func /:/')
if [ "$found" = 0 ]; then
	echo 'there is no fuzz function: add one or fix this script' >&2
	exit 1
fi
