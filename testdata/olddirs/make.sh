#!/usr/bin/env bash
# make.sh PROGRAM OUT.tar.gz: a small data directory with an event of every kind, as
# PROGRAM (a built counterfoil) writes it, and beside it what it answered. It is made
# once for each format, by the last program of that format, and never again: what it
# is for is to be old. The keys in it are of no ledger that anybody relies on.
#
#   olddir/data       the data directory, after a stop
#   olddir/expected   trust.json, all.bundle.json, attempts.json, receipts/, views.json
set -euo pipefail
program=$(realpath "$1") out=$(realpath -m "$2") root=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir -p olddir/expected/receipts
cf() { "$program" "$@"; }
member() { grep -o "\"$1\":\"[^\"]*\"" | head -1 | cut -d'"' -f4; }

start() {
  "$program" serve --data olddir/data --listen 127.0.0.1:0 --origin old.example/format-1 >ready 2>log &
  ledger=$!
  until grep -q listening ready; do kill -0 $ledger; sleep 0.1; done
  export COUNTERFOIL_SERVER=$(member listening <ready) COUNTERFOIL_TOKEN_FILE=$work/olddir/data/token
}
stop() { kill "$ledger"; wait "$ledger"; }

begin() { # INVOCATION TOOL SUBJECT
  echo '{"source":{"runtimeId":"old-runtime","agentId":"agent:old","invocationId":"'"$1"'","protocol":"mcp","implementation":"old/1"},
    "occurredAt":"2026-07-28T00:00:00.000Z","traceId":"trace-'"$1"'","subject":{"kind":"tool_action","id":"'"$3"'"},
    "action":{"name":"'"$2"'","effectKind":"org.example/invoice","effectMode":"one_time"},
    "privateInput":{"to":"kim@example.org","n":"'"$1"'"},"expectedEffect":{"invoice":"'"$3"'"}}' | cf begin --wait published | member attemptId
}
append() { # ATTEMPT REST…
  echo '{"attemptId":"'"$1"'","occurredAt":"2026-07-28T00:01:00.000Z",'"$2"'}' | cf append --wait published
}

start
succeeded=$(begin call-1 send_invoice inv-1)
outcome=$(append "$succeeded" '"lifecycle":"outcome","sourceEventId":"o","status":"succeeded","privateResult":{"ok":true}' | member eventId)
append "$succeeded" '"lifecycle":"reversal","sourceEventId":"r","status":"reversed","refs":{"reverses":"'"$outcome"'"}' >/dev/null
failed=$(begin call-2 send_invoice inv-2)
append "$failed" '"lifecycle":"outcome","sourceEventId":"o","status":"failed","reasonCodes":["timeout"]' >/dev/null
settled=$(begin call-3 send_invoice inv-3)
append "$settled" '"lifecycle":"outcome","sourceEventId":"o","status":"unknown","reasonCodes":["timeout"]' >/dev/null
append "$settled" '"lifecycle":"reconciliation","sourceEventId":"c","readback":{"source":"billing-db","observed":"present","value":{"invoice":"inv-3"}}' >/dev/null
unknown=$(begin call-4 pay inv-4)
append "$unknown" '"lifecycle":"outcome","sourceEventId":"o","status":"unknown","reasonCodes":["timeout"]' >/dev/null
open=$(begin call-5 pay inv-5)
erased=$(begin call-6 pay erased-1)
append "$erased" '"lifecycle":"outcome","sourceEventId":"o","status":"succeeded","privateResult":"gone"' >/dev/null
redacted=$(begin call-7 pay redacted-1)
held=$(begin call-8 pay held-1)
cf erase --attempt "$redacted" --redact --confirm >/dev/null
cf erase --attempt "$erased" --confirm >/dev/null
cf hold add --attempt "$held" >/dev/null
cf keys rotate >/dev/null
after=$(begin call-9 send_invoice inv-9)

cp "$root"/testdata/olddirs/server.json .
evidence=$root/testdata/evidence policies=$root/deploy/policies
cf admit server.json --class privileged --policy "$policies/privileged.yaml" --artifact "$evidence/sigstore-2.0.0.tgz" \
  --evidence "$evidence/sigstore-2.0.0.provenance.json" --trusted-root "$evidence/trusted_root.public-good.2023.json" --offline --wait published --json >admit.json
cf review run --policy "$policies/privileged.yaml" --trusted-root "$evidence/trusted_root.scaffolding.json" --json >review.json || test $? = 1
stop
start # a second life of the same directory
last=$(begin call-10 send_invoice inv-10)
append "$last" '"lifecycle":"outcome","sourceEventId":"o","status":"succeeded"' >/dev/null

cf trust export --out olddir/expected/trust.json
cf list --json --limit 256 >olddir/expected/attempts.json
attempts=$(grep -o '"attemptId":"[^"]*"' olddir/expected/attempts.json | cut -d'"' -f4)
cf bundle $attempts --out olddir/expected/all.bundle.json
for a in $attempts; do cf get "$a" --json >"olddir/expected/receipts/$a.json"; done
stop
cf rebuild --data olddir/data --json >olddir/expected/views.json
cf verify olddir/expected/all.bundle.json --trust olddir/expected/trust.json | head -1
printf '{"program":"%s","erased":"%s","redacted":"%s","held":"%s","open":"%s","unknown":"%s","after":"%s"}\n' \
  "$(cf version | head -1)" "$erased" "$redacted" "$held" "$open" "$unknown" "$after" >olddir/expected/about.json
find olddir -name lock -delete
mkdir -p "$(dirname "$out")"
tar --sort=name --owner=0 --group=0 --numeric-owner -czf "$out" olddir
ls -l "$out"
