"""The lines to change, checked by each software that is installed: none of them finds a fault."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from changes import of_step, then

PATH = f"{os.environ['PATH']}:/usr/sbin:/usr/lib/postgresql/15/bin"
PATIENCE_S = 60.0


def installed(name: str) -> str:
    found = shutil.which(name, path=PATH)
    if not found:
        pytest.skip(f"{name} is not installed")
    return found


def accepted(command: list[str], file: Path, text: str) -> str:
    """What the server prints; it finds no fault in a configuration with these lines."""
    command = [installed(command[0]), *command[1:]]
    file.write_text(text)
    environment = os.environ | {"PATH": PATH}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment, cwd=file.parent)
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def started(command: list[str], log: Path, sign: str) -> str:
    """The log of a server that has no check of its own, once it shows the sign."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and process.poll() is None:
            if log.exists() and sign in (said := log.read_text()):
                return said
            time.sleep(0.05)
        raise AssertionError(f"{command[0]} did not start: {log.read_text() if log.exists() else 'no log'}")
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def test_nginx(tmp_path: Path) -> None:
    [listen] = then("nginx", "a longer backlog")
    [server] = then("nginx", "a larger pool")
    log = [line.replace("/var/log/nginx", str(tmp_path)) for line in of_step("nginx", "log", "web", 1000, 0)]
    methods = then("nginx", "the least busy candidate"), then("nginx", "the better of two candidates")
    kept = of_step("nginx", "kept", "web", False, True, "app")
    again = then("nginx", "a short wait for a new connection", "clients that keep connections")
    again = [line for line in again if not line.startswith("proxy_next_upstream")]
    again += then("nginx", "clients that give up", "silent clients that are cut off")
    for [method] in methods:
        upstream = f"upstream app {{ {method} {server.replace('server app', 'server 127.0.0.1')} {kept[0]} }}"
        inside = f"{listen.replace('80', '8080', 1)} {log[0]} {' '.join(again)} "
        inside += f"location / {{ proxy_pass http://app; {kept[1]} {kept[2]} }}"
        processes, _ = then("nginx", "an asynchronous server")
        text = f"pid {tmp_path}/pid; error_log {tmp_path}/error.log; {processes} "
        text += f"events {{ {then('nginx', 'more workers')[0]} }} http {{ {upstream} server {{ {inside} }} }}"
        file = tmp_path / "nginx.conf"
        accepted(["nginx", "-t", "-e", f"{tmp_path}/error.log", "-p", str(tmp_path), "-c", str(file)], file, text)


def apache(folder: Path, *modules: str) -> list[str]:
    text = [f'ServerRoot "{folder}"', f"PidFile {folder}/pid", "ServerName test", f"ErrorLog {folder}/log"]
    text += [f"DefaultRuntimeDir {folder}", "Listen 127.0.0.1:8099"]
    found = ("mpm_event", "authz_core", *modules)
    return text + [f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in found]


def test_apache_and_mod_proxy(tmp_path: Path) -> None:
    text = apache(tmp_path, "proxy", "proxy_http", "proxy_balancer", "slotmem_shm", "lbmethod_bybusyness", "reqtimeout")
    text += then("apache", "a longer backlog", "more workers", "clients that keep connections")
    text += then("apache", "silent clients that are cut off")
    text += of_step("apache", "log", "web", 1000, 0)
    [policy] = then("mod_proxy", "the least busy candidate")
    waits = "no wait for a connection", "a shorter wait for a connection", "a short wait for a new connection"
    members = [*then("mod_proxy", "a larger pool", *waits), *of_step("mod_proxy", "kept", "web", False, True, "app")]
    inside = [member.replace("//app:", f"//app{number}:") for number, member in enumerate(members)]
    text += ["<Proxy balancer://b>", *inside, policy, "</Proxy>"]
    file = tmp_path / "apache2.conf"
    accepted(["apache2", "-t", "-f", str(file)], file, "\n".join(text) + "\n")


def test_mod_jk(tmp_path: Path) -> None:
    """It names keys that it does not know in its log, and goes on."""
    server = installed("apache2")
    if not Path("/usr/lib/apache2/modules/mod_jk.so").exists():
        pytest.skip("mod_jk is not installed")
    keys = then("mod_jk", "a larger pool", "the least busy candidate", "no wait for a connection")
    keys += then("mod_jk", "a shorter wait for a connection", "a short wait for a new connection")
    workers = ["worker.list=balancer", "worker.balancer.type=lb", "worker.balancer.balance_workers=app"]
    workers += ["worker.app.type=ajp13", "worker.app.host=127.0.0.1", "worker.app.port=8009", *keys]
    (tmp_path / "workers.properties").write_text("\n".join(workers) + "\n")
    text = apache(tmp_path, "jk")
    text += [f"JkWorkersFile {tmp_path}/workers.properties", f"JkLogFile {tmp_path}/jk.log", "JkLogLevel info"]
    text += [f"JkShmFile {tmp_path}/jk.shm"]
    file = tmp_path / "apache2.conf"
    file.write_text("\n".join(text) + "\n")
    said = started([server, "-X", "-f", str(file)], tmp_path / "jk.log", "initialized")
    assert not [line for line in said.splitlines() if "[warn]" in line or "[error]" in line], said


def test_haproxy(tmp_path: Path) -> None:
    front = then("haproxy", "a longer backlog", "more workers", "clients that keep connections")
    front += then("haproxy", "silent clients that are cut off")
    [late] = then("haproxy", "clients that give up")
    classes = ["acl heavy path_beg /search", *then("haproxy", "light calls first")]
    short, again = then("haproxy", "a short wait for a new connection")
    kept = of_step("haproxy", "kept", "web", False, True, "app")
    for method in ("the least busy candidate", "the better of two candidates", "round robin"):
        for server in ("a larger pool", "no wait for a connection"):
            lines = (line.replace(" app:", " 127.0.0.1:") for line in then("haproxy", server))
            text = "global\n maxconn 1000\ndefaults\n mode http\n timeout client 1s\n timeout server 1s\n"
            text += f" {short}\nfrontend f\n bind 127.0.0.1:8098\n "
            text += "\n ".join([*front, "default_backend b"]) + "\nbackend b\n "
            text += "\n ".join([late, *classes, *then("haproxy", method), again, *lines, *kept]) + "\n"
            file = tmp_path / "haproxy.cfg"
            accepted(["haproxy", "-c", "-f", str(file)], file, text)


def test_mariadb(tmp_path: Path) -> None:
    """MySQL's own lines are left out."""
    found = then("mysql", "a longer backlog", "more workers", "fewer workers", "no access log")
    found = [line for line in found if "innodb_thread" not in line]
    assert len(found) == 5
    file = tmp_path / "my.cnf"
    command = ["mariadbd", f"--defaults-file={file}", "--verbose", "--help"]
    accepted(command, file, "[mysqld]\n" + "\n".join(found) + "\n")


def test_postgresql(tmp_path: Path) -> None:
    found = then("postgresql", "a longer backlog", "no access log")
    file = tmp_path / "postgresql.conf"
    text = "\n".join(found) + "\n"
    said = accepted(["postgres", "-C", "max_connections", "-D", str(tmp_path)], file, text)
    assert "256" in said.split()


def test_php_fpm(tmp_path: Path) -> None:
    if not (names := sorted(Path("/usr/sbin").glob("php-fpm*"))):
        pytest.skip("php-fpm is not installed")
    file = tmp_path / "fpm.conf"
    text = (
        f"[global]\npid = {tmp_path}/pid\nerror_log = {tmp_path}/log\n[www]\nlisten = 127.0.0.1:8097\nuser = nobody\n"
    )
    found = then("php-fpm", "a longer backlog", "more workers")
    accepted([names[-1].name, "-t", "-y", str(file)], file, text + "\n".join(found) + "\n")


def test_gunicorn(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def app(environment, start): ...\n")
    file = tmp_path / "gunicorn.conf.py"
    lines = then("gunicorn", "a longer backlog", "more workers", "clients that keep connections")
    text = "\n".join([*lines, *then("gunicorn", "an asynchronous server")[1:]]) + "\n"
    accepted(["gunicorn", "--check-config", "-c", str(file), "app:app"], file, text)


def test_uvicorn(tmp_path: Path) -> None:
    lines = then("uvicorn", "a longer backlog", "more workers", "clients that keep connections", "no access log")
    options = " ".join(lines).split()
    text = f"from uvicorn.main import main\nmain.make_context('uvicorn', {['app:app', *options]!r})\n"
    pytest.importorskip("uvicorn")
    accepted([sys.executable, str(tmp_path / "check.py")], tmp_path / "check.py", text)


def test_uwsgi(tmp_path: Path) -> None:
    """With --strict, it does not start with options that it does not know; without a socket or an app it ends."""
    name = next((name for name in ("uwsgi", "uwsgi-core") if shutil.which(name, path=PATH)), "uwsgi")
    file = tmp_path / "uwsgi.ini"
    lines = then("uwsgi", "a longer backlog", "more workers", "no access log")
    text = "[uwsgi]\nstrict = true\nshow-config = true\nsafe-pidfile = none\nno-server = true\n"
    said = accepted([name, "--ini", str(file)], file, text + "\n".join(lines) + "\n")
    assert "threads = 256" in said


def test_pgbouncer(tmp_path: Path) -> None:
    """It has no check of its own, and does not start with keys that it does not know."""
    server = installed("pgbouncer")
    lines = then("pgbouncer", "a longer backlog", "more workers", "no wait for a connection")
    text = ["[databases]", "[pgbouncer]", "listen_addr = 127.0.0.1", "listen_port = 8096", "unix_socket_dir ="]
    text += [f"logfile = {tmp_path}/log", *lines]
    file = tmp_path / "pgbouncer.ini"
    file.write_text("\n".join(text) + "\n")
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root" and path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(0o777)
    said = started([server, "-u", "nobody", str(file)], tmp_path / "log", "process up")
    assert "WARNING" not in said


def test_puma(tmp_path: Path) -> None:
    file = tmp_path / "puma.rb"
    lines = then("puma", "a longer backlog", "more workers")
    check = "require 'puma'; require 'puma/configuration'; c = Puma::Configuration.new({config_files: ['puma.rb']}); "
    check += "c.load; c.clamp; print c.options[:max_threads], c.options[:binds]"
    installed("puma")
    said = accepted(["ruby", "-e", check], file, "\n".join(lines) + "\n")
    assert "256" in said
    assert "backlog=512" in said


def test_node(tmp_path: Path) -> None:
    [listen] = then("node", "a longer backlog")
    [agent] = then("node", "a larger pool")
    [kept] = then("node", "clients that keep connections")
    [fork] = then("node", "more cores")
    text = "const http = require('http'); const cluster = require('cluster'); "
    text += f"if (cluster.isPrimary) {{ {fork} }} else {{ const agent = {agent}; const server = http.createServer(); "
    text += f"{kept}; {listen.replace('8080', '0')}; server.on('listening', () => process.exit(0)) }}\n"
    accepted(["node", str(tmp_path / "server.js")], tmp_path / "server.js", text)


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ("a larger young generation", ["-Xmx512m"]),
        ("more threads that collect", ["-XX:+UseParallelGC"]),
        ("a newer JVM", []),
        ("no pauses of the collector", []),
    ],
)
def test_jvm(tmp_path: Path, change: str, more: list[str]) -> None:
    said = accepted(["java", *then("jvm", change), *more, "-version"], tmp_path / "unused", "")
    assert "warning" not in said.lower()


def test_systemd(tmp_path: Path) -> None:
    changes = ("a larger quota", "a shorter period of the quota", "no quota", "more CPU weight", "one more replica")
    changes = (*changes, "quota periods at different times")
    file = tmp_path / "app.service"
    text = "[Unit]\nDescription=app\n[Service]\nExecStart=/bin/true\n" + "\n".join(then("systemd", *changes)) + "\n"
    said = accepted(["systemd-analyze", "verify", str(file)], file, text)
    assert "Unknown" not in said
    assert "app.service" not in said


def test_linux_has_the_keys() -> None:
    keys = [line.partition(" = ")[0] for line in then("linux", "a longer backlog", "smaller writes")]
    assert len(keys) == 4
    missing = [key for key in keys if not Path("/proc/sys", *key.split(".")).exists()]
    assert not missing


def test_kubernetes_reads_its_lines(tmp_path: Path) -> None:
    """The client of Kubernetes builds the manifest with these lines; it cannot check all keys without a cluster."""
    [replicas], [limit] = then("kubernetes", "one more replica"), then("kubernetes", "a larger quota")
    [sysctls] = then("kubernetes", "a longer backlog")
    container = f"{{ name: app, image: app, resources: {{ limits: {{ {limit} }} }} }}"
    pod = f"{{ securityContext: {{ {sysctls} }}, containers: [{container}] }}"
    text = f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{ name: app }}\nspec:\n  {replicas}\n"
    text += f"  template: {{ spec: {pod} }}\n"
    (tmp_path / "kustomization.yaml").write_text("resources: [app.yaml]\n")
    said = accepted(["kubectl", "kustomize", str(tmp_path)], tmp_path / "app.yaml", text)
    assert "net.core.somaxconn" in said
    assert "replicas: 3" in said
