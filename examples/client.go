// Package kvorum is a client of Kvorum, with the standard library. README.md beside it says what to keep.
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
)

// Client asks its nodes in turn: "http://127.0.0.1:8080", … Give HTTP a timeout.
type Client struct {
	Nodes []string
	Token string // Empty for nodes that want none.
	HTTP  http.Client
}

// Failed says that the nodes did not do it: the status, and what became of it at each replica.
type Failed struct {
	Status   int
	Detail   string
	Replicas []struct{ URL, Outcome string }
}

func (f *Failed) Error() string { return fmt.Sprint(f.Status, ": ", f.Detail, " ", f.Replicas) }

// Put takes parameters such as "replicas=2/3&ttl=60", or "".
func (c *Client) Put(key string, value []byte, parameters string) error {
	_, err := c.Send("PUT", entity(key, parameters), value)
	return err
}

func (c *Client) Delete(key, parameters string) error {
	_, err := c.Send("DELETE", entity(key, parameters), nil)
	return err
}

// Get gives nil if the key has no value.
func (c *Client) Get(key, parameters string) ([]byte, error) {
	value, err := c.Send("GET", entity(key, parameters), nil)
	if failed := (*Failed)(nil); errors.As(err, &failed) && failed.Status == 404 {
		return nil, nil
	}
	return value, err
}

func entity(key, parameters string) string { // A key is bytes, which are escaped.
	if parameters != "" {
		parameters = "&" + parameters
	}
	return "/v0/entity?id=" + url.QueryEscape(key) + parameters
}

// Send asks the nodes in turn. A write goes on to the next one only if it cannot have happened.
func (c *Client) Send(method, target string, body []byte) (content []byte, err error) {
	for _, node := range c.Nodes {
		var answer *http.Response
		request, _ := http.NewRequest(method, node+target, bytes.NewReader(body))
		request.Header.Set("Content-Type", "application/x-ndjson") // Only a batch needs it.
		if c.Token != "" {
			request.Header.Set("Authorization", "Bearer "+c.Token)
		}
		if answer, err = c.HTTP.Do(request); err == nil {
			content, err = io.ReadAll(answer.Body)
			answer.Body.Close()
		}
		dial := (*net.OpError)(nil)
		if errors.As(err, &dial) && dial.Op == "dial" || err != nil && method == "GET" {
			continue
		} else if err != nil || answer.StatusCode < 300 {
			return content, err
		}
		failed := &Failed{Status: answer.StatusCode}
		err = errors.Join(failed, json.Unmarshal(content, failed))
		if failed.Status != 503 { // With 503 the node has done nothing.
			return nil, err
		}
	}
	return nil, err
}
