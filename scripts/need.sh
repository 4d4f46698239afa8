#!/usr/bin/env bash
# Says what is missing before anything fails for the lack of it.
set -euo pipefail

missing=0
need() { # need WHAT COMMAND...: COMMAND must succeed
	local what=$1
	shift
	if ! "$@" >/dev/null 2>&1; then
		echo "install $what" >&2
		missing=1
	fi
}

go_is_new() {
	local version
	version=$(cd / && GOTOOLCHAIN=local go env GOVERSION)
	[ "$(printf '%s\n' go1.26 "${version%% *}" | sort -V | head -n 1)" = go1.26 ]
}

rust_is_new() {
	local version
	version=$(cargo --version)
	[ "$(printf '%s\n' 'cargo 1.89' "$version" | sort -V | head -n 1)" = 'cargo 1.89' ] && rustc --version
}

need 'Go 1.26 or newer' go_is_new
need 'git' git --version
need 'make' make --version
need 'a C compiler such as gcc: the race detector and Rust link with it' bash -c '${CC:-cc} --version || gcc --version'
need 'Python 3.11 or newer with venv and pip (python3, python3-venv)' \
	python3 -c 'import sys, venv, ensurepip; assert sys.version_info >= (3, 11)'
need 'Rust 1.89 or newer with cargo (by rustup)' rust_is_new
exit "$missing"
