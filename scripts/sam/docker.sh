#!/usr/bin/env bash
# docker.sh DIR: becomes a Docker engine that keeps everything in DIR and listens on DIR/docker.sock. Call it where the
# network is private, since it makes a bridge and rules of its own there.
set -euo pipefail
exec dockerd --data-root "$1/docker" --exec-root "$1/docker-exec" --pidfile "$1/dockerd.pid" --host "unix://$1/docker.sock"
