#!/usr/bin/env bash
# start.sh DIR PORT: becomes a LocalStack that keeps its files in DIR and listens on PORT, on every address. Call it
# where that is a private network. Needs install.sh.
set -euo pipefail

dir=$1 port=$2
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leaselog/localstack
python=$("$here/install.sh")

# Here LocalStack looks for what it would install by itself.
lib=$dir/fs/var/lib/localstack/lib
mkdir -p "$lib/kinesis-local"
ln -sfn "$cache"/kinesis-local-"$(sha256sum "$here/package-lock.json" | head -c 12)" "$lib/kinesis-local/0.6.2"

export DYNOXIDE=$cache/bin/dynoxide KINESIS_MOCK_VERSION=0.6.2 KINESIS_LATENCY=0
export FILESYSTEM_ROOT=$dir/fs XDG_CACHE_HOME=$dir/cache OVERRIDE_IN_DOCKER=0 # this may be a container, not its image
export GATEWAY_LISTEN=0.0.0.0:$port LOCALSTACK_HOST=127.0.0.1:$port
export DISABLE_EVENTS=1 SKIP_SSL_CERT_DOWNLOAD=1 DNS_ADDRESS=0 # it tells nobody, fetches nothing and serves no names
export ENABLE_CONFIG_UPDATES=1                                 # tests switch its faults on and off
cd "$dir"
exec "$python" "$here/run.py"
