"""The MariaDB session: text and prepared statements, several results, errors, LOCAL INFILE, with EOF packets
(PyMySQL) and without (MySQL's connector), and a refused login."""

import contextlib
import tempfile

import mysql.connector
import pymysql

WHERE = {"host": "127.0.0.1", "port": 3306, "user": "root"}

MULTI = pymysql.constants.CLIENT.MULTI_STATEMENTS

db = pymysql.connect(**WHERE, ssl_disabled=True, local_infile=True, client_flag=MULTI)
with db.cursor() as cursor:
    cursor.execute("CREATE DATABASE rubbos")
    db.select_db("rubbos")
    cursor.execute("CREATE TABLE stories (id int PRIMARY KEY, title varchar(100))")
    cursor.executemany("INSERT INTO stories VALUES (%s, %s)", [(i, f"story {i}") for i in range(200)])
    cursor.execute("SELECT * FROM stories")
    cursor.execute("SELECT * FROM stories WHERE id < 0")
    cursor.execute("SELECT 1; UPDATE stories SET title='x' WHERE id=1; SELECT title FROM stories")
    while cursor.nextset():
        pass
    for wrong in ("SELECT * FROM nowhere", "INSERT INTO stories VALUES (1, 'again')"):
        with contextlib.suppress(pymysql.Error):
            cursor.execute(wrong)
    cursor.execute("CREATE PROCEDURE p() BEGIN SELECT 1; SELECT id FROM stories; END")
    cursor.execute("CALL p()")
    while cursor.nextset():
        pass
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as lines:
        lines.write("1000\tloaded\n1001\ttoo\n")
        lines.flush()
        cursor.execute(f"LOAD DATA LOCAL INFILE '{lines.name}' INTO TABLE stories")
db.ping()
db.commit()
db.close()

db2 = mysql.connector.connect(**WHERE, database="rubbos", ssl_disabled=True, use_pure=True)
with db2.cursor(prepared=True) as cursor:
    for i in (1, 2, 3):
        cursor.execute("SELECT * FROM stories WHERE id = %s", (i,))
        cursor.fetchall()
    cursor.execute("DELETE FROM stories WHERE id > %s", (900,))
with db2.cursor() as cursor:
    cursor.execute("SELECT COUNT(*) FROM stories")
    cursor.fetchall()
db2.commit()
db2.close()
with contextlib.suppress(pymysql.Error):
    pymysql.connect(**{**WHERE, "user": "nobody", "password": "wrong"}, ssl_disabled=True)
db3 = pymysql.connect(**WHERE, ssl_disabled=True, database="rubbos")
db3.close()
