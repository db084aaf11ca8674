"""Shared by the Python hosts of group members: the commands and events of compat.groups.members."""

import json
import sys
import threading
import time
import traceback

_writing = threading.Lock()


def report(member, event, **details):
    line = json.dumps({"member": member, "at": time.time_ns() // 1000, "event": event, **details})
    with _writing:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def orders():
    for line in sys.stdin:
        yield json.loads(line)


class Member:
    """Reports the events of one member. Records are reported in batches, and always before a change of ownership."""

    def __init__(self, order):
        self.name = order["member"]
        self.order = order
        self.leaving = threading.Event()
        self._records = []

    def read(self, partition, offset, value):
        self._records.append((partition, offset, int(value)))

    def tell_records(self):
        if self._records:
            report(self.name, "read", records=self._records)
            self._records = []

    def report(self, event, partitions=None, **details):
        self.tell_records()
        if partitions is not None:
            details["partitions"] = sorted(partition.partition for partition in partitions)
        report(self.name, event, **details)


def run_in_threads(run):
    """One thread per member, until stdin ends; `run(member)` returns when the member has left."""

    def guarded(member):
        try:
            run(member)
            member.report("left")
        except Exception:
            member.report("failed", error=traceback.format_exc()[-3000:])

    members, threads = {}, []
    for order in orders():
        if order["do"] == "join":
            member = members[order["member"]] = Member(order)
            threads.append(threading.Thread(target=guarded, args=[member]))
            threads[-1].start()
        else:
            members[order["member"]].leaving.set()
    for member in members.values():
        member.leaving.set()
    for thread in threads:
        thread.join()
