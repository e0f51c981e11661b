"""The Cassandra session: the Python driver in versions 5 and 4 of the protocol, with statements, prepared ones, a
batch, an error, and requests at once; version 4 also compressed."""

from cassandra import InvalidRequest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy
from cassandra.query import BatchStatement

for version, compression in ((5, False), (4, False), (4, True)):
    profile = ExecutionProfile(WhiteListRoundRobinPolicy(["127.0.0.1"]), request_timeout=60)
    cluster = Cluster(
        ["127.0.0.1"],
        protocol_version=version,
        compression=compression,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        schema_metadata_enabled=False,
        token_metadata_enabled=False,
        connect_timeout=60,
        control_connection_timeout=60,
    )
    session = cluster.connect()
    session.execute(
        "CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute("CREATE TABLE IF NOT EXISTS shop.stories (id int PRIMARY KEY, title text)")
    insert = session.prepare("INSERT INTO shop.stories (id, title) VALUES (?, ?)")
    for waiting in [session.execute_async(insert, (number, "x" * 100)) for number in range(20)]:
        waiting.result()
    print(len(list(session.execute("SELECT * FROM shop.stories WHERE id = 7"))), "row")
    batch = BatchStatement()
    batch.add(insert, (1, "one"))
    batch.add(insert, (2, "two"))
    session.execute(batch)
    try:
        session.execute("SELECT nothing FROM shop.stories")
    except InvalidRequest as refused:
        print(type(refused).__name__)
    cluster.shutdown()
