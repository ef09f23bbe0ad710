// Package kvorum is a client of Kvorum with the standard library. README.md says what to keep
// when you copy it.
//
//	client := kvorum.Client{Nodes: []string{"http://127.0.0.1:8080", "http://127.0.0.1:8081"}}
//	status, _, err := client.Send("PUT", kvorum.Entity("key")+"&replicas=2/3", []byte("value"))
package kvorum

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
)

// Client asks one of its nodes.
type Client struct {
	Nodes []string
	HTTP  http.Client // Give it a timeout, such as 5 s.
	first atomic.Int64
}

// Entity is the target of requests for a key: bytes, which are escaped. Append what else they ask.
func Entity(key string) string { return "/v0/entity?id=" + url.QueryEscape(key) }

// Send asks the node that answered last. If it fails, the next one is asked: always if nothing was
// done, for a read also otherwise. From 300 on the status is that of a failure, and the content is
// the problem as JSON: its `replicas` say what became of it at each replica.
func (c *Client) Send(method, target string, body []byte) (status int, content []byte, err error) {
	status, content, _, err = c.SendIf(method, target, body, nil)
	return status, content, err
}

// SendIf is Send with more header fields: with If-Match: ETAG or If-None-Match: * a write has status
// 412 if the key has something else. etag is that of what was read or written.
func (c *Client) SendIf(method, target string, body []byte, header http.Header) (status int, content []byte, etag string, err error) {
	first := c.first.Load()
	for number := first; number < first+int64(len(c.Nodes)); number++ {
		status, content, etag, err = c.ask(method, c.Nodes[number%int64(len(c.Nodes))]+target, body, header)
		if err == nil && status != 500 && status != 503 && status != 504 {
			break
		}
		c.first.Store(number + 1)
		var failed *net.OpError
		isNotApplied := status == 504 && bytes.Contains(content, []byte(`"outcome":"not-applied"`))
		isSent := status != 503 && !isNotApplied && !(errors.As(err, &failed) && failed.Op == "dial")
		if isSent && method != "GET" {
			break
		}
	}
	return status, content, etag, err
}

func (c *Client) ask(method, url string, body []byte, header http.Header) (int, []byte, string, error) {
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", "application/x-ndjson") // Only a batch needs it.
	if token := os.Getenv("KVORUM_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := c.HTTP.Do(request)
	if err != nil {
		return 0, nil, "", err
	}
	defer answer.Body.Close()
	success, found := map[string]int{"PUT": 201, "DELETE": 202}[method]
	if !found {
		success = 200
	}
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, nil, "", err
	}
	// A proxy, or another server, may answer 200 to anything.
	namesVersion := answer.Header.Get("Kvorum-Version") != "" || !strings.Contains(url, "/v0/entity?")
	var problem struct{ Type string }
	isProblem := strings.HasPrefix(answer.Header.Get("Content-Type"), "application/problem+json") &&
		json.Unmarshal(content, &problem) == nil && strings.HasPrefix(problem.Type, "urn:kvorum:problem:")
	if !isProblem && (answer.StatusCode != success || !namesVersion) {
		return 0, nil, "", fmt.Errorf("%s: this is no Kvorum node: status %d", url, answer.StatusCode)
	}
	return answer.StatusCode, content, answer.Header.Get("ETag"), nil
}
