"""The Kafka session: kafka-python makes a topic, produces with and without acknowledgement, and reads as a member of a
group and without one."""

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

SERVER = "127.0.0.1:9092"

admin = KafkaAdminClient(bootstrap_servers=SERVER)
admin.create_topics([NewTopic("stories", num_partitions=1, replication_factor=1)])
admin.list_topics()

for acks in (1, "all", 0):
    producer = KafkaProducer(bootstrap_servers=SERVER, acks=acks, enable_idempotence=False, linger_ms=0)
    for number in range(4):
        sent = producer.send("stories", b"x" * 100 * number)
        if acks:
            sent.get(timeout=30)
    producer.flush()
    producer.close()

alone = KafkaConsumer(bootstrap_servers=SERVER, fetch_max_wait_ms=300, consumer_timeout_ms=1500)
alone.assign([TopicPartition("stories", 0)])
alone.seek_to_beginning()
print(len(list(alone)), "records")
alone.close()

member = KafkaConsumer(
    "stories", bootstrap_servers=SERVER, group_id="readers", auto_offset_reset="earliest", consumer_timeout_ms=5000
)
print(len(list(member)), "records")
member.close()
admin.close()
