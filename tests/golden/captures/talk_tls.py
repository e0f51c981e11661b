"""The TLS session: curl over HTTP/1 and HTTP/2 with each kind of cipher, MariaDB and PostgreSQL. The secrets of its
sessions go to the file that SSLKEYLOGFILE names."""

import ssl
import subprocess

import pg8000.native
import pymysql

BASE = "https://shop.test:8443"
CURL = ("curl", "-s", "-k", "--resolve", "shop.test:8443:127.0.0.1")


def run(*options: str) -> None:
    subprocess.run([*CURL, *options], check=False, stdout=subprocess.DEVNULL, timeout=20)


run("--http1.1", f"{BASE}/small.html", f"{BASE}/missing")
run("--http2", f"{BASE}/3000.html", f"{BASE}/gone")
for suite in ("TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"):
    run("--http1.1", "--tls13-ciphers", suite, f"{BASE}/small.html")
for suite in ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"):
    run("--http1.1", "--tls-max", "1.2", "--ciphers", suite, "--data", "x" * 3000, f"{BASE}/small.html")
run("--http2", "--tls-max", "1.2", f"{BASE}/3000.html")

unchecked = ssl.create_default_context()
unchecked.check_hostname = False
unchecked.verify_mode = ssl.CERT_NONE
with pymysql.connect(host="127.0.0.1", user="root", ssl=unchecked) as maria, maria.cursor() as cursor:
    cursor.execute("SELECT 1")
    cursor.execute("SHOW DATABASES")
elephant = pg8000.native.Connection("me", host="127.0.0.1", database="postgres", ssl_context=unchecked)
elephant.run("SELECT 2")
elephant.run("CREATE TABLE things (id int)")
elephant.close()
