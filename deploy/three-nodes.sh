#!/bin/sh
# Runs three nodes of one ledger on this machine, for trying what docs/cluster.md says.
# They stop with this script. Real nodes run on three machines.
#
#   deploy/three-nodes.sh [DIR]        data directories DIR/n1, n2, n3; default ./cluster-data
#
# COUNTERFOIL is the program (default: counterfoil), API_PORT the first of three ports of
# the API (default 8480), ROUTE_PORT the first of three between the nodes (default 6480);
# further flags of serve stand in SERVE_FLAGS.
set -eu

dir=${1:-cluster-data}
program=${COUNTERFOIL:-counterfoil}
api=${API_PORT:-8480}
route=${ROUTE_PORT:-6480}

if [ ! -e "$dir/n1/ledger.json" ]; then
	mkdir -p "$dir"
	chmod 700 "$dir"
	"$program" node prepare --data "$dir/n1" --out "$dir/n2" --out "$dir/n3"
fi

pids=
stop() {
	trap - INT TERM EXIT
	# shellcheck disable=SC2086 # one word for each process
	[ -z "$pids" ] || kill $pids 2>/dev/null || true
	wait
}
trap stop INT TERM EXIT

for n in 1 2 3; do
	others=
	for m in 1 2 3; do
		[ "$m" = "$n" ] || others="$others${others:+,}127.0.0.1:$((route + m - 1))"
	done
	# shellcheck disable=SC2086 # flags are words
	"$program" serve --data "$dir/n$n" --listen "127.0.0.1:$((api + n - 1))" \
		--cluster-name counterfoil --node "n$n" \
		--cluster-listen "127.0.0.1:$((route + n - 1))" --routes "$others" \
		${SERVE_FLAGS:-} 2>"$dir/n$n.log" &
	pids="$pids $!"
	echo "$!" >"$dir/n$n.pid"
done
wait
