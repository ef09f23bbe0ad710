// nats-clients sends requests to a key-value bucket of NATS JetStream with its
// own client: one client with one connection for each of -connections. It
// creates the bucket, with file storage, if it does not exist.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kvorum.invalid/peers/figures"
)

const (
	bucket = "bench"
	// How long a request may take, including an election.
	timeout = 10 * time.Second
	// How long the servers may take to form a cluster and create the bucket.
	readyTimeout = 30 * time.Second
)

func main() {
	replicas := flag.Int("replicas", 1, "how many servers have a copy of the bucket")
	options := figures.ParseOptions()
	asks := make([]figures.Ask, options.Connections)
	for number := range asks {
		keys, err := open("nats://"+options.Addresses[number%len(options.Addresses)], *replicas, number == 0)
		if err != nil {
			figures.Fail("%v", err)
		}
		asks[number] = get(keys)
		if options.Put {
			asks[number] = put(keys)
		}
	}
	figures.Run(options, asks)
}

func open(url string, replicas int, first bool) (jetstream.KeyValue, error) {
	connection, err := nats.Connect(url)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	stream, err := jetstream.New(connection)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	if !first {
		within, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return stream.KeyValue(within, bucket)
	}
	// Newly started servers refuse requests until they have a leader.
	wanted := jetstream.KeyValueConfig{Bucket: bucket, Replicas: replicas, Storage: jetstream.FileStorage}
	for deadline := time.Now().Add(readyTimeout); ; {
		within, cancel := context.WithTimeout(context.Background(), timeout)
		keys, err := stream.CreateOrUpdateKeyValue(within, wanted)
		cancel()
		if err == nil || time.Now().After(deadline) {
			return keys, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func put(keys jetstream.KeyValue) figures.Ask {
	return func(key, value []byte) error {
		within, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		// The client may keep the value until the server has acknowledged it.
		_, err := keys.Put(within, string(key), append([]byte(nil), value...))
		return err
	}
}

func get(keys jetstream.KeyValue) figures.Ask {
	return func(key, _ []byte) error {
		within, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		found, err := keys.Get(within, string(key))
		if err == nil && len(found.Value()) != figures.ValueBytes {
			err = fmt.Errorf("%s has a wrong value", key)
		}
		return err
	}
}
