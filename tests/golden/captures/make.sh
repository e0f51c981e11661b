#!/bin/sh
# Records the small sessions of this folder again: nginx, php-fpm, MariaDB, PostgreSQL, Redis on a loopback of their
# own, and Apache, gRPC, memcached, OpenLDAP, RabbitMQ, dnsmasq; Kafka, Cassandra and a MongoDB server from their jars.
# Arguments name the ones to record; without any, all of them are.
# Needs root (network namespace, tcpdump), nginx, php-fpm, mariadbd, postgres, redis-server, apache2, curl, nghttp2,
# openssl, memcached, slapd,
# rabbitmq-server, dnsmasq, java, tshark, tcpdump and uv (what uv fetches must be in its cache: the loopback leads nowhere). MARIADB_BASE says where MariaDB is
# if not in /usr. KAFKA_JARS, CASSANDRA_JARS and MONGODB_JARS name folders with the jars of org.apache.kafka:kafka_2.13,
# org.apache.cassandra:cassandra-all and de.bwaldvogel:mongo-java-server, and what they need, as
# `mvn dependency:copy-dependencies` collects them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" != inside ]; then
    exec unshare -n -- env UV_OFFLINE=1 "$0" inside "$@"
fi
shift
wanted=${*:-http http2 grpc tls fastcgi redis postgres mysql memcached mongodb kafka cassandra amqp ldap dns quic}
ip link set lo up
dir=$(mktemp -d)
chmod 755 "$dir"
pids=
trap 'kill $pids 2>/dev/null || true; wait; rm -rf "$dir"' EXIT

record() { # name port [filter]: what follows on loopback, until `recorded`
    tcpdump -q -i lo --immediate-mode -B 16384 -U -w "$here/$1.pcap" "${3:-tcp port $2}" 2>"$dir/tcpdump.log" &
    dump=$!
    until grep -q listening "$dir/tcpdump.log"; do sleep 0.05; done
}

recorded() {
    sleep 0.5
    kill -INT "$dump"
    wait "$dump" || true
    grep -q "^0 packets dropped" "$dir/tcpdump.log" || { cat "$dir/tcpdump.log" >&2; exit 1; }
}

quic() { # aioquic with itself
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/quic.key" -out "$dir/quic.crt" -days 30 \
        -subj /CN=shop.test 2>/dev/null
    rm -f "$here/quic.keys"
    record quic 4433 "udp portrange 4433-4435"
    SSLKEYLOGFILE="$here/quic.keys" uv run --no-project --with aioquic==1.7.2 \
        python "$here/talk_quic.py" 4433 "$dir/quic.crt" "$dir/quic.key"
    recorded
}

until_up() { # port
    for _ in $(seq 300); do
        python3 -c "import socket; socket.create_connection(('127.0.0.1', $1), 1)" 2>/dev/null && return
        sleep 0.1
    done
    echo "nothing listens on port $1" >&2
    exit 1
}

http() { # nginx in front of itself
    mkdir "$dir/www"
    head -c 3000 /dev/zero | tr '\0' x >"$dir/www/3000.html"
    echo small >"$dir/www/small.html"
    cat >"$dir/nginx.conf" <<EOF
daemon off; pid $dir/nginx.pid; error_log stderr; events {}
http {
    access_log off; client_body_temp_path $dir/b; proxy_temp_path $dir/p; fastcgi_temp_path $dir/f;
    uwsgi_temp_path $dir/u; scgi_temp_path $dir/s;
    server {
        listen 127.0.0.1:80; root $dir/www; ssi on;
        location /chunked { ssi on; default_type text/html; return 200 'see <!--# echo var="uri" -->'; }
        location /put { client_max_body_size 1m; return 204; }
        location /gone { return 410; }
        location /slow { proxy_pass http://127.0.0.1:9; }
        location /closing { keepalive_timeout 0; }
    }
}
EOF
    nginx -c "$dir/nginx.conf" 2>/dev/null &
    pids="$pids $!"
    until_up 80
    record http 80
    python3 "$here/talk_http.py"
    recorded
}

http2() { # Apache, which also upgrades from HTTP/1
    mkdir "$dir/h2" "$dir/h2/cgi"
    head -c 3000 /dev/zero | tr '\0' x >"$dir/h2/3000.html"
    head -c 40000 /dev/zero | tr '\0' x >"$dir/h2/large.bin"
    echo small >"$dir/h2/small.html"
    printf '#!/bin/sh\nsleep 1\necho "Content-Type: text/plain"\necho\necho late\n' >"$dir/h2/cgi/slow"
    chmod -R a+rx "$dir/h2"
    modules=/usr/lib/apache2/modules
    cat >"$dir/apache.conf" <<EOF
ServerRoot $dir
PidFile $dir/apache.pid
ErrorLog $dir/apache.log
Listen 127.0.0.1:8081
ServerName here
User nobody
$(for module in mpm_event authz_core dir alias cgi http2; do echo "LoadModule ${module}_module $modules/mod_$module.so"; done)
Protocols h2c http/1.1
H2Direct on
DocumentRoot $dir/h2
ScriptAlias /cgi/ $dir/h2/cgi/
Redirect gone /gone
EOF
    apache2 -X -f "$dir/apache.conf" 2>/dev/null &
    pids="$pids $!"
    until_up 8081
    record http2 8081
    python3 "$here/talk_http2.py"
    recorded
}

grpc() { # grpcio on both ends
    record grpc 50051
    uv run -q --no-project --with grpcio python "$here/talk_grpc.py"
    recorded
}

tls() { # nginx, MariaDB and PostgreSQL; tls.keys has the secrets of the sessions
    mkdir "$dir/www-tls" "$dir/pgs"
    head -c 3000 /dev/zero | tr '\0' x >"$dir/www-tls/3000.html"
    echo small >"$dir/www-tls/small.html"
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/key.pem" -out "$dir/cert.pem" -days 3650 -subj /CN=shop.test 2>/dev/null
    cat >"$dir/nginx-tls.conf" <<EOF
daemon off; pid $dir/nginx-tls.pid; error_log stderr; events {}
http {
    access_log off; client_body_temp_path $dir/b; proxy_temp_path $dir/p; fastcgi_temp_path $dir/f;
    uwsgi_temp_path $dir/u; scgi_temp_path $dir/s;
    server {
        listen 127.0.0.1:8443 ssl http2; root $dir/www-tls;
        ssl_certificate $dir/cert.pem; ssl_certificate_key $dir/key.pem; ssl_protocols TLSv1.2 TLSv1.3;
        error_page 405 =200 /small.html;
        location /gone { return 410; }
    }
}
EOF
    nginx -c "$dir/nginx-tls.conf" 2>/dev/null &
    pids="$pids $!"
    chmod 644 "$dir/key.pem"
    base=${MARIADB_BASE:-/usr}
    mariadb-install-db --no-defaults --basedir="$base" --datadir="$dir/dbs" --user=root --auth-root-authentication-method=normal >/dev/null
    mariadbd --no-defaults --basedir="$base" --user=root --datadir="$dir/dbs" --socket="$dir/dbs.sock" --bind-address=127.0.0.1 --port=3306 \
        --ssl-cert="$dir/cert.pem" --ssl-key="$dir/key.pem" >/dev/null 2>&1 &
    pids="$pids $!"
    chown nobody "$dir/pgs"
    bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
    setpriv --reuid=nobody --clear-groups "${bin:-/usr/local/bin}/initdb" -D "$dir/pgs/data" -U me -A trust >/dev/null
    install -o nobody -m 600 "$dir/key.pem" "$dir/pgs/key.pem"
    setpriv --reuid=nobody --clear-groups "${bin:-/usr/local/bin}/postgres" -D "$dir/pgs/data" -k "" -p 5432 -c ssl=on \
        -c ssl_cert_file="$dir/cert.pem" -c ssl_key_file="$dir/pgs/key.pem" >/dev/null 2>&1 &
    pids="$pids $!"
    for port in 8443 3306 5432; do until_up "$port"; done
    rm -f "$here/tls.keys"
    record tls "8443 or tcp port 3306 or tcp port 5432"
    SSLKEYLOGFILE="$here/tls.keys" uv run -q --no-project --with pymysql --with pg8000 python "$here/talk_tls.py"
    recorded
    # The first connection, with its secrets inside the capture.
    tshark -r "$here/tls.pcap" -Y "tcp.stream == 0" -w "$dir/first.pcapng" 2>/dev/null
    editcap --inject-secrets "tls,$here/tls.keys" "$dir/first.pcapng" "$here/tls-secrets.pcapng"
}

fastcgi() { # nginx in front of php-fpm, and a client that speaks to it directly
    mkdir "$dir/php"
    for page in "ok <?php echo 'ok';" "big <?php echo str_repeat('x', 30000);" "posted <?php echo strlen(file_get_contents('php://input'));" \
        "broken <?php undefined_function();" "refused <?php http_response_code(403); echo 'no';" \
        "leaves <?php echo 'half'; exit(3);" "warns <?php error_log('something odd'); echo 'ok';" \
        "slow <?php usleep(300000); echo 'late';"; do
        echo "${page#* }" >"$dir/php/${page%% *}.php"
    done
    cat >"$dir/fpm.conf" <<EOF
[global]
error_log = $dir/fpm.log
daemonize = no
[www]
user = nobody
listen = 127.0.0.1:9000
pm = static
pm.max_children = 3
EOF
    cat >"$dir/fastcgi.conf" <<EOF
daemon off; pid $dir/nginx-fastcgi.pid; error_log $dir/nginx-fastcgi.log; events {}
http {
    access_log off; client_body_temp_path $dir/b; proxy_temp_path $dir/p; fastcgi_temp_path $dir/f;
    uwsgi_temp_path $dir/u; scgi_temp_path $dir/s;
    upstream kept { server 127.0.0.1:9000; keepalive 1; }
    server {
        listen 127.0.0.1:8000; root $dir/php;
        include /etc/nginx/fastcgi_params;
        fastcgi_param SCRIPT_FILENAME \$document_root\$fastcgi_script_name;
        location / { fastcgi_pass 127.0.0.1:9000; }
        location /kept/ { rewrite ^/kept(/.*) \$1 break; fastcgi_pass kept; fastcgi_keep_conn on; }
    }
}
EOF
    php_fpm=$(command -v php-fpm || ls /usr/sbin/php-fpm* | tail -1)
    "$php_fpm" -n -d log_errors=1 -d display_errors=0 -F -y "$dir/fpm.conf" 2>/dev/null &
    pids="$pids $!"
    nginx -c "$dir/fastcgi.conf" 2>/dev/null &
    pids="$pids $!"
    until_up 9000
    until_up 8000
    record fastcgi 9000
    python3 "$here/talk_fastcgi.py"
    recorded
}

redis() { # no files
    (cd "$dir" && exec redis-server --port 6379 --bind 127.0.0.1 --save '' --daemonize no >/dev/null) &
    pids="$pids $!"
    until_up 6379
    record redis 6379
    python3 "$here/talk_redis.py"
    recorded
}

postgres() { # as nobody: it refuses to be root
    mkdir "$dir/pg" && chown nobody "$dir/pg"
    bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
    setpriv --reuid=nobody --clear-groups "${bin:-/usr/local/bin}/initdb" -D "$dir/pg/data" -U me -A trust >/dev/null
    setpriv --reuid=nobody --clear-groups "${bin:-/usr/local/bin}/postgres" -D "$dir/pg/data" -k "" -p 5432 >/dev/null 2>&1 &
    pids="$pids $!"
    until_up 5432
    record postgres 5432
    uv run -q --no-project --with 'psycopg[binary]==3.*' python "$here/talk_postgres.py"
    recorded
}

mysql() { # MariaDB
    base=${MARIADB_BASE:-/usr}
    mariadb-install-db --no-defaults --basedir="$base" --datadir="$dir/db" --user=root --auth-root-authentication-method=normal >/dev/null
    mariadbd --no-defaults --basedir="$base" --user=root --datadir="$dir/db" --socket="$dir/db.sock" --bind-address=127.0.0.1 --port=3306 \
        --local-infile=1 >/dev/null 2>&1 &
    pids="$pids $!"
    until_up 3306
    record mysql 3306
    uv run -q --no-project --with pymysql --with mysql-connector-python python "$here/talk_mysql.py"
    recorded
}

memcached() { # text, and the binary form
    command memcached -u nobody -l 127.0.0.1 -p 11211 &
    pids="$pids $!"
    until_up 11211
    record memcached 11211
    uv run -q --no-project --with pymemcache --with python-binary-memcached python "$here/talk_memcached.py"
    recorded
}

mongodb() { # mongo-java-server: no package has MongoDB's own server
    cat >"$dir/Mongo.java" <<EOF
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
class Mongo {
    public static void main(String[] none) throws Exception {
        new MongoServer(new MemoryBackend()).bind("127.0.0.1", 27017);
        Thread.currentThread().join();
    }
}
EOF
    java -cp "$MONGODB_JARS/*" "$dir/Mongo.java" 2>/dev/null &
    pids="$pids $!"
    until_up 27017
    record mongodb 27017
    uv run -q --no-project --with 'pymongo==4.8.*' python "$here/talk_mongodb.py"
    recorded
}

kafka() { # one broker, which is its own controller
    cat >"$dir/kafka.properties" <<EOF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
log.dirs=$dir/kafka
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
EOF
    java -cp "$KAFKA_JARS/*" kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg -c "$dir/kafka.properties" >/dev/null 2>&1
    java -Xmx256m -cp "$KAFKA_JARS/*" kafka.Kafka "$dir/kafka.properties" >/dev/null 2>&1 &
    pids="$pids $!"
    until_up 9092
    record kafka 9092
    uv run -q --no-project --with kafka-python python "$here/talk_kafka.py"
    recorded
}

cassandra() { # one node
    mkdir "$dir/cassandra"
    cat >"$dir/cassandra.yaml" <<EOF
cluster_name: small
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
commitlog_sync: periodic
commitlog_sync_period: 10000ms
seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: "127.0.0.1:7000"}]}]
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
endpoint_snitch: SimpleSnitch
EOF
    opens=
    for package in java.io java.lang java.lang.module java.lang.reflect java.math java.net java.nio java.util \
        java.util.concurrent java.util.concurrent.atomic jdk.internal.loader jdk.internal.misc jdk.internal.ref \
        jdk.internal.reflect jdk.internal.util sun.nio.ch sun.security.util; do
        opens="$opens --add-opens java.base/$package=ALL-UNNAMED --add-exports java.base/$package=ALL-UNNAMED"
    done
    for package in java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry java.rmi/sun.rmi.server \
        java.rmi/sun.rmi.transport.tcp jdk.management/com.sun.management.internal; do
        opens="$opens --add-opens $package=ALL-UNNAMED --add-exports $package=ALL-UNNAMED"
    done
    # shellcheck disable=SC2086
    java -Xmx512m $opens -Dcassandra.config="file://$dir/cassandra.yaml" -Dcassandra.storagedir="$dir/cassandra" \
        -Dcassandra-foreground=yes -Dcassandra.skip_wait_for_gossip_to_settle=0 -Dcassandra.ring_delay_ms=0 \
        -cp "$CASSANDRA_JARS/*" org.apache.cassandra.service.CassandraDaemon >/dev/null 2>&1 &
    pids="$pids $!"
    until_up 9042
    record cassandra 9042
    uv run -q --no-project --with cassandra-driver --with lz4 python "$here/talk_cassandra.py"
    recorded
}

amqp() { # RabbitMQ
    export RABBITMQ_MNESIA_BASE="$dir/rabbit" RABBITMQ_LOG_BASE="$dir" RABBITMQ_NODENAME=small@localhost \
        RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_ENABLED_PLUGINS_FILE="$dir/plugins"
    echo '[].' >"$dir/plugins"
    HOME="$dir" "$(ls -d /usr/lib/rabbitmq/lib/rabbitmq_server-* | tail -1)/sbin/rabbitmq-server" >/dev/null 2>&1 &
    pids="$pids $!"
    until_up 5672
    record amqp 5672
    uv run -q --no-project --with pika python "$here/talk_amqp.py"
    recorded
}

ldap() { # OpenLDAP
    mkdir "$dir/ldap"
    cat >"$dir/slapd.conf" <<EOF
include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix "dc=example,dc=org"
rootdn "cn=boss,dc=example,dc=org"
rootpw secret
directory $dir/ldap
EOF
    slapd -d 0 -f "$dir/slapd.conf" -h ldap://127.0.0.1:389/ &
    pids="$pids $!"
    until_up 389
    record ldap 389
    uv run -q --no-project --with ldap3 python "$here/talk_ldap.py"
    recorded
}

dns() { # dnsmasq behind a program that drops a query; the resolver of the C library in a namespace of its own
    dnsmasq -k -C /dev/null -p 5353 --listen-address=127.0.0.1 --bind-interfaces --no-resolv --no-hosts --local=/test/ \
        --host-record=www.shop.test,10.0.0.1,fd00::1 --host-record=lost.shop.test,10.0.0.2 --mx-host=shop.test,www.shop.test &
    pids="$pids $!"
    until_up 5353
    echo "nameserver 127.0.0.1" >"$dir/resolv.conf"
    echo "hosts: dns" >"$dir/nsswitch.conf"
    record dns "53 or udp port 53"
    unshare -m sh -c "mount --bind '$dir/resolv.conf' /etc/resolv.conf; mount --bind '$dir/nsswitch.conf' /etc/nsswitch.conf
        exec uv run -q --no-project --with dnspython python '$here/talk_dns.py'"
    recorded
}

for session in $wanted; do
    "$session"
done
