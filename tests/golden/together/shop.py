"""The application: each request reads from MariaDB."""

import pymysql
from flask import Flask

app = Flask(__name__)


kept: list[pymysql.Connection] = []


def ask(sql: str) -> str:
    if not kept:
        kept.append(pymysql.connect(host="10.77.9.4", user="root", bind_address="10.77.9.3"))
    with kept[0].cursor() as cursor:
        cursor.execute(sql)
        return str(cursor.fetchall())


@app.get("/stories")
def stories() -> str:
    return ask("SELECT 1 AS stories")


@app.get("/stories/<int:story>")
def one(story: int) -> str:
    return ask(f"SELECT {story} AS story")
