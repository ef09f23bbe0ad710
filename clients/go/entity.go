package kvorum

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Entity is a key and what it has. Entities of scans have no ETag: condition a write by their version.
type Entity struct {
	// Key is bytes, which need not be UTF-8.
	Key     string
	Value   []byte
	Version uint64
	ETag    string
	// Expires is when the value expires, in UTC; zero: never.
	Expires time.Time
	// NotModified says that the value still has the ETag of IfNoneMatch, and was not sent.
	NotModified bool
}

// Written is the version that a write has made.
type Written struct {
	Version uint64
	ETag    string
}

// Get reads a key. [ErrNotFound] says that it has no value.
func (c *Client) Get(ctx context.Context, key string, options ...Option) (*Entity, error) {
	return c.read1(ctx, ofGet, http.MethodGet, key, options)
}

// Head reads what Get reads, without the value.
func (c *Client) Head(ctx context.Context, key string, options ...Option) (*Entity, error) {
	return c.read1(ctx, ofHead, http.MethodHead, key, options)
}

// Put gives a key a value.
func (c *Client) Put(ctx context.Context, key string, value []byte, options ...Option) (Written, error) {
	return c.write(ctx, ofPut, http.MethodPut, key, value, options)
}

// Touch keeps the value of a key and changes when it expires: after the TTL, or never without one. A
// key without a value is a [ConflictError].
func (c *Client) Touch(ctx context.Context, key string, options ...Option) (Written, error) {
	return c.write(ctx, ofTouch, http.MethodPut, key, nil, options)
}

// Delete removes the value of a key. It is no error if there is none.
func (c *Client) Delete(ctx context.Context, key string, options ...Option) (Written, error) {
	return c.write(ctx, ofDelete, http.MethodDelete, key, nil, options)
}

func (c *Client) read1(ctx context.Context, kind operationKind, method, key string, options []Option) (*Entity, error) {
	op, err := newOperation(kind, options)
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.begin(ctx, op)
	defer cancel()
	got, err := c.ask(ctx, c.entityRequest(op, method, key, nil), op)
	if err != nil {
		return nil, err
	}
	if got.status == http.StatusNotFound {
		return nil, ErrNotFound
	}
	entity := &Entity{Key: key, Version: got.version, ETag: got.header.Get("ETag")}
	entity.Expires, _ = time.Parse(time.RFC3339, got.header.Get("Kvorum-Expires"))
	entity.NotModified = got.status == http.StatusNotModified
	if kind == ofGet && !entity.NotModified {
		entity.Value = got.content
	}
	return entity, nil
}

func (c *Client) write(ctx context.Context, kind operationKind, method, key string, value []byte, options []Option) (Written, error) {
	op, err := newOperation(kind, options)
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		return Written{}, err
	}
	ctx, cancel := c.begin(ctx, op)
	defer cancel()
	got, err := c.ask(ctx, c.entityRequest(op, method, key, value), op)
	if err != nil {
		return Written{}, err
	}
	return Written{Version: got.version, ETag: got.header.Get("ETag")}, nil
}

func (c *Client) entityRequest(op *operation, method, key string, body []byte) *request {
	var query query
	query.add("id", key)
	query.addReplicas(op)
	if op.kind == ofTouch {
		query.add("touch", "true")
	}
	if op.ttl > 0 {
		query.add("ttl", strconv.FormatInt(int64(op.ttl/time.Second), 10))
	}
	success := map[string]int{http.MethodPut: http.StatusCreated, http.MethodDelete: http.StatusAccepted}[method]
	isWrite := success != 0
	if !isWrite {
		success = http.StatusOK
	}
	return &request{
		method:     method,
		target:     "/v0/entity?" + query.String(),
		header:     op.conditions(),
		body:       body,
		success:    success,
		isWrite:    isWrite,
		isOfKey:    true,
		attemptMax: c.options.AttemptTimeout,
	}
}

// Replicas returns the nodes in the order in which they are replicas of a key.
func (c *Client) Replicas(ctx context.Context, key string, options ...Option) ([]Replica, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	var query query
	query.add("id", key)
	var page struct{ Replicas []Replica }
	err := c.page(ctx, "/v0/replicas?"+query.String(), &page, options)
	return page.Replicas, err
}

// Status returns the JSON of the status of the node that answers.
func (c *Client) Status(ctx context.Context, options ...Option) (json.RawMessage, error) {
	var page json.RawMessage
	err := c.page(ctx, "/v0/status", &page, options)
	return page, err
}

// page reads a page of JSON into a value.
func (c *Client) page(ctx context.Context, target string, value any, options []Option) error {
	op, err := newOperation(ofPage, options)
	if err != nil {
		return err
	}
	return c.pageOf(ctx, &request{target: target, attemptMax: c.options.AttemptTimeout}, value, op)
}

func (c *Client) pageOf(ctx context.Context, r *request, value any, op *operation) error {
	ctx, cancel := c.begin(ctx, op)
	defer cancel()
	r.method, r.success = http.MethodGet, http.StatusOK
	r.parse = func(content []byte) error { return json.Unmarshal(content, value) }
	_, err := c.ask(ctx, r, op)
	return err
}
