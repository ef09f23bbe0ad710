// Uses examples/client.go, which lies in the folder kvorum beside it: go run use.go URL ...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"example/kvorum"
)

func expect(found, wanted any) {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		log.Fatalf("expected %v, but it is %v", wanted, found)
	}
}

func main() {
	nodes := os.Args[1:]
	client := kvorum.Client{Nodes: nodes}
	client.HTTP.Timeout = 15 * time.Second
	// It asks the node first that may be stopped.
	backwards := kvorum.Client{HTTP: client.HTTP}
	for _, node := range nodes {
		backwards.Nodes = append([]string{node}, backwards.Nodes...)
	}
	key, value := "go €/+&%\x00\xff", []byte("\x00 is a byte, too")
	expect(client.Put(key, value, "ttl=60"), nil)
	found, err := client.Get(key)
	expect([]any{found, err}, []any{value, nil})
	found, err = backwards.Get(key)
	expect([]any{found, err}, []any{value, nil})
	expect(client.Delete(key), nil)
	found, err = client.Get(key)
	expect([]any{found == nil, err}, []any{true, nil})

	lines := `{"op":"put","key":"go","value":"1"}` + "\n" + `{"op":"get","key":"go"}` + "\n" + `{"op":"delete","key":"go"}` + "\n"
	body, err := client.Send("POST", "/v0/batch", []byte(lines))
	expect(err, nil)
	var answers [3]struct {
		Status int
		Value  string
	}
	for i, line := range strings.Split(strings.TrimSpace(string(body)), "\n") {
		expect(json.Unmarshal([]byte(line), &answers[i]), nil)
	}
	expect(answers, "[{201 } {200 1} {202 }]")

	var failed *kvorum.Failed
	_, err = client.Get("")
	expect(errors.As(err, &failed) && failed.Status == 400, true)
	err = client.Put(key, value, fmt.Sprintf("replicas=%d/%d", len(nodes), len(nodes)))
	if err != nil {
		expect(errors.As(err, &failed) && failed.Status == 504, true)
		var problem struct {
			Replicas []struct{ URL, Outcome string }
		}
		expect(json.Unmarshal([]byte(failed.Problem), &problem), nil)
		for _, replica := range problem.Replicas {
			fmt.Println(replica.URL, replica.Outcome)
		}
	}
	fmt.Println("ok")
}
