"""The AMQP session: Pika declares, publishes with and without confirmations, gets, consumes, and asks for what is not
there."""

import pika
from pika.exceptions import ChannelClosedByBroker

connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", 5672))
channel = connection.channel()
channel.exchange_declare("shop", "direct")
channel.queue_declare("orders")
channel.queue_bind("orders", "shop", "new")
for number in range(3):
    channel.basic_publish("shop", "new", b"x" * 3000 * number)
channel.confirm_delivery()
for _ in range(4):
    channel.basic_publish("shop", "new", b"confirmed")
print(channel.basic_get("orders")[2])
print(channel.queue_declare("orders", passive=True).method.message_count)
channel.basic_qos(prefetch_count=2)
for delivered, _, _ in channel.consume("orders", inactivity_timeout=1):
    if delivered is None:
        break
    channel.basic_ack(delivered.delivery_tag)
channel.cancel()

other = connection.channel()
try:
    other.queue_declare("missing", passive=True)
except ChannelClosedByBroker as closed:
    print(closed.reply_code)
transactions = connection.channel()
transactions.tx_select()
transactions.basic_publish("shop", "new", b"in a transaction")
transactions.tx_commit()
channel.queue_purge("orders")
channel.queue_delete("orders")
channel.exchange_delete("shop")
connection.close()
