package kvorum

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	problemTypePrefix = "urn:kvorum:problem:"
	problemBytesMax   = 1 << 20
	// answerBytesMax is the greatest length of a value that a node can be configured to take.
	answerBytesMax = 1 << 30
	linesType      = "application/x-ndjson"
)

// request is what is sent to one node after the other.
type request struct {
	method string
	// target is the path and the query.
	target  string
	header  http.Header
	body    []byte
	success int
	// isWrite says that it is not repeated once it may have been done.
	isWrite bool
	// isOfKey says that success names a version.
	isOfKey bool
	// attemptMax bounds one whole answer; of a stream its head.
	attemptMax time.Duration
	isStream   bool
	// parse takes the content of success; nil: nothing to parse. An error says that no node sent it.
	parse func([]byte) error
}

// answer is that of a node, with success, or with the 304 or 404 that a read may get.
type answer struct {
	node    *node
	status  int
	header  http.Header
	version uint64
	content []byte
	// stream is the body of a stream, which must be closed.
	stream *stream
}

// stream is the body of an answer that is read piece by piece.
type stream struct {
	response *http.Response
	cancel   context.CancelCauseFunc
	release  func()
}

func (s *stream) close() {
	s.cancel(context.Canceled)
	s.response.Body.Close()
	s.release()
}

// meaning is what an attempt means for the request.
type meaning int

const (
	notApplied meaning = iota
	unknown
	conflict
	refused
)

// failed is an attempt without success.
type failed struct {
	Attempt
	meaning    meaning
	header     http.Header
	retryAfter time.Duration
	// isLasting says that the same node would fail in the same way.
	isLasting bool
}

var (
	errForeign = errors.New("this is no answer of a Kvorum node")
	errBusy    = errors.New("all connections of the client are in use")
	errSilent  = fmt.Errorf("no whole answer in time: %w", context.DeadlineExceeded)
)

// attempt sends the request to one node. It returns an answer, or what the attempt met.
func (c *Client) attempt(ctx context.Context, node *node, r *request, op *operation) (*answer, *failed) {
	notSent := func(err error) *failed {
		return &failed{Attempt: Attempt{Node: node.url, Err: err}, meaning: notApplied}
	}
	if err := c.takeSlot(ctx, r.attemptMax); err != nil {
		return nil, notSent(err)
	}
	release := func() { <-c.slots }
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(r.attemptMax, func() { cancel(errSilent) })
	defer timer.Stop()

	var isConnected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { isConnected.Store(true) }}
	sent, err := c.httpRequest(httptrace.WithClientTrace(ctx, trace), node, r, op)
	if err != nil {
		cancel(err)
		release()
		return nil, notSent(err)
	}
	response, err := c.http.Do(sent)
	if err != nil {
		met := c.withoutAnswer(ctx, node, err, isConnected.Load())
		cancel(err)
		release()
		return nil, met
	}
	body := &stream{response: response, cancel: cancel, release: release}
	return c.read(ctx, node, r, body)
}

// takeSlot waits until fewer than the most requests run.
func (c *Client) takeSlot(ctx context.Context, waitMax time.Duration) error {
	timer := time.NewTimer(waitMax)
	defer timer.Stop()
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-timer.C:
		return errBusy
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) httpRequest(ctx context.Context, node *node, r *request, op *operation) (*http.Request, error) {
	sent, err := http.NewRequestWithContext(ctx, r.method, node.url+r.target, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	for name, values := range r.header {
		sent.Header[name] = values
	}
	token, err := c.token.current()
	if err != nil {
		return nil, err
	}
	if token != "" {
		sent.Header.Set("Authorization", "Bearer "+token)
	}
	if op.traceparent != "" {
		sent.Header.Set("Traceparent", op.traceparent)
	}
	return sent, nil
}

// withoutAnswer says what an attempt means that got no answer.
func (c *Client) withoutAnswer(ctx context.Context, node *node, err error, isConnected bool) *failed {
	met := &failed{Attempt: Attempt{Node: node.url, Err: err}, meaning: unknown}
	var unconnected *connectError
	isUnconnected := errors.As(err, &unconnected)
	if isUnconnected || !isConnected {
		met.meaning = notApplied
	}
	if isUnconnected {
		met.isLasting = unconnected.isLasting
	}
	if errors.Is(context.Cause(ctx), errSilent) {
		met.Err = errSilent
	}
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		c.nodes.failed(node, time.Now())
	}
	return met
}

// read reads an answer, but for a stream with success.
func (c *Client) read(ctx context.Context, node *node, r *request, body *stream) (*answer, *failed) {
	response := body.response
	got := &answer{node: node, status: response.StatusCode, header: response.Header}
	isHead := r.method == http.MethodHead
	// Without a length or chunks an answer that was cut would look whole.
	isEnded := isHead || response.ContentLength >= 0 || len(response.TransferEncoding) > 0
	isSuccess := isEnded && got.isSuccess(r)
	if isSuccess && r.isStream {
		got.stream = body
		c.nodes.answered(node, true)
		return got, nil
	}
	bytesMax := int64(problemBytesMax)
	if isSuccess {
		bytesMax = answerBytesMax
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, bytesMax+1))
	if err == nil && (int64(len(content)) > bytesMax || isSuccess && r.parse != nil && r.parse(content) != nil) {
		err = errForeign
	}
	if err != nil {
		met := c.withoutAnswer(ctx, node, err, true)
		body.close()
		return nil, met
	}
	body.close()
	got.content = content
	if isSuccess {
		c.nodes.answered(node, true)
		return got, nil
	}
	return c.readProblem(got, isEnded, isHead)
}

// isSuccess says whether the head is that of a node. A proxy, or another server, may answer 200 to
// anything.
func (a *answer) isSuccess(r *request) bool {
	isExpected := a.status == r.success || a.status == http.StatusNotModified && r.header.Get("If-None-Match") != "" && !r.isWrite
	if !isExpected {
		return false
	}
	if r.isOfKey {
		version, err := strconv.ParseUint(a.header.Get("Kvorum-Version"), 10, 64)
		a.version = version
		return err == nil
	}
	return !r.isStream || mediaType(a.header) == linesType
}

func mediaType(header http.Header) string {
	name, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return name
}

// readProblem says what an answer without success means.
func (c *Client) readProblem(got *answer, isEnded, isHead bool) (*answer, *failed) {
	met := &failed{
		Attempt: Attempt{Node: got.node.url, Status: got.status, Err: errForeign},
		meaning: unknown,
		header:  got.header,
	}
	problem, isProblem := got.problem(isEnded, isHead)
	if !isProblem {
		c.nodes.failed(got.node, time.Now())
		return nil, met
	}
	met.Problem, met.Err = problem, nil
	if got.status == http.StatusNotFound && problem.Type == "no-such-entity" {
		c.nodes.answered(got.node, true)
		return got, nil
	}
	met.meaning = problem.meaning(got.status)
	if got.status == http.StatusServiceUnavailable {
		if seconds, err := strconv.Atoi(got.header.Get("Retry-After")); err == nil && seconds >= 0 {
			met.retryAfter = time.Duration(min(seconds, 3600)) * time.Second
		}
		c.nodes.busy(got.node, time.Now(), met.retryAfter)
	} else {
		c.nodes.answered(got.node, false)
	}
	return nil, met
}

// problem that the answer is; false if it is none of a node.
func (a *answer) problem(isEnded, isHead bool) (*Problem, bool) {
	if !isEnded || mediaType(a.header) != "application/problem+json" {
		return nil, false
	}
	if !isHead {
		return parseProblem(a.content)
	}
	// Without a body only the fields say that it is a node's.
	problem := &Problem{Status: a.status}
	if a.status == http.StatusNotFound {
		problem.Type = "no-such-entity"
	}
	return problem, true
}

// parseProblem reads a problem document; false if it is none of a node.
func parseProblem(content []byte) (*Problem, bool) {
	problem := &Problem{}
	if json.Unmarshal(content, problem) != nil {
		return nil, false
	}
	name, found := strings.CutPrefix(problem.Type, problemTypePrefix)
	problem.Type = name
	return problem, found
}

// meaning of the problem of a node with this status.
func (p *Problem) meaning(status int) meaning {
	switch {
	case status == http.StatusServiceUnavailable,
		status == http.StatusGatewayTimeout && p.Outcome == "not-applied",
		p.Type == "late-body", p.Type == "broken-body":
		return notApplied
	case status == http.StatusInternalServerError, status == http.StatusGatewayTimeout:
		return unknown
	case status == http.StatusPreconditionFailed:
		return conflict
	default:
		return refused
	}
}
