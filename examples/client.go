// Package kvorum is a client of Kvorum with the standard library. README.md says what to keep
// when you copy it.
//
//	client := kvorum.Client{Nodes: []string{"http://127.0.0.1:8080", "http://127.0.0.1:8081"}}
//	status, _, err := client.Send("PUT", kvorum.Entity("key")+"&replicas=2/3", []byte("value"))
package kvorum

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// Client asks its nodes in turn.
type Client struct {
	Nodes []string
	HTTP  http.Client // Give it a timeout.
}

// Entity is the target of requests for a key: bytes, which are escaped. Append what else they ask.
func Entity(key string) string { return "/v0/entity?id=" + url.QueryEscape(key) }

// Send asks a node. A read goes on to the next one if it gets no answer, or 503. From 300 on the
// status is that of a failure, and the content is the problem as JSON: its `replicas` say what
// became of it at each replica.
func (c *Client) Send(method, target string, body []byte) (status int, content []byte, err error) {
	for _, node := range c.Nodes {
		status, content, err = c.ask(method, node+target, body)
		if method != "GET" || err == nil && status != 503 {
			break
		}
	}
	return status, content, err
}

func (c *Client) ask(method, url string, body []byte) (int, []byte, error) {
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/x-ndjson") // Only a batch needs it.
	if token := os.Getenv("KVORUM_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := c.HTTP.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	success, found := map[string]int{"PUT": 201, "DELETE": 202}[method]
	if !found {
		success = 200
	}
	// A proxy, or another server, may answer 200 to anything.
	namesVersion := answer.Header.Get("Kvorum-Version") != "" || !strings.Contains(url, "/v0/entity?")
	if answer.StatusCode < 300 && (answer.StatusCode != success || !namesVersion) {
		return 0, nil, errors.New(url + ": this is no Kvorum node")
	}
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, content, err
}
