"""The MongoDB session: PyMongo with a handshake, writes, cursors, an error; and messages by
hand."""

import socket
import struct

import bson
from pymongo import MongoClient
from pymongo.errors import OperationFailure

ADDRESS = "mongodb://127.0.0.1:27017/?directConnection=true&heartbeatFrequencyMS=60000"

client: MongoClient[dict[str, object]] = MongoClient(ADDRESS)
shop = client["shop"]
shop["stories"].insert_many([{"title": "a story", "text": "x" * 200, "number": n} for n in range(120)])
shop["stories"].create_index("number")
for number in range(3):
    shop["stories"].find_one({"number": number})
list(shop["stories"].find({}, {"number": 1}).batch_size(50))
shop["stories"].update_one({"number": 3}, {"$set": {"title": "another"}})
shop["users"].delete_many({"name": "somebody"})
list(shop["stories"].aggregate([{"$match": {"number": 7}}]))
shop["stories"].count_documents({})
client.admin.command("ping")
try:
    shop.command("noSuchCommand")
except OperationFailure as refused:
    print(refused.code)
shop["stories"].drop()
client.close()


def message(number: int, flags: int, command: dict[str, object]) -> bytes:
    content = struct.pack("<IB", flags, 0) + bson.encode(command)
    return struct.pack("<IIII", len(content) + 16, number, 0, 2013) + content


with socket.create_connection(("127.0.0.1", 27017)) as connection:
    for number in (1, 2):
        connection.sendall(message(number, 0, {"ping": 1, "$db": "admin"}))
        print(len(connection.recv(65536)), "bytes")
