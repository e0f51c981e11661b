"""One sort of server, one file, one line: how it is configured from an experiment, started and stopped.

`setting` is what a server is told, `kind` what it is to the testbed, `templates/` its configuration.
"""

from tailrace.testbed.servers import apache, board, haproxy, mariadb, nginx
from tailrace.testbed.servers.kind import Kind

KINDS: dict[str, Kind] = {
    "apache": apache.KIND,
    "nginx": nginx.KIND,
    "tomcat": board.KIND,
    "xtomcat": board.KIND,
    "haproxy": haproxy.KIND,
    "cjdbc": haproxy.KIND,
    "mysql": mariadb.KIND,
    "xmysql": mariadb.KIND,
}
"""By a tier's `software`."""
