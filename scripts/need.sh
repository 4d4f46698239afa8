#!/usr/bin/env bash
# Says what is missing before anything fails for the lack of it. What Debian packages it installs, where it is root.
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

packages=()
debian() { # debian PACKAGES COMMAND...: where COMMAND fails, these are installed before the rest is looked at
	local names=$1
	shift
	if ! "$@" >/dev/null 2>&1; then
		packages+=($names)
	fi
}

install_packages() {
	if [ "${#packages[@]}" -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "installs ${packages[*]}" >&2
		apt-get update -qq
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
	fi
}

engine=none # does one answer? One that hangs is none.
if timeout 5 docker version >/dev/null 2>&1; then
	engine=docker
elif [ "$(uname -s) $(id -u)" = 'Linux 0' ]; then
	engine=own
fi

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

debian git git --version
debian make make --version
debian gcc bash -c '${CC:-cc} --version || gcc --version'
debian python3-venv python3 -c 'import venv, ensurepip'
if [ "$engine" = own ]; then
	debian docker.io dockerd --version
	debian iptables iptables --version
	debian iproute2 ip -V
	debian 'nodejs npm' npm --version
fi
install_packages

need 'Go 1.26 or newer' go_is_new
need 'git' git --version
need 'make' make --version
need 'a C compiler such as gcc: the race detector and Rust link with it' bash -c '${CC:-cc} --version || gcc --version'
need 'Python 3.11 or newer with venv and pip (python3, python3-venv)' \
	python3 -c 'import sys, venv, ensurepip; assert sys.version_info >= (3, 11)'
need 'Rust 1.89 or newer with cargo (by rustup)' rust_is_new

# LocalStack and SAM's containers run in Docker or, without it, in a network that only root can make.
case $engine in
none) need 'Docker and start it, or run this as root on Debian: nothing answers "docker version"' false ;;
own)
	need 'the Docker engine (docker.io)' dockerd --version
	need 'iptables' iptables --version
	need 'iproute2' ip -V
	need 'util-linux' unshare --version
	need 'Node.js with npm (nodejs, npm)' npm --version
	;;
esac
exit "$missing"
