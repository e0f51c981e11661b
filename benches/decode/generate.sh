#!/bin/sh
# Makes the input of the decode benchmark: an HTTP capture with whole payloads, nginx → nginx on loopback under wrk.
#
#   generate.sh FOLDER [SECONDS]      writes FOLDER/http.pcap, outside this repository
#
# Touches loopback only, on ports 18080 and 18081; ends what it starts, also when interrupted. Installs nginx, wrk and
# tcpdump from Debian's packages where they are missing (needs root then, and for capturing).
set -eu

folder=${1:?usage: generate.sh FOLDER [SECONDS]}
seconds=${2:-8}
case $seconds in ''|*[!0-9]*) echo "seconds must be a whole number, got $seconds" >&2; exit 2;; esac
[ "$seconds" -le 60 ] || { echo "at most 60 seconds" >&2; exit 2; }
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

missing=
for tool in nginx wrk tcpdump; do
    command -v "$tool" >/dev/null 2>&1 || [ -x "/usr/sbin/$tool" ] || missing="$missing $tool"
done
if [ -n "$missing" ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
fi
PATH=$PATH:/usr/sbin:/sbin

work=$(mktemp -d)
nginx_pid= tcpdump_pid=
finish() {
    [ -z "$tcpdump_pid" ] || kill -INT "$tcpdump_pid" 2>/dev/null || true
    [ -z "$nginx_pid" ] || kill -QUIT "$nginx_pid" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

mkdir "$work/www"
# A page of 600 bytes and one of 12 KB: a few and many segments.
head -c 450 /dev/urandom | base64 -w 0 >"$work/www/small"
head -c 9000 /dev/urandom | base64 -w 0 >"$work/www/large"
chmod -R a+rX "$work"
cat >"$work/nginx.conf" <<CONF
daemon off;
worker_processes 2;
pid $work/nginx.pid;
error_log $work/error.log;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path $work/body; proxy_temp_path $work/proxy; fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi; scgi_temp_path $work/scgi;
    keepalive_requests 100000;
    upstream back { server 127.0.0.1:18081; keepalive 32; keepalive_requests 100000; }
    server { listen 127.0.0.1:18081; root $work/www; }
    server {
        listen 127.0.0.1:18080;
        location / { proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection ""; }
    }
}
CONF
nginx -c "$work/nginx.conf" -p "$work" & nginx_pid=$!
sleep 1
tcpdump -i lo -B 262144 -s 262144 -w "$folder/http.pcap" 'tcp and (port 18080 or port 18081)' 2>"$folder/tcpdump.log" & tcpdump_pid=$!
sleep 1
cat >"$work/pages.lua" <<'LUA'
local n = 0
request = function()
    n = n + 1
    return wrk.format("GET", n % 10 == 0 and "/large" or "/small")
end
LUA
wrk -t 2 -c 32 -d "${seconds}s" -s "$work/pages.lua" http://127.0.0.1:18080/ | tee "$folder/wrk.log"
sleep 1
kill -INT "$tcpdump_pid"; wait "$tcpdump_pid" || true; tcpdump_pid=
cat "$folder/tcpdump.log"
ls -l "$folder/http.pcap"
