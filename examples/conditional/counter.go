// A counter without a lost increment, and without one that counts twice: counter URL ...
//
// Each worker reads the counter and writes the next number if nobody else has written meanwhile
// (If-Match). The value also says for each worker which of its increments came last. So a worker that
// does not know whether a write took effect only has to read: the counter says it.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"math/rand"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"example/kvorum"
)

const workers, increments = 4, 25

type counter struct {
	Count int
	Last  map[string]int // The last increment of each worker, from 1.
}

// increment adds one, once.
func increment(client *kvorum.Client, key, worker string, number int) {
	for ; ; time.Sleep(time.Duration(rand.Intn(30)) * time.Millisecond) {
		status, content, etag, err := client.SendIf("GET", kvorum.Entity(key), nil, nil)
		if err != nil || status != 200 {
			continue
		}
		var found counter
		if err := json.Unmarshal(content, &found); err != nil {
			log.Fatal(err)
		}
		if found.Last[worker] >= number {
			return // The last attempt took effect, although its answer did not say so.
		}
		found.Count++
		found.Last[worker] = number
		next, _ := json.Marshal(found)
		status, _, _, err = client.SendIf("PUT", kvorum.Entity(key), next, http.Header{"If-Match": {etag}})
		if err == nil && status == 201 {
			return
		}
		// 412: somebody was faster. Otherwise it is unknown. Both are clear after the next read.
	}
}

func main() {
	nodes := os.Args[1:]
	if len(nodes) == 0 {
		nodes = []string{"http://127.0.0.1:8080", "http://127.0.0.1:8081", "http://127.0.0.1:8082"}
	}
	newClient := func(first int) *kvorum.Client {
		first %= len(nodes)
		all := append(append([]string{}, nodes[first:]...), nodes[:first]...)
		return &kvorum.Client{Nodes: all, HTTP: http.Client{Timeout: 5 * time.Second}}
	}
	key := fmt.Sprintf("counter/%d", time.Now().UnixNano())
	for {
		condition := http.Header{"If-None-Match": {"*"}}
		status, _, _, err := newClient(0).SendIf("PUT", kvorum.Entity(key), []byte(`{"Count":0,"Last":{}}`), condition)
		if err == nil && (status == 201 || status == 412) {
			break // 412: the attempt before took effect.
		}
		time.Sleep(50 * time.Millisecond)
	}
	var done atomic.Int64
	var group sync.WaitGroup
	for worker := 0; worker < workers; worker++ {
		group.Add(1)
		client, name := newClient(worker), fmt.Sprint("worker-", worker)
		go func() {
			defer group.Done()
			for number := 1; number <= increments; number++ {
				increment(client, key, name, number)
				if done.Add(1) == workers*increments/2 {
					fmt.Println("half")
				}
			}
		}()
	}
	group.Wait()
	_, content, err := newClient(0).Send("GET", kvorum.Entity(key), nil)
	var found counter
	if err != nil || json.Unmarshal(content, &found) != nil || found.Count != workers*increments {
		log.Fatalf("lost or counted twice: %s %v", content, err)
	}
	fmt.Println("ok")
}
