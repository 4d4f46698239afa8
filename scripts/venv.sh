#!/usr/bin/env bash
# venv.sh NAME VERSION REQUIREMENTS: a Python environment in the cache that holds exactly these pins, made with a
# Python of that VERSION (such as 3.13, or 3 for any). Prints the path of its interpreter.
# One run at a time makes it; one that was interrupted is made anew, since the mark of a whole one is written last.
set -euo pipefail

name=$1 version=$2 pins=$3
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leaselog
dir=$cache/$name-$(sha256sum "$pins" | head -c 12)
if [ -e "$dir/whole" ]; then
	echo "$dir/bin/python"
	exit
fi

mkdir -p "$cache"
exec 9>"$cache/venv.lock"
flock 9

# The first interpreter that runs: a pyenv shim is on the path even where it names no installed version.
python=$version # uv fetches this one where the machine has none
for p in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
	if "$p" -c 'import venv, ensurepip' 2>/dev/null; then
		python=$(command -v "$p")
		break
	fi
done

uv=$cache/uv-$(sha256sum "$here/uv.txt" | head -c 12)
if [ ! -e "$uv/whole" ]; then
	rm -rf "$uv"
	python3 -m venv "$uv"
	"$uv/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r "$here/uv.txt"
	touch "$uv/whole"
fi
if [ ! -e "$dir/whole" ]; then
	rm -rf "$dir"
	"$uv/bin/uv" venv -q --python "$python" "$dir"
	"$uv/bin/uv" pip install -q --compile-bytecode --python "$dir/bin/python" --require-hashes -r "$pins"
	touch "$dir/whole"
fi
echo "$dir/bin/python"
