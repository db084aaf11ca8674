// Consume, transform, produce with kafkajs, with the order and events of compat.transactions.transformers.
"use strict";

const readline = require("node:readline");
const { Kafka, logLevel } = require("kafkajs");

function tell(event, count = 0, error = "") {
  process.stdout.write(JSON.stringify({ event, count, error: String(error) }) + "\n");
}

class Transformer {
  constructor(order, onBroken) {
    this.order = order;
    this.onBroken = onBroken;
    this.isBroken = false;
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
    // An empty transaction: it ends the open transaction of an earlier producer with this id before offsets are fetched.
    await (await this.producer.transaction()).abort();
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [this.order.input], fromBeginning: true });
    this.consumer.on(this.consumer.events.CRASH, ({ payload }) => {
      if (!payload.restart) {
        tell("failed", 0, payload.error.stack);
      }
    });
    await this.consumer.run({
      autoCommit: false, eachBatchAutoResolve: false, eachBatch: (payload) => this.transform(payload),
    });
  }

  async transform({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
    const isOver = () => this.isBroken || !isRunning() || isStale();
    for (let at = 0; at < batch.messages.length && !isOver(); at += this.order.batch_records) {
      const chunk = batch.messages.slice(at, at + this.order.batch_records);
      const last = chunk[chunk.length - 1].offset;
      if (!(await this.transformChunk(batch, chunk, last))) {
        return; // what was not resolved comes again
      }
      resolveOffset(last);
      await heartbeat();
    }
  }

  async transformChunk(batch, chunk, last) {
    const { topic, partition } = batch;
    try {
      const transaction = await this.producer.transaction();
      const messages = chunk.map(({ key, value, offset }) => ({ key, value: `${partition}:${offset}:${value}`, partition }));
      await transaction.send({ topic: this.order.output, messages });
      const offsets = [{ partition, offset: (BigInt(last) + 1n).toString() }];
      await transaction.sendOffsets({ consumerGroupId: this.order.group, topics: [{ topic, partitions: offsets }] });
      this.turn += 1;
      if (this.turn % this.order.abort_one_in === 0) {
        await transaction.abort();
        tell("aborted", chunk.length, "on purpose");
        return false;
      }
      await transaction.commit();
      tell("committed", chunk.length);
      return true;
    } catch (error) {
      // Its outcome is unknown; a new consumer fetches the committed offsets and continues there.
      this.isBroken = true;
      this.onBroken(error);
      return false;
    }
  }

  async stop() {
    this.isBroken = true;
    await this.consumer.disconnect();
    await this.producer.disconnect();
  }
}

class Runner {
  constructor(order) {
    this.order = order;
    this.isEnding = false;
    this.current = null;
    this.start();
  }

  start() {
    const mine = new Transformer(this.order, (error) => this.replace(mine, error));
    this.current = mine;
    mine.start().catch((error) => this.replace(mine, error));
  }

  async replace(broken, error) {
    if (broken !== this.current || this.isEnding) {
      return;
    }
    tell("replaced", 0, error);
    this.current = null;
    await broken.stop().catch(() => {});
    if (!this.isEnding) {
      this.start();
    }
  }

  async end() {
    this.isEnding = true;
    if (this.current !== null) {
      await this.current.stop();
    }
  }
}

async function main() {
  let runner = null;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    runner = new Runner(JSON.parse(line));
  }
  await runner.end();
  tell("left");
  process.exit(0);
}

main();
