#!/usr/bin/env bash
# Statement coverage by package, then the total. What the vendors' clients reach is not in it.
set -euo pipefail

mkdir -p .cache
packages=$(go list ./... | grep -v /accept$)
go test -short -coverprofile=.cache/cover.out -coverpkg="$(tr '\n' ',' <<<"$packages")" $packages >.cache/cover.log ||
	{ cat .cache/cover.log; exit 1; }
awk -F'[: ]' 'NR > 1 { sub("/[^/]*$", "", $1); key = $0; sub(" [0-9]+$", "", key)
	if (!(key in n)) { n[key] = $3; dir[key] = $1 } if ($4 > 0) hit[key] = 1 }
	END { for (k in n) { all[dir[k]] += n[k]; if (k in hit) got[dir[k]] += n[k] }
	for (d in all) printf "%5.1f%%  %s\n", 100 * got[d] / all[d], d }' .cache/cover.out | sort -k2
go tool cover -func=.cache/cover.out | tail -n 1
