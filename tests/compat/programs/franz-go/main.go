// Group members of franz-go, with the commands and events of compat.groups.members.
// With the argument `transform` it is a transformer instead (transformer.go).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const pollTime = 50 * time.Millisecond

type order struct {
	Do        string            `json:"do"`
	Member    string            `json:"member"`
	Bootstrap string            `json:"bootstrap"`
	Group     string            `json:"group"`
	Topics    []string          `json:"topics"`
	Settings  map[string]string `json:"settings"`
}

type event struct {
	Member     string     `json:"member"`
	At         int64      `json:"at"`
	Event      string     `json:"event"`
	Partitions []int32    `json:"partitions,omitempty"`
	Records    [][3]int64 `json:"records,omitempty"`
	Error      string     `json:"error,omitempty"`
}

var writing sync.Mutex

func tell(told event) {
	told.At = time.Now().UnixMicro()
	line, err := json.Marshal(told)
	if err != nil {
		panic(err)
	}
	writing.Lock()
	defer writing.Unlock()
	fmt.Println(string(line))
}

type member struct {
	order
	leaving chan struct{}
	once    sync.Once
}

func (m *member) leave() {
	m.once.Do(func() { close(m.leaving) })
}

func (m *member) run() {
	if err := m.consume(); err != nil {
		tell(event{Member: m.Member, Event: "failed", Error: err.Error()})
		return
	}
	tell(event{Member: m.Member, Event: "left"})
}

func (m *member) consume() error {
	balancers := map[string]kgo.GroupBalancer{
		"range":              kgo.RangeBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(m.Bootstrap),
		kgo.ConsumerGroup(m.Group),
		kgo.ConsumeTopics(m.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(balancers[m.Settings["balancer"]]),
		kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.SessionTimeout(6 * time.Second),
		kgo.FetchMaxWait(pollTime),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			m.tellOwnership("assigned", given)
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, taken map[string][]int32) {
			commit(ctx, client)
			m.tellOwnership("revoked", taken)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			m.tellOwnership("lost", lost)
		}),
	}
	if id := m.Settings["instance"]; id != "" {
		options = append(options, kgo.InstanceID(id))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	for {
		select {
		case <-m.leaving:
			client.AllowRebalance()
			client.Close()
			return nil
		default:
		}
		if err := m.poll(client); err != nil {
			return err
		}
	}
}

func (m *member) poll(client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), pollTime)
	defer cancel()
	fetches := client.PollFetches(ctx)
	defer client.AllowRebalance()
	var records [][3]int64
	var failure error
	fetches.EachRecord(func(record *kgo.Record) {
		number, err := strconv.ParseInt(string(record.Value), 10, 64)
		if err != nil {
			failure = err
		}
		records = append(records, [3]int64{int64(record.Partition), record.Offset, number})
	})
	if failure != nil || len(records) == 0 {
		return failure
	}
	tell(event{Member: m.Member, Event: "read", Records: records})
	commit(context.Background(), client)
	return nil
}

// Records that cannot be committed, because the group has a new generation, are read again; the test decides whether that is allowed.
func commit(ctx context.Context, client *kgo.Client) {
	_ = client.CommitUncommittedOffsets(ctx)
}

func (m *member) tellOwnership(kind string, topics map[string][]int32) {
	for _, partitions := range topics {
		tell(event{Member: m.Member, Event: kind, Partitions: partitions})
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "transform" {
		transformUntilTold()
		return
	}
	members := map[string]*member{}
	var running sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var given order
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			panic(err)
		}
		if given.Do == "leave" {
			members[given.Member].leave()
			continue
		}
		joining := &member{order: given, leaving: make(chan struct{})}
		members[given.Member] = joining
		running.Add(1)
		go func() {
			defer running.Done()
			joining.run()
		}()
	}
	for _, remaining := range members {
		remaining.leave()
	}
	running.Wait()
}
