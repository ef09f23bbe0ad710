// Package kvorum is a client of Kvorum with the standard library. README.md says what to keep
// when you copy it.
//
//	client := kvorum.Client{Nodes: []string{"http://127.0.0.1:8080", "http://127.0.0.1:8081"}}
//	err := client.Put("key", []byte("value"), "replicas=2/3", "ttl=60")
package kvorum

import (
	"bytes"
	"errors"
	"fmt"
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

// Failed says that the node did not do it. Problem is JSON, with what became of it at each replica.
type Failed struct {
	Status  int
	Problem string
}

func (f *Failed) Error() string { return fmt.Sprint(f.Status, ": ", f.Problem) }

func entity(key string, query []string) string { // A key is bytes, which are escaped.
	return "/v0/entity?" + strings.Join(append(query, "id="+url.QueryEscape(key)), "&")
}

func (c *Client) Put(key string, value []byte, query ...string) error {
	_, err := c.Send("PUT", entity(key, query), value)
	return err
}

func (c *Client) Delete(key string, query ...string) error {
	_, err := c.Send("DELETE", entity(key, query), nil)
	return err
}

// Get gives nil if the key has no value.
func (c *Client) Get(key string, query ...string) ([]byte, error) {
	value, err := c.Send("GET", entity(key, query), nil)
	if failed := (*Failed)(nil); errors.As(err, &failed) && failed.Status == 404 {
		return nil, nil
	}
	return value, err
}

// Send asks a node. A read goes on to the next one if it gets no answer, or 503.
func (c *Client) Send(method, target string, body []byte) (content []byte, err error) {
	for _, node := range c.Nodes {
		content, err = c.ask(method, node+target, body)
		failed := (*Failed)(nil)
		isAnswer := err == nil || errors.As(err, &failed) && failed.Status != 503
		if isAnswer || method != "GET" {
			break
		}
	}
	return content, err
}

func (c *Client) ask(method, target string, body []byte) ([]byte, error) {
	request, err := http.NewRequest(method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-ndjson") // Only a batch needs it.
	if token := os.Getenv("KVORUM_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := c.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = &Failed{answer.StatusCode, string(content)}
	}
	return content, err
}
