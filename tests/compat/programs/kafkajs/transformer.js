// Consume, transform, produce with kafkajs; order and events as compat.transactions.transformers has them.
"use strict";

const readline = require("node:readline");
const { Kafka, logLevel } = require("kafkajs");

function tell(event, count = 0, error = "") {
  process.stdout.write(JSON.stringify({ event, count, error: String(error) }) + "\n");
}

class Transformer {
  constructor(order) {
    this.order = order;
    this.turn = 0;
    const kafka = new Kafka({ brokers: [order.bootstrap], clientId: order.transactional_id, logLevel: logLevel.NOTHING });
    const retry = { maxRetryTime: 1_000, retries: 100, restartOnFailure: async () => true }; // its broker may be away
    this.producer = kafka.producer({
      transactionalId: order.transactional_id, idempotent: true, maxInFlightRequests: 1, retry, ...order.producer,
    });
    this.consumer = kafka.consumer({
      groupId: order.group, readUncommitted: false, maxBytesPerPartition: 4096, retry, ...order.consumer,
    });
  }

  async start() {
    await this.producer.connect();
    // A transaction that is ended at once: whatever one of the same name left open ends before offsets are asked for.
    await (await this.producer.transaction()).abort();
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [this.order.input], fromBeginning: true });
    this.consumer.on(this.consumer.events.CRASH, ({ payload }) => {
      if (!payload.restart) {
        tell("failed", 0, payload.error.stack);
      }
    });
    await this.consumer.run({
      autoCommit: false, eachBatchAutoResolve: false, eachBatch: (lump) => this.transform(lump),
    });
  }

  async transform({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
    for (let at = 0; at < batch.messages.length && isRunning() && !isStale(); at += this.order.lump_records) {
      const lump = batch.messages.slice(at, at + this.order.lump_records);
      const last = lump[lump.length - 1].offset;
      if (!(await this.transformLump(batch, lump, last))) {
        return; // what was not resolved comes again
      }
      resolveOffset(last);
      await heartbeat();
    }
  }

  async transformLump(batch, lump, last) {
    const { topic, partition } = batch;
    const transaction = await this.producer.transaction();
    try {
      const messages = lump.map(({ key, value, offset }) => ({ key, value: `${partition}:${offset}:${value}`, partition }));
      await transaction.send({ topic: this.order.output, messages });
      const offsets = [{ partition, offset: (BigInt(last) + 1n).toString() }];
      await transaction.sendOffsets({ consumerGroupId: this.order.group, topics: [{ topic, partitions: offsets }] });
      this.turn += 1;
      if (this.turn % this.order.abort_one_in === 0) {
        await transaction.abort();
        tell("aborted", lump.length, "on purpose");
        return false;
      }
      await transaction.commit();
      tell("committed", lump.length);
      return true;
    } catch (error) {
      if (transaction.isActive()) {
        await transaction.abort();
      }
      tell("aborted", lump.length, error);
      return false;
    }
  }

  async stop() {
    await this.consumer.disconnect();
    await this.producer.disconnect();
  }
}

async function main() {
  let transformer = null;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    transformer = new Transformer(JSON.parse(line));
    transformer.start().catch((error) => tell("failed", 0, error.stack));
  }
  await transformer.stop();
  tell("left");
}

main();
