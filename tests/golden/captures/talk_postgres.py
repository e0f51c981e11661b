"""The PostgreSQL session: psycopg's simple and extended protocol, a pipeline, COPY, errors, a refused login."""

import contextlib

import psycopg

URL = "host=127.0.0.1 port=5432 user=me dbname=postgres gssencmode=prefer sslmode=prefer"

with psycopg.connect(URL, autocommit=True) as db:
    db.execute("CREATE TABLE stories (id int PRIMARY KEY, title text)")
    with db.cursor().copy("COPY stories FROM STDIN") as copy:
        for i in range(50):
            copy.write_row((i, f"story {i}"))
    for _ in range(3):
        db.execute("SELECT * FROM stories WHERE id = %s", (7,), prepare=True).fetchall()
    db.execute("SELECT title FROM stories").fetchall()
    for wrong in ("SELECT * FROM nowhere", "INSERT INTO stories VALUES (1, 'again')"):
        with contextlib.suppress(psycopg.Error):
            db.execute(wrong)
    with db.pipeline():
        for i in range(3):
            db.execute("UPDATE stories SET title = %s WHERE id = %s", ("x", i))
    with db.transaction():
        db.execute("DELETE FROM stories WHERE id = %s", (1,))
    db.execute("SELECT 1; SELECT 2")
    with db.cursor().copy("COPY stories TO STDOUT") as copy:
        list(copy)
with contextlib.suppress(psycopg.Error):
    psycopg.connect(URL.replace("dbname=postgres", "dbname=nowhere"))
