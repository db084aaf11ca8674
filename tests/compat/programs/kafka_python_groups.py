"""Administers groups with the newest kafka-python, and prints what it found as JSON.

kafka_python_groups.py BOOTSTRAP TOPIC WORKING_GROUP NEW_GROUP: the topic has three partitions with ten records or
more.
"""

import json
import sys
import warnings

warnings.simplefilter("ignore")

from kafka import KafkaAdminClient, TopicPartition  # noqa: E402, after warnings are silenced
from kafka.admin import MemberToRemove, OffsetSpec  # noqa: E402
from kafka.errors import KafkaError  # noqa: E402
from kafka.structs import OffsetAndMetadata  # noqa: E402


def main(bootstrap, topic, working, new):
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    found = {}
    described = client.describe_groups([working])[working]
    found["described"] = [described["group_state"], described["protocol_data"], len(described["members"])]
    found["stable"] = working in names(client.list_groups(states_filter=["Stable"]))
    found["classic"] = working in names(client.list_groups(types_filter=["classic"]))
    found["empty"] = working in names(client.list_groups(states_filter=["Empty"]))
    found["refused"] = refusals(client.delete_groups([working]))

    partitions = [TopicPartition(topic, number) for number in range(3)]
    client.alter_group_offsets(
        new, {partition: OffsetAndMetadata(partition.partition + 1, "note", -1) for partition in partitions}
    )
    found["altered"] = offsets(client, new)
    client.reset_group_offsets(new, {partitions[0]: OffsetSpec.EARLIEST, partitions[1]: 7})
    found["reset"] = offsets(client, new)
    client.delete_group_offsets(new, [partitions[2]])
    found["deleted"] = offsets(client, new)
    found["both"] = sorted(client.list_group_offsets([working, new]))
    found["gone"] = refusals(client.delete_groups([new]))
    found["listed"] = new in names(client.list_groups())

    removed = [MemberToRemove(member_id=member["member_id"]) for member in described["members"]]
    found["removed"] = sorted(
        error.__name__ for error in client.remove_group_members(working, removed).values()
    )
    client.close()
    print(json.dumps(found))


def names(groups):
    return [group["group_id"] for group in groups]


def offsets(client, group):
    listed = client.list_group_offsets({group: None})[group]
    return {partition.partition: [place.offset, place.metadata] for partition, place in listed.items()}


def refusals(answer):
    """The names of the errors in a response that maps groups to errors or to their names."""
    return [
        error if isinstance(error, str) else getattr(error, "__name__", str(error))
        for error in answer.values()
    ]


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KafkaError as error:
        sys.exit(f"{type(error).__name__}: {error}")
