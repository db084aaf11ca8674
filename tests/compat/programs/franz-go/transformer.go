// Consume, transform, produce with franz-go, with the order and events of compat.transactions.transformers.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const endTime = 60 * time.Second

type transformerOrder struct {
	Bootstrap       string            `json:"bootstrap"`
	Group           string            `json:"group"`
	Input           string            `json:"input"`
	Output          string            `json:"output"`
	TransactionalID string            `json:"transactional_id"`
	BatchRecords    int               `json:"batch_records"`
	AbortOneIn      int               `json:"abort_one_in"`
	Consumer        map[string]string `json:"consumer"`
}

type transformerEvent struct {
	Event string `json:"event"`
	Count int    `json:"count"`
	Error string `json:"error"`
}

func tellTransformed(told transformerEvent) {
	line, err := json.Marshal(told)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

type transformer struct {
	transformerOrder
	ending chan struct{}
	turn   int
}

func (t *transformer) isEnding() bool {
	select {
	case <-t.ending:
		return true
	default:
		return false
	}
}

// Until stdin ends, or an error that needs a new session.
func (t *transformer) run() error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(t.Bootstrap),
		kgo.TransactionalID(t.TransactionalID),
		kgo.TransactionTimeout(endTime),
		kgo.ConsumerGroup(t.Group),
		kgo.ConsumeTopics(t.Input),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.SessionTimeout(3*time.Second),
		kgo.FetchMaxWait(pollTime),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for !t.isEnding() {
		ctx, cancel := context.WithTimeout(context.Background(), pollTime)
		fetches := session.PollRecords(ctx, t.BatchRecords)
		cancel()
		if !fetches.Empty() {
			if err := t.transform(session, fetches); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *transformer) transform(session *kgo.GroupTransactSession, fetches kgo.Fetches) error {
	if err := session.Begin(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	promise := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(record *kgo.Record) {
		value := fmt.Sprintf("%d:%d:%s", record.Partition, record.Offset, record.Value)
		session.Produce(ctx, &kgo.Record{
			Topic: t.Output, Partition: record.Partition, Key: record.Key, Value: []byte(value),
		}, promise.Promise())
	})
	failure := promise.Err()
	t.turn++
	isToAbort := t.turn%t.AbortOneIn == 0
	committed, err := session.End(ctx, kgo.TransactionEndTry(failure == nil && !isToAbort))
	if err != nil {
		return err
	}
	if committed {
		tellTransformed(transformerEvent{Event: "committed", Count: fetches.NumRecords()})
	} else {
		tellTransformed(transformerEvent{Event: "aborted", Count: fetches.NumRecords(), Error: fmt.Sprint(failure)})
	}
	return nil
}

func transformUntilTold() {
	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadBytes('\n')
	if err != nil {
		panic(err)
	}
	running := &transformer{ending: make(chan struct{})}
	if err := json.Unmarshal(line, &running.transformerOrder); err != nil {
		panic(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, input)
		close(running.ending)
	}()
	for !running.isEnding() {
		if err := running.run(); err != nil {
			tellTransformed(transformerEvent{Event: "replaced", Error: err.Error()})
		}
	}
	tellTransformed(transformerEvent{Event: "left"})
}
