#!/usr/bin/env bash
# "adaptdl cluster up" keeps other users of the machine out, and goes on when its certificates are replaced.
#
#   secure_cluster_test.sh BUILD_DIR          exit code 77: programs are missing
set -euo pipefail

bin=$1/bin
for program in adaptdl adaptdl-{supervisor,allocator,autoscaler,worker,shim}; do
  [[ -x $bin/$program ]] || { echo "$program is not built"; exit 77; }
done

ADAPTDL_HOME=$(mktemp -d "${TMPDIR:-/tmp}/adaptdl-secure.XXXXXX")/state
export ADAPTDL_HOME
unset ADAPTDL_SUPERVISOR_ADDRESS ADAPTDL_CA_FILE ADAPTDL_TOKEN ADAPTDL_TOKEN_FILE ADAPTDL_INSECURE # they would win
clean_up() {
  local status=$?
  trap - EXIT
  "$bin/adaptdl" cluster down --force --purge >/dev/null 2>&1 || true
  [[ ! -d $ADAPTDL_HOME/logs ]] || tail -n 5 "$ADAPTDL_HOME"/logs/*
  rm -rf "$(dirname "$ADAPTDL_HOME")"
  exit "$status"
}
trap clean_up EXIT

adaptdl() { "$bin/adaptdl" "$@"; }
fail() { echo "error: $*" >&2; exit 1; }
refused() {  # refused TEXT COMMAND...: it fails, and says TEXT
  local text=$1 output
  shift
  if output=$("$@" 2>&1); then fail "nobody refuses: $*"; fi
  [[ $output == *"$text"* ]] || fail "$* says: $output"
}
# As somebody who has the address and, by "ca", the public certificate, and nothing else.
stranger() { ADAPTDL_HOME=/nonexistent adaptdl --supervisor "$address" "$@"; }

adaptdl cluster up --workers 1 --port 0
address=$(adaptdl cluster status -o json |
  /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["services"][0]["address"])')
ca=$ADAPTDL_HOME/security/ca.pem

[[ $(adaptdl whoami) == *": admin, "* ]] || fail "whoami says: $(adaptdl whoami)"
adaptdl submit --name one --wait -- true
[[ $(stat -c %a "$ADAPTDL_HOME") == 700 ]] || fail "others may look into $ADAPTDL_HOME"
[[ $(stat -c %a "$ADAPTDL_HOME/security/admin.token") == 600 ]] || fail "others may read the token"

refused "give the cluster's CA" stranger ls
refused "unreachable" stranger ls --insecure
refused "oken" stranger ls --ca "$ca"
refused "oken" stranger submit --ca "$ca" --name two -- true
stranger health "$address" --ca "$ca"

# A user's token is good for its namespaces only, and until it is revoked.
tokens=(--file "$ADAPTDL_HOME/security/tokens.json" --name ann)
adaptdl admin token create "${tokens[@]}" --role user --namespace vision >"$ADAPTDL_HOME/ann.token"
ann() { stranger --ca "$ca" --token-file "$ADAPTDL_HOME/ann.token" "$@"; }
until [[ $(ann whoami 2>&1) == *": user, namespaces vision"* ]]; do sleep 0.2; done
ann submit --namespace vision --name three --wait -- true
refused "default" ann ls
refused "research" ann submit --namespace research --name four -- true
adaptdl admin token revoke "${tokens[@]}"
while ann whoami >/dev/null 2>&1; do sleep 0.2; done

# New certificates for all under way: who connects later uses them, nothing is restarted.
before=$(adaptdl cluster status -o json | grep '"pid"')
rm -r "$ADAPTDL_HOME"/security/{supervisor,allocator,autoscaler,worker}
adaptdl cluster up
[[ $(adaptdl cluster status -o json | grep '"pid"') == "$before" ]] || fail "a service was restarted"
adaptdl submit --name five --wait -- true
refused "cluster down" adaptdl cluster up --insecure

# Without all that, where somebody wants it so.
adaptdl cluster down
adaptdl cluster up --insecure 2>"$ADAPTDL_HOME/warning"
grep -q 'every user of this machine' "$ADAPTDL_HOME/warning" || fail "no warning"
adaptdl submit --name six --wait -- true
adaptdl cluster down

# Somebody else has got the allocator's port meanwhile: it takes another.
exec {taken}< <(exec /usr/bin/python3 -c '
import json, socket, sys, time
address = json.load(open(sys.argv[1]))["allocator"]
held = socket.create_server(("127.0.0.1", int(address.rpartition(":")[2])))
print(address, flush=True)
time.sleep(600)' "$ADAPTDL_HOME/cluster.json")
holder=$!
read -r former <&"$taken"
adaptdl cluster up
kill "$holder"
adaptdl cluster status | grep allocator | grep -qv "$former" || fail "the allocator listens where somebody else does"
adaptdl submit --name seven --wait -- true
refused "unreachable" adaptdl ls --insecure
[[ $(adaptdl ls) == *six* ]] || fail "its jobs are gone"
echo "the cluster keeps strangers out"
