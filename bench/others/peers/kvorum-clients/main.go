// kvorum-clients increments counters in Kvorum by conditional writes over HTTP:
// one client with one connection for each of -connections.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"kvorum.invalid/peers/figures"
)

// How long a request may take.
const timeout = 10 * time.Second

func main() {
	query := flag.String("query", "", "what follows the key in the target, such as &ack=2&from=3")
	options := figures.ParseOptions()
	asks := make([]figures.Ask, options.Connections)
	for number := range asks {
		client := &http.Client{Timeout: timeout, Transport: &http.Transport{MaxConnsPerHost: 1}}
		asks[number] = increment(client, options.Addresses[number%len(options.Addresses)], *query)
	}
	figures.Run(options, asks)
}

// increment reads a counter, and writes the next number if the counter is still
// the one that was read; otherwise it begins again. What is no number counts as 0.
func increment(client *http.Client, address, query string) figures.Ask {
	return func(key, _ []byte) error {
		target := fmt.Sprintf("http://%s/v0/entity?id=%s%s", address, key, query)
		for {
			found, value, err := send(client, http.MethodGet, target, nil, nil)
			if err != nil {
				return err
			}
			condition := http.Header{"If-Match": found.Header["Etag"]}
			if found.StatusCode == http.StatusNotFound {
				condition = http.Header{"If-None-Match": {"*"}}
			}
			number, _ := strconv.Atoi(string(value))
			put, _, err := send(client, http.MethodPut, target, condition, strconv.AppendInt(nil, int64(number)+1, 10))
			switch {
			case err != nil:
				return err
			case put.StatusCode == http.StatusCreated:
				return nil
			case put.StatusCode != http.StatusPreconditionFailed:
				return fmt.Errorf("%s answered %s", address, put.Status)
			}
		}
	}
}

func send(client *http.Client, method, target string, fields http.Header, body []byte) (*http.Response, []byte, error) {
	request, err := http.NewRequest(method, target, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for name, values := range fields {
		request.Header[name] = values
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer, content, err
}
