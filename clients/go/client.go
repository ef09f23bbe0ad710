// Package kvorum is a client of Kvorum, a replicated key-value store. It uses the standard library
// alone.
//
//	client, err := kvorum.New([]string{"http://10.0.0.5:8080", "http://10.0.0.6:8080"}, kvorum.Options{})
//	written, err := client.Put(ctx, "user/1", []byte("Ada"), kvorum.TTL(time.Hour))
//	entity, err := client.Get(ctx, "user/1")
//
// A client asks one node, and the next one if that fails. It never repeats a write that may have taken
// effect: such a write ends with an [UnknownOutcomeError].
//
// The files: nodes.go says which node is asked, failover.go what is repeated, attempt.go sends one
// request to one node, transport.go connects; entity.go, batch.go, scan.go and
// aggregate.go are the operations.
package kvorum

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrArgument is behind every error of an argument. Nothing was sent.
var ErrArgument = errors.New("kvorum: wrong argument")

func argumentError(format string, values ...any) error {
	return fmt.Errorf("%w: %s", ErrArgument, fmt.Sprintf(format, values...))
}

// Options of a client. The zero value of each is its default.
type Options struct {
	// Token by which the nodes know the client.
	Token string
	// TokenFile is a file whose first line is the token. It is read again when its modification time
	// changes.
	TokenFile string
	// CAFile has the certificates of the only authorities to trust, in PEM. The default is those of
	// the system.
	CAFile string
	// ConnectTimeout bounds a connection, its TLS handshake included. 1 s by default.
	ConnectTimeout time.Duration
	// AttemptTimeout bounds one whole answer of one node. 5 s by default. A batch may take all of
	// Timeout.
	AttemptTimeout time.Duration
	// Timeout bounds a whole operation with all attempts and waits. 15 s by default. The context of
	// an operation may end it earlier.
	Timeout time.Duration
	// ScanTimeout stands for both in scans, counts and aggregates: how long no byte may come. 60 s by
	// default.
	ScanTimeout time.Duration
	// Rounds is how many times all nodes are asked at most. 4 by default.
	Rounds int
	// Connections is how many requests run at a time. 64 by default; more wait.
	Connections int
	// Traceparent is called once for each operation, and gives the header traceparent of W3C Trace
	// Context, or nothing.
	Traceparent func(context.Context) string
}

func (o Options) withDefaults() (Options, error) {
	if o.Token != "" && o.TokenFile != "" {
		return o, argumentError("both a token and a file of it")
	}
	if o.ConnectTimeout < 0 || o.AttemptTimeout < 0 || o.Timeout < 0 || o.ScanTimeout < 0 || o.Rounds < 0 || o.Connections < 0 {
		return o, argumentError("an option is negative")
	}
	setDefault(&o.ConnectTimeout, time.Second)
	setDefault(&o.AttemptTimeout, 5*time.Second)
	setDefault(&o.Timeout, 15*time.Second)
	setDefault(&o.ScanTimeout, time.Minute)
	setDefault(&o.Rounds, 4)
	setDefault(&o.Connections, 64)
	return o, nil
}

func setDefault[T comparable](option *T, value T) {
	var zero T
	if *option == zero {
		*option = value
	}
}

// Client asks the nodes of a cluster. It may be used by many goroutines at a time.
type Client struct {
	options Options
	nodes   *nodeList
	token   *tokenSource
	http    *http.Client
	// slots has an element for each request that runs.
	slots chan struct{}
}

// New makes a client of the nodes at these URLs: http://HOST:PORT or https://HOST:PORT. It sends
// nothing.
func New(urls []string, options Options) (*Client, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if len(urls) == 0 {
		return nil, argumentError("no URL")
	}
	plain := make([]string, len(urls))
	for i, text := range urls {
		if plain[i], err = plainURL(text); err != nil {
			return nil, err
		}
	}
	token, err := newTokenSource(options.Token, options.TokenFile)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(options)
	if err != nil {
		return nil, err
	}
	return &Client{
		options: options,
		nodes:   newNodeList(plain),
		token:   token,
		http: &http.Client{
			Transport: transport,
			// A node never redirects: whoever does is another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		slots: make(chan struct{}, options.Connections),
	}, nil
}

func plainURL(text string) (string, error) {
	parsed, err := url.Parse(text)
	if err != nil {
		return "", argumentError("%v", err)
	}
	isPlain := parsed.User == nil && strings.Trim(parsed.Path, "/") == "" && parsed.RawQuery == "" && parsed.Fragment == ""
	if parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || !isPlain {
		return "", argumentError("the URL of a node is http://HOST:PORT or https://HOST:PORT, not %q", text)
	}
	return parsed.Scheme + "://" + parsed.Host, nil
}

// Close closes the connections that no request uses.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}
