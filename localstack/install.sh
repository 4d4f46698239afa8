#!/usr/bin/env bash
# Installs LocalStack with its backends into the cache and prints the path of its Python. Nothing is done twice.
# Its own DynamoDB backend is under terms of its vendor's, so dynoxide takes its place.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leaselog/localstack
mkdir -p "$cache"

dynoxide=3.2.0
has_dynoxide() { # the program tells a version of another numbering, cargo's record tells the crate's
	grep -qs "^\"dynoxide-rs $dynoxide " "$cache/.crates.toml" && [ -x "$cache/bin/dynoxide" ]
}
if ! has_dynoxide; then # a compilation of minutes
	exec 8>"$cache/dynoxide.lock"
	flock 8
	has_dynoxide || cargo install -q dynoxide-rs --version "$dynoxide" --locked --root "$cache" \
		--no-default-features --features native-sqlite,http-server,cli >&2
fi

kinesis=$cache/kinesis-local-$(sha256sum "$here/package-lock.json" | head -c 12)
if [ ! -e "$kinesis/whole" ]; then
	exec 7>"$cache/kinesis.lock"
	flock 7
	mkdir -p "$kinesis"
	cp "$here/package.json" "$here/package-lock.json" "$kinesis/"
	npm ci --silent --no-audit --no-fund --prefix "$kinesis" >&2
	touch "$kinesis/whole"
fi

"$here/../scripts/venv.sh" localstack/4.14.0 3.13 "$here/requirements.txt"
