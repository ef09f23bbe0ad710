// A client in Go, with the standard library: go run examples/client.go [URL ...]
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

var nodes = os.Args[1:]
var client = http.Client{Timeout: 15 * time.Second}

// send asks the first node, and the next one if a node cannot be reached.
func send(method, path string, body []byte) (int, []byte) {
	for _, node := range nodes {
		request, err := http.NewRequest(method, node+path, bytes.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-ndjson") // Only a batch needs it.
		answer, err := client.Do(request)
		if err == nil {
			defer answer.Body.Close()
			if content, err := io.ReadAll(answer.Body); err == nil {
				return answer.StatusCode, content
			}
		}
		log.Print(err, ": asking the next node")
	}
	log.Fatal("no node can be reached")
	return 0, nil
}

// entity escapes the key, which may be any bytes.
func entity(key string, ack int) string {
	return fmt.Sprintf("/v0/entity?id=%s&ack=%d&from=%d", url.QueryEscape(key), ack, len(nodes))
}

func expect(found, wanted any) {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		log.Fatalf("expected %v, but the answer is %v", wanted, found)
	}
}

func main() {
	if len(nodes) == 0 {
		nodes = []string{"http://127.0.0.1:8080"}
	}
	majority, key, value := len(nodes)/2+1, "go €/+&%\x00\xff", []byte("\x00 is a byte, too")
	status, _ := send("PUT", entity(key, majority), value)
	expect(status, 201)
	status, body := send("GET", entity(key, majority), nil)
	expect([]any{status, body}, []any{200, value})
	status, _ = send("DELETE", entity(key, majority), nil)
	expect(status, 202)
	status, _ = send("GET", entity(key, majority), nil)
	expect(status, 404)

	lines := `{"op":"put","key":"go","value":"1"}` + "\n" + `{"op":"get","key":"go"}` + "\n" + `{"op":"delete","key":"go"}` + "\n"
	status, body = send("POST", fmt.Sprintf("/v0/batch?ack=%d&from=%d", majority, len(nodes)), []byte(lines))
	expect(status, 200)
	var answers [3]struct {
		Status int
		Value  string
	}
	for i, line := range strings.Split(strings.TrimSpace(string(body)), "\n") {
		if err := json.Unmarshal([]byte(line), &answers[i]); err != nil {
			log.Fatal(err)
		}
	}
	expect(answers, "[{201 } {200 1} {202 }]")

	status, body = send("PUT", entity(key, len(nodes)), value) // All nodes must answer.
	if status == 504 {                                         // The receipt says what became of the write at each of them.
		var receipt struct {
			Replicas []struct{ URL, Outcome string }
		}
		if err := json.Unmarshal(body, &receipt); err != nil {
			log.Fatal(err)
		}
		for _, replica := range receipt.Replicas {
			fmt.Println(replica.URL, replica.Outcome)
		}
	}
	fmt.Println("ok")
}
