#!/usr/bin/env bash
# record.sh FOLDER: one system, seen by a capture, traces, an access log and sar at once.
#
# nginx → gunicorn with one worker (Flask) → MariaDB, in a network namespace of their own. The application is instrumented
# by OpenTelemetry's packages as they are; the clients send their spans, too. In the middle of it, gunicorn is stopped for
# 700 ms: its accept queue overflows, and connections of nginx are lost. Needs root, nginx, mariadbd, tcpdump, sysstat,
# zstd, and a virtual environment ($OTEL) with flask, gunicorn, pymysql, opentelemetry-distro,
# opentelemetry-exporter-otlp-proto-http, opentelemetry-instrumentation-flask and -pymysql.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath "$1")
space=tailrace-together
dir=$(mktemp -d)
ip netns add $space
within() { ip netns exec $space "$@"; }
pids=()
start() { # a command within, in the background
    ip netns exec $space "$@" 2>>"$dir/said" &
    pids+=($!)
}
end() {
    kill "${pids[@]}" 2>/dev/null || true
    wait || true
    ip netns del $space
    rm -rf "$dir"
}
trap end EXIT
within ip link set lo up
for host in 1 2 3 4 9; do within ip address add 10.77.9.$host/32 dev lo; done
within sysctl -qw net.core.somaxconn=4096

mariadb-install-db --datadir="$dir/db" --user=root >/dev/null 2>&1
start mariadbd --no-defaults --user=root --datadir="$dir/db" --socket="$dir/db.sock" --bind-address=10.77.9.4 \
    --skip-grant-tables --skip-name-resolve --skip-log-bin

cat >"$dir/nginx.conf" <<EOF
daemon off; worker_processes 1; pid $dir/nginx.pid; error_log $dir/error.log;
events { worker_connections 1024; }
http {
    log_format timed '\$remote_addr - - [\$time_local] "\$request" \$status \$body_bytes_sent msec=\$msec '
                     'rt=\$request_time uct="\$upstream_connect_time" urt="\$upstream_response_time" ua="\$upstream_addr"';
    access_log $out/access.log timed;
    server {
        listen 10.77.9.2:80 backlog=4096;
        location / { proxy_pass http://10.77.9.3:8080; proxy_bind 10.77.9.2; proxy_read_timeout 20; }
    }
}
EOF
rm -f "$out/access.log"
start nginx -c "$dir/nginx.conf"
start "$OTEL/bin/python" "$here/collect.py" "$out/traces.otlp"
until [ -S "$dir/db.sock" ]; do sleep 0.2; done
export OTEL_EXPORTER_OTLP_ENDPOINT=http://10.77.9.9:4318 OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none OTEL_BSP_SCHEDULE_DELAY=500
export OTEL_RESOURCE_ATTRIBUTES=host.name=node1
start env OTEL_SERVICE_NAME=app "$OTEL/bin/opentelemetry-instrument" \
    "$OTEL/bin/gunicorn" --chdir "$here" --workers 1 --backlog 3 --bind 10.77.9.3:8080 shop:app
gunicorn=$!
until within curl -sf -o /dev/null http://10.77.9.2/stories; do sleep 0.3; done

start tcpdump -q -i lo -s 160 -w "$dir/packets.pcap" 'tcp and not port 4318'
tcpdump=$!
sar -o "$dir/sar" 1 15 >/dev/null 2>&1 &
sar=$!
sleep 1.5
: >"$out/traces.otlp"
: >"$out/access.log"
start env OTEL_SERVICE_NAME=clients "$OTEL/bin/python" "$here/ask.py" 8
asking=$!
lines() { wc -l <"$out/access.log"; }
before=$(lines)
until [ $(($(lines) - before)) -ge 30 ]; do sleep 0.05; done
workers=$(pgrep -P "$gunicorn")
kill -STOP "$gunicorn" $workers
sleep 0.8
kill -CONT "$gunicorn" $workers
wait $asking
sleep 1.5
kill $tcpdump
wait $tcpdump || true
wait $sar || true
zstd -q -f -19 "$dir/packets.pcap" -o "$out/packets.pcap.zst"
sadf -j "$dir/sar" -- -u -q -d -w | sed "s/\"nodename\": \"[^\"]*\"/\"nodename\": \"node1\"/" >"$out/sar.json"
