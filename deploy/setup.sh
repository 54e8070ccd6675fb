#!/usr/bin/env bash
# Makes what deploy/compose.yaml needs, once:
#
#   deploy/setup.sh BIN RUN
#
# BIN has the programs (go build -o bin/ ./cmd/...), RUN is a folder to make. In it
# are the ledger's data directory, the witnesses' keys, the policy, passwords, and the
# directories that the other containers write to. Nothing that is there is made anew:
# a second run ends with 1.
set -euo pipefail
umask 077

[ $# -eq 2 ] || { echo "usage: deploy/setup.sh BIN RUN" >&2; exit 2; }
bin=$(cd "$1" && pwd)
[ ! -e "$2" ] || { echo "setup.sh: $2 is there; it holds keys, and none is made anew" >&2; exit 1; }
mkdir -p "$2"
run=$(cd "$2" && pwd)
cd "$run"

secret() { od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n'; }

mkdir -p ledger policy secrets/nats nats prometheus grafana witness-1 witness-2
ledger_password=$(secret)
printf '%s\n' "$ledger_password" > secrets/nats-ledger
printf 'LEDGER_PASSWORD: "%s"\nREADER_PASSWORD: "%s"\n' "$ledger_password" "$(secret)" > secrets/nats/passwords.conf
secret > secrets/grafana.password

# The ledger's first start makes its keys, on a NATS of its own that nothing is sent to.
"$bin/counterfoil" serve --data ledger --listen 127.0.0.1:0 --origin "${ORIGIN:-counterfoil.local/$(secret | cut -c1-16)}" > first.json &
first=$!
trap 'kill $first 2>/dev/null || true' EXIT
for _ in $(seq 600); do [ -s first.json ] && break; kill -0 $first; sleep 0.1; done
server=$(sed 's/.*"listening":"\([^"]*\)".*/\1/' first.json)
log=$("$bin/counterfoil" trust export --server "$server" --format tlog-policy | sed -n 's/^log //p')
kill $first && wait $first
trap - EXIT
rm -r first.json ledger/stream
"$bin/counterfoil" tokens add prometheus --data ledger --role auditor --out secrets/metrics.token

printf 'logs/v0\nvkey %s\nqpd 200000\ncontact operator@localhost\n' "$log" > policy/logs.txt
printf 'log %s\n' "$log" > policy/witnesses.policy
for n in 1 2; do
  vkey=$("$bin/counterfoil-witness" keygen --name "witness-$n.local" --key-file "witness-$n/witness.key")
  printf 'witness w%s %s http://witness-%s:8481\n' "$n" "$vkey" "$n" >> policy/witnesses.policy
done
printf 'group both 2 w1 w2\nquorum both\n' >> policy/witnesses.policy

# The containers run as whoever owns the files; never as root.
user=$(id -u):$(id -g)
if [ "${user%%:*}" = 0 ]; then
  user=65532:65532
  chown -R "$user" "$run"
fi
printf 'RUN=%s\nCOUNTERFOIL_USER=%s\n' "$run" "$user" > env
echo "made $run; next: docker compose --env-file $run/env -f deploy/compose.yaml up -d" >&2
