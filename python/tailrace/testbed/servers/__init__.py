"""The kinds of servers: one file and one line each. A file configures, starts and stops its kind.

`setting` holds the values for a server's configuration, `kind` is the interface to the testbed, `templates/` holds the
configuration files.
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
