package kvorum

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	batchBytesMax = 16 << 20
	// answerLineBytesMax is above the longest value with escapes, or the longest receipt.
	answerLineBytesMax = 128 << 20
)

// Operation of a batch. [Put], [Get], [Delete] and [Touch] make one.
type Operation struct {
	kind  operationKind
	key   string
	value []byte
	op    *operation
	err   error
}

// Result is what became of an operation of a batch.
type Result struct {
	// Status is that of the answer; 0 without one.
	Status  int
	Version uint64
	Value   []byte
	// Expires is when the value expires, in UTC; zero: never.
	Expires time.Time
	// Err is what the operation alone would have returned.
	Err error
}

// Put gives a key a value, with TTL, IfMatch, IfVersion or IfAbsent.
func Put(key string, value []byte, options ...Option) Operation {
	return newLine(ofPut, key, value, options)
}

// Get reads a key.
func Get(key string) Operation { return newLine(ofGet, key, nil, nil) }

// Delete removes the value of a key, with IfMatch or IfVersion.
func Delete(key string, options ...Option) Operation { return newLine(ofDelete, key, nil, options) }

// Touch changes when a value expires, with TTL, IfMatch or IfVersion.
func Touch(key string, options ...Option) Operation { return newLine(ofTouch, key, nil, options) }

func newLine(kind operationKind, key string, value []byte, options []Option) Operation {
	op, err := newOperation(kind, options)
	if err == nil {
		err = checkKey(key)
	}
	if err == nil && (op.ack != 0 || op.from != 0 || op.timeout != 0 || op.traceparent != "") {
		err = argumentError("the options of requests are for the whole batch")
	}
	return Operation{kind: kind, key: key, value: value, op: op, err: err}
}

// append writes the line of the operation.
func (o Operation) append(lines *bytes.Buffer) error {
	if o.err != nil {
		return o.err
	}
	name := map[operationKind]string{ofPut: "put", ofTouch: "put", ofGet: "get", ofDelete: "delete"}[o.kind]
	fields := map[string]any{"op": name}
	setBytes(fields, "key", o.key)
	switch o.kind {
	case ofPut:
		setBytes(fields, "value", string(o.value))
	case ofTouch:
		fields["touch"] = true
	}
	if o.op.ttl > 0 {
		fields["ttl"] = int64(o.op.ttl / time.Second)
	}
	if o.op.ifNoneMatch != "" {
		fields["if_absent"] = true
	}
	if o.op.ifMatch != "" {
		version, found := versionOf(o.op.ifMatch)
		if !found {
			return argumentError("IfMatch in a batch takes the ETag of a version, not %s", o.op.ifMatch)
		}
		fields["if_version"] = strconv.FormatUint(version, 10)
	}
	encoder := json.NewEncoder(lines)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(fields)
}

func (o Operation) isWrite() bool { return o.kind != ofGet }

// Batch sends many operations as one request. Each succeeds or fails alone: its Result says so. Those on
// one key take effect in their order. An error says that there are no results at all.
func (c *Client) Batch(ctx context.Context, operations []Operation, options ...Option) ([]Result, error) {
	op, err := newOperation(ofBatch, options)
	if err != nil {
		return nil, err
	}
	if len(operations) == 0 {
		return nil, nil
	}
	r := &request{
		method:     http.MethodPost,
		header:     http.Header{"Content-Type": {linesType}},
		success:    http.StatusOK,
		attemptMax: c.timeoutOf(op),
	}
	var lines bytes.Buffer
	for index, operation := range operations {
		if err := operation.append(&lines); err != nil {
			return nil, fmt.Errorf("operation %d: %w", index, err)
		}
		r.isWrite = r.isWrite || operation.isWrite()
	}
	if lines.Len() > batchBytesMax {
		return nil, argumentError("a batch has at most %d bytes of lines, this one %d", batchBytesMax, lines.Len())
	}
	var query query
	query.addReplicas(op)
	r.body, r.target = lines.Bytes(), "/v0/batch?"+query.String()
	ctx, cancel := c.begin(ctx, op)
	defer cancel()
	return c.sendBatch(ctx, r, op, operations)
}

func (c *Client) sendBatch(ctx context.Context, r *request, op *operation, operations []Operation) ([]Result, error) {
	if !r.isWrite {
		var results []Result
		r.parse = func(content []byte) (err error) {
			results, err = readResults(bytes.NewReader(content), operations, "")
			return err
		}
		_, err := c.ask(ctx, r, op)
		return results, err
	}
	// A write is not repeated, and what was answered before an end that came too early counts.
	r.isStream = true
	got, err := c.ask(ctx, r, op)
	if err != nil {
		return nil, err
	}
	defer got.stream.close()
	results, err := readResults(got.stream.response.Body, operations, got.node.url)
	if err != nil {
		c.nodes.failed(got.node, time.Now())
	}
	for index := len(results); index < len(operations); index++ {
		attempts := []Attempt{{Node: got.node.url, Status: got.status, Err: err}}
		missing := unavailable(attempts, nil)
		if operations[index].isWrite() {
			missing = unknownOutcome(attempts, nil)
		}
		results = append(results, Result{Err: missing})
	}
	return results, nil
}

// readResults reads the answers to operations. With an error they are fewer than the operations.
func readResults(body io.Reader, operations []Operation, node string) ([]Result, error) {
	results := make([]Result, 0, len(operations))
	lines := bufio.NewReaderSize(body, 64<<10)
	for {
		text, err := readLine(lines)
		if err == io.EOF && len(results) < len(operations) {
			err = io.ErrUnexpectedEOF
		}
		if err == io.EOF {
			return results, nil
		}
		if err == nil && len(results) == len(operations) {
			err = errForeign
		}
		if err != nil {
			return results, err
		}
		answer, err := parseLine(text)
		if err != nil {
			return results, errForeign
		}
		results = append(results, operations[len(results)].result(answer, node))
	}
}

// result says what the answer to an operation means.
func (o Operation) result(answer *line, node string) Result {
	result := Result{Status: answer.Status, Version: answer.Version, Value: answer.value(), Expires: answer.expires()}
	if o.kind == ofGet && answer.Status == http.StatusOK && result.Value == nil {
		result.Value = []byte{}
	}
	if answer.Problem == nil {
		return result
	}
	attempts := []Attempt{{Node: node, Status: answer.Status, Err: errForeign}}
	problem, isProblem := parseProblem(answer.Problem)
	meaning := unknown
	if isProblem {
		attempts[0].Problem, attempts[0].Err = problem, nil
		meaning = problem.meaning(answer.Status)
	}
	switch {
	case isProblem && problem.Type == "no-such-entity":
		result.Err = ErrNotFound
	case meaning == conflict:
		result.Err = &ConflictError{Failure: failureOf(attempts, nil), Version: answer.Version}
		if answer.Version != 0 {
			result.Err.(*ConflictError).ETag = etagOf(answer.Version)
		}
	case meaning == refused:
		result.Err = &RefusedError{Failure: failureOf(attempts, nil), Type: problem.Type}
	case meaning == unknown && o.isWrite():
		result.Err = unknownOutcome(attempts, nil)
	default:
		result.Err = unavailable(attempts, nil)
	}
	return result
}

// readLine reads a line without its end. io.EOF says that the body has ended behind a line.
func readLine(reader *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		piece, err := reader.ReadSlice('\n')
		if err == nil && long == nil {
			return piece[:len(piece)-1], nil
		}
		long = append(long, piece...)
		switch {
		case len(long) > answerLineBytesMax:
			return nil, errForeign
		case err == nil:
			return long[:len(long)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(long) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}
