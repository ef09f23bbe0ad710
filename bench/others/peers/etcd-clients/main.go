// etcd-clients sends requests to etcd with its own client, over gRPC: one client
// with one connection for each of -connections.
package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"kvorum.invalid/peers/figures"
)

// How long a request may take, including an election.
const timeout = 10 * time.Second

func main() {
	serializable := flag.Bool("serializable", false, "read from the node that gets the request, which may be stale")
	creates := flag.Bool("create", false, "put only keys without a value, in a transaction")
	counts := flag.Bool("count", false, "increment counters: read one, and put the next number in a transaction")
	options := figures.ParseOptions()
	var reading []clientv3.OpOption
	if *serializable {
		reading = append(reading, clientv3.WithSerializable())
	}
	asks := make([]figures.Ask, options.Connections)
	for number := range asks {
		client, err := clientv3.New(clientv3.Config{
			Endpoints:   []string{options.Addresses[number%len(options.Addresses)]},
			DialTimeout: timeout,
			Logger:      zap.NewNop(),
		})
		if err != nil {
			figures.Fail("%v", err)
		}
		asks[number] = get(client, reading)
		switch {
		case *counts:
			asks[number] = increment(client)
		case options.Put && *creates:
			asks[number] = create(client)
		case options.Put:
			asks[number] = put(client)
		}
	}
	figures.Run(options, asks)
}

func put(client *clientv3.Client) figures.Ask {
	return func(key, value []byte) error {
		within, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		_, err := client.Put(within, string(key), string(value))
		return err
	}
}

func create(client *clientv3.Client) figures.Ask {
	return func(key, value []byte) error {
		within, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		isNew := clientv3.Compare(clientv3.CreateRevision(string(key)), "=", 0)
		answer, err := client.Txn(within).If(isNew).Then(clientv3.OpPut(string(key), string(value))).Commit()
		if err == nil && !answer.Succeeded {
			err = fmt.Errorf("%s has a value", key)
		}
		return err
	}
}

// increment reads a counter, and writes the next number if the counter is still
// the one that was read; otherwise it begins again. What is no number counts as 0.
func increment(client *clientv3.Client) figures.Ask {
	return func(key, _ []byte) error {
		within, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		for {
			found, err := client.Get(within, string(key))
			if err != nil {
				return err
			}
			revision, number := int64(0), 0
			for _, pair := range found.Kvs {
				revision = pair.ModRevision
				number, _ = strconv.Atoi(string(pair.Value))
			}
			isSame := clientv3.Compare(clientv3.ModRevision(string(key)), "=", revision)
			next := clientv3.OpPut(string(key), strconv.Itoa(number+1))
			answer, err := client.Txn(within).If(isSame).Then(next).Commit()
			if err != nil || answer.Succeeded {
				return err
			}
		}
	}
}

func get(client *clientv3.Client, reading []clientv3.OpOption) figures.Ask {
	return func(key, _ []byte) error {
		within, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		found, err := client.Get(within, string(key), reading...)
		if err == nil && (len(found.Kvs) != 1 || len(found.Kvs[0].Value) != figures.ValueBytes) {
			err = fmt.Errorf("%s has no value or a wrong one", key)
		}
		return err
	}
}
