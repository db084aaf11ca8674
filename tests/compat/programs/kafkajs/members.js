// Group members of kafkajs, with the commands and events of compat.groups.members.
"use strict";

const readline = require("node:readline");
const { Kafka, logLevel } = require("kafkajs");

class Member {
  constructor(order) {
    this.name = order.member;
    this.order = order;
    this.owned = [];
  }

  tell(event, details = {}) {
    const at = Math.round((performance.timeOrigin + performance.now()) * 1000);
    process.stdout.write(JSON.stringify({ member: this.name, at, event, ...details }) + "\n");
  }

  async join() {
    const { bootstrap, group, topics, settings } = this.order;
    const kafka = new Kafka({ brokers: [bootstrap], clientId: this.name, logLevel: logLevel.NOTHING });
    const retry = { maxRetryTime: 1_000, restartOnFailure: async () => true }; // its broker may be away for a while
    this.consumer = kafka.consumer({ groupId: group, rebalanceTimeout: 10_000, retry, ...settings });
    const { GROUP_JOIN, REBALANCING, CRASH } = this.consumer.events;
    this.consumer.on(GROUP_JOIN, ({ payload }) => {
      this.giveUp();
      this.owned = payload.memberAssignment[topics[0]] ?? [];
      this.tell("assigned", { partitions: this.owned });
    });
    this.consumer.on(REBALANCING, () => this.giveUp());
    this.consumer.on(CRASH, ({ payload }) => {
      this.giveUp();
      if (!payload.restart) {
        this.tell("failed", { error: String(payload.error.stack) });
      }
    });
    await this.consumer.connect();
    await this.consumer.subscribe({ topics, fromBeginning: true });
    await this.consumer.run({ eachBatch: (payload) => this.read(payload) });
  }

  // At the end of a batch the library commits the resolved offsets.
  async read({ batch, resolveOffset, heartbeat, isStale }) {
    if (isStale()) {
      return;
    }
    const records = batch.messages.map(({ offset, value }) => [
      batch.partition, Number(offset), Number(value.toString()),
    ]);
    this.tell("read", { records });
    resolveOffset(batch.lastOffset());
    await heartbeat();
  }

  giveUp() {
    if (this.owned.length > 0) {
      this.tell("revoked", { partitions: this.owned });
      this.owned = [];
    }
  }

  async leave() {
    await this.consumer.stop(); // commits, and leaves the group when it disconnects
    this.giveUp();
    await this.consumer.disconnect();
    this.tell("left");
  }
}

async function main() {
  const members = new Map();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    if (order.do === "join") {
      const member = new Member(order);
      members.set(order.member, member);
      member.join().catch((error) => member.tell("failed", { error: String(error.stack) }));
    } else {
      const member = members.get(order.member);
      members.delete(order.member);
      member.leave().catch((error) => member.tell("failed", { error: String(error.stack) }));
    }
  }
  await Promise.all([...members.values()].map((member) => member.leave()));
}

main();
