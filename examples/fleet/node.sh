#!/usr/bin/env bash
# A node of the fleet: joins or makes a Ray cluster, and says in the store what this machine is and has.
#
#   node.sh head              makes a cluster; RAY_PORT (6379) and RAY_CLIENT_PORT (10001) are its ports
#   node.sh worker HEAD:PORT  joins the cluster there, and tries for RAY_PATIENCE seconds (120) until it answers
#   node.sh kuberay           starts Ray with the command that KubeRay made for this pod
#
# ZOOLENS_STORE names the store. AGENT_OPTIONS are further options of `zoolens agent`, such as "--metrics 0.0.0.0:9400",
# and RAY_OPTIONS of `ray start`. RAY_AUTH_TOKEN is a secret that all nodes and drivers share (Ray 2.52). The script ends when Ray or the agent ends, or with SIGTERM, and stops the other.
set -euo pipefail

role=${1:?say head, worker HEAD:PORT or kuberay}
: "${ZOOLENS_STORE:?name the store of the fleet, such as postgresql://ant@db/zoolens}"
# Said outright: Ray turns tokens on by itself where it finds one, and then not in every process.
if [ -z "${RAY_AUTH_MODE:-}" ] && [ -z "${RAY_AUTH_TOKEN:-}${RAY_AUTH_TOKEN_PATH:-}" ]; then
    echo "No RAY_AUTH_TOKEN: whoever reaches this cluster can run code on it." >&2
    export RAY_AUTH_MODE=disabled
fi
export RAY_AUTH_MODE=${RAY_AUTH_MODE:-token}
ray_options=() agent_options=()
read -ra ray_options <<<"${RAY_OPTIONS:-}"
read -ra agent_options <<<"${AGENT_OPTIONS:-}"
ray_pid='' agent_pid='' ending=''

stop() {
    ending=yes
    # The agent first, so that nobody sends work here any more: it takes its row off the list.
    [ -z "$agent_pid" ] || kill -TERM "$agent_pid" 2>/dev/null || true
    [ -z "$agent_pid" ] || wait "$agent_pid" 2>/dev/null || true
    # With --block Ray's own processes end when the one that we started does.
    [ -z "$ray_pid" ] || kill -TERM "$ray_pid" 2>/dev/null || true
    [ -z "$ray_pid" ] || wait "$ray_pid" 2>/dev/null || true
}
trap stop TERM INT

# More processes and connections than the usual 1,024: every worker of Ray holds several.
ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)"

case $role in
head)
    # The dashboard can start jobs: it listens in this container alone.
    ray start --head --block --port="${RAY_PORT:-6379}" --ray-client-server-port="${RAY_CLIENT_PORT:-10001}" \
        --dashboard-host=127.0.0.1 --disable-usage-stats "${ray_options[@]}" &
    address=127.0.0.1:${RAY_PORT:-6379}
    ;;
worker)
    address=${2:?give the address of the head, HEAD:PORT}
    waited=0
    until ray health-check --address="$address" >/dev/null 2>&1; do
        waited=$((waited + 1))
        if [ "$waited" -gt "${RAY_PATIENCE:-120}" ]; then
            echo "No Ray cluster answers at $address. Start the head first, or correct the address." >&2
            exit 1
        fi
        sleep 1
    done
    ray start --block --address="$address" --disable-usage-stats "${ray_options[@]}" &
    ;;
kuberay)
    : "${KUBERAY_GEN_RAY_START_CMD:?is set by KubeRay 1.1 or newer in containers of a RayCluster}"
    bash -c "exec $KUBERAY_GEN_RAY_START_CMD" &
    address=auto
    ;;
*)
    echo "$role is no role: say head, worker HEAD:PORT or kuberay." >&2
    exit 2
    ;;
esac
ray_pid=$!

# Until Ray has this node, `zoolens agent` cannot find its id and ends at once.
waited=0
while [ -z "$ending" ]; do
    kill -0 "$ray_pid" 2>/dev/null || { echo "Ray ended before the agent was started." >&2; exit 1; }
    zoolens agent --ray "$address" "${agent_options[@]}" &
    agent_pid=$!
    started=$SECONDS
    wait -n "$ray_pid" "$agent_pid" && status=0 || status=$?
    [ -z "$ending" ] || break
    if ! kill -0 "$agent_pid" 2>/dev/null && [ $((SECONDS - started)) -lt 60 ] && [ "$waited" -lt 10 ] && kill -0 "$ray_pid" 2>/dev/null; then
        waited=$((waited + 1))
        sleep 2
        continue
    fi
    stop
    exit "$status"
done
stop
